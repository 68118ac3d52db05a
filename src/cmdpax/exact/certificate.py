"""Certificates: what is proven about a policy, by dynamic programming on the model, never by
trusting a solver.

All three proofs are potentials, one vector over states each, whose Bellman residual bounds the
truth from both sides:

- values: for any vector V, `V^pi(rho)` lies in `rho.V + [min, max]_s (T_pi V - V)(s) / (1 -
  gamma)`;
- optimality: for any weights `w >= 0` and any vector V, with T the optimality operator of the
  reward `r + w.c`, `V* <= D(w) <= -w.b + rho.TV + gamma/(1-gamma) max_s (TV - V)(s)`; so `gap <=
  D(w) - V_r(pi)`;
- infeasibility: a ray `y >= 0` with `max_pi y.(V_c - b) < 0`, bounded in the same way, rules out
  every policy.

Maxima run over states reachable from the initial distribution (nothing else has a say). Every bound
is widened by what rounding in its own computation can amount to, so it holds for the real numbers,
not only for the floating-point ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmdpax.exact.discounted import (
    action_values,
    pseudo_reward,
    solve_linear,
    transition_matrix,
    under_policy,
)
from cmdpax.model.cmdp import CMDP


@dataclass(frozen=True)
class Certificate:
    """Claims about a policy, and the vectors that prove them to anyone with the model.

    For an infeasible (or marginal) model `ray` and `ray_potential` prove `max_pi ray.(V_c - b) <=
    ray_bound`.
    """

    reward_bounds: tuple[float, float]  # V_r(pi) lies between
    margin_bounds: np.ndarray  # [m, 2]: V_c(pi) - b lies between
    dual_bound: float  # no feasible policy has more reward than this
    weights: np.ndarray  # [m], the w of the dual bound
    value_potentials: np.ndarray  # [1 + m, S]: values of the policy, each up to a constant
    dual_potential: np.ndarray  # [S]: optimal values of r + w.c, up to a constant
    ray: np.ndarray | None = None  # [m]
    ray_bound: float | None = None
    ray_potential: np.ndarray | None = None  # [S]

    @property
    def gap(self) -> float:
        """`V* - V_r(pi)` is at most this; negative only when the policy is infeasible (or the model
        is).
        """
        return self.dual_bound - self.reward_bounds[0]

    @property
    def violation(self) -> float:
        """No constraint is violated by more than this, in the constraints' own units."""
        return max(0.0, float(-self.margin_bounds[:, 0].min(initial=0.0)))

    def scaled(self, model: CMDP) -> tuple[float, float]:
        """Gap and violation divided by the range of possible values: what `eps` is compared with."""
        violations = np.maximum(-self.margin_bounds[:, 0], 0) / model.constraint_scales
        return self.gap / model.reward_scale, float(violations.max(initial=0.0))


def certify(
    model: CMDP,
    policy: np.ndarray,
    weights: np.ndarray,
    actions: np.ndarray,
    *,
    potential: np.ndarray | None = None,
    accuracy: float = 0.0,
) -> Certificate:
    """Certify a policy `[S, A]` with the dual weights `[m]`; `actions [S]` should be (near) optimal
    for `r + w.c`.

    Large models: a `potential [S]` that is known saves evaluating the actions, and `accuracy` is
    how wide the bounds may be, as a fraction of the range of possible values. The bounds hold in
    any case.
    """
    potentials = centred_values(model, policy, (model.reward, *model.constraints), accuracy)
    bounds = value_bounds(model, policy, potentials)
    if potential is None:
        potential = centred_values(model, actions, (pseudo_reward(model, weights),))[0]
    return Certificate(
        reward_bounds=(float(bounds[0, 0]), float(bounds[0, 1])),
        margin_bounds=bounds[1:] - model.thresholds[:, None],
        dual_bound=lagrangian_bound(model, model.reward, weights, potential),
        weights=weights,
        value_potentials=potentials,
        dual_potential=potential,
    )


