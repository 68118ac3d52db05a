import numpy as np
import pytest

import plain
from solvers.updates import LARGEST, MODEL, assert_follows, clip


def npg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u = plain.margins(MODEL, policy)
        policy = plain.normalise(
            policy * np.exp(step * plain.lagrangian_quality(MODEL, policy, prices))
        )
        prices = clip(prices - dual_step * u, LARGEST)
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("npg-pd", npg_pd, steps, step=0.7, dual_step=0.4)
