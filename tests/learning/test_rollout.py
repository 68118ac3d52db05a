import functools

import gymnasium
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.gym_simulator import GymSimulator
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.rollout import ages, collect, counts_steps, episodes, first_episodes, run
from cmdpax.learning.simulator import CompiledSimulator, Record
from cmdpax.learning.velocity import TASKS, VelocitySimulator
from cmdpax.model.limits import Limits


def uniform_policy(simulator):
    size, out = simulator.observation_size, simulator.action_space.size
    gaussian = simulator.action_space.low is not None
    return NetworkPolicy(
        [np.zeros((size, out), np.float32)],
        [np.zeros(out, np.float32)],
        np.full(out, -1.0, np.float32) if gaussian else None,
        np.zeros(size),
        np.ones(size),
        simulator.action_space,
        simulator.observation_shape,
        0,
    )


class Season(gymnasium.Env):
    """Five steps of noise, cut by a time limit; the observation may hold the time."""

    action_space = gymnasium.spaces.Discrete(2)
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))

    def __init__(self, sees_time):
        self.sees_time = sees_time

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return self.observe(), {}

    def step(self, action):
        self.time += 1
        return self.observe(), 1.0, False, self.time == 5, {"cost": 0.0}

    def observe(self):
        return np.array([self.np_random.normal(), self.time * self.sees_time])


def test_episode_totals_by_hand():
    """Two simulators, five steps; ends after steps 2 and 4 of the first, none in the second."""
    rewards = np.stack([np.arange(10.0).reshape(5, 2), np.ones((5, 2))])
    ended = np.zeros((5, 2))
    ended[[1, 3], 0] = 1
    got = episodes(rewards, ended)
    np.testing.assert_array_equal(got.totals, [[0 + 2, 4 + 6], [2, 2]])
    assert got.lengths.tolist() == [2, 2] and got.completed == 2
    discounted = episodes(rewards, ended, 0.5)
    np.testing.assert_array_equal(discounted.totals, [[0 + 1, 4 + 3], [1.5, 1.5]])


def test_ages_by_hand():
    ended = np.zeros((5, 2), bool)
    ended[[1, 3], 0] = True
    assert ages(ended).T.tolist() == [[0, 1, 0, 1, 0], [0, 1, 2, 3, 4]]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("entry", ["share", "count", "rest"])
def test_a_clock_in_the_observation_is_recognised(dtype, entry):
    """Two simulators, episodes of 40 of 100 steps; beside the clock there is noise."""
    random, ended = np.random.default_rng(0), np.zeros((100, 2), bool)
    ended[39::40] = True
    age = ages(ended)
    clock = {"share": age / 40, "count": age, "rest": 1 - age / 40}[entry]
    noise = random.normal(size=(100, 2, 3))
    observations = np.concatenate((noise, clock[..., None]), -1).astype(dtype)
    assert counts_steps(observations, ended)
    assert not counts_steps(noise, ended)
    assert not counts_steps(np.zeros((100, 2, 3)), ended)
    late = observations.copy()
    late[50, 0, -1] += 0.01
    assert not counts_steps(late, ended)
    assert not counts_steps(observations[:1], ended[:1])  # one step says nothing


def test_where_the_time_is_seen_a_time_limit_ends_what_counts():
    for sees_time in (True, False):
        simulator = GymSimulator(lambda: Season(sees_time), 2)  # noqa: B023
        limits = Limits.parse(["cost<=1"])
        batch, _ = collect(simulator, uniform_policy(simulator), limits, 12, (1, 0))
        assert np.flatnonzero(batch.ended[:, 0]).tolist() == [4, 9]
        assert np.flatnonzero(batch.terminated[:, 0]).tolist() == ([4, 9] if sees_time else [])


def test_cut_episodes_count_only_if_none_was_completed():
    got = episodes(np.ones((1, 5, 2)), np.zeros((5, 2)))
    assert got.totals.tolist() == [[5, 5]] and got.completed == 0


def test_a_batch_follows_from_its_seed():
    simulator = GymSimulator(probes.Corridor, 3)
    limits = Limits.parse(["cost<=1"])
    batches = [
        collect(simulator, uniform_policy(simulator), limits, 10, (1, update))[0]
        for update in (0, 1, 0)
    ]
    for first, again in zip(batches[0], batches[2]):
        np.testing.assert_array_equal(first, again)
    assert (batches[0].action != batches[1].action).any()
    np.testing.assert_array_equal(
        batches[0].rewards[1], -batches[0].action
    )  # constraint reward is minus the cost
    np.testing.assert_array_equal(np.flatnonzero(batches[0].ended[:, 0]), [3, 7])


