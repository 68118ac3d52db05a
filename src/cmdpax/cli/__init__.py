"""The command line, with one thread of BLAS: on small arrays several wait more than they work."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before anybody imports NumPy
