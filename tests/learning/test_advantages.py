import numpy as np
import pytest

from cmdpax import lagrangian
from cmdpax.learning.advantages import combine, generalised_advantage, standardise


def by_hand(reward, value, next_value, terminated, ended, discount, trace):
    """The sum of the definition, term by term, one simulator."""
    steps = len(reward)
    result = np.zeros(steps)
    for t in range(steps):
        weight = 1.0
        for k in range(t, steps):
            delta = reward[k] + discount * (0 if terminated[k] else next_value[k]) - value[k]
            result[t] += weight * delta
            if ended[k]:
                break
            weight *= discount * trace
    return result


def test_closed_form_with_truncation_and_termination():
    random = np.random.default_rng(0)
    reward, value, following = random.normal(size=(3, 2, 12, 3))
    terminated, truncated = np.zeros((12, 3)), np.zeros((12, 3))
    terminated[4, 0], truncated[6, 1], terminated[11, 2], truncated[0, 2] = 1, 1, 1, 1
    ended = np.maximum(terminated, truncated)
    got = generalised_advantage(reward, value, following, terminated, ended, 0.9, 0.8)
    for kind in range(2):
        for n in range(3):
            column = (
                reward[kind, :, n],
                value[kind, :, n],
                following[kind, :, n],
                terminated[:, n],
                ended[:, n],
            )
            np.testing.assert_allclose(
                got[kind, :, n], by_hand(*column, 0.9, 0.8), rtol=1e-5, atol=1e-6
            )


def test_truncation_bootstraps_and_termination_does_not():
    one = np.ones((1, 1))
    cut = generalised_advantage(one, 0 * one, 10 * one, 0 * one, one, 0.9, 1.0)
    over = generalised_advantage(one, 0 * one, 10 * one, one, one, 0.9, 1.0)
    assert cut[0, 0] == pytest.approx(10.0) and over[0, 0] == pytest.approx(1.0)


def test_trace_one_is_monte_carlo_and_zero_is_one_step():
    random = np.random.default_rng(1)
    reward, value = random.normal(size=(2, 6, 1))
    following = np.concatenate((value[1:], np.zeros((1, 1))))
    ended = np.zeros((6, 1))
    ended[-1] = 1
    monte_carlo = generalised_advantage(reward, value, following, ended, ended, 0.9, 1.0)
    expected = sum(0.9**t * reward[t, 0] for t in range(6)) - value[0, 0]
    assert monte_carlo[0, 0] == pytest.approx(expected, abs=1e-5)
    one_step = generalised_advantage(reward, value, following, ended, ended, 0.9, 0.0)
    np.testing.assert_allclose(one_step[0, 0], reward[0] + 0.9 * value[1] - value[0], atol=1e-6)


def test_combined_keeps_true_units_and_separate_does_not():
    """The ratio of constraint to reward in the result is the weight; `separate` multiplies it by
    the reward's deviation.
    """
    random = np.random.default_rng(2)
    advantages = np.stack([5 * random.normal(size=1000), random.normal(size=1000)]).astype(
        np.float32
    )
    worth = np.array([0.7], np.float32)
    total = combine(advantages, worth, "combined")
    np.testing.assert_allclose(
        total, standardise(advantages[0] + 0.7 * advantages[1]), rtol=1e-4, atol=1e-5
    )
    separate = combine(advantages, worth, "separate")
    centred = advantages - advantages.mean(1, keepdims=True)
    np.testing.assert_allclose(
        separate, centred[0] / centred[0].std() + 0.7 * centred[1], rtol=1e-4, atol=1e-5
    )
    rescaled = combine(advantages, worth, "separate", rescale=True)
    np.testing.assert_allclose(rescaled, separate / 1.7, rtol=1e-5)
    np.testing.assert_allclose(
        combine(advantages[:1], worth[:0], "combined"), standardise(advantages[0]), rtol=1e-5
    )


def test_weights_are_those_of_the_exact_part():
    """The deep loop's pseudo-advantage is the exact part's pseudo-reward formula on the same
    numbers.
    """
    from cmdpax.learning.config import TrainConfig
    from cmdpax.learning.training import constraint_weights

    multiplier, margin = np.array([0.5, 0.0, 2.0]), np.array([-10.0, 3.0, 300.0])
    config = TrainConfig("x", "ppo-alm", penalty=0.02)
    worth = constraint_weights(multiplier, margin, config)
    np.testing.assert_array_equal(worth, lagrangian.weights(multiplier, 0.02, margin))
    np.testing.assert_allclose(worth, [0.7, 0.0, 0.0])
    np.testing.assert_array_equal(
        constraint_weights(multiplier, margin, TrainConfig("x", "ppo-lag")), multiplier
    )
