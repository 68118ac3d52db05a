"""The model: what is said is what it holds, and every bad input gets one clear sentence."""

import re
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, Grid, InputError
from cmdpax.model.limits import listed
from cmdpax.model.reading import CUBE
from two_states import COST, DENSE, GOOD, MASK, build


def every_sense(**changes: Any) -> CMDP:
    parts: dict[str, Any] = {
        "constraints": [COST, 2 * COST, 3 * COST, 4 * COST],
        "thresholds": [2.0, 1.0, 5.0, (6.0, 7.0)],
        "senses": ["<=", ">=", "==", "in"],
        "constraint_names": ["energy", "output", "stock", "heat"],
    }
    return build(**{**parts, **changes})


# ---- what is said is what it holds
def test_a_model_keeps_the_user_s_orientation() -> None:
    model = build(
        constraints=[COST, COST], thresholds=[2.0, 1.0], senses=["<=", ">="], minimise=True
    )
    assert model.senses == ("<=", ">=") and model.minimise
    np.testing.assert_array_equal(model.as_table(model.constraints), [COST, COST])
    np.testing.assert_array_equal(model.thresholds, [2.0, 1.0])
    np.testing.assert_array_equal(model.as_table(model.reward), GOOD["reward"])
    assert build(senses="<=").senses == ("<=",) and build().senses == (">=",)
    assert not np.signbit(build(constraints=-COST).constraints[0, 1])  # no -0.0


def test_every_sense_has_its_thresholds() -> None:
    model = every_sense()
    inf = np.inf
    bounds = [[-inf, 2.0], [1.0, inf], [5.0, 5.0], [6.0, 7.0]]
    np.testing.assert_array_equal(model.limits.bounds, bounds)
    np.testing.assert_array_equal(model.thresholds, bounds)  # one of them is a range
    assert model.limits.entries == [2.0, 1.0, 5.0, [6.0, 7.0]]
    pairs = every_sense(thresholds=bounds, senses=None)  # pairs say their senses themselves
    assert pairs.senses == model.senses and pairs.digest == model.digest


def test_one_constraint_may_come_without_its_axis() -> None:
    for constraints in (COST, COST.ravel(), [COST.ravel()]):
        assert build(constraints=constraints, thresholds=2.0).digest == build().digest


def test_constraints_by_choice_are_no_table() -> None:
    """Two states with three actions, three choices in all, and two constraints: both are [2, 3]."""
    mask = [[True, True, False], [False, False, True]]
    rows, rewards = np.full((2, 3, 2), 0.5), {"reward": np.zeros(3), "available": mask}
    one = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    two = build(transitions=rows, constraints=one, thresholds=[0, 0], **rewards)
    np.testing.assert_array_equal(two.constraints, one)
    table = build(transitions=rows, constraints=one, thresholds=[0], **rewards)
    np.testing.assert_array_equal(table.constraints, [[1.0, 2.0, 6.0]])


def test_a_model_may_have_no_constraints() -> None:
    model = build(constraints=[], thresholds=[])
    assert (model.constraint_count, model.constraints.shape, model.senses) == (0, (0, 4), ())


def test_shapes_and_prints() -> None:
    model = every_sense(minimise=True, available=MASK)
    assert (model.states, model.actions, model.constraint_count) == (2, 2, 4)
    sizes = "states=2, actions=2, choices=3, successors<=2, constraints=4"
    assert repr(model) == f"CMDP({sizes}, discount=0.9)"
    assert str(model).splitlines() == [
        "states      2",
        "actions     2 at most, 3 choices in all",
        "successors  2 at most, 4 in all",
        "discount    0.9",
        "objective   minimise the reward",
        "subject to  energy<=2",
        "subject to  output>=1",
        "subject to  stock==5",
        "subject to  6<=heat<=7",
        f"note        {CUBE}",
    ]
    assert "energy&lt;=2" in model._repr_html_() and "constrained Markov" in model._repr_html_()
    assert "maximise the reward" in str(build())


