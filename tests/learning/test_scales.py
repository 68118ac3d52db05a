"""Scales: running means by hand, and units that follow those of reward and costs."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.learning import scales as module
from cmdpax.learning.scales import FAST, SLOW, Scales


def batch(seed=0, rows=2, samples=50):
    random = np.random.default_rng(seed)
    advantages = random.normal(size=(1 + rows, samples)).astype(np.float32)
    targets = random.normal(3.0, 2.0, size=(samples, 1 + rows)).astype(np.float32)
    return advantages, targets


def after(batches, factors=(1.0, 1.0, 1.0)):
    """Scales after so many batches whose reward and costs are multiplied by `factors`."""
    scales, factors = Scales.empty(2), np.array(factors, np.float32)
    for number in range(batches):
        advantages, targets = batch(number)
        scales = scales.add(advantages * factors[:, None], targets * factors, 10.0 + number)
        scales = scales.add_gain(0.05)
    return scales


def test_the_second_batch_replaces_the_first_and_then_averages_are_plain():
    sizes = []
    for number in range(4):
        own = np.square(batch(number)[0].astype(float)).mean(1)
        own[0] = abs(batch(number)[0][0].astype(float)).mean()
        sizes.append(own)
    np.testing.assert_allclose(after(1).slow, sizes[0])
    np.testing.assert_allclose(after(2).slow, sizes[1])
    np.testing.assert_allclose(after(4).slow, np.mean(sizes[1:], 0))
    assert float(after(4).steps) == pytest.approx(np.mean([11, 12, 13]))


def test_later_batches_have_a_fixed_share():
    before = after(60)
    advantages, targets = batch(99)
    now = before.add(advantages, targets, 10.0)
    own = np.square(advantages.astype(float)).mean(1)
    np.testing.assert_allclose(now.slow[1:], before.slow[1:] + SLOW * (own - before.slow)[1:])
    np.testing.assert_allclose(now.fast[1:], before.fast[1:] + FAST * (own - before.fast)[1:])


def test_a_cost_that_appears_counts_at_once_and_one_that_vanishes_is_remembered():
    quiet, (advantages, targets) = after(40), batch(1)
    loud = quiet.add(10 * advantages, targets, 10.0)
    assert (loud.size[1:] > 3 * quiet.size[1:]).all()  # sqrt(0.2) of ten times as much
    silent = quiet.add(0 * advantages, targets, 10.0)
    assert (silent.size[1:] > 0.98 * quiet.size[1:]).all()


def test_units_by_hand():
    scales = after(5)
    size, reach = scales.size, 0.0
    reach = scales.gain * scales.steps * size[1:]
    np.testing.assert_allclose(scales.reach, reach)
    np.testing.assert_allclose(scales.units(np.zeros(2), np.zeros(2)), size[0] / (size[1:] * reach))
    blunt = np.array([1e3, 0.0])  # an estimate that tells nothing below a thousand
    np.testing.assert_allclose(
        scales.units(blunt, np.zeros(2)),
        size[0] / (size[1:] * np.array([module.NOISE * 1e3, reach[1]])),
    )


def test_a_multiplier_beyond_the_balance_is_the_unit():
    """A rare cost has a price of many times what the sizes say; steps are in proportion to it."""
    scales, error = after(5), np.ones(2)
    np.testing.assert_array_equal(scales.price(scales.balance / 2), scales.balance)
    np.testing.assert_array_equal(scales.price(scales.balance * 8), scales.balance * 8)
    np.testing.assert_allclose(
        scales.units(error, scales.balance * 8), 8 * scales.units(error, np.zeros(2))
    )


powers = st.integers(-20, 20).map(lambda k: 2.0**k)


@given(reward=powers, cost=powers, batches=st.integers(1, 40))
def test_multiplied_by_powers_of_two_units_follow_exactly(reward, cost, batches):
    """Unit: reward per cost^2; a network's output stands for what the target is measured in."""
    plain, scaled = after(batches), after(batches, (reward, cost, 1.0))
    error, price = np.array([0.5, 0.25]), plain.balance * [0.5, 8.0]
    units = scaled.units(error * [cost, 1.0], price * [reward / cost, reward])
    np.testing.assert_array_equal(units, plain.units(error, price) * [reward / cost**2, reward])
    factors = [reward, cost, 1.0]
    np.testing.assert_array_equal(scaled.output_unit, plain.output_unit * factors)
    np.testing.assert_array_equal(scaled.balance, plain.balance * [reward / cost, reward])


def test_what_never_varies_has_no_unit():
    scales = Scales.empty(1).add(np.zeros((2, 5), np.float32), np.ones((5, 2), np.float32), 7.0)
    assert scales.units(np.ones(1), np.zeros(1)) == 0 and scales.balance == 0
    np.testing.assert_array_equal(scales.output_unit, [0.0, 0.0])
    advantages = np.array([[0.0, 0.0], [4.0, -4.0]], np.float32)  # the reward is constant
    scales = scales.add(advantages, np.ones((2, 2), np.float32), 7.0)
    assert scales.balance == 1 / 4 and scales.units(np.zeros(1), np.zeros(1)) > 0


def test_plain_critics_have_centre_0_and_unit_1():
    plain = after(3).plain()
    np.testing.assert_array_equal(plain.output_unit, [1.0, 1.0, 1.0])
    assert not plain.centre.any()
    np.testing.assert_array_equal(plain.size, after(3).size)
