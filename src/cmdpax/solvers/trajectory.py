"""A fixed-budget run of an exact method: what every policy-gradient evaluation led to, possibly for
a whole batch.

One step = one policy-gradient evaluation, the fair x-axis of every comparison. Beside the last
iterate a single run keeps the mixture of all iterates: occupancies average, `mu = mean_k nu_k
pi_k`, and `pi(a|s) = mu(s,a) / sum_a mu(s,a)` is the ONE stationary policy with that occupancy, so
that its values are the averaged values.
"""

import time
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.certificate import certify, lagrangian_bound
from cmdpax.exact.discounted import evaluate, pseudo_reward
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, assemble


@dataclass(frozen=True)
class Trajectory:
    """What happened, in the batch shape `...` of the settings; index 0 of the histories is the
    initial policy.

    Histories are NaN from the step at which a configuration diverged; its `policy` and
    `multipliers` are the last finite ones.
    """

    rewards: np.ndarray  # [N + 1, ...]
    margins: np.ndarray  # [N + 1, ..., m]
    # [N + 1, ..., m]: what the method holds each constraint to be worth; any of them gives a dual
    # bound
    weights: np.ndarray
    multipliers: np.ndarray  # [..., m], final
    policy: np.ndarray  # [..., S, A], the last iterate
    mixture: np.ndarray | None = (
        # [S, A], the stationary policy of the average occupancy (primal-dual methods, no batch)
        None
    )
    policies: np.ndarray | None = (
        None  # [len(keep), ..., S, A], the iterates that the caller asked to keep
    )

    @property
    def diverged(self) -> np.ndarray:
        """`[...]`: the step at which each configuration stopped being finite; 0 means never."""
        lost = np.isnan(self.rewards)
        return np.where(lost.any(0), lost.argmax(0), 0)

    def one(self, index: int) -> "Trajectory":
        """Configuration `index` of a batch `[B]`, as an unbatched trajectory."""
        rewards, margins, weights = (
            history[:, index] for history in (self.rewards, self.margins, self.weights)
        )
        kept = None if self.policies is None else self.policies[:, index]
        return Trajectory(
            rewards, margins, weights, self.multipliers[index], self.policy[index], policies=kept
        )


class Recorder:
    """Collects a trajectory while a method runs, with the policies of the iterates in `keep` (0 is
    the initial one).
    """

    def __init__(self, keep: Collection[int] = ()) -> None:
        self.keep = frozenset(keep)
        self.rewards: list[np.ndarray] = []
        self.margins: list[np.ndarray] = []
        self.weights: list[np.ndarray] = []
        self.policies: list[np.ndarray] = []

    def add(
        self, reward: np.ndarray, margins: np.ndarray, weights: np.ndarray, policy: np.ndarray
    ) -> None:
        """Append one iterate: reward `[...]`, margins and weights `[..., m]`, policy `[..., S, A]`."""
        if len(self.rewards) in self.keep:
            self.policies.append(np.asarray(policy))
        self.rewards.append(np.asarray(reward))
        self.margins.append(np.asarray(margins))
        self.weights.append(np.asarray(weights))

    def finish(
        self, multipliers: np.ndarray, policy: np.ndarray, mixture: np.ndarray | None = None
    ) -> Trajectory:
        """The trajectory, with the final multipliers `[..., m]`, policy `[..., S, A]` and mixture
        `[S, A]`.
        """
        rewards, margins, weights = (
            np.stack(rows) for rows in (self.rewards, self.margins, self.weights)
        )
        policies = np.stack(self.policies) if self.policies else None
        return Trajectory(rewards, margins, weights, multipliers, policy, mixture, policies)


def certified_gaps(model: CMDP, run: Trajectory, every: int = 1) -> np.ndarray:
    """Gap of every `every`-th iterate of an unbatched run, proven without knowing the optimum ->
    `[1 + N // every]`.

    `D(w) = max_pi V_r + w.(V_c - b)` bounds the optimum for any w >= 0; iterate k is measured
    against the smallest bound that the weights seen up to k give. It may be negative where the
    iterate violates a constraint.
    """
    bound, actions, gaps = np.inf, None, []
    for reward, weights in zip(run.rewards[::every], run.weights[::every], strict=True):
        best = plan(model, pseudo_reward(model, weights), actions)
        actions = best.actions
        bound = min(bound, lagrangian_bound(model, model.reward, weights, best.values))
        gaps.append(bound - float(reward))
    return np.array(gaps)


def to_result(model: CMDP, run: Trajectory, *, method: str, eps: float, started: float) -> Result:
    """Certify the last iterate of an unbatched trajectory, with its final multipliers as dual
    weights.
    """
    if run.diverged:
        raise NumericalError(
            f"{method}: step {run.diverged} produced numbers that are not finite; use smaller step"
            " sizes."
        )
    best = plan(model, pseudo_reward(model, run.multipliers))
    certificate = certify(model, run.policy, run.multipliers, best.actions)
    rows: list[dict[str, Any]] = [
        {"evaluations": k, "reward": float(reward), "margins": [float(u) for u in margins]}
        for k, (reward, margins) in enumerate(zip(run.rewards, run.margins, strict=True))
    ]
    return assemble(
        model,
        run.policy,
        run.multipliers,
        certificate,
        method=method,
        eps=eps,
        trace=rows,
        seconds=time.perf_counter() - started,
        mixture=None if run.mixture is None else _mixture(model, run.mixture, len(run.rewards) - 1),
    )


def _mixture(model: CMDP, policy: np.ndarray, count: int) -> dict[str, Any]:
    """The mixture of `count` iterates as plain numbers: its stationary policy evaluated, and the
    memory that deploying the iterates themselves would take."""
    values = evaluate(model, policy)
    return {
        "reward": float(values.reward),
        "margins": [float(u) for u in values.margins],
        "policy": policy.tolist(),
        "policies": count,
        "numbers": count * model.states * model.actions,
    }