# ---- immutability, copies
@pytest.mark.parametrize(
    "field", ["first_choice", "reward", "constraints", "thresholds", "initial"]
)
def test_arrays_are_read_only(field: str) -> None:
    for model in (build(), every_sense()):
        with pytest.raises(ValueError, match="read-only"):
            getattr(model, field)[0] = 0


def test_fields_cannot_be_set() -> None:
    with pytest.raises(AttributeError, match=r"immutable; use model\.replace\(discount=\.\.\.\)"):
        build().discount = 0.5


def test_the_caller_s_arrays_are_copied() -> None:
    reward, constraints, initial = np.ones((2, 2)), np.ones((1, 2, 2)), np.array([1.0, 0.0])
    model = build(reward=reward, constraints=constraints, initial=initial)
    for array in (reward, constraints, initial):
        array[:] = 7.0
    assert model.reward.max() == model.constraints.max() == model.initial.max() == 1.0


# ---- replace
def test_replace_keeps_the_rest() -> None:
    grid = Grid(((0.0, 0.0), (1.0, 0.0)), ((0.0, 1.0), (1.0, 0.0)), goals=(1,))
    model = build(
        senses="<=",
        minimise=True,
        state_names=["a", "b"],
        action_names=["x", "y"],
        constraint_names=["energy"],
        available=[[True, False], [True, True]],
        grid=grid,
    )
    copy = model.replace(discount=0.5)
    assert copy.discount == 0.5 and copy.transitions is model.transitions
    for name in ("senses", "minimise", "state_names", "action_names", "constraint_names", "grid"):
        assert getattr(copy, name) == getattr(model, name), name
    np.testing.assert_array_equal(copy.available, model.available)
    assert copy.replace(discount=0.9).digest == model.digest == model.replace().digest


def test_thresholds_are_replaced_as_they_are_written() -> None:
    """14 in a model with `<=` means at most 14."""
    model = build(senses="<=", constraint_names=["energy"])
    larger = model.replace(thresholds=[14.0])
    np.testing.assert_array_equal(larger.thresholds, [14.0])
    assert larger.limits.texts == ("energy<=14",)
    np.testing.assert_array_equal(larger.constraints, model.constraints)
    assert model.replace(thresholds=14.0).digest == larger.digest
    assert model.replace(thresholds=[14.0], senses=["<="]).digest == larger.digest


def test_senses_are_replaced_with_the_numbers_kept() -> None:
    model = every_sense()
    assert model.replace(senses=model.senses).digest == model.digest
    other = model.replace(senses=[">=", "==", "<=", "in"])
    assert other.limits.entries == model.limits.entries
    assert other.limits.texts == ("energy>=2", "output==1", "stock<=5", "6<=heat<=7")
    with pytest.raises(InputError, match=r"thresholds\[3\] is a pair; its sense is 'in', not '<='"):
        model.replace(senses="<=")
    with pytest.raises(InputError, match=r"thresholds\[0\] is a number; a range needs a pair"):
        model.replace(senses=["in"] * 4)


def test_pairs_say_their_senses_themselves() -> None:
    model = build(senses="<=", constraint_names=["energy"])
    for pair, text in (
        ((1.0, 2.0), "1<=energy<=2"),
        ((3.0, 3.0), "energy==3"),
        ((-np.inf, 3.0), "energy<=3"),
        ((3.0, np.inf), "energy>=3"),
    ):
        assert model.replace(thresholds=[pair]).limits.texts == (text,)
    narrow = model.replace(thresholds=[(3.0, 3.0)], senses=["in"])
    assert narrow.senses == narrow.replace(discount=0.5).senses == ("in",)
    assert narrow.replace(thresholds=[4.0], senses=[">="]).limits.texts == ("energy>=4",)
    with pytest.raises(InputError, match=r"thresholds\[0\] is a number; a range needs a pair"):
        narrow.replace(thresholds=[4.0])
    with pytest.raises(InputError, match=r"its sense is '<=', not '>='"):
        model.replace(thresholds=[(-np.inf, 3.0)], senses=[">="])


