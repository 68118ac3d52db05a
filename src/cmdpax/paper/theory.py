"""The theory's computable numbers: how many evaluations a subproblem takes, proven and measured.

With `M = 1 / (1 - gamma)`, the smallest initial probability rho and the smoothness L of the
augmented Lagrangian, PQA with the step `rho / L` has after K evaluations (theorem on its last
iterate)

    max AL - AL(pi_K)  <=  2 C / K,     C = 16 L M^2 / rho (1 + M / rho),

so that the corollary's oracle condition `eps_t = sigma / t^2` holds after `K_t = 2 C / eps_t`.
(Its text prints `32 L (1 + M / rho) / eps_t`; the lemma that it cites has what is here.) PPQA,
whose projections leave errors `eps_opt + eps_bias = e`, has

    max AL - AL(pi_K)  <=  4 C / K + sqrt(2 C E),     E = sqrt(2 e) U M^3 / rho,

if `E < C`: K_t is finite only where the second term is below eps_t. (Its C is printed without L.)
U bounds the pseudo-reward, freed as L is of the assumption that rewards lie in [0, 1].
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.environments import finite
from cmdpax.environments.by_name import tiles
from cmdpax.exact.standard import StandardForm
from cmdpax.files.reading import Row
from cmdpax.paper.charts import finish, panel, style
from cmdpax.paper.exact_study import Say, silence
from cmdpax.paper.rate import SIGMA, RateStudy, recorded_rows
from cmdpax.paper.settings import PROBLEMS, TILES
from cmdpax.solvers.algorithm import AugmentedLagrangian, Progress, augmented_lagrangian
from cmdpax.solvers.log_linear import Features, LogLinear
from cmdpax.solvers.policy_gradient import PolicyGradient, pqa, smoothness

PENALTY = 0.3  # one of those of the outer rate
INNER, OUTER, MOST = 1000, 30, 3000  # steps of the first subproblem; subproblems, steps of each
LOOKS = {  # of lines: index of their colour and mark, and dashes
    "PQA: proven": (0, "--"),
    "PPQA, exact projections: proven": (1, "--"),
    "PPQA, measured projections: proven": (2, "--"),
    "PQA, the theory's step: measured": (3, "-"),
    "PQA, adaptive step: measured": (4, "-"),
    "eps_t": (7, ":"),
}


@dataclass(frozen=True)
class Constants:
    """C of PQA's and PPQA's theorem, and E of projections that leave an error."""

    optimisation: float
    projection: float

    def pqa_bound(self, steps: np.ndarray) -> np.ndarray:
        """Bound on a subproblem's gap after `steps [n]`."""
        return 2 * self.optimisation / steps

    def ppqa_bound(self, steps: np.ndarray) -> np.ndarray:
        """The same with projections."""
        return 4 * self.optimisation / steps + self.floor

    @property
    def floor(self) -> float:
        """What no number of steps brings PPQA's bound below."""
        return float(np.sqrt(2 * self.optimisation * self.projection))

    def pqa_steps(self, gap: np.ndarray) -> np.ndarray:
        """K_t: steps after which the gap `[n]` is proven."""
        return 2 * self.optimisation / gap

    def ppqa_steps(self, gap: np.ndarray) -> np.ndarray:
        """The same with projections; infinite where their error is larger."""
        room = gap - self.floor
        return np.where(room > 0, 4 * self.optimisation / np.where(room > 0, room, 1.0), np.inf)


def constants(form: StandardForm, utility: AugmentedLagrangian, error: float) -> Constants:
    """For one subproblem; `error`: what its projections leave, in KL."""
    mass, rho = form.criterion.mass, form.initial.min()
    lowest = form.constraints.min(1) * mass - form.thresholds
    highest = np.ptp(form.reward) + utility.weights(lowest) @ np.ptp(form.constraints, axis=1)
    leading = 16 * float(smoothness(form, utility)) * mass**2 / rho * (1 + mass / rho)
    return Constants(leading, float(np.sqrt(2 * error) * highest * mass**3 / rho))


