"""Algorithm 1: the inexact augmented-Lagrangian method, with any oracle.

    for t = 1, 2, ...:
        improve pi on the AL with multipliers lambda_t (the oracle) to a certified gap <= eps_t
        lambda_{t+1} = max(lambda_t - s beta margin, (1 - s) lambda_t)        (s = 1/2 in the paper)

The paper's mode has fixed numbers of outer and inner steps, a fixed penalty and a fixed step size,
in the model's own units; `certified.py` gives it targets and lets the penalty grow.

One step is one policy-gradient evaluation, the fair x-axis of every comparison: `Recorder` keeps
what each of them led to.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cmdpax import lagrangian
from cmdpax.exact.planning import Plan
from cmdpax.exact.standard import StandardForm
from cmdpax.model.result import Mixture, Trajectory

LARGEST_PENALTY = 1e10
Point = tuple[np.ndarray, np.ndarray | None]  # of a utility (`exact/objective`)


@dataclass(frozen=True)
class AugmentedLagrangian:
    """The utility of a subproblem: `V_0 + sum_i (lambda_i^2 - w_i^2) / (2 beta)`."""

    multipliers: np.ndarray  # lambda [..., m]
    penalty: float  # beta

    def value(self, reward: Any, margins: np.ndarray) -> np.ndarray:
        """Of a policy with reward `[...]` and margins `[..., m]` -> `[...]`."""
        return lagrangian.value(reward, margins, self.multipliers, self.penalty)

    def weights(self, margins: np.ndarray) -> np.ndarray:
        """Its gradient with respect to the values of the constraints: w at margins `[..., m]`."""
        return lagrangian.weights(self.multipliers, self.penalty, margins)


@dataclass(frozen=True)
class CertifiedGap:
    """How far a policy is from the best of a utility, and the plan that proves it."""

    gap: float  # max utility - utility(pi) is at most this
    weights: np.ndarray  # [m], the w of the pseudo-reward
    plan: Plan  # optimum of the pseudo-reward
    offset: float = 0.0  # F less the value of its gradient, at the policy; 0 if F is V_0
    at: Point | None = None  # where that gradient is taken: values [k] and visits [S, A]

    def bound(self, form: StandardForm) -> float:
        """What no feasible policy exceeds."""
        return self.plan.value - float(self.weights @ form.thresholds) + self.offset


class Oracle(Protocol):
    """How a utility is improved. A state has `reward [...]` and `margins [..., m]`."""

    @property
    def check_every(self) -> int:
        """Inner steps between two certified gaps."""

    @property
    def patience(self) -> int | None:
        """Evaluations without progress after which only rounding is left; None: never."""

    def start(self, form: StandardForm, columns: Any = None) -> Any:
        """First state; `columns` are those of phase 1, for an oracle that can use them."""

    def advance(self, form: StandardForm, state: Any, utility: AugmentedLagrangian) -> Any:
        """One policy-gradient evaluation."""

    def gap(self, form: StandardForm, state: Any, utility: AugmentedLagrangian) -> CertifiedGap:
        """Certified gap of the state for multipliers `[m]`."""

    def candidates(self, form: StandardForm, state: Any) -> list[Any]:
        """States worth certifying, the state itself first."""

    def policy(self, form: StandardForm, state: Any) -> np.ndarray:
        """The state's policy by choice, `[..., K]`."""


@dataclass(frozen=True)
class Answer:
    """What a solver returns; the door certifies it."""

    policy: np.ndarray  # [K], by choice
    weights: np.ndarray  # [m], dual ones, in the units of the scaled form
    plan: Plan | None = None  # optimum of `r + w.c`, where the solver knows it
    averaged: np.ndarray | None = None  # [S, A], the policy of the average occupancy
    in_own_units: bool = False  # whether weights are those of the unscaled form
    points: np.ndarray | None = None  # [k, 1 + m]: reward and margins of policies, scaled
    mixture: Mixture | None = None  # deterministic policies with the values of `policy` together
    at: Point | None = None  # of another objective: where the gradient of the plan is taken


@dataclass(frozen=True)
class Progress:
    """Where Algorithm 1 stands after an inner step, or with `outer_done` after a dual update."""

    state: Any
    multipliers: np.ndarray  # [..., m]
    penalty: float
    outer: int
    evaluations: int  # policy-gradient evaluations so far
    gap: CertifiedGap | None  # the latest of this subproblem
    outer_done: bool


def augmented_lagrangian(
    form: StandardForm,
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

    target: `target(t)` is eps_t; inner steps stop at that certified gap (and at `inner` of them).
    Without it exactly `inner` are done. penalty_growth: above 1, the penalty grows by it whenever
    the defect (violation, or slack of a priced constraint) has not fallen to a quarter. observe:
    sees every step and ends the run by returning True.
    """
    evaluations, previous = 0, np.inf
    progress = Progress(state, multipliers, penalty, 0, 0, None, False)
    for t in range(1, outer + 1):
        utility, gap = AugmentedLagrangian(multipliers, penalty), None
        for k in range(1, inner + 1):
            state = oracle.advance(form, state, utility)
            evaluations += 1
            if target is not None and (k % oracle.check_every == 0 or k == inner):
                gap = oracle.gap(form, state, utility)
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


class Recorder:
    """Collects a trajectory while a method runs, with the policies of the iterates in `keep`."""

    def __init__(self, keep: Collection[int] = ()) -> None:
        self.keep = frozenset(keep)  # 0 is the initial iterate
        self.rows: list[tuple[Any, Any, Any]] = []
        self.policies: list[np.ndarray] = []

    def add(self, reward: Any, margins: Any, weights: Any, policy: np.ndarray) -> None:
        """Append one iterate: reward `[...]`, margins, weights `[..., m]`, policy `[..., S, A]`."""
        if len(self.rows) in self.keep:
            self.policies.append(policy)
        self.rows.append((reward, margins, weights))

    def finish(
        self, multipliers: np.ndarray, policy: np.ndarray, averaged: np.ndarray | None = None
    ) -> Trajectory:
        """The trajectory: final multipliers `[..., m]`, policy `[..., S, A]`, averaged `[S, A]`."""
        rewards, margins, weights = (np.stack(column) for column in zip(*self.rows))
        policies = np.stack(self.policies) if self.policies else None
        return Trajectory(rewards, margins, weights, multipliers, policy, averaged, policies)
