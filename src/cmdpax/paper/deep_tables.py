"""The paper's deep tables with ours beside them: `results`, `violations`; and our own: `training`,
`comparison`, `cells`.

`cells` is the short form of the others, one row a cell, means over its seeds: what the
documentation shows. A star marks runs of other settings than today's (`training` says in what they
differ).
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.experiments.results import write_table
from cmdpax.experiments.statistics import (
    bootstrap_interval,
    improvement_interval,
    mean_interval,
    tails_over_episodes,
    tails_over_seeds,
)
from cmdpax.learning.config import TrainConfig
from cmdpax.paper.deep_study import DeepStudy, Record
from cmdpax.paper.settings import LIMIT, RESERVE, RESULT_TAILS, RESULTS, TASKS, TITLES, Four

KINDS = ("stochastic", "deterministic")  # of an evaluation
MARKS = ("95_percent_of_paper", "paper", "95_percent_of_best")
TAIL = ("mean", "worst", "P90", "P95")
RESULT_COLUMNS = (
    "task",
    "method",
    "seeds",
    "samples",
    "return",
    "cost - 25",
    "deterministic return",
    "deterministic cost - 25",
)
TRAINING_COLUMNS = (
    "task",
    "method",
    "seed",
    "samples to 95% of the paper's return, feasible",
    "samples to all of it, feasible",
    "samples to 95% of the paper's best return of any method, feasible",
    "last fifth: return",
    "cost",
    "deviation of cost, updates",
    "deviation of cost, windows of 20,000",
    "share of updates above the limit",
    "CPU hours",
    "differs from today's settings",
)
CELL_COLUMNS = (
    "task, method",
    "seeds",
    "return at cost (paper's)",
    "100 episodes",
    "deterministic",
    "95% of the paper's return, feasible, after",
    "all of it",
    "95% of the paper's best of any method",
    "deviation of an update's cost, share above 25 (last fifth)",
    "CPU hours a run",
)
COMPARISON_COLUMNS = (
    "method",
    "tasks",
    "interquartile mean of return / paper's best",
    "95% interval",
    "P(return above PPO-Lag's)",
    "95% interval of it",
)


def write_tables(study: DeepStudy, folder: Path) -> None:
    """Write them all; cells without records say so."""
    results, violated, training, cells = [], [], [], []
    for task in TASKS:
        for method, title in TITLES.items():
            cell, paper = study.of(task, method), RESULTS[method][task]
            tail = RESULT_TAILS[method][task]
            printed = [f"{paper[0]:.0f} +- {paper[1]:.0f}", f"{paper[2]:.1f} +- {paper[3]:.1f}"]
            if not cell:
                results.append([task, title, 0, "-", *["no records"] * 2, *["-"] * 2, *printed])
                violated.append([task, title, 0, *["-"] * 8, *tail])
                continue
            samples = "/".join(sorted({f"{one.samples:.3g}" for one in cell}))
            numbers = [_plus_minus(values) for kind in KINDS for values in _means(cell, kind).T]
            results.append([task, title, len(cell), samples, *numbers, *printed])
            excess = [one.episodes()[1].tolist() for one in cell]
            ours = (*tails_over_seeds(excess), *tails_over_episodes(excess))
            violated.append([task, title, len(cell), *(f"{x:.1f}" for x in ours), *tail])
            training += [_training_row(task, title, one) for one in cell]
            if all(one.summary for one in cell):
                star = "" if all(_differences(one) == "nothing" for one in cell) else " *"
                cells.append([f"{task}, {title}{star}", *_cell_row(cell, paper)])
    columns = [f"{whose}: {one}" for whose in ("seed means", "episodes", "paper") for one in TAIL]
    write_table(folder / "results", [*RESULT_COLUMNS, "paper: return", "paper: cost - 25"], results)
    write_table(folder / "violations", ["task", "method", "seeds", *columns], violated)
    write_table(folder / "training", TRAINING_COLUMNS, training)
    write_table(folder / "comparison", COMPARISON_COLUMNS, _comparison_rows(study))
    write_table(folder / "cells", CELL_COLUMNS, cells)


def _means(cell: Sequence[Record], kind: str) -> np.ndarray:
    """Mean return and mean excess of every seed of a cell, `[seeds, 2]`."""
    return np.array([[values.mean() for values in one.episodes(kind)] for one in cell])


def _plus_minus(values: np.ndarray) -> str:
    mean = mean_interval(values)
    width = "" if np.isnan(mean.low) else f" +- {mean.high - mean.value:.1f}"
    return f"{mean.value:.1f}{width}"


def _cell_row(cell: Sequence[Record], paper: Four) -> list[Any]:
    """Means over the seeds of a cell; where samples are counted, the first and the last seed's."""
    acting, greedy = (_means(cell, kind).mean(0) for kind in KINDS)
    late = [one.summary["last_fifth"] for one in cell]
    deviation = np.mean([one["cost_deviation_of_updates"] for one in late])
    above = np.mean([one["updates_above_limit"] for one in late])
    spent = [one.summary.get("cpu_seconds") for one in cell]
    hours = [seconds / 3600 for seconds in spent if seconds is not None]
    return [
        len(cell),
        f"{_at(*acting)} ({_at(paper[0], paper[2])})",
        _longer(cell),
        _at(*greedy),
        *(
            _from_to([one.summary.get(f"samples_to_{mark}_while_feasible") for one in cell])
            for mark in MARKS
        ),
        f"{deviation:.1f}, {above:.0%}",
        f"{np.mean(hours):.2f}" if hours else "-",
    ]