def inner_gaps(form: StandardForm, rule: Any, steps: int) -> np.ndarray:
    """Certified gaps `[steps]` of PQA in the first subproblem."""
    oracle = PolicyGradient(pqa, rule, check_every=1)
    gaps: list[float] = []

    def observe(progress: Progress) -> bool:
        if progress.gap is not None and not progress.outer_done:
            gaps.append(progress.gap.gap)
        return False

    _run(form, oracle, 1, steps, lambda t: 0.0, observe)
    return np.array(gaps)


def inner_counts(form: StandardForm) -> tuple[np.ndarray, np.ndarray]:
    """Steps `[t]` of adaptive PQA until the gap of subproblem t is certified, and `lambda_t`.

    Subproblems from the first that takes more than `MOST` steps on are left out.
    """
    oracle = PolicyGradient(pqa, check_every=1)
    counts, multipliers = [0], [_zeros(form)]

    def observe(progress: Progress) -> bool:
        if not progress.outer_done:
            return False
        gap = np.inf if progress.gap is None else progress.gap.gap
        if gap <= _target(progress.outer):
            counts.append(progress.evaluations)
            multipliers.append(progress.multipliers)
        return bool(gap > _target(progress.outer))

    _run(form, oracle, OUTER, MOST, _target, observe)
    return np.diff(counts), np.array(multipliers[:-1])


def projection_error(problem: str) -> float:
    """The largest `eps_opt + eps_bias` of solved projections onto the largest class of features.

    Of the first hundred steps of PPQA with step 0.1.
    """
    model = finite[problem]()
    form = StandardForm.of(model)
    policies = LogLinear(Features(tiles(model.states, model.actions, *TILES[-1])))
    oracle, utility = PolicyGradient(pqa, 0.1, policies), AugmentedLagrangian(_zeros(form), PENALTY)
    state, worst = oracle.start(form), 0.0
    for _ in range(100):
        share = form.criterion.share(form, oracle.policy(form, state))
        target, state = oracle.target(form, state, utility), oracle.advance(form, state, utility)
        worst = max(worst, sum(policies.projection_errors(state.parameters, share, target)))
    return worst


def _run(
    form: StandardForm, oracle: Any, outer: int, inner: int, target: Any, observe: Any
) -> None:
    size: Row = {"penalty": PENALTY, "outer": outer, "inner": inner}
    start = {"multipliers": _zeros(form), "target": target, "observe": observe}
    augmented_lagrangian(form, oracle, oracle.start(form), **size, **start)


def _target(t: int) -> float:
    return SIGMA / t**2


def _zeros(form: StandardForm) -> np.ndarray:
    return np.zeros(form.constraint_count)


@dataclass(frozen=True)
class TheoryStudy:
    """The record of the theory's constants and of measured steps, once read."""

    rows: Sequence[Row] = field(default=(), compare=False, repr=False)

    def complete(self, folder: Path, rerun: bool = False, say: Say = silence) -> "TheoryStudy":
        """The same with the record in `folder`, made anew if it does not fit or with `rerun`."""
        made_with: Row = {"sigma": SIGMA, "penalty": PENALTY, "problems": list(PROBLEMS)}
        made_with |= {"inner": INNER, "outer": OUTER, "most": MOST}
        path = folder / "records" / "theory.jsonl"
        return TheoryStudy(recorded_rows(path, made_with, _measured_rows(say), rerun))


def _measured_rows(say: Say) -> Iterator[Row]:
    """One row per problem."""
    say("constants of the theory")
    shown = np.unique(np.geomspace(1, INNER, 50).astype(int))
    for problem in PROBLEMS:
        form, error = StandardForm.of(finite[problem]()), projection_error(problem)
        steps, multipliers = inner_counts(form)
        every = [constants(form, AugmentedLagrangian(one, PENALTY), error) for one in multipliers]
        eps = SIGMA / np.arange(1, len(steps) + 1) ** 2
        yield {
            "kind": "theory",
            "problem": problem,
            "projection_error": error,
            "optimisation": [one.optimisation for one in every],
            "projection": [one.projection for one in every],
            "eps": eps,
            "steps": steps,
            "inner": shown,
            "theory_gaps": inner_gaps(form, "theory", INNER)[shown - 1],
            "adaptive_gaps": inner_gaps(form, "backtracking", INNER)[shown - 1],
        }


