"""The trade-off curve: best reward and shadow price against one budget, swept over its feasible
range.

The optimal value is a concave, non-increasing function of each threshold `b_i`, and minus its slope
is the multiplier of constraint i. The range runs from where constraint i stops mattering (the value
`V_c[i]` of the optimum without it) to the largest `b_i` that the other constraints leave feasible.
Each solve starts from the columns and multipliers of the one before.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.discounted import evaluate
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result
from cmdpax.solvers.certified import Warm, solve
from cmdpax.stopping import Stopper

RANGE = 1e-6  # accuracy of the ends of the range
# how far inside the feasible end of the range the last point lies, as a share of the range
INSET = 1e-3


@dataclass(frozen=True)
class FrontierPoint:
    """One solved threshold; `threshold` is in the caller's orientation (a `<=` budget stays a
    budget).
    """

    threshold: float
    reward: float
    multiplier: float
    gap: float  # certified
    violation: float  # certified
    status: str


def frontier(
    model: CMDP,
    constraint: int = 0,
    points: int = 25,
    eps: float = 1e-6,
    report: Callable[[int, int], None] | None = None,
) -> list[FrontierPoint]:
    """Sweep the threshold of one constraint; `report(done, points)` is called after every solve.
    Ctrl-C ends the curve.
    """
    m = model.constraint_count
    if m == 0:
        raise InputError("frontier: the model has no constraints; there is nothing to trade off.")
    if not 0 <= constraint < m:
        raise InputError(f"constraint is {constraint}; the model has constraints 0..{m - 1}.")
    if points < 2:
        raise InputError(f"points is {points}; a curve needs at least 2.")
    with Stopper() as stop:
        loose, tight = threshold_range(model, constraint, eps)
        if stop():
            raise KeyboardInterrupt
        sign = 1.0 if model.senses[constraint] == ">=" else -1.0
        curve, warm = [], Warm()
        for done, threshold in enumerate(
            np.linspace(loose, tight - INSET * (tight - loose), points), start=1
        ):
            thresholds = model.thresholds.copy()
            thresholds[constraint] = threshold
            result = solve(model.replace(thresholds=thresholds), eps, warm=warm)
            curve.append(
                FrontierPoint(
                    threshold=sign * float(threshold),
                    reward=result.reward,
                    multiplier=float(result.multipliers[constraint]),
                    gap=result.certificate.gap,
                    violation=result.certificate.violation,
                    status=result.status,
                )
            )
            if report:
                report(done, points)
            if stop():
                break
        return curve


def threshold_range(model: CMDP, constraint: int, eps: float = 1e-6) -> tuple[float, float]:
    """Smallest threshold that can bind and largest that is feasible, for constraint i given all the
    others.
    """
    eps = min(eps, RANGE)  # a curve may be coarse, its ends may not
    others = [i for i in range(model.constraint_count) if i != constraint]
    relaxed = model.replace(
        constraints=model.constraints[others],
        thresholds=model.thresholds[others],
        constraint_names=None,
    )
    without = _feasible(solve(relaxed, eps))
    loose = float(
        evaluate(model, without.policy).margins[constraint] + model.thresholds[constraint]
    )
    most = _feasible(solve(relaxed.replace(reward=model.constraints[constraint]), eps))
    if most.reward - loose <= 10 * eps * model.constraint_scales[constraint]:
        raise InputError(
            f"constraint {constraint}: it can never bind, the unconstrained optimum already"
            " satisfies it as far as possible."
        )
    return loose, most.reward


def _feasible(result: Result) -> Result:
    if result.status == "infeasible":
        raise InputError(
            "frontier: the other constraints are infeasible by themselves; relax them first."
        )
    return result