def _longer(cell: Sequence[Record]) -> str:
    """What the longer evaluations of a cell say, if every seed has one."""
    if any(one.longer is None for one in cell):
        return "-"
    seen = [[values.mean() for values in one.episodes(evaluation=one.longer)] for one in cell]
    return _at(*np.mean(seen, axis=0))


def _at(gained: float, excess: float) -> str:
    return f"{gained:,.0f} at {LIMIT + excess:.1f}"


def _from_to(samples: Sequence[int | None]) -> str:
    ordered = sorted(np.inf if one is None else one for one in samples)
    ends = [
        f"{one / 1e6:.2f}e6" if np.isfinite(one) else "never" for one in (ordered[0], ordered[-1])
    ]
    return " to ".join(dict.fromkeys(ends))


def _training_row(task: str, title: str, record: Record) -> list[Any]:
    seen = record.summary
    if not seen:
        return [task, title, record.seed, *["-"] * 10]
    late, seconds = seen["last_fifth"], seen.get("cpu_seconds")
    swings = ("cost_deviation_of_updates", "cost_deviation_of_windows", "updates_above_limit")
    return [
        task,
        title,
        record.seed,
        *(seen.get(f"samples_to_{mark}_while_feasible", "-") or "never" for mark in MARKS),
        *(late[name] for name in ("return", "cost", *swings)),
        "-" if seconds is None else float(seconds / 3600),
        _differences(record),
    ]


def _differences(record: Record) -> str:
    """Settings of a record that today's code would choose otherwise."""
    stored: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.config.items()
    }
    own = {name: stored[name] for name in ("method", "samples", "seed")}
    today = asdict(TrainConfig(reserve=RESERVE, **own).resolved())
    changed = [
        name for name in today if name != "checkpoint_every" and stored.get(name) != today[name]
    ]
    return ", ".join(f"{name} {stored.get(name, 'unknown')}" for name in changed) or "nothing"


def _comparison_rows(study: DeepStudy) -> list[list[Any]]:
    """Across the tasks in which every method has records, with the seeds that all cells have.

    Unnormalised returns cannot be averaged, hence the ratio.
    """
    tasks = [task for task in TASKS if all(study.of(task, method) for method in TITLES)]
    cells = {
        method: [
            {one.seed: one.episodes()[0].mean() for one in study.of(task, method)} for task in tasks
        ]
        for method in TITLES
    }
    every = [set(cell) for row in cells.values() for cell in row]
    seeds = sorted(set.intersection(*every)) if every else []
    if not seeds:
        return [[title, "none complete", "-", "-", "-", "-"] for title in TITLES.values()]
    scores = {  # [seeds, tasks]
        method: np.array([[cell[seed] for cell in row] for seed in seeds])
        for method, row in cells.items()
    }
    best = np.array([max(RESULTS[method][task][0] for method in TITLES) for task in tasks])
    rows = []
    for method, title in TITLES.items():
        ratio = bootstrap_interval(scores[method] / best)
        beats = improvement_interval(scores[method], scores["ppo-lag"])
        ranges = [
            f"[{one.low:.3f}, {one.high:.3f}]" if len(seeds) > 1 else "one seed"
            for one in (ratio, beats)
        ]
        numbers = [f"{ratio.value:.3f}", ranges[0], f"{beats.value:.2f}", ranges[1]]
        rows.append([title, ", ".join(tasks), *numbers])
    return rows
