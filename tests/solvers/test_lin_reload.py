import pytest

import plain
from solvers.updates import FEATURES, MODEL, assert_follows, clip


def lin_reload(steps, step, dual_step):
    (policy, prices), theta, past = plain.uniform(MODEL), 0.0, None
    for _ in range(steps):
        quality = plain.lagrangian_quality(MODEL, policy, prices)
        now = plain.compatible(MODEL, policy, FEATURES, quality), plain.margins(MODEL, policy)
        past = past or now
        theta = theta + step * (2 * now[0] - past[0])
        policy, prices = (
            plain.log_linear(FEATURES, theta),
            clip(prices - dual_step * (2 * now[1] - past[1])),
        )
        past = now
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("reload", lin_reload, steps, FEATURES, tolerance=1e-6, step=0.2, dual_step=0.4)
