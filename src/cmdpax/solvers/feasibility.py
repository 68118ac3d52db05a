"""Phase 1: is there a policy that meets every threshold? Answered with a proof either way.

On the normalised scale (every constraint's value range is 1) let `zeta = max_pi min_i margin_i`.
Two projections decide:
- can every margin reach `+BAND`? Then the model is strictly feasible, and the columns that show it
  start the solver;
- if not, can every margin reach `-BAND`? If so feasibility is `marginal`; if not, the model is
  infeasible.
Each is an AL subproblem with zero reward and zero multipliers, `min |max(target - u, 0)|^2`: its
residual w is zero, or it is a ray: planning on `w.c` proves `max_pi w.(V_c - b) < target sum(w)`.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import linprog

from cmdpax.exact.planning import Plan
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.mixing import best_mixture
from cmdpax.solvers.columns import MAX_COLUMNS, Columns, add_column, first_column
from cmdpax.stopping import Stop, never

BAND = 1e-7  # feasibility closer than this to the boundary, on the normalised scale, is not decided
ROUNDING = 1e-14  # a margin that misses its target by less has met it
RESOLUTION = 1e-10  # the same, where rounding in the columns themselves stops further progress
CLOSEST = 1e-9  # so well the least violating mixture of an infeasible model is to be known
ACCURACY = CLOSEST / 10  # what values of columns may be off at the most, not to blur any of these
LOOSENESS = 0.01  # planning may err by this fraction of what is lacking, or of the range of values
ROOM = 10.0  # a margin is believed if it exceeds the error of its columns so many times
STEPS = 2000


@dataclass(frozen=True)
class Feasibility:
    """The verdict, the columns found on the way, and for a negative one the ray with its plan.

    "open" is no verdict: time ran out. The columns are mixed to violate the least.
    """

    status: Literal["feasible", "marginal", "infeasible", "open"]
    columns: Columns
    ray: np.ndarray | None = None  # [m], >= 0, sums to 1
    plan: Plan | None = None  # optimum of ray.c


def decide_feasibility(
    form: StandardForm,
    columns: Columns | None = None,
    accuracy: float = ACCURACY,
    most: int = MAX_COLUMNS,
    stop: Stop = never,
) -> Feasibility:
    """The verdict on a scaled form.

    columns: known ones to start from. accuracy: the error that values of columns may have (large
    models). One that would blur the verdict is good enough to find a model feasible with room to
    spare; any other verdict is then reached once more, by exact columns. most: columns kept. stop:
    once it returns True the verdict is "open", with the columns so far, at least one.
    """
    if form.is_small:
        accuracy = min(accuracy, ACCURACY)
    if columns is None:
        tolerance = max(accuracy, LOOSENESS)
        best = form.criterion.plan(form, form.reward, tolerance=tolerance, stop=stop)
        columns = first_column(form, best, accuracy)
    band = max(BAND, ROOM * accuracy)
    strict = _try_to_reach(form, columns, band, accuracy, most, stop)
    if strict.status in ("feasible", "open"):
        return strict
    if accuracy > ACCURACY:
        return decide_feasibility(form, most=most, stop=stop)
    if strict.status == "marginal":
        return strict
    relaxed = _try_to_reach(form, strict.columns, -BAND, accuracy, most, stop)
    if relaxed.status in ("infeasible", "open"):
        return relaxed
    return replace(strict, status="marginal", columns=relaxed.columns)


def slater_slack(form: StandardForm) -> float:
    """The joint Slater slack `zeta = max_pi min_i margin_i` (infinite without constraints).

    Column generation on the matrix game between policies and constraints: a linear program mixes
    known columns, planning on its prices finds the next. Stops when both sides agree to 1e-9 of the
    largest constraint scale.
    """
    m, plan = form.constraint_count, form.criterion.plan
    if m == 0:
        return np.inf
    columns = first_column(form, plan(form, form.constraints.mean(0)))
    while True:
        k = len(columns.rewards)
        # variables (shares of k columns, t): maximise t with every mixed margin >= t
        game = linprog(
            np.append(np.zeros(k), -1.0),
            A_ub=np.hstack([-columns.margins_of_columns.T, np.ones((m, 1))]),
            b_ub=np.zeros(m),
            A_eq=np.append(np.ones(k), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * k + [(None, None)],
        )
        weights = np.maximum(-game.ineqlin.marginals, 0)
        weights = weights / weights.sum()
        best = plan(form, np.tensordot(weights, form.constraints, 1))
        upper = best.value - float(weights @ form.thresholds)
        # a column in use must not be given up for a new one
        mixed = replace(columns, mixture=np.maximum(game.x[:-1], 0))
        columns = add_column(form, mixed, best)
        is_settled = upper - game.x[-1] <= 1e-9 * form.constraint_scales.max()
        if is_settled or columns is mixed:
            return float(game.x[-1])


def largest_multiplier(form: StandardForm) -> float:
    """`lambda_max = 2 span(r) / ((1 - gamma) zeta)`: an upper bound on optimal multipliers."""
    slack = slater_slack(form)
    return 2 * form.reward_scale / slack if slack > 0 else np.inf


def _try_to_reach(
    form: StandardForm, columns: Columns, target: float, accuracy: float, most: int, stop: Stop
) -> Feasibility:
    """Whether every margin can be at least `target`; "infeasible" comes with the ray that shows it.

    "marginal" means that rounding in the columns left the question open.
    """
    best: Plan | None = None
    plan, loosest, no_multipliers = form.criterion.plan, LOOSENESS, np.zeros(form.constraint_count)
    for _ in range(STEPS):
        no_reward, lacking = np.zeros(len(columns.rewards)), columns.margins_of_columns - target
        mixture = best_mixture(no_reward, lacking, no_multipliers, 1.0, columns.mixture)
        columns = replace(columns, mixture=mixture)
        lack = np.maximum(target - columns.margins, 0)
        if lack.max(initial=0.0) <= ROUNDING:
            return Feasibility("feasible", columns)
        if stop():
            return Feasibility("open", columns)
        ray = lack / lack.sum()
        start, values = (best.choices, best.values) if best else (None, None)
        tolerance = max(accuracy, loosest * float(lack.max()))
        reward = np.tensordot(ray, form.constraints, 1)
        best = plan(form, reward, start, values=values, tolerance=tolerance, stop=stop)
        bound = best.value - float(ray @ form.thresholds)
        if bound < target and bound - ray @ columns.margins <= CLOSEST:
            return Feasibility("infeasible", columns, ray, best)
        if stop():
            return Feasibility("open", columns)
        richer = add_column(form, columns, best, accuracy=accuracy, most=most)
        if richer is columns:  # planning repeats itself
            if tolerance > accuracy:
                loosest = 0.0
                continue
            if bound < target - RESOLUTION:
                return Feasibility("infeasible", columns, ray, best)
            break
        columns = richer
    is_met = np.all(columns.margins >= target - RESOLUTION)
    return Feasibility("feasible" if is_met else "marginal", columns)