@pytest.mark.parametrize("count", [0, 1, 3, 5])
def test_replace_with_another_number_of_constraints(count: int) -> None:
    rows, thresholds = np.stack([COST] * count) if count else [], np.arange(1.0, 1 + count)
    lower = build(constraints=[COST] * 2, thresholds=[1.0, 2.0], senses="<=")
    named = lower.replace(constraint_names=["a", "b"])
    assert named.constraint_names == ("a", "b") and lower.constraint_names == ("c0", "c1")
    model = named.replace(constraints=rows, thresholds=thresholds)
    assert model.constraint_count == count and model.constraints.shape == (count, 4)
    assert model.senses == ("<=",) * count  # a common sense is kept
    np.testing.assert_array_equal(model.thresholds, thresholds)
    assert model.constraint_names == tuple(f"c{i}" for i in range(count))  # names start again
    assert model.transitions is lower.transitions
    again = model.replace(constraints=[COST] * 2, thresholds=[1.0, 2.0])
    assert again.senses == (("<=",) * 2 if count else (">=",) * 2)  # none is left to keep


def test_different_senses_must_be_given_anew() -> None:
    model = every_sense()
    with pytest.raises(
        InputError,
        match=r"replace: 1 thresholds for the senses <=, >=, ==, in; give senses= as well",
    ):
        model.replace(constraints=[COST], thresholds=[1.0])
    one = model.replace(constraints=[COST], thresholds=[1.0], senses="==")
    assert one.senses == ("==",) and one.constraint_names == ("c0",)
    pairs = model.replace(constraints=[COST], thresholds=[(1.0, 2.0)], senses=None)
    assert pairs.senses == ("in",)
    named = model.replace(
        constraints=[COST], thresholds=[1.0], senses=["<="], constraint_names=["x"]
    )
    assert named.limits.texts == ("x<=1",)


def test_constraints_and_thresholds_must_fit() -> None:
    with pytest.raises(InputError, match=r"thresholds: 1 given for 2 constraints"):
        build().replace(constraints=[COST, COST])
    with pytest.raises(InputError, match=r"thresholds: 2 given for 1 constraints"):
        build().replace(thresholds=[1.0, 2.0])
    with pytest.raises(InputError, match=r"senses: 2 given for 1 constraints"):
        build().replace(senses=["<=", "<="])


def test_another_mask_is_checked_again() -> None:
    model = build()
    masked = model.replace(available=MASK)
    np.testing.assert_array_equal(masked.transitions.tensor[0], [[0.0, 0.0], DENSE[0, 1]])
    assert masked.digest == build(available=MASK).digest != model.digest
    with pytest.raises(InputError, match=r"available\[0, 0\] is True, but the model has no such"):
        masked.replace(available=np.ones((2, 2), dtype=bool))
    assert masked.replace(discount=0.5).transitions is masked.transitions


# ---- available actions
def test_actions_that_do_not_exist_have_no_numbers() -> None:
    model = build(available=MASK, reward=[[np.nan, 2.0], [0.0, 3.0]])
    assert model.choices == 3 and model.first_choice.tolist() == [0, 1, 3]
    np.testing.assert_array_equal(model.reward, [2.0, 0.0, 3.0])
    np.testing.assert_array_equal(model.as_table(model.reward), [[0.0, 2.0], [0.0, 3.0]])
    np.testing.assert_array_equal(model.available, MASK)
    np.testing.assert_array_equal(model.uniform_policy(), [[0.0, 1.0], [0.5, 0.5]])


def test_what_stands_in_unavailable_pairs_does_not_matter() -> None:
    constraints, reward = np.array([COST]), np.array(GOOD["reward"])
    constraints[:, 0, 0], reward[0, 0] = np.inf, 1e200
    garbage = build(available=MASK, constraints=constraints, reward=reward)
    assert garbage.digest == build(available=MASK).digest