def theory_figure(study: TheoryStudy, rate: RateStudy) -> Figure:
    """Proven and measured: a subproblem's gap, its evaluations K_t, the outer rate; by problem."""
    figure = Figure(figsize=(15, 1.4 + 3.6 * len(study.rows)))
    grid = figure.subplots(len(study.rows), 3, squeeze=False)
    for row, (first, second, third) in zip(study.rows, grid):
        title = PROBLEMS[row["problem"]]
        _draw_gaps(first, row)
        panel(first, f"{title}: first subproblem", xscale="log", yscale="log")
        first.set(xlabel="evaluations k", ylabel="max AL - AL(policy k)")
        _draw_counts(second, row)
        panel(second, f"{title}: evaluations K_t until eps_t", xscale="log", yscale="log")
        second.set(xlabel="outer iteration t", ylabel="evaluations of subproblem t")
        own = (row["problem"], PENALTY)
        for one in (one for one in rate.rows if (one["problem"], one["penalty"]) == own):
            for name, mark in (("gap", "o"), ("violation", "s")):
                measured = np.maximum(np.abs(one[f"{name}s"]), 1e-10)
                look = {"color": style(5)["color"], "marker": mark, "markevery": 6, "markersize": 4}
                third.plot(one["outer"], measured, label=f"{name}: measured", **look)
                look |= {"linestyle": "--", "markerfacecolor": "white"}
                third.plot(one["outer"], one[f"{name}_bounds"], label=f"{name}: proven", **look)
        panel(third, f"{title}: last iterate after T dual updates", xscale="log", yscale="log")
        third.set(xlabel="outer iterations T", ylabel="error (below 1e-10: drawn there)")
        if third.get_lines():
            third.legend(frameon=False, fontsize=8)
    handles = [Line2D([], [], label=label, **_look(label)) for label in LOOKS]
    words = f"penalty {PENALTY:g}, eps_t = {SIGMA:g} / t^2"
    title = f"What the theory proves, and what happens: {words}"
    return finish(figure, title, handles, below=0.035)


def _look(label: str) -> dict[str, Any]:
    index, dashes = LOOKS[label]
    return {**style(index), "linestyle": dashes, "markersize": 4}


def _draw_gaps(axes: Axes, row: Row) -> None:
    steps = np.array(row["inner"])
    numbers = Constants(row["optimisation"][0], row["projection"][0])
    exact = Constants(row["optimisation"][0], 0.0)
    lines = {
        "PQA: proven": numbers.pqa_bound(steps),
        "PPQA, exact projections: proven": exact.ppqa_bound(steps),
        "PPQA, measured projections: proven": numbers.ppqa_bound(steps),
        "PQA, the theory's step: measured": row["theory_gaps"],
        "PQA, adaptive step: measured": np.maximum(row["adaptive_gaps"], 1e-10),
        "eps_t": np.full(len(steps), row["eps"][0]),
    }
    for label, values in lines.items():
        axes.plot(steps, values, markevery=6, **_look(label))


def _draw_counts(axes: Axes, row: Row) -> None:
    eps, t = np.array(row["eps"]), np.arange(1, len(row["eps"]) + 1)
    pairs = list(zip(row["optimisation"], row["projection"]))
    every = [Constants(*pair) for pair in pairs]
    exact = [Constants(leading, 0.0) for leading, _ in pairs]
    lines = {
        "PQA: proven": [one.pqa_steps(gap) for one, gap in zip(every, eps)],
        "PPQA, exact projections: proven": [one.ppqa_steps(gap) for one, gap in zip(exact, eps)],
        "PPQA, measured projections: proven": [one.ppqa_steps(gap) for one, gap in zip(every, eps)],
        "PQA, adaptive step: measured": np.maximum(row["steps"], 1),
    }
    for label, values in lines.items():
        numbers = np.array(values, dtype=np.float64)
        if np.isfinite(numbers).any():
            axes.plot(t, np.where(np.isfinite(numbers), numbers, np.nan), **_look(label))
        else:
            floor = min(one.floor for one in every)
            words = f"{label.partition(':')[0]}: infinite\n(their bound stays above {floor:.1e})"
            middle: dict[str, Any] = {"transform": axes.transAxes, "ha": "center", "fontsize": 8}
            axes.text(0.5, 0.45, words, **middle)
