"""For networks of dense layers JAX does what the compiled descent does."""

from dataclasses import replace

import jax
import numpy as np
import pytest

from cmdpax.learning import formulas
from cmdpax.learning.learner import learn
from learning.test_descent import CONFIG, random_samples, started

MARGIN, WEIGHTS = np.zeros(1), np.array([0.3])


@pytest.mark.parametrize("kind", ["gaussian", "categorical", "parts", "masked"])
@pytest.mark.parametrize(
    ("method", "settings"),
    [
        ("spma-alm", {}),
        ("spma-alm", {"kl_stop": 1e-5}),
        ("ppo-alm", {"gradient_clip": 0.01}),
        ("spma-alm", {"surrogate": "printed"}),
        ("trpo-alm", {}),
        ("cpo", {"gradient_clip": 0.1}),
    ],
)
def test_jax_moves_dense_networks_as_the_compiled_descent(kind, method, settings, monkeypatch):
    config = replace(CONFIG, **{"method": method, "kl_stop": 0.0, **settings})
    state = started(config, kind)
    samples = random_samples(state.policy, 300)
    compiled, metrics = learn(state, samples, WEIGHTS, MARGIN, 100.0, config)
    monkeypatch.setattr(formulas, "encoder_of", lambda policy: "any")
    traced, others = learn(state, samples, WEIGHTS, MARGIN, 100.0, config)
    for part in ("policy", "critics", "policy_adam", "critics_adam"):
        pairs = [jax.tree.leaves(getattr(one, part)) for one in (compiled, traced)]
        for ours, theirs in zip(*pairs, strict=True):
            np.testing.assert_allclose(theirs, ours, rtol=2e-3, atol=2e-5)
    assert others["critic_loss"] == pytest.approx(metrics["critic_loss"], rel=1e-4)
    moved = compiled.policy["layers"][0]["weight"] - state.policy["layers"][0]["weight"]
    assert (abs(moved).max() > 1e-4) or settings.get("kl_stop")
