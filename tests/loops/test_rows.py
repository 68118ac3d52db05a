import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.loops.rows import Rows, readable


@given(st.integers(1, 12), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_there_and_back(states, density, seed):
    matrix = sp.csr_array(
        sp.random_array((states, states), density=density, rng=np.random.default_rng(seed))
    )
    rows = Rows.of(matrix)
    np.testing.assert_array_equal(rows.matrix.toarray(), matrix.toarray())
    pointers, columns, entries = rows.parts
    assert pointers.dtype == columns.dtype == np.uint32 and entries.dtype == np.float64
    for s in range(states):
        part = slice(int(pointers[s]), int(pointers[s + 1]))
        dense = np.zeros(states)
        dense[columns[part]] = entries[part]
        np.testing.assert_array_equal(dense, matrix.toarray()[s])


def test_rows_are_not_to_be_written_to():
    rows = Rows.of(sp.csr_array(np.eye(3)))
    for part in rows.parts:
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1
    own = np.arange(3.0)
    assert not readable(own).flags.writeable and own.flags.writeable
