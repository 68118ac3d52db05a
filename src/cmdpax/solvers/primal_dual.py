"""The loop that all baselines share: a method is a pair of pure functions (init, step), its
settings may be arrays.

`init(model, settings) -> Iterate` and `step(model, iterate, settings) -> Iterate`; one step is one
policy-gradient evaluation. Settings map names to numbers or arrays `[...]`; all arrays share one
batch shape, which policies and multipliers carry in front. So a grid search is one run. A
configuration whose numbers stop being finite is frozen at its last finite policy and marked; the
others go on.

Notation of the module docstrings: `Q_lambda = Q_r + lambda.Q_c`, `u` the margins, `eta` the setting
`step`, `eta_d` the setting `dual_step`, `tau` the setting `temperature`, `lambda_max` the setting
`largest`.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cmdpax.exact.discounted import (
    Evaluation,
    action_values,
    evaluate,
    occupancy,
    pseudo_reward,
    state_values,
)
from cmdpax.lagrangian import scalarise
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.tabular import from_occupancy, log_softmax
from cmdpax.solvers.trajectory import Recorder, Trajectory

Settings = Mapping[str, Any]
Init = Callable[[CMDP, Settings], "Iterate"]
Step = Callable[[CMDP, "Iterate", Settings], "Iterate"]


@dataclass(frozen=True)
class Iterate:
    """A policy `[..., S, A]` with its evaluation, multipliers `[..., m]`, and whatever else the
    method remembers.
    """

    policy: np.ndarray
    evaluation: Evaluation
    multipliers: np.ndarray
    sound: np.ndarray  # [...] bool: False once a configuration has diverged
    count: int = 0  # steps done
    memory: dict[str, np.ndarray] = field(
        default_factory=dict
    )  # arrays with the batch shape in front

    @property
    def margins(self) -> np.ndarray:
        """`[..., m]`"""
        return self.evaluation.margins


def uniform_start(model: CMDP, settings: Settings, **memory: np.ndarray) -> Iterate:
    """The uniform policy and zero multipliers, in the batch shape of the settings."""
    batch = np.broadcast_shapes(*(np.shape(value) for value in settings.values()))
    policy = np.broadcast_to(model.uniform_policy(), (*batch, model.states, model.actions))
    zeros = np.zeros((*batch, model.constraint_count))
    return Iterate(
        policy, evaluate(model, policy), zeros, np.ones(batch, dtype=bool), memory=memory
    )


def softmax_start(model: CMDP, settings: Settings) -> Iterate:
    """The same for methods that keep `log_policy`, so that a probability that underflows can come
    back.
    """
    start = uniform_start(model, settings)
    log_policy = np.log(
        np.maximum(start.policy, np.finfo(float).tiny)
    )  # unavailable actions have probability 0
    return replace(start, memory={"log_policy": log_policy})


def move(
    model: CMDP, iterate: Iterate, policy: np.ndarray, multipliers: np.ndarray, **memory: np.ndarray
) -> Iterate:
    """The next iterate: new policy `[..., S, A]`, multipliers `[..., m]` and memory; what has
    diverged stays where it was.
    """
    sound = iterate.sound & np.isfinite(policy).all((-1, -2)) & np.isfinite(multipliers).all(-1)
    if not sound.all():
        policy = np.where(sound[..., None, None], policy, iterate.policy)
        multipliers = np.where(sound[..., None], multipliers, iterate.multipliers)
    memory = {**iterate.memory, **memory}
    return Iterate(policy, evaluate(model, policy), multipliers, sound, iterate.count + 1, memory)


def move_logits(
    model: CMDP, iterate: Iterate, logits: np.ndarray, multipliers: np.ndarray, **memory: np.ndarray
) -> Iterate:
    """The next iterate of a method that keeps `log_policy`: its policy is the softmax of `logits
    [..., S, A]`.
    """
    log_policy = log_softmax(logits)
    return move(model, iterate, np.exp(log_policy), multipliers, log_policy=log_policy, **memory)


def lagrangian_quality(model: CMDP, iterate: Iterate) -> np.ndarray:
    """`Q_lambda = Q_r + lambda.Q_c` of the iterate, `[..., S, A]`."""
    return action_values(
        model, pseudo_reward(model, iterate.multipliers), lagrangian_values(iterate)
    )


def lagrangian_values(iterate: Iterate) -> np.ndarray:
    """`V_lambda = V_r + lambda.V_c` of the iterate, `[..., S]`."""
    values = iterate.evaluation.values
    return scalarise(values[..., 0, :], values[..., 1:, :], iterate.multipliers)


def soft_quality(model: CMDP, iterate: Iterate, temperature: Any) -> np.ndarray:
    """`Q_tau(s,a) = r + lambda.c + gamma E V_tau(s')`, V_tau the value of `r + lambda.c - tau log
    pi`; `[..., S, A]`.
    """
    reward = pseudo_reward(model, iterate.multipliers)
    entropic = reward - plane(temperature) * iterate.memory["log_policy"]
    values = state_values(model, iterate.policy, entropic[..., None, :, :])[..., 0, :]
    return action_values(model, reward, values)


def run(
    model: CMDP, init: Init, step: Step, settings: Settings, steps: int, keep: Collection[int] = ()
) -> Trajectory:
    """Do `steps` steps and record every iterate; without a batch also the mixture of all iterates
    but the last.

    `keep` numbers the iterates whose policies are kept.
    """
    iterate = init(model, settings)
    record = Recorder(keep)
    single = iterate.sound.ndim == 0
    mass = np.zeros((model.states, model.actions))
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # diverged configurations are masked, and reported by the trajectory
        _add(record, iterate)
        for _ in range(steps):
            if single:
                mass += occupancy(model, iterate.policy)[:, None] * iterate.policy / steps
            iterate = step(model, iterate, settings)
            _add(record, iterate)
    mixture = from_occupancy(mass, model.uniform_policy()) if single else None
    return record.finish(iterate.multipliers, iterate.policy, mixture)


def _add(record: Recorder, iterate: Iterate) -> None:
    lost = np.where(iterate.sound, 0.0, np.nan)
    weights = iterate.multipliers + lost[..., None]
    record.add(
        iterate.evaluation.reward + lost, iterate.margins + lost[..., None], weights, iterate.policy
    )


def column(value: Any) -> np.ndarray:
    """A setting `[...]` shaped to multiply margins `[..., m]`."""
    return np.asarray(value, dtype=np.float64)[..., None]


def plane(value: Any) -> np.ndarray:
    """A setting `[...]` shaped to multiply policies `[..., S, A]`."""
    return np.asarray(value, dtype=np.float64)[..., None, None]
