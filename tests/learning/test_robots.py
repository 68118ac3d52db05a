"""The table against the benchmark's own words, and Gymnasium's."""

import inspect

import gymnasium
import mujoco
import pytest

from cmdpax import InputError
from cmdpax.learning.robots import (
    EPISODE_STEPS,
    TASKS,
    load_model,
    refuse_new_mujoco,
    register,
    version_of,
)
from cmdpax.paper import settings

THRESHOLDS = {  # of Safety-Gymnasium's safety_*_velocity_v1.py
    "Ant": 2.6222,
    "HalfCheetah": 3.2096,
    "Hopper": 0.7402,
    "Humanoid": 1.4149,
    "Swimmer": 0.2282,
    "Walker2d": 2.3415,
}
OPTIONS = {  # of Gymnasium's environments, and what we call them
    "forward_reward_weight": "progress",
    "ctrl_cost_weight": "control_cost",
    "healthy_reward": "alive_bonus",
    "reset_noise_scale": "reset_noise",
}


def test_the_six_tasks():
    assert {task.body: task.threshold for task in TASKS.values()} == THRESHOLDS
    assert set(settings.TASKS.values()) < set(TASKS)  # the paper has three of them


@pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
@pytest.mark.parametrize("name", TASKS)
def test_a_row_says_what_gymnasiums_fourth_version_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo 3.17 logs what it thinks of Gymnasium's files
    task = TASKS[name]
    made = gymnasium.make(f"{task.body}-v4").unwrapped
    options = inspect.signature(type(made).__init__).parameters
    for theirs, ours in OPTIONS.items():
        if theirs in options:
            assert getattr(task, ours) == options[theirs].default
    assert made.frame_skip == task.frame_skip
    assert made.fullpath.endswith(f"/{task.model_file}")
    if "healthy_z_range" in options:
        assert (task.low, task.high) == pytest.approx(options["healthy_z_range"].default)
    if "healthy_angle_range" in options:
        assert options["healthy_angle_range"].default == (-task.tilt, task.tilt)


def test_names_are_registered_once(monkeypatch):
    name = "SafetyHumanoidVelocity-v1"
    monkeypatch.delitem(gymnasium.registry, name)
    register()
    spec = gymnasium.registry[name]
    assert spec.max_episode_steps == EPISODE_STEPS
    register()
    assert gymnasium.registry[name] is spec


def test_new_mujoco_is_refused_with_the_reason():
    with pytest.raises(InputError, match="orientations of Ant and Humanoid"):
        refuse_new_mujoco("4.0.0")
    refuse_new_mujoco("3.17.0")


@pytest.mark.parametrize("name", TASKS)
def test_contacts_begin_where_the_model_file_says(name, tmp_path, monkeypatch):
    """In every version: from 3.5 on two margins are added, before that the larger one counted."""
    monkeypatch.chdir(tmp_path)
    margin = {"Ant": 0.01, "Hopper": 0.001, "Humanoid": 0.001}.get(TASKS[name].body, 0.0)
    margins = load_model(TASKS[name]).geom_margin
    assert (margins * (2 if version_of(mujoco.__version__) >= (3, 5) else 1) == margin).all()
    assert not list(tmp_path.iterdir())  # no MUJOCO_LOG.TXT
