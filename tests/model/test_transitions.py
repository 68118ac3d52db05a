"""Rows in their one form: matrix, tensor, tables, and sums by state."""

import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.model.transitions import Transitions, entries_of

DENSE = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])


def test_matrix_and_tensor_agree() -> None:
    rows = CMDP(DENSE, np.zeros((2, 2)), [], [], 0, 0.9).transitions
    np.testing.assert_array_equal(rows.matrix.toarray().reshape(2, 2, 2), DENSE)
    np.testing.assert_array_equal(rows.tensor, DENSE)


@pytest.mark.parametrize(
    ("shape", "is_small"),
    [((256, 4, 1), True), ((257, 1, 1), False), ((256, 61, 1), True), ((256, 62, 1), False)],
)
def test_small_models_have_few_dense_entries(shape: tuple[int, ...], is_small: bool) -> None:
    S, A, _ = shape
    zeros, pointers = np.zeros(S * A, dtype=np.int32), np.arange(S * A + 1, dtype=np.int32)
    first = np.arange(0, S * A + 1, A, dtype=np.int32)
    rows = Transitions(first, pointers, zeros, np.ones(S * A), A)
    assert rows.is_small == is_small


def test_numbers_by_choice_become_tables_and_sums() -> None:
    """State 0 has the actions 0 and 2, state 1 has action 1: three choices of six pairs."""
    mask = np.array([[True, False, True], [False, True, False]])
    model = CMDP(np.ones((2, 3, 2)) / 2, np.zeros((2, 3)), [], [], 0, 0.9, available=mask)
    rows, numbers = model.transitions, np.array([1.0, 2.0, 4.0])
    np.testing.assert_array_equal(rows.as_table(numbers), [[1, 0, 2], [0, 4, 0]])
    np.testing.assert_array_equal(rows.filled(numbers), [[1, 1, 2], [4, 4, 4]])
    np.testing.assert_array_equal(rows.sums(numbers), [3, 4])
    np.testing.assert_array_equal(rows.by_state(np.array([5.0, 7.0])), [5, 5, 7])
    np.testing.assert_array_equal(rows.uniform_policy(), [0.5, 0.5, 1])
    np.testing.assert_array_equal(rows.deterministic(np.array([1, 2])), [0, 1, 1])
    np.testing.assert_array_equal(rows.under(np.array([1, 2]), numbers), [2, 4])
    np.testing.assert_array_equal(rows.under(np.array([0.25, 0.75, 1]), numbers), [1.75, 4])
    table = np.array([[0.25, 0.25, 0.5], [0.5, 0.5, 0.0]])  # no pair (0, 1): it counts for (0, 0)
    np.testing.assert_array_equal(rows.by_choice(table), [0.5, 0.5, 1])


def test_entries_of_choices_in_another_order() -> None:
    """Choices 2 and 0 of three with 1, 2 and 3 entries; their entries are 3, 4, 5 and 0."""
    first_entry, entries = entries_of(np.array([3, 0]), np.array([3, 1]))
    np.testing.assert_array_equal(first_entry, [0, 3, 4])
    np.testing.assert_array_equal(entries, [3, 4, 5, 0])


def test_choices_of_entries_and_shapes_of_policies() -> None:
    rows = CMDP(DENSE, np.zeros((2, 2)), [], [], 0, 0.9).transitions
    np.testing.assert_array_equal(rows.entry_choices, [0, 0, 1, 2, 3, 3])
    assert rows.policy_shape == (2, 2)
    layers = CMDP(DENSE, np.zeros((2, 2)), [], [], 0, horizon=3).transitions
    assert layers.states == 8 and layers.policy_shape == (3, 2, 2)
