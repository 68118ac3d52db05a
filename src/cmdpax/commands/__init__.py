"""The commands, one file for each kind of user."""
