"""One study of one exact problem, with policies in tables or log-linear in tile features.

Every configuration of every method's grid has 1,000 policy-gradient evaluations and starts at the
uniform policy with zero multipliers. A whole grid is one batched run.

The paper's rule selects a configuration: the smallest |gap| to the optimum over ALL policies, among
those whose final iterate violates no constraint by more than a tolerance. It judges one iterate, so
an oscillator caught at a lucky moment may win; the worst |gap| and the worst violation of the last
200 iterates are recorded beside it. Gaps that differ by rounding only are ties: of them the
smallest worst violation wins, then the first of the grid. A configuration that diverged is never
selected, and is recorded with the step at which it did.

With features, no method can be asked for more than the best policy that the features can express
(`solvers/class_optimum.py`); it is recorded too.

A record is JSON lines: a header, the class optimum, one line for each configuration, one for each
curve of a selected configuration (every fifth iterate: an odd stride, so that an oscillation of
period two stays visible), and the two projection errors along the selected runs of the projected
methods. It is written anew after every method: a study that was stopped goes on where it was.
Random are only the starts of the class optimum, with their seed in the header.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from cmdpax.environments.by_name import open_model
from cmdpax.environments.by_name import tiles as tile_features
from cmdpax.errors import InputError
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.results import provenance, read_lines, write_lines, write_table
from cmdpax.files.reading import Row
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Trajectory
from cmdpax.paper import settings as paper
from cmdpax.solvers.algorithm import AugmentedLagrangian, Progress, augmented_lagrangian
from cmdpax.solvers.class_optimum import class_optimum
from cmdpax.solvers.log_linear import Features, LogLinear
from cmdpax.solvers.policy_gradient import PolicyGradient, npg, pqa, spma
from cmdpax.solvers.solve import solve
from cmdpax.solvers.table import find_method
from cmdpax.solvers.trajectory import certified_gaps, trajectory

TAIL = 200  # iterates over which the worst gap and the worst violation are taken
TIE = 1e-12  # gaps closer than this are equal up to rounding
STRIDE = 5  # between the iterates of a curve
SEED, STARTS = 0, 200  # of the search for the class optimum
JUDGED = ("gap", "violation", "worst_gap", "worst_violation")  # of a configuration
# a record whose header agrees in these is not run again
MADE_BY = ("problem", "tiles", "model", "limits", "stride", "entries", "seed", "starts")
PROJECTED = {"ppqa-alm": pqa, "pnpg-alm": npg, "pspma-alm": spma}
LAST = f"of the last {TAIL}"
MIXTURE = {"mixture_gap": "gap of the mixture", "mixture_violation": "violation of the mixture"}
WORST = {"worst_gap": f"worst gap {LAST}", "worst_violation": f"worst violation {LAST}"}
TABLE_COLUMNS = {"gap": "gap", "violation": "violation", **WORST, **MIXTURE}
FEATURE_COLUMNS = {
    **{"gap": "gap to the optimum", "class_gap": "gap to the class optimum"},
    **{"violation": "violation", "worst_violation": WORST["worst_violation"], **MIXTURE},
}
SENSITIVITY = (
    *("configurations", "within .01 (gap and violation)"),
    *(f"of these, within .01 for the last {TAIL}", "beyond .01", "diverged", "skipped"),
)
CLASSES = (
    *("groups of states", "dimension of the class", "gap of the class optimum"),
    *("violation", "starts that found it"),
)
Point = dict[str, float]
Say = Callable[[str], None]


def silence(text: str) -> None:
    """Say nothing."""


@dataclass(frozen=True)
class Search:
    """All configurations of an entry on one model, B of them, judged."""

    entry: paper.Entry
    points: tuple[Point, ...]  # B, in the order of the grid
    skipped: tuple[Point, ...]  # points of the grid that are not run
    run: Trajectory  # in the batch shape [B]
    optimum: float

    @cached_property
    def judged(self) -> dict[str, np.ndarray]:
        """Errors `[B]` of the final iterate and the worst of the last, by their names in records.

        The gap is `V* - V_r`, negative where a violation was traded for reward.
        """
        gaps, violations = self.optimum - self.run.rewards, violation(self.run.margins)
        worst = np.abs(gaps[-TAIL:]).max(0), violations[-TAIL:].max(0)
        return dict(zip(JUDGED, (gaps[-1], violations[-1], *worst)))

    def settings(self, i: int) -> dict[str, float]:
        """What configuration i sets: its point of the grid, and what the entry fixes."""
        return {**self.points[i], **self.entry.fixed}

    def winner(self, tolerance: float) -> int | None:
        """Index of the selected configuration; None if none is within the tolerance."""
        gaps, violations, _, worst = self.judged.values()
        return select(gaps, violations, worst, tolerance)


def select(
    gaps: np.ndarray, violations: np.ndarray, worst: np.ndarray, tolerance: float
) -> int | None:
    """The paper's rule on arrays `[B]`; `worst` violations break ties, NaN marks what diverged."""
    allowed = np.nonzero(violations <= tolerance)[0]  # NaN compares false
    if not allowed.size:
        return None
    size = np.abs(gaps[allowed])
    tied = allowed[size <= size.min() + TIE]
    return int(tied[np.argmin(worst[tied])])


