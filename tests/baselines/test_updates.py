"""Every baseline against its formula in plain loops: one configuration, two constraints, a few steps, and a batch of settings."""

import numpy as np
import pytest

import plain
from cmdpax.forms import largest_multiplier
from cmdpax.methods import trajectory

MODEL = plain.tiny()
LARGEST = largest_multiplier(MODEL)


def clip(multipliers, largest=np.inf):
    return np.clip(multipliers, 0, largest)


def npg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u = plain.margins(MODEL, policy)
        policy = plain.normalise(policy * np.exp(step * plain.lagrangian_quality(MODEL, policy, prices)))
        prices = clip(prices - dual_step * u, LARGEST)
    return policy, prices


def rpg_pd(steps, step, dual_step, temperature):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u, soft = plain.margins(MODEL, policy), plain.soft_quality(MODEL, policy, prices, temperature)
        policy = plain.normalise(policy ** (1 - step * temperature) * np.exp(step * soft))
        prices = clip((1 - dual_step * temperature) * prices - dual_step * u, LARGEST)
    return policy, prices


def npg_nrl(steps, step, temperature):
    return rpg_pd(steps, step, step, temperature)


def opg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    behind, prices_behind = policy, prices
    for _ in range(steps):
        u, up = plain.margins(MODEL, policy), step * plain.lagrangian_quality(MODEL, policy, prices)
        behind = np.array([plain.project(row) for row in behind + up])
        prices_behind = clip(prices_behind - dual_step * u, LARGEST)
        policy = np.array([plain.project(row) for row in behind + up])
        prices = clip(prices_behind - dual_step * u, LARGEST)
    return policy, prices


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


def npg_dd(steps, dual_step, temperature, inner):
    policy, ahead = plain.uniform(MODEL)
    prices = ahead
    for k in range(1, steps + 1):
        policy = plain.normalise(np.exp(plain.soft_quality(MODEL, policy, ahead, temperature) / temperature))
        if k % inner == 0:
            t, before = k // inner, prices
            prices = clip(ahead - dual_step * plain.margins(MODEL, policy))
            ahead = clip(prices + t / (t + 3) * (prices - before))
    return policy, ahead


def ppo_lag(steps, step, dual_step, clip_range, passes, inner):
    policy, prices = plain.uniform(MODEL)
    theta = np.log(policy)
    for k in range(1, steps + 1):
        old = policy
        advantage = plain.lagrangian_quality(MODEL, old, prices)
        advantage = advantage - (old * advantage).sum(1, keepdims=True)
        d = (1 - MODEL.discount) * plain.occupancy(MODEL, old)

        def surrogate(theta, old=old, advantage=advantage, d=d):
            ratio = plain.normalise(np.exp(theta)) / old
            return d @ (old * np.minimum(ratio * advantage, np.clip(ratio, 1 - clip_range, 1 + clip_range) * advantage)).sum(1)

        for _ in range(passes):  # the gradient by central differences
            gradient = np.zeros_like(theta)
            for place in np.ndindex(theta.shape):
                bump = np.zeros_like(theta)
                bump[place] = 1e-6
                gradient[place] = (surrogate(theta + bump) - surrogate(theta - bump)) / 2e-6
            theta = theta + step * gradient
        policy = plain.normalise(np.exp(theta))
        if k % inner == 0:
            prices = clip(prices - dual_step * plain.margins(MODEL, policy))
    return policy, prices


CASES = {
    "npg-pd": (npg_pd, {"step": 0.7, "dual_step": 0.4}),
    "rpg-pd": (rpg_pd, {"step": 0.7, "dual_step": 0.4, "temperature": 0.2}),
    "npg-nrl": (npg_nrl, {"step": 0.3, "temperature": 0.2}),
    "opg-pd": (opg_pd, {"step": 0.2, "dual_step": 0.4}),
    "reload": (reload, {"step": 0.7, "dual_step": 0.4}),
    "npg-dd": (npg_dd, {"dual_step": 0.4, "temperature": 0.5, "inner": 2}),
}


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize("name", CASES)
def test_the_update_is_its_formula(name, steps):
    formula, settings = CASES[name]
    policy, prices = formula(steps, **settings)
    run = trajectory(MODEL, name, steps=steps, **settings)
    np.testing.assert_allclose(run.policy, policy, atol=1e-12)
    np.testing.assert_allclose(run.multipliers, prices, atol=1e-12)
    np.testing.assert_allclose(run.margins[-1], plain.margins(MODEL, policy), atol=1e-12)
    assert prices.max() > 0 or steps < settings.get("inner", 1)  # the case has a price to pay


@pytest.mark.parametrize("inner", [1, 3])
def test_ppo_lag_climbs_the_clipped_surrogate(inner):
    settings = {"step": 40.0, "dual_step": 0.4, "passes": 4}  # large enough for the clip to bite
    policy, prices = ppo_lag(4, clip_range=0.1, inner=inner, **settings)
    run = trajectory(MODEL, "ppo-lag", steps=4, clip=0.1, inner=inner, **settings)
    np.testing.assert_allclose(run.policy, policy, atol=1e-7)
    np.testing.assert_allclose(run.multipliers, prices, atol=1e-7)
    unclipped = trajectory(MODEL, "ppo-lag", steps=4, clip=10.0, inner=inner, **settings)
    assert np.abs(unclipped.policy - run.policy).max() > 1e-3


def test_the_multiplier_is_capped_where_the_method_says_so():
    model = MODEL.replace(thresholds=plain.margins(MODEL, plain.uniform(MODEL)[0]) + MODEL.thresholds + 0.01)
    largest = largest_multiplier(model)
    for name in ("npg-pd", "rpg-pd", "opg-pd"):
        run = trajectory(model, name, step=1e-6, dual_step=1e9, steps=1, **({"temperature": 1e-12} if name == "rpg-pd" else {}))
        np.testing.assert_allclose(run.multipliers, largest)
    assert (trajectory(model, "reload", step=1e-6, dual_step=1e9, steps=1).multipliers > largest).all()
