"""Densities, KL and advantages against formulas and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cmdpax.learning import formulas
from cmdpax.learning.formulas import combine, generalised_advantage, linear, standardise

RANDOM = np.random.default_rng(0)


def test_gaussian_against_the_formula_and_kl_against_sampling():
    key = jax.random.key(0)
    old = formulas.init_policy(key, (3, 8, 2), 0.5)
    new = formulas.init_policy(jax.random.key(1), (3, 8, 2), 0.7)
    new["layers"][-1]["weight"] = new["layers"][-1]["weight"] * 20
    observation = jnp.array(RANDOM.normal(size=(1, 3)), jnp.float32)
    mean = formulas.apply(old["layers"], observation)[0]
    action = np.asarray(mean) + 0.5 * RANDOM.normal(size=(200_000, 2))
    log_old = formulas.log_probability(old, observation, action)
    expected = (
        -0.5 * ((action - np.asarray(mean)) / 0.5) ** 2 - np.log(0.5) - 0.5 * np.log(2 * np.pi)
    ).sum(1)
    np.testing.assert_allclose(log_old, expected, rtol=1e-4, atol=1e-4)
    log_ratio = formulas.log_probability(new, observation, action) - log_old
    exact = float(formulas.kl(old, new, observation)[0])
    assert exact == pytest.approx(-float(log_ratio.mean()), rel=0.02)
    assert float(formulas.entropy(old, mean[None])[0]) == pytest.approx(
        -float(log_old.mean()), abs=0.01
    )


def test_categorical_against_the_formula():
    old = formulas.init_policy(jax.random.key(0), (2, 4), None)
    new = jax.tree.map(
        lambda x: x + 1.5 * jnp.arange(x.size, dtype=jnp.float32).reshape(x.shape), old
    )
    observation = jnp.array([[0.3, -0.2]])
    chances = [
        np.asarray(jax.nn.softmax(formulas.apply(p["layers"], observation)))[0] for p in (old, new)
    ]
    got = [float(formulas.log_probability(old, observation, jnp.array([a]))[0]) for a in range(4)]
    np.testing.assert_allclose(np.exp(got), chances[0], rtol=1e-5)
    expected = (chances[0] * np.log(chances[0] / chances[1])).sum()
    assert float(formulas.kl(old, new, observation)[0]) == pytest.approx(expected, rel=1e-4)
    output = np.asarray(formulas.apply(old["layers"], observation))
    assert float(formulas.entropy(old, output)[0]) == pytest.approx(
        -(chances[0] * np.log(chances[0])).sum(), rel=1e-4
    )


def by_hand(reward, value, next_value, terminated, ended, discount, decay):
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
            weight *= discount * decay
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


def test_at_their_level_values_have_no_mean_error():
    random = np.random.default_rng(3)
    reward, value, next_value = random.normal(size=(3, 2, 30, 4)) + 5
    terminated = (random.random((30, 4)) < 0.1).astype(float)
    for ends in (terminated, np.zeros((30, 4))):
        shift = formulas.level_shift(reward, value, next_value, ends, 0.9)[:, None, None]
        error = reward + 0.9 * (next_value + shift) * (1 - ends) - (value + shift)
        np.testing.assert_allclose(error.mean((1, 2)), 0, atol=1e-5)
    assert not formulas.level_shift(reward, value, next_value, np.zeros((30, 4)), 1.0).any()


def test_the_gain_is_how_far_the_furthest_value_moves():
    random = np.random.default_rng(4)
    advantages, log_ratio = random.normal(2.0, 3.0, size=(2, 50)), random.normal(0, 0.1, 50)
    moved = [
        abs(np.mean((np.exp(log_ratio) - 1) * (row - row.mean()) / row.std()))
        for row in (advantages[0] - 7 * advantages[1], *advantages)
    ]
    gained = formulas.gain(log_ratio, advantages[0] - 7 * advantages[1], advantages)
    assert float(gained) == pytest.approx(max(moved), rel=1e-4)


def test_decay_one_is_monte_carlo_and_zero_is_one_step():
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
    weights = np.array([0.7], np.float32)
    total = combine(advantages, weights, "combined")
    np.testing.assert_allclose(
        total, standardise(advantages[0] + 0.7 * advantages[1]), rtol=1e-4, atol=1e-5
    )
    separate = combine(advantages, weights, "separate")
    centred = advantages - advantages.mean(1, keepdims=True)
    np.testing.assert_allclose(
        separate, centred[0] / centred[0].std() + 0.7 * centred[1], rtol=1e-4, atol=1e-5
    )
    rescaled = combine(advantages, weights, "separate", rescale=True)
    np.testing.assert_allclose(rescaled, separate / 1.7, rtol=1e-5)
    np.testing.assert_allclose(
        combine(advantages[:1], weights[:0], "combined"), standardise(advantages[0]), rtol=1e-5
    )


def test_standardised_advantages_have_mean_0_and_deviation_1_in_any_units():
    advantage = np.random.default_rng(3).normal(4.0, 2.0, 1000).astype(np.float32)
    plain = standardise(advantage)
    assert abs(float(plain.mean())) < 1e-6 and float(plain.std()) == pytest.approx(1.0, abs=1e-6)
    for power in (-40, -20, 20, 40):  # beside which an absolute epsilon would be seen
        np.testing.assert_array_equal(standardise(advantage * np.float32(2.0**power)), plain)
    np.testing.assert_array_equal(standardise(np.full(7, 0.5, np.float32)), np.zeros(7))


def test_the_linear_surrogate_is_the_mean_of_ratio_times_advantage():
    log_ratio, advantages = np.log([1.0, 2.0, 0.5]), np.array([[3.0, 1.0, 4.0], [1.0, 1.0, 1.0]])
    np.testing.assert_allclose(linear(log_ratio, advantages), [7 / 3, 3.5 / 3], rtol=1e-6)


def test_costs_look_a_thirtieth_of_an_episode_ahead():
    ahead = [1 / (1 - formulas.cost_decay(steps)) for steps in (5, 60, 150, 300, 600, 2000)]
    np.testing.assert_allclose(ahead, [2, 2, 5, 10, 20, 20])