def configurations(method: str) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Points of a method's grid in order, and those that are skipped."""
    if method not in paper.GRIDS:
        raise InputError(f"method '{method}' has no paper grid; give the settings yourself.")
    grid, fits = paper.GRIDS[method], find_method(method).sensible
    points = [dict(zip(grid, values)) for values in itertools.product(*grid.values())]
    return tuple(p for p in points if fits(p)), tuple(p for p in points if not fits(p))


def search(
    model: CMDP, entry: paper.Entry, optimum: float, features: Features | None = None
) -> Search:
    """Run the whole grid of an entry as one batch; `features` for log-linear policies."""
    points, skipped = configurations(entry.method)
    batch = {name: np.array([point[name] for point in points]) for name in points[0]}
    fixed = {**paper.BUDGETS[entry.method], **entry.fixed}
    run = trajectory(model, entry.method, features=features, **{**batch, **fixed})
    return Search(entry, points, skipped, run, optimum)


@dataclass(frozen=True)
class ExactStudy:
    """A problem, its `tiles` (dimension, tilings, size; None: tables), and its record once read."""

    problem: str
    tiles: tuple[int, int, int] | None = None
    header: Row = field(default_factory=dict, compare=False, repr=False)
    rows: Sequence[Row] = field(default=(), compare=False, repr=False)

    @property
    def entries(self) -> Sequence[paper.Entry]:
        """The methods that are compared."""
        return paper.TABLE_ENTRIES if self.tiles is None else paper.FEATURE_ENTRIES

    @property
    def dimension(self) -> int | None:
        """d of the features; None for tables."""
        return None if self.tiles is None else self.tiles[0]

    @property
    def name(self) -> str:
        """As in names of files: `deep-sea`, `deep-sea-60`."""
        return self.problem if self.tiles is None else f"{self.problem}-{self.dimension}"

    @property
    def title(self) -> str:
        """As in titles: the problem, and the features' dimension."""
        words = _problem_title(self.problem)
        return words if self.tiles is None else f"{words}, d = {self.dimension}"

    @property
    def labels(self) -> list[str]:
        """The methods of the record, in order."""
        return [entry["label"] for entry in self.header["entries"]]

    @property
    def class_optimum(self) -> Row:
        """The best policy that the features can express."""
        return next(row for row in self.rows if row["kind"] == "class optimum")

    def of(self, label: str, kind: str = "configuration") -> list[Row]:
        """All configurations, or all rows of another kind, of one method."""
        return [row for row in self.rows if row["kind"] == kind and row["label"] == label]

    def selected(self, tolerance: float, labels: Sequence[str] | None = None) -> dict[str, Row]:
        """Curves of what is selected at a tolerance, by label; methods without one are left out."""
        curves = (row for row in self.rows if row["kind"] == "curve")
        chosen = {row["label"]: row for row in curves if tolerance in row["limits"]}
        return {name: chosen[name] for name in labels or self.labels if name in chosen}

    def row(self, curve: Row) -> Row:
        """The configuration that a curve belongs to."""
        own = self.of(curve["label"])
        return next(row for row in own if row["settings"] == curve["settings"])

    def read(self, folder: Path) -> "ExactStudy":
        """The same with what its record in `folder` holds."""
        header, rows = read_lines(self._path(folder))
        return replace(self, header=header, rows=rows)

    def complete(self, folder: Path, rerun: bool = False, say: Say = silence) -> "ExactStudy":
        """The same with its whole record in `folder`; what that lacks is run and recorded.

        A record that was made with other settings, or any with `rerun`, is made anew. `say` gets
        one line for each thing that is run.
        """
        model, features = open_model(paper.problem_source(self.problem)), None
        if self.tiles is not None:
            features = Features(tile_features(model.states, model.actions, *self.tiles))
        before, header, rows = self.read(folder), self._header(model), list[Row]()
        if not rerun and all(before.header.get(key) == header[key] for key in MADE_BY):
            rows += before.rows
        done = {row["label"] for row in rows if row["kind"] == "configuration"}
        if features is not None and not rows:
            say(f"{self.title}: the best policy that the features can express")
            rows.append(_class_optimum_row(model, features, header["optimum"]))
            write_lines(self._path(folder), header, rows)
        for number, entry in enumerate(self.entries, 1):
            if entry.label not in done:
                say(f"{self.title}: {entry.label} ({number} of {len(self.entries)})")
                result = search(model, entry, header["optimum"], features)
                rows += [*_configuration_rows(result), *_curve_rows(model, features, result)]
                rows += [] if features is None else _projection_rows(model, features, result)
                write_lines(self._path(folder), header, rows)
        return self.read(folder)

    def _path(self, folder: Path) -> Path:
        return folder / "records" / f"{self.name}.jsonl"

    def _header(self, model: CMDP) -> Row:
        tiles, seed, starts = None, None, None
        if self.tiles is not None:
            tiles, seed, starts = list(self.tiles), SEED, STARTS
        entries = []
        for entry in self.entries:
            grid = {name: list(values) for name, values in paper.GRIDS[entry.method].items()}
            row = {"label": entry.label, "method": entry.method, "fixed": dict(entry.fixed)}
            entries.append({**row, "grid": grid})
        facts: Row = {"problem": self.problem, "tiles": tiles, "model": model.digest}
        facts |= {"optimum": solve(model, eps=1e-12).reward, "seed": seed, "starts": starts}
        facts |= {"limits": list(paper.TOLERANCES), "stride": STRIDE, "entries": entries}
        return provenance(**facts)


