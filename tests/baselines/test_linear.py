"""Log-linear baselines: the compatible regression against a plain one, and one-hot features against the tabular methods."""

import numpy as np
import pytest

import plain
from cmdpax.baselines.lin_ppo_lag import ascend
from cmdpax.baselines.linear import linear_start, natural_gradient
from cmdpax.environments import cliff_world
from cmdpax.evaluation import evaluate, occupancy
from cmdpax.methods import trajectory
from cmdpax.policies.log_linear import Features, one_hot


def iterate_at(model, features, x):
    from dataclasses import replace

    start = linear_start(model, {"features": features, "step": 1.0})
    policy = features.probabilities(x)
    return replace(start, policy=policy, evaluation=evaluate(model, policy), memory={"x": x})


def test_the_natural_gradient_is_the_shortest_least_squares_fit():
    model, rng = plain.tiny(), np.random.default_rng(0)
    table = rng.standard_normal((4, 3, 3))
    table = np.concatenate([table, table[..., :1] + table[..., 1:2]], -1)  # a redundant feature: many minimisers
    features, quality = Features(table), rng.standard_normal((4, 3))
    iterate = iterate_at(model, features, rng.standard_normal(features.rank))
    weight = (occupancy(model, iterate.policy)[:, None] * iterate.policy).ravel()
    score = (table - np.einsum("sa,sad->sd", iterate.policy, table)[:, None]).reshape(12, 4)
    shortest = np.linalg.lstsq(np.sqrt(weight)[:, None] * score, np.sqrt(weight) * quality.ravel(), rcond=1e-10)[0]
    found = features.parameters(natural_gradient(model, iterate, features, quality))
    np.testing.assert_allclose(found, shortest, atol=1e-6)


def test_an_action_that_was_nearly_given_up_can_come_back():
    """Two actions, one with probability 1e-40: its weight in the regression is far below rounding, its direction is not lost."""
    model = cliff_world()
    features = Features(one_hot(21, 4))
    x = features.coordinates(-92 * np.eye(84)[5])  # state 1, action 1
    quality = np.zeros((21, 4))
    quality[1, 1] = 1.0
    direction = features.parameters(natural_gradient(model, iterate_at(model, features, x), features, quality)).reshape(21, 4)
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


def test_the_clipped_surrogates_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(2)
    features = Features(np.repeat(rng.standard_normal((3, 3, 4)), 2, axis=0))  # six states in three groups
    old, worth, clip = rng.standard_normal(features.rank), rng.standard_normal((6, 3)), 0.2
    before = features.probabilities(old)

    def objective(x):
        ratio = features.probabilities(x) / before
        return (before * np.minimum(ratio * worth, np.clip(ratio, 1 - clip, 1 + clip) * worth)).sum()

    size = 1e-7
    step = (ascend(features, old[None], worth[None], np.array([size]), np.array([clip]), 1)[0] - old) / size
    for i in range(features.rank):
        e = 1e-6 * np.eye(features.rank)[i]
        assert step[i] == pytest.approx((objective(old + e) - objective(old - e)) / 2e-6, rel=1e-4, abs=1e-6)


def test_nothing_moves_once_everything_is_clipped():
    features = Features(one_hot(2, 2))
    worth = np.array([[[1.0, -1.0], [1.0, -1.0]]])
    short, long = (ascend(features, np.zeros((1, 2)), worth, np.array([5.0]), np.array([0.1]), n) for n in (1, 50))
    np.testing.assert_array_equal(short, long)
    assert features.probabilities(long)[0, 0, 0] > 0.55
