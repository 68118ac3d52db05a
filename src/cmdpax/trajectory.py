"""A fixed-budget run of an exact method: reward and margins after every policy-gradient evaluation, possibly for a whole batch.

One step = one policy-gradient evaluation, the fair x-axis of every comparison. The mixture of the iterates is kept beside
the last iterate: values are linear in occupancies, so that the averaged occupancy has the averaged values.
"""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.certificate import certify
from cmdpax.evaluation import pseudo_reward
from cmdpax.model import CMDP
from cmdpax.planning import plan
from cmdpax.result import Result, assemble


@dataclass(frozen=True)
class Trajectory:
    """What happened, in the batch shape `...` of the settings; index 0 of the histories is the initial policy."""

    rewards: np.ndarray  # [N + 1, ...]
    margins: np.ndarray  # [N + 1, ..., m]
    multipliers: np.ndarray  # [..., m], final
    policy: np.ndarray  # [..., S, A], the last iterate


class Recorder:
    """Collects a trajectory while a method runs."""

    def __init__(self) -> None:
        self.rewards: list[np.ndarray] = []
        self.margins: list[np.ndarray] = []

    def add(self, reward: np.ndarray, margins: np.ndarray) -> None:
        """Append one iterate: reward `[...]`, margins `[..., m]`."""
        self.rewards.append(np.asarray(reward))
        self.margins.append(np.asarray(margins))

    def finish(self, multipliers: np.ndarray, policy: np.ndarray) -> Trajectory:
        """The trajectory, with the final multipliers and policy."""
        return Trajectory(np.stack(self.rewards), np.stack(self.margins), multipliers, policy)


def to_result(model: CMDP, run: Trajectory, *, method: str, eps: float, started: float) -> Result:
    """Certify the last iterate of an unbatched trajectory, with its final multipliers as dual weights."""
    best = plan(model, pseudo_reward(model, run.multipliers))
    certificate = certify(model, run.policy, run.multipliers, best.actions)
    rows: list[dict[str, Any]] = [
        {"evaluations": k, "reward": float(reward), "margins": [float(u) for u in margins]}
        for k, (reward, margins) in enumerate(zip(run.rewards, run.margins, strict=True))
    ]
    count = len(run.rewards) - 1
    mixture = {
        "reward": float(run.rewards[:count].mean()),
        "margins": [float(u) for u in run.margins[:count].mean(0)],
        "policies": count,
        "numbers": count * model.states * model.actions,
    }
    return assemble(
        model,
        run.policy,
        run.multipliers,
        certificate,
        method=method,
        eps=eps,
        trace=rows,
        seconds=time.perf_counter() - started,
        mixture=mixture,
    )
