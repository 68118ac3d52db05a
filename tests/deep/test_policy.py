import numpy as np

import cmdpax
from cmdpax.deep import networks, stored
from cmdpax.deep.learner import init
from cmdpax.deep.train import restore
from cmdpax.environments.gym_adapter import make_simulator
from short_run import SMALL


def test_deployed_policy_equals_jax(finished):
    policy = cmdpax.load_policy(finished)
    simulator = make_simulator(SMALL.environment, 1)
    learner = restore(init(SMALL.resolved(), simulator), finished)
    observation = np.random.default_rng(0).normal(size=(50, simulator.observation_size))
    seen = np.clip((observation - learner.seen.mean) * learner.seen.scale, -10, 10).astype(np.float32)
    np.testing.assert_allclose(policy(observation), networks.apply(learner.policy["layers"], seen), atol=1e-5)
    np.testing.assert_allclose(policy(observation[0]), policy(observation)[0], atol=1e-6)
    checkpoint = next(stored.newest(finished / "checkpoints"))
    np.testing.assert_array_equal(cmdpax.load_policy(checkpoint)(observation), policy(observation))
