"""The paper's deep tables with ours beside them: `results`, `violations`; and our own: `training`, `comparison`."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.deep.config import TrainConfig
from cmdpax.experiments.presets import RESERVE
from cmdpax.experiments.records import write_table
from cmdpax.experiments.statistics import (
    bootstrap_interval,
    improvement_interval,
    mean_interval,
    tails_over_episodes,
    tails_over_seeds,
)
from cmdpax.paper.deep import Study
from cmdpax.paper.deep_records import PAPER, PAPER_TAILS, TASKS, TITLES, Record

TAIL = ("mean", "worst", "P90", "P95")
RESULTS = ("task", "method", "seeds", "samples", "return", "cost - 25", "deterministic return", "deterministic cost - 25")
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
    results, violated, training = [], [], []
    for task in TASKS:
        for method, title in TITLES.items():
            cell, paper = found.of(task, method), PAPER[method][task]
            printed = [f"{paper[0]:.0f} +- {paper[1]:.0f}", f"{paper[2]:.1f} +- {paper[3]:.1f}"]
            if not cell:
                results.append([task, title, 0, "-", *["no records"] * 2, *["-"] * 2, *printed])
                violated.append([task, title, 0, *["-"] * 8, *PAPER_TAILS[method][task]])
                continue
            acting, greedy = (np.array([[x.mean() for x in one.episodes(kind)] for one in cell]).T for kind in (False, True))
            samples = "/".join(sorted({f"{one.samples:.3g}" for one in cell}))
            results.append([task, title, len(cell), samples, *map(_pm, acting), *map(_pm, greedy), *printed])
            excess = [one.episodes()[1].tolist() for one in cell]
            seen = [f"{x:.1f}" for tail in (tails_over_seeds(excess), tails_over_episodes(excess)) for x in tail]
            violated.append([task, title, len(cell), *seen, *PAPER_TAILS[method][task]])
            training += [_training_row(task, title, one) for one in cell]
    ours = (*(f"seed means: {one}" for one in TAIL), *(f"episodes: {one}" for one in TAIL))
    write_table(folder / "results", [*RESULTS, "paper: return", "paper: cost - 25"], results)
    write_table(folder / "violations", ["task", "method", "seeds", *ours, *(f"paper: {one}" for one in TAIL)], violated)
    write_table(folder / "training", TRAINING, training)
    write_table(folder / "comparison", COMPARISON, _comparison(found))


def _pm(values: np.ndarray) -> str:
    mean = mean_interval(values)
    return f"{mean.value:.1f}" if np.isnan(mean.low) else f"{mean.value:.1f} +- {mean.high - mean.value:.1f}"


def _training_row(task: str, title: str, record: Record) -> list[Any]:
    seen = record.summary
    if not seen:
        return [task, title, record.seed, *["-"] * 10]
    late, hours = seen["last_fifth"], seen.get("cpu_seconds")
    names = ("return", "cost", "cost_deviation_of_updates", "cost_deviation_of_windows", "updates_above_limit")
    marks = ("95_percent_of_paper", "paper", "95_percent_of_best")
    reached = [seen.get(f"samples_to_{one}_while_feasible", "-") or "never" for one in marks]
    spent = "-" if hours is None else float(hours / 3600)
    return [task, title, record.seed, *reached, *(late[name] for name in names), spent, _differences(record)]


def _differences(record: Record) -> str:
    """Settings of a record that today's code would choose otherwise."""
    stored: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in record.config.items()}
    given = {name: stored[name] for name in ("method", "samples", "seed")}
    today = asdict(TrainConfig(stored["environment"], reserve=RESERVE, **given).resolved())
    changed = [name for name in today if name != "checkpoint_every" and stored.get(name) != today[name]]
    return ", ".join(f"{name} {stored.get(name, 'unknown')}" for name in changed) or "nothing"


def _comparison(found: Study) -> list[list[Any]]:
    """Across the tasks in which every method has the same seeds; unnormalised returns cannot be averaged, hence the ratio."""
    tasks = [task for task in TASKS if all(found.of(task, method) for method in TITLES)]
    rows = []
    for method, title in TITLES.items():
        if not tasks:
            rows.append([title, "none complete", "-", "-", "-", "-"])
            continue
        seeds = min(len(found.of(task, m)) for task in tasks for m in TITLES)
        scores = {
            m: np.array([[one.episodes()[0].mean() for one in found.of(task, m)[:seeds]] for task in tasks]).T for m in TITLES
        }
        best = np.array([max(PAPER[m][task][0] for m in TITLES) for task in tasks])
        ratio = bootstrap_interval(scores[method] / best)
        beats = improvement_interval(scores[method], scores["ppo-lag"])
        shown = [f"[{one.low:.3f}, {one.high:.3f}]" if seeds > 1 else "one seed" for one in (ratio, beats)]
        rows.append([title, ", ".join(tasks), f"{ratio.value:.3f}", shown[0], f"{beats.value:.2f}", shown[1]])
    return rows
