import numpy as np
import pytest

import plain
from cmdpax.solvers.ppo_lag import surrogate_gradient
from cmdpax.solvers.table import trajectory
from solvers.updates import MODEL, clip


def ppo_lag(steps, step, dual_step, clip_range, passes, inner):
    policy, prices = plain.uniform(MODEL)
    theta = np.log(policy)
    for k in range(1, steps + 1):
        old = policy
        advantage = plain.lagrangian_quality(MODEL, old, prices)
        advantage = advantage - (old * advantage).sum(1, keepdims=True)
        d = (1 - MODEL.discount) * plain.occupancy(MODEL, old)

        def surrogate(theta, old=old, advantage=advantage, d=d):
            ratio = plain.normalise(np.exp(theta)) / old
            return d @ (
                old
                * np.minimum(
                    ratio * advantage, np.clip(ratio, 1 - clip_range, 1 + clip_range) * advantage
                )
            ).sum(1)

        for _ in range(passes):
            theta = theta + step * plain.slope(surrogate, theta)
        policy = plain.normalise(np.exp(theta))
        if k % inner == 0:
            prices = clip(prices - dual_step * plain.margins(MODEL, policy))
    return policy, prices


@pytest.mark.parametrize("inner", [1, 3])
def test_it_climbs_the_clipped_surrogate(inner):
    settings = {"step": 40.0, "dual_step": 0.4, "passes": 4}  # large enough for the clip to bite
    policy, prices = ppo_lag(4, clip_range=0.1, inner=inner, **settings)
    run = trajectory(MODEL, "ppo-lag", steps=4, clip=0.1, inner=inner, **settings)
    np.testing.assert_allclose(run.policy, policy, atol=1e-7)
    np.testing.assert_allclose(run.multipliers, prices, atol=1e-7)
    unclipped = trajectory(MODEL, "ppo-lag", steps=4, clip=10.0, inner=inner, **settings)
    assert np.abs(unclipped.policy - run.policy).max() > 1e-3


def test_what_is_clipped_has_no_slope():
    old = np.full((1, 2), 0.5)
    beyond = np.array(
        [[0.7, 0.3]]
    )  # more than 1.2 times the old probability of what is good, less than 0.8 of what is bad
    assert not surrogate_gradient(beyond, old, np.array([[1.0, -1.0]]), np.array([[0.2]])).any()
    assert surrogate_gradient(beyond, old, np.array([[-1.0, 1.0]]), np.array([[0.2]])).all()
