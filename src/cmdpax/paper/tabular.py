"""The tabular study behind the paper's tabular figures: every method's grid on Cliff World and Deep
Sea, once, as a record.

Every configuration has 1,000 policy-gradient evaluations, starts uniform with zero multipliers, and
is judged by the same rule (`experiments/grid.py`). A record is JSON lines: a header, one line per
configuration, one per curve of a selected configuration (every fifth iterate: an odd stride, so
that oscillation of period two stays visible). Nothing is random, hence no seed.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments import finite
from cmdpax.experiments.results import Row, provenance, read_lines, write_lines, write_table
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.paper.grid import Entry, Search, configurations, search
from cmdpax.solvers.certified import solve
from cmdpax.solvers.table import find
from cmdpax.solvers.trajectory import certified_gaps

PROBLEMS = {"cliff-world": "Cliff World", "deep-sea": "Deep Sea Treasure"}
LIMITS = (0.001, 0.01)  # the paper's two eps for the violation of the final policy
STRIDE = 5
JUDGED = (
    "gap",
    "violation",
    "worst_gap",
    "worst_violation",
)  # the final iterate, and the worst of the last 200
# a record that agrees in these is not run again
MADE_BY = ("cmdpax", "problem", "model", "limits", "stride", "judged", "entries")
ENTRIES = (
    Entry("pqa-alm"),
    Entry("ppg-alm"),
    Entry("npg-alm"),
    Entry("spma-alm"),
    Entry("npg-pd"),
    Entry("rpg-pd"),
    Entry("opg-pd"),
    Entry("npg-dd"),
    Entry("reload"),
    Entry("npg-nrl"),
    Entry("ppo-lag"),
    Entry("ppo-lag", "PPO-Lag, dual every step", {"inner": 1}),
)

Say = Callable[[str], None]


class Study:
    """The record of one problem, read back: what was found, and the curves of what was selected."""

    def __init__(self, header: Row, rows: Sequence[Row]) -> None:
        self.header = header
        self.configurations = [row for row in rows if row["kind"] == "configuration"]
        self.curves = [row for row in rows if row["kind"] == "curve"]

    @property
    def title(self) -> str:
        """The problem's name in titles."""
        return PROBLEMS[self.header["problem"]]

    @property
    def labels(self) -> list[str]:
        """The methods of the record, in order."""
        return [entry["label"] for entry in self.header["entries"]]

    def of(self, label: str) -> list[Row]:
        """All configurations of one method."""
        return [row for row in self.configurations if row["label"] == label]

    def selected(self, limit: float, labels: Sequence[str] | None = None) -> dict[str, Row]:
        """Curves of the configurations selected at `limit`, by label; methods without one are left
        out.
        """
        chosen = {row["label"]: row for row in self.curves if limit in row["limits"]}
        return (
            chosen
            if labels is None
            else {label: chosen[label] for label in labels if label in chosen}
        )


def study(problem: str, folder: Path, rerun: bool = False, say: Say = lambda text: None) -> Study:
    """The study of one problem: from its record in `folder` if that fits, otherwise run and
    recorded.
    """
    path, model = folder / "records" / f"{problem}.jsonl", finite[problem]()
    header = _header(problem, model)
    known, rows = read_lines(path)
    if rerun or any(known.get(key) != header[key] for key in MADE_BY):
        write_lines(path, header, _run(problem, model, header["optimum"], say))
        known, rows = read_lines(path)
    return Study(known, rows)


def _header(problem: str, model: CMDP) -> Row:
    entries = [
        {
            "label": e.label,
            "method": e.method,
            "fixed": dict(e.fixed),
            "grid": {k: list(v) for k, v in find(e.method).grid.items()},
        }
        for e in ENTRIES
    ]
    return provenance(
        problem=problem,
        model=model.digest,
        optimum=solve(model, eps=1e-12).reward,
        seed=None,
        limits=list(LIMITS),
        stride=STRIDE,
        judged=list(JUDGED),
        entries=entries,
    )


def _run(problem: str, model: CMDP, optimum: float, say: Say) -> list[Row]:
    rows: list[Row] = []
    for number, entry in enumerate(ENTRIES, 1):
        say(f"{PROBLEMS[problem]}: {entry.label} ({number} of {len(ENTRIES)})")
        found = search(model, entry, optimum)
        rows += configuration_rows(found)
        rows += _curves(model, found)
    return rows


