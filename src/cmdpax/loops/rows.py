"""What are the rows of a model, and those of the chain that a policy makes of it?

A model has choices, numbered through: those of state s are `first_choice[s] ..
first_choice[s + 1] - 1`. A choice has entries, its successors with their probabilities. Nothing is
padded. Whoever has rows, as arrays or otherwise, hands them out in blocks of states,
`rows(first, last)`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from cmdpax.loops.compiled import Array, readable


class Block(NamedTuple):
    """Rows of n states with k choices and e entries, read-only.

    Choices have their numbers in the whole model. Entries may be counted from anywhere: those of
    choice j of the block begin at `first_entry[j] - first_entry[0]`.
    """

    first_choice: Array  # [n + 1] uint32
    first_entry: Array  # [k + 1] uint32
    successors: Array  # [e] uint32
    probabilities: Array  # [e] float64


class Rows(Protocol):
    """Who has the rows of a model."""

    @property
    def states(self) -> int:
        """Number of states S."""

    @property
    def choices(self) -> int:
        """Number of choices K."""

    def rows(self, first: int, last: int) -> Block:
        """The rows of the states `first .. last - 1`."""


@dataclass(frozen=True)
class RowArrays:
    """`Rows` of whole arrays, whose entries are counted from 0."""

    whole: Block

    @property
    def states(self) -> int:
        """Number of states S."""
        return len(self.whole.first_choice) - 1

    @property
    def choices(self) -> int:
        """Number of choices K."""
        return len(self.whole.first_entry) - 1

    def rows(self, first: int, last: int) -> Block:
        """The rows of the states `first .. last - 1`, without a copy."""
        if (first, last) == (0, self.states):
            return self.whole
        first_choice, first_entry, successors, probabilities = self.whole
        k, n = first_choice[first], first_choice[last]
        entries = slice(first_entry[k], first_entry[n])
        pointers = first_choice[first : last + 1], first_entry[k : n + 1]
        return Block(*pointers, successors[entries], probabilities[entries])


@dataclass(frozen=True)
class Matrix:
    """A sparse matrix `[n, S]`; entry k of row s is at `pointers[s] <= k < pointers[s + 1]`.

    All three are read-only. SciPy's matrices check themselves when they are made, which takes
    longer than a product with a thousand states: `matrix` makes one only where it is needed.
    """

    pointers: Array  # [n + 1], uint32
    columns: Array  # [e], uint32
    entries: Array  # [e], float64

    @staticmethod
    def of(matrix: sp.csr_array) -> "Matrix":
        """From SciPy's form."""
        pointers, columns = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
        return Matrix(readable(pointers), readable(columns), readable(matrix.data))

    @cached_property
    def matrix(self) -> sp.csr_array:
        """A square one in SciPy's form `[S, S]`."""
        states = len(self.pointers) - 1
        kind = np.int32 if len(self.columns) <= np.iinfo(np.int32).max else np.int64
        parts = self.entries, self.columns.astype(kind), self.pointers.astype(kind)
        return sp.csr_array(parts, shape=(states, states))

    @property
    def parts(self) -> tuple[Array, Array, Array]:
        """Pointers, columns and entries."""
        return self.pointers, self.columns, self.entries
