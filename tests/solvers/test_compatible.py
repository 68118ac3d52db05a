"""Log-linear baselines: the compatible regression against a plain one, and one-hot features against
the tabular methods.
"""

from dataclasses import replace

import numpy as np
import pytest

import plain
from cmdpax.environments import cliff_world
from cmdpax.exact.discounted import evaluate
from cmdpax.solvers.compatible import linear_start, natural_gradient
from cmdpax.solvers.policy_classes import Features, one_hot
from cmdpax.solvers.table import trajectory


def iterate_at(model, features, x):
    start = linear_start(model, {"features": features, "step": 1.0})
    policy = features.probabilities(x)
    return replace(start, policy=policy, evaluation=evaluate(model, policy), memory={"x": x})


def test_the_natural_gradient_is_the_shortest_least_squares_fit():
    model, rng = plain.tiny(), np.random.default_rng(0)
    table = rng.standard_normal((4, 3, 3))
    table = np.concatenate(
        [table, table[..., :1] + table[..., 1:2]], -1
    )  # a redundant feature: many minimisers
    features, quality = Features(table), rng.standard_normal((4, 3))
    iterate = iterate_at(model, features, rng.standard_normal(features.rank))
    found = features.parameters(natural_gradient(model, iterate, features, quality))
    np.testing.assert_allclose(
        found, plain.compatible(model, iterate.policy, table, quality), atol=1e-6
    )


def test_an_action_that_was_nearly_given_up_can_come_back():
    """Two actions, one with probability 1e-40: its weight in the regression is far below rounding,
    its direction is not lost.
    """
    model = cliff_world()
    features = Features(one_hot(21, 4))
    x = features.coordinates(-92 * np.eye(84)[5])  # state 1, action 1
    quality = np.zeros((21, 4))
    quality[1, 1] = 1.0
    direction = features.parameters(
        natural_gradient(model, iterate_at(model, features, x), features, quality)
    ).reshape(21, 4)
    assert direction[1, 1] - direction[1, 0] == pytest.approx(1.0, abs=1e-2)


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("npg-pd", {"step": 1.0, "dual_step": 1.0}),
        ("rpg-pd", {"step": 1.0, "dual_step": 0.1, "temperature": 0.01}),
        ("reload", {"step": 0.1, "dual_step": 1.0}),
        ("ppo-lag", {"step": 10.0, "dual_step": 1.0, "clip": 0.2, "passes": 10, "inner": 20}),
    ],
)
def test_one_hot_features_give_back_the_tabular_method(name, settings):
    model = cliff_world()
    tabular = trajectory(model, name, **settings, steps=60)
    linear = trajectory(model, name, one_hot(21, 4), **settings, steps=60)
    np.testing.assert_allclose(linear.rewards, tabular.rewards, atol=1e-8)
    np.testing.assert_allclose(linear.policy, tabular.policy, atol=1e-6)
    np.testing.assert_allclose(linear.multipliers, tabular.multipliers, atol=1e-6)