def configuration_rows(found: Search) -> list[Row]:
    """One row for each point of a method's grid."""
    run, budget = found.run, len(found.run.rewards) - 1
    base = {"kind": "configuration", "label": found.entry.label, "method": found.entry.method}
    rows = [
        {**base, "settings": {**point, **found.entry.fixed}, "skipped": True}
        for point in found.skipped
    ]
    mixes = find(found.entry.method).family != "augmented Lagrangian"
    for i, point in enumerate(found.points):
        row: dict[str, Any] = {
            **base,
            "settings": {**point, **found.entry.fixed},
            "skipped": False,
            "evaluations": budget,
            "gap": found.gaps[i],
            "violation": found.violations[i],
            "worst_gap": found.worst_gaps[i],
            "worst_violation": found.worst_violations[i],
            "diverged": run.diverged[i],
        }
        if mixes:  # values are linear in the occupancy: those of the mixture are the averages
            row["mixture_gap"] = found.optimum - run.rewards[:budget, i].mean()
            row["mixture_violation"] = violation(run.margins[:budget, i].mean(0))
        rows.append(row)
    return rows


def _curves(model: CMDP, found: Search) -> list[Row]:
    """One row for each configuration that is selected at some limit."""
    winners = {limit: found.winner(limit) for limit in LIMITS}
    rows = []
    for i in sorted({i for i in winners.values() if i is not None}):
        settings, run = {**found.points[i], **found.entry.fixed}, found.run.one(i)
        rows.append(
            {
                "kind": "curve",
                "label": found.entry.label,
                "settings": settings,
                "limits": [limit for limit, winner in winners.items() if winner == i],
                "evaluations": np.arange(len(run.rewards))[::STRIDE],
                "gap": (found.optimum - run.rewards)[::STRIDE],
                "violation": -run.margins.min(-1)[::STRIDE],
                "certified": certified_gaps(model, run, STRIDE),
            }
        )
    return rows


def tables(studies: Sequence[Study], folder: Path) -> None:
    """`selected`: what every method's grid gives at both limits. `sensitivity`: how much of the
    grid is any good.
    """
    selected, sensitivity = [], []
    columns = (*JUDGED, "mixture_gap", "mixture_violation")
    for one in studies:
        for limit in LIMITS:
            curves = one.selected(limit)
            for label in one.labels:
                if label not in curves:
                    selected.append(
                        [one.title, limit, label, "none within the limit", *["-"] * len(columns)]
                    )
                    continue
                row = next(
                    row for row in one.of(label) if row["settings"] == curves[label]["settings"]
                )
                shown = ", ".join(f"{key} {number:g}" for key, number in row["settings"].items())
                selected.append(
                    [one.title, limit, label, shown, *(row.get(column, "-") for column in columns)]
                )
        for label in one.labels:
            rows = one.of(label)
            count = Counter(_verdict(row) for row in rows)
            tried = len(rows) - count["skipped"]
            good = count["steady"] + count["good"]
            sensitivity.append(
                [
                    one.title,
                    label,
                    tried,
                    good,
                    count["steady"],
                    count["bad"],
                    count["diverged"],
                    count["skipped"],
                ]
            )
    write_table(
        folder / "selected",
        [
            "problem",
            "limit",
            "method",
            "settings",
            "gap",
            "violation",
            "worst gap of the last 200",
            "worst violation of the last 200",
            "gap of the mixture",
            "violation of the mixture",
        ],
        selected,
    )
    write_table(
        folder / "sensitivity",
        [
            "problem",
            "method",
            "configurations",
            "within .01 (gap and violation)",
            "of these, within .01 for the last 200",
            "beyond .01",
            "diverged",
            "skipped",
        ],
        sensitivity,
    )


def _verdict(row: Row) -> str:
    if row["skipped"]:
        return "skipped"
    if row["diverged"]:
        return "diverged"
    if max(abs(row["gap"]), row["violation"]) > max(LIMITS):
        return "bad"
    return "steady" if max(row["worst_gap"], row["worst_violation"]) <= max(LIMITS) else "good"


def expected_configurations() -> int:
    """How many configurations a complete record of one problem holds, skipped ones included."""
    return sum(len(part) for entry in ENTRIES for part in configurations(entry.method))
