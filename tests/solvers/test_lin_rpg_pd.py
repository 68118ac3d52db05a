import pytest

import plain
from solvers.updates import FEATURES, LARGEST, MODEL, assert_follows, clip


def lin_rpg_pd(steps, step, dual_step, temperature):
    (policy, prices), theta = plain.uniform(MODEL), 0.0
    for _ in range(steps):
        u, soft = (
            plain.margins(MODEL, policy),
            plain.soft_quality(MODEL, policy, prices, temperature),
        )
        theta = (1 - step * temperature) * theta + step * plain.compatible(
            MODEL, policy, FEATURES, soft
        )
        policy = plain.log_linear(FEATURES, theta)
        prices = clip((1 - dual_step * temperature) * prices - dual_step * u, LARGEST)
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows(
        "rpg-pd",
        lin_rpg_pd,
        steps,
        FEATURES,
        tolerance=1e-6,
        step=0.2,
        dual_step=0.4,
        temperature=0.2,
    )
