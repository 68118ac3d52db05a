import numpy as np
import pytest

import plain
from cmdpax.solvers.table import trajectory
from solvers.updates import MODEL, assert_follows, clip


def npg_dd(steps, dual_step, temperature, inner):
    policy, ahead = plain.uniform(MODEL)
    prices = ahead
    for k in range(1, steps + 1):
        policy = plain.normalise(
            np.exp(plain.soft_quality(MODEL, policy, ahead, temperature) / temperature)
        )
        if k % inner == 0:
            t, before = k // inner, prices
            prices = clip(ahead - dual_step * plain.margins(MODEL, policy))
            ahead = clip(prices + t / (t + 3) * (prices - before))
    return policy, ahead


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("npg-dd", npg_dd, steps, dual_step=0.4, temperature=0.5, inner=2)


def test_the_inner_loop_ends_at_the_regularised_optimum():
    """For multipliers 0: `V = tau log sum_a exp(Q / tau)` in every state, and the policy is the
    softmax of Q.
    """
    tau = 0.5
    run = trajectory(MODEL, "npg-dd", dual_step=0.4, temperature=tau, inner=200, steps=199)
    values = np.zeros(MODEL.states)
    for _ in range(300):
        quality = plain.quality(MODEL, values, MODEL.reward)
        values = tau * np.log(np.exp(quality / tau).sum(1))
    np.testing.assert_allclose(run.policy, plain.normalise(np.exp(quality / tau)), atol=1e-10)
    assert not run.multipliers.any()
