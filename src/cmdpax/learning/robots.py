"""Which robots are there, what makes each a task, and how does MuJoCo load it?

All are Gymnasium v4 locomotion tasks with the cost of Safety-Gymnasium 1.0, `speed > threshold`:

    reward = progress * vx + alive bonus - control cost * |action|^2

An episode goes on while `low < height < high`, `|angle| < tilt` and all other coordinates and
velocities are smaller than `size`.
"""

from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from cmdpax.errors import InputError

EPISODE_STEPS = 1000
MARGINS_ADD = (3, 5)  # the first MuJoCo that adds two geoms' margins; others take the larger one
FIRST_REFUSED = (4, 0)  # the first that integrates orientations by another rule


@dataclass(frozen=True)
class Task:
    """What distinguishes one velocity task from another."""

    body: str
    model_file: str  # among Gymnasium's assets
    threshold: float
    frame_skip: int
    control_cost: float
    hidden_positions: int  # leading coordinates that the observation leaves out
    reset_noise: float
    height: int  # which coordinate it is
    progress: float = 1.0
    alive_bonus: float = 0.0
    # whose velocity: the first coordinates', the torso's or that of all mass
    place: Literal["coordinates", "torso", "mass"] = "coordinates"
    planar: bool = False  # speed is sqrt(vx^2 + vy^2), else vx
    low: float = -np.inf
    high: float = np.inf
    tilt: float = np.inf
    size: float = np.inf
    velocity_clip: float = np.inf  # of the observation
    normal_velocity_noise: bool = False  # reset noise of velocities: normal, else uniform
    sensed: tuple[str, ...] = ()  # fields of MjData that the observation ends with


_TASKS = (
    Task(
        *("Ant", "ant.xml", 2.6222, 5, 0.5, 2, 0.1, 2),
        alive_bonus=1.0,
        place="torso",
        planar=True,
        low=np.nextafter(0.2, 0),  # .2 and 1 are healthy
        high=np.nextafter(1.0, 2),
        normal_velocity_noise=True,
    ),
    Task(
        *("HalfCheetah", "half_cheetah.xml", 3.2096, 5, 0.1, 1, 0.1, 1),
        normal_velocity_noise=True,
    ),
    Task(
        *("Hopper", "hopper.xml", 0.7402, 4, 1e-3, 1, 5e-3, 1),
        alive_bonus=1.0,
        low=0.7,
        tilt=0.2,
        size=100.0,
        velocity_clip=10.0,
    ),
    Task(
        *("Humanoid", "humanoid.xml", 1.4149, 5, 0.1, 2, 1e-2, 2),
        progress=1.25,
        alive_bonus=5.0,
        place="mass",
        planar=True,
        low=1.0,
        high=2.0,
        sensed=("cinert", "cvel", "qfrc_actuator", "cfrc_ext"),
    ),
    Task("Swimmer", "swimmer.xml", 0.2282, 4, 1e-4, 2, 0.1, 1),
    Task(
        *("Walker2d", "walker2d.xml", 2.3415, 4, 1e-3, 1, 5e-3, 1),
        alive_bonus=1.0,
        low=0.8,
        high=2.0,
        tilt=1.0,
        velocity_clip=10.0,
    ),
)
TASKS = MappingProxyType({f"Safety{task.body}Velocity-v1": task for task in _TASKS})


def register() -> None:
    """Tell Gymnasium the names of the tasks, once; `import cmdpax` sees to it."""
    import gymnasium

    for name in TASKS.keys() - gymnasium.registry.keys():
        gymnasium.register(
            id=name,
            entry_point="cmdpax.learning.velocity_gym:VelocityEnv",
            kwargs={"name": name},
            max_episode_steps=EPISODE_STEPS,
        )


def version_of(mujoco: str) -> tuple[int, ...]:
    """Major and minor version, from a text as `3.17.0`."""
    return tuple(int(part) for part in mujoco.split(".")[:2])


def refuse_new_mujoco(version: str) -> None:
    """MuJoCo 4 turns Ant and Humanoid by another rule, 1e-7 a step: soon every number differs."""
    if version_of(version) >= FIRST_REFUSED:
        raise InputError(
            f"MuJoCo {version} integrates the orientations of Ant and Humanoid by another rule, so"
            " results would not be those of the benchmark; install 'mujoco<4' (2.3.3 is the"
            " benchmark's own)."
        )


def load_model(task: Task) -> Any:
    """The compiled `MjModel` of a task, from the model files that the gymnasium package carries."""
    import gymnasium
    import mujoco

    refuse_new_mujoco(mujoco.__version__)
    assets = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    warn = mujoco.get_mju_user_warning()
    # 3.17 calls an attribute of HalfCheetah's file old, and would log that in the current folder
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        model = mujoco.MjModel.from_xml_path(str(assets / task.model_file))
    finally:
        mujoco.set_mju_user_warning(warn)
    if version_of(mujoco.__version__) >= MARGINS_ADD:
        model.geom_margin *= 0.5  # all geoms of a robot have one margin
    return model