def _class_optimum_row(model: CMDP, features: Features, optimum: float) -> Row:
    best = class_optimum(StandardForm.of(model), features, STARTS, SEED)
    size = {"rank": features.rank, "groups": len(features.group_features)}
    errors = {"gap": optimum - best.reward, "violation": violation(best.margins)}
    return {"kind": "class optimum", **size, **errors, "hits": best.hits}


def _configuration_rows(result: Search) -> Iterator[Row]:
    """One row for each point of a method's grid."""
    run, budget, entry = result.run, len(result.run.rewards) - 1, result.entry
    base = {"kind": "configuration", "label": entry.label, "method": entry.method}
    for point in result.skipped:
        yield {**base, "settings": {**point, **entry.fixed}, "skipped": True}
    for i in range(len(result.points)):
        row = {**base, "settings": result.settings(i), "skipped": False, "evaluations": budget}
        row |= {name: values[i] for name, values in result.judged.items()}
        row["diverged"] = run.diverged[i]
        # the theory of the others is about the mixture of all iterates; values are linear in the
        # occupancy, so those of the mixture are the averages
        if find_method(entry.method).family != "augmented Lagrangian":
            row["mixture_gap"] = result.optimum - run.rewards[:budget, i].mean()
            row["mixture_violation"] = violation(run.margins[:budget, i].mean(0))
        yield row


def _curve_rows(model: CMDP, features: Features | None, result: Search) -> Iterator[Row]:
    """One row for each configuration that is selected at some tolerance."""
    winners = {tolerance: result.winner(tolerance) for tolerance in paper.TOLERANCES}
    for i in sorted({i for i in winners.values() if i is not None}):
        run = result.run.one(i)
        row = {
            "kind": "curve",
            "label": result.entry.label,
            "settings": result.settings(i),
            "limits": [tolerance for tolerance, winner in winners.items() if winner == i],
            "evaluations": np.arange(len(run.rewards))[::STRIDE],
            "gap": (result.optimum - run.rewards)[::STRIDE],
            "violation": -run.margins.min(-1)[::STRIDE],
        }
        if features is None:
            row["certified"] = certified_gaps(model, run, STRIDE)
        yield row


