"""The paper's deep tables with ours beside them: `results`, `violations`; and three of our own.

`training` has one row a run, `comparison` one a method. `cells` is the short form of the others,
one row a cell, means over its seeds: what the documentation shows. A star marks runs of other
settings than today's (`training` says in what they differ).
"""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.experiments import statistics
from cmdpax.experiments.results import write_table
from cmdpax.files import Row
from cmdpax.learning.config import TrainConfig
from cmdpax.paper.deep_study import DeepStudy, Record
from cmdpax.paper.settings import LIMIT, RESERVE, RESULTS, TASKS, TITLES, Printed

KINDS = ("stochastic", "deterministic")  # of an evaluation
MARKS = ("95_percent_of_paper", "paper", "95_percent_of_best")
TAIL = ("mean", "worst", "P90", "P95")
RESULT_COLUMNS = (
    *("task", "method", "seeds", "samples", "return", "cost - 25", "deterministic return"),
    *("deterministic cost - 25", "paper: return", "paper: cost - 25"),
)
TRAINING_COLUMNS = (
    *("task", "method", "seed", "samples to 95% of the paper's return, feasible"),
    "samples to all of it, feasible",
    "samples to 95% of the paper's best return of any method, feasible",
    *("last fifth: return", "cost", "deviation of cost, updates"),
    *("deviation of cost, windows of 20,000", "share of updates above the limit"),
    *("CPU hours", "differs from today's settings"),
)
CELL_COLUMNS = (
    *("task, method", "seeds", "return at cost (paper's)", "100 episodes", "deterministic"),
    *("95% of the paper's return, feasible, after", "all of it"),
    "95% of the paper's best of any method",
    *("deviation of an update's cost, share above 25 (last fifth)", "CPU hours a run"),
)
COMPARISON_COLUMNS = (
    *("method", "tasks", "interquartile mean of return / paper's best", "95% interval"),
    *("P(return above PPO-Lag's)", "95% interval of it"),
)


def write_tables(study: DeepStudy, folder: Path) -> None:
    """Write them all; cells without records say so."""
    results, violated, training, cells = [], [], [], []
    for task in TASKS:
        for method, title in TITLES.items():
            cell, paper = study.of(task, method), RESULTS[method][task]
            tail = (paper.excess, paper.worst, paper.p90, paper.p95)
            printed = [f"{paper.reward:.0f} +- {paper.reward_interval:.0f}"]
            printed += [f"{paper.excess:.1f} +- {paper.excess_interval:.1f}"]
            if not cell:
                results.append([task, title, 0, "-", *["no records"] * 2, *["-"] * 2, *printed])
                violated.append([task, title, 0, *["-"] * 8, *tail])
                continue
            samples = "/".join(sorted({f"{one.samples:.3g}" for one in cell}))
            means = (values for kind in KINDS for values in _means(cell, kind).T)
            numbers = [statistics.mean_interval(one).plus_minus(".1f", ".1f") for one in means]
            results.append([task, title, len(cell), samples, *numbers, *printed])
            excess = [one.episodes()[1].tolist() for one in cell]
            ours = (*statistics.tails_over_seeds(excess), *statistics.tails_over_episodes(excess))
            violated.append([task, title, len(cell), *(f"{x:.1f}" for x in ours), *tail])
            training += [_training_row(task, title, one) for one in cell]
            if all(one.summary for one in cell):
                star = "" if all(_differences(one) == "nothing" for one in cell) else " *"
                cells.append([f"{task}, {title}{star}", *_cell_row(cell, paper)])
    columns = [f"{whose}: {one}" for whose in ("seed means", "episodes", "paper") for one in TAIL]
    write_table(folder / "results", RESULT_COLUMNS, results)
    write_table(folder / "violations", ["task", "method", "seeds", *columns], violated)
    write_table(folder / "training", TRAINING_COLUMNS, training)
    write_table(folder / "comparison", COMPARISON_COLUMNS, _comparison_rows(study))
    write_table(folder / "cells", CELL_COLUMNS, cells)


def _means(cell: Sequence[Record], kind: str, is_longer: bool = False) -> np.ndarray:
    """Mean return and mean excess of every seed of a cell, `[seeds, 2]`."""
    evaluated = (one.episodes(kind, one.longer if is_longer else None) for one in cell)
    return np.array([[values.mean() for values in both] for both in evaluated])


