import pytest

import plain
from solvers.updates import FEATURES, LARGEST, MODEL, assert_follows, clip


def lin_npg_pd(steps, step, dual_step):
    (policy, prices), theta = plain.uniform(MODEL), 0.0
    for _ in range(steps):
        u, quality = plain.margins(MODEL, policy), plain.lagrangian_quality(MODEL, policy, prices)
        theta = theta + step * plain.compatible(MODEL, policy, FEATURES, quality)
        policy, prices = plain.log_linear(FEATURES, theta), clip(prices - dual_step * u, LARGEST)
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("npg-pd", lin_npg_pd, steps, FEATURES, tolerance=1e-6, step=0.2, dual_step=0.4)