def _projection_rows(model: CMDP, features: Features, result: Search) -> Iterator[Row]:
    """eps_bias and eps_opt of every 25th projection of what the stricter tolerance selects."""
    winner = result.winner(min(paper.TOLERANCES))
    if result.entry.method not in PROJECTED or winner is None:
        return
    point, form = result.points[winner], StandardForm.of(model)
    policies = LogLinear(features, point["projection_step"])
    oracle = PolicyGradient(PROJECTED[result.entry.method], point["step"], policies)
    before, errors = oracle.start(form), []

    def observe(progress: Progress) -> bool:
        nonlocal before
        if not progress.outer_done:
            if progress.evaluations % (5 * STRIDE) == 0:
                utility = AugmentedLagrangian(progress.multipliers, progress.penalty)
                visits = form.criterion.share(form, oracle.policy(form, before))
                target = oracle.target(form, before, utility)
                pair = policies.projection_errors(progress.state.parameters, visits, target)
                errors.append((progress.evaluations, *pair))
            before = progress.state
        return False

    budget: Row = {"penalty": paper.PENALTY, "outer": paper.OUTER, "inner": paper.INNER}
    zeros = np.zeros(form.constraint_count)
    augmented_lagrangian(form, oracle, before, multipliers=zeros, observe=observe, **budget)
    columns = dict(zip(("evaluations", "bias", "optimiser"), zip(*errors)))
    row = {"kind": "projection errors", "label": result.entry.label, "settings": point}
    yield {**row, **columns}


def write_tables(studies: Sequence[ExactStudy], folder: Path) -> None:
    """`selected`: what every method's grid gives.

    Of tables also `sensitivity`: how much of a grid is any good; of features `classes`: what they
    can express at all.
    """
    is_table = studies[0].tiles is None
    place = ["problem"] if is_table else ["problem", "d"]
    columns = (TABLE_COLUMNS if is_table else FEATURE_COLUMNS).values()
    rows = [row for study in studies for row in _selected_rows(study)]
    write_table(folder / "selected", [*place, "limit", "method", "settings", *columns], rows)
    if is_table:
        rows = [row for study in studies for row in _sensitivity_rows(study)]
        write_table(folder / "sensitivity", [*place, "method", *SENSITIVITY], rows)
    else:
        write_table(folder / "classes", [*place, *CLASSES], map(_class_row, studies))


def _problem_title(problem: str) -> str:
    return {**paper.PROBLEMS, **paper.RANDOM_PROBLEMS}[problem]


def _place(study: ExactStudy) -> list[object]:
    """The first cells of a table's row: the problem, and the features' dimension."""
    return [_problem_title(study.problem), *([] if study.tiles is None else [study.dimension])]


def _selected_rows(study: ExactStudy) -> Iterator[list[object]]:
    columns, missing = (TABLE_COLUMNS, "-") if study.tiles is None else (FEATURE_COLUMNS, None)
    for tolerance in paper.TOLERANCES:
        curves = study.selected(tolerance)
        for label in study.labels:
            row, shown = {}, "none within the limit"
            if label in curves:
                row = study.row(curves[label])
                shown = ", ".join(f"{name} {value:g}" for name, value in row["settings"].items())
                if study.tiles is not None:
                    row = {**row, "class_gap": row["gap"] - study.class_optimum["gap"]}
            numbers = (row.get(column, missing) for column in columns)
            yield [*_place(study), tolerance, label, shown, *numbers]


def _sensitivity_rows(study: ExactStudy) -> Iterator[list[object]]:
    for label in study.labels:
        rows = study.of(label)
        count = Counter(map(_verdict, rows))
        good = count["steady"] + count["good"]
        rest = (count[verdict] for verdict in ("steady", "bad", "diverged", "skipped"))
        yield [*_place(study), label, len(rows) - count["skipped"], good, *rest]


def _verdict(row: Row) -> str:
    if row["skipped"]:
        return "skipped"
    if row["diverged"]:
        return "diverged"
    tolerance = max(paper.TOLERANCES)
    if max(abs(row["gap"]), row["violation"]) > tolerance:
        return "bad"
    return "steady" if max(row["worst_gap"], row["worst_violation"]) <= tolerance else "good"


def _class_row(study: ExactStudy) -> list[object]:
    best = study.class_optimum
    numbers = (best[column] for column in ("groups", "rank", "gap", "violation"))
    return [*_place(study), *numbers, f"{best['hits']} of {study.header['starts']}"]
