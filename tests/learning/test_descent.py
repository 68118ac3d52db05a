"""Slopes against finite differences and brute force; steps against JAX's gradients and optax."""

import os
import subprocess
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from cmdpax.learning import descent, formulas
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.learning.descent import ppo_slope, printed_slope, spma_slope
from cmdpax.learning.learner import Samples, init, learn, minibatches
from cmdpax.learning.scales import Scales
from cmdpax.learning.simulator import ActionSpace

RANDOM = np.random.default_rng(0)
CONFIG = TrainConfig(
    method="spma-alm", batch=300, rollout_steps=150, minibatch=140, passes=3, samples=3_000
).resolved()


def ppo(log_ratio, advantage, clip=0.2):
    """`min(ratio A, clip(ratio, 1 - c, 1 + c) A)`."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage)


def spma(log_ratio, advantage, step=0.3):
    """`A log ratio - (ratio - 1 - log ratio) / min(eta, 1 / |A|)`."""
    own = jnp.minimum(step, 1 / jnp.maximum(jnp.abs(advantage), 1e-9))
    return advantage * log_ratio - (jnp.expm1(log_ratio) - log_ratio) / own


@pytest.mark.parametrize(
    ("slope", "surrogate", "number"), [(spma_slope, spma, 0.3), (ppo_slope, ppo, 0.2)]
)
def test_slopes_against_finite_differences(slope, surrogate, number):
    width = 1e-6
    with jax.enable_x64(True):
        for log_ratio, advantage in zip(RANDOM.normal(0, 0.3, 30), RANDOM.normal(0, 4, 30)):
            ends = [surrogate(log_ratio + side, advantage) for side in (-width, width)]
            difference = float(ends[1] - ends[0]) / (2 * width)
            ours = slope(np.expm1(log_ratio), advantage, number)
            assert ours == pytest.approx(difference, abs=1e-7)


def test_spma_has_two_forms_that_agree_in_expectation():
    """`E_k[(A + 1/eta) log ratio]` has the slope of ours, by the chances of free policies."""
    old, new, step = RANDOM.dirichlet(np.ones(5)), RANDOM.dirichlet(np.ones(5)), 0.3
    advantage = RANDOM.normal(size=5)
    advantage -= old @ advantage
    advantage = np.maximum(advantage, -1 / step).clip(max=1 / step)
    along = RANDOM.normal(size=5)
    along -= new @ along  # log ratios move so that chances still add up to 1
    printed = old @ (np.array([printed_slope(a, step) for a in advantage]) * along)
    assert printed == pytest.approx(old @ ((advantage + 1 / step) * along), abs=1e-12)
    assert printed_slope(-5.0, step) == 0.0  # such an action is to be taken never, not less
    slopes = [spma_slope(p / q - 1, a, step) for p, q, a in zip(new, old, advantage)]
    assert old @ (np.array(slopes) * along) == pytest.approx(printed, abs=1e-12)


@pytest.mark.parametrize("advantage", [-100.0, -5.0, -3.0, 0.5, 3.0, 5.0, 100.0])
def test_spma_aims_at_most_at_twice_as_often(advantage):
    """It climbs below and descends above `1 + eta A`, kept between 0 and 2; its slope at no change
    is A throughout, and it has a maximum however bad an action is.
    """
    aim = np.clip(1 + 0.3 * advantage, 0, 2)
    for ratio in np.linspace(1e-4, 3, 300):
        slope = spma_slope(ratio - 1, advantage, 0.3)
        assert slope * (aim - ratio) >= -1e-9 and np.isfinite(slope)
    assert spma_slope(0.0, advantage, 0.3) == pytest.approx(advantage)


class Plain:
    """A simulator in name: sizes are all that `init` asks for."""

    observation_size, observation_shape = 5, (5,)

    def __init__(self, kind):
        self.action_space = {
            "gaussian": ActionSpace(-np.ones(3), np.ones(3)),
            "categorical": ActionSpace(choices=3),
            "parts": ActionSpace(choices=5, parts=(2, 3)),
            "masked": ActionSpace(choices=3, masked=True),
        }[kind]


def started(config, kind):
    """A state after some updates; critics learn targets as they are."""
    scales = Scales.empty(1).plain()._replace(batches=np.ones(()))
    state = init(config, Plain(kind))
    return state._replace(update=np.asarray(2), scales=scales)


def random_samples(policy, rows):
    observation = RANDOM.normal(size=(rows, 5)).astype(np.float32)
    action = RANDOM.normal(size=(rows, 3)).astype(np.float32)
    if "log_std" not in policy:
        action = action.argmax(1)
    if "choices" in policy and policy["choices"].masked:
        allowed = RANDOM.random((rows, 3)) < 0.5
        observation[:, -3:] = allowed | np.eye(3, dtype=bool)[action]
    elif "choices" in policy:
        action = RANDOM.integers((2, 3), size=(rows, 2))
    output = formulas.said(policy, observation)
    log_old = formulas.log_chance(policy, output, action)
    advantages = RANDOM.normal(size=(2, rows)).astype(np.float32)
    targets = RANDOM.normal(size=(rows, 2)).astype(np.float32)
    return Samples(observation, action, output, log_old, advantages, targets, np.zeros(2))


def expected(state, samples, config):
    """The same steps by JAX and optax, one minibatch after the other."""
    adam, clip = optax.scale_by_adam(), optax.clip_by_global_norm(config.gradient_clip)
    rate = config.learning_rate * (1 - int(state.update) / config.updates)
    policy, critics = state.policy, state.critics
    policy_adam, critics_adam, frozen = state.policy_adam, state.critics_adam, False
    surrogate = spma if METHODS[config.method].surrogate == "spma" else ppo
    advantage = formulas.combine(samples.advantages, np.zeros(1, np.float32), "combined")

    def loss(policy, rows):
        new = formulas.log_probability(policy, samples.observation[rows], samples.action[rows])
        log_ratio = new - samples.log_old[rows]
        return -surrogate(log_ratio, advantage[rows]).mean(), log_ratio

    def critics_loss(critics, rows):
        values = formulas.values(critics, samples.observation[rows])
        return jnp.square(values - samples.targets[rows].T).mean(1).sum()

    for one_pass in minibatches(len(advantage), config, int(state.update)):
        losses = []
        for rows in one_pass:
            value, gradient = jax.value_and_grad(critics_loss)(critics, rows)
            losses.append(float(value))
            change, critics_adam = adam.update(gradient, critics_adam)
            critics = jax.tree.map(lambda old, move: old - rate * move, critics, change)
            gradient, log_ratio = jax.grad(loss, has_aux=True)(policy, rows)
            kl = float((jnp.expm1(log_ratio) - log_ratio).mean())
            frozen = frozen or 0 < config.kl_stop < kl
            if frozen:
                continue
            if config.gradient_clip:
                gradient = clip.update(gradient, optax.EmptyState())[0]
            change, policy_adam = adam.update(gradient, policy_adam)
            policy = jax.tree.map(lambda old, move: old - rate * move, policy, change)
    return (policy, policy_adam, critics, critics_adam), np.mean(losses), frozen


KINDS = [(kind, hidden) for kind in ("gaussian", "categorical") for hidden in ((7,), (6, 5, 4), ())]
KINDS += [(kind, (16, 8)) for kind in ("gaussian", "categorical", "parts", "masked")]


@pytest.mark.parametrize(("kind", "hidden"), KINDS)
@pytest.mark.parametrize("method", ["spma-alm", "ppo-lag"])
def test_steps_are_those_of_optax_with_gradients_of_jax(method, hidden, kind):
    """Of 140 samples, more than a block; beyond the KL the policy stays."""
    clip = 0.05 if method == "ppo-lag" else 0.0
    for kl_stop in (0.0, 1e-6):
        config = replace(CONFIG, method=method, hidden=hidden, gradient_clip=clip, kl_stop=kl_stop)
        state = started(config, kind)
        samples = random_samples(state.policy, 300)
        after, metrics = learn(state, samples, np.zeros(1), np.ones(1), 150.0, config)
        ours = after.policy, after.policy_adam, after.critics, after.critics_adam
        theirs, loss, frozen = expected(state, samples, config)
        assert frozen == (kl_stop > 0)
        assert metrics["critic_loss"] == pytest.approx(loss, rel=1e-4)
        jax.tree.map(
            lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-5),
            ours,
            theirs,
        )
        assert int(after.critics_adam.count) == 6 and int(after.policy_adam.count) <= 6


def test_blocks_of_another_length_change_nothing_but_rounding(monkeypatch):
    """What is asked of BLAS at once is a matter of speed."""
    state = started(CONFIG, "gaussian")
    samples = random_samples(state.policy, 300)
    whole = learn(state, samples, np.zeros(1), np.ones(1), 150.0, CONFIG)[0]
    monkeypatch.setattr(descent, "BLOCK", 32)
    names = ("multiply", "outputs", "differentiate", "policy_gradient", "critic_gradient")
    for name in (*names, "descend"):
        monkeypatch.setattr(descent, name, getattr(descent, name).py_func)
    blocks = learn(state, samples, np.zeros(1), np.ones(1), 150.0, CONFIG)[0]
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-6),
        (whole.policy, whole.critics),
        (blocks.policy, blocks.critics),
    )


DESCENT = """
import hashlib
import numpy as np
from cmdpax.learning.descent import Rule, descend
random = np.random.default_rng(0)
def normal(*shape):
    return random.normal(size=shape).astype(np.float32)
