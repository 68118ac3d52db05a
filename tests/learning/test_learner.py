"""One update on a small random batch."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from cmdpax.learning import learner
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init, make_learn, minibatches, prepare
from cmdpax.learning.rollout import Batch

TASK = "SafetyHopperVelocity-v1"
CONFIG = TrainConfig(
    method="ppo-alm", batch=200, rollout_steps=100, samples=2_000, hidden=(8,)
).resolved()


def update(**settings):
    """The state before and after one update, and its metrics."""
    config, batch = replace(CONFIG, **settings), random_batch()
    before = init(config, make_simulator(TASK, 1))
    return before, *make_learn(config)(before, batch, np.zeros(1), np.zeros(1), 100.0)


def random_batch(steps=(100, 2), size=11):
    random = np.random.default_rng(0)
    return Batch(
        *(random.normal(size=(*steps, size)).astype(np.float32) for _ in range(2)),
        random.normal(size=(*steps, 3)).astype(np.float32),
        random.normal(size=(2, *steps)).astype(np.float32),
        np.zeros(steps, np.float32),
        np.zeros(steps, np.float32),
    )


def test_an_offset_is_what_a_last_bias_would_be():
    state, batch = init(CONFIG, make_simulator(TASK, 1)), random_batch()
    offset = np.array([30.0, -4.0])
    raised = [
        [*critic[:-1], {**critic[-1], "bias": critic[-1]["bias"] + float(level)}]
        for critic, level in zip(state.critics, offset)
    ]
    ours = prepare(state.policy, state.critics, offset, batch, 0.99, 0.9)
    same = prepare(state.policy, raised, np.zeros(2), batch, 0.99, 0.9)
    jax.tree.map(
        lambda one, other: np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-4), ours, same
    )


def test_the_offset_is_a_running_mean_of_the_targets():
    before, after, _ = update(critic_centre=0.25)
    first = prepare(
        before.policy, before.critics, np.zeros(2), random_batch(), CONFIG.discount, CONFIG.gae
    ).targets.mean(0)
    np.testing.assert_allclose(after.value_offset, 0.25 * first, rtol=1e-5)
    again = make_learn(replace(CONFIG, critic_centre=0.25))(
        after, random_batch(), np.zeros(1), np.zeros(1), 100.0
    )[0]
    second = prepare(
        after.policy, after.critics, after.value_offset, random_batch(), CONFIG.discount, CONFIG.gae
    ).targets.mean(0)
    np.testing.assert_allclose(
        again.value_offset, 0.75 * after.value_offset + 0.25 * second, rtol=1e-4
    )
    assert not update(critic_centre=0.0)[1].value_offset.any()


@pytest.mark.parametrize("method", ["ppo-alm", "spma-alm"])
def test_beyond_the_kl_stop_only_the_critics_go_on(method, monkeypatch):
    _, stopped, metrics = update(method=method, kl_stop=1e-9)
    _, free, _ = update(method=method, kl_stop=0.0)
    monkeypatch.setattr(
        learner, "minibatches", lambda *arguments: minibatches(*arguments)[:1, :1]
    )  # at the first there is no KL yet
    _, once, _ = update(method=method, kl_stop=0.0)
    assert metrics["kl"] > 1e-9
    for part in ("policy", "policy_adam"):
        jax.tree.map(np.testing.assert_array_equal, getattr(stopped, part), getattr(once, part))
    jax.tree.map(np.testing.assert_array_equal, stopped.critics, free.critics)


def test_below_the_kl_stop_nothing_changes():
    first, second = update(kl_stop=1e9)[1], update(kl_stop=0.0)[1]
    jax.tree.map(np.testing.assert_array_equal, first.policy, second.policy)


def test_a_clipped_gradient_moves_the_policy_less_and_the_critics_as_before():
    """Adam divides lengths out again, but for its epsilon: a gradient far below it hardly moves
    anything.
    """
    free, clipped = (
        update(method="ppo-lag", kl_stop=0.0, gradient_clip=clip)[1:] for clip in (0.0, 1e-12)
    )
    assert clipped[1]["kl"] < 1e-3 * free[1]["kl"]
    jax.tree.map(np.testing.assert_array_equal, clipped[0].critics, free[0].critics)
