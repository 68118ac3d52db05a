from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax.errors import InputError
from cmdpax.loops import bellman, compiled, systems
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, cmdps, dense_transitions


def policies(model: CMDP) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    mixed = rng.dirichlet(np.full(model.actions, 0.3), model.states)
    mixed[:, 0] = np.where(rng.random(model.states) < 0.3, 0.0, mixed[:, 0])
    mixed[mixed.sum(1) == 0, 0] = 1.0
    return rng.integers(0, model.actions, model.states), mixed / mixed.sum(1, keepdims=True)


def everything(model: CMDP) -> list[np.ndarray]:
    """The results of all loops that threads share."""
    arrays = model.successors, model.probabilities
    values = np.random.default_rng(0).normal(size=model.states)
    results = [
        *bellman.backup(*arrays, model.reward, values, model.discount),
        bellman.expected(*arrays, values),
    ]
    for policy in policies(model):
        rows = bellman.policy_rows(*arrays, policy)
        results.append(rows.matrix.toarray())
        for right, transpose in ((model.reward[:, 0], False), (model.initial, True)):
            results += systems.relax(rows, right, model.discount, values, 4, 0.0, transpose)
    return results


@settings(max_examples=60)
@given(cmdps(states=40))
def test_threads_change_no_number(model):
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as threads:
        alone = everything(model)
        patch.setattr(compiled, "BLOCK", 4)
        patch.setattr(compiled, "shared_threads", lambda: threads)
        for one, other in zip(alone, everything(model), strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=60)
@given(cmdps(states=40))
def test_rows_expectations_and_backup_against_brute_force(model):
    values = np.random.default_rng(2).normal(size=model.states)
    arrays = model.successors, model.probabilities
    for policy in policies(model):
        rows = bellman.policy_rows(*arrays, policy)
        dense = dense_transitions(model, policy)
        np.testing.assert_allclose(rows.matrix.toarray(), dense, atol=1e-15)
        assert (rows.entries > 0).all()
    each = [dense_transitions(model, np.full(model.states, a)) for a in range(model.actions)]
    next_values = np.stack([matrix @ values for matrix in each], axis=1)
    np.testing.assert_allclose(bellman.expected(*arrays, values), next_values, atol=1e-13)
    action_values = model.reward + model.discount * next_values
    actions, backed_up = bellman.backup(*arrays, model.reward, values, model.discount)
    assert actions.dtype == np.int32
    np.testing.assert_allclose(backed_up, action_values.max(1), atol=1e-13)
    chosen = action_values[np.arange(model.states), actions]
    np.testing.assert_allclose(chosen, action_values.max(1), atol=1e-13)


def test_backup_takes_the_first_of_equal_actions():
    model = build("random", 20, 3, 2, 0.9, 0)
    actions, _ = bellman.backup(
        model.successors, model.probabilities, np.zeros((20, 3)), np.zeros(20), 0.9
    )
    assert (actions == 0).all()


@pytest.mark.parametrize("backwards", [False, True])
def test_sweep_is_gauss_seidel_with_exact_self_loops(backwards):
    model = build("absorbing", 12, 3, 3, 0.9, 4)
    start = np.random.default_rng(0).normal(size=12)
    expected = start.copy()
    for s in range(11, -1, -1) if backwards else range(12):
        candidates = []
        for a in range(3):
            row = dense_transitions(model, np.full(12, a))[s]
            others = row @ expected - row[s] * expected[s]
            candidates.append((model.reward[s, a] + 0.9 * others) / (1 - 0.9 * row[s]))
        expected[s] = max(candidates)
    bellman.sweep(model.successors, model.probabilities, model.reward, start, 0.9, backwards)
    np.testing.assert_allclose(start, expected, rtol=1e-13)


def test_one_backward_sweep_crosses_a_corridor():
    states = 50  # move right for certain; reward 1 in the last, absorbing cell
    successors = np.minimum(np.arange(states) + 1, states - 1)[:, None, None]
    reward = np.zeros((states, 1))
    reward[-1] = 1.0
    values = np.zeros(states)
    bellman.sweep(successors.astype(np.int32), np.ones((states, 1, 1)), reward, values, 0.9, True)
    np.testing.assert_allclose(values, 0.9 ** np.arange(states - 1, -1, -1) / 0.1)


@pytest.mark.parametrize("states", [1, 20, 300])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_reachable_against_powers(structure, states):
    model = build(structure, states, 2, 2, 0.9, 3)
    step = sum(dense_transitions(model, np.full(states, a)) for a in range(2)) > 0
    seen = model.initial > 0
    for _ in range(states):
        seen = seen | (seen @ step)
    reached = bellman.reachable(model.successors, model.probabilities, model.initial)
    np.testing.assert_array_equal(reached, seen)


@settings(max_examples=60)
@given(cmdps(states=40))
def test_rows_are_ordered_as_by_hand(model):
    rng = np.random.default_rng(0)
    shape = (model.states, model.actions, 6)
    successors = rng.integers(0, model.states, shape).astype(np.int32)
    probabilities = rng.random(shape) * (rng.random(shape) < 0.7)
    ordered = successors.copy(), probabilities.copy()
    needed, longest = bellman.order_rows(*ordered), 0
    for pair in np.ndindex(shape[:2]):
        total: Counter[int] = Counter()
        for state, chance in reversed(list(zip(successors[pair], probabilities[pair]))):
            if chance > 0:
                total[int(state)] = chance + total[int(state)]
        states = sorted(total)
        padding = [0] * (6 - len(states))
        assert ordered[0][pair].tolist() == [*states, *padding]
        assert ordered[1][pair].tolist() == [*(total[state] for state in states), *padding]
        longest = max(longest, len(states))
    assert needed == longest


@pytest.mark.parametrize(
    "policy", [np.array([0, 2]), np.array([-1, 0]), np.array([0]), np.ones((2, 3)) / 3]
)
def test_policies_that_do_not_fit_are_refused(policy):
    model = build("random", 2, 2, 2, 0.9, 0)
    with pytest.raises(InputError, match="policy"):
        bellman.policy_rows(model.successors, model.probabilities, policy)
