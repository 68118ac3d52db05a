"""Phase 1: is there a policy that meets every threshold? Answered with a proof either way.

On a scaled form, whose unit is what `eps` is a share of, let `zeta = max_pi min_i margin_i`:
- can every margin reach `eps / 10`? Then the model is strictly feasible, and the columns that show
  it start the solver;
- if not, can every margin reach `-eps / 2`? If so it is `tight`: within the tolerance some policy
  meets all thresholds; if not, the model is infeasible.
Each is an AL subproblem with zero reward and zero multipliers, `min |max(target - u, 0)|^2`: its
residual w is zero, or it is a ray: planning on `w.c` proves `max_pi w.(V_c - b) < target sum(w)`.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.optimize import linprog

from cmdpax.errors import NumericalError
from cmdpax.exact.average import Average
from cmdpax.exact.planning import Plan
from cmdpax.exact.ranges import Guess
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.mixing import best_mixture
from cmdpax.solvers.columns import MAX_COLUMNS, Columns, add_column, first_column
from cmdpax.stopping import Stop, never

STRICT, RELAXED = 0.1, 0.5  # shares of eps: room that is enough, and lack that is too much
ROUNDING = 1e-14  # a margin that misses its target by less has met it
RESOLUTION = 1e-10  # the same, where rounding in the columns themselves stops further progress
LOOSENESS = 0.01  # planning may err by this fraction of what is lacking, or of what can be gained
SETTLED = 1e-3  # what the least violating mixture may still gain, as a share of what it lacks
FURTHER = 20  # steps after the proof, at the most, towards the least violating mixture
STEPS = 2000


@dataclass(frozen=True)
class Feasibility:
    """The verdict, the columns on the way to it, and for a negative one the ray with its plan.

    "open" is no verdict: time ran out. The columns are mixed to violate the least.
    """

    status: Literal["feasible", "tight", "infeasible", "open"]
    columns: Columns
    ray: np.ndarray | None = None  # [m], >= 0, sums to 1
    plan: Plan | None = None  # optimum of ray.c


def decide_feasibility(
    form: StandardForm,
    eps: float = 1e-6,
    columns: Columns | None = None,
    accuracy: float = 0.0,
    most: int = MAX_COLUMNS,
    stop: Stop = never,
    guess: Guess = lambda weights: None,
) -> Feasibility:
    """The verdict on a scaled form.

    columns: some to start from. accuracy: the error that values of columns may have (large models);
    a hundredth of eps does not blur a verdict. most: columns kept. stop: once it returns True the
    verdict is "open", with the columns so far, at least one. guess: where plans begin.
    """
    if columns is None:
        tolerance = max(accuracy, LOOSENESS)
        values = guess(np.append(1.0, np.zeros(form.constraint_count)))
        best = form.criterion.plan(form, form.reward, values=values, tolerance=tolerance, stop=stop)
        columns = first_column(form, best, accuracy)
    kind = accuracy, most, stop, guess
    strict = _try_to_reach(form, columns, STRICT * eps, -RELAXED * eps, *kind)
    if strict.status != "tight":
        return strict
    lowest = -RELAXED * eps
    relaxed = _try_to_reach(form, strict.columns, lowest, lowest, *kind)
    return replace(relaxed, status="tight") if relaxed.status == "feasible" else relaxed


def slater_slack(form: StandardForm) -> float:
    """The joint Slater slack `zeta = max_pi min_i margin_i` (infinite without constraints).

    Column generation on the matrix game between policies and constraints: a linear program mixes
    known columns, planning on its prices finds the next. Stops when both sides agree to 1e-9 of the
    largest constraint scale. Rows whose margin is never the smallest have no part in it.
    """
    if form.constraint_count == 0:
        return np.inf
    form = _without_idle_rows(form)
    m, plan = form.constraint_count, form.criterion.plan
    columns = first_column(form, plan(form, form.constraints.mean(0)))
    while True:
        k, margins = len(columns.rewards), columns.margins_of_columns
        unit = float(np.abs(margins).max()) or 1.0  # HiGHS' tolerances are absolute
        # variables (shares of k columns, t): maximise t with every mixed margin >= t
        game = linprog(
            np.append(np.zeros(k), -1.0),
            A_ub=np.hstack([-margins.T / unit, np.ones((m, 1))]),
            b_ub=np.zeros(m),
            A_eq=np.append(np.ones(k), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0, None)] * k + [(None, None)],
        )
        if game.x is None:
            raise NumericalError("slater slack: HiGHS mixed no columns; rescale the thresholds.")
        weights = np.maximum(-game.ineqlin.marginals, 0)
        weights = weights / weights.sum()
        best = plan(form, np.tensordot(weights, form.constraints, 1))
        upper = best.value - float(weights @ form.thresholds)
        # a column in use must not be given up for a new one
        mixed = replace(columns, mixture=np.maximum(game.x[:-1], 0))
        columns = add_column(form, mixed, best)
        slack = unit * float(game.x[-1])
        is_settled = upper - slack <= 1e-9 * form.constraint_scales.max()
        if is_settled or columns is mixed:
            return slack


def _without_idle_rows(form: StandardForm) -> StandardForm:
    """The form without rows whose margin, whatever the policy, some other row's never reaches."""
    criterion, rows = form.criterion, form.constraints
    if isinstance(criterion, Average):
        return form
    ends = [criterion.value_range(form, row) for row in rows]
    least, most = np.array(ends).T - form.thresholds
    kept = least <= most.min()
    return form.replace(constraints=rows[kept], thresholds=form.thresholds[kept])


