"""Exactly the benchmark's tasks: a replay of trajectories recorded from Safety-Gymnasium 1.0.0."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning.robots import EPISODE_STEPS, TASKS
from cmdpax.learning.velocity import (
    VelocitySimulator,
    healthy,
    measure,
)

RECORDED = np.load(Path(__file__).parents[1] / "data" / "velocity_reference.npz")
KEYS = ("start", "qpos", "qvel", "action", "obs", "reward", "cost", "terminated")
MUJOCO = tuple(int(part) for part in mujoco.__version__.split("."))
FORCES = 292  # from here on Humanoid's observation has contact forces, of up to 2,400
SECONDS, THRESHOLD, LIMIT, POSITIONS = 0.05, 2.0, 10, 4  # of a step made up


def tolerances(body, episode):
    """How far observations may be off, and Humanoid's contact forces; docs/deep.md says why."""
    if MUJOCO >= (3,) and body == "HalfCheetah":
        return 1e-4, 1e-4
    if MUJOCO >= (3,) and body == "Humanoid" and episode == 2:  # a hand meets the head
        return 1.2, 250.0
    if MUJOCO >= (3, 3, 6) and body == "Humanoid":
        return 5e-3, 1.0
    return 1e-6, 1e-6


@pytest.mark.parametrize("name", TASKS)
def test_replay_of_the_incumbents_trajectories(name):
    env, body = gymnasium.make(name), TASKS[name].body
    env.reset(seed=0)
    rows = {key: RECORDED[f"{body}_{key}"] for key in KEYS}
    episodes = np.cumsum(rows["start"]) - 1
    assert rows["start"][0] and 0 < rows["cost"].sum() < len(rows["cost"])
    for t, episode in enumerate(episodes):
        if rows["start"][t]:
            env.reset()
            env.unwrapped.set_state(rows["qpos"][t], rows["qvel"][t])
        observation, reward, terminated, truncated, info = env.step(rows["action"][t])
        error, force_error = tolerances(body, episode)
        expected = rows["obs"][t]
        np.testing.assert_allclose(observation[:FORCES], expected[:FORCES], atol=error, rtol=0)
        np.testing.assert_allclose(
            observation[FORCES:], expected[FORCES:], atol=force_error, rtol=0
        )
        assert reward == pytest.approx(rows["reward"][t], abs=min(error, 5e-3))
        assert (info["cost"], terminated, truncated) == (
            rows["cost"][t],
            rows["terminated"][t],
            False,
        )


def test_a_humanoid_feels_no_contact_forces_before_the_first_step():
    """As in the benchmark: they are computed after steps, and all else at once."""
    batch = VelocitySimulator("SafetyHumanoidVelocity-v1", 2)
    first = batch.reset(0)
    assert first.shape == (2, 376) and (first[:, FORCES:] == 0).all()
    assert (first[:, 45:185] != 0).sum() == 2 * 130  # inertias of all but the world
    for _ in range(EPISODE_STEPS):
        step = batch.step(np.zeros((2, 17)))
        if step.terminated.any():
            break
    ended = step.terminated.argmax()
    assert (step.next_observation[ended, FORCES:] != 0).any()
    assert (step.observation[ended, FORCES:] == 0).all()


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
                assert alone.cost[0] == pytest.approx(together.cost[index])
        alive &= ~together.terminated
    assert alive.all() or TASKS[name].alive_bonus  # the others never end


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


def test_bad_names():
    with pytest.raises(InputError, match="did you mean 'SafetyAntVelocity-v1'"):
        VelocitySimulator("SafetyAntVelocity-v2")


@pytest.mark.parametrize(
    ("body", "state", "goes_on"),
    [
        ("Ant", [0, 0, 0.2, 1], True),
        ("Ant", [0, 0, 1.0, 1], True),
        ("Ant", [0, 0, 0.19, 1], False),
        ("Ant", [0, 0, 0.5, np.inf], False),
        ("HalfCheetah", [0.0, -9.0, 9.0, 1e9], True),  # never stops
        ("Hopper", [0.0, 1.2, 0.1, 0.0], True),
        ("Hopper", [0.0, 0.7, 0.1, 0.0], False),  # too low
        ("Hopper", [0.0, 1.2, 0.2, 0.0], False),  # tilted
        ("Hopper", [0.0, 1.2, -0.2, 0.0], False),
        ("Hopper", [0.0, 1.2, 0.1, 100.0], False),  # too fast
        ("Hopper", [500.0, 1.2, 0.1, 99.9], True),  # wherever it is
        ("Hopper", [0.0, 1.2, 0.1, np.nan], False),
        ("Humanoid", [9.0, 9.0, 1.01, 1e3], True),
        ("Humanoid", [0.0, 0.0, 1.0, 0.0], False),
        ("Humanoid", [0.0, 0.0, 2.0, 0.0], False),
        ("Swimmer", [9.0, -9.0, 9.0, 1e9], True),
        ("Walker2d", [9.0, 1.2, 0.99, 1e3], True),
        ("Walker2d", [0.0, 0.8, 0.0, 0.0], False),
        ("Walker2d", [0.0, 2.0, 0.0, 0.0], False),
        ("Walker2d", [0.0, 1.2, -1.0, 0.0], False),
    ],
)
def test_when_an_episode_goes_on(body, state, goes_on):
    task = TASKS[f"Safety{body}Velocity-v1"]
    bounds = (task.height, task.low, task.high, task.tilt, task.size)
    assert healthy(np.array(state, dtype=float), bounds) == goes_on


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("clip", [10.0, np.inf])
@pytest.mark.parametrize("hidden", [1, 2])
def test_a_step_is_what_the_definition_says(planar, clip, hidden):
    rng = np.random.default_rng(0)
    count, width = 6, 9
    before, bounds = rng.normal(size=(count, 2)), (2, 0.2, 1.0, np.inf, np.inf)
    moves = np.array([[0.2, 0], [-0.2, 0], [0.05, 0], [0.05, 0.2], [0.12, 0], [0, -0.3]])
    after, action = before + moves, rng.normal(size=(count, 3))
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
        np.empty((count, 2)),
    )
    terminated, truncated, counted = np.empty(count, bool), np.empty(count, bool), elapsed.copy()
    rules = (POSITIONS, planar, SECONDS, 1.25, 0.5, 1.0, THRESHOLD, clip, LIMIT, bounds)
    filled = (observation, reward, cost, terminated, truncated)
    fast = np.empty(count)
    ended = measure(before, after, state, action, counted, fast, rules, filled)

    velocity = (after - before) / SECONDS
    np.testing.assert_allclose(reward, 1.25 * velocity[:, 0] + 1.0 - 0.5 * (action**2).sum(1))
    speed = (
        np.linalg.norm(velocity, axis=1) if planar else velocity[:, 0]
    )  # backwards is not too fast, but in the plane
    np.testing.assert_allclose(fast, speed)
    np.testing.assert_array_equal(cost[:, 0], speed > THRESHOLD)
    assert 0 < cost[:, 0].sum() < count
    np.testing.assert_allclose(cost[:, 1], (action**2).mean(1))  # energy
    fallen = np.array([not healthy(row, bounds) for row in state])
    np.testing.assert_array_equal(terminated, fallen)
    np.testing.assert_array_equal(truncated, (elapsed + 1 >= LIMIT) & ~fallen)
    np.testing.assert_array_equal(counted, elapsed + 1)
    assert ended == (terminated | truncated).any()
    seen = state.copy()
    seen[:, POSITIONS:] = np.clip(seen[:, POSITIONS:], -clip, clip)
    np.testing.assert_array_equal(observation, seen[:, hidden:])
