"""Cutting planes on the entropy-regularised dual (Gladin, Lavrik-Karmazin, Gasnikov et al. 2023).

With entropy of weight tau the Lagrangian has one optimal policy `pi_w ~ exp(Q_w / tau)` for every
w, and the dual `D_tau(w) = max_pi V_r + tau H + w.(V_c - b)` is smooth and convex with gradient
`u(pi_w)`. One constraint: bisection on the sign of the margin. Several: Kelley's cutting planes in
the box `[0, lambda_max]^m`. The last policy is returned; its error is of order tau log A / (1 -
gamma), which is why it stays above the unregularised methods however long it runs.
"""

import time

import numpy as np
from scipy.optimize import linprog

from cmdpax.exact.certificate import certify
from cmdpax.exact.discounted import action_values, pseudo_reward, state_values
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, assemble
from cmdpax.solvers.certified import normalise, whole, within
from cmdpax.solvers.feasibility import slater_slack
from cmdpax.solvers.policy_classes import softmax

SOFT_ITERATIONS = 200
SOFT_TOLERANCE = 1e-12


def cutting_plane(
    model: CMDP,
    eps: float = 1e-6,
    *,
    entropy: float = 1e-5,
    cuts: int = 100,
    time_limit: float | None = None,
) -> Result:
    """Solve with at most `cuts` dual evaluations; `entropy` is tau on the normalised scale."""
    within("entropy", entropy, np.inf)
    cuts = whole("cuts", cuts)
    started = time.perf_counter()
    scaled = normalise(model)
    m = scaled.constraint_count
    slack = slater_slack(scaled)
    largest = 2 / slack if slack > 1e-9 else 1e9
    low, high = np.zeros(m), np.full(m, largest)
    planes: list[tuple[float, np.ndarray]] = []  # D_tau(w) >= value + gradient.w
    weights, policy = np.zeros(m), np.full((scaled.states, scaled.actions), 1 / scaled.actions)
    for _ in range(cuts):
        policy, value, margins = soft_optimum(scaled, weights, entropy, policy)
        if m == 0 or (time_limit is not None and time.perf_counter() - started > time_limit):
            break
        if (
            m == 1
        ):  # the dual's slope is the margin: a violated constraint wants a larger multiplier
            low, high = (weights, high) if margins[0] < 0 else (low, weights)
            if weights[0] == 0 and margins[0] >= 0:
                break
            proposal = (low + high) / 2
        else:
            planes.append((value - float(margins @ weights), margins))
            proposal = _kelley(planes, largest)
        if np.abs(proposal - weights).max() <= 1e-13 * (1 + np.abs(weights).max()):
            break
        weights = proposal
    prices = weights * model.reward_scale / model.constraint_scales
    best = plan(model, pseudo_reward(model, prices))
    certificate = certify(model, policy, prices, best.actions)
    seconds = time.perf_counter() - started
    return assemble(
        model, policy, prices, certificate, method="cutting-plane", eps=eps, seconds=seconds
    )


def soft_optimum(
    model: CMDP, weights: np.ndarray, entropy: float, start: np.ndarray
) -> tuple[np.ndarray, float, np.ndarray]:
    """The entropy-regularised optimum of `r + w.c`: policy `[S, A]`, dual value D_tau(w), margins
    `[m]`.

    Soft policy iteration `pi = softmax(Q_tau / tau)`, which converges like Newton's method once it
    is near.
    """
    reward, policy = pseudo_reward(model, weights), start
    for _ in range(SOFT_ITERATIONS):
        logs = np.log(np.where(policy > 0, policy, 1.0))
        values = state_values(model, policy, reward - entropy * logs)
        updated = softmax(action_values(model, reward, values) / entropy)
        change = np.abs(updated - policy).max()
        policy = updated
        if change <= SOFT_TOLERANCE:
            break
    logs = np.log(np.where(policy > 0, policy, 1.0))
    stacked = np.concatenate([(reward - entropy * logs)[None], model.constraints])
    at_start = state_values(model, policy, stacked) @ model.initial
    return policy, float(at_start[0] - weights @ model.thresholds), at_start[1:] - model.thresholds


def _kelley(planes: list[tuple[float, np.ndarray]], largest: float) -> np.ndarray:
    """Minimiser `[m]` of the piecewise-linear model of the dual in the box."""
    gradients = np.array([gradient for _, gradient in planes])
    m = gradients.shape[1]
    answer = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.hstack([gradients, -np.ones((len(planes), 1))]),
        b_ub=[-value for value, _ in planes],
        bounds=[(0, largest)] * m + [(None, None)],
    )
    return np.maximum(answer.x[:m], 0)
