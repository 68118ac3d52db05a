"""Policy classes: how a target policy is projected onto what the class can represent."""
