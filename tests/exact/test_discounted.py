import numpy as np
import pytest
import scipy.sparse.linalg as spla
from hypothesis import given, settings

from cmdpax.environments import cliff_world
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact import systems as linear
from cmdpax.exact.discounted import (
    action_values,
    evaluate,
    expected_next,
    occupancy,
    stacked_rewards,
    state_values,
    transition_matrix,
)
from cmdpax.loops import systems as loops
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, cmdps, dense_transitions, large_path


@pytest.fixture(autouse=True)
def _sparse():
    """Everything here is about the path of large models."""
    with large_path():
        yield


def truth(model: CMDP, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values `[1 + m, S]` and occupancy `[S]` by dense linear algebra."""
    system = np.eye(model.states) - model.discount * dense_transitions(model, policy)
    chosen = np.eye(model.actions)[policy] if policy.ndim == 1 else policy
    rewards = (stacked_rewards(model) * chosen).sum(-1)
    return np.linalg.solve(system, rewards.T).T, np.linalg.solve(system.T, model.initial)


def check(model: CMDP, policy: np.ndarray) -> None:
    values, visits = truth(model, policy)
    horizon = 1 / (1 - model.discount)
    scale = horizon * max(np.abs(model.reward).max(), np.abs(model.constraints).max())
    np.testing.assert_allclose(
        state_values(model, policy, stacked_rewards(model)), values, atol=1e-12 * horizon * scale
    )
    found = occupancy(model, policy)
    assert (found >= 0).all()
    assert np.abs(found - visits).sum() <= 1e-12 * horizon**2
    both = evaluate(model, policy)
    assert both.reward == pytest.approx(values[0] @ model.initial, abs=1e-12 * horizon * scale)


@settings(max_examples=80)
@given(cmdps(states=40))
def test_values_and_occupancies_against_dense_algebra(model):
    rng = np.random.default_rng(0)
    check(model, rng.integers(0, model.actions, model.states))
    check(model, rng.dirichlet(np.ones(model.actions), model.states))


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_larger_structures(structure, discount):
    check(
        build(structure, 400, 3, 3, discount, 5),
        np.random.default_rng(0).dirichlet(np.ones(3), 400),
    )


def test_batches_on_small_models_agree_with_single_policies(monkeypatch):
    """Any leading shape; rewards shared by all policies, or each policy's own."""
    monkeypatch.setattr(CMDP, "is_small", True)
    model, rng = cliff_world(), np.random.default_rng(0)
    policies, own = rng.dirichlet(np.ones(4), (2, 3, 21)), rng.random((2, 3, 2, 21, 4))
    shared = stacked_rewards(model)
    values = state_values(model, policies, own), state_values(model, policies, shared)
    visits = occupancy(model, policies)
    assert values[0].shape == values[1].shape == (2, 3, 2, 21)
    for place in np.ndindex(2, 3):
        alone = (state_values(model, policies[place], rewards) for rewards in (own[place], shared))
        for batched, single in zip(values, alone):
            np.testing.assert_allclose(batched[place], single, atol=1e-13)
        np.testing.assert_allclose(visits[place], occupancy(model, policies[place]), atol=1e-13)


def test_expected_next_takes_any_leading_shape():
    model = build("random", 30, 2, 3, 0.9, 0)
    values = np.random.default_rng(0).normal(size=(2, 3, 30))
    expected = np.stack(
        [values @ dense_transitions(model, np.full(30, a)).T for a in range(2)], axis=-1
    )
    np.testing.assert_allclose(expected_next(model, values), expected, atol=1e-14)
    np.testing.assert_allclose(
        action_values(model, model.reward, values[0, 0]),
        model.reward + 0.9 * expected[0, 0],
        atol=1e-14,
    )


def test_guess_and_tolerance_change_the_work_not_the_answer():
    model = build("random", 500, 2, 4, 0.99, 1)
    actions = np.zeros(500, dtype=int)
    values, visits = truth(model, actions)
    rng = np.random.default_rng(0)
    loose = state_values(model, actions, model.reward, 1e-4, guess=rng.normal(size=500))
    assert abs((loose - values[0]) @ model.initial) <= 1e-4 * np.abs(model.reward).max() * 100
    warm = occupancy(model, actions, 1e-10, guess=visits * 3.0)
    assert np.abs(warm - visits).sum() <= 1e-10 * 100
    with pytest.raises(ValueError):
        state_values(model, actions, model.reward, guess=np.zeros(3))


def test_uniform_start_does_not_break_the_occupancy_down():
    """BiCGStab with the uniform right-hand side as its shadow broke down here (SciPy: info -11)."""
    model = build("random", 3000, 1, 5, 0.99, 0)
    visits = occupancy(model, np.zeros(3000, dtype=int))
    rows = transition_matrix(model, np.zeros(3000, dtype=int))
    assert np.abs(model.initial + 0.99 * (rows.matrix.T @ visits) - visits).sum() <= 1e-12
    assert visits.sum() == pytest.approx(100)


def test_zero_reward():
    model = build("cycle", 10, 1, 1, 0.99, 0).replace(reward=np.zeros((10, 1)))
    assert (state_values(model, np.zeros(10, dtype=int), model.reward) == 0).all()


def slow_chain() -> CMDP:
    """A chain that mixes slowly, started anywhere: fixed-point steps give up."""
    return build("chain", 300, 2, 3, 0.999, 2).replace(initial=np.full(300, 1 / 300))


@pytest.mark.parametrize("rubbish", [0.0, 1e3, np.nan])
def test_failing_krylov_is_caught_by_lu(rubbish, monkeypatch):
    calls = []

    def broken(system, factors, right, *_):
        calls.append(1)
        return np.full_like(right, rubbish)

    monkeypatch.setattr(loops, "bicgstab", broken)
    check(slow_chain(), np.zeros(300, dtype=int))
    assert calls, "the chain was meant to need the Krylov stage"


def test_failing_everything_raises(monkeypatch):
    class Broken:
        def solve(self, right):
            return np.full_like(right, 7.0)

    monkeypatch.setattr(loops, "bicgstab", lambda system, factors, right, *_: np.zeros_like(right))
    monkeypatch.setattr(spla, "splu", lambda matrix: Broken())
    for attempt in (lambda m, a: occupancy(m, a), lambda m, a: state_values(m, a, m.reward)):
        with pytest.raises(NumericalError, match="could not be solved"):
            attempt(slow_chain(), np.zeros(300, dtype=int))


def test_lu_is_not_tried_on_models_it_could_choke_on(monkeypatch):
    monkeypatch.setattr(linear, "MAX_LU_STATES", 10)
    monkeypatch.setattr(loops, "bicgstab", lambda system, factors, right, *_: np.zeros_like(right))
    with pytest.raises(NumericalError):
        occupancy(slow_chain(), np.zeros(300, dtype=int))


def test_fixed_point_that_overflows_is_caught(monkeypatch):
    original = loops.relax
    monkeypatch.setattr(
        loops, "relax", lambda *arguments: (original(*arguments)[0], [np.nan], np.nan)
    )
    check(build("random", 50, 2, 3, 0.9, 0), np.zeros(50, dtype=int))


def test_batches_need_a_small_model():
    model = build("random", 300, 2, 2, 0.9, 0)
    with pytest.raises(InputError, match="batches"):
        state_values(model, np.full((3, 300, 2), 0.5), model.reward)
