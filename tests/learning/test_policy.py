from dataclasses import replace

import gymnasium
import numpy as np
import pytest

import cmdpax
from cmdpax import InputError
from cmdpax.learning import formulas as networks
from cmdpax.learning import run_folder as stored
from cmdpax.learning.evaluation import evaluate
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init
from cmdpax.learning.training import restore, train
from short_run import SMALL


def test_deployed_policy_equals_jax(finished):
    policy = cmdpax.load_policy(finished)
    simulator = make_simulator(SMALL.environment, 1)
    learner = restore(init(SMALL.resolved(), simulator), finished, simulator)
    observation = np.random.default_rng(0).normal(size=(50, simulator.observation_size))
    seen = np.clip((observation - learner.seen.mean) * learner.seen.scale, -10, 10).astype(
        np.float32
    )
    np.testing.assert_allclose(
        policy(observation), networks.apply(learner.policy["layers"], seen), atol=1e-5
    )
    np.testing.assert_allclose(policy(observation[0]), policy(observation)[0], atol=1e-6)
    checkpoint = next(stored.newest(finished / "checkpoints"))
    np.testing.assert_array_equal(cmdpax.load_policy(checkpoint)(observation), policy(observation))


class Odd(gymnasium.Env):
    """Two steps; pictures in, a matrix out, which must be of its space."""

    observation_space = gymnasium.spaces.Box(0, 1, (2, 3))
    action_space = gymnasium.spaces.Box(0.0, np.inf, (2, 2))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.age = 0
        return self.np_random.random((2, 3), dtype=np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.age += 1
        return (
            self.np_random.random((2, 3), dtype=np.float32),
            float(-action.sum()),
            self.age == 2,
            False,
            {"cost": 0.0},
        )


class Counted(Odd):
    """Numbers in, numbers from -1 on out."""

    observation_space = gymnasium.spaces.Discrete(3)
    action_space = gymnasium.spaces.Discrete(2, start=-1)

    def reset(self, *, seed=None, options=None):
        return 0, super().reset(seed=seed)[1]

    def step(self, action):
        assert self.action_space.contains(action)
        self.age += 1
        return self.age, 0.0, self.age == 2, False, {"cost": 0.0}


def trained(environment, folder):
    if f"{environment.__name__}-policy-v0" not in gymnasium.registry:
        gymnasium.register(f"{environment.__name__}-policy-v0", environment)
    train(replace(SMALL, environment=f"{environment.__name__}-policy-v0", samples=200), folder)
    return cmdpax.load_policy(folder)


def test_a_policy_takes_what_the_environment_gives_and_gives_what_it_takes(tmp_path):
    policy, environment = trained(Odd, tmp_path / "odd"), Odd()
    observation, _ = environment.reset(seed=0)
    for _ in range(2):
        observation, *_ = environment.step(policy(observation))
    many = np.random.default_rng(0).random((5, 2, 3))
    assert policy(many).shape == (5, 2, 2)
    np.testing.assert_allclose(policy(many)[3], policy(many[3]), atol=1e-6)


def test_other_spaces_are_flattened_first(tmp_path):
    policy, environment = trained(Counted, tmp_path / "counted"), Counted()
    observation, _ = environment.reset(seed=0)
    for _ in range(2):
        observation, *_ = environment.step(
            policy(gymnasium.spaces.flatten(environment.observation_space, observation))
        )
    with pytest.raises(
        InputError, match=r"has shape \[\]; this policy takes \[..., 3\].*spaces.flatten"
    ):
        policy(1)


def test_a_changed_environment_is_refused(tmp_path, monkeypatch):
    """Otherwise its actions would mean something else, without a word."""
    trained(Counted, tmp_path / "run")
    config = replace(SMALL, environment="Counted-policy-v0", samples=200)
    monkeypatch.setattr(Counted, "action_space", gymnasium.spaces.Discrete(2, start=0))
    for act in (
        lambda: evaluate(tmp_path / "run", 2),
        lambda: train(config, tmp_path / "run", resume=True),
    ):
        with pytest.raises(
            InputError, match=r"not what the policy was trained in \(start -1, now 0\); train anew"
        ):
            act()
    monkeypatch.undo()
    monkeypatch.setattr(Counted, "observation_space", gymnasium.spaces.Discrete(4))
    with pytest.raises(InputError, match=r"observations \[3\], now \[4\]"):
        evaluate(tmp_path / "run", 2)


@pytest.mark.parametrize(
    ("observation", "sentence"),
    [
        (np.zeros(5), r"has shape \[5\]; this policy takes \[..., 11\]"),
        (0.5, r"has shape \[\]"),
        ({"position": 1.0}, "is no array of numbers"),
        (np.full(11, np.nan), "is not finite"),
    ],
)
def test_what_is_no_observation(finished, observation, sentence):
    with pytest.raises(InputError, match=sentence):
        cmdpax.load_policy(finished)(observation)
