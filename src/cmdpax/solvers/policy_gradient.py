"""First-order oracles: improve the AL subproblem by policy-gradient steps (PQA, PPG, NPG, SPMA).

One `advance` is one policy-gradient evaluation: the pseudo-reward `Gamma = r + w.c` from the
current margins, its Q, one step. The step size is
- a number or an array `[...]` (then the policies carry that batch shape: a grid search is one run),
- `"theory"`: `rho_min / L` with the smoothness constant L of the augmented Lagrangian; PQA ascends
  monotonically, slowly,
- `"backtracking"`: a trial that does not raise the AL is taken back and halves the step; a success
  grows it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.discounted import Evaluation, action_values, evaluate, occupancy, pseudo_reward
from cmdpax.exact.planning import Plan, plan
from cmdpax.lagrangian import scalarise
from cmdpax.model.cmdp import CMDP

StepFunction = Callable[
    [np.ndarray, np.ndarray, np.ndarray], np.ndarray
]  # (policy, Q or gradient, size) -> target
GROW, SHRINK, LARGEST, SMALLEST = 1.5, 0.5, 1e6, 1e-6
# adaptive sizes keep probabilities above this share of uniform: a multiplicative step could never
# leave 0
FLOOR = 1e-9
ROUNDING = 1e-14


@dataclass(frozen=True)
class Iterate:
    """A policy `[..., S, A]`, what is known about it, and the current step size `[...]`."""

    policy: np.ndarray
    evaluation: Evaluation
    size: np.ndarray
    coordinates: np.ndarray = field(
        default_factory=lambda: np.empty(0)
    )  # [..., r]: a log-linear policy's; a table has none

    @property
    def reward(self) -> np.ndarray:
        """`[...]`"""
        return self.evaluation.reward

    @property
    def margins(self) -> np.ndarray:
        """`[..., m]`"""
        return self.evaluation.margins


@dataclass(frozen=True)
class Subproblem:
    """The certified gap of an AL subproblem and the plan that proves it."""

    gap: float  # max AL - AL(pi) is at most this
    weights: np.ndarray  # [m], the w of the pseudo-reward
    plan: Plan  # optimum of the pseudo-reward


@dataclass(frozen=True)
class FirstOrder:
    """An oracle from a step function; see the module docstring for `size`."""

    step: StepFunction
    size: float | np.ndarray | Literal["theory", "backtracking"] = "backtracking"
    gradient: bool = False  # whether the step wants the gradient nu Q (PPG) instead of Q
    check_every: int = 10  # inner steps between two certified gaps, when the caller wants them

    def __post_init__(self) -> None:
        if isinstance(self.size, str):
            if self.size not in ("theory", "backtracking"):
                raise InputError(
                    f"step: '{self.size}' is neither a number, 'theory' nor 'backtracking'."
                )
        elif not (np.isfinite(self.size).all() and (np.asarray(self.size) > 0).all()):
            raise InputError(f"step is {self.size}; step sizes must be positive and finite.")

    def start(self, model: CMDP, policy: np.ndarray | None = None) -> Iterate:
        """The uniform policy, or the given one `[S, A]`, in the batch shape of the step sizes."""
        size = (
            np.ones(()) if isinstance(self.size, str) else np.asarray(self.size, dtype=np.float64)
        )
        policy = model.uniform_policy() if policy is None else policy
        policy = np.broadcast_to(policy, (*size.shape, model.states, model.actions))
        return Iterate(policy, evaluate(model, policy), size)

    def advance(
        self, model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
    ) -> Iterate:
        """One step on the AL with multipliers `[..., m]`."""
        quality = pseudo_quality(model, iterate, multipliers, penalty)
        direction = (
            occupancy(model, iterate.policy)[..., None] * quality if self.gradient else quality
        )
        size = theory_step(model, multipliers, penalty) if self._rule == "theory" else iterate.size
        target = self.step(iterate.policy, direction, size[..., None, None])
        if not np.isfinite(target).all():
            raise NumericalError(
                "oracle: the step produced numbers that are not finite; use a smaller step size."
            )
        if self._rule != "backtracking":
            return Iterate(target, evaluate(model, target), size)
        target = np.maximum(target, FLOOR * model.uniform_policy())
        target = target / target.sum(-1, keepdims=True)
        return backtrack(
            iterate, Iterate(target, evaluate(model, target), size), multipliers, penalty
        )

    @property
    def _rule(self) -> str:
        return self.size if isinstance(self.size, str) else "fixed"

    def subproblem(
        self, model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
    ) -> Subproblem:
        """The certified gap of the current policy for multipliers `[m]` (no batch)."""
        return certified_gap(model, iterate, multipliers, penalty)

    def policy(self, model: CMDP, iterate: Iterate) -> np.ndarray:
        """The iterate's policy `[..., S, A]`."""
        return iterate.policy


