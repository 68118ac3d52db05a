"""The model: every form of input gives the same arrays, and every bad input gets one clear
sentence.
"""

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, Grid, InputError
from cmdpax.exact.discounted import evaluate

# two states, two actions, one constraint: small enough to check by hand
DENSE = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
GOOD: dict[str, Any] = {
    "transitions": DENSE,
    "reward": [[1.0, 2.0], [0.0, 3.0]],
    "constraints": [[[1.0, 0.0], [0.0, 1.0]]],
    "thresholds": [2.0],
    "initial": [1.0, 0.0],
    "discount": 0.9,
}


def build(**changes: Any) -> CMDP:
    return CMDP(**{**GOOD, **changes})


def random_parts(seed: int, states: int = 4, actions: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    tensor = rng.random((states, actions, states)) * (rng.random((states, actions, states)) < 0.6)
    tensor[..., 0] += tensor.sum(-1) == 0
    return {
        "transitions": tensor / tensor.sum(-1, keepdims=True),
        "reward": rng.normal(size=(states, actions)),
        "constraints": rng.normal(size=(2, states, actions)),
        "thresholds": rng.normal(size=2),
        "initial": rng.dirichlet(np.ones(states)),
        "discount": 0.9,
    }


# ---- forms of input
# ---------------------------------------------------------------------------------------------------
seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_every_form_of_transitions_gives_the_same_model(seed: int) -> None:
    parts = random_parts(seed)
    dense = parts.pop("transitions")
    rng = np.random.default_rng(seed)
    model = CMDP(dense, **parts)
    S, A, _ = dense.shape
    shuffled = rng.permuted(np.broadcast_to(np.arange(S), dense.shape), axis=-1)
    others = {
        "lists": dense.tolist(),
        "sparse": [sp.csr_array(dense[:, a]) for a in range(A)],
        "sparse, one below another": sp.coo_array(dense.reshape(S * A, S)),
        "sparse of another kind": tuple(sp.coo_matrix(dense[:, a]) for a in range(A)),
        "padded": (model.successors, model.probabilities),
        "padded, in any order and with unused places": (
            shuffled,
            np.take_along_axis(dense, shuffled, -1),
        ),
        "padded, Fortran order": (
            np.asfortranarray(model.successors.astype(np.int64)),
            np.asfortranarray(model.probabilities),
        ),
    }
    for form, transitions in others.items():
        assert CMDP(transitions, **parts).digest == model.digest, form
    np.testing.assert_allclose(model.tensor, dense, atol=1e-15)


@given(seeds)
def test_normalising_is_idempotent(seed: int) -> None:
    """Otherwise a model would change every time it is copied or saved."""
    parts = random_parts(seed, states=7)
    model = CMDP(**parts)
    assert model.replace().digest == model.digest


def test_successors_that_occur_twice_are_merged() -> None:
    twice = (
        np.array([[[1, 0, 1]], [[0, 0, 0]]]),
        np.array([[[0.25, 0.5, 0.25]], [[0.5, 0.0, 0.5]]]),
    )
    model = CMDP(twice, np.zeros((2, 1)), np.zeros((0, 2, 1)), [], [1.0, 0.0], 0.5)
    np.testing.assert_array_equal(model.successors, [[[0, 1]], [[0, 0]]])
    np.testing.assert_array_equal(model.probabilities, [[[0.5, 0.5]], [[1.0, 0.0]]])


def test_one_constraint_may_come_without_its_axis() -> None:
    assert build(constraints=GOOD["constraints"][0], thresholds=2.0).digest == build().digest


def test_a_model_may_have_no_constraints() -> None:
    model = build(constraints=[], thresholds=[])
    assert (model.constraint_count, model.constraints.shape, model.senses) == (0, (0, 2, 2), ())


def test_rows_within_the_tolerance_are_normalised() -> None:
    model = build(transitions=DENSE * (1 + 5e-9), initial=[1 + 5e-9, 0.0])
    np.testing.assert_allclose(model.probabilities.sum(-1), 1.0, atol=1e-15)
    assert model.initial.sum() == 1.0


def test_digest_is_of_the_mathematics_not_of_the_labels() -> None:
    named = build(state_names=["a", "b"], action_names=["x", "y"], constraint_names=["c"])
    assert named.digest == build().digest
    for change in (
        {"discount": 0.8},
        {"thresholds": [2.5]},
        {"initial": [0.5, 0.5]},
        {"reward": np.zeros((2, 2))},
    ):
        assert build(**change).digest != build().digest
    assert build(reward=np.full((2, 2), -0.0)).digest == build(reward=np.zeros((2, 2))).digest


# ---- senses, immutability, copies
# -------------------------------------------------------------------------------------
def test_at_most_is_normalised_to_at_least() -> None:
    cost = np.array([[1.0, 0.0], [0.0, 1.0]])
    model = build(constraints=[cost, cost], thresholds=[2.0, 1.0], senses=["<=", ">="])
    assert model.senses == ("<=", ">=")
    np.testing.assert_array_equal(model.constraints, [-cost, cost])
    np.testing.assert_array_equal(model.thresholds, [-2.0, 1.0])
    assert not np.signbit(model.constraints[0, 0, 1])  # no -0.0
    negated = build(constraints=[-cost, cost], thresholds=[-2.0, 1.0])
    assert negated.digest == model.digest
    assert build(senses="<=").senses == ("<=",)


@pytest.mark.parametrize(
    "field",
    ["successors", "probabilities", "reward", "constraints", "thresholds", "initial", "reachable"],
)
def test_arrays_are_read_only(field: str) -> None:
    with pytest.raises(ValueError, match="read-only"):
        getattr(build(), field)[0] = 0


def test_fields_cannot_be_set() -> None:
    with pytest.raises(AttributeError, match=r"immutable; use model\.replace\(discount=\.\.\.\)"):
        build().discount = 0.5


def test_the_caller_s_arrays_are_copied() -> None:
    reward, probabilities = np.ones((2, 2)), np.ones((2, 2, 1))
    model = build(transitions=(np.zeros((2, 2, 1), dtype=int), probabilities), reward=reward)
    reward[:], probabilities[:] = 7.0, 7.0
    assert model.reward.max() == model.probabilities.max() == 1.0


def test_replace_keeps_the_rest() -> None:
    grid = Grid(((0.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 0.0)), goals=(1,))
    model = build(
        senses="<=",
        state_names=["a", "b"],
        constraint_names=["energy"],
        available=[[True, False], [True, True]],
        grid=grid,
    )
    copy = model.replace(discount=0.5)
    assert copy.discount == 0.5
    assert (copy.senses, copy.state_names, copy.constraint_names, copy.grid) == (
        ("<=",),
        ("a", "b"),
        ("energy",),
        grid,
    )
    np.testing.assert_array_equal(copy.available, model.available)
    assert copy.replace(discount=0.9).digest == model.digest
    assert (
        model.replace(senses=["<="]).digest == model.digest
    )  # what is not changed stays what it is
    larger = model.replace(
        thresholds=[7.0], senses=["<="]
    )  # with senses, what is changed is in the caller's orientation
    np.testing.assert_array_equal(larger.thresholds, [-7.0])
    np.testing.assert_array_equal(larger.constraints, model.constraints)


# ---- available actions
# ------------------------------------------------------------------------------------------------
def masked() -> CMDP:
    return build(
        available=[[False, True], [True, True]],
        transitions=DENSE,
        reward=[[np.nan, 2.0], [0.0, 3.0]],
    )


def test_unavailable_actions_copy_the_first_available_one() -> None:
    model = masked()
    assert model.reward[0, 0] == model.reward[0, 1] == 2.0
    assert model.constraints[0, 0, 0] == model.constraints[0, 0, 1]
    np.testing.assert_array_equal(model.tensor[0, 0], model.tensor[0, 1])
    np.testing.assert_array_equal(model.uniform_policy(), [[0.0, 1.0], [0.5, 0.5]])


def test_what_stands_in_unavailable_pairs_does_not_matter() -> None:
    dense = DENSE.copy()
    dense[0, 0] = np.nan
    constraints = np.array(GOOD["constraints"])
    constraints[:, 0, 0] = np.inf
    mask = [[False, True], [True, True]]
    garbage = build(transitions=dense, available=mask, constraints=constraints)
    assert garbage.digest == build(available=mask).digest == masked().digest
    successors, probabilities = (
        np.array(part) for part in (masked().successors, masked().probabilities)
    )
    successors[0, 0] = 99
    assert build(transitions=(successors, probabilities), available=mask).digest == masked().digest


@given(seeds)
def test_folding_keeps_every_value(seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts = random_parts(seed)
    mask = rng.random((4, 3)) < 0.5
    mask[np.arange(4), rng.integers(0, 3, 4)] = True
    model = CMDP(**parts, available=mask)
    policy = rng.dirichlet(np.ones(3), size=4)
    folded = model.fold_unavailable(policy)
    assert (folded[~mask] == 0).all()
    np.testing.assert_allclose(folded.sum(1), 1.0)
    np.testing.assert_allclose(
        evaluate(model, folded).values, evaluate(model, policy).values, rtol=1e-12, atol=1e-12
    )


def test_a_mask_of_all_is_no_mask() -> None:
    model = build(available=np.ones((2, 2), dtype=bool))
    assert model.available is None
    policy = model.uniform_policy()
    assert model.fold_unavailable(policy) is policy


# ---- derived
# ----------------------------------------------------------------------------------------------------------
def test_reachable_and_scales() -> None:
    # 0 -> 1 -> 1; state 2 is never seen, and its rewards do not count
    dense = np.zeros((3, 1, 3))
    dense[0, 0, 1] = dense[1, 0, 1] = dense[2, 0, 0] = 1.0
    model = CMDP(
        dense,
        [[1.0], [3.0], [100.0]],
        [[[0.0], [-4.0], [9.0]], [[5.0], [5.0], [0.0]]],
        [0.0, 0.0],
        [1, 0, 0],
        0.5,
    )
    np.testing.assert_array_equal(model.reachable, [True, True, False])
    assert model.reward_scale == pytest.approx(2.0 / 0.5)
    np.testing.assert_allclose(
        model.constraint_scales, [4.0 / 0.5, 1.0 / 0.5]
    )  # a span of zero counts as 1


def test_matrix_tensor_and_shapes_agree() -> None:
    model = build()
    assert (model.states, model.actions, model.constraint_count, model.is_small) == (2, 2, 1, True)
    np.testing.assert_array_equal(model.matrix.toarray().reshape(2, 2, 2), DENSE)
    np.testing.assert_array_equal(model.tensor, DENSE)
    assert repr(model) == "CMDP(states=2, actions=2, successors<=2, constraints=1, discount=0.9)"


# ---- one sentence for every bad input
# ---------------------------------------------------------------------------------
def changed(array: Any, where: tuple[int, ...], value: float) -> np.ndarray:
    copy = np.array(array, dtype=np.float64)
    copy[where] = value
    return copy


ONES = np.ones((2, 2, 1))
NOT_NUMBERS = "it must be an array of real numbers with rows of equal length"
BAD: list[tuple[str, dict[str, Any], str]] = [
    (
        "row sum",
        {"transitions": changed(DENSE, (1, 0, 0), 0.9)},
        r"of state 1, action 0 sum to 0\.9, not 1; normalise them\.",
    ),
    (
        "row sums",
        {"transitions": DENSE * 2},
        r"of state 0, action 0 sum to 2, not 1 \(3 more pairs too\); normalise them\.",
    ),
    (
        "row sum overflows",
        {"transitions": DENSE * 1.7e308 * 1.05},
        r"of state 0, action 0 sum to 1\.\d+e\+308, not 1",
    ),
    (
        "NaN probability",
        {"transitions": changed(DENSE, (0, 1, 1), np.nan)},
        r"state 0, action 1, successor 1 is nan; every entry",
    ),
    (
        "negative",
        {"transitions": changed(changed(DENSE, (0, 0, 0), -0.5), (0, 0, 1), 1.5)},
        r"successor 0 is -0\.5; none may be negative",
    ),
    (
        "not square",
        {"transitions": np.ones((2, 2, 3)) / 3},
        r"transitions: shape \(2, 2, 3\), expected \[S, A, S\]",
    ),
    ("two axes", {"transitions": np.eye(2)}, r"transitions: shape \(2, 2\), expected \[S, A, S\]"),
    (
        "no states",
        {"transitions": np.zeros((0, 2, 0))},
        r"transitions: the model has no states; give at least one\.",
    ),
    (
        "no actions",
        {"transitions": np.zeros((2, 0, 2))},
        r"transitions: the action set is empty; every state needs at least one",
    ),
    ("empty list", {"transitions": []}, r"transitions: shape \(0,\), expected \[S, A, S\]"),
    (
        "no sparse states",
        {"transitions": [sp.csr_array((0, 0))]},
        r"transitions: the model has no states",
    ),
    (
        "sparse shapes",
        {"transitions": [sp.eye_array(2), sp.eye_array(3)]},
        r"transitions\[1\]: shape \(3, 3\), expected \(2, 2\) as in",
    ),
    (
        "one sparse matrix",
        {"transitions": sp.csr_array((2, 3))},
        r"shape \(2, 3\), expected \[S\*A, S\] of one sparse matrix",
    ),
    (
        "one complex sparse matrix",
        {"transitions": sp.eye_array(2) * 1j},
        r"transitions: it must hold real numbers, not complex128",
    ),
    (
        "sparse and dense",
        {"transitions": [sp.eye_array(2), np.eye(2)]},
        r"some parts are sparse matrices and others are not",
    ),
    (
        "complex sparse",
        {"transitions": [sp.eye_array(2) * 1j] * 2},
        r"transitions\[0\]: it must hold real numbers, not complex128",
    ),
    (
        "padded shapes",
        {"transitions": (np.zeros((2, 2, 1), int), np.ones((2, 2)))},
        r"successors \(2, 2, 1\) and probabilities \(2, 2\) must",
    ),
    (
        "float successors",
        {"transitions": (ONES, ONES)},
        r"transitions: successors must be integers, not float64",
    ),
    (
        "out of range",
        {"transitions": (np.full((2, 2, 1), 2), ONES)},
        r"successor 2 at \[0, 0, 0\] is out of range; states are 0\.\.1",
    ),
    (
        "far out of range",
        {"transitions": (np.full((2, 2, 1), 2**32), ONES)},
        r"successor 4294967296 at \[0, 0, 0\] is out of range",
    ),
    (
        "below range",
        {"transitions": (np.full((2, 2, 1), -1), ONES)},
        r"successor -1 at \[0, 0, 0\] is out of range",
    ),
    (
        "no places",
        {"transitions": (np.zeros((2, 2, 0), int), np.zeros((2, 2, 0)))},
        r"of state 0, action 0 sum to 0, not 1",
    ),
    ("discount 1", {"discount": 1.0}, r"discount is 1; it must be at least 0 and below 1"),
    ("discount < 0", {"discount": -0.1}, r"discount is -0\.1; it must be at least 0 and below 1"),
    ("discount NaN", {"discount": np.nan}, r"discount is nan; it must be at least 0 and below 1"),
    ("discount array", {"discount": [0.9]}, r"discount: shape \(1,\), expected one number"),
    ("reward shape", {"reward": np.zeros((2, 3))}, r"reward: shape \(2, 3\), expected \(2, 2\)"),
    (
        "reward NaN",
        {"reward": [[0.0, 0.0], [np.nan, 0.0]]},
        r"reward\[1, 0\] is nan; every entry must be a finite number",
    ),
    (
        "constraint shape",
        {"constraints": np.zeros((1, 3, 2))},
        r"constraints: shape \(1, 3, 2\), expected \(1, 2, 2\)",
    ),
    (
        "constraint inf",
        {"constraints": np.full((1, 2, 2), np.inf)},
        r"constraints\[0, 0, 0\] is inf; every entry must be a finite",
    ),
    ("constraint number", {"constraints": 1.0}, r"constraints: shape \(\), expected \(0, 2, 2\)"),
    (
        "threshold inf",
        {"thresholds": [np.inf]},
        r"thresholds\[0\] is inf; every entry must be a finite number",
    ),
    ("thresholds", {"thresholds": [1.0, 2.0]}, r"thresholds: shape \(2,\), expected \(1,\)"),
    (
        "initial sum",
        {"initial": [0.5, 0.4]},
        r"initial: probabilities sum to 0\.9, not 1; normalise them",
    ),
    (
        "initial negative",
        {"initial": [1.5, -0.5]},
        r"initial\[1\] is -0\.5; probabilities may not be negative",
    ),
    (
        "initial overflows",
        {"initial": [1.7e308, 1.7e308]},
        r"initial: it has entries beyond 1e\+100; rescale it",
    ),
    ("initial length", {"initial": [1.0]}, r"initial: shape \(1,\), expected \(2,\)"),
    ("sense", {"senses": ["<"]}, r"senses\[0\] is '<'; it must be '>=' or '<='"),
    ("senses", {"senses": ["<=", "<="]}, r"senses: 2 given for 1 constraints; give one for each"),
    ("senses number", {"senses": 3}, r"senses: 3 is not a list"),
    (
        "empty action set",
        {"available": [[True, True], [False, False]]},
        r"available\[1\]: the action set is empty; every state needs",
    ),
    (
        "mask of numbers",
        {"available": [[1, 1], [1, 1]]},
        r"available: shape \(2, 2\) of int64, expected \(2, 2\) of bool",
    ),
    (
        "mask shape",
        {"available": [True, True]},
        r"available: shape \(2,\) of bool, expected \(2, 2\) of bool",
    ),
    ("state names", {"state_names": ["a"]}, r"state_names: 1 names for 2; give one for each"),
    (
        "action names",
        {"action_names": ["a", "b", "c"]},
        r"action_names: 3 names for 2; give one for each",
    ),
    (
        "constraint names",
        {"constraint_names": []},
        r"constraint_names: 0 names for 1; give one for each",
    ),
    ("names number", {"state_names": 2}, r"state_names: 2 is not a list"),
    (
        "half a character",
        {"state_names": ["a", "\ud800"]},
        r"state_names\[1\]: '\\ud800' is not valid text",
    ),
    (
        "grid size",
        {"grid": Grid(((0.0, 0.0),), ())},
        r"grid: it describes 1 cells and 0 moves; the model has 2 and 2",
    ),
    ("grid type", {"grid": "square"}, r"grid: it must be a cmdpax\.Grid"),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_input_gets_one_clear_sentence(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        build(**changes)
    assert "\n" not in str(caught.value)


GARBAGE = {
    "None": None,
    "text": "numbers",
    "texts": [["1", "2"], ["3", "4"]],
    "ragged": [[1.0, 2.0], [3.0]],
    "objects": np.array([[object(), 1], [2, 3]], dtype=object),
    "complex": np.ones((2, 2)) * 1j,
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "dictionary": {"a": 1},
    "set": {1, 2},
    "sparse": sp.eye_array(2),
    "huge integer": [10**400],
    "None inside": [[None, 1.0], [1.0, 1.0]],
}


NUMERIC_FIELDS = ("transitions", "reward", "constraints", "thresholds", "initial", "discount")


@pytest.mark.parametrize(
    ("field", "name"),
    [
        # one sparse matrix is a form of transitions
        *(
            (field, name)
            for field in NUMERIC_FIELDS
            for name in GARBAGE
            if (field, name) != ("transitions", "sparse")
        ),
        *(("available", name) for name in GARBAGE if name != "None"),
    ],
)
def test_garbage_is_refused_in_every_field(field: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{field}: {NOT_NUMBERS}"):
        build(**{field: GARBAGE[name]})


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_in_padded_transitions(part: int, name: str) -> None:
    transitions: list[Any] = [np.zeros((2, 2, 1), dtype=int), ONES]
    transitions[part] = GARBAGE[name]
    mixed = "some parts are sparse matrices and others are not"
    with pytest.raises(InputError, match=f"transitions: ({NOT_NUMBERS}|{mixed})"):
        build(transitions=tuple(transitions))


def test_absurd_sizes_are_refused_before_allocating() -> None:
    """A row with all 60,000 successors would pad every row to that width."""
    wide = sp.lil_array((60_000, 60_000))
    wide[0] = 1 / 60_000
    wide[1:, 0] = np.ones((59_999, 1))
    with pytest.raises(
        InputError, match=r"padded shape \(60000, 1, 60000\) would need more than 2e\+09 entries"
    ):
        CMDP([wide], np.zeros((60_000, 1)), [], [], np.full(60_000, 1 / 60_000), 0.9)
