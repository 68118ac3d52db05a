from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.errors import NumericalError
from cmdpax.exact import planning
from cmdpax.exact.bounds import Claim, best_bounds
from cmdpax.exact.planning import Plan
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import bellman
from models import STRUCTURES, build, cmdps, large_path, renumbered, uneven


def form_of(*arguments) -> StandardForm:
    return StandardForm.of(build(*arguments))


def plan(form: StandardForm, **options) -> Plan:
    return form.criterion.plan(form, form.reward, **options)


def value_of(form: StandardForm, actions: np.ndarray) -> float:
    return float(form.criterion.values(form, actions, form.reward) @ form.initial)


def best_values(form: StandardForm) -> np.ndarray:
    """Optimal values by policy iteration on dense matrices, `[S]`."""
    first, discount = form.transitions.first_choice, form.criterion.discount
    matrix, choices = form.transitions.matrix.toarray(), first[:-1]
    for _ in range(1000):
        system = np.eye(form.states) - discount * matrix[choices]
        values = np.linalg.solve(system, form.reward[choices])
        action_values = form.reward + discount * matrix @ values
        best = np.array([i + np.argmax(action_values[i:j]) for i, j in pairwise(first)])
        gain = action_values[best] - action_values[choices]
        better = np.where(gain > 1e-11, best, choices)
        if (better == choices).all():
            return values
        choices = better
    raise AssertionError("policy iteration cycles")


def check(form: StandardForm, tolerance: float = 0.0, **guess: np.ndarray) -> None:
    """The plan's value is an upper bound, within the tolerance (or rounding), and its actions
    attain it.
    """
    optimum = float(best_values(form) @ form.initial)
    mass = form.criterion.mass
    allowed = max(tolerance, 1e-11 * mass * mass * np.abs(form.reward).max())
    best = plan(form, tolerance=tolerance, **guess)
    assert optimum - allowed <= best.value <= optimum + allowed
    assert value_of(form, best.choices) >= optimum - 2 * allowed
    bound = best_bounds(form, Claim(form.reward, np.abs(form.reward)), best.values)[1]
    assert optimum - allowed <= bound <= optimum + 2 * allowed


@pytest.fixture(params=[True, False], ids=["elimination", "none"])
def sparse(request):
    with large_path(request.param):
        yield


@settings(max_examples=80)
@given(cmdps(states=40))
def test_small_and_large_paths_against_dense_policy_iteration(model):
    form = StandardForm.of(model)
    check(form)
    for eliminates in (True, False):
        rows = model.transitions
        fresh = model.replace(transitions=rows.matrix, first_choice=rows.first_choice)
        form = StandardForm.of(fresh)
        with large_path(eliminates):
            check(form)
            check(form, tolerance=1e-6)


@pytest.mark.parametrize("large", [4, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_uneven_models_component_by_component(seed, large, sparse, monkeypatch):
    """Components of four states count as large, or none does."""
    monkeypatch.setattr("cmdpax.loops.components.LARGE", large)
    for discount in (0.9, 0.999):
        form = StandardForm.of(uneven(60, seed, discount))
        check(form)
        check(form, tolerance=1e-6)
        check(form, values=np.random.default_rng(0).normal(size=60) * 100)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_structures_at_high_discount(structure, discount, sparse):
    check(form_of(structure, 250, 3, 2, discount, 11))


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
    form = StandardForm.of(model)
    check(form)
    check(form.replace(reward=form.constraints[0]))


def test_warm_starts_change_the_work_not_the_answer(sparse):
    form = form_of("random", 200, 3, 3, 0.99, 1)
    rng = np.random.default_rng(0)
    check(form, values=rng.normal(size=200) * 100)
    check(form, start=3 * np.arange(200) + rng.integers(0, 3, 200))
    check(form, values=best_values(form))


def test_a_good_guess_needs_one_backup(sparse, monkeypatch):
    form = form_of("random", 200, 3, 3, 0.99, 1)
    values, calls, original = plan(form).values, [], bellman.backup
    monkeypatch.setattr(
        bellman, "backup", lambda *arguments: calls.append(1) or original(*arguments)
    )
    plan(form, values=values + 5.0, tolerance=1e-8)  # a constant does not matter
    assert len(calls) == 1


def test_policies_are_evaluated_no_better_than_the_tolerance_asks(sparse, monkeypatch):
    form = form_of("random", 300, 4, 3, 0.99, 3)
    asked, original = [], planning.fixed_point

    def solved(system, right, allowed, guess):
        asked.append(allowed)
        return original(system, right, allowed, guess)

    monkeypatch.setattr(planning, "fixed_point", solved)
    with large_path(eliminates=False):
        plan(form, tolerance=1e-3)
    assert asked and min(asked) >= 1e-3 / (4 * form.criterion.reach)


def test_random_models_are_planned_before_their_order_is_found(sparse):
    form = form_of("random", 300, 4, 3, 0.99, 3)
    plan(form)
    assert "order" not in vars(form.transitions)
    check(form)


def test_transitions_that_lead_far_may_mix_slowly_all_the_same(sparse):
    form = StandardForm.of(renumbered(queue(400, discount=0.9999), 0))
    plan(form)
    assert "order" in vars(form.transitions)
    check(form)


def test_loose_tolerance_is_a_bound_too(sparse):
    form = form_of("random", 300, 4, 3, 0.99, 3)
    loose, tight = plan(form, tolerance=1.0), plan(form)
    assert tight.value <= loose.value + 1e-9 <= tight.value + 1.0


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("after", [0, 2, 5])
def test_planning_cut_short_is_a_bound_too(structure, after, sparse):
    form, asked = form_of(structure, 300, 4, 3, 0.99, 3), []

    def stop():
        asked.append(1)
        return len(asked) > after

    short, whole, rounding = plan(form, stop=stop), plan(form), 1e-9 * form.reward_scale
    assert whole.value <= short.value + rounding and len(asked) <= after + 3
    assert value_of(form, short.choices) <= whole.value + rounding


def test_wrong_shapes_are_refused(sparse):
    form = form_of("random", 20, 2, 2, 0.9, 0)
    with pytest.raises(ValueError):
        plan(form, values=np.zeros(3))
    with pytest.raises(ValueError):
        form.criterion.plan(form, np.zeros(3))


def test_planning_that_does_not_settle_raises(monkeypatch):
    form = form_of("random", 30, 2, 2, 0.9, 0)
    monkeypatch.setattr(
        "cmdpax.exact.planning.fixed_point",
        lambda system, right, tolerance, guess: (right * 0.0, True),
    )
    with large_path(eliminates=False), pytest.raises(NumericalError, match="settle"):
        plan(form)
