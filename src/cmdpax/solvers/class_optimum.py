"""The best policy that given features can express, as far as a search can tell.

    maximise V_r(pi_theta)  subject to  V_c(pi_theta) >= b     over theta.

Neither objective nor constraints are concave in theta, so this is a multistart local search: the
augmented Lagrangian from many random parameters, its subproblems by L-BFGS with the exact gradient
`sum_s nu(s) sum_a pi(a|s) A_Gamma(s,a) phi(s,a)`, its multipliers by the classical update, until
margins and multipliers are complementary. The best feasible end point is the answer; how many
starts reached it says how far to trust it. What the features cost is its distance to the optimum
over all policies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from scipy.optimize import minimize

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.discounted import action_values, evaluate, occupancy, pseudo_reward
from cmdpax.lagrangian import scalarise
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_classes import Features

SPREAD = 2.0  # deviation of the random starts
# Starts take turns between bounds of the coordinates that widen from subproblem to subproblem (a
# policy that is nearly deterministic hardly has a gradient, and would stay so in the wrong action)
# and wide ones at once, and between first penalties. At the last bound probabilities are 0 and 1 to
# rounding.
WIDENING, WIDE = (1.0, 2.0, 4.0, 8.0, 16.0, 40.0), (40.0,)
TURNS = ((WIDENING, 10.0), (WIDE, 10.0), (WIDENING, 1.0), (WIDE, 1.0))
GROWTH, OUTER = 4.0, 40
FEASIBLE = 1e-7  # violation at which an end point counts as feasible
SAME = 1e-6  # rewards closer than this are one optimum


@dataclass(frozen=True)
class ClassOptimum:
    """The best feasible policy found, and how often."""

    coordinates: np.ndarray  # [r]
    policy: np.ndarray  # [S, A]
    reward: float
    margins: np.ndarray  # [m]
    starts: int
    hits: int  # starts that ended feasible and within 1e-6 of the best


def class_optimum(
    model: CMDP, features: Features, starts: int = 100, seed: int = 0
) -> ClassOptimum:
    """Search from `theta = 0` and `starts - 1` random parameters; one seed gives the same answer."""
    if starts < 1:
        raise InputError(f"starts is {starts}; it must be a whole number of at least 1.")
    features.check(model.states, model.actions)
    rng = np.random.default_rng(seed)
    first = np.vstack(
        [np.zeros(features.rank), SPREAD * rng.standard_normal((starts - 1, features.rank))]
    )
    ends = np.stack(
        [_local(model, features, x, *turn) for x, turn in zip(first, cycle(TURNS), strict=False)]
    )
    found = evaluate(model, features.probabilities(ends))
    rewards = np.where(lagrangian.violation(found.margins) <= FEASIBLE, found.reward, -np.inf)
    best = int(np.argmax(rewards))
    if not np.isfinite(rewards[best]):
        raise NumericalError(
            f"class optimum: none of {starts} starts ended feasible; the features may not express a"
            " feasible policy."
        )
    hits = int((rewards >= rewards[best] - SAME).sum())
    policy = features.probabilities(ends[best])
    return ClassOptimum(ends[best], policy, float(rewards[best]), found.margins[best], starts, hits)


def _local(
    model: CMDP, features: Features, x: np.ndarray, reaches: Sequence[float], penalty: float
) -> np.ndarray:
    """The end point `[r]` of the augmented-Lagrangian method from coordinates `x [r]`."""
    multipliers, previous = np.zeros(model.constraint_count), np.inf
    for reach in (*reaches, *[reaches[-1]] * OUTER):
        x = minimize(
            lambda x, multipliers, penalty: _negative(model, features, x, multipliers, penalty),
            x,
            args=(multipliers, penalty),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-reach, reach)] * features.rank,
            options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-10},
        ).x
        margins = evaluate(model, features.probabilities(x)).margins
        defect = float(lagrangian.defect(multipliers, penalty, margins))
        multipliers = lagrangian.dual_update(multipliers, penalty, margins, dual_step=1.0)
        if defect <= FEASIBLE / 10 and reach == reaches[-1]:
            break
        penalty = penalty * GROWTH if defect > previous / 4 else penalty
        previous = defect
    return x


def _negative(
    model: CMDP, features: Features, x: np.ndarray, multipliers: np.ndarray, penalty: float
) -> tuple[float, np.ndarray]:
    value, slope = value_and_gradient(model, features, x, multipliers, penalty)
    return -value, -slope


def value_and_gradient(
    model: CMDP, features: Features, x: np.ndarray, multipliers: np.ndarray, penalty: float
) -> tuple[float, np.ndarray]:
    """The augmented Lagrangian at coordinates `[r]` and its gradient `[r]`."""
    policy = features.probabilities(x)
    known = evaluate(model, policy)
    worth = lagrangian.weights(multipliers, penalty, known.margins)
    values = scalarise(known.values[0], known.values[1:], worth)
    advantage = action_values(model, pseudo_reward(model, worth), values) - values[:, None]
    slope = features.pull(features.gather(occupancy(model, policy)[:, None] * policy * advantage))
    return float(lagrangian.value(known.reward, known.margins, multipliers, penalty)), slope
