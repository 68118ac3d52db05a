"""Sparse matrices by rows, in the one form that compiled loops take: unsigned indices, everything
read-only.

SciPy's matrices check themselves whenever they are made, which takes longer than a product with a
thousand states: here they are made only where SciPy has the method that is wanted.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp


def readable(array: np.ndarray) -> np.ndarray:
    """A contiguous read-only view: numba compiles each loop once, not once more for arrays that may
    be written.
    """
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True)
class Rows:
    """A sparse matrix `[S, S]`; entry k of row s is at `pointers[s] <= k < pointers[s + 1]`."""

    pointers: np.ndarray  # [S + 1], uint32
    columns: np.ndarray  # [n], uint32
    entries: np.ndarray  # [n], float64

    @staticmethod
    def of(matrix: sp.csr_array) -> "Rows":
        """From SciPy's form."""
        return Rows(
            readable(matrix.indptr.astype(np.uint32)),
            readable(matrix.indices.astype(np.uint32)),
            readable(matrix.data),
        )

    @cached_property
    def matrix(self) -> sp.csr_array:
        """In SciPy's form `[S, S]`."""
        states = len(self.pointers) - 1
        kind = np.int32 if len(self.columns) <= np.iinfo(np.int32).max else np.int64
        parts = self.entries, self.columns.astype(kind), self.pointers.astype(kind)
        return sp.csr_array(parts, shape=(states, states))

    @property
    def parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Pointers, columns and entries."""
        return self.pointers, self.columns, self.entries
