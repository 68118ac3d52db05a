import numpy as np
import pytest

import plain
from cmdpax.solvers.table import trajectory
from solvers.updates import MODEL, assert_follows, clip


def reload(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    past = None
    for _ in range(steps):
        now = plain.lagrangian_quality(MODEL, policy, prices), plain.margins(MODEL, policy)
        past = past or now
        policy = plain.normalise(policy * np.exp(step * (2 * now[0] - past[0])))
        prices = clip(prices - dual_step * (2 * now[1] - past[1]))
        past = now
    return policy, prices


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_update_is_its_formula(steps):
    assert_follows("reload", reload, steps, step=0.7, dual_step=0.4)


def test_the_first_step_has_no_past_and_is_that_of_npg_pd():
    first, plain_step = (
        trajectory(MODEL, name, step=0.7, dual_step=0.4, steps=1) for name in ("reload", "npg-pd")
    )
    np.testing.assert_array_equal(first.policy, plain_step.policy)
    np.testing.assert_array_equal(first.multipliers, plain_step.multipliers)
