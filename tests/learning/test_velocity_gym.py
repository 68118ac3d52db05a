import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from cmdpax import InputError
from cmdpax.learning.robots import TASKS
from cmdpax.learning.velocity import VelocitySimulator
from cmdpax.learning.velocity_gym import VelocityEnv


@pytest.mark.parametrize("name", TASKS)
def test_is_a_proper_gymnasium_environment(name):
    environment = gymnasium.make(name).unwrapped
    assert isinstance(environment, VelocityEnv)
    check_env(environment, skip_render_check=True)


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("cmdpax, gymnasium", "SafetyAntVelocity-v1"),
        ("gymnasium, cmdpax", "SafetyAntVelocity-v1"),
        ("gymnasium", "cmdpax:SafetyAntVelocity-v1"),
        ("cmdpax, gymnasium", "cmdpax:SafetyAntVelocity-v1"),
    ],
)
def test_gymnasium_knows_the_names_and_loads_the_rest_when_one_is_made(imports, name):
    code = (
        f"import sys, {imports}; print('numba' in sys.modules); e = gymnasium.make('{name}');"
        " print(e.spec.max_episode_steps, e.reset()[0].shape)"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.split("\n") == ["False", "1000 (27,)", ""]


def test_an_unknown_render_mode_is_refused():
    with pytest.raises(InputError, match="render_mode"):
        gymnasium.make("SafetyAntVelocity-v1", render_mode="ascii", disable_env_checker=True)


@pytest.mark.parametrize("name", TASKS)
def test_from_a_given_state_both_faces_of_a_task_agree(name):
    single, batch = gymnasium.make(name).unwrapped, VelocitySimulator(name)
    batch.reset(3)
    positions, velocities = batch.data[0].qpos.copy(), batch.data[0].qvel.copy()
    single.set_state(positions, velocities)
    rng = np.random.default_rng(0)
    for _ in range(20):
        action = rng.uniform(-1, 1, single.action_space.shape)
        expected = batch.advance(action[None])
        observation, reward, terminated, truncated, info = single.step(action)
        np.testing.assert_array_equal(observation, expected.next_observation[0])
        assert (reward, terminated, info["cost"]) == (
            expected.reward[0],
            expected.terminated[0],
            expected.cost[0, 0],
        )
        assert truncated is False  # the time limit is a wrapper's
