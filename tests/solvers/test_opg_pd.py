import numpy as np
import pytest

import plain
from solvers.updates import LARGEST, MODEL, assert_follows, clip


def opg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    behind, prices_behind = policy, prices
    for _ in range(steps):
        u, up = plain.margins(MODEL, policy), step * plain.lagrangian_quality(MODEL, policy, prices)
        behind = np.array([plain.project(row) for row in behind + up])
        prices_behind = clip(prices_behind - dual_step * u, LARGEST)
        policy = np.array([plain.project(row) for row in behind + up])
        prices = clip(prices_behind - dual_step * u, LARGEST)
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("opg-pd", opg_pd, steps, step=0.2, dual_step=0.4)
