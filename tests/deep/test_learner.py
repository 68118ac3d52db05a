"""One update on a small random batch."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from cmdpax.deep import learner
from cmdpax.deep.config import TrainConfig
from cmdpax.deep.learner import init, make_learn, minibatches
from cmdpax.deep.rollout import Batch
from cmdpax.environments.gym_adapter import make_simulator

CONFIG = TrainConfig("SafetyHopperVelocity-v1", "ppo-alm", batch=200, horizon=100, samples=2_000, hidden=(8,)).resolved()


def update(**settings):
    """The state before and after one update, and its metrics."""
    config, random = replace(CONFIG, **settings), np.random.default_rng(0)
    before = init(config, make_simulator(config.environment, 1))
    steps, size = (100, 2), 11
    batch = Batch(
        *(random.normal(size=(*steps, size)).astype(np.float32) for _ in range(2)),
        random.normal(size=(*steps, 3)).astype(np.float32),
        random.normal(size=(2, *steps)).astype(np.float32),
        np.zeros(steps, np.float32),
        np.zeros(steps, np.float32),
    )
    return before, *make_learn(config)(before, batch, np.zeros(1), np.zeros(1), 100.0)


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
