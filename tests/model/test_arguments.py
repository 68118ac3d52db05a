"""What users may write beside the rows; what is wrong in a model is said in `test_cmdp.py`."""

from typing import Any

import numpy as np
import pytest

from cmdpax import Grid, InputError
from cmdpax.model.arguments import (
    action_labels,
    add_at_the_end,
    by_choice,
    checked_grid,
    criterion_of,
    discount_factor,
    distribution,
    flag,
    goal_mask,
    labels,
)
from two_states import MASK, build


@pytest.mark.parametrize("initial", [1, "b", {"b": 1.0}, {1: 1.0}, np.int64(1)])
def test_the_initial_state_by_index_or_name(initial: Any) -> None:
    model = build(initial=initial, state_names=["a", "b"])
    assert model.initial.tolist() == [0.0, 1.0]


def test_actions_have_names_of_their_own_in_every_state() -> None:
    names = [["go"], ["stay", "leave"]]
    model = build(available=MASK, action_names=names)
    assert model.action_names == (("go",), ("stay", "leave"))
    assert model.action_labels == ("action 0", "action 1")
    assert build(action_names=["x", "y"]).action_labels == ("x", "y")


def test_the_initial_distribution_is_normalised() -> None:
    with pytest.warns(UserWarning, match="initial: the probabilities miss a sum of 1"):
        assert build(initial=[1 + 5e-9, 0.0]).initial.sum() == 1.0


def test_numbers_by_choice_are_of_pairs_of_choices_or_of_transitions() -> None:
    rows = build(available=MASK).transitions
    table = np.array([[7.0, 1.0], [2.0, 3.0]])
    expected = [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(by_choice("reward", table, rows, None), expected)
    np.testing.assert_array_equal(by_choice("reward", expected, rows, None), expected)
    paid = np.zeros((2, 2, 2))
    paid[1, 1] = [4.0, 8.0]
    np.testing.assert_array_equal(by_choice("reward", paid, rows, None), [0, 0, 0.25 * 4 + 6])
    with pytest.raises(InputError, match=r"reward: shape \(2,\), expected \(2, 2\), or \(3,\)"):
        by_choice("reward", [1.0, 2.0], rows, None)
    with pytest.raises(InputError, match="reward of state 1, action 0 is inf"):
        by_choice("reward", [0.0, np.inf, 0.0], rows, None)


def test_a_first_state_is_one_of_them_or_a_distribution() -> None:
    names = ["a", "b"]
    for initial in (1, "b", {"b": 1.0}, [0.0, 1.0]):
        np.testing.assert_array_equal(distribution(initial, 2, names), [0.0, 1.0])
    np.testing.assert_array_equal(distribution({0: 0.25, "b": 0.75}, 2, names), [0.25, 0.75])
    for initial, sentence in (
        (2, "state 2 is out of range"),
        ("c", "'c' is no state"),
        ({0: 0.5}, "sum to 0.5, not 1"),
        ([1.5, -0.5], r"initial\[1\] is -0.5; probabilities may not be negative"),
        ([1.0], r"shape \(1,\), expected \(2,\)"),
        (None, "initial: None is no state"),
    ):
        with pytest.raises(InputError, match=sentence):
            distribution(initial, 2, names)


@pytest.mark.parametrize("goal", [1, "b", ["b"], [False, True], np.array([False, True]), {1}])
def test_a_goal_is_a_mask_or_names_states(goal: Any) -> None:
    np.testing.assert_array_equal(goal_mask(goal, 2, ["a", "b"]), [False, True])
    with pytest.raises(InputError, match="state 1 is listed twice"):
        goal_mask([0, 1, 1], 2, None)
    with pytest.raises(InputError, match="the name of 2 states"):
        goal_mask("a", 2, ["a", "a"])


def test_what_is_added_up_follows_from_discount_and_horizon() -> None:
    assert criterion_of(None, 0.9, None) == ("discounted", 0.9)
    assert criterion_of(None, 1, None) == ("total", 1.0)
    assert criterion_of(None, None, 5) == ("finite", 1.0)
    assert criterion_of("average", None, None) == ("average", 1.0)
    for words, sentence in (
        ((None, None, None), "discount: give it"),
        (("average", 0.9, None), "an average has no discount"),
        (("total", 0.9, None), "'total' does not go with discount 0.9"),
        (("finite", 1, None), "'finite' does not go with discount 1"),
        (("mean", 0.9, None), "criterion: 'mean' is unknown"),
    ):
        with pytest.raises(InputError, match=sentence):
            criterion_of(*words)


def test_a_discount_is_one_number() -> None:
    assert discount_factor(np.array(0.5)) == 0.5
    for discount, sentence in (
        (1.5, "discount is 1.5; it must be between 0 and 1"),
        ("0.9", "discount: a str, expected one number"),
        (np.ones(2), r"discount: an array of shape \(2,\)"),
    ):
        with pytest.raises(InputError, match=sentence):
            discount_factor(discount)


def test_flags_and_labels() -> None:
    assert flag("minimise", np.True_) is True
    with pytest.raises(InputError, match="minimise is 1; it must be True or False"):
        flag("minimise", 1)
    assert labels("state_names", None, 2) is None
    assert labels("state_names", np.array([3, 4]), 2) == ("3", "4")
    for names, sentence in (
        ("ab", "'ab' is not a list"),
        (["a"], "1 names for 2"),
        (["a", "\ud800"], r"state_names\[1\]: .* half a surrogate pair"),
    ):
        with pytest.raises(InputError, match=sentence):
            labels("state_names", names, 2)
    rows = build(available=MASK).transitions
    assert action_labels([["go"], ["stay", "leave"]], rows) == (("go",), ("stay", "leave"))
    with pytest.raises(InputError, match=r"action_names\[0\]: 2 names for 1"):
        action_labels([["go", "on"], ["stay", "leave"]], rows)


def test_payments_at_the_end_are_earned_by_the_last_step() -> None:
    """In the mean of where it leads, times the discount."""
    rows = build(horizon=2).transitions
    earned = np.zeros((1, rows.choices))
    add_at_the_end("terminal_constraints", [[8, 4]], earned, rows, 0.5)
    np.testing.assert_array_equal(earned, [[0, 0, 0, 0, 3.0, 2.0, 4.0, 2.5, 0, 0]])
    add_at_the_end("terminal_constraints", None, earned, rows, 0.5)
    with pytest.raises(InputError, match=r"expected \(1, 2\) finite numbers"):
        add_at_the_end("terminal_constraints", [1.0, 2.0], earned, rows, 0.5)


ROW = Grid(((0.0, 0.0), (1.0, 0.0)), ((1.0, 0.0),), goals=(1,))


def test_a_drawing_fits_its_model():
    assert checked_grid(ROW, 2, 1) is ROW and checked_grid(None, 2, 1) is None


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        ("square", r"it must be a cmdpax\.Grid"),
        (Grid(ROW.cells[:1], ROW.moves), "1 cells and 1 moves; the model has 2 and 1"),
        (Grid(ROW.cells, ()), "2 cells and 0 moves; the model has 2 and 1"),
        (Grid(ROW.cells, ROW.moves, absorbing=(2,)), "2 cells and 1 moves; the model has 2 and 1"),
    ],
)
def test_what_does_not_fit_is_refused(grid, sentence):
    with pytest.raises(InputError, match=sentence):
        checked_grid(grid, 2, 1)
