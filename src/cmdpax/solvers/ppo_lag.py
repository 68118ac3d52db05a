"""PPO-Lag (Ray et al. 2019) with exact advantages: clipped surrogate for the policy, gradient
descent on the multipliers.

    policy, every step:   theta_{k+1} = n gradient steps of size eta, from theta_k, on
                          sum_s d(s) sum_a pi_k(a|s) min(ratio A, clip(ratio, 1 - clip, 1 + clip)
                          A),   ratio = pi_theta / pi_k,
    dual, every K steps:  lambda+ = max(lambda - eta_d u, 0),

with softmax logits theta, the advantage A of Q_lambda and the normalised occupancy d of pi_k. Where
the clip is active the gradient of a pair is 0; otherwise it is that of `d(s) pi_theta(a|s) A(s,a)`.
A heuristic: nothing is proven about any iterate.
"""

from dataclasses import replace

import numpy as np

from cmdpax.exact.discounted import occupancy
from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.primal_dual import (
    Iterate,
    Settings,
    column,
    lagrangian_quality,
    lagrangian_values,
    move_logits,
    plane,
    softmax_start,
)
from cmdpax.solvers.tabular import row_sums, softmax

SETTINGS = {"step": 1.0, "dual_step": 1.0, "clip": 0.2, "passes": 10, "inner": 100}
init = softmax_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update of the policy (`passes` gradient steps); every `inner`-th is followed by the dual
    update.
    """
    advantage = lagrangian_quality(model, iterate) - lagrangian_values(iterate)[..., None]
    visits = (1 - model.discount) * occupancy(model, iterate.policy)[..., None]
    logits = iterate.memory["log_policy"]
    for _ in range(settings["passes"]):
        gradient = visits * surrogate_gradient(
            softmax(logits), iterate.policy, advantage, plane(settings["clip"])
        )
        logits = logits + plane(settings["step"]) * gradient
    return update_prices(move_logits(model, iterate, logits, iterate.multipliers), settings)


def update_prices(improved: Iterate, settings: Settings) -> Iterate:
    """The dual update, with the margins of the new policy, after every `inner`-th one."""
    if improved.count % settings["inner"]:
        return improved
    multipliers = gradient_update(
        improved.multipliers, improved.margins, column(settings["dual_step"]), np.inf
    )
    return replace(improved, multipliers=multipliers)


def surrogate_gradient(
    policy: np.ndarray, old: np.ndarray, advantage: np.ndarray, clip: np.ndarray
) -> np.ndarray:
    """Gradient of `sum_a old min(ratio A, clip(ratio) A)` with respect to the logits of `policy`,
    per state.

    All `[..., S, A]` but clip `[..., 1, 1]`.
    """
    bound = old * np.where(advantage > 0, 1 + clip, 1 - clip)
    active = np.where(advantage > 0, policy < bound, policy > bound)
    worth = np.where(active, advantage, 0.0)
    return policy * (worth - row_sums(policy * worth))
