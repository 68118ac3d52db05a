"""Algorithm 1: the inexact augmented-Lagrangian method, with any oracle.

    for t = 1, 2, ...:
        improve pi on the AL with multipliers lambda_t (the oracle), until its certified gap is at
        most eps_t lambda_{t+1} = max(lambda_t - s beta margin, (1 - s) lambda_t)          (s = 1/2
        in the paper)

The paper's mode has fixed numbers of outer and inner steps, a fixed penalty and a fixed step size,
in the model's own units; `solve` gives it targets and lets the penalty grow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cmdpax import lagrangian
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_gradient import Subproblem

LARGEST_PENALTY = 1e10


class Oracle(Protocol):
    """How a subproblem is improved. A state has `reward [...]` and `margins [..., m]`."""

    @property
    def check_every(self) -> int:
        """Inner steps between two certified gaps."""
        ...

    def start(self, model: CMDP, policy: np.ndarray | None = None) -> Any:
        """First state, of a policy `[..., S, A]` or the oracle's own."""
        ...

    def advance(self, model: CMDP, state: Any, multipliers: np.ndarray, penalty: float) -> Any:
        """One policy-gradient evaluation with multipliers `[..., m]`."""
        ...

    def subproblem(
        self, model: CMDP, state: Any, multipliers: np.ndarray, penalty: float
    ) -> Subproblem:
        """Certified gap of the state for multipliers `[m]`."""
        ...

    def policy(self, model: CMDP, state: Any) -> np.ndarray:
        """The state's policy `[..., S, A]`."""
        ...


@dataclass(frozen=True)
class Progress:
    """Where Algorithm 1 stands after an inner step (or, with `outer_done`, after a dual update)."""

    state: Any
    multipliers: np.ndarray  # [..., m]
    penalty: float
    outer: int
    evaluations: int  # policy-gradient evaluations so far
    subproblem: Subproblem | None  # certified gap, where one was computed
    outer_done: bool


def augmented_lagrangian(
    model: CMDP,
    oracle: Oracle,
    state: Any,
    *,
    multipliers: np.ndarray,
    penalty: float,
    outer: int,
    inner: int,
    dual_step: float = 0.5,
    target: Callable[[int], float] | None = None,
    penalty_growth: float = 1.0,
    observe: Callable[[Progress], bool] = lambda progress: False,
) -> Progress:
    """Run Algorithm 1 from a state and multipliers `[..., m]`.

    `target(t)` is eps_t: inner steps stop at that certified gap (and at `inner` of them); without
    it exactly `inner` are done. `penalty_growth > 1` raises the penalty whenever the defect
    (violation, or slack of a priced constraint) has not fallen to a quarter. `observe` sees every
    step and ends the run by returning True.
    """
    evaluations, previous = 0, np.inf
    progress = Progress(state, multipliers, penalty, 0, 0, None, False)
    for t in range(1, outer + 1):
        known: Subproblem | None = None
        for k in range(1, inner + 1):
            state = oracle.advance(model, state, multipliers, penalty)
            evaluations += 1
            if target is not None and (k % oracle.check_every == 0 or k == inner):
                known = oracle.subproblem(model, state, multipliers, penalty)
            progress = Progress(state, multipliers, penalty, t, evaluations, known, False)
            if observe(progress):
                return progress
            if known is not None and target is not None and known.gap <= target(t):
                break
        defect = float(np.max(lagrangian.defect(multipliers, penalty, state.margins)))
        multipliers = lagrangian.dual_update(multipliers, penalty, state.margins, dual_step)
        progress = Progress(state, multipliers, penalty, t, evaluations, known, True)
        if observe(progress):
            return progress
        if defect > previous / 4:
            penalty = min(penalty * penalty_growth, LARGEST_PENALTY)
        previous = defect
    return progress
