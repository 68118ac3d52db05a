"""Three scales, one optimum: exact, log-linear from samples, networks from samples.

`solve`, `sampled_alm` and `train` see the same model, the last two through its simulator, and are
held to one number, the certified optimum. Policies are judged by their exact values: nothing here
is an estimate but what the learners saw. The queue has an upper limit that binds and a price above
1; the other model has two lower limits, of which one binds.
"""

import numpy as np
import pytest

import cmdpax
from cmdpax import environments
from cmdpax.exact.standard import StandardForm
from cmdpax.learning.sampled_alm import SampledSettings, sampled_alm
from cmdpax.learning.simulator import ModelSimulator
from cmdpax.solvers.log_linear import one_hot
from cmdpax.solvers.policy_classes import softmax
from cmdpax.solvers.policy_gradient import spma

MODELS = {
    "queue": environments.queue(4, discount=0.9),
    "garnet": environments.garnet(
        states=5, actions=3, constraints=2, branching=2, discount=0.8, seed=2
    ),
}
SETTINGS = SampledSettings(outer=30, episodes=1000, penalty=1.0, step=0.1)


def reward_range(model):
    """The least and the largest reward of all policies."""
    rewards = [model.reward * sign for sign in (-1, 1)]
    none = np.zeros((0, model.states, model.actions))
    free = {"constraints": none, "thresholds": [], "senses": [], "constraint_names": []}
    low, high = (cmdpax.solve(model.replace(reward=one, **free)).reward for one in rewards)
    return -low, high


def exactly(model, folder):
    return cmdpax.solve(model).policy


def from_features(model, folder):
    table = one_hot(model.states, model.actions)
    return sampled_alm(ModelSimulator(model), table, SETTINGS, step=spma)(np.arange(model.states))


def from_networks(model, folder):
    settings = {"limits": model.limits.texts, "reserve": 0, "samples": 300_000}
    run = cmdpax.train(model, folder=folder, **settings)
    nothing = np.zeros((model.states, model.actions), np.float32)  # no noise: the logits
    return softmax(run.policy.core.outputs(np.eye(model.states), nothing).astype(np.float64))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learn", "regret", "excess"),
    [(exactly, 1e-5, 1e-5), (from_features, 0.03, 0.05), (from_networks, 0.06, 0.05)],
)
@pytest.mark.parametrize("name", MODELS)
def test_three_scales_one_optimum(name, learn, regret, excess, tmp_path):
    """regret: share of the range of rewards, below or (beyond the limits) above the optimum.

    excess: the share of a limit by which it may be exceeded.
    """
    model = MODELS[name]
    best, (low, high) = cmdpax.solve(model), reward_range(model)
    assert best.status == "certified" and best.multipliers.max() > 0.5
    values = StandardForm.of(model).evaluate(learn(model, tmp_path / "run"))
    assert abs(best.reward - float(values.reward)) <= regret * (high - low)
    assert (values.margins >= -excess * abs(model.limits.row_thresholds)).all()
