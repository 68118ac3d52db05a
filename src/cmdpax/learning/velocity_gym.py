"""The velocity tasks as ordinary Gymnasium environments: cost in `info["cost"]`,
`unwrapped.set_state`, render modes.

Importing this module registers them. Gymnasium does it by itself given the module's name:
`gymnasium.make("cmdpax.learning.velocity_gym:SafetyAntVelocity-v1")`. Before 1.0 Gymnasium also
read the package's `gymnasium.envs` entry point, which made the plain names known after `import
gymnasium` alone; 1.0 dropped that mechanism.
"""

from typing import Any

import gymnasium
import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.velocity import EPISODE_STEPS, TASKS, VelocityBatch

CAMERAS: dict[str, dict[str, Any]] = {
    "SafetyAntVelocity-v1": {"distance": 4.0},
    "SafetyHalfCheetahVelocity-v1": {"distance": 4.0},
    "SafetyHopperVelocity-v1": {
        "trackbodyid": 2,
        "distance": 3.0,
        "lookat": np.array((0.0, 0.0, 1.15)),
        "elevation": -20.0,
    },
}


def register() -> None:
    """Tell Gymnasium the names of the velocity tasks, once."""
    for name in TASKS.keys() - gymnasium.registry.keys():
        gymnasium.register(
            id=name,
            entry_point="cmdpax.learning.velocity_gym:VelocityEnv",
            kwargs={"name": name},
            max_episode_steps=EPISODE_STEPS,
        )


class VelocityEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One velocity task; the time limit is Gymnasium's own wrapper."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (as declared by gymnasium.Env)
        "render_modes": ["human", "rgb_array", "depth_array"]
    }

    def __init__(
        self, name: str, render_mode: str | None = None, width: int = 480, height: int = 480
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise InputError(
                f"render_mode '{render_mode}' is not one of {self.metadata['render_modes']}."
            )
        self.batch = VelocityBatch(name)
        self.render_mode, self.width, self.height = render_mode, width, height
        self.metadata = {**self.metadata, "render_fps": round(1 / self.batch.seconds)}
        self.observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (self.batch.observation_size,), np.float64
        )
        low, high = self.batch.action_space.low, self.batch.action_space.high
        self.action_space = gymnasium.spaces.Box(
            np.float32(low), np.float32(high), dtype=np.float32
        )
        self._renderer: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode from the noisy initial state."""
        super().reset(seed=seed)
        self.batch.restart([0], self.np_random)
        if self.render_mode == "human":
            self.render()
        return self.batch.observe()[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by `action [a]`; actions beyond the box are clamped by MuJoCo, but paid for."""
        step = self.batch.advance(np.asarray(action)[None])
        if self.render_mode == "human":
            self.render()
        return (
            step.next_observation[0],
            float(step.reward[0]),
            bool(step.terminated[0]),
            False,
            {"cost": float(step.cost[0, 0])},
        )

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put the simulation into a state."""
        self.batch.set_state(0, qpos, qvel)

    def render(self) -> Any:
        """A picture `[height, width, 3]`, its depths, or the window."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

            self._renderer = MujocoRenderer(
                self.batch.model,
                self.batch.data[0],
                CAMERAS[self.batch.task.name],
                self.width,
                self.height,
            )
        return self._renderer.render(self.render_mode)

    def close(self) -> None:
        """Give the window or the off-screen context back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None


register()
