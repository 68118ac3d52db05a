"""Loops over stacked models against those of one model."""

import numpy as np

from cmdpax.environments import garnet
from cmdpax.exact.stack import Stack
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import bellman, scenarios
from cmdpax.loops.compiled import readable


def test_distances_and_values_of_each_model():
    models = [garnet(states=8, branching=1 + seed % 3, seed=seed) for seed in range(4)]
    stack = Stack(models)
    policies = np.stack([model.transitions.uniform_policy() for model in models])
    values = np.empty((4, 2, 8))
    rewards = readable(stack.functions)
    scenarios.policy_values(stack.kernel, rewards, readable(policies), stack.reachable, values)
    for n, model in enumerate(models):
        form = StandardForm.of(model)
        assert (stack.steps[n] == bellman.distances(model.transitions, model.initial)).all()
        seen = form.reachable
        own = form.evaluate(policies[n]).values[:, seen]
        shifted = own - (own.min(1) / 2 + own.max(1) / 2)[:, None]
        np.testing.assert_allclose(values[n][:, seen], shifted, atol=1e-9)
