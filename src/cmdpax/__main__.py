"""`python -m cmdpax` is the command line."""

from cmdpax.cli import main

main()
