from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings

from cmdpax.errors import InputError
from cmdpax.loops import bellman as kernels
from cmdpax.model.cmdp import CMDP
from sparse_models import STRUCTURES, build, dense_transitions, models


def policies(model: CMDP) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    mixed = rng.dirichlet(np.full(model.actions, 0.3), model.states)
    mixed[:, 0] = np.where(rng.random(model.states) < 0.3, 0.0, mixed[:, 0])
    mixed[mixed.sum(1) == 0, 0] = 1.0
    return rng.integers(0, model.actions, model.states), mixed / mixed.sum(1, keepdims=True)


def everything(model: CMDP) -> list[np.ndarray]:
    """The results of all kernels that have a NumPy twin."""
    arrays, values = (
        (model.successors, model.probabilities),
        np.random.default_rng(0).normal(size=model.states),
    )
    results = [
        *kernels.backup(*arrays, model.reward, values, model.discount),
        kernels.expected(*arrays, values),
    ]
    for policy in policies(model):
        rows = kernels.policy_rows(*arrays, policy)
        results.append(rows.matrix.toarray())
        for right, transpose in ((model.reward[:, 0], False), (model.initial, True)):
            results += kernels.relax(rows, right, model.discount, values, 4, 0.0, transpose)
    return [*results, kernels.reachable(*arrays, model.initial)]


@settings(max_examples=60)
@given(models)
def test_fallback_gives_the_same_numbers(model):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "SMALL", 0)
        compiled = everything(model)
        patch.setattr(kernels, "loops", lambda: None)
        for one, other in zip(compiled, everything(model), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-13, atol=1e-13)


@settings(max_examples=60)
@given(models)
def test_threads_change_no_number(model):
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(3) as threads:
        patch.setattr(kernels, "SMALL", 0)
        alone = everything(model)
        patch.setattr(kernels, "BLOCK", 4)
        patch.setattr("cmdpax.loops.compiled.shared", lambda: threads)
        for one, other in zip(alone, everything(model), strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=60)
@given(models)
def test_policy_rows_and_backup_against_brute_force(model):
    values = np.random.default_rng(2).normal(size=model.states)
    for policy in policies(model):
        rows = kernels.policy_rows(model.successors, model.probabilities, policy)
        np.testing.assert_allclose(
            rows.matrix.toarray(), dense_transitions(model, policy), atol=1e-15
        )
        assert (rows.entries > 0).all()
    quality = np.stack(
        [
            model.reward[:, a]
            + model.discount * dense_transitions(model, np.full(model.states, a)) @ values
            for a in range(model.actions)
        ],
        axis=1,
    )
    actions, backed_up = kernels.backup(
        model.successors, model.probabilities, model.reward, values, model.discount
    )
    assert actions.dtype == np.int32
    np.testing.assert_allclose(backed_up, quality.max(1), atol=1e-13)
    np.testing.assert_allclose(
        quality[np.arange(model.states), actions], quality.max(1), atol=1e-13
    )


