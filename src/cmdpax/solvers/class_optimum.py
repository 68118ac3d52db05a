"""The best policy that given features can express, as far as a search can tell.

    maximise V_r(pi_x)  subject to  V_c(pi_x) >= b     over coordinates x of a log-linear class.

Neither objective nor constraints are concave in x, so this is a multistart local search: the
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
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.log_linear import Features
from cmdpax.solvers.policy_gradient import weighted_action_values, weighted_values

START_DEVIATION = 2.0  # of the random starts
# Starts take turns between bounds of the coordinates that widen from subproblem to subproblem (a
# policy that is nearly deterministic hardly has a gradient, and would stay with a wrong action) and
# wide ones at once, and between first penalties. The last bound allows 0 and 1, up to rounding.
WIDENING, WIDE = (1.0, 2.0, 4.0, 8.0, 16.0, 40.0), (40.0,)
TURNS = ((WIDENING, 10.0), (WIDE, 10.0), (WIDENING, 1.0), (WIDE, 1.0))
PENALTY_GROWTH, OUTER = 4.0, 40
FEASIBLE = 1e-7  # violation at which an end point counts as feasible
SAME_REWARD = 1e-6  # rewards closer than this are one optimum


@dataclass(frozen=True)
class ClassOptimum:
    """The best feasible policy that the search met, and how often."""

    coordinates: np.ndarray  # [r]
    policy: np.ndarray  # [S, A]
    reward: float
    margins: np.ndarray  # [m]
    starts: int
    hits: int  # starts that ended feasible and within 1e-6 of the best


def class_optimum(
    form: StandardForm, features: Features, starts: int = 100, seed: int = 0
) -> ClassOptimum:
    """Search from `x = 0` and `starts - 1` random parameters; one seed gives the same answer."""
    if starts < 1:
        raise InputError(f"starts is {starts}; it must be a whole number of at least 1.")
    features.check(form.states, form.actions)
    rng, r = np.random.default_rng(seed), features.rank
    first = np.vstack([np.zeros(r), START_DEVIATION * rng.standard_normal((starts - 1, r))])
    turns = zip(first, cycle(TURNS), strict=False)
    ends = np.stack([_local(form, features, x, *turn) for x, turn in turns])
    rows = form.transitions
    values = form.evaluate(rows.by_choice(features.probabilities(ends)))
    rewards = np.where(lagrangian.violation(values.margins) <= FEASIBLE, values.reward, -np.inf)
    best = int(np.argmax(rewards))
    if not np.isfinite(rewards[best]):
        raise NumericalError(
            f"class optimum: none of {starts} starts ended feasible; the features may not express a"
            " feasible policy."
        )
    hits = int((rewards >= rewards[best] - SAME_REWARD).sum())
    policy, margins = features.probabilities(ends[best]), values.margins[best]
    return ClassOptimum(ends[best], policy, float(rewards[best]), margins, starts, hits)


def _local(
    form: StandardForm, features: Features, x: np.ndarray, bounds: Sequence[float], penalty: float
) -> np.ndarray:
    """The end point `[r]` of the augmented-Lagrangian method from coordinates `x [r]`."""
    multipliers, previous = np.zeros(form.constraint_count), np.inf
    for bound in (*bounds, *[bounds[-1]] * OUTER):
        x = minimize(
            lambda x, utility: [-part for part in value_and_gradient(form, features, x, utility)],
            x,
            args=(AugmentedLagrangian(multipliers, penalty),),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-bound, bound)] * features.rank,
            options={"maxiter": 300, "ftol": 1e-15, "gtol": 1e-10},
        ).x
        policy = form.transitions.by_choice(features.probabilities(x))
        margins = form.evaluate(policy).margins
        defect = float(lagrangian.defect(multipliers, penalty, margins))
        multipliers = lagrangian.dual_update(multipliers, penalty, margins, 1.0)
        if defect <= FEASIBLE / 10 and bound == bounds[-1]:
            break
        penalty = penalty * PENALTY_GROWTH if defect > previous / 4 else penalty
        previous = defect
    return x


def value_and_gradient(
    form: StandardForm, features: Features, x: np.ndarray, utility: AugmentedLagrangian
) -> tuple[float, np.ndarray]:
    """The utility at coordinates `x [r]` and its gradient `[r]`."""
    policy = features.probabilities(x)
    acting = form.transitions.by_choice(policy)
    evaluation = form.evaluate(acting)
    weights = utility.weights(evaluation.margins)
    values = weighted_values(evaluation, weights)
    advantage = weighted_action_values(form, evaluation, weights) - values[:, None]
    visits = form.criterion.visits(form, acting)
    slope = features.sum_pairs(visits[:, None] * policy * advantage)
    value = float(utility.value(evaluation.reward, evaluation.margins))
    return value, features.gradient(slope)
