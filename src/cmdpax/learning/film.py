"""A film of a trained policy: one deterministic episode, headless, as .mp4 or .gif."""

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files import writable_path
from cmdpax.learning import run_folder as stored
from cmdpax.learning.gym_simulator import GymSimulator, environment_factory
from cmdpax.learning.policy import load_policy


def film(run: Path, path: Path, steps: int = 500, seed: int = 12345) -> Path:
    """Record at most `steps` steps of the policy of a run folder."""
    writable_path(path, ".mp4", ".gif")
    if steps < 1 or seed < 0:
        raise InputError(
            f"steps is {steps} and seed is {seed}; there must be at least one step, and a seed is"
            " not negative."
        )
    name, policy = stored.read_config(run)["environment"], load_policy(run)
    if sys.platform == "linux" and not os.environ.get("DISPLAY"):
        os.environ.setdefault("MUJOCO_GL", "egl")  # before MuJoCo is imported: it chooses then
    import imageio

    simulator = GymSimulator(environment_factory(name, pictures=True), 1, name)
    environment = simulator.environments[0]
    if getattr(environment, "render_mode", None) != "rgb_array":
        raise InputError(
            f"environment '{name}' draws no pictures; its function must take render_mode and hand"
            " it to the environment."
        )
    observation = simulator.reset(seed)
    frames: list[Any] = []
    try:
        for _ in range(steps):
            frames.append(_even(environment.render(), name))
            step = simulator.step(policy.best(observation))
            if step.terminated[0] or step.truncated[0]:
                break
            observation = step.observation
    except InputError:
        raise
    except Exception as error:  # the GL libraries raise whatever they like
        raise InputError(
            f"no picture could be drawn ({error}); install EGL (libegl1) or OSMesa and set"
            " MUJOCO_GL accordingly."
        ) from None
    finally:
        environment.close()
    rate = environment.metadata.get("render_fps", 30)
    if path.suffix.lower() == ".gif":
        imageio.mimsave(path, frames[::2], duration=2000 / rate, loop=0)
    else:
        imageio.mimsave(path, frames, fps=rate, macro_block_size=1)
    return path


def _even(frame: Any, name: str) -> np.ndarray:
    """A picture `[height, width, 3]` with a last row or column repeated where their number is odd,
    which .mp4 cannot have.
    """
    picture = np.asarray(frame)
    if picture.ndim != 3 or picture.shape[2] != 3:
        raise InputError(f"environment '{name}': render returned no picture of [height, width, 3].")
    return np.pad(
        picture, ((0, picture.shape[0] % 2), (0, picture.shape[1] % 2), (0, 0)), mode="edge"
    )