def _cell_row(cell: Sequence[Record], paper: Printed) -> list[Any]:
    """Means over the seeds of a cell; where samples are counted, the first and the last seed's."""
    acting, greedy = (_means(cell, kind).mean(0) for kind in KINDS)
    is_longer = all(one.longer is not None for one in cell)
    summaries = [one.summary for one in cell]
    swings = ("cost_deviation_of_updates", "updates_above_limit")
    deviation, above = (np.mean([one["last_fifth"][name] for one in summaries]) for name in swings)
    spent = [one["cpu_seconds"] for one in summaries if one.get("cpu_seconds") is not None]
    marks = ([one.get(f"samples_to_{mark}_while_feasible") for one in summaries] for mark in MARKS)
    return [
        len(cell),
        f"{_at(*acting)} ({_at(paper.reward, paper.excess)})",
        _at(*_means(cell, KINDS[0], is_longer=True).mean(0)) if is_longer else "-",
        _at(*greedy),
        *map(_from_to, marks),
        f"{deviation:.1f}, {above:.0%}",
        f"{np.mean(spent) / 3600:.2f}" if spent else "-",
    ]


def _at(gained: float, excess: float) -> str:
    return f"{gained:,.0f} at {LIMIT + excess:.1f}"


def _from_to(samples: Sequence[int | None]) -> str:
    counts = [np.inf if one is None else one for one in samples]
    ends = (min(counts), max(counts))
    words = (f"{one / 1e6:.2f}e6" if np.isfinite(one) else "never" for one in ends)
    return " to ".join(dict.fromkeys(words))


def _training_row(task: str, title: str, record: Record) -> list[Any]:
    seen = record.summary
    if not seen:
        return [task, title, record.seed, *["-"] * 10]
    late, seconds = seen["last_fifth"], seen.get("cpu_seconds")
    swings = ("cost_deviation_of_updates", "cost_deviation_of_windows", "updates_above_limit")
    marks = (seen.get(f"samples_to_{mark}_while_feasible", "-") or "never" for mark in MARKS)
    numbers = (late[name] for name in ("return", "cost", *swings))
    hours = "-" if seconds is None else float(seconds / 3600)
    return [task, title, record.seed, *marks, *numbers, hours, _differences(record)]


def _differences(record: Record) -> str:
    """Settings of a record that today's code would choose otherwise."""
    stored: Row = {k: tuple(v) if isinstance(v, list) else v for k, v in record.config.items()}
    own = {name: stored[name] for name in ("method", "samples", "seed")}
    today = asdict(TrainConfig(reserve=RESERVE, **own).resolved())
    del today["checkpoint_every"]
    changed = [name for name in today if stored.get(name) != today[name]]
    return ", ".join(f"{name} {stored.get(name, 'unknown')}" for name in changed) or "nothing"


def _comparison_rows(study: DeepStudy) -> list[list[Any]]:
    """Across the tasks in which every method has records, with the seeds that all cells have.

    Unnormalised returns cannot be averaged, hence the ratio.
    """
    tasks = [task for task in TASKS if all(study.of(task, method) for method in TITLES)]
    cells = {
        (task, method): {one.seed: one.episodes()[0].mean() for one in study.of(task, method)}
        for task in tasks
        for method in TITLES
    }
    seeds = sorted(set.intersection(*map(set, cells.values()))) if cells else []
    if not seeds:
        return [[title, "none complete", "-", "-", "-", "-"] for title in TITLES.values()]
    scores = {  # [seeds, tasks]
        method: np.array([[cells[task, method][seed] for task in tasks] for seed in seeds])
        for method in TITLES
    }
    best = np.array([max(RESULTS[method][task].reward for method in TITLES) for task in tasks])
    rows = []
    for method, title in TITLES.items():
        ratio = statistics.bootstrap_interval(scores[method] / best)
        beats = statistics.improvement_interval(scores[method], scores["ppo-lag"])
        ranges = [
            f"[{one.low:.3f}, {one.high:.3f}]" if len(seeds) > 1 else "one seed"
            for one in (ratio, beats)
        ]
        numbers = [f"{ratio.value:.3f}", ranges[0], f"{beats.value:.2f}", ranges[1]]
        rows.append([title, ", ".join(tasks), *numbers])
    return rows
