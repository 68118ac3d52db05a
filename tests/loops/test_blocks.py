"""Passes over one block of rows, against the same state by state with a dense matrix."""

import numpy as np
import pytest

from cmdpax.loops import blocks
from cmdpax.loops.compiled import readable
from models import build, dense_transitions, own_block, random_policies

FIRST, LAST, DISCOUNT = 4, 9, 0.9
MODEL = build("absorbing", 12, 3, 3, DISCOUNT, 1)  # one choice of each state stays
POLICY = random_policies(MODEL)[1]
P = dense_transitions(MODEL, POLICY)
BLOCK, PAYS = own_block(MODEL, FIRST, LAST)
SHARES = readable(POLICY[MODEL.first_choice[FIRST] : MODEL.first_choice[LAST]])
REWARDS = np.stack([PAYS, np.arange(len(PAYS)) % 3 - 1.0])  # [F, k]
STEPS = np.add.reduceat(SHARES * REWARDS, 3 * np.arange(LAST - FIRST), axis=1)  # [F, n]


def in_turn(backwards: bool) -> list[int]:
    states = list(range(FIRST, LAST))
    return states[::-1] if backwards else states


def test_values_of_a_policy_go_into_another_array():
    values = np.random.default_rng(0).normal(size=(12, 2))
    target, lows, highs = np.zeros((12, 2)), np.full(2, np.inf), np.array([-np.inf, 1e3])
    blocks.step_block(
        FIRST, BLOCK, readable(REWARDS), SHARES, values, DISCOUNT, -1, target, lows, highs
    )
    expected = STEPS.T + DISCOUNT * P[FIRST:LAST] @ values
    np.testing.assert_allclose(target[FIRST:LAST], expected, atol=1e-14)
    assert not target[:FIRST].any() and not target[LAST:].any()
    change = expected - values[FIRST:LAST]
    np.testing.assert_allclose(lows, change.min(0), atol=1e-14)
    np.testing.assert_allclose(highs, [change[:, 0].max(), 1e3], atol=1e-14)  # the largest so far


@pytest.mark.parametrize("backwards", [False, True])
def test_values_in_place_solve_for_self_loops(backwards):
    values = np.random.default_rng(0).normal(size=(12, 2))
    expected, ends = values.copy(), (np.empty(2), np.empty(2))
    for s in in_turn(backwards):
        others = P[s] @ expected - P[s, s] * expected[s]
        expected[s] = (STEPS[:, s - FIRST] + DISCOUNT * others) / (1 - DISCOUNT * P[s, s])
    kind = DISCOUNT, int(backwards)
    blocks.step_block(FIRST, BLOCK, readable(REWARDS), SHARES, values, *kind, values, *ends)
    np.testing.assert_allclose(values, expected, rtol=1e-13)


@pytest.mark.parametrize("backwards", [False, True])
def test_what_is_left_over_goes_on_to_successors(backwards):
    rng = np.random.default_rng(0)
    visits, left = rng.random(12), rng.random(12) * (rng.random(12) < 0.8)
    expected, rest = visits.copy(), left.copy()
    for s in in_turn(backwards):
        gained = rest[s] / (1 - DISCOUNT * P[s, s])
        expected[s] += gained
        rest += DISCOUNT * gained * P[s]
        rest[s] = 0.0
    blocks.push_block(FIRST, BLOCK, SHARES, visits, left, DISCOUNT, backwards)
    np.testing.assert_allclose(visits, expected, rtol=1e-13)
    np.testing.assert_allclose(left, rest, rtol=1e-13)


def test_visits_of_a_block_are_sent_to_all_states():
    visits, inflow = np.random.default_rng(0).random((2, 12))
    expected = inflow + DISCOUNT * visits[FIRST:LAST] @ P[FIRST:LAST]
    blocks.send_block(FIRST, BLOCK, SHARES, visits, inflow, DISCOUNT)
    np.testing.assert_allclose(inflow, expected, rtol=1e-13)
