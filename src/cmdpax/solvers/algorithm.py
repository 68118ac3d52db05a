"""Algorithm 1: the inexact augmented-Lagrangian method, with any oracle.

    for t = 1, 2, ...:
        improve pi on the AL with multipliers lambda_t (the oracle), to a certified gap of eps_t
        lambda_{t+1} = max(lambda_t - s beta margin, (1 - s) lambda_t)      (s = 1/2 in the paper)

The paper's mode has fixed numbers of outer and inner steps, a fixed penalty and a fixed step size,
in the model's own units; `solve` gives it targets and lets the penalty grow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cmdpax import lagrangian
from cmdpax.exact.planning import Plan
from cmdpax.model.cmdp import CMDP

LARGEST_PENALTY = 1e10


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The utility that an oracle improves: a value, and its gradient in the constraints' values."""

    multipliers: np.ndarray  # [..., m]
    penalty: float

    def value(self, reward: float | np.ndarray, margins: np.ndarray) -> np.ndarray:
        """The utility of a policy with reward value `[...]` and margins `[..., m]` -> `[...]`."""
        return lagrangian.value(reward, margins, self.multipliers, self.penalty)

    def weights(self, margins: np.ndarray) -> np.ndarray:
        """Its derivative with respect to the constraints' values, `[..., m]`."""
        return lagrangian.weights(self.multipliers, self.penalty, margins)


@dataclass(frozen=True)
class CertifiedGap:
    """How far a state may be from the maximum of the utility, and the plan that proves it."""

    gap: float  # max utility - utility of the state is at most this
    weights: np.ndarray  # [m], the w of the pseudo-reward
    plan: Plan  # optimum of the pseudo-reward


class Oracle(Protocol):
    """How a utility is improved. A state has `reward [...]` and `margins [..., m]`."""

    @property
    def check_every(self) -> int:
        """Inner steps between two certified gaps."""
        ...

    def start(self, model: CMDP, policy: np.ndarray | None = None) -> Any:
        """First state, of a policy `[..., S, A]` or the oracle's own."""
        ...

    def advance(self, model: CMDP, state: Any, utility: AugmentedLagrangian) -> Any:
        """One policy-gradient evaluation on the utility."""
        ...

    def gap(self, model: CMDP, state: Any, utility: AugmentedLagrangian) -> CertifiedGap:
        """Certified gap of the state; no batch."""
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
    gap: CertifiedGap | None  # where one was computed
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
    dual_factor: float = 0.5,
    target: Callable[[int], float] | None = None,
    penalty_growth: float = 1.0,
    observe: Callable[[Progress], bool] = lambda progress: False,
) -> Progress:
    """Run Algorithm 1 from a state and multipliers `[..., m]`.

    `target(t)` is eps_t: inner steps stop at that certified gap (and at `inner` of them); without
    it exactly `inner` are done. `penalty_growth > 1` raises the penalty whenever the defect
    (violation, or slack of a priced constraint) has not fallen to a quarter. `dual_factor` is s.
    `observe` sees every step and ends the run by returning True.
    """
    evaluations, previous = 0, np.inf
    progress = Progress(state, multipliers, penalty, 0, 0, None, False)
    for t in range(1, outer + 1):
        utility, gap = AugmentedLagrangian(multipliers, penalty), None
        for k in range(1, inner + 1):
            state = oracle.advance(model, state, utility)
            evaluations += 1
            if target is not None and (k % oracle.check_every == 0 or k == inner):
                gap = oracle.gap(model, state, utility)
            progress = Progress(state, multipliers, penalty, t, evaluations, gap, False)
            if observe(progress):
                return progress
            if gap is not None and target is not None and gap.gap <= target(t):
                break
        defect = float(np.max(lagrangian.defect(multipliers, penalty, state.margins)))
        multipliers = lagrangian.dual_update(multipliers, penalty, state.margins, dual_factor)
        progress = Progress(state, multipliers, penalty, t, evaluations, gap, True)
        if observe(progress):
            return progress
        if defect > previous / 4:
            penalty = min(penalty * penalty_growth, LARGEST_PENALTY)
        previous = defect
    return progress
