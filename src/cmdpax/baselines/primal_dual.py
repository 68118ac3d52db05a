"""The loop of single-loop methods: a method is a pair of pure functions (init, step), its settings may be arrays.

`init(model, settings) -> Iterate` and `step(model, iterate, settings) -> Iterate`; one step is one policy-gradient evaluation.
Settings are a mapping of names to numbers or arrays `[...]`; all arrays share one batch shape, which policies and multipliers
carry in front. So a grid search is one run.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.evaluation import Evaluation, action_values, evaluate, pseudo_reward
from cmdpax.lagrangian import scalarise
from cmdpax.model import CMDP
from cmdpax.trajectory import Recorder, Trajectory

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Iterate:
    """A policy `[..., S, A]` with its evaluation, multipliers `[..., m]`, and whatever else the method remembers."""

    policy: np.ndarray
    evaluation: Evaluation
    multipliers: np.ndarray
    memory: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def margins(self) -> np.ndarray:
        """`[..., m]`"""
        return self.evaluation.margins


def batch_shape(settings: Settings) -> tuple[int, ...]:
    """The common batch shape of the settings."""
    return np.broadcast_shapes(*(np.shape(value) for value in settings.values()))


def uniform_start(model: CMDP, settings: Settings) -> Iterate:
    """The uniform policy and zero multipliers, in the batch shape of the settings."""
    batch = batch_shape(settings)
    policy = np.broadcast_to(model.uniform_policy(), (*batch, model.states, model.actions))
    return Iterate(policy, evaluate(model, policy), np.zeros((*batch, model.constraint_count)))


def lagrangian_quality(model: CMDP, iterate: Iterate) -> np.ndarray:
    """`Q_lambda = Q_r + lambda.Q_c` of the iterate, `[..., S, A]`."""
    values = iterate.evaluation.values
    combined = scalarise(values[..., 0, :], values[..., 1:, :], iterate.multipliers)
    return action_values(model, pseudo_reward(model, iterate.multipliers), combined)


def run(
    model: CMDP,
    init: Callable[[CMDP, Settings], Iterate],
    step: Callable[[CMDP, Iterate, Settings], Iterate],
    settings: Settings,
    steps: int,
) -> Trajectory:
    """Do `steps` steps and record every iterate."""
    iterate = init(model, settings)
    record = Recorder()
    record.add(iterate.evaluation.reward, iterate.margins)
    for k in range(steps):
        iterate = step(model, iterate, settings)
        if not np.isfinite(iterate.evaluation.reward).all():
            raise NumericalError(f"step {k + 1} produced numbers that are not finite; use smaller step sizes.")
        record.add(iterate.evaluation.reward, iterate.margins)
    return record.finish(iterate.multipliers, iterate.policy)


def column(value: Any) -> np.ndarray:
    """A setting `[...]` shaped to multiply margins `[..., m]`."""
    return np.asarray(value, dtype=np.float64)[..., None]


def plane(value: Any) -> np.ndarray:
    """A setting `[...]` shaped to multiply policies `[..., S, A]`."""
    return np.asarray(value, dtype=np.float64)[..., None, None]
