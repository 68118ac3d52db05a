"""The outer rate of Algorithm 1: the last iterate after T dual updates against O(1/sqrt(T)).

Fixed penalty beta, dual step beta / 2, `lambda_1 = 0`, and the subproblem of iteration t solved to
a CERTIFIED gap of at most `sigma / t^2` (corrective oracle). The theorem (paper, appendix on convex
linearly constrained problems) then says for the last iterate

    violation  <=  |margin - slack|  <=  2 / sqrt(beta) (sqrt(C / t) + sqrt(2 sigma) / t)
    V* - V_r   <=  (B + |lambda*|) times that + sigma / t^2,

    B = |lambda*| + sqrt(sigma beta pi^2 / 3),   kappa = beta / (8 B^2),   omega = 3,
    C = 4 / kappa (1 + sqrt(2 omega sigma kappa (omega sigma kappa + 1))) + 4 max(delta, 4 / kappa),
    delta = max AL(., 0) - V*.

These are the constants of the theorem as its proof has them, with `|lambda*|` itself. (The CMDP
lemma that cites it replaces `|lambda*|` by the bound `1 / (zeta (1 - gamma))` and drops one summand
of `B + |lambda*|`; the proof gives the sum.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from cmdpax import lagrangian
from cmdpax.environments import finite
from cmdpax.errors import NumericalError
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.results import provenance, read_lines, write_lines
from cmdpax.files.reading import Row
from cmdpax.model.cmdp import CMDP
from cmdpax.paper.charts import Line, rates
from cmdpax.paper.exact_study import Say, silence
from cmdpax.paper.settings import PROBLEMS
from cmdpax.solvers.algorithm import Progress, augmented_lagrangian
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.solve import solve

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
    """Bounds `[outer]` on gap and violation for `|lambda*|` and `delta`, as above."""
    t = np.arange(1, outer + 1)
    radius = multiplier + np.sqrt(sigma * penalty * np.pi**2 / 3)
    kappa = penalty / (8 * radius**2)
    noise = OMEGA * sigma * kappa
    constant = 4 / kappa * (1 + np.sqrt(2 * noise * (noise + 1))) + 4 * max(delta, 4 / kappa)
    violation = 2 / np.sqrt(penalty) * (np.sqrt(constant / t) + np.sqrt(2 * sigma) / t)
    return (radius + multiplier) * violation + sigma / t**2, violation


def measure(model: CMDP, penalty: float, sigma: float, outer: int) -> Rate:
    """Run Algorithm 1 with the certified oracle and set what happens beside what is proven."""
    best, oracle, form = solve(model, eps=1e-12), Corrective(), StandardForm.of(model)
    gaps, violations, largest = [], [], []
    zeros = np.zeros(form.constraint_count)

    def target(t: int) -> float:
        return sigma / t**2

    def observe(progress: Progress) -> bool:
        t, certified, state = progress.outer, progress.gap, progress.state
        if progress.outer_done and certified is not None:
            if certified.gap > target(t):
                raise NumericalError(f"rate: subproblem {t} was not solved to sigma / t^2.")
            gaps.append(best.reward - float(state.reward))
            violations.append(float(lagrangian.violation(state.margins)))
            if t == 1:  # lambda_1 = 0: AL plus certified gap bounds its maximum
                value = lagrangian.value(state.reward, state.margins, zeros, penalty)
                largest.append(value + certified.gap)
        return False

    loop: Row = {"multipliers": zeros, "penalty": penalty, "outer": outer, "inner": 1000}
    augmented_lagrangian(form, oracle, oracle.start(form), target=target, observe=observe, **loop)
    size, delta = float(np.linalg.norm(best.multipliers)), largest[0] - best.reward
    bounds = theorem(size, delta, penalty, sigma, outer)
    return Rate(np.array(gaps), np.array(violations), *bounds)


def recorded_rows(
    path: Path, made_with: Row, measured: Iterator[Row], rerun: bool
) -> Sequence[Row]:
    """Rows of a record. Those `measured`, if its header lacks `made_with`, or with `rerun`."""
    header, rows = read_lines(path)
    if not rerun and all(header.get(name) == value for name, value in made_with.items()):
        return rows
    write_lines(path, provenance(seed=None, **made_with), measured)
    return read_lines(path)[1]


@dataclass(frozen=True)
class RateStudy:
    """The record of measured rates and bounds, once read."""

    rows: Sequence[Row] = field(default=(), compare=False, repr=False)

    def complete(self, folder: Path, rerun: bool = False, say: Say = silence) -> "RateStudy":
        """The same with the record in `folder`, made anew if it does not fit or with `rerun`."""
        made_with: Row = {"sigma": SIGMA, "penalties": list(PENALTIES), "outer": OUTER}
        made_with["problems"] = list(PROBLEMS)
        path = folder / "records" / "rate.jsonl"
        return RateStudy(recorded_rows(path, made_with, _measured_rows(say), rerun))


def _measured_rows(say: Say) -> Iterator[Row]:
    """One row per problem and penalty, at about sixty values of T."""
    say("rate of the outer loop")
    shown = np.unique(np.geomspace(1, OUTER, 60).astype(int))
    for problem in PROBLEMS:
        for penalty in PENALTIES:
            rate = measure(finite[problem](), penalty, SIGMA, OUTER)
            row = {"kind": "rate", "problem": problem, "penalty": penalty, "outer": shown}
            yield row | {name: values[shown - 1] for name, values in vars(rate).items()}


def rate_figure(study: RateStudy) -> Figure:
    """Measured |gap| and violation with their bounds."""
    panels: dict[str, dict[str, dict[str, Line]]] = {}
    for row in study.rows:
        panel = panels.setdefault(PROBLEMS[row["problem"]], {})
        for quantity, name in (("|optimality gap|", "gap"), ("constraint violation", "violation")):
            measured, bound = np.abs(row[f"{name}s"]), np.array(row[f"{name}_bounds"])
            line = (np.array(row["outer"]), measured, bound)
            panel.setdefault(quantity, {})[f"penalty {row['penalty']:g}"] = line
    solved = f"subproblems certified to sigma / t^2 (sigma = {SIGMA:g})"
    return rates(panels, f"Algorithm 1 with {solved}: last iterate against O(1/sqrt T)")
