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
from cmdpax.paper.deep import Study
from cmdpax.paper.deep_records import LIMIT, PAPER, PAPER_TAILS, TASKS, TITLES, Record
from cmdpax.paper.settings import RESERVE

MARKS = ("95_percent_of_paper", "paper", "95_percent_of_best")
TAIL = ("mean", "worst", "P90", "P95")
RESULTS = (
    "task",
    "method",
    "seeds",
    "samples",
    "return",
    "cost - 25",
    "deterministic return",
    "deterministic cost - 25",
)
TRAINING = (
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
CELLS = (
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
COMPARISON = (
    "method",
    "tasks",
    "interquartile mean of return / paper's best",
    "95% interval",
    "P(return above PPO-Lag's)",
    "95% interval of it",
)


def tables(found: Study, folder: Path) -> None:
    """Write them all; cells without records say so."""
    results, violated, training, cells = [], [], [], []
    for task in TASKS:
        for method, title in TITLES.items():
            cell, paper = found.of(task, method), PAPER[method][task]
            printed = [f"{paper[0]:.0f} +- {paper[1]:.0f}", f"{paper[2]:.1f} +- {paper[3]:.1f}"]
            if not cell:
                results.append([task, title, 0, "-", *["no records"] * 2, *["-"] * 2, *printed])
                violated.append([task, title, 0, *["-"] * 8, *PAPER_TAILS[method][task]])
                continue
            acting, greedy = (
                np.array([[x.mean() for x in one.episodes(kind)] for one in cell]).T
                for kind in (False, True)
            )
            samples = "/".join(sorted({f"{one.samples:.3g}" for one in cell}))
            results.append(
                [task, title, len(cell), samples, *map(_pm, acting), *map(_pm, greedy), *printed]
            )
            excess = [one.episodes()[1].tolist() for one in cell]
            seen = [
                f"{x:.1f}"
                for tail in (tails_over_seeds(excess), tails_over_episodes(excess))
                for x in tail
            ]
            violated.append([task, title, len(cell), *seen, *PAPER_TAILS[method][task]])
            training += [_training_row(task, title, one) for one in cell]
            if all(one.summary for one in cell):
                star = "" if all(_differences(one) == "nothing" for one in cell) else " *"
                cells.append([f"{task}, {title}{star}", *_cell_row(cell, paper)])
    ours = (*(f"seed means: {one}" for one in TAIL), *(f"episodes: {one}" for one in TAIL))
    write_table(folder / "results", [*RESULTS, "paper: return", "paper: cost - 25"], results)
    write_table(
        folder / "violations",
        ["task", "method", "seeds", *ours, *(f"paper: {one}" for one in TAIL)],
        violated,
    )
    write_table(folder / "training", TRAINING, training)
    write_table(folder / "comparison", COMPARISON, _comparison(found))
    write_table(folder / "cells", CELLS, cells)


def _pm(values: np.ndarray) -> str:
    mean = mean_interval(values)
    return (
        f"{mean.value:.1f}"
        if np.isnan(mean.low)
        else f"{mean.value:.1f} +- {mean.high - mean.value:.1f}"
    )


def _cell_row(cell: Sequence[Record], paper: tuple[float, float, float, float]) -> list[Any]:
    """Means over the seeds of a cell, and from the first to the last seed to come there where
    samples are counted.
    """
    acting, greedy = (
        np.mean([[x.mean() for x in one.episodes(kind)] for one in cell], axis=0)
        for kind in (False, True)
    )
    late = [one.summary["last_fifth"] for one in cell]
    deviation = np.mean([one["cost_deviation_of_updates"] for one in late])
    above = np.mean([one["updates_above_limit"] for one in late])
    hours = [
        one.summary["cpu_seconds"] / 3600
        for one in cell
        if one.summary.get("cpu_seconds") is not None
    ]
    return [
        len(cell),
        f"{_at(*acting)} ({_at(paper[0], paper[2])})",
        _hundred(cell),
        _at(*greedy),
        *(
            _from_to([one.summary.get(f"samples_to_{mark}_while_feasible") for one in cell])
            for mark in MARKS
        ),
        f"{deviation:.1f}, {above:.0%}",
        f"{np.mean(hours):.2f}" if hours else "-",
    ]


def _hundred(cell: Sequence[Record]) -> str:
    """What the longer evaluations of a cell say, if every seed has one."""
    seen = [one.longer["stochastic"] for one in cell if one.longer is not None]
    if len(seen) < len(cell):
        return "-"
    gained, spent = (
        [np.mean(one) for one in column]
        for column in zip(*((s["returns"], s["totals"]["cost"]) for s in seen))
    )
    return _at(float(np.mean(gained)), float(np.mean(spent)) - LIMIT)


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
    late, hours = seen["last_fifth"], seen.get("cpu_seconds")
    names = (
        "return",
        "cost",
        "cost_deviation_of_updates",
        "cost_deviation_of_windows",
        "updates_above_limit",
    )
    reached = [seen.get(f"samples_to_{one}_while_feasible", "-") or "never" for one in MARKS]
    spent = "-" if hours is None else float(hours / 3600)
    return [
        task,
        title,
        record.seed,
        *reached,
        *(late[name] for name in names),
        spent,
        _differences(record),
    ]


def _differences(record: Record) -> str:
    """Settings of a record that today's code would choose otherwise."""
    stored: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in record.config.items()
    }
    given = {name: stored[name] for name in ("method", "samples", "seed")}
    today = asdict(TrainConfig(stored["environment"], reserve=RESERVE, **given).resolved())
    changed = [
        name for name in today if name != "checkpoint_every" and stored.get(name) != today[name]
    ]
    return ", ".join(f"{name} {stored.get(name, 'unknown')}" for name in changed) or "nothing"


def _comparison(found: Study) -> list[list[Any]]:
    """Across the tasks in which every method has records, with the seeds that all of these cells
    have.

    Unnormalised returns cannot be averaged, hence the ratio.
    """
    tasks = [task for task in TASKS if all(found.of(task, method) for method in TITLES)]
    cells = {
        m: [{one.seed: one.episodes()[0].mean() for one in found.of(task, m)} for task in tasks]
        for m in TITLES
    }
    seeds = (
        sorted(set.intersection(*(set(cell) for row in cells.values() for cell in row)))
        if tasks
        else []
    )
    if not seeds:
        return [[title, "none complete", "-", "-", "-", "-"] for title in TITLES.values()]
    scores = {
        m: np.array([[cell[seed] for cell in row] for seed in seeds]) for m, row in cells.items()
    }  # [seeds, tasks]
    best = np.array([max(PAPER[m][task][0] for m in TITLES) for task in tasks])
    rows = []
    for method, title in TITLES.items():
        ratio = bootstrap_interval(scores[method] / best)
        beats = improvement_interval(scores[method], scores["ppo-lag"])
        shown = [
            f"[{one.low:.3f}, {one.high:.3f}]" if len(seeds) > 1 else "one seed"
            for one in (ratio, beats)
        ]
        rows.append(
            [
                title,
                ", ".join(tasks),
                f"{ratio.value:.3f}",
                shown[0],
                f"{beats.value:.2f}",
                shown[1],
            ]
        )
    return rows
