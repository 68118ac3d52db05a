"""The accelerated oracle never lowers the utility, and needs fewer evaluations than plain steps."""

import numpy as np

import cmdpax
from cmdpax import utilities
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.accelerated import Accelerated
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.climb import objective_of
from cmdpax.solvers.policy_gradient import PolicyGradient, npg


def test_it_climbs_and_beats_plain_steps():
    model = cmdpax.environments.grid_world(8, 8, discount=0.95)
    linear, objective = objective_of(model, utilities.entropy())
    form = StandardForm.of(linear).replace(objective=objective)
    utility, gaps = AugmentedLagrangian(np.array([0.01]), 0.1), []
    for oracle in (Accelerated(), PolicyGradient(npg)):
        state = oracle.start(form)
        values = [float(utility.value(state.reward, state.margins))]
        for _ in range(150):
            state = oracle.advance(form, state, utility)
            values.append(float(utility.value(state.reward, state.margins)))
        assert (np.diff(values) >= -1e-12).all()
        gaps.append(oracle.gap(form, state, utility).gap)
    assert 0 <= gaps[0] < gaps[1]


def test_without_another_objective_it_improves_the_reward():
    model = cmdpax.environments.cliff_world()
    result = cmdpax.solve(model, Accelerated(), eps=1e-3)
    assert result.status == "certified" and result.method == "Accelerated"
