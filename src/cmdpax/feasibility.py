"""Phase 1: is there a policy that meets every threshold? Answered with a proof either way.

On the normalised scale (every constraint's value range is 1) let `zeta = max_pi min_i margin_i`. Two projections decide:
- can every margin reach `+BAND`? Then the model is strictly feasible, and the columns that show it start the solver;
- if not, can every margin reach `-BAND`? If so feasibility is `marginal`; if not, the model is infeasible.
Each is an AL subproblem with zero reward and zero multipliers, `min |max(target - u, 0)|^2`: its residual w is zero, or it is
a ray: planning on `w.c` proves `max_pi w.(V_c - b) < target sum(w)`.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cmdpax.model import CMDP
from cmdpax.oracles.corrective import Columns, add_column, first_column, master
from cmdpax.planning import Plan, plan

BAND = 1e-7  # feasibility closer than this to the boundary, on the normalised scale, is not decided
ROUNDING = 1e-14  # a margin that misses its target by less has met it
RESOLUTION = 1e-10  # the same, where rounding in the columns themselves stops further progress
STEPS = 2000


@dataclass(frozen=True)
class Feasibility:
    """The verdict, the columns found on the way, and for the two negative verdicts the ray with its plan."""

    status: Literal["feasible", "marginal", "infeasible"]
    columns: Columns
    ray: np.ndarray | None = None  # [m], >= 0, sums to 1
    plan: Plan | None = None  # optimum of ray.c


def decide(model: CMDP, accuracy: float = BAND / 100) -> Feasibility:
    """Verdict for a normalised model (see `solve.normalise`); `accuracy` is the error that values of columns may have."""
    columns = first_column(model, plan(model, model.reward, tolerance=accuracy), accuracy)
    reached = _reach(model, columns, BAND, accuracy)
    if reached.status == "feasible":
        return reached
    relaxed = _reach(model, reached.columns, -BAND, accuracy)
    if relaxed.status == "infeasible":
        return relaxed
    return replace(reached, status="marginal", columns=relaxed.columns)


def _reach(model: CMDP, columns: Columns, target: float, accuracy: float) -> Feasibility:
    """Whether every margin can be at least `target`; "infeasible" comes with the ray that shows it cannot."""
    no_multipliers = np.zeros(model.constraint_count)
    best: Plan | None = None
    for _ in range(STEPS):
        no_reward = np.zeros(len(columns.rewards))
        mixture = master(no_reward, columns.margin_rows - target, no_multipliers, 1.0, columns.mixture)
        columns = replace(columns, mixture=mixture)
        lack = np.maximum(target - columns.margins, 0)
        if lack.max(initial=0.0) <= ROUNDING:
            return Feasibility("feasible", columns)
        ray = lack / lack.sum()
        values = best.values if best else None
        best = plan(
            model, np.tensordot(ray, model.constraints, 1), best.actions if best else None, values=values, tolerance=accuracy
        )
        if best.value - ray @ model.thresholds < target:
            return Feasibility("infeasible", columns, ray, best)
        count = len(columns.rewards)
        columns = add_column(model, columns, best, accuracy=accuracy)
        if len(columns.rewards) == count:  # planning repeats itself: no more can be found out
            break
    met = np.all(columns.margins >= target - RESOLUTION)
    return Feasibility("feasible" if met else "marginal", columns)