def test_backup_takes_the_first_of_equal_actions():
    model = build("random", 20, 3, 2, 0.9, 0)
    model = model.replace(reward=np.zeros((20, 3)))
    actions, _ = kernels.backup(
        model.successors, model.probabilities, model.reward, np.zeros(20), 0.9
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
    kernels.sweep(model.successors, model.probabilities, model.reward, start, 0.9, backwards)
    np.testing.assert_allclose(start, expected, rtol=1e-13)


def test_one_backward_sweep_crosses_a_corridor():
    states = 50  # move right for certain; reward 1 in the last, absorbing cell
    successors = np.minimum(np.arange(states) + 1, states - 1)[:, None, None]
    reward = np.zeros((states, 1))
    reward[-1] = 1.0
    values = np.zeros(states)
    kernels.sweep(successors.astype(np.int32), np.ones((states, 1, 1)), reward, values, 0.9, True)
    np.testing.assert_allclose(values, 0.9 ** np.arange(states - 1, -1, -1) / 0.1)


@settings(max_examples=60)
@given(models)
def test_fixed_point_steps_by_hand(model):
    """Every step, its size and the last middle against dense products; steps end at the target."""
    start = np.random.default_rng(3).normal(size=model.states)
    for policy in policies(model):
        rows, dense = (
            kernels.policy_rows(model.successors, model.probabilities, policy),
            dense_transitions(model, policy),
        )
        for right, operator, transpose in (
            (model.reward[:, 0], dense, False),
            (model.initial, dense.T, True),
        ):
            vector, sizes, middle = start, [], 0.0
            for _ in range(4):
                change = right + model.discount * operator @ vector - vector
                vector = vector + change
                sizes.append(
                    np.abs(change).sum() if transpose else (change.max() - change.min()) / 2
                )
                middle = 0.0 if transpose else (change.max() + change.min()) / 2
            found = kernels.relax(rows, right, model.discount, start, 4, 0.0, transpose)
            done = len(found[1])
            assert done == 4 or found[1][-1] == 0
            np.testing.assert_allclose(found[1], sizes[:done], atol=1e-12)
            if done == 4:
                np.testing.assert_allclose(found[0], vector, atol=1e-12)
                assert found[2] == pytest.approx(middle, abs=1e-12)
            target = sizes[1] * 1.0001  # the second change is below it, if not the first
            ended = len(
                kernels.relax(rows, right, model.discount, start, 4, target + 1e-12, transpose)[1]
            )
            assert ended == (1 if sizes[0] <= target + 1e-12 else 2)


@settings(max_examples=60)
@given(models)
def test_systems_are_canonical(model):
    for policy in policies(model):
        rows = kernels.policy_rows(model.successors, model.probabilities, policy)
        for transpose in (False, True):
            system = kernels.system_rows(rows, model.discount, transpose).matrix
            dense = dense_transitions(model, policy)
            expected = np.eye(model.states) - model.discount * (dense.T if transpose else dense)
            np.testing.assert_allclose(system.toarray(), expected, atol=1e-15)
            assert system.has_canonical_format
            assert system.nnz >= model.states and (system.diagonal() > 0).all()


def test_incomplete_factors_are_exact_for_a_chain():
    model = build("chain", 200, 2, 3, 0.99, 0)
    right = np.random.default_rng(0).normal(size=200)
    rows = kernels.policy_rows(model.successors, model.probabilities, np.zeros(200, dtype=int))
    system = kernels.system_rows(rows, 0.99, False)
    factors = kernels.incomplete_factors(system)
    solution = kernels.bicgstab(system, factors, right, np.zeros(200), 1e-10, 1, False)
    np.testing.assert_allclose(
        solution, np.linalg.solve(system.matrix.toarray(), right), rtol=1e-10
    )


@pytest.mark.parametrize("structure", STRUCTURES)
def test_incomplete_factors_keep_the_pattern_and_positive_pivots(structure):
    model = build(structure, 60, 2, 3, 0.999, 7)
    rows = kernels.policy_rows(model.successors, model.probabilities, policies(model)[1])
    system = kernels.system_rows(rows, 0.999, False)
    factors = kernels.incomplete_factors(system)
    assert np.isfinite(factors).all()
    matrix = system.matrix
    assert (
        sp.csr_array((factors, matrix.indices, matrix.indptr), shape=matrix.shape).diagonal() > 0
    ).all()


@pytest.mark.parametrize("structure", STRUCTURES)
def test_reachable_against_powers(structure):
    model = build(structure, 300, 2, 2, 0.9, 3)
    step = sum(dense_transitions(model, np.full(300, a)) for a in range(2)) > 0
    seen = model.initial > 0
    for _ in range(300):
        seen = seen | (seen @ step)
    assert (model.reachable == seen).all()


@settings(max_examples=60)
@given(models)
def test_rows_are_ordered_alike_without_numba(model):
    rng = np.random.default_rng(0)
    shape = (model.states, model.actions, 6)
    successors = rng.integers(0, model.states, shape).astype(np.int32)
    probabilities = rng.random(shape) * (rng.random(shape) < 0.7)
    outcomes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernels, "SMALL", 0)
        for _ in range(2):
            arrays = successors.copy(), probabilities.copy()
            outcomes.append((kernels.order_rows(*arrays), *arrays))
            patch.setattr(kernels, "loops", lambda: None)
    for one, other in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    "policy", [np.array([0, 2]), np.array([-1, 0]), np.array([0]), np.ones((2, 3)) / 3]
)
def test_policies_that_do_not_fit_are_refused(policy):
    model = build("random", 2, 2, 2, 0.9, 0)
    with pytest.raises(InputError, match="policy"):
        kernels.policy_rows(model.successors, model.probabilities, policy)