def test_a_range_makes_two_constraint_rewards():
    simulator = GymSimulator(probes.TwoLimits, 2)
    limits = Limits.parse(["0.1<=noise<=0.3", "heat<=1"])
    batch, _ = collect(simulator, uniform_policy(simulator), limits, 30, (0,))
    heat, noise = (batch.action == 1), (batch.action == 2)
    np.testing.assert_array_equal(batch.rewards[1:], np.stack([noise, -1.0 * noise, -1.0 * heat]))


def test_first_episodes_are_whole_and_discounted_if_asked():
    simulator = GymSimulator(probes.Meter, 3)
    policy = uniform_policy(simulator)
    for deterministic in (True, False):
        returns, costs, lengths = first_episodes(simulator, policy, 0, deterministic, 0.9)
        np.testing.assert_array_equal(returns, [10] * 3)
        np.testing.assert_array_equal(lengths, [10] * 3)
        np.testing.assert_allclose(costs, (1 - 0.9**10) / 0.1)


def test_gaussian_actions_are_kept_in_the_policys_own_units():
    simulator = GymSimulator(probes.Throttle, 2)
    batch, _ = collect(simulator, uniform_policy(simulator), Limits.parse(["cost<=1"]), 200, (0,))
    np.testing.assert_allclose(
        batch.rewards[1], -2 * batch.action[..., 0].clip(-1, 1), rtol=1e-4, atol=1e-6
    )
    assert batch.action.std() == pytest.approx(np.exp(-1), rel=0.15)


@pytest.mark.parametrize("wrong", ["observation", "reward"])
def test_nan_is_named(wrong):
    """Also by a simulator that does not look at its observations, as our own do not."""
    simulator = GymSimulator(functools.partial(probes.Broken, wrong), 1)
    simulator.finite = lambda observation: observation
    simulator._bounded = lambda what, number: number
    with pytest.raises(InputError, match=f"{wrong} is not finite"):
        collect(simulator, uniform_policy(simulator), Limits.parse([]), 10, (0,))


@pytest.mark.parametrize("name", TASKS)
def test_a_compiled_run_is_that_of_single_steps_bit_for_bit(name):
    """Over new starts: a policy without training falls, and episodes are cut."""
    whole, single = VelocitySimulator(name, 2), VelocitySimulator(name, 2)
    assert isinstance(whole, CompiledSimulator) and whole.is_alone
    random, size, out = np.random.default_rng(0), whole.observation_size, whole.action_space.size
    shapes = ((size, 8), (8, out))
    policy = NetworkPolicy(
        [random.normal(0, 0.5, shape).astype(np.float32) for shape in shapes],
        [random.normal(0, 0.5, shape[1]).astype(np.float32) for shape in shapes],
        np.zeros(out, np.float32),
        random.normal(0, 0.1, size),
        np.full(size, 0.7),
        whole.action_space,
        (size,),
        0,
    )
    noise, records = policy.noise(random, (1_100, 2)), []
    for simulator in (whole, single):
        record = Record.empty(simulator, len(noise))
        record.observation[0] = simulator.reset(3)
        (run if simulator is single else VelocitySimulator.run)(simulator, policy, noise, record)
        records.append(record)
    for field, one, other in zip(Record._fields, *records):
        assert one.tobytes() == other.tobytes(), field
    assert (records[0].terminated | records[0].truncated).sum() >= 2
    np.testing.assert_array_equal(whole.observe(), single.observe())


def test_without_mujocos_library_or_with_threads_steps_are_single(monkeypatch):
    simulator = VelocitySimulator("SafetyHopperVelocity-v1", 2)
    policy, limits = uniform_policy(simulator), Limits.parse(["cost<=25"])
    whole = collect(simulator, policy, limits, 30, (0, 1))
    monkeypatch.setattr(simulator, "_calls", None)
    assert not simulator.is_alone
    single = collect(simulator, policy, limits, 30, (0, 1))
    for one, other in zip((*whole[0], whole[1]), (*single[0], single[1])):
        assert one.tobytes() == other.tobytes()
