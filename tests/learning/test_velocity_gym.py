import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from cmdpax import InputError
from cmdpax.learning.robots import TASKS
from cmdpax.learning.velocity import VelocitySimulator
from cmdpax.learning.velocity_gym import VelocityEnv, distance, quick_to_draw
from cmdpax.learning.video import has_egl


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
        assert (reward, terminated) == (expected.reward[0], expected.terminated[0])
        assert info == dict(zip(("cost", "energy"), expected.cost[0]))
        assert truncated is False  # the time limit is a wrapper's


@pytest.mark.parametrize("name", TASKS)
def test_a_camera_that_follows_changes_no_physics(name):
    """Looked at after every step, and never: the same numbers, to the last bit."""
    watched, alone = (gymnasium.make(name).unwrapped for _ in range(2))
    for environment in (watched, alone):
        environment.reset(seed=5)
    rng = np.random.default_rng(0)
    data = watched.simulator.data[0]
    watched._height, watched._distance = 1.0, distance(watched.simulator.model, data)
    for _ in range(20):
        action = rng.uniform(-1, 1, watched.action_space.shape)
        watched._follow()
        np.testing.assert_array_equal(watched.step(action)[0], alone.step(action)[0])


@pytest.mark.parametrize("name", TASKS)
def test_all_of_a_robot_is_in_the_picture_wherever_it_is(name):
    """The angle between where the camera looks and any part is below half of what it sees."""
    environment = gymnasium.make(name).unwrapped
    environment.reset(seed=0)
    model, data = environment.simulator.model, environment.simulator.data[0]
    environment._height, environment._distance = data.subtree_com[1, 2], distance(model, data)
    for x in (0.0, 700.0):
        positions = data.qpos.copy()
        positions[0] = x
        environment.set_state(positions, 0 * data.qvel)
        environment._follow()
        axes, parts = data.cam_xmat[0].reshape(3, 3), model.geom_bodyid > 0
        np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-12)
        offsets = (data.geom_xpos[parts] - data.cam_xpos[0]) @ axes  # right, up, backwards
        angles = np.arctan2(abs(offsets[:, :2]), -offsets[:, 2:])
        radii = np.arctan2(model.geom_rbound[parts][:, None], -offsets[:, 2:])
        assert (angles + radii < np.radians(model.vis.global_.fovy / 2)).all()


@pytest.mark.parametrize("name", TASKS)
def test_what_is_drawn_is_a_copy(name):
    model = gymnasium.make(name).unwrapped.simulator.model
    sizes, shine = model.geom_size.copy(), model.mat_reflectance.copy()
    drawn = quick_to_draw(model)
    np.testing.assert_array_equal(model.geom_size, sizes)
    np.testing.assert_array_equal(model.mat_reflectance, shine)
    assert model.vis.quality.shadowsize > drawn.vis.quality.shadowsize == 0
    # the squares of the floor keep their size: as many more as it is larger
    (floor,) = np.flatnonzero(model.geom_bodyid == 0)
    material = model.geom_matid[floor]
    growth = drawn.mat_texrepeat[material] / model.mat_texrepeat[material]
    np.testing.assert_allclose(drawn.geom_size[floor, :2] / sizes[floor, :2], growth)


@pytest.mark.parametrize("name", TASKS)
def test_a_caption_says_why_a_step_costs(name):
    environment = gymnasium.make(name).unwrapped
    environment.reset(seed=0)
    threshold = environment.simulator.task.threshold
    assert environment.caption() == ("speed", "0.000", f"<= limit {threshold:.3f}")
    data, costs = environment.simulator.data[0], set()
    for push in (0.0, 2 * threshold):
        velocities = 0 * data.qvel
        velocities[0] = push
        environment.set_state(data.qpos.copy(), velocities)
        cost = environment.step(np.zeros(environment.action_space.shape))[-1]["cost"]
        what, value, limit = environment.caption()
        assert what == "speed" and limit == f"{'>' if cost else '<='} limit {threshold:.3f}"
        assert (float(value) > threshold) == bool(cost)
        costs.add(cost)
    assert costs == {0.0, 1.0}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or not has_egl(), reason="nothing to draw with")
@pytest.mark.parametrize("name", TASKS)
def test_the_robot_stays_in_the_middle(name):
    """Robots are the only things in colour; 900 m away they stand where they stood."""
    code = f"""
import gymnasium, cmdpax, numpy as np
environment = gymnasium.make("{name}", render_mode="rgb_array").unwrapped
environment.reset(seed=0)
data = environment.simulator.data[0]
for x in (0.0, 900.0):
    positions = data.qpos.copy()
    positions[0] = x
    environment.set_state(positions, 0 * data.qvel)
    picture = environment.render().astype(int)
    rows, columns = np.nonzero(picture[..., 0] - picture[..., 2] > 25)
    print(len(rows), rows.mean() / picture.shape[0], columns.mean() / picture.shape[1])
"""
    answer = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MUJOCO_GL": "egl"},
    )
    (count, row, column), there = np.array(
        [line.split() for line in answer.stdout.splitlines()], float
    )
    assert count > 300 and abs(row - 0.5) < 0.15 and abs(column - 0.5) < 0.1
    np.testing.assert_allclose(there, (count, row, column), rtol=0.02)
