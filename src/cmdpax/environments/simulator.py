"""What the deep learner asks of a simulator: a batch of copies that step together and start anew by themselves.

Costs are reported as the environment has them (one column per named cost); limits and signs come later, at the boundary of
the learner. Two simulators exist: `velocity.VelocityBatch` on raw MuJoCo, and `gym_adapter.GymBatch` for everything else.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np


@dataclass(frozen=True)
class ActionSpace:
    """Box actions (`low`, `high` `[a]`) or `choices` discrete ones."""

    low: np.ndarray | None = None
    high: np.ndarray | None = None
    choices: int = 0
    clip: bool = True  # whether actions outside the box are clipped before the environment sees them

    @property
    def size(self) -> int:
        """Length of a policy network's output: action dimensions, or number of choices."""
        return self.choices if self.low is None else len(self.low)

    def to_environment(self, action: np.ndarray) -> np.ndarray:
        """A policy's action in [-1, 1] rescaled to the box `[..., a]`; a discrete choice stays as it is."""
        if self.low is None or self.high is None or self._is_unit:
            return action
        middle, half = self._box
        scaled = action * half + middle
        return np.clip(scaled, self.low, self.high) if self.clip else scaled

    @cached_property
    def _is_unit(self) -> bool:
        """Whether the environment takes the policy's actions as they are."""
        middle, half = self._box
        return not self.clip and bool((middle == 0).all() and (half == 1).all())

    @cached_property
    def _box(self) -> tuple[np.ndarray, np.ndarray]:
        low, high = np.asarray(self.low), np.asarray(self.high)
        return (low + high) / 2, (high - low) / 2


class Transition(NamedTuple):
    """One step of N simulators. Where an episode ended, `observation` already belongs to the next one."""

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
    action_space: ActionSpace
    cost_names: tuple[str, ...]

    def reset(self, seed: int) -> np.ndarray:
        """Start all copies anew, `[N, d]`; the seed fixes everything that happens until the next call."""
        ...

    def step(self, action: np.ndarray) -> Transition:
        """Advance all copies by actions in the environment's own units, `[N, a]` or `[N]`."""
        ...