@given(st.integers(0, 2**32 - 1))
def test_policies_by_choice_and_back(seed: int) -> None:
    """What a policy does where there is no choice counts for the state's first one."""
    rng = np.random.default_rng(seed)
    mask = rng.random((4, 3)) < 0.5
    mask[np.arange(4), rng.integers(0, 3, 4)] = True
    rows = rng.integers(0, 4, (4, 3, 2)), rng.dirichlet([1, 1], (4, 3))
    rewards = rng.normal(size=(3, 4, 3))
    initial = rng.dirichlet(np.ones(4))
    model = CMDP(rows, rewards[0], rewards[1:], [0.0, 0.0], initial, 0.9, available=mask)
    policy = rng.dirichlet(np.ones(3), size=4)
    folded = model.as_table(model.by_choice(policy))
    assert (folded[~mask] == 0).all()
    np.testing.assert_allclose(folded.sum(1), 1.0)
    np.testing.assert_array_equal(model.by_choice(folded), model.by_choice(policy))
    # by_choice is the transpose of filled: both pay the same
    filled = model.transitions.filled(model.reward)
    paid = (filled * policy).sum(1)
    np.testing.assert_allclose(
        model.transitions.under(model.by_choice(policy), model.reward), paid, atol=1e-12
    )


def test_a_mask_of_all_is_no_mask() -> None:
    model = build(available=np.ones((2, 2), dtype=bool))
    assert model.available is None
    policy = model.uniform_policy()
    assert np.shares_memory(model.by_choice(policy), policy)