def networks(count, *sizes):
    size = sum((one + 1) * other for one, other in zip(sizes, sizes[1:])) + (count == 1) * sizes[-1]
    memory = np.zeros((2, count, size), np.float32)
    return np.array(sizes), normal(count, size) / 10, *memory, np.zeros(1, np.int32)
policy, critics = networks(1, 17, 64, 64, 6), networks(2, 17, 64, 64, 1)
samples = normal(600, 17), normal(600, 6), normal(600) - 9, normal(600)
orders = random.permutation(600)[:512].reshape(1, 2, 256).astype(np.int32)
rule = Rule(1, 0, 0, 0, np.zeros(0, np.int64), False)
descend(policy, critics, samples, normal(2, 600), orders, np.float32(1e-3), rule, False)
print(hashlib.sha256(policy[1].tobytes() + critics[1].tobytes()).hexdigest())
print(len(descend.stats.cache_hits))
"""


def test_code_that_was_kept_rounds_as_code_that_was_just_compiled(tmp_path):
    """Or a run that is killed and resumed would differ from one that went on."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", DESCENT]
    ran = [
        subprocess.run(command, env=environment, check=True, capture_output=True).stdout.split()
        for _ in range(2)
    ]
    assert ran[0][0] == ran[1][0]
    assert [hits for _, hits in ran] == [b"0", b"1"]
