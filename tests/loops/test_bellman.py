from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax.errors import InputError
from cmdpax.loops import bellman, compiled, systems
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, cmdps, dense_transitions, own_block, random_policies, uneven


def everything(model: CMDP) -> list[np.ndarray]:
    """The results of all loops that threads share."""
    rows = model.transitions
    values = np.random.default_rng(0).normal(size=model.states)
    results = [
        *bellman.backup(rows, model.reward, values, model.discount),
        bellman.expected(rows, values),
    ]
    right = model.reward[model.first_choice[:-1]]
    for policy in random_policies(model):
        matrix = bellman.policy_rows(rows, policy)
        results.append(matrix.matrix.toarray())
        for side, transpose in ((right, False), (model.initial, True)):
            results += systems.relax(matrix, side, model.discount, values, 4, 0.0, transpose)
    return results


MODELS = st.one_of(cmdps(states=40), st.builds(uneven, st.integers(1, 40), st.integers(0, 999)))


@settings(max_examples=60)
@given(MODELS)
def test_threads_change_no_number(model):
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as threads:
        alone = everything(model)
        patch.setattr(compiled, "BLOCK", 4)
        patch.setattr(compiled, "shared_threads", lambda: threads)
        for one, other in zip(alone, everything(model), strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=60)
@given(MODELS)
def test_rows_expectations_and_backup_against_brute_force(model):
    values = np.random.default_rng(2).normal(size=model.states)
    rows = model.transitions
    for policy in random_policies(model):
        matrix = bellman.policy_rows(rows, policy)
        dense = dense_transitions(model, policy)
        np.testing.assert_allclose(matrix.matrix.toarray(), dense, atol=1e-15)
        assert (matrix.entries > 0).all()
    next_values = rows.matrix.toarray() @ values
    np.testing.assert_allclose(bellman.expected(rows, values), next_values, atol=1e-13)
    action_values = model.reward + model.discount * next_values
    best = np.maximum.reduceat(action_values, model.first_choice[:-1])
    choices, backed_up = bellman.backup(rows, model.reward, values, model.discount)
    assert choices.dtype == np.int32
    assert (rows.state_of[choices] == np.arange(model.states)).all()
    greedy = bellman.greedy(rows.first_choice, action_values)[1]
    for values_of_best in (backed_up, action_values[choices], greedy):
        np.testing.assert_allclose(values_of_best, best, atol=1e-13)


def test_backup_takes_the_first_of_equal_choices():
    model = uneven(20, 0)
    rows, nothing = model.transitions, np.zeros(model.choices)
    for choices, _ in (
        bellman.backup(rows, nothing, np.zeros(20), 0.9),
        bellman.greedy(rows.first_choice, nothing),
    ):
        np.testing.assert_array_equal(choices, rows.first_choice[:-1])


@pytest.mark.parametrize("backwards", [False, True])
def test_sweep_is_gauss_seidel_with_exact_self_loops(backwards):
    model = build("absorbing", 12, 3, 3, 0.9, 4)
    start = np.random.default_rng(0).normal(size=12)
    expected = start.copy()
    for s in range(11, -1, -1) if backwards else range(12):
        candidates = []
        for k in range(3 * s, 3 * s + 3):
            row = model.transitions.matrix.toarray()[k]
            others = row @ expected - row[s] * expected[s]
            candidates.append((model.reward[k] + 0.9 * others) / (1 - 0.9 * row[s]))
        expected[s] = max(candidates)
    before = start.copy()
    change = bellman.sweep(model.transitions, model.reward, start, 0.9, backwards)
    np.testing.assert_allclose(start, expected, rtol=1e-13)
    assert change == np.abs(start - before).max()


@pytest.mark.parametrize("backwards", [False, True])
def test_a_sweep_block_by_block_is_that_of_all_states(backwards):
    model = uneven(40, 3)
    rows, values = model.transitions, np.random.default_rng(0).normal(size=40)
    whole, changes = values.copy(), []
    largest = bellman.sweep(rows, model.reward, whole, 0.9, backwards)
    for first in range(30, -10, -10) if backwards else range(0, 40, 10):
        block, pays = own_block(model, first, first + 10)
        changes.append(bellman.sweep_block(first, block, pays, values, 0.9, backwards))
    np.testing.assert_array_equal(values, whole)
    assert max(changes) == largest


