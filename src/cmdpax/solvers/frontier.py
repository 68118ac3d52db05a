"""The trade-off curve: best reward and shadow price against one budget, over its feasible range.

The best value is a concave, piecewise linear function of each bound `b_i`, and its slope is the
price of constraint i. Up to some hundred states the key simplex walks along it from one breakpoint
to the next (`key_simplex.breakpoints`): between them the curve is a straight line. The range runs
from where constraint i stops mattering (its value at the optimum without it) to the tightest bound
that the other constraints leave feasible. Each solve starts from the columns and multipliers of the
one before.
"""

import numpy as np

from cmdpax.errors import InputError, check_count, did_you_mean
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP, check_model
from cmdpax.model.result import Callback, FrontierPoint, Result, TradeOff
from cmdpax.solvers.certified import WarmStart
from cmdpax.solvers.climb import objective_of
from cmdpax.solvers.key_simplex import breakpoints, plans_before_pivots
from cmdpax.solvers.solve import check_limits, scaled_form, solve, solve_again
from cmdpax.stopping import Stop, Stopper
from cmdpax.utilities.utility import Utility

POINTS = 25  # of a curve with too many breakpoints
SAME = 1e-7  # relative difference of two prices that are one
RANGE_EPS = 1e-6  # accuracy of the ends of the range
INSET = 1e-3  # how far inside the feasible end of the range the last point lies, as a share of it


def frontier(
    model: CMDP,
    constraint: int | str = 0,
    *,
    points: int | None = None,
    eps: float = 1e-6,
    callback: Callback | None = None,
) -> list[FrontierPoint]:
    """Solve the model at thresholds of one constraint, from loose to tight.

    constraint: its index or its name; its sense is `<=` or `>=`. points: so many thresholds at
    equal distances; without it all breakpoints of the curve, so that it is known exactly, or 25
    points of a large model. The model's own budget is always among them, if it can bind. callback:
    sees every point as a row with `done` and `points`. Ctrl-C ends the curve.
    """
    i = find_constraint(model, constraint)
    check_limits(eps, callback)
    if points is not None and check_count("points", points) < 2:
        raise InputError(f"points is {points}; a curve needs at least 2.")
    with Stopper() as stop:
        loose, tight = threshold_range(model, i, eps)
        corners = None if points is not None else _corners(model, i, loose, tight, eps, stop)
        if stop():
            raise KeyboardInterrupt
        if corners is None:
            count, prices = POINTS if points is None else points, {}
            thresholds = np.linspace(loose, tight - INSET * (tight - loose), count).tolist()
        else:
            thresholds, prices = list(corners), corners
        low, high = sorted((loose, tight))
        own = float(model.limits.bounds[i][np.isfinite(model.limits.bounds[i])][0])
        if low < own < high and np.abs(np.array(thresholds) - own).min() > eps * (high - low):
            thresholds = sorted([*thresholds, own], reverse=tight < loose)
        curve, warm = [], WarmStart()
        for threshold in thresholds:
            entries = list(model.limits.entries)
            entries[i] = threshold
            result = solve_again(model.replace(thresholds=entries), eps, warm)
            proof, price = result.certificate, float(result.multipliers[i])
            is_corner = threshold in prices
            price = prices.get(threshold, price)
            numbers = threshold + 0.0, result.reward, price, proof.gap, proof.violation
            curve.append(FrontierPoint(*numbers, result.status, is_corner))
            if callback is not None:
                callback({"done": len(curve), "points": len(thresholds), **vars(curve[-1])})
            if stop():
                break
        return curve


def _corners(
    model: CMDP, i: int, loose: float, tight: float, eps: float, stop: Stop
) -> dict[float, float] | None:
    """Where the price of constraint i changes: thresholds, from loose to tight, and prices before.

    None where there are too many to find, or pivots meet trouble.
    """
    entries = list(model.limits.entries)
    entries[i] = loose - (tight - loose) / 10  # before the first
    scaled = scaled_form(model.replace(thresholds=entries), eps)
    if plans_before_pivots(scaled.form) != 0:
        return None
    row = int(model.limits.first_rows[i])
    walk = breakpoints(scaled.form, eps, row, stop)
    if walk is None:
        return None
    start, sign = float(scaled.form.thresholds[row]), float(model.limits.signs[row])
    unit = float(scaled.units[1 + row])
    corners, price = {}, -np.inf
    for threshold, before, after in zip(walk[0], walk[1], walk[1][1:]):
        if after - max(before, price) > SAME * max(abs(before), eps):
            own = entries[i] + sign * unit * float(threshold - start)
            corners[own + 0.0] = float(before) * float(scaled.units[0]) / unit
            price = after
    return corners


