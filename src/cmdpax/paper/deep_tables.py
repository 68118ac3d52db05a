"""The paper's deep tables with ours beside them: `results`, `violations`; and four of our own.

`training` has one row a run, `comparison` one a method. `cells` is the short form of the others,
one row a cell, means over its seeds: what the documentation shows. A star marks runs of other
settings than today's defaults; `settings` says which settings made the records, and what they cost.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.experiments import statistics
from cmdpax.experiments.results import write_table
from cmdpax.experiments.sweep import Sweep
from cmdpax.files.reading import Row
from cmdpax.learning.config import TrainConfig
from cmdpax.paper.deep_records import Record
from cmdpax.paper.deep_study import DeepStudy, planned_tasks
from cmdpax.paper.settings import (
    INCUMBENTS,
    LIMIT,
    RESULTS,
    SEARCHED,
    SEEDS,
    TASKS,
    TITLES,
    TRAINING_GRIDS,
    Printed,
)

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
    *("CPU hours", "differs from today's defaults"),
)
CELL_COLUMNS = (
    *("task, method", "seeds", "return at cost (paper's)", "100 episodes", "deterministic"),
    "the paper's settings here",
    *("95% of the paper's return, feasible, after", "all of it"),
    "95% of the paper's best of any method",
    *("deviation of an update's cost, share above 25 (last fifth)", "CPU hours a run"),
)
COMPARISON_COLUMNS = (
    *("method", "tasks", "seeds", "interquartile mean of return / paper's best", "95% interval"),
    *("P(return above PPO-Lag's)", "95% interval of it"),
)
SETTING_COLUMNS = (
    *("method", "runs", "samples a run", "CPU hours in all", "code"),
    "settings other than today's defaults",
)
OTHER_COLUMNS = (
    *("task, method", "seeds", "samples", "return at cost", "100 episodes", "deterministic"),
    *("other limits, 100 episodes", "last fifth: return at cost", "incumbents, published"),
    "CPU hours a run",
)


def write_tables(study: DeepStudy, folder: Path, papers: DeepStudy) -> None:
    """Write them all; cells without records say so. papers: runs with the paper's own settings."""
    results, violated, training, cells = [], [], [], []
    for task in TASKS:
        for method, title in TITLES.items():
            cell, paper = study.of(task, method), RESULTS[method][task]
            tail = (paper.excess, paper.worst, paper.p90, paper.p95)
            printed = [f"{paper.reward:.0f} +- {paper.reward_interval:.0f}"]
            printed += [f"{paper.excess:.1f} +- {paper.excess_interval:.1f}"]
            if not cell:
                state = study.absence(task, method)
                results.append([task, title, 0, "-", *[state] * 2, *["-"] * 2, *printed])
                violated.append([task, title, 0, *["-"] * 8, *tail])
                nothing = [f"0 of {SEEDS}", state, *["-"] * (len(CELL_COLUMNS) - 3)]
                cells.append([f"{task}, {title}", *nothing])
                continue
            means = (values for kind in KINDS for values in _means(cell, kind).T)
            numbers = [statistics.mean_interval(one).plus_minus(".1f", ".1f") for one in means]
            results.append([task, title, len(cell), _samples(cell), *numbers, *printed])
            excess = [one.episodes()[1].tolist() for one in cell]
            ours = (*statistics.tails_over_seeds(excess), *statistics.tails_over_episodes(excess))
            violated.append([task, title, len(cell), *(f"{x:.1f}" for x in ours), *tail])
            training += [_training_row(task, title, one) for one in cell]
            star = "" if all(differences(one) == "nothing" for one in cell) else " *"
            own = papers.of(task, method)
            beside = _measured(own)[0] if own else papers.absence(task, method)
            cells.append([f"{task}, {title}{star}", *_cell_row(cell, paper, beside)])
    columns = [f"{whose}: {one}" for whose in ("seed means", "episodes", "paper") for one in TAIL]
    write_table(folder / "results", RESULT_COLUMNS, results)
    write_table(folder / "violations", ["task", "method", "seeds", *columns], violated)
    write_table(folder / "training", TRAINING_COLUMNS, training)
    write_table(folder / "comparison", COMPARISON_COLUMNS, _comparison_rows(study))
    write_table(folder / "cells", CELL_COLUMNS, cells)
    write_table(folder / "settings", SETTING_COLUMNS, _setting_rows(study))


def write_other_tables(study: DeepStudy, folder: Path, planned: Sweep) -> None:
    """`cells` and `settings` of a sweep beside the main comparison."""
    rows = []
    for task in planned_tasks(planned):
        for method in planned.methods:
            cell, title = study.of(task, method), TITLES[method]
            published = INCUMBENTS.get(task, {}).get(method, "-")
            if cell:
                rows.append([f"{task}, {title}", *_other_row(cell), published, _hours(cell)])
            else:
                state = study.absence(task, method)
                rows.append([f"{task}, {title}", 0, "-", state, *["-"] * 4, published, "-"])
    write_table(folder / "cells", OTHER_COLUMNS, rows)
    write_table(folder / "settings", SETTING_COLUMNS, _setting_rows(study))


def write_search_table(rows: Sequence[Row], chosen: Mapping[str, Row], folder: Path) -> None:
    """`paper-search`: every run of the search in the paper's grids; a star marks what it chose."""
    written = []
    for row in sorted(rows, key=lambda row: (list(TITLES).index(row["method"]), row["task"])):
        own = {name: row[name] for name in SEARCHED if name in TRAINING_GRIDS[row["method"]]}
        words = ", ".join(f"{name} {value:g}" for name, value in own.items())
        ended = row.get("failed") or _at(row["return"], row["excess"])
        star = " *" if chosen.get(row["method"]) == own else ""
        written.append([TITLES[row["method"]] + star, row["task"], words, ended])
    columns = ("method", "task", "settings", f"return at cost after {rows[0]['samples']:,} samples")
    write_table(folder / "paper-search", columns, written)


