from itertools import pairwise

import gymnasium
import numpy as np
import pytest

import cmdpax
from cmdpax import InputError
from cmdpax.learning import formulas
from cmdpax.learning.config import TrainConfig
from cmdpax.learning.evaluation import evaluate
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import init
from cmdpax.learning.policy import NetworkPolicy, Statistics
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.saved import restore
from cmdpax.learning.simulator import ActionSpace
from cmdpax.learning.training import train
from policies import network
from short_run import SMALL


def test_no_bit_depends_on_how_many_act_together():
    random, sizes = np.random.default_rng(0), (11, 64, 64, 3)
    weights = [random.normal(0, 0.3, shape).astype(np.float32) for shape in pairwise(sizes)]
    biases = [random.normal(size=size).astype(np.float32) for size in sizes[1:]]
    space = ActionSpace(-np.ones(3), np.ones(3), clip=False)
    log_std = np.zeros(3, np.float32)
    policy = NetworkPolicy(weights, biases, log_std, np.zeros(11), np.ones(11), space, (11,), 0)
    observation = random.normal(0, 2, (5, 4, 11))
    together = policy.best(observation)
    for index in np.ndindex(5, 4):
        np.testing.assert_array_equal(policy.best(observation[index]), together[index])


def test_running_statistics_equal_those_of_everything():
    random = np.random.default_rng(0)
    parts = [random.normal(3, 2, size=(size, 4)) for size in (5, 1, 200)]
    observed = Statistics.empty(4)
    for part in parts:
        observed = observed.add(part)
    together = np.concatenate(parts)
    np.testing.assert_allclose(observed.mean, together.mean(0))
    np.testing.assert_allclose(1 / observed.scale, together.std(0), rtol=1e-6)
    assert (Statistics.empty(4).scale == 1).all()


def test_deployed_policy_equals_jax(finished):
    policy = cmdpax.load_policy(finished)
    simulator = make_simulator(SMALL["environment"], 1)
    settings = {name: value for name, value in SMALL.items() if name != "environment"}
    template = init(TrainConfig(**settings).resolved(), simulator)
    learner = restore(template, RunFolder(finished), simulator)
    observation = np.random.default_rng(0).normal(size=(50, simulator.observation_size))
    observed = learner.observed
    normalised = np.clip((observation - observed.mean) * observed.scale, -10, 10)
    np.testing.assert_allclose(
        policy(observation, deterministic=True),
        formulas.apply(learner.policy["layers"], normalised.astype(np.float32)),
        atol=1e-5,
    )
    checkpoint = RunFolder(finished).checkpoints()[0]
    np.testing.assert_array_equal(
        cmdpax.load_policy(checkpoint).core.best(observation), policy.core.best(observation)
    )


def test_samples_are_spread_around_the_deterministic_action(finished):
    policy, observation = cmdpax.load_policy(finished), np.zeros((20_000, 11))
    actions = policy(observation, random=np.random.default_rng(0))
    mean = policy(observation[0], deterministic=True)
    np.testing.assert_allclose(actions.mean(0), mean, atol=0.02)
    np.testing.assert_allclose(actions.std(0), np.exp(policy.core.log_std), rtol=0.03)


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
    name = f"{environment.__name__}-policy-v0"
    train(**{**SMALL, "environment": name, "samples": 200}, folder=folder)
    return cmdpax.load_policy(folder)


def test_a_policy_takes_what_the_environment_gives_and_gives_what_it_takes(tmp_path):
    policy, environment = trained(Odd, tmp_path / "odd"), Odd()
    observation, _ = environment.reset(seed=0)
    for _ in range(2):
        observation, *_ = environment.step(policy(observation))
    many = np.random.default_rng(0).random((5, 2, 3))
    assert policy(many).shape == (5, 2, 2)
    alone, together = policy(many[3], deterministic=True), policy(many, deterministic=True)
    np.testing.assert_allclose(together[3], alone, atol=1e-6)


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


def test_a_policy_under_a_mask_asks_for_it():
    policy = cmdpax.Policy(network("masked"))
    with pytest.raises(InputError, match=r"and then 5 zeros and ones, or those as mask="):
        policy(np.zeros(7))


def test_a_changed_environment_is_refused(tmp_path, monkeypatch):
    """Otherwise its actions would mean something else, without a word."""
    trained(Counted, tmp_path / "run")
    settings = {**SMALL, "environment": "Counted-policy-v0", "samples": 200}
    monkeypatch.setattr(Counted, "action_space", gymnasium.spaces.Discrete(2, start=0))
    for act in (
        lambda: evaluate(tmp_path / "run", episodes=2),
        lambda: train(**settings, folder=tmp_path / "run", resume=True),
    ):
        with pytest.raises(
            InputError, match=r"policy was trained in \(start -1, now 0\); .* or train anew"
        ):
            act()
    monkeypatch.undo()
    monkeypatch.setattr(Counted, "observation_space", gymnasium.spaces.Discrete(4))
    with pytest.raises(InputError, match=r"observations \[3\], now \[4\]"):
        evaluate(tmp_path / "run", episodes=2)


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
