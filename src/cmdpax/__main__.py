"""`python -m cmdpax` is the command line."""

import os
import sys

if sys.path[0] == os.getcwd():  # `python -m` puts it first, where its modules hide libraries
    del sys.path[0]

from cmdpax.cli.main import main

main()
