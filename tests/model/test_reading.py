"""Every form of transitions gives the same rows: arrays, sparse matrices, lists, functions;
and every bad one gets one clear sentence.
"""

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, InputError, solve
from cmdpax.model.numbers import ROW_SUM_TOLERANCE
from cmdpax.model.reading import RowLists
from cmdpax.model.transitions import Transitions

DENSE = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
ONES = np.ones((2, 2, 1))
seeds = st.integers(0, 2**32 - 1)


def model_of(transitions: Any, **changes: Any) -> CMDP:
    """Two states, two actions, no constraints."""
    fields: dict[str, Any] = {
        "transitions": transitions,
        "reward": np.zeros((2, 2)),
        "constraints": [],
        "thresholds": [],
        "initial": [1.0, 0.0],
        "discount": 0.9,
    }
    return CMDP(**{**fields, **changes})


def random_tensor(seed: int, states: int = 4, actions: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    tensor = rng.random((states, actions, states)) * (rng.random((states, actions, states)) < 0.6)
    tensor[..., 0] += tensor.sum(-1) == 0
    return tensor / tensor.sum(-1, keepdims=True)


def assert_equal_rows(one: Transitions, other: Transitions) -> None:
    for name in ("first_choice", "first_entry", "successors", "probabilities", "action_of"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


# ---- one form
@given(seeds)
def test_every_form_of_transitions_gives_the_same_model(seed: int) -> None:
    dense, rng = random_tensor(seed), np.random.default_rng(seed)
    S, A, _ = dense.shape
    parts = {"reward": np.zeros((S, A)), "initial": np.full(S, 1 / S)}
    model = model_of(dense, **parts)
    shuffled = rng.permuted(np.broadcast_to(np.arange(S), dense.shape), axis=-1)
    unordered = (shuffled, np.take_along_axis(dense, shuffled, -1))
    padded = np.broadcast_to(np.arange(S), dense.shape).copy(), dense
    fortran = np.asfortranarray(padded[0].astype(np.int64))
    rows, pairs = model.transitions, [[dict(enumerate(row)) for row in own] for own in dense]
    others = {
        "lists": dense.tolist(),
        "sparse": [sp.csr_array(dense[:, a]) for a in range(A)],
        "sparse, one below another": sp.coo_array(dense.reshape(S * A, S)),
        "sparse of another kind": tuple(sp.coo_matrix(dense[:, a]) for a in range(A)),
        "dense, one below another": dense.reshape(S * A, S),
        "A matrices": dense.transpose(1, 0, 2),
        "objects": np.array([sp.csr_array(dense[:, a]) for a in range(A)] + [None])[:-1],
        "padded": padded,
        "padded, in any order and with unused places": unordered,
        "padded, Fortran order": (fortran, np.asfortranarray(dense)),
        "mappings": pairs,
        "of another model": model.transitions,
    }
    for form, transitions in others.items():
        other = model_of(transitions, **parts)
        assert other.digest == model.digest, form
        assert_equal_rows(other.transitions, rows)
    choices = {
        "sparse": sp.csr_array(dense.reshape(S * A, S)),
        "dense": dense.reshape(S * A, S),
        "lists": tuple(part.reshape(S * A, S) for part in padded),
        "rows": RowLists(rows.first_entry, rows.successors, rows.probabilities),
    }
    for form, transitions in choices.items():
        first = np.arange(0, S * A + 1, A)
        other = model_of(transitions, first_choice=first, **parts)
        assert other.digest == model.digest, form
        assert_equal_rows(other.transitions, rows)
    np.testing.assert_allclose(model.transitions.tensor, dense, atol=1e-15)


UNEVEN: dict[str, Any] = {
    "transitions": [[{0: 0.5, 1: 0.5}, {1: 1.0}, {0: 1.0}], [{1: 1.0}]],
    "reward": [1.0, 2.0, 3.0, 4.0],
}


def test_states_may_have_different_numbers_of_choices() -> None:
    model = model_of(**UNEVEN)
    rows = model.transitions
    assert (model.states, model.choices, model.actions) == (2, 4, 3)
    assert rows.first_choice.tolist() == [0, 3, 4]
    assert rows.first_entry.tolist() == [0, 2, 3, 4, 5]
    np.testing.assert_array_equal(model.as_table(model.reward), [[1.0, 2.0, 3.0], [4.0, 0, 0]])
    matrix = sp.csr_array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    rewards = {"reward": UNEVEN["reward"], "first_choice": [0, 3, 4]}
    by_rows = model_of(matrix, **rewards)
    assert by_rows.digest == model.digest
    table = [[1.0, 2.0, 3.0], [4.0, np.nan, np.nan]]
    mask = [[True, True, True], [True, False, False]]
    dense = np.stack([np.array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0]]), np.full((3, 2), np.nan)])
    dense[1, 0] = [0.0, 1.0]
    assert model_of(dense, reward=table, available=mask).digest == model.digest
    named = model_of(
        matrix, **rewards, available=[[True, False, True, True], [False, True, False, False]]
    )
    assert named.actions == 4 and named.transitions.action_of.tolist() == [0, 2, 3, 1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"first_choice": [0, 3]}, r"first_choice: shape \(2,\) of int64, expected 3 integers"),
        ({"first_choice": [0.0, 3, 4]}, r"first_choice: shape \(3,\) of float64, expected 3 int"),
        ({"first_choice": [0, 5, 4]}, r"first_choice: it falls after entry 1; it must rise from"),
        ({"first_choice": [1, 3, 4]}, r"first_choice: it runs from 1 to 4; it must rise from 0 t"),
        ({"first_choice": [0, 3, 5]}, r"first_choice: it runs from 0 to 5; it must rise from 0 t"),
        ({"first_choice": [0, 4, 4]}, r"transitions, state 1: the action set is empty; every"),
        ({"reward": [1.0, 2.0]}, r"reward: shape \(2,\), expected \(2, 3\), or \(4,\) by choice"),
        ({"reward": [0, 0, 0, np.inf]}, r"reward of state 1, action 0 is inf; every entry must"),
        (
            {"available": [[True, True, False], [True, False, False]]},
            r"available\[0\] marks 2 actions for 3 choices",
        ),
    ],
)
def test_uneven_rows_that_do_not_fit_get_one_sentence(changes: Any, sentence: str) -> None:
    matrix = sp.csr_array([[0.5, 0.5], [0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    fields = {"reward": UNEVEN["reward"], "first_choice": [0, 3, 4], **changes}
    with pytest.raises(InputError, match=sentence):
        model_of(matrix, **fields)


def test_rows_are_refused_by_state_and_action() -> None:
    matrix = sp.csr_array([[0.5, 0.5], [0.0, 1.0], [0.5, 0.0], [0.0, 1.0]])
    with pytest.raises(InputError, match=r"of state 0, action 2 sum to 0\.5, not 1; normalise"):
        model_of(matrix, reward=np.zeros(4), first_choice=[0, 3, 4])
    with pytest.raises(InputError, match=r"state 0, choice 0: 'a' is not the number of a state"):
        model_of([[{"a": 1.0}], [{0: 1.0}]], reward=np.zeros(2))


# ---- goals
@pytest.mark.parametrize("goal", [1, "end", [1], ["end"], np.array([False, True]), [False, True]])
def test_a_goal_is_absorbing_and_pays_nothing(goal: Any) -> None:
    """By mask, index or name; what stands in its rows is not looked at."""
    dense, names = DENSE.copy(), {"state_names": ["start", "end"]}
    dense[1] = np.nan
    reward = np.array([[1.0, 2.0], [np.nan, 5.0]])
    model = model_of(dense, reward=reward, goal=goal, **names)
    assert model.first_choice.tolist() == [0, 2, 3]
    np.testing.assert_array_equal(model.transitions.matrix.toarray()[2], [0.0, 1.0])
    np.testing.assert_array_equal(model.reward, [1.0, 2.0, 0.0])
    again = model_of(DENSE, reward=[[1.0, 2.0], [3.0, 5.0]], **names).replace(goal=goal)
    assert again.digest == model.digest
    bare = sp.csr_array(DENSE[0])  # a goal may have no row at all
    parts = {"reward": [1.0, 2.0], "first_choice": [0, 2, 2], **names}
    assert model_of(bare, goal=goal, **parts).digest == model.digest


@pytest.mark.parametrize(
    ("goal", "sentence"),
    [
        ("edn", r"goal: 'edn' is no state; did you mean 'end'\?"),
        (2, r"goal: state 2 is out of range; states are 0\.\.1"),
        (1.5, r"goal: 1\.5 is neither the index nor the name of a state"),
        ([True], r"goal: a mask of shape \(1,\), expected \(2,\)"),
    ],
)
def test_goals_that_are_none(goal: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model_of(DENSE, goal=goal, state_names=["start", "end"])


def test_successors_that_occur_twice_are_merged() -> None:
    twice = (
        np.array([[[1, 0, 1]], [[0, 0, 0]]]),
        np.array([[[0.25, 0.5, 0.25]], [[0.5, 0.0, 0.5]]]),
    )
    model = model_of(twice, reward=np.zeros((2, 1)))
    assert model.transitions.first_entry.tolist() == [0, 2, 3]
    assert model.transitions.successors.tolist() == [0, 1, 0]
    assert model.transitions.probabilities.tolist() == [0.5, 0.5, 1.0]
    entries = sp.coo_array(([0.5, 0.5, 0.5, 0.5], ([0, 0, 1, 1], [0, 0, 1, 1])), shape=(2, 2))
    for form in (entries, [entries]):
        model = model_of(form, reward=np.zeros((2, 1)))
        assert model.transitions.successors.tolist() == [0, 1]
        assert model.transitions.probabilities.tolist() == [1.0, 1.0]


def test_the_caller_s_arrays_are_copied_and_rows_are_read_only() -> None:
    successors, probabilities = np.zeros((2, 2, 1), dtype=np.int32), ONES.copy()
    rows = model_of((successors, probabilities)).transitions
    matrix = sp.csr_array(DENSE.reshape(4, 2))
    others = model_of(matrix).transitions
    successors[:], probabilities[:] = 1, 7.0
    matrix.data[:], matrix.indices[:], matrix.indptr[:] = 7.0, 1, 0
    assert rows.successors.max() == 0 and rows.probabilities.max() == 1.0
    np.testing.assert_array_equal(others.tensor, DENSE)
    for array in (rows.first_choice, rows.first_entry, rows.successors, rows.probabilities):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_read_only_rows_in_their_one_form_are_not_copied() -> None:
    """Those of a memory-mapped file, of any size."""
    rows = model_of(DENSE).transitions
    lists = RowLists(rows.first_entry, rows.successors, rows.probabilities)
    again = model_of(lists, first_choice=rows.first_choice).transitions
    assert np.shares_memory(again.successors, rows.successors)
    assert np.shares_memory(again.probabilities, rows.probabilities)


# ---- available actions
MASK = [[False, True], [True, True]]


def test_unavailable_actions_do_not_exist() -> None:
    rows = model_of(DENSE, available=MASK).transitions
    np.testing.assert_array_equal(rows.tensor, [[[0.0, 0.0], DENSE[0, 1]], DENSE[1]])
    assert rows.choices == 3 and rows.action_of.tolist() == [1, 0, 1]
    assert rows.state_of.tolist() == [0, 1, 1]


def test_what_stands_in_unavailable_pairs_does_not_matter() -> None:
    model, dense = model_of(DENSE, available=MASK), DENSE.copy()
    for garbage in (np.nan, np.inf, -1.0, 3.0):
        dense[0, 0] = garbage
        assert model_of(dense, available=MASK).digest == model.digest
    successors = np.broadcast_to([0, 1], DENSE.shape).copy()
    successors[0, 0] = 99
    assert model_of((successors, DENSE), available=MASK).digest == model.digest


# ---- sums that miss 1
def test_float32_rows_are_divided_by_their_sums_once_and_aloud():
    rough = np.random.default_rng(0).random((40, 3, 40)).astype(np.float32)
    rough /= rough.sum(-1, keepdims=True)
    sums = rough.astype(np.float64).sum(-1)
    missed = np.abs(sums - 1).max()
    assert missed > 1e-8
    with pytest.warns(UserWarning, match=r"choices miss a sum of 1, by up to .*e-0[78]; they are"):
        model = CMDP(rough, np.zeros((40, 3)), [], [], 0, 0.9)
    exact = rough.astype(np.float64) / sums[..., None]
    np.testing.assert_allclose(model.transitions.tensor, exact, rtol=1e-15)
    assert model.transitions.missed == pytest.approx(missed, rel=1e-6)
    with warnings.catch_warnings():  # once: what was divided is not divided again
        warnings.simplefilter("error")
        again = CMDP(model.transitions.tensor, np.zeros((40, 3)), [], [], 0, 0.9)
    assert again.digest == model.digest


def test_the_tolerance_is_the_stated_one():
    off = np.array([[[0.5, 0.5 - 0.9 * ROW_SUM_TOLERANCE]], [[0.0, 1.0]]])
    with pytest.warns(UserWarning, match="9e-06"):
        CMDP(off, np.zeros((2, 1)), [], [], 0, 0.9)
    off[0, 0, 1] = 0.5 - 1.1 * ROW_SUM_TOLERANCE
    sentence = r"state 0, action 0 sum to 0\.999989, not 1; normalise them \(within 1e-05"
    with pytest.raises(InputError, match=sentence):
        CMDP(off, np.zeros((2, 1)), [], [], 0, 0.9)
    with pytest.warns(UserWarning, match="initial: the probabilities miss a sum of 1, by up to 2e"):
        CMDP(np.ones((1, 1, 1)), [[0.0]], [], [], [1 + 2e-6], 0.9)


# ---- one sentence for everything that is wrong
def changed(where: tuple[int, ...], value: float, array: Any = DENSE) -> np.ndarray:
    copy = np.array(array, dtype=np.float64)
    copy[where] = value
    return copy


BAD: dict[str, tuple[Any, str]] = {
    "row sum": (changed((1, 0, 0), 0.9), r"of state 1, action 0 sum to 0\.9, not 1; normalise"),
    "row sums": (DENSE * 2, r"of state 0, action 0 sum to 2, not 1 \(3 more pairs too\);"),
    "row sum overflows": (DENSE * 1.7e308 * 1.05, r"action 0 sum to 1\.\d+e\+308, not 1"),
    "NaN": (changed((0, 1, 1), np.nan), r"state 0, action 1, successor 1 is nan; every entry"),
    "negative": (
        changed((0, 0, 0), -0.5, changed((0, 0, 1), 1.5)),
        r"successor 0 is -0\.5; none may be negative",
    ),
    "not square": (np.ones((2, 2, 3)) / 3, r"shape \(2, 2, 3\), expected \[S, A, S\]"),
    "one axis": (np.ones(2), r"transitions: shape \(2,\), expected \[S, A, S\]"),
    "two axes": (np.ones((3, 2)) / 2, r"transitions: shape \(3, 2\), expected \[S, A, S\]"),
    "no states": (np.zeros((0, 2, 0)), r"the model has no states; give at least one\."),
    "no actions": (np.zeros((2, 0, 2)), r"the action set is empty; every state needs at least one"),
    "empty list": ([], r"transitions: shape \(0,\), expected \[S, A, S\]"),
    "no sparse states": ([sp.csr_array((0, 0))], r"transitions: the model has no states"),
    "sparse shapes": (
        [sp.eye_array(2), sp.eye_array(3)],
        r"transitions\[1\]: expected a sparse matrix \(2, 2\) as others",
    ),
    "one sparse matrix": (
        sp.csr_array((2, 3)),
        r"shape \(2, 3\), expected .* one \[S\*A, S\], or for every state a list",
    ),
    "one complex sparse matrix": (sp.eye_array(2) * 1j, r"real numbers, not complex128"),
    "sparse and dense": ([sp.eye_array(2), np.eye(2)], r"transitions\[1\]: expected a sparse"),
    "dense and sparse": ([np.eye(2), sp.eye_array(2)], r"transitions\[0\]: expected a sparse"),
    "no rows": (sp.csr_array((0, 2)), r"the action set is empty; every state needs at least one"),
    "no lists": ((np.zeros((0, 2, 1), int), np.zeros((0, 2, 1))), r"the model has no states"),
    "complex sparse": ([sp.eye_array(2) * 1j] * 2, r"real numbers, not complex128"),
    "padded shapes": (
        (np.zeros((2, 2, 1), int), np.ones((2, 2))),
        r"successors \(2, 2, 1\) and probabilities \(2, 2\) must",
    ),
    "float successors": ((ONES, ONES), r"successors must be integers, not float64"),
    "out of range": (
        (np.full((2, 2, 1), 2), ONES),
        r"successor 2 of state 0, action 0 is out of range; states are 0\.\.1",
    ),
    "far out of range": (
        (np.full((2, 2, 1), 2**32), ONES),
        r"successor 4294967296 of state 0, action 0",
    ),
    "below range": ((np.full((2, 2, 1), -1), ONES), r"successor -1 of state 0, action 0 is out of"),
    "no places": (
        (np.zeros((2, 2, 0), int), np.zeros((2, 2, 0))),
        r"of state 0, action 0 sum to 0, not 1",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_transitions_get_one_clear_sentence(name: str) -> None:
    transitions, sentence = BAD[name]
    with pytest.raises(InputError, match=sentence) as caught:
        model_of(transitions)
    assert str(caught.value).startswith("transitions") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("available", "sentence"),
    [
        ([[True, True], [False, False]], r"available\[1\]: the action set is empty; every state"),
        ([[1, 1], [1, 1]], r"available: shape \(2, 2\) of int64, expected \(2, 2\) of bool"),
        ([True, True], r"available: shape \(2,\) of bool, expected \(2, 2\) of bool"),
    ],
)
def test_bad_masks(available: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        model_of(DENSE, available=available)


def test_one_long_row_does_not_widen_the_others() -> None:
    """Padded to all 60,000 successors of one state, every row would take 720 kB."""
    wide = sp.lil_array((60_000, 60_000))
    wide[0] = 1 / 60_000
    wide[1:, 0] = np.ones((59_999, 1))
    rows = CMDP([wide], np.zeros((60_000, 1)), [], [], 0, 0.9).transitions
    assert (len(rows.successors), rows.longest) == (119_999, 60_000)


def test_a_cube_is_read_aloud():
    """`[A, S, S]` with S = A cannot be told from `[S, A, S]`: the model says how it was read."""
    P = np.random.default_rng(0).dirichlet(np.ones(3), (3, 3))
    parts = {"reward": np.zeros((3, 3)), "initial": 0}
    model = model_of(P, **parts)
    assert any("read as [S, A, S]" in note for note in model.notes)
    assert any("read as [S, A, S]" in note for note in solve(model).notes)
    assert len(model.replace(initial=1).notes) == 1
    by_action = CMDP.from_mdptoolbox(P, np.zeros((3, 3)), initial=0, discount=0.9)
    assert not by_action.notes and by_action.digest != model.digest
    for other in (P[:, :2], P.tolist(), list(P), np.full((3, 3, 3), 1 / 3)):  # not ambiguous
        reward = np.zeros((3, 2 if np.shape(other)[1] == 2 else 3))
        assert not model_of(other, **{**parts, "reward": reward}).notes
