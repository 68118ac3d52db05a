"""Projected oracles: any step (PQA, NPG, SPMA), followed by the forward-KL projection onto
log-linear policies.

    target = step(pi_k, Q_Gamma, eta),      theta_{k+1} = argmin_theta sum_s d_k(s) KL(target(.|s)
    || pi_theta(.|s)),   from theta_k.

PPQA-ALM is Algorithm 1 with PQA here; with one-hot features it is PQA-ALM again. One `advance` is
one policy-gradient evaluation, however many steps its projection takes. The projection is
- `surrogate="newton"`: solved (default; step sizes are then one number, or `"backtracking"`),
- `surrogate` a number or an array `[...]`: the paper's `passes` gradient steps of that size,
  batched over (step, surrogate) pairs.

Which fixed points? To first order in eta, NPG and SPMA move the target by `eta pi A`, whose
projection vanishes exactly where the gradient of the AL within the class does. PQA moves it by `eta
(Q - mean Q)`, without the factor pi: where the features cannot tell states apart, its fixed points
are other policies than the class's optima.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.discounted import evaluate, occupancy
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.policy_gradient import (
    Iterate,
    StepFunction,
    Subproblem,
    backtrack,
    certified_gap,
    pseudo_quality,
)
from cmdpax.solvers.projection import descend, divergence, newton


@dataclass(frozen=True)
class Projected:
    """An oracle from a step function and features; see the module docstring for `surrogate`."""

    step: StepFunction
    features: Features
    size: float | np.ndarray | Literal["backtracking"] = "backtracking"
    surrogate: float | np.ndarray | Literal["newton"] = "newton"
    passes: int = 250  # gradient steps of a projection
    check_every: int = 10

    def __post_init__(self) -> None:
        for name, value, word in (
            ("step", self.size, "backtracking"),
            ("surrogate", self.surrogate, "newton"),
        ):
            if isinstance(value, str):
                if value != word:
                    raise InputError(f"{name}: '{value}' is neither a number nor '{word}'.")
            elif not (np.isfinite(value).all() and (np.asarray(value) > 0).all()):
                raise InputError(f"{name} is {value}; step sizes must be positive and finite.")
        if self.batch and (isinstance(self.size, str) or isinstance(self.surrogate, str)):
            raise InputError(
                "step: 'backtracking' and 'newton' run one configuration at a time; give numbers to"
                " run a batch."
            )

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch shape of the step sizes."""
        sizes = [
            np.shape(value) for value in (self.size, self.surrogate) if not isinstance(value, str)
        ]
        return np.broadcast_shapes(*sizes)

    def start(self, model: CMDP, policy: np.ndarray | None = None) -> Iterate:
        """`theta_1 = 0`, the uniform policy; or the projection of a given policy `[S, A]`."""
        self.features.check(model.states, model.actions)
        x = np.zeros(self.features.rank)
        if policy is not None:
            x = newton(self.features, x, (1 - model.discount) * occupancy(model, policy), policy)
        size = np.broadcast_to(
            1.0 if isinstance(self.size, str) else np.asarray(self.size, dtype=np.float64),
            self.batch,
        )
        return self.at(model, np.broadcast_to(x, (*self.batch, self.features.rank)), size)

    def at(self, model: CMDP, coordinates: np.ndarray, size: np.ndarray) -> Iterate:
        """The iterate at coordinates `[..., r]`."""
        policy = self.features.probabilities(coordinates)
        return Iterate(policy, evaluate(model, policy), size, coordinates)

    def target(
        self, model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the step would do without features, `[..., S, A]`, and the normalised occupancy
        `[..., S]` it is judged by.
        """
        quality = pseudo_quality(model, iterate, multipliers, penalty)
        visits = (1 - model.discount) * occupancy(model, iterate.policy)
        return self.step(iterate.policy, quality, iterate.size[..., None, None]), visits

    def project(self, x: np.ndarray, visits: np.ndarray, target: np.ndarray) -> np.ndarray:
        """Coordinates `[..., r]` of the projection, started at `x [..., r]`."""
        if isinstance(self.surrogate, str):
            return newton(self.features, x, visits, target)
        S, A, r = self.features.states, self.features.actions, self.features.rank
        sizes = np.broadcast_to(self.surrogate, self.batch).ravel()
        projected = descend(
            self.features,
            x.reshape(-1, r),
            visits.reshape(-1, S),
            target.reshape(-1, S, A),
            sizes,
            self.passes,
        )
        return projected.reshape(x.shape)

    def advance(
        self, model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
    ) -> Iterate:
        """One step on the AL with multipliers `[..., m]`, and its projection."""
        target, visits = self.target(model, iterate, multipliers, penalty)
        projected = self.project(iterate.coordinates, visits, target)
        trial = self.at(model, projected, iterate.size)
        return (
            backtrack(iterate, trial, multipliers, penalty) if isinstance(self.size, str) else trial
        )

    def errors(
        self, model: CMDP, before: Iterate, after: Iterate, multipliers: np.ndarray, penalty: float
    ) -> tuple[float, float]:
        """The theory's two projection errors of the step `before -> after`, in KL: of the class,
        and of the optimiser (no batch).

        `eps_bias = min_theta sum_s d(s) KL(target || pi_theta)`, `eps_opt` what `after` lies above
        it.
        """
        target, visits = self.target(model, before, multipliers, penalty)
        best = newton(self.features, after.coordinates, visits, target)
        bias = float(divergence(self.features, best, visits, target))
        return max(bias, 0.0), max(
            float(divergence(self.features, after.coordinates, visits, target)) - bias, 0.0
        )

    def subproblem(
        self, model: CMDP, iterate: Iterate, multipliers: np.ndarray, penalty: float
    ) -> Subproblem:
        """The certified gap for multipliers `[m]` to the best of ALL policies, the class's or not
        (no batch).
        """
        return certified_gap(model, iterate, multipliers, penalty)

    def policy(self, model: CMDP, iterate: Iterate) -> np.ndarray:
        """The iterate's policy `[..., S, A]`."""
        return iterate.policy