# ---- one sentence for every bad input
LENGTH = "give one for each"
BAD: dict[str, tuple[dict[str, Any], str]] = {
    "discount 2": ({"discount": 2.0}, r"discount is 2; it must be between 0 and 1"),
    "discount < 0": ({"discount": -0.1}, r"discount is -0\.1; it must be between 0 and 1"),
    "discount NaN": ({"discount": np.nan}, r"discount is nan; it must be between 0 and 1"),
    "discount array": ({"discount": [0.9]}, r"discount: a list, expected one number"),
    "reward shape": ({"reward": np.zeros((2, 3))}, r"reward: shape \(2, 3\), expected \(2, 2\)"),
    "reward NaN": (
        {"reward": [[0.0, 0.0], [np.nan, 0.0]]},
        r"reward of state 1, action 0 is nan; every",
    ),
    "reward huge": ({"reward": np.full((2, 2), 1e101)}, r"reward: it has entries beyond 1e\+100"),
    "constraint shape": (
        {"constraints": np.zeros((1, 3, 2))},
        r"constraints\[0\]: shape \(3, 2\), expected \(2, 2\), or \(4,\) by choice",
    ),
    "constraint inf": (
        {"constraints": np.full((1, 2, 2), np.inf)},
        r"constraints\[0\] of state 0, action 0 is inf; every entry must be a finite",
    ),
    "constraint number": ({"constraints": 1.0}, r"constraints: a number; give \(2, 2\) numbers"),
    "threshold inf": ({"thresholds": [np.inf]}, r"thresholds\[0\] is inf; every entry must be a"),
    "thresholds": ({"thresholds": [1.0, 2.0]}, rf"thresholds: 2 given for 1 constraints; {LENGTH}"),
    "initial sum": ({"initial": [0.5, 0.4]}, r"probabilities sum to 0\.9, not 1; normalise them"),
    "initial negative": ({"initial": [1.5, -0.5]}, r"initial\[1\] is -0\.5; probabilities may not"),
    "initial overflows": ({"initial": [1.7e308, 1.7e308]}, r"initial: it has entries beyond 1e\+"),
    "initial state": ({"initial": 2}, r"initial: state 2 is out of range; states are 0\.\.1"),
    "initial name": (
        {"initial": "a"},
        r"initial: 'a' is a name; give state_names= too, or an index",
    ),
    "initial unknown": (
        {"initial": "strat", "state_names": ["start", "b"]},
        r"initial: 'strat' is no state; did you mean 'start'\?",
    ),
    "initial mapping": ({"initial": {0: "x"}}, r"initial, state 0: 'x' is not a finite number"),
    "names of choices": ({"action_names": [["a", "b"]]}, r"action_names: 1 lists for 2 states"),
    "names of a state": (
        {"action_names": [["a", "b"], ["c"]]},
        rf"action_names\[1\]: 1 names for 2; {LENGTH}",
    ),
    "initial length": ({"initial": [1.0]}, r"initial: shape \(1,\), expected \(2,\)"),
    "sense": ({"senses": ["<"]}, r"senses\[0\] is '<'; it must be '>=', '<=', '==' or 'in'"),
    "senses": ({"senses": ["<=", "<="]}, rf"senses: 2 given for 1 constraints; {LENGTH}"),
    "senses number": ({"senses": 3}, r"senses\[0\] is 3; it must be '>='"),
    "minimise": ({"minimise": 1}, r"minimise is 1; it must be True or False\."),
    "state names": ({"state_names": ["a"]}, rf"state_names: 1 names for 2; {LENGTH}"),
    "action names": ({"action_names": ["a", "b", "c"]}, rf"action_names: 3 names for 2; {LENGTH}"),
    "constraint names": ({"constraint_names": []}, rf"constraint_names: 0 names for 1; {LENGTH}"),
    "names number": ({"state_names": 2}, r"state_names: 2 is not a list"),
    "half a character": (
        {"state_names": ["a", "\ud800"]},
        r"state_names\[1\]: '\\ud800' is not valid text",
    ),
    "grid size": (
        {"grid": Grid(((0.0, 0.0),), ())},
        r"grid: it describes 1 cells and 0 moves; the model has 2 and 2",
    ),
    "grid type": ({"grid": "square"}, r"grid: it must be a cmdpax\.Grid"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_gets_one_clear_sentence(name: str) -> None:
    changes, sentence = BAD[name]
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
NOT_NUMBERS = "it must be an array of real numbers with rows of equal length"


@pytest.mark.parametrize("name", GARBAGE)
@pytest.mark.parametrize(
    "field",
    ["transitions", "reward", "constraints", "thresholds", "initial", "discount", "available"],
)
def test_garbage_is_refused_in_every_field(field: str, name: str) -> None:
    others = [("transitions", "sparse"), ("available", "None")]  # transitions, the default
    others += [("discount", "None")]  # not given: see `test_horizon.py`
    if (field, name) in [*others, ("initial", "text"), ("initial", "dictionary")]:  # states
        return
    sentence = f"{field}: {NOT_NUMBERS}"
    changes = {field: GARBAGE[name]}
    if field == "thresholds":
        count = len(listed(GARBAGE[name]))
        changes |= {"constraints": [COST] * count}
        sentence = r"thresholds\[\d\] is .*; it must be a number, or a pair \(low, high\)\."
    if field == "discount":
        own, shape = type(GARBAGE[name]).__name__, getattr(GARBAGE[name], "shape", None)
        what = f"a {own}" if shape is None else re.escape(f"an array of shape {shape}")
        sentence = rf"discount: {what}, expected one number\."
    if field == "transitions" and name in ("None", "text", "dictionary"):
        sentence = rf"transitions: a {type(GARBAGE[name]).__name__}, expected \[S, A, S\], .*"
    if (field, name) == ("initial", "None"):
        sentence = r"initial: None is no state; give an index, a name, {state: probability}, or 2"
    with pytest.raises(InputError, match=sentence):
        build(**changes)


@pytest.mark.parametrize("part", [0, 1])
@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_refused_in_padded_transitions(part: int, name: str) -> None:
    transitions: list[Any] = [np.zeros((2, 2, 1), dtype=int), np.ones((2, 2, 1))]
    transitions[part] = GARBAGE[name]
    with pytest.raises(InputError, match=rf"transitions(: {NOT_NUMBERS}|\[[01]\]: .* sparse)"):
        build(transitions=tuple(transitions))


def test_constraints_by_choice_are_those_of_the_rows_that_came():
    """Two states, two choices that came and a goal: [2, 2] is [m, K], not one table [S, A]."""
    rows = [[{0: 0.5, 1: 0.5}, {1: 1.0}], []]
    fields = {"thresholds": [0, 0], "initial": 0, "discount": 0.9, "goal": 1}
    model = CMDP(rows, [1.0, 2.0], [[1.0, 2.0], [3.0, 4.0]], **fields)
    assert model.constraints.tolist() == [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]


def test_rewards_of_transitions_are_expected_ones():
    rng = np.random.default_rng(0)
    chances, paid = rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(3, 2, 3))
    costs = rng.normal(size=(2, 3, 2, 3))
    mean, means = (chances * paid).sum(-1), (chances * costs).sum(-1)
    plain = CMDP(chances, mean, means, [0.0, 0.0], 0, 0.9)
    model = CMDP(chances, paid, costs, [0.0, 0.0], 0, 0.9)
    np.testing.assert_allclose(model.reward, plain.reward, rtol=1e-14)
    np.testing.assert_allclose(model.constraints, plain.constraints, rtol=1e-14)
    one = CMDP(chances, paid, costs[0], [0.0], 0, 0.9, goal=[2])
    np.testing.assert_allclose(one.constraints[0, :4], means[0, :2].ravel(), rtol=1e-14)
    assert one.reward[-1] == 0 and one.criterion == "discounted"
    assert one.replace(discount=1.0).criterion == "total"


# ---- what a stranger gets wrong, in every form
WHOLE = np.array([[[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]]] * 3)  # [S, A, S]
ROWS, TO = WHOLE.reshape(6, 3), np.array([[[0, 1], [1, 2]]] * 3)
HALVES, CHOICES = np.full((3, 2, 2), 0.5), [[{0: 1.0}], [{1: 1.0}], [{2: 1.0}]]
MIXED = np.empty(2, dtype=object)
MIXED[0], MIXED[1] = sp.csr_array(WHOLE[:, 0]), WHOLE[:2, 1]
BY_CHOICE = {"reward": np.zeros(6), "constraints": np.zeros((1, 6))}
ALONE = {"reward": np.zeros(3), "constraints": np.zeros((1, 3))}


def chosen(state, own):
    """Choices, of which one state's are others."""
    return {"transitions": [*CHOICES[:state], own, *CHOICES[state + 1 :]], **ALONE}


def changed(array, place, value):
    """A copy with another number."""
    array = np.array(array, dtype=float)
    array[place] = value
    return array


WRONG = {
    "a row of .9": (
        {"transitions": changed(WHOLE, (1, 0, 0), 0.4)},
        "state 1, action 0 sum to 0.9",
    ),
    "a hole": (
        {"transitions": changed(WHOLE, (2, 1, 2), np.nan)},
        "state 2, action 1, successor 2",
    ),
    "a file name": ({"transitions": "model.npz"}, "transitions: a str, expected [S, A, S]"),
    "a dictionary": ({"transitions": {0: {0: 1.0}}}, "transitions: a dict, expected [S, A, S]"),
    "five rows": ({"transitions": ROWS[:5]}, "shape (5, 3), expected [S, A, S]"),
    "a sparse hole": (
        {"transitions": sp.csr_array(changed(ROWS, (3, 1), np.inf))},
        "state 1, action 1, successor 1 is inf",
    ),
    "a first choice too few": (
        {"transitions": ROWS, "first_choice": [0, 2, 6], **BY_CHOICE},
        "first_choice: shape (3,) of int64, expected 4 integers",
    ),
    "a state without choices": (
        {"transitions": ROWS, "first_choice": [0, 2, 2, 6], **BY_CHOICE},
        "transitions, state 1: the action set is empty",
    ),
    "first choices of a cube": (
        {"transitions": WHOLE, "first_choice": [0, 2, 4, 6]},
        "shape (3, 2, 3), expected [choices, S] with first_choice=; or leave that out",
    ),
    "first choices of lists": (
        {"transitions": CHOICES, "first_choice": [0, 1, 2, 3], **ALONE},
        "first_choice: these lists of choices need none",
    ),
    "successors that are no integers": (
        {"transitions": (TO * 1.0, HALVES)},
        "successors must be integers, not float64",
    ),
    "a successor beyond": (
        {"transitions": (np.where(TO == 2, 5, TO), HALVES)},
        "successor 5 of state 0, action 1 is out of range; states are 0..2",
    ),
    "successor lists without states": (
        {"transitions": (TO.reshape(6, 2), HALVES.reshape(6, 2)), **BY_CHOICE},
        "must both be [S, A, B], or [choices, B] with first_choice=",
    ),
    "a pair of matrices": (
        {"transitions": (WHOLE[:, 0], WHOLE[:, 1])},
        "matrices of actions go into a list",
    ),
    "a matrix among sparse ones": ({"transitions": MIXED}, "transitions[1]: expected a sparse"),
    "half a state": (chosen(1, own=[{1.5: 1.0}]), "state 1, choice 0: 1.5 is not the number"),
    "a state as a float": (chosen(1, own=[{1.0: 1.0}]), "state 1, choice 0: 1.0 is not the number"),
    "a name": (chosen(2, own=[{"b": 1.0}]), "state 2, choice 0: 'b' is not the number of a state"),
    "a number without end": (chosen(2, own=[{2**70: 1.0}]), "state 2, choice 0: 1180591620717411"),
    "a chance as text": (chosen(0, own=[{0: "1.0"}]), "state 0, choice 0: the probability of 0 is"),
    "no chance": (chosen(0, own=[{0: None}]), "state 0, choice 0: the probability of 0 is None"),
    "one choice without a list": (chosen(1, own={1: 1.0}), "state 1: {1: 1.0} is no list of choic"),
    "a choice that is a list": (chosen(1, own=[[1, 1.0]]), "state 1: [[1, 1.0]] is no list of cho"),
    "an empty choice": (chosen(1, own=[{}]), "state 1, action 0 sum to 0, not 1"),
    "an initial float": ({"initial": 1.0}, "initial: 1.0 is no state; give an index, a name"),
    "no initial state": ({"initial": None}, "initial: None is no state; give an index, a name"),
    "an initial state twice": (
        {"initial": "a", "state_names": ["a", "a", "b"]},
        "initial: 'a' is the name of 2 states; give an index",
    ),
    "a ragged goal": ({"goal": [[0], [1, 2]]}, "goal: [0] is neither the index nor the name"),
    "a goal as numbers": ({"goal": [0, 0, 1]}, "goal: state 0 is listed twice; a mask must be"),
    "a goal that is True": ({"goal": True}, "goal: True is neither the index nor the name"),
    "a goal as a mapping": ({"goal": {1: True}}, "goal: {1: True} is neither the index"),
    "a short mask": ({"goal": [True, False]}, "goal: a mask of shape (2,), expected (3,)"),
    "names as one text": ({"state_names": "abc"}, "state_names: 'abc' is not a list"),
    "a discount as text": ({"discount": "0.9"}, "discount: a str, expected one number"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_with_its_row_and_its_remedy(name):
    changes, sentence = WRONG[name]
    fields = {
        "transitions": WHOLE,
        "reward": np.zeros((3, 2)),
        "constraints": np.zeros((1, 3, 2)),
        "thresholds": [0.0],
        "initial": 0,
        "discount": 0.9,
    }
    with pytest.raises(InputError, match=re.escape(sentence)):
        CMDP(**{**fields, **changes})


def test_libraries_without_an_initial_state_need_one():
    two = {"P": WHOLE.transpose(1, 0, 2), "R": np.zeros((3, 2)), "discount": 0.9}
    with pytest.raises(InputError, match="initial: None is no state; give an index"):
        CMDP.from_mdptoolbox(**two)
    with pytest.raises(InputError, match="initial: None is no state; give an index"):
        CMDP.from_quantecon(np.zeros((3, 2)), WHOLE, 0.9)


@pytest.mark.parametrize("goal", [{2}, range(2, 3), np.array([2]), (2,)])
def test_a_goal_may_be_any_collection(goal):
    fields = np.zeros((3, 2)), [], [], 0, 0.9
    assert CMDP(WHOLE, *fields, goal=goal).digest == CMDP(WHOLE, *fields, goal=2).digest