def largest_multiplier(form: StandardForm) -> float:
    """`lambda_max = 2 span(r) / ((1 - gamma) zeta)`: an upper bound on optimal multipliers."""
    slack = slater_slack(form)
    return 2 * form.reward_scale / slack if slack > 0 else np.inf


def _try_to_reach(
    form: StandardForm,
    columns: Columns,
    target: float,
    least: float,
    accuracy: float,
    most: int,
    stop: Stop,
    guess: Guess,
) -> Feasibility:
    """Whether every margin can be at least `target`: "feasible", or "tight".

    "infeasible" comes with the ray that shows that not even `least` can be reached.
    """
    best: Plan | None = None
    proof: Feasibility | None = None
    plan, loosest, no_multipliers = form.criterion.plan, LOOSENESS, np.zeros(form.constraint_count)
    left, lowest, met, proven = np.inf, np.inf, max(ROUNDING, accuracy), 0
    for _ in range(STEPS):
        no_reward, lacking = np.zeros(len(columns.rewards)), columns.margins_of_columns - target
        mixture = best_mixture(no_reward, lacking, no_multipliers, 1.0, columns.mixture)
        columns = replace(columns, mixture=mixture)
        lack = np.maximum(target - columns.margins, 0)
        if lack.max(initial=0.0) <= met:
            return Feasibility("feasible", columns)
        if stop():
            return Feasibility("open", columns)
        ray = lack / lack.sum()
        start, values = (best.choices, best.values) if best else (None, guess(np.append(0.0, ray)))
        tolerance = max(accuracy, loosest * min(float(lack.max()), left))
        reward = np.tensordot(ray, form.constraints, 1)
        best = plan(form, reward, start, values=values, tolerance=tolerance, stop=stop)
        bound = best.value - float(ray @ form.thresholds)
        left = max(bound - float(ray @ columns.margins), 0.0)
        if bound < least:
            proven += 1
            if bound < lowest:
                lowest, proof = bound, Feasibility("infeasible", columns, ray, best)
            if left <= SETTLED * -bound or proven > FURTHER:
                break
        elif least < target and bound < target and left <= SETTLED * (target - least):
            break  # a matter for the other target
        if stop():
            return Feasibility("open", columns)
        richer = add_column(form, columns, best, accuracy=accuracy, most=most)
        if richer is columns:  # planning repeats itself
            if tolerance > accuracy:
                loosest = 0.0
                continue
            break
        columns = richer
    if proof is not None:
        return replace(proof, columns=columns)
    is_met = np.all(columns.margins >= target - max(RESOLUTION, 2 * accuracy))
    return Feasibility("feasible" if is_met else "tight", columns)
