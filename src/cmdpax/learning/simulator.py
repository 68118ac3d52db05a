"""What the deep learner asks of a simulator: a batch of copies that step together and start anew by
themselves.

Costs are reported as the environment has them (one column per named cost); limits and signs come
later, at the boundary of the learner. Two simulators exist: `velocity.VelocityBatch` on raw MuJoCo,
and `gym_adapter.GymBatch` for everything else.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np


@dataclass(frozen=True)
class ActionSpace:
    """Box actions (`low`, `high` `[a]`, infinite where there is no bound) or `choices` discrete
    ones.
    """

    low: np.ndarray | None = None
    high: np.ndarray | None = None
    choices: int = 0
    start: int = 0  # the first choice
    clip: bool = (
        True  # whether actions outside the box are clipped before the environment sees them
    )
    shape: tuple[int, ...] | None = None  # of an environment's action; None: [a]
    dtype: str = "float64"

    @property
    def size(self) -> int:
        """Length of a policy network's output: action dimensions, or number of choices."""
        return self.choices if self.low is None else len(self.low)

    def to_environment(self, action: np.ndarray) -> np.ndarray:
        """A policy's action in [-1, 1] rescaled to the box, `[..., a] -> [..., *shape]`; a choice
        `[...]` counts from `start`.
        """
        if self.low is None or self.high is None:
            return action + self.start
        if self._is_unit:
            return action
        middle, half = self._box
        scaled = action * half + middle
        if self.clip:
            scaled = np.clip(scaled, self.low, self.high)
        if np.issubdtype(self.dtype, np.integer):
            scaled = np.rint(scaled)
        shaped = scaled if self.shape is None else scaled.reshape(*scaled.shape[:-1], *self.shape)
        return shaped.astype(self.dtype, copy=False)

    @cached_property
    def _is_unit(self) -> bool:
        """Whether the environment takes the policy's actions as they are."""
        middle, half = self._box
        return not self.clip and bool((middle == 0).all() and (half == 1).all())

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        """Middle and half of what [-1, 1] is mapped to: a side without a bound lies two units from
        the other.
        """
        low, high = np.asarray(self.low), np.asarray(self.high)
        first = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2, -1.0))
        last = np.where(np.isfinite(high), high, first + 2)
        return (first + last) / 2, (last - first) / 2

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads; bounds that are infinite are null."""
        bounds = {
            side: (
                None
                if values is None
                else [float(one) if np.isfinite(one) else None for one in values]
            )
            for side, values in (("low", self.low), ("high", self.high))
        }
        shape = None if self.shape is None else list(self.shape)
        return {
            **bounds,
            "choices": self.choices,
            "start": self.start,
            "clip": self.clip,
            "shape": shape,
            "dtype": self.dtype,
        }

    @classmethod
    def from_json(cls, notes: Mapping[str, Any]) -> "ActionSpace":
        """The space that `as_json` wrote."""
        bounds = {
            side: (
                None
                if notes[side] is None
                else np.array([without if one is None else one for one in notes[side]])
            )
            for side, without in (("low", -np.inf), ("high", np.inf))
        }
        shape = notes.get("shape")
        return cls(**{**notes, **bounds, "shape": None if shape is None else tuple(shape)})


class Transition(NamedTuple):
    """One step of N simulators. Where an episode ended, `observation` already belongs to the next
    one.
    """

    observation: np.ndarray  # [N, d]
    next_observation: np.ndarray  # [N, d], the true successor, also where the episode ended
    reward: np.ndarray  # [N]
    cost: np.ndarray  # [N, m]
    terminated: np.ndarray  # [N] bool: the episode ended by itself, nothing comes after
    truncated: np.ndarray  # [N] bool: the time limit cut it, its value goes on


class Simulator(Protocol):
    """N copies of one environment."""

    count: int
    observation_size: int
    observation_shape: tuple[
        int, ...
    ]  # of an environment's own observation; [d] where that is no array
    action_space: ActionSpace
    cost_names: tuple[str, ...]
    episode_limit: int | None  # steps after which an episode is cut, where that is known

    def reset(self, seed: int) -> np.ndarray:
        """Start all copies anew, `[N, d]`; the seed fixes everything that happens until the next
        call.
        """
        ...

    def step(self, action: np.ndarray) -> Transition:
        """Advance all copies by actions of the environment's own, `[N, *shape]` or choices `[N]`."""
        ...
