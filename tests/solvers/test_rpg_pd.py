import numpy as np
import pytest

import plain
from cmdpax.solvers.table import trajectory
from solvers.updates import LARGEST, MODEL, assert_follows, clip


def rpg_pd(steps, step, dual_step, temperature):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u, soft = (
            plain.margins(MODEL, policy),
            plain.soft_quality(MODEL, policy, prices, temperature),
        )
        policy = plain.normalise(policy ** (1 - step * temperature) * np.exp(step * soft))
        prices = clip((1 - dual_step * temperature) * prices - dual_step * u, LARGEST)
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("rpg-pd", rpg_pd, steps, step=0.7, dual_step=0.4, temperature=0.2)


def test_without_temperature_it_is_npg_pd():
    cold = trajectory(MODEL, "rpg-pd", step=0.7, dual_step=0.4, temperature=1e-13, steps=7)
    np.testing.assert_allclose(
        cold.policy,
        trajectory(MODEL, "npg-pd", step=0.7, dual_step=0.4, steps=7).policy,
        atol=1e-10,
    )


def test_it_settles_at_the_regularised_saddle_point():
    """There `pi ~ exp(Q_tau / tau)`, and every multiplier is `-u / tau` or 0."""
    tau = 0.5
    run = trajectory(MODEL, "rpg-pd", step=0.5, dual_step=0.1, temperature=tau, steps=500)
    soft = plain.soft_quality(MODEL, run.policy, run.multipliers, tau)
    np.testing.assert_allclose(
        run.policy, plain.normalise(np.exp((soft - soft.max(1, keepdims=True)) / tau)), atol=1e-8
    )
    np.testing.assert_allclose(
        run.multipliers, clip(-plain.margins(MODEL, run.policy) / tau, LARGEST), atol=1e-8
    )
