"""`python -m cmdpax` is the command line."""

from cmdpax.cli.main import main

main()
