import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.errors import NumericalError
from cmdpax.exact.certificate import optimum_bound
from cmdpax.exact.discounted import state_values
from cmdpax.exact.planning import plan
from cmdpax.loops import bellman
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, cmdps, large_path


def best_values(model: CMDP) -> np.ndarray:
    """Optimal values by policy iteration on dense matrices, `[S]`."""
    states, actions = np.arange(model.states), np.zeros(model.states, dtype=int)
    for _ in range(1000):
        values = np.linalg.solve(
            np.eye(model.states) - model.discount * model.tensor[states, actions],
            model.reward[states, actions],
        )
        quality = model.reward + model.discount * model.tensor @ values
        better = np.where(
            quality.max(1) > quality[states, actions] + 1e-11, quality.argmax(1), actions
        )
        if (better == actions).all():
            return values
        actions = better
    raise AssertionError("policy iteration cycles")


def check(model: CMDP, tolerance: float = 0.0, **guess: np.ndarray) -> None:
    """The plan's value is an upper bound, within the tolerance (or rounding), and its actions
    attain it.
    """
    optimum = float(best_values(model) @ model.initial)
    horizon = 1 / (1 - model.discount)
    allowed = max(tolerance, 1e-11 * horizon * horizon * np.abs(model.reward).max())
    found = plan(model, model.reward, tolerance=tolerance, **guess)
    assert optimum - allowed <= found.value <= optimum + allowed
    attained = state_values(model, found.actions, model.reward) @ model.initial
    assert attained >= optimum - 2 * allowed
    assert optimum_bound(model, model.reward, found.values) <= optimum + 2 * allowed


@pytest.fixture
def sparse():
    with large_path():
        yield


@settings(max_examples=80)
@given(cmdps(states=40))
def test_small_and_large_paths_against_dense_policy_iteration(model):
    check(model)
    with large_path():
        check(model)
        check(model, tolerance=1e-6)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_structures_at_high_discount(structure, discount, sparse):
    check(build(structure, 250, 3, 2, discount, 11))


@pytest.mark.parametrize(
    "model",
    [
        garnet(400, discount=0.999),
        grid_world(20, 20),
        grid_world(18, 18, slip=0.0, discount=0.999),
        queue(400),
        inventory(300),
    ],
    ids=["garnet", "grid", "deterministic grid", "queue", "inventory"],
)
def test_environments(model):
    check(model)
    check(model.replace(reward=model.constraints[0]))


def test_warm_starts_change_the_work_not_the_answer(sparse):
    model = build("random", 200, 3, 3, 0.99, 1)
    rng = np.random.default_rng(0)
    check(model, values=rng.normal(size=200) * 100)
    check(model, start=rng.integers(0, 3, 200))
    check(model, values=best_values(model))


def test_a_good_guess_needs_one_backup(sparse, monkeypatch):
    model = build("random", 200, 3, 3, 0.99, 1)
    known = plan(model, model.reward).values
    calls = []
    original = bellman.backup
    monkeypatch.setattr(
        bellman, "backup", lambda *arguments: calls.append(1) or original(*arguments)
    )
    plan(model, model.reward, values=known + 5.0, tolerance=1e-8)  # a constant does not matter
    assert len(calls) == 1


def test_loose_tolerance_is_a_bound_too(sparse):
    model = build("random", 300, 4, 3, 0.99, 3)
    loose, tight = plan(model, model.reward, tolerance=1.0), plan(model, model.reward)
    assert tight.value <= loose.value + 1e-9 <= tight.value + 1.0


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("after", [0, 2, 5])
def test_planning_cut_short_is_a_bound_too(structure, after, sparse):
    model, asked = build(structure, 300, 4, 3, 0.99, 3), []

    def stop():
        asked.append(1)
        return len(asked) > after

    short, whole = plan(model, model.reward, stop=stop), plan(model, model.reward)
    assert whole.value <= short.value + 1e-9 * model.reward_scale and len(asked) <= after + 2
    assert (
        float(model.initial @ state_values(model, short.actions, model.reward))
        <= whole.value + 1e-9 * model.reward_scale
    )


def test_wrong_shapes_are_refused(sparse):
    model = build("random", 20, 2, 2, 0.9, 0)
    with pytest.raises(ValueError):
        plan(model, model.reward, values=np.zeros(3))
    with pytest.raises(ValueError):
        plan(model, np.zeros((3, 2)))


def test_planning_that_does_not_settle_raises(sparse, monkeypatch):
    model = build("random", 30, 2, 2, 0.9, 0)
    monkeypatch.setattr(
        "cmdpax.exact.planning.fixed_point",
        lambda system, right, tolerance, guess: (right * 0.0, True),
    )
    with pytest.raises(NumericalError, match="settle"):
        plan(model, model.reward)