def pseudo_quality(
    model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
) -> np.ndarray:
    """`Q_Gamma` of the iterate, the direction of the AL's ascent, `[..., S, A]`."""
    worth, values = (
        lagrangian.weights(multipliers, penalty, iterate.margins),
        iterate.evaluation.values,
    )
    return action_values(
        model, pseudo_reward(model, worth), scalarise(values[..., 0, :], values[..., 1:, :], worth)
    )


def backtrack(iterate: Iterate, trial: Iterate, multipliers: np.ndarray, penalty: float) -> Iterate:
    """The trial with a longer step, or, if it lowers the AL, the iterate it came from with a
    shorter one; multipliers `[m]`.
    """
    before, after = (
        lagrangian.value(one.reward, one.margins, multipliers, penalty) for one in (iterate, trial)
    )
    if after >= before - ROUNDING * (1 + abs(before)):
        return replace(trial, size=np.minimum(iterate.size * GROW, LARGEST))
    return replace(iterate, size=np.maximum(iterate.size * SHRINK, SMALLEST))


def certified_gap(
    model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
) -> Subproblem:
    """`max_pi' V_Gamma(pi') - V_Gamma(pi)`, Gamma of multipliers `[m]` and the current policy: at
    least `max AL - AL(pi)`.
    """
    worth = lagrangian.weights(multipliers, penalty, iterate.margins)
    best = plan(model, pseudo_reward(model, worth))
    current = float(iterate.reward + worth @ (iterate.margins + model.thresholds))
    return Subproblem(best.value - current, worth, best)


def theory_step(model: CMDP, multipliers: np.ndarray, penalty: float) -> np.ndarray:
    """The theory's step `rho_min / L` for multipliers `[..., m]` -> `[...]`; at most 1 (a linear AL
    has L = 0).
    """
    smallest = model.initial.min()
    if smallest <= 0:
        state = int(np.argmin(model.initial))
        raise InputError(
            f"step 'theory' needs every state in the initial distribution; initial[{state}] is 0."
        )
    return smallest / np.maximum(smoothness(model, multipliers, penalty), smallest)


def smoothness(model: CMDP, multipliers: np.ndarray, penalty: float) -> np.ndarray:
    """Smoothness constant L of the AL in the direct parameterisation, for multipliers `[..., m]` ->
    `[...]`.

    The paper's lemma, freed of its assumption that rewards lie in [0, 1]: a value is `span * 2
    gamma A / (1-gamma)^3`-smooth (shifting a reward shifts its value by a constant), a violated
    constraint contributes `w_i <= lambda_i - beta u_i` times that, and beta times its squared
    gradient norm, at most `A span^2 / (1-gamma)^4`.
    """
    A, horizon = model.actions, 1 / (1 - model.discount)
    curvature = 2 * model.discount * A * horizon**3
    spans = np.ptp(model.constraints.reshape(model.constraint_count, model.reward.size), axis=1)
    lowest = (
        model.constraints.min((1, 2)) * horizon - model.thresholds
    )  # the most negative margin possible
    largest_weight = lagrangian.weights(multipliers, penalty, lowest)
    from_reward = curvature * np.ptp(model.reward)
    return (
        from_reward
        + (curvature * largest_weight * spans).sum(-1)
        + penalty * A * horizon**4 * (spans**2).sum()
    )
