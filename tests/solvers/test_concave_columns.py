"""Columns of a concave utility: the mixture by hand, and its policy has the mixture's values."""

import numpy as np
import pytest

import cmdpax
from cmdpax import utilities
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.climb import objective_of
from cmdpax.solvers.concave_columns import ConcaveColumns


def climb(model, utility, steps, multipliers=()):
    linear, objective = objective_of(model, utility)
    form = StandardForm.of(linear).replace(objective=objective)
    oracle, state = ConcaveColumns(), None
    state = oracle.start(form)
    al = AugmentedLagrangian(np.array(multipliers), 1.0)
    for _ in range(steps):
        state = oracle.advance(form, state, al)
    return form, oracle, state, al


def test_proportional_fairness_of_two_actions_is_half_and_half():
    model = cmdpax.CMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), [], [], 0, 0.5)
    rewards = [np.array([[1.0, 0.0]]), np.array([[0.0, 3.0]])]
    form, oracle, state, al = climb(model, utilities.fairness(rewards), 4)
    assert state.point == pytest.approx([1.0, 3.0])  # log x + log(3 (2 - x)) is best at x = 1
    assert oracle.policy(form, state) == pytest.approx([0.5, 0.5])
    assert oracle.gap(form, state, al).gap == pytest.approx(0, abs=1e-9)


def test_the_policy_has_the_values_of_the_mixture():
    model = cmdpax.environments.garnet(states=30, constraints=2)
    rewards = np.random.default_rng(0).uniform(size=(3, model.states, model.actions))
    form, oracle, state, al = climb(model, utilities.fairness(rewards), 25, [0.3, 0.0])
    evaluation = form.evaluate(oracle.policy(form, state))
    assert float(evaluation.reward) == pytest.approx(state.reward, abs=1e-9)
    assert evaluation.margins == pytest.approx(state.margins, abs=1e-9)
    assert 0 <= oracle.gap(form, state, al).gap < 1e-6