def test_one_backward_sweep_crosses_a_corridor():
    states = 50  # move right for certain; reward 1 in the last, absorbing cell
    successors = np.minimum(np.arange(states) + 1, states - 1)[:, None, None]
    reward = np.zeros((states, 1))
    reward[-1] = 1.0
    values = np.zeros(states)
    model = CMDP((successors, np.ones((states, 1, 1))), reward, [], [], 0, 0.9)
    bellman.sweep(model.transitions, model.reward, values, 0.9, True)
    np.testing.assert_allclose(values, 0.9 ** np.arange(states - 1, -1, -1) / 0.1)


@pytest.mark.parametrize("states", [1, 20, 300])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_reachable_against_powers(structure, states):
    model = build(structure, states, 2, 2, 0.9, 3)
    step = dense_transitions(model, model.transitions.uniform_policy()) > 0
    seen = model.initial > 0
    for _ in range(states):
        seen = seen | (seen @ step)
    reached = bellman.distances(model.transitions, model.initial) >= 0
    np.testing.assert_array_equal(reached, seen)


@given(st.integers(0, 10_000))
def test_rows_are_ordered_as_by_hand(seed):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 8, 30)
    first_entry = np.append(0, np.cumsum(lengths)).astype(np.int32)
    successors = rng.integers(0, 6, first_entry[-1]).astype(np.int32)
    probabilities = rng.random(first_entry[-1]) * (rng.random(first_entry[-1]) < 0.7)
    pointers, states, chances = first_entry.copy(), successors.copy(), probabilities.copy()
    used = bellman.order_rows(pointers, states, chances)
    assert used == pointers[-1]
    for k in range(30):
        total: Counter[int] = Counter()
        own = slice(first_entry[k], first_entry[k + 1])
        for state, chance in reversed(list(zip(successors[own], probabilities[own]))):
            if chance > 0:
                total[int(state)] = chance + total[int(state)]
        own = slice(pointers[k], pointers[k + 1])
        assert states[own].tolist() == sorted(total)
        assert chances[own].tolist() == [total[state] for state in sorted(total)]


def test_what_is_said_about_rows():
    first_entry = np.array([0, 2, 3, 5], dtype=np.int32)
    successors = np.array([0, 1, 2, 0, 1], dtype=np.int32)
    fine = np.array([0.5, 0.5, 1.0, 0.25, 0.75])
    np.testing.assert_array_equal(
        bellman.inspect_rows(first_entry, successors, fine, 1e-8), [-1, -1, -1, 0, 1, 2, 0]
    )
    bad = np.array([0.5, 0.5, np.nan, -0.25, 0.75])
    infinite, negative, off, count, *_ = bellman.inspect_rows(first_entry, successors, bad, 1e-8)
    assert (infinite, negative, off, count) == (2, 3, 1, 2)
    unordered = bellman.inspect_rows(first_entry, successors[::-1].copy(), fine, 1e-8)
    assert unordered[4] == 0


def test_rows_that_miss_one_are_divided():
    chances = np.array([0.5, 0.5, 2.0, 1.0, 1.0])
    bellman.normalise_rows(np.array([0, 2, 3, 5], dtype=np.int32), chances, 1e-15)
    assert chances.tolist() == [0.5, 0.5, 1.0, 0.5, 0.5]


@pytest.mark.parametrize(
    "policy", [np.array([0, 4]), np.array([-1, 2]), np.array([2, 0]), np.array([0]), np.ones(3) / 3]
)
def test_policies_that_do_not_fit_are_refused(policy):
    model = build("random", 2, 2, 2, 0.9, 0)
    with pytest.raises(InputError, match="policy"):
        bellman.policy_rows(model.transitions, policy)
