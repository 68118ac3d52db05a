"""The outer rate of Algorithm 1: last-iterate gap and violation after T dual updates against the
proven O(1/sqrt(T)).

Fixed penalty beta, dual step 1/2, `lambda_1 = 0`, and the subproblem of iteration t solved to a
CERTIFIED gap of at most `sigma / t^2` (corrective oracle). The theorem (paper, appendix on convex
linearly constrained problems) then says for the last iterate

    |margin - slack|  <=  2 / sqrt(beta) (sqrt(C / t) + sqrt(2 sigma) / t)                  (the violation is at most this)
    V* - V_r          <=  (B + |lambda*|) times that + sigma / t^2,

    B = |lambda*| + sqrt(sigma beta pi^2 / 3),   kappa = beta / (8 B^2),   omega = 3,
    C = 4 / kappa (1 + sqrt(2 omega sigma kappa (omega sigma kappa + 1))) + 4 max(delta, 4 / kappa),
    delta = max AL(., 0) - V*.

These are the constants of the theorem as its proof has them, with `|lambda*|` itself. (The CMDP
lemma that cites it replaces `|lambda*|` by the bound `1 / (zeta (1 - gamma))` and drops one summand
of `B + |lambda*|`; the proof gives the sum.)
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from cmdpax import lagrangian
from cmdpax.environments import finite
from cmdpax.errors import NumericalError
from cmdpax.experiments.results import Row
from cmdpax.model.cmdp import CMDP
from cmdpax.paper.charts import Line, rates
from cmdpax.paper.tabular import PROBLEMS
from cmdpax.solvers.algorithm import Progress, augmented_lagrangian
from cmdpax.solvers.certified import solve
from cmdpax.solvers.columns import Corrective

PENALTIES = (0.03, 0.3, 3.0)  # small enough that convergence takes more than a few dual updates
SIGMA, OUTER = 0.01, 1000
OMEGA = 3.0


@dataclass(frozen=True)
class Rate:
    """Measured errors of iterations 1..T and their bounds, all `[T]`."""

    gaps: np.ndarray
    violations: np.ndarray
    gap_bounds: np.ndarray
    violation_bounds: np.ndarray


def theorem(
    multiplier: float, delta: float, penalty: float, sigma: float, outer: int
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on gap and violation after t = 1..outer dual updates, for `|lambda*|` and `delta` as
    in the module docstring.
    """
    t = np.arange(1, outer + 1)
    reach = multiplier + np.sqrt(sigma * penalty * np.pi**2 / 3)
    kappa = penalty / (8 * reach**2)
    noise = OMEGA * sigma * kappa
    constant = 4 / kappa * (1 + np.sqrt(2 * noise * (noise + 1))) + 4 * max(delta, 4 / kappa)
    violation = 2 / np.sqrt(penalty) * (np.sqrt(constant / t) + np.sqrt(2 * sigma) / t)
    return (reach + multiplier) * violation + sigma / t**2, violation


def measure(model: CMDP, penalty: float, sigma: float, outer: int) -> Rate:
    """Run Algorithm 1 with the certified oracle and set what happens beside what is proven."""
    best, oracle = solve(model, eps=1e-12), Corrective()
    gaps, violations, largest = [], [], []

    def observe(progress: Progress) -> bool:
        known = progress.subproblem
        if progress.outer_done and known is not None:
            if known.gap > sigma / progress.outer**2:
                raise NumericalError(
                    f"rate: subproblem {progress.outer} was not solved to sigma / t^2."
                )
            gaps.append(best.reward - float(progress.state.reward))
            violations.append(float(lagrangian.violation(progress.state.margins)))
            if (
                progress.outer == 1
            ):  # lambda_1 = 0: the AL here plus its certified gap bounds its maximum
                zero = np.zeros(model.constraint_count)
                largest.append(
                    lagrangian.value(progress.state.reward, progress.state.margins, zero, penalty)
                    + known.gap
                )
        return False

    augmented_lagrangian(
        model,
        oracle,
        oracle.start(model),
        multipliers=np.zeros(model.constraint_count),
        penalty=penalty,
        outer=outer,
        inner=1000,
        dual_step=0.5,
        target=lambda t: sigma / t**2,
        observe=observe,
    )
    size = float(np.linalg.norm(best.multipliers))
    return Rate(
        np.array(gaps),
        np.array(violations),
        *theorem(size, largest[0] - best.reward, penalty, sigma, outer),
    )


def rate_records() -> list[Row]:
    """One row per problem and penalty, at about sixty values of T."""
    shown = np.unique(np.geomspace(1, OUTER, 60).astype(int))
    rows = []
    for problem in PROBLEMS:
        for penalty in PENALTIES:
            rate = measure(finite[problem](), penalty, SIGMA, OUTER)
            columns = {
                field: getattr(rate, field)[shown - 1] for field in Rate.__dataclass_fields__
            }
            rows.append(
                {"kind": "rate", "problem": problem, "penalty": penalty, "outer": shown, **columns}
            )
    return rows


def rate(rows: Sequence[Row]) -> Figure:
    """Measured |gap| and violation with their bounds."""
    panels: dict[str, dict[str, dict[str, Line]]] = {}
    for row in rows:
        panel = panels.setdefault(
            PROBLEMS[row["problem"]], {"|optimality gap|": {}, "constraint violation": {}}
        )
        for quantity, field in zip(panel, ("gap", "violation"), strict=True):
            measured, bound = np.abs(row[f"{field}s"]), np.array(row[f"{field}_bounds"])
            panel[quantity][f"penalty {row['penalty']:g}"] = (
                np.array(row["outer"]),
                measured,
                bound,
            )
    return rates(
        panels,
        f"Algorithm 1 with subproblems certified to sigma / t^2 (sigma = {SIGMA:g}): last iterate"
        " against O(1/sqrt T)",
    )