def _other_row(cell: Sequence[Record]) -> list[Any]:
    """Seeds, samples, the evaluations, costs of further limits, and the last fifth of training."""
    seen = [one.longer[KINDS[0]]["totals"] for one in cell if one.longer is not None]
    texts = cell[0].config["limits"][1:] if len(seen) == len(cell) else []
    totals = (np.mean([np.mean(one[name]) for one in seen]) for name in cell[0].limits.names[1:])
    others = ", ".join(f"{total:.1f} ({text})" for text, total in zip(texts, totals)) or "-"
    late = [one.summary["last_fifth"] for one in cell]
    gained, spent = (np.mean([one[name] for one in late]) for name in ("return", "cost"))
    ended = f"{gained:,.0f} at {spent:.1f}"
    return [len(cell), _samples(cell), *_measured(cell), others, ended]


def _setting_rows(study: DeepStudy) -> Iterator[list[Any]]:
    """One row for each method: which settings made its records, by which code, at what cost."""
    for method, title in TITLES.items():
        own = [one for one in study.records if one.method == method]
        if own:
            changed = dict.fromkeys(map(differences, own))
            made_by = ((one.summary.get("versions") or {}).get("code", "?") for one in own)
            hours = sum(one.summary.get("cpu_seconds") or 0.0 for one in own) / 3600
            code = ", ".join(dict.fromkeys(made_by))
            yield [title, len(own), _samples(own), f"{hours:.1f}", code, "; or ".join(changed)]


def _samples(cell: Sequence[Record]) -> str:
    return "/".join(sorted({f"{one.samples:.3g}" for one in cell}))


def _hours(cell: Sequence[Record]) -> str:
    """Mean CPU hours of a run, where they are known."""
    seconds = [one.summary.get("cpu_seconds") for one in cell]
    spent = [one for one in seconds if one is not None]
    return f"{np.mean(spent) / 3600:.2f}" if spent else "-"


def _means(cell: Sequence[Record], kind: str, is_longer: bool = False) -> np.ndarray:
    """Mean return and mean excess of every seed of a cell, `[seeds, 2]`."""
    evaluated = (one.episodes(kind, one.longer if is_longer else None) for one in cell)
    return np.array([[values.mean() for values in both] for both in evaluated])


def _measured(cell: Sequence[Record]) -> tuple[str, str, str]:
    """Means over seeds: as in training, so in a hundred episodes if all have them, and greedy."""
    acting, greedy = (_at(*_means(cell, kind).mean(0)) for kind in KINDS)
    if any(one.longer is None for one in cell):
        return acting, "-", greedy
    return acting, _at(*_means(cell, KINDS[0], is_longer=True).mean(0)), greedy


def _cell_row(cell: Sequence[Record], paper: Printed, beside: str) -> list[Any]:
    """Means over the seeds of a cell; where samples are counted, the first and the last seed's."""
    acting, longer, greedy = _measured(cell)
    summaries = [one.summary for one in cell]
    swings = ("cost_deviation_of_updates", "updates_above_limit")
    deviation, above = (np.mean([one["last_fifth"][name] for one in summaries]) for name in swings)
    marks = ([one.get(f"samples_to_{mark}_while_feasible") for one in summaries] for mark in MARKS)
    return [
        f"{len(cell)} of {SEEDS}",
        f"{acting} ({_at(paper.reward, paper.excess)})",
        longer,
        greedy,
        beside,
        *map(_from_to, marks),
        f"{deviation:.1f}, {above:.0%}",
        _hours(cell),
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
    late, seconds = seen["last_fifth"], seen.get("cpu_seconds")
    swings = ("cost_deviation_of_updates", "cost_deviation_of_windows", "updates_above_limit")
    marks = (seen.get(f"samples_to_{mark}_while_feasible", "-") or "never" for mark in MARKS)
    numbers = (late[name] for name in ("return", "cost", *swings))
    hours = "-" if seconds is None else float(seconds / 3600)
    return [task, title, record.seed, *marks, *numbers, hours, differences(record)]


def differences(record: Record) -> str:
    """Settings of a record that today's defaults are other than, but for its limits."""
    stored: Row = {k: tuple(v) if isinstance(v, list) else v for k, v in record.config.items()}
    own = {name: stored[name] for name in ("method", "samples", "seed", "limits")}
    today = asdict(TrainConfig(**own).resolved())
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
        return [[title, "none complete", *["-"] * 5] for title in TITLES.values()]
    scores = {  # [seeds, tasks]
        method: np.array([[cells[task, method][seed] for task in tasks] for seed in seeds])
        for method in TITLES
    }
    best = np.array([max(RESULTS[method][task].reward for method in TITLES) for task in tasks])
    rows = []
    for method, title in TITLES.items():
        ratio = statistics.bootstrap_interval(scores[method] / best)
        beats = statistics.improvement_interval(scores[method], scores["ppo-lag"])
        spans = [f"[{one.low:.3f}, {one.high:.3f}]" for one in (ratio, beats)]
        first, second = spans if len(seeds) > 1 else ["one seed"] * 2
        numbers = [f"{ratio.value:.3f}", first, f"{beats.value:.2f}", second]
        rows.append([title, ", ".join(tasks), len(seeds), *numbers])
    return rows
