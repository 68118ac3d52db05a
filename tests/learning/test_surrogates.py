from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cmdpax.learning.surrogates import linear, ppo, spma

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize(
    "surrogate",
    [partial(ppo, clip=0.2), partial(spma, step=0.3), linear],
    ids=["ppo", "spma", "linear"],
)
def test_gradients_against_finite_differences(surrogate):
    with jax.enable_x64(True):
        log_ratio, advantage = (
            jnp.array(RANDOM.normal(0, 0.3, 20)),
            jnp.array(RANDOM.normal(0, 4, 20)),
        )
        gradient = np.asarray(jax.grad(surrogate)(log_ratio, advantage))
        for i in range(20):
            h = 1e-6
            difference = surrogate(log_ratio.at[i].add(h), advantage) - surrogate(
                log_ratio.at[i].add(-h), advantage
            )
            assert gradient[i] == pytest.approx(float(difference) / (2 * h), abs=1e-7)


def test_spma_has_two_forms_that_agree_in_expectation():
    """`E_k[(A + 1/eta) log ratio]` and `E_k[A log ratio - (ratio - 1 - log ratio)/eta]`,
    expectations taken exactly.
    """
    with jax.enable_x64(True):
        old, new, step = RANDOM.dirichlet(np.ones(5)), RANDOM.dirichlet(np.ones(5)), 0.3
        advantage = RANDOM.normal(size=5)
        advantage -= old @ advantage
        advantage = np.maximum(advantage, -1 / step)
        log_ratio = np.log(new / old)
        printed = old @ ((advantage + 1 / step) * log_ratio)
        ours = old @ np.array(
            [
                float(spma(jnp.array([x]), jnp.array([a]), step))
                for x, a in zip(log_ratio, advantage)
            ]
        )
        assert ours == pytest.approx(printed, abs=1e-12)


def test_spma_is_maximal_at_its_idealised_policy():
    """For free probabilities the maximiser is `pi_k (1 + eta A)`, and 0 where A is below -1/eta."""
    old, step = np.array([0.2, 0.3, 0.5]), 0.5
    advantage = np.array([1.0, 0.5, -0.7])
    target = old * (1 + step * advantage)

    def value(policy):
        return sum(
            chance * float(spma(jnp.array([np.log(p / chance)]), jnp.array([a]), step))
            for chance, p, a in zip(old, policy, advantage)
        )

    best = value(target)
    for _ in range(50):
        assert value(np.abs(target + RANDOM.normal(0, 0.05, 3)) + 1e-9) <= best + 1e-6


@pytest.mark.parametrize("advantage", [-100.0, -5.0, -3.0, 0.5, 3.0, 5.0, 100.0])
def test_spma_aims_at_most_at_twice_as_often(advantage):
    """By brute force over ratios: the best is `1 + eta A`, kept between 0 and 2; and the slope at
    no change is A throughout.
    """
    ratio = np.linspace(1e-4, 3, 30_000)
    values = [
        float(v)
        for v in jax.vmap(lambda x: spma(x[None], jnp.array([advantage]), 0.3))(jnp.log(ratio))
    ]
    assert ratio[np.argmax(values)] == pytest.approx(np.clip(1 + 0.3 * advantage, 0, 2), abs=1e-2)
    assert float(
        jax.grad(lambda x: spma(x[None], jnp.array([advantage]), 0.3))(0.0)
    ) == pytest.approx(advantage)


def test_spma_is_bounded_where_the_advantage_is_very_bad():
    """With one step for all samples the surrogate grows without end as the probability of a very
    bad action falls.
    """
    values = [float(spma(jnp.array([-x]), jnp.array([-100.0]), 0.3)) for x in (1.0, 10.0, 100.0)]
    assert values[-1] == pytest.approx(100, rel=1e-4) and values == sorted(values)
