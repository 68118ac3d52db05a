"""Results of a sweep: one row a run, the selection rule, and what the tuning of every method cost.

The rule: for every problem and method, the configuration with the highest mean return over seeds
among those whose mean cost is at most `limit + eps` (exact runs: highest reward with violation at
most `eps`). A configuration of which a run failed, or is missing, is not eligible. Ties go to the
first of the sweep.
"""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.experiments.records import write_table
from cmdpax.experiments.runs import Run
from cmdpax.experiments.statistics import Interval, mean_interval
from cmdpax.experiments.store import Store
from cmdpax.experiments.versions import difference, versions

Row = dict[str, Any]
SUMMARY = (
    "problem",
    "method",
    "configurations",
    "eligible",
    "runs",
    "failed",
    "samples",
    "CPU hours",
    "selected",
    "score",
    "excess",
)


def rows(runs: Sequence[Run], store: Store) -> list[Row]:
    """One flat row for each finished run: what was varied, its score and its excess over the
    limits, what it cost.
    """
    varied, found = varied_fields(runs), []
    for run in runs:
        result = store.result(run)
        if result is None:
            continue
        outcome, spent = result["outcome"], store.spent(run) or {}
        config = flat(run)
        score, excess = ("return", "excess") if run.kind == "train" else ("reward", "violation")
        found.append(
            {
                "id": run.id,
                "problem": problem(run),
                "method": run.config["method"],
                "seed": run.seed,
                **{name: config.get(name) for name in varied},
                "score": outcome.get(score),
                "excess": outcome.get(excess),
                "samples": outcome.get("samples"),
                "failed": outcome.get("failed"),
                "cpu_seconds": spent.get("cpu_seconds"),
            }
        )
    return found


def problem(run: Run) -> str:
    """The simulator or the model."""
    return run.config["environment" if run.kind == "train" else "model"]


def flat(run: Run) -> Row:
    """Fields of a run's config by name, those of the method itself among them; lists as JSON."""
    config = {**run.config, **run.config.get("settings", {})}
    shown = {
        name: value
        for name, value in config.items()
        if name not in ("settings", "environment", "model", "method")
    }
    return {
        name: json.dumps(value) if isinstance(value, list) else value
        for name, value in shown.items()
    }


def varied_fields(runs: Sequence[Run]) -> list[str]:
    """Fields that differ between runs of one method; what a method sets by itself is not varied."""
    seen: dict[tuple[str, str], set[Any]] = {}
    for run in runs:
        for name, value in flat(run).items():
            seen.setdefault((run.config["method"], name), set()).add(value)
    return list(dict.fromkeys(name for (_, name), values in seen.items() if len(values) > 1))


def select(runs: Sequence[Run], found: Sequence[Row], eps: float) -> list[Row]:
    """For every problem and method: how much was tried, and the configuration that the rule
    selects, if any.
    """
    varied, by_id = varied_fields(runs), {row["id"]: row for row in found}
    groups: dict[tuple[str, str], dict[str, list[Run]]] = {}
    for run in runs:
        configuration = json.dumps(run.config, sort_keys=True)
        groups.setdefault((problem(run), run.config["method"]), {}).setdefault(
            configuration, []
        ).append(run)
    table = []
    for (where, method), configurations in groups.items():
        eligible = []
        for seeds in configurations.values():
            done = [by_id[run.id] for run in seeds if run.id in by_id]
            if len(done) < len(seeds) or any(
                row["score"] is None or row["excess"] is None for row in done
            ):
                continue
            score, excess = (
                mean_interval([row["score"] for row in done]),
                float(np.mean([row["excess"] for row in done])),
            )
            if excess <= eps:
                eligible.append((score, excess, done[0]))
        tried = [
            by_id[run.id] for seeds in configurations.values() for run in seeds if run.id in by_id
        ]
        best = max(eligible, key=lambda one: one[0].value, default=None)  # the first of equals
        table.append(
            {
                "problem": where,
                "method": method,
                "configurations": len(configurations),
                "eligible": len(eligible),
                "runs": len(tried),
                "failed": sum(row["failed"] is not None for row in tried),
                "samples": sum(row["samples"] or 0 for row in tried),
                "CPU hours": sum(row["cpu_seconds"] or 0.0 for row in tried) / 3600,
                "selected": _settings(best[2], varied) if best else "none",
                "score": _shown(best[0]) if best else "-",
                "excess": best[1] if best else "-",
            }
        )
    return table


def write_selection(store: Store, table: Sequence[Row]) -> Path:
    """The selection with the tuning budgets beside the runs, as `selected.csv` and `selected.md`;
    returns the latter.
    """
    with store.writing():
        write_table(
            store.folder / "selected", SUMMARY, [[row[name] for name in SUMMARY] for row in table]
        )
    return store.folder / "selected.md"


def made_by_others(runs: Sequence[Run], store: Store) -> str:
    """One sentence on finished runs that other versions made, one on those they began; empty if
    there are none.
    """
    changes = Counter(
        difference(result["versions"], versions()) for run in runs if (result := store.result(run))
    )
    finished = [
        f"{count} finished runs were made by other versions ({change}); they are kept: to make them"
        " anew, give another store."
        for change, count in changes.items()
        if change
    ]
    begun = len(store.begun_by_others() & {run.id for run in store.pending(runs)})
    restarted = [
        f"{begun} runs were begun by other versions; they start anew, so that one version makes all"
        " of a run."
    ]
    return " ".join([*finished, *(restarted if begun else [])])


def _settings(row: Row, varied: Sequence[str]) -> str:
    return (
        ", ".join(f"{name} {row[name]}" for name in varied if row.get(name) is not None)
        or "the only one"
    )


def _shown(score: Interval) -> str:
    return (
        f"{score.value:.5g}"
        if np.isnan(score.low)
        else f"{score.value:.5g} +- {score.high - score.value:.3g}"
    )
