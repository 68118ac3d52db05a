"""Densities, divergences and entropies against formulas and sampling."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cmdpax.learning import formulas as networks

RANDOM = np.random.default_rng(0)


def test_gaussian_against_the_formula_and_kl_against_sampling():
    key = jax.random.key(0)
    old = networks.init_policy(key, (3, 8, 2), True, 0.5)
    new = networks.init_policy(jax.random.key(1), (3, 8, 2), True, 0.7)
    new["layers"][-1]["weight"] = new["layers"][-1]["weight"] * 20
    observation = jnp.array(RANDOM.normal(size=(1, 3)), jnp.float32)
    mean = networks.apply(old["layers"], observation)[0]
    action = np.asarray(mean) + 0.5 * RANDOM.normal(size=(200_000, 2))
    log_old = networks.log_probability(old, observation, action)
    expected = (
        -0.5 * ((action - np.asarray(mean)) / 0.5) ** 2 - np.log(0.5) - 0.5 * np.log(2 * np.pi)
    ).sum(1)
    np.testing.assert_allclose(log_old, expected, rtol=1e-4, atol=1e-4)
    sampled = float((log_old - networks.log_probability(new, observation, action)).mean())
    assert float(networks.divergence(old, new, observation)[0]) == pytest.approx(sampled, rel=0.02)
    assert float(networks.entropy(old, observation)[0]) == pytest.approx(
        -float(log_old.mean()), abs=0.01
    )


def test_categorical_against_the_formula():
    old = networks.init_policy(jax.random.key(0), (2, 4), False, 1.0)
    new = jax.tree.map(
        lambda x: x + 1.5 * jnp.arange(x.size, dtype=jnp.float32).reshape(x.shape), old
    )
    observation = jnp.array([[0.3, -0.2]])
    chances = [
        np.asarray(jax.nn.softmax(networks.apply(p["layers"], observation)))[0] for p in (old, new)
    ]
    got = [float(networks.log_probability(old, observation, jnp.array([a]))[0]) for a in range(4)]
    np.testing.assert_allclose(np.exp(got), chances[0], rtol=1e-5)
    expected = (chances[0] * np.log(chances[0] / chances[1])).sum()
    assert float(networks.divergence(old, new, observation)[0]) == pytest.approx(expected, rel=1e-4)
    assert float(networks.entropy(old, observation)[0]) == pytest.approx(
        -(chances[0] * np.log(chances[0])).sum(), rel=1e-4
    )
