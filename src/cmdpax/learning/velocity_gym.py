"""The velocity tasks as Gymnasium environments: `info["cost"]`, `unwrapped.set_state`, pictures.

`info["energy"]` has the mean square of the action.

`import cmdpax` registers them; `gymnasium.make("cmdpax:SafetyAntVelocity-v1")` imports it itself.
"""

from copy import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from cmdpax.errors import InputError
from cmdpax.learning.velocity import TORSO, VelocitySimulator

ELEVATIONS = {"Swimmer": -45.0}  # degrees; what lies flat is seen from above
ELEVATION = -15.0  # of the others: the horizon is in the picture
FIXED_CAMERA, SKY = 2, 2  # as MuJoCo numbers cameras and textures
ROOM = 1.3  # around the robot: 1 if it just fits


def quick_to_draw(model: Any) -> Any:
    """A copy of an `MjModel` that takes a tenth of the time to draw, on a floor that does not end.

    It has no sky, shadows or reflections, its edges are hard, and round bodies have few faces.
    """
    model = copy(model)
    drawing, floor = model.vis.quality, model.geom_bodyid == 0
    drawing.shadowsize = drawing.offsamples = 0
    drawing.numslices, drawing.numstacks = 8, 6
    model.mat_reflectance[:] = 0
    model.tex_type[model.tex_type == SKY] = 0  # a texture like others, which nothing wears
    model.geom_size[floor, :2] *= 100
    model.mat_texrepeat[model.geom_matid[floor]] *= 100
    return model


def distance(model: Any, data: Any) -> float:
    """How far away a camera stands for a sphere around the robot to fit into the picture."""
    parts = model.geom_bodyid > 0
    reach = np.linalg.norm(data.geom_xpos[parts] - data.subtree_com[TORSO], axis=1)
    radius = (reach + model.geom_rbound[parts]).max()
    return float(ROOM * radius / np.sin(np.radians(model.vis.global_.fovy / 2)))


class VelocityEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """One velocity task; the time limit is Gymnasium's own wrapper."""

    metadata: dict[str, Any] = {  # noqa: RUF012 (as declared by gymnasium.Env)
        "render_modes": ["human", "rgb_array", "depth_array"]
    }

    def __init__(
        self, name: str, render_mode: str | None = None, width: int = 360, height: int = 270
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
        self.simulator.random = [self.np_random]
        self.simulator.restart([0])
        if self.render_mode == "human":
            self.render()
        return self.simulator.observe()[0], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Advance by `action [a]`; actions beyond the box are clamped by MuJoCo, but paid for."""
        step = self.simulator.advance(np.asarray(action)[None])
        if self.render_mode == "human":
            self.render()
        names, costs = self.simulator.cost_names, step.cost[0].tolist()
        ends = bool(step.terminated[0]), False
        return step.next_observation[0], float(step.reward[0]), *ends, dict(zip(names, costs))

    def set_state(self, qpos: np.ndarray, qvel: np.ndarray) -> None:
        """Put the simulation into a state."""
        self.simulator.set_state(0, qpos, qvel)

    def caption(self) -> tuple[str, str, str]:
        """What a film says about the last step: the speed, and the threshold on it."""
        speed, threshold = float(self.simulator.speed[0]), self.simulator.task.threshold
        sense = ">" if speed > threshold else "<="
        return "speed", f"{speed:.3f}", f"{sense} limit {threshold:.3f}"

    def render(self) -> Any:
        """A picture `[height, width, 3]`, its depths, or the window; the camera follows."""
        if self.render_mode is None:
            return None
        if self._renderer is None:
            from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

            model, data = quick_to_draw(self.simulator.model), self.simulator.data[0]
            camera = {"type": FIXED_CAMERA, "fixedcamid": 0}  # of the window
            size = self.width, self.height
            self._renderer = MujocoRenderer(model, data, camera, *size, camera_id=0)
            self._height, self._distance = data.subtree_com[TORSO, 2], distance(model, data)
        self._follow()
        return self._renderer.render(self.render_mode)

    def _follow(self) -> None:
        """Look at the robot's centre of mass from the side, at the height where that began.

        Physics reads no camera, and MuJoCo places cameras anew with every step. A free camera
        would not do: with NumPy 2, MuJoCo 2.3.3 sets all of its coordinates to one number.
        """
        data, body = self.simulator.data[0], self.simulator.task.body
        down = -np.radians(ELEVATIONS.get(body, ELEVATION))
        (x, y, _), away = data.subtree_com[TORSO], self._distance
        data.cam_xpos[0] = x, y - away * np.cos(down), self._height + away * np.sin(down)
        right, up = (1, 0, 0), (0, np.sin(down), np.cos(down))
        data.cam_xmat[0] = np.column_stack((right, up, np.cross(right, up))).ravel()

    def close(self) -> None:
        """Give the window or the off-screen context back."""
        if self._renderer is not None:
            self._renderer.close()
            self._renderer = None
