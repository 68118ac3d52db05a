"""A stack of models says of each what its own form says."""

import numpy as np
import pytest

from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.stack import Stack, is_plain
from cmdpax.exact.standard import StandardForm


def test_ranges_tolerances_and_scales_are_those_of_each_form():
    models = [garnet(states=9, constraints=2, seed=seed) for seed in range(5)]
    models[1] = models[1].replace(reward=models[1].reward + 1e5)  # a constant is taken out
    models[2] = models[2].replace(discount=0.8, senses="<=")
    stack = Stack(models)
    tolerances, is_usual = stack.tolerances(1e-6)
    assert is_usual.all()
    for n, model in enumerate(models):
        form = StandardForm.of(model)
        ranges = attained_ranges(form)
        assert stack.ranges[0][n] == pytest.approx(ranges.bounds, rel=1e-12)
        own = ranges.tolerances(1e-6, model.limits.compared)
        assert tolerances[n] == pytest.approx(own, rel=1e-9)
        scaled = form.scaled(own / 1e-6).form
        rewards, thresholds = stack.scaled(tolerances / 1e-6)
        assert rewards[n, 0] == pytest.approx(scaled.reward, abs=1e-9)
        assert thresholds[n] == pytest.approx(scaled.thresholds, abs=1e-8)


def test_bounds_hold_the_values_of_policies():
    models = [garnet(states=9, constraints=2, seed=seed) for seed in range(4)]
    stack, rng = Stack(models), np.random.default_rng(0)
    policies = np.stack([model.transitions.uniform_policy() for model in models])
    choices = np.stack([model.first_choice[:-1] for model in models]).astype(np.int64)
    weights = rng.random((4, 2))
    bounds, margins, uppers, *_ = stack.proofs(policies, weights, choices)
    for n, model in enumerate(models):
        form = StandardForm.of(model)
        evaluation = form.evaluate(policies[n])
        values = np.append(evaluation.reward, evaluation.margins + form.thresholds)
        assert (bounds[n, :, 0] <= values + 1e-12).all()
        assert (values <= bounds[n, :, 1] + 1e-12).all()
        assert margins[n].mean(1) == pytest.approx(evaluation.margins, abs=1e-9)
        lagrangian = form.pseudo_reward(weights[n])
        best = form.criterion.plan(form, lagrangian).value - weights[n] @ form.thresholds
        assert uppers[n] >= best - 1e-9  # whatever choices the potential is of


def test_what_is_plain():
    model = garnet(states=9)
    assert is_plain(model) and is_plain(cliff_world())
    assert not is_plain(model.replace(discount=0.9999)) and not is_plain(garnet(constraints=0))
    assert not is_plain(garnet(states=2000))
