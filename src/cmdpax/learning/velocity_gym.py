"""The velocity tasks as Gymnasium environments: `info["cost"]`, `unwrapped.set_state`, pictures.

`import cmdpax` registers them; `gymnasium.make("cmdpax:SafetyAntVelocity-v1")` imports it itself.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from cmdpax.errors import InputError
from cmdpax.learning.velocity import VelocitySimulator

HOPPER = np.array((0.0, 0.0, 1.15))  # where it is looked at
HUMANOID = np.array((0.0, 0.0, 2.0))
CAMERAS: dict[str, dict[str, Any]] = {
    "Ant": {"distance": 4.0},
    "HalfCheetah": {"distance": 4.0},
    "Hopper": {"trackbodyid": 2, "distance": 3.0, "lookat": HOPPER, "elevation": -20.0},
    "Humanoid": {"trackbodyid": 1, "distance": 4.0, "lookat": HUMANOID, "elevation": -20.0},
    "Swimmer": {"distance": 4.0},
    "Walker2d": {"trackbodyid": 2, "distance": 4.0, "lookat": HOPPER, "elevation": -20.0},
}


class VelocityEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One velocity task; the time limit is Gymnasium's own wrapper."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (as declared by gymnasium.Env)
        "render_modes": ["human", "rgb_array", "depth_array"]
    }

    def __init__(
        self, name: str, render_mode: str | None = None, width: int = 480, height: int = 480
    ) -> None:
        modes = self.metadata["render_modes"]
        if render_mode is not None and render_mode not in modes:
            raise InputError(f"render_mode '{render_mode}' is not one of {modes}.")
        self.simulator = VelocitySimulator(name)
        self.render_mode, self.width, self.height = render_mode, width, height
        self.metadata = {**self.metadata, "render_fps": round(1 / self.simulator.seconds)}
        size, space = self.simulator.observation_size, self.simulator.action_space
        self.observation_space = Box(-np.inf, np.inf, (size,), np.float64)
        self.action_space = Box(np.float32(space.low), np.float32(space.high), dtype=np.float32)
        self._renderer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode from the noisy initial state."""
        super().reset(seed=seed)
        self.simulator.restart([0], self.np_random)
        if self.render_mode == "human":
            self.render()
        return self.simulator.observe()[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by `action [a]`; actions beyond the box are clamped by MuJoCo, but paid for."""
        step = self.simulator.advance(np.asarray(action)[None])
        if self.render_mode == "human":
            self.render()
        reward, cost = float(step.reward[0]), float(step.cost[0, 0])
        return step.next_observation[0], reward, bool(step.terminated[0]), False, {"cost": cost}

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put the simulation into a state."""
        self.simulator.set_state(0, qpos, qvel)

    def render(self) -> Any:
        """A picture `[height, width, 3]`, its depths, or the window."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

            model, data = self.simulator.model, self.simulator.data[0]
            camera = CAMERAS[self.simulator.task.body]
            self._renderer = MujocoRenderer(model, data, camera, self.width, self.height)
        return self._renderer.render(self.render_mode)

    def close(self) -> None:
        """Give the window or the off-screen context back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
