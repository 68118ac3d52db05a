"""PPO-Lag (Ray et al. 2019) with log-linear policies and exact advantages; see `ppo_lag.py` for the
tabular form.

    policy, every step:   theta_{k+1} = n gradient steps of size eta, from theta_k, on
                          sum_s d(s) sum_a pi_k(a|s) min(ratio A, clip(ratio, 1 - clip, 1 + clip)
                          A),   ratio = pi_theta / pi_k,
    dual, every K steps:  lambda+ = max(lambda - eta_d u, 0).

Pairs with A > 0 count while `pi_theta < (1 + clip) pi_k`, those with A < 0 while `pi_theta > (1 -
clip) pi_k`. States of a group share both policies but not the sign of A, so gains and losses are
summed apart: the aggregation stays exact. With one-hot features it is PPO-Lag on logits.
"""

from typing import Any

import numpy as np

from cmdpax.exact.discounted import occupancy
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.compatible import linear_start, move_parameters
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.ppo_lag import update_prices
from cmdpax.solvers.primal_dual import Iterate, Settings, lagrangian_quality, lagrangian_values

SETTINGS = {"step": 1.0, "dual_step": 1.0, "clip": 0.2, "passes": 250, "inner": 100}
init = linear_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update of the policy (`passes` gradient steps); every `inner`-th is followed by the dual
    update.
    """
    features, batch = settings["features"], iterate.sound.shape
    advantage = lagrangian_quality(model, iterate) - lagrangian_values(iterate)[..., None]
    worth = (1 - model.discount) * occupancy(model, iterate.policy)[..., None] * advantage
    size, clip = (np.broadcast_to(settings[name], batch).ravel() for name in ("step", "clip"))
    start = iterate.memory["x"]
    x = ascend(
        features,
        start.reshape(-1, features.rank),
        worth.reshape(-1, model.states, model.actions),
        size,
        clip,
        settings["passes"],
    ).reshape(start.shape)
    return update_prices(
        move_parameters(model, iterate, features, x, iterate.multipliers), settings
    )


def ascend(
    features: Features, x: np.ndarray, worth: np.ndarray, size: Any, clip: Any, steps: int
) -> np.ndarray:
    """`steps` gradient steps on the clipped surrogate from coordinates `[B, r]`, for `worth = d A`
    `[B, S, A]` -> `[B, r]`.

    Arrays are laid out as in `projection.descend`; the run ends early when everything is clipped,
    for nothing would move any more.
    """
    n, A, r = features.design.shape
    design = np.ascontiguousarray(features.design.transpose(1, 0, 2).reshape(A * n, r))
    transpose = np.ascontiguousarray(design.T)
    gains, losses = (
        np.ascontiguousarray(features.gather(part).transpose(2, 1, 0))
        for part in (np.maximum(worth, 0), np.minimum(worth, 0))
    )
    point, old = np.array(x.T, order="C"), None
    for _ in range(steps):
        policy = (design @ point).reshape(gains.shape)
        policy -= policy.max(0)
        np.exp(policy, out=policy)
        policy /= policy.sum(0)
        if old is None:
            old, low, high = policy, (1 - clip) * policy, (1 + clip) * policy
        active = gains * (policy < high) + losses * (policy > low)
        if not active.any():
            break
        active -= (policy * active).sum(0)
        active *= policy
        point += size * (transpose @ active.reshape(A * n, -1))
    return np.ascontiguousarray(point.T)
