import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.loops.rows import Matrix
from models import uneven


@given(st.integers(1, 40), st.integers(0, 999))
def test_blocks_are_parts_of_the_whole(states, seed):
    rows = uneven(states, seed).transitions
    whole, rng = rows.rows(0, states), np.random.default_rng(seed)
    first, last = sorted(rng.integers(0, states + 1, 2).tolist())
    block = rows.rows(first, last)
    np.testing.assert_array_equal(block.first_choice, whole.first_choice[first : last + 1])
    for k in range(int(block.first_choice[0]), int(block.first_choice[-1])):
        j = k - int(block.first_choice[0])
        own = slice(*(block.first_entry[j : j + 2] - block.first_entry[0]).tolist())
        theirs = slice(*whole.first_entry[k : k + 2].tolist())
        np.testing.assert_array_equal(block.successors[own], whole.successors[theirs])
        np.testing.assert_array_equal(block.probabilities[own], whole.probabilities[theirs])


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_rows_from_scipy_and_back(states, density, seed):
    matrix = sp.csr_array(
        sp.random_array((states, states), density=density, rng=np.random.default_rng(seed))
    )
    rows = Matrix.of(matrix)
    np.testing.assert_array_equal(rows.matrix.toarray(), matrix.toarray())
    pointers, columns, entries = rows.parts
    assert pointers.dtype == columns.dtype == np.uint32 and entries.dtype == np.float64
    for s in range(states):
        part = slice(int(pointers[s]), int(pointers[s + 1]))
        dense = np.zeros(states)
        dense[columns[part]] = entries[part]
        np.testing.assert_array_equal(dense, matrix.toarray()[s])


def test_rows_are_not_to_be_written_to():
    for part in Matrix.of(sp.csr_array(np.eye(3))).parts:
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1