def centred_values(
    model: CMDP, policy: np.ndarray, rewards: Sequence[np.ndarray], accuracy: float = 0.0
) -> np.ndarray:
    """Good potentials: values of k rewards `[S, A]` under a policy, each less the middle of its
    range -> `[k, S]`.

    A constant proves nothing and costs digits: where all rewards are near 1e6, values are near 1e6
    / (1 - gamma), and so is the rounding in their residuals. Nor do states that are never reached
    get more than those that are: large numbers there would only add their rounding. Large models:
    `accuracy` is relative to the range.
    """
    right = np.stack([under_policy(reward, policy) for reward in rewards])
    low, high = _range(model, right)
    right = right.clip(low, high) - (low / 2 + high / 2)
    values = solve_linear(
        transition_matrix(model, policy), model.discount, right, tolerance=accuracy
    )
    low, high = _range(model, values)
    return values - (low / 2 + high / 2)


def _range(model: CMDP, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each row `[k, S]` over reachable states, `[k, 1]` each."""
    seen = rows[:, model.reachable]
    return seen.min(1, keepdims=True), seen.max(1, keepdims=True)


def value_bounds(model: CMDP, policy: np.ndarray, potentials: np.ndarray) -> np.ndarray:
    """Bounds on V_r(pi) and every V_c(pi) from any potentials `[1 + m, S]` -> `[1 + m, 2]`."""
    horizon, bounds = 1 / (1 - model.discount), np.empty((len(potentials), 2))
    for i, (reward, potential) in enumerate(
        zip((model.reward, *model.constraints), potentials, strict=True)
    ):
        residual = (under_policy(action_values(model, reward, potential), policy) - potential)[
            model.reachable
        ]
        centre, slack = float(potential @ model.initial), rounding(model, reward, potential)
        bounds[i] = (
            centre + residual.min() * horizon - slack,
            centre + residual.max() * horizon + slack,
        )
    return bounds


def optimum_bound(model: CMDP, reward: np.ndarray, potential: np.ndarray) -> float:
    """Upper bound on the best value of `reward [S, A]` from any potential `[S]`."""
    backed_up = action_values(model, reward, potential).max(1)
    excess = float((backed_up - potential)[model.reachable].max())
    discount = model.discount
    return (
        float(model.initial @ backed_up)
        + discount / (1 - discount) * excess
        + rounding(model, reward, potential)
    )


def lagrangian_bound(
    model: CMDP, reward: np.ndarray, weights: np.ndarray, potential: np.ndarray
) -> float:
    """Upper bound on `max_pi V + w.(V_c - b)`, V the value of `reward [S, A]`, for weights `[m]`,
    from any potential `[S]`.

    With the model's reward it bounds the optimum; with reward 0 and a ray for weights, a negative
    one rules out every policy. Large terms of `r + w.c` may cancel, in the sum but not in its
    rounding, which counts by their sizes.
    """
    pseudo = reward + np.tensordot(weights, model.constraints, 1)
    best, price = optimum_bound(model, pseudo, potential), float(weights @ model.thresholds)
    largest = np.array([np.abs(one[model.reachable]).max() for one in (reward, *model.constraints)])
    terms = (
        (largest[0] + weights @ largest[1:]) / (1 - model.discount)
        + weights @ np.abs(model.thresholds)
        + abs(best)
    )
    return best - price + float(2 * (len(weights) + 2) * np.finfo(float).eps * terms)


def rounding(model: CMDP, reward: np.ndarray, potential: np.ndarray) -> float:
    """What rounding in one Bellman backup (sums of B + 2 terms) of reward `[S, A]` and potential
    `[S]` can do to a bound.
    """
    terms = model.successors.shape[2] + model.actions + 4
    sizes = np.abs(reward[model.reachable]).max() + 2 * np.abs(potential[model.reachable]).max()
    return float(2 * terms * np.finfo(float).eps * sizes / (1 - model.discount)) + float(
        np.finfo(float).eps * model.states * np.abs(potential[model.reachable]).max()
    )
