"""Which robots are there, and what makes each a task? One row for each; NumPy alone.

All are Gymnasium v4 locomotion tasks with the cost of Safety-Gymnasium 1.0, `speed > threshold`:

    reward = progress * vx + alive bonus - control cost * |action|^2

An episode goes on while `low < height < high`, `|angle| < tilt` and all other coordinates and
velocities are smaller than `size`.
"""

from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

import numpy as np

EPISODE_STEPS = 1000


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