def frontier_between(
    model: CMDP, first: Utility, second: Utility, *, points: int = 11, eps: float = 1e-3
) -> list[TradeOff]:
    """Maximise `(1 - t) first + t second` at `points` shares t from 0 to 1.

    eps: accuracy of every point, as in `solve`. Every point lies on the edge of what both utilities
    can be together, within its gap.
    """
    if check_count("points", points) < 2:
        raise InputError(f"points is {points}; a curve needs at least 2.")
    check_model(model)
    curve = []
    objectives = [objective_of(model, one)[1] for one in (first, second)]
    form = StandardForm.of(model)
    for share in np.linspace(0.0, 1.0, points).tolist():
        result = solve(model, utility=(1 - share) * first + share * second, eps=eps)
        _feasible(result)
        assert result.policy is not None
        policy = model.by_choice(result.policy)
        one, other = (
            own.utility.sign * own.utility.value(*own.point(form, policy)) for own in objectives
        )
        curve.append(TradeOff(share, one, other, result.certificate.gap, result.status))
    return curve


def find_constraint(model: CMDP, constraint: int | str) -> int:
    """The index of a constraint with one bound, given by index or name."""
    check_model(model)
    names, m = model.constraint_names, model.constraint_count
    if m == 0:
        raise InputError("frontier: the model has no constraints; there is nothing to trade off.")
    if isinstance(constraint, str):
        if constraint not in names:
            hint = did_you_mean(constraint, names)
            raise InputError(f"constraint '{constraint}' is not one of the model's; {hint}")
        constraint = names.index(constraint)
    if not (isinstance(constraint, int | np.integer) and 0 <= constraint < m):
        raise InputError(f"constraint is {constraint}; the model has constraints 0..{m - 1}.")
    if np.isfinite(model.limits.bounds[constraint]).all():  # == or a range
        raise InputError(
            f"constraint '{names[constraint]}' is {model.limits.texts[constraint]}; a frontier"
            " needs one with a single bound, <= or >=."
        )
    return constraint


def threshold_range(model: CMDP, constraint: int, eps: float = 1e-6) -> tuple[float, float]:
    """Loosest threshold that can bind, and tightest that the other constraints leave feasible."""
    eps = min(eps, RANGE_EPS)  # a curve may be coarse, its ends may not
    others = np.arange(model.constraint_count) != constraint
    rows, bounds = model.constraints[others], model.limits.bounds[others]
    relaxed = model.replace(constraints=rows, thresholds=bounds, senses=None)
    sign = model.limits.signs[model.limits.first_rows[constraint]]  # -1: towards small values
    extreme = relaxed.replace(reward=model.constraints[constraint], minimise=bool(sign < 0))
    form, idle = StandardForm.of(extreme), idle_threshold(model, constraint)
    entries = [idle if i == constraint else entry for i, entry in enumerate(model.limits.entries)]
    loose = float(_feasible(solve(model.replace(thresholds=entries), eps=eps)).values[constraint])
    tight = _feasible(solve(extreme, eps=eps)).reward
    if sign * (tight - loose) <= 10 * eps * form.reward_scale:
        raise InputError(
            f"constraint '{model.constraint_names[constraint]}': it can never bind, the optimum"
            " without it already satisfies it as far as possible."
        )
    return loose, tight


def idle_threshold(model: CMDP, constraint: int) -> float:
    """A threshold that every policy keeps, or nearly."""
    sign = float(model.limits.signs[model.limits.first_rows[constraint]])
    none = {"constraints": model.constraints[:0], "thresholds": [], "senses": None}
    alone = model.replace(reward=model.constraints[constraint], minimise=sign < 0, **none)
    low, high = attained_ranges(StandardForm.of(alone)).bounds[0]
    return sign * float(low - (high - low))


def _feasible(result: Result) -> Result:
    if result.status == "infeasible":
        raise InputError(
            "frontier: the other constraints are infeasible by themselves; relax them first."
        )
    return result
