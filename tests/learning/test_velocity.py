"""Exactly the benchmark's tasks: a replay of trajectories recorded from Safety-Gymnasium 1.0.0."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning.velocity import (
    EPISODE_STEPS,
    TASKS,
    VelocitySimulator,
    healthy,
    measure,
    refuse_new_mujoco,
)

RECORDED = np.load(Path(__file__).parents[1] / "data" / "velocity_reference.npz")
BODIES = ("Ant", "HalfCheetah", "Hopper")
# of the benchmark's own MuJoCo 2.3.3; MuJoCo 3 solves HalfCheetah's contacts a little differently
TOLERANCE = dict.fromkeys(BODIES, 1e-6)
if not mujoco.__version__.startswith("2."):
    TOLERANCE["HalfCheetah"] = 7e-5  # 6.2e-5 with 3.4.0
SECONDS, THRESHOLD, LIMIT, POSITIONS = 0.05, 2.0, 10, 4  # of a step made up


@pytest.mark.parametrize("body", BODIES)
def test_replay_of_the_incumbents_trajectories(body):
    env = gymnasium.make(f"cmdpax.learning.velocity_gym:Safety{body}Velocity-v1")
    env.reset(seed=0)
    rows = {
        key: RECORDED[f"{body}_{key}"]
        for key in ("start", "qpos", "qvel", "action", "obs", "reward", "cost", "terminated")
    }
    assert rows["start"][0] and 0 < rows["cost"].sum() < len(rows["cost"])
    for t in range(len(rows["start"])):
        if rows["start"][t]:
            env.reset()
            env.unwrapped.set_state(rows["qpos"][t], rows["qvel"][t])
        observation, reward, terminated, truncated, info = env.step(rows["action"][t])
        np.testing.assert_allclose(observation, rows["obs"][t], atol=TOLERANCE[body], rtol=0)
        assert reward == pytest.approx(rows["reward"][t], abs=TOLERANCE[body])
        assert (info["cost"], terminated, truncated) == (
            rows["cost"][t],
            rows["terminated"][t],
            False,
        )


@pytest.mark.parametrize("name", TASKS)
def test_batch_equals_single_environments(name):
    """N simulations side by side do what each would do alone, also across ends of episodes."""
    batch = VelocitySimulator(name, 3)
    batch.reset(7)
    singles = [VelocitySimulator(name) for _ in range(3)]
    random = np.random.default_rng(1)
    for index, single in enumerate(singles):
        single.set_state(0, batch.data[index].qpos, batch.data[index].qvel)
    alive = np.ones(3, dtype=bool)
    for _ in range(60):
        action = random.uniform(-1.2, 1.2, (3, batch.model.nu))
        together = batch.step(action)
        for index, single in enumerate(singles):
            alone = single.advance(action[index : index + 1])
            if alive[index]:
                np.testing.assert_array_equal(
                    alone.next_observation[0], together.next_observation[index]
                )
                assert alone.reward[0] == pytest.approx(
                    together.reward[index]
                )  # the sum of squares may associate otherwise
                assert alone.cost[0] == together.cost[index]
        alive &= ~together.terminated
    assert name != "SafetyHalfCheetahVelocity-v1" or alive.all()


@pytest.mark.parametrize("name", TASKS)
def test_threads_change_no_number(name):
    alone, together = VelocitySimulator(name, 11), VelocitySimulator(name, 11)
    alone.shared = None
    with ThreadPoolExecutor(3) as together.shared:
        together.parts = [slice(0, 4), slice(4, 8), slice(8, 12)]
        np.testing.assert_array_equal(alone.reset(3), together.reset(3))
        for action in np.random.default_rng(0).uniform(-1, 1, (60, 11, alone.model.nu)):
            for one, other in zip(alone.step(action), together.step(action), strict=True):
                np.testing.assert_array_equal(one, other)


def test_time_limit_truncates_and_starts_anew():
    batch = VelocitySimulator("SafetyHalfCheetahVelocity-v1", 2)
    batch.reset(0)
    for t in range(EPISODE_STEPS):
        step = batch.step(np.zeros((2, 6)))
        assert step.truncated.all() == (t == EPISODE_STEPS - 1) and not step.terminated.any()
    assert (np.abs(step.observation - step.next_observation) > 0).any()
    assert not batch.step(np.zeros((2, 6))).truncated.any()


def test_a_reset_fixes_everything_until_the_next():
    batch = VelocitySimulator("SafetyHopperVelocity-v1", 2)
    actions = np.random.default_rng(0).normal(size=(80, 2, 3))

    def episode_ends_included():
        seen = [batch.reset(5)]
        for action in actions:
            step = batch.step(action)
            seen.append(step.observation)
        return np.array(seen)

    first = episode_ends_included()
    np.testing.assert_array_equal(first, episode_ends_included())
    assert (first[0] != batch.reset(6)).any()


def test_new_mujoco_is_refused_with_the_reason():
    with pytest.raises(InputError, match="contacts of Ant and Hopper"):
        refuse_new_mujoco("3.5.0")
    refuse_new_mujoco("3.4.1")


def test_bad_names():
    with pytest.raises(InputError, match="did you mean 'SafetyAntVelocity-v1'"):
        VelocitySimulator("SafetyAntVelocity-v2")


@pytest.mark.parametrize(
    ("state", "goes_on"),
    [
        ([0.0, 1.2, 0.1, 0.0], True),
        ([0.0, 0.7, 0.1, 0.0], False),  # too low
        ([0.0, 1.2, 0.2, 0.0], False),  # tilted
        ([0.0, 1.2, -0.2, 0.0], False),
        ([0.0, 1.2, 0.1, 100.0], False),  # too fast
        ([500.0, 1.2, 0.1, 99.9], True),  # wherever it is
        ([0.0, 1.2, 0.1, np.nan], False),
    ],
)
def test_when_hopper_stops(state, goes_on):
    assert healthy(np.array(state), False, 1.0) == goes_on


@pytest.mark.parametrize(
    ("state", "goes_on"),
    [
        ([0, 0, 0.2, 1], True),
        ([0, 0, 1.0, 1], True),
        ([0, 0, 0.19, 1], False),
        ([0, 0, 0.5, np.inf], False),
    ],
)
def test_when_ant_stops(state, goes_on):
    assert healthy(np.array(state, dtype=float), True, 1.0) == goes_on


def test_half_cheetah_never_stops():
    assert healthy(np.array([0.0, -9.0, 9.0, 1e9]), False, 0.0)


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("clip", [10.0, np.inf])
@pytest.mark.parametrize("hidden", [1, 2])
def test_a_step_is_what_the_definition_says(planar, clip, hidden):
    rng = np.random.default_rng(0)
    count, width = 6, 9
    before = rng.normal(size=(count, 1 + planar))
    after, action = before + rng.normal(size=before.shape) / 10, rng.normal(size=(count, 3))
    state = np.concatenate(
        [
            rng.uniform(0.1, 1.1, (count, POSITIONS)),
            rng.normal(size=(count, width - POSITIONS)) * 20,
        ],
        1,
    )
    elapsed = np.array([0, 3, 8, 9, 9, 20])
    observation, reward, cost = (
        np.empty((count, width - hidden)),
        np.empty(count),
        np.empty((count, 1)),
    )
    terminated, truncated, counted = np.empty(count, bool), np.empty(count, bool), elapsed.copy()
    rules = (POSITIONS, planar, SECONDS, 0.5, 1.0, THRESHOLD, clip, LIMIT)
    filled = (observation, reward, cost, terminated, truncated)
    ended = measure(before, after, state, action, counted, rules, filled)

    velocity = (after - before) / SECONDS
    np.testing.assert_allclose(reward, velocity[:, 0] + 1.0 - 0.5 * (action**2).sum(1))
    speed = (
        np.linalg.norm(velocity, axis=1) if planar else velocity[:, 0]
    )  # backwards is not too fast, but in the plane
    np.testing.assert_array_equal(cost[:, 0], speed > THRESHOLD)
    assert 0 < cost.sum() < count
    fallen = np.array([not healthy(row, planar, 1.0) for row in state])
    np.testing.assert_array_equal(terminated, fallen)
    np.testing.assert_array_equal(truncated, (elapsed + 1 >= LIMIT) & ~fallen)
    np.testing.assert_array_equal(counted, elapsed + 1)
    assert ended == (terminated | truncated).any()
    seen = state.copy()
    seen[:, POSITIONS:] = np.clip(seen[:, POSITIONS:], -clip, clip)
    np.testing.assert_array_equal(observation, seen[:, hidden:])
