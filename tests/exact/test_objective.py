"""A utility on a form: its gradient is a reward, and its interval and bound hold."""

import numpy as np
import pytest

import cmdpax
from cmdpax import utilities
from cmdpax.exact.objective import residual
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.climb import objective_of

MODEL = cmdpax.environments.garnet(states=12, constraints=1)
TABLE = np.random.default_rng(0).dirichlet([1.0] * MODEL.choices).reshape(MODEL.states, -1)
READY = [
    utilities.entropy(),
    utilities.entropy("pairs"),
    utilities.kl(TABLE),
    utilities.distance(TABLE),
    utilities.fairness([TABLE, 1 - TABLE]),
    utilities.fairness([TABLE]) + 0.3 * utilities.entropy(),
]


def random_policy(seed):
    table = np.random.default_rng(seed).dirichlet([1.0] * MODEL.actions, MODEL.states)
    return MODEL.by_choice(table)


@pytest.mark.parametrize("utility", READY, ids=str)
def test_the_policy_gradient_is_visits_times_action_values(utility):
    objective, form, h = objective_of(MODEL, utility)[1], StandardForm.of(MODEL), 1e-6
    form = form.replace(objective=objective)
    policy, direction = random_policy(1), random_policy(2) - random_policy(1)
    ends = [float(form.evaluate(policy + sign * h * direction).reward) for sign in (1, -1)]
    here = form.evaluate(policy)
    q = form.criterion.action_values(form, here.slope, here.values[0])
    visits = form.transitions.by_state(form.criterion.visits(form, policy))
    slope = float((visits * q * direction).sum())
    assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(slope, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("utility", READY, ids=str)
def test_an_interval_holds_the_value_and_no_policy_exceeds_a_bound(utility):
    objective, form = objective_of(MODEL, utility)[1], StandardForm.of(MODEL)
    (low, high), point, _ = objective.interval(form, random_policy(3))
    assert low <= utility.value(*objective.point(form, random_policy(3))) <= high
    assert high - low <= 1e-8
    slope = objective.at(form, point)[1]
    potential = form.criterion.plan(form, slope).values
    for wrong in (0.0, 0.1):  # whatever the potential is, the bound holds
        rough = potential + wrong * np.random.default_rng(4).normal(size=form.states)
        bound = objective.bound(form, point, np.zeros(form.constraint_count), rough)
        for seed in range(30):
            assert utility.value(*objective.point(form, random_policy(seed))) <= bound


def test_the_residual_bounds_how_wrong_visits_are():
    form, policy = StandardForm.of(MODEL), random_policy(5)
    true = form.criterion.visits(form, policy)
    for size in (1e-3, 0.1):
        wrong = true + size * np.random.default_rng(6).normal(size=form.states)
        off = form.criterion.unit * float(np.abs(wrong - true).sum())
        assert off <= residual(form, policy, wrong)
    assert residual(form, policy, true) < 1e-12


def test_a_step_of_theory_is_no_longer_than_the_curvature_allows():
    utility = utilities.distance(TABLE) + utilities.soft_limit("reward", most=0.1)
    objective, form = objective_of(MODEL, utility)[1], StandardForm.of(MODEL)
    form, h = form.replace(objective=objective), 1e-3
    largest = objective.smoothness(form)
    for seed in range(20):
        policy, other = random_policy(seed), random_policy(seed + 50)
        direction = other - policy
        values = [
            float(form.evaluate(policy + t * direction).reward) for t in (0.5 - h, 0.5, 0.5 + h)
        ]
        bend = abs(values[0] - 2 * values[1] + values[2]) / h**2 / float((direction**2).sum())
        assert bend <= largest
