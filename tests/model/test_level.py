"""A level that values must reach: the optimum of the larger model is the max-min of the smaller."""

import numpy as np
import pytest

import cmdpax
from cmdpax.model.level import with_a_level


def test_two_rewards_that_exclude_each_other_are_shared():
    transitions = np.ones((1, 2, 1))
    model = cmdpax.CMDP(transitions, np.zeros((1, 2)), [], [], 0, 0.9)
    rewards = np.array([[1.0, 0.0], [0.0, 3.0]])  # max min: 3/4 of the time the first, 7.5
    larger = with_a_level(model, rewards, 0.0, 10.0)
    assert (larger.states, larger.constraint_count) == (2, 2)
    result = cmdpax.solve(larger, eps=1e-8)
    assert result.reward == pytest.approx(7.5, abs=1e-6)
    assert result.policy[0] == pytest.approx([0.75, 0.25], abs=1e-6)


def test_at_discount_0_nothing_follows():
    model = cmdpax.CMDP(np.ones((1, 2, 1)), np.zeros((1, 2)), [], [], 0, 0.0)
    with pytest.raises(cmdpax.InputError, match="discount 0"):
        with_a_level(model, np.ones((2, 2)), 0.0, 1.0)
