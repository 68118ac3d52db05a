import numpy as np
import pytest

import plain
from solvers.updates import LARGEST, MODEL, assert_follows, clip


def npg_nrl(steps, step, temperature):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u, soft = (
            plain.margins(MODEL, policy),
            plain.soft_quality(MODEL, policy, prices, temperature),
        )
        policy = plain.normalise(policy ** (1 - step * temperature) * np.exp(step * soft))
        prices = clip(
            (1 - step * temperature) * prices - step * u, LARGEST
        )  # one step size for both players
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("npg-nrl", npg_nrl, steps, step=0.3, temperature=0.2)
