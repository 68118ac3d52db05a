"""The deep figures: learning curves, box plots of final costs, ablations.

Each says which budget it shows, what training aimed at, and what was not run or failed.
"""

import itertools
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cmdpax.experiments.statistics import mean_interval
from cmdpax.files.reading import Row
from cmdpax.paper.charts import finish, legend_lines, panel, style
from cmdpax.paper.deep_records import Record, task_name
from cmdpax.paper.deep_study import DeepStudy, budget
from cmdpax.paper.settings import (
    ABLATION_SEEDS,
    ABLATIONS,
    BOX_SEEDS,
    LIMIT,
    RESULTS,
    SWEEPS,
    TASKS,
    TITLES,
)

POINTS = 100  # of a learning curve: each is a mean over one hundredth of the samples
HIGHEST = 2.5  # of a cost's axis, in limits: what lies higher is cut, and said to be
ZERO: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": "--"}
AIM: dict[str, Any] = {"linewidth": 1.0, "linestyle": ":"}
NOTE: dict[str, Any] = {"ha": "center", "va": "center", "color": "0.35", "fontsize": 8}
BETWEEN = {1: "one seed: no interval", 2: "both seeds"}  # what a band of so many seeds is
UNITS = {"cost": "steps too fast in an episode", "energy": "mean square of actions, summed"}
Band = tuple[np.ndarray, np.ndarray]  # x [n], values [seeds, n]


def learning_curves(
    study: DeepStudy, title: str, paper: int | None, methods: Collection[str] = tuple(TITLES)
) -> Figure:
    """Return and every limited cost against samples; a row of panels for each.

    Mean and 95% interval over seeds (of two seeds, both). paper: its number of seeds, if it has
    such runs. methods: those of the sweep.
    """
    limits, tasks = study.records[0].limits, study.tasks
    quantities = ["return", *limits.names]
    figure = Figure(figsize=(1.8 + 4.4 * len(tasks), 1.4 + 3.0 * len(quantities)))
    grid = figure.subplots(len(quantities), len(tasks), squeeze=False, sharex="col")
    for (i, quantity), (j, task) in itertools.product(enumerate(quantities), enumerate(tasks)):
        axes = grid[i][j]
        bands = _draw_methods(axes, study, task, quantity, paper is not None)
        words = task if i == 0 else ""
        if i == 0:
            words += "".join(f"\n{note}" for note in _missing(study, task, methods))
        else:
            limit = float(limits.bounds[i - 1, 1])
            axes.axhline(limit, **ZERO)
            words += _cut(axes, bands, HIGHEST * limit)
        panel(axes, words)
    for axes, quantity in zip(grid[:, 0], quantities):
        words = f"{quantity}\n{UNITS.get(quantity, '')}".strip()
        axes.set_ylabel("episode return" if quantity == "return" else words)
    for axes in grid[-1]:
        axes.set_xlabel("samples")
    every = legend_lines(TITLES.values())
    handles = [line for line, method in zip(every, TITLES) if method in methods]
    if paper is not None:
        edge = "paper's final value (right edge)"
        handles.append(Line2D([], [], color="0.4", linewidth=2.2, label=edge))
    handles.append(Line2D([], [], label="limit", **ZERO))
    handles.append(Line2D([], [], color="0.4", label="aim of training", **AIM))
    seeds = [len(study.of(task, method)) for task in tasks for method in TITLES]
    below = 0.28 / figure.get_figheight()
    title = f"{title}: {study.size(paper)}{_tasks_not_run(study) if paper else ''}"
    return finish(figure, title, [*handles, *_shade(seeds)], below)


def _tasks_not_run(study: DeepStudy) -> str:
    """A line for a title, if a task of the paper has no records."""
    lacking = [task for task in TASKS if task not in study.tasks]
    return f"\nnot run: {', '.join(lacking)}" if lacking else ""


def _draw_methods(
    axes: Axes, study: DeepStudy, task: str, quantity: str, is_papers: bool
) -> dict[str, Band]:
    """Curves of all methods with a record, what they aim at, and the paper's values beside them."""
    bands, edge = {}, axes.get_yaxis_transform()
    look: dict[str, Any] = {"linewidth": 2.2, "clip_on": False, "transform": edge}
    for index, method in enumerate(TITLES):
        color, cell = style(index)["color"], study.of(task, method)
        if cell:
            edges = _edges(cell)
            values = np.stack([record.curve(quantity, edges) for record in cell])
            bands[method] = x, _ = (edges[1:] + edges[:-1]) / 2, values
            _draw_band(axes, x, values, index)
            if quantity != "return":
                aims = np.stack([record.aims(quantity, edges) for record in cell]).mean(0)
                axes.plot(x, aims, color=color, **AIM)
        printed = RESULTS[method].get(task)
        if is_papers and printed is not None and quantity in ("return", "cost"):
            limits = study.records[0].limits
            limit = limits.bounds[limits.names.index("cost"), 1]
            value = printed.reward if quantity == "return" else printed.excess + limit
            axes.plot([1.0, 1.045], [value] * 2, color=color, **look)
    return bands


def _edges(records: Sequence[Record]) -> np.ndarray:
    longest = max(record.rows[-1]["samples"] for record in records)
    fewest = min(len(record.rows) for record in records)
    return np.linspace(0, longest, min(POINTS, fewest) + 1)


def _cut(axes: Axes, bands: dict[str, Band], highest: float) -> str:
    """Cut an axis at `highest`, if curves or bands go beyond; mark where, and say how far.

    The limit's line has been drawn, so that the axis has points.
    """
    is_beyond = axes.dataLim.y1 > highest
    peaks = {method: float(np.nanmax(np.nanmean(v, 0))) for method, (_, v) in bands.items()}
    axes.set_ylim(0, highest)
    beyond = {method: peak for method, peak in peaks.items() if peak > highest}
    for method in beyond:
        x, values = bands[method]
        means, color = np.nanmean(values, 0), style(list(TITLES).index(method))["color"]
        there = x[means > highest]
        mark: dict[str, Any] = {"marker": "^", "linestyle": "none", "clip_on": False}
        axes.plot(there, np.full(len(there), highest), color=color, markersize=4, **mark)
    if not is_beyond:
        return ""
    words = ", ".join(f"{TITLES[method]} {peak:.0f}" for method, peak in beyond.items())
    return f"axis cut at {highest:g}\n" + (f"triangles: up to {words}" if words else "bands alone")


def _missing(study: DeepStudy, task: str, methods: Collection[str]) -> list[str]:
    """Lines that say which of these methods were not run on a task, and which runs of it failed."""
    failed = [row for row in study.failed if row["task"] == task]
    broken = {row["method"] for row in failed}
    absent = [
        title
        for method, title in TITLES.items()
        if method in methods and not study.of(task, method) and method not in broken
    ]
    lines = [f"not run: {', '.join(absent)}"] if absent else []
    words = (f"{TITLES[row['method']]} (seed {row['seed']})" for row in failed)
    return [*lines, f"failed: {', '.join(words)}"] if failed else lines


def violations(study: DeepStudy) -> Figure:
    """Box plot of the final policy's excess cost, over all episodes of all seeds.

    Triangles are means and orange lines medians, as in the paper; grey dots are the seeds' means.
    """
    median: dict[str, Any] = {"color": "#e69f00", "linewidth": 1.8}
    green = {"markerfacecolor": "#009e73", "markeredgecolor": "#009e73"}
    mean: dict[str, Any] = {"marker": "^", "markersize": 7, **green}
    dots: dict[str, Any] = {"marker": ".", "linestyle": "none", "color": "0.45", "markersize": 5}
    fliers = {"marker": ".", "markersize": 3, "markeredgecolor": "0.5"}
    looks = {"medianprops": median, "meanprops": mean, "flierprops": fliers}
    figure = Figure(figsize=(1.2 + 3.7 * len(study.tasks), 4.5))
    row = figure.subplots(1, len(study.tasks), squeeze=False, sharey=True)[0]
    for axes, task in zip(row, study.tasks):
        for number, method in enumerate(TITLES, 1):
            seeds = [record.episodes()[1] for record in study.of(task, method)]
            if not seeds:
                above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90}
                is_broken = any(
                    (one["task"], one["method"]) == (task, method) for one in study.failed
                )
                axes.text(number, 0.8, "failed" if is_broken else "not run", **above, **NOTE)
                continue
            together = [np.concatenate(seeds)]
            axes.boxplot(together, positions=[number], widths=0.55, showmeans=True, **looks)
            axes.plot([number + 0.38] * len(seeds), [one.mean() for one in seeds], **dots)
            aim = np.mean([one.aims("cost", _edges([one]))[-1] for one in study.of(task, method)])
            axes.plot([number - 0.4, number + 0.4], [aim - LIMIT] * 2, color="0.25", **AIM)
        axes.axhline(0, **ZERO)
        axes.set_xlim(0.4, len(TITLES) + 0.6)
        axes.set_xticks(range(1, len(TITLES) + 1), list(TITLES.values()), rotation=20, fontsize=9)
        axes.set_title(task, fontsize=10)
        axes.grid(alpha=0.3, axis="y")
    figure.axes[0].set_ylabel("cost - limit of the final policy\n(above 0: violated)")
    shown = {"median": median, "mean": {**mean, "linestyle": "none"}, "mean of a seed": dots}
    handles = [Line2D([], [], label=name, **look) for name, look in shown.items()]
    handles.append(Line2D([], [], label="limit", **ZERO))
    handles.append(Line2D([], [], color="0.25", label="aim of training", **AIM))
    size = study.size(BOX_SEEDS) + _tasks_not_run(study)
    return finish(figure, f"Final policies, every episode of every seed: {size}", handles)


def ablation(study: DeepStudy, name: str) -> Figure:
    """Final return and excess cost against the number of inner batches K, a line for each value.

    The values of K are drawn evenly spaced. Each task has its return above, with 0, its excess
    below; both methods share their axes.
    """
    sweep, field, rows = SWEEPS[name], ABLATIONS[name], study.lines[name]
    values, inner = sweep.settings[field], sweep.settings["inner"]
    planned = [task_name(one) for one in sweep.settings["environment"]]
    tasks = [task for task in planned if any(row["task"] == task for row in rows)]
    methods, words, seeds = list(sweep.methods), field.replace("_", " "), []
    figure = Figure(figsize=(1.5 + 4.0 * len(methods), 1.4 + 4.2 * len(tasks)))
    grid = figure.subplots(2 * len(tasks), len(methods), squeeze=False, sharey="row")
    for (i, task), (j, method) in itertools.product(enumerate(tasks), enumerate(methods)):
        own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        for axes, quantity in zip(grid[2 * i : 2 * i + 2, j], ("return", "excess")):
            for index, value in enumerate(values):
                line = [row for row in own if row[field] == value and row[quantity] is not None]
                if line:
                    x, points = _points(line, quantity)
                    _draw_band(axes, np.searchsorted(inner, x), points, index, every=1)
                    seeds.append(len(points))
            axes.set_xlim(-0.3, len(inner) - 0.7)
            axes.set_xticks(range(len(inner)), [f"{one:g}" for one in inner])
            if quantity == "excess":
                axes.axhline(0, **ZERO)
            broken = sum("failed" in row for row in own)
            label = f"{task}, {TITLES[method]}" + (f" ({broken} runs failed)" if broken else "")
            if not own:
                axes.text(0.5, 0.5, "not run", transform=axes.transAxes, **NOTE)
            panel(axes, label)
        grid[2 * i, 0].set_ylabel("final return")
        grid[2 * i + 1, 0].set_ylabel("final cost - limit\n(above 0: violated)")
        drawn = [axes.dataLim.intervaly for axes in grid[2 * i] if axes.has_data()] or [(0, 1)]
        ends = np.array([min(0, *np.ravel(drawn)), max(0, *np.ravel(drawn))])
        grid[2 * i, 0].set_ylim(1.08 * ends)
    for axes in grid[-1]:
        axes.set_xlabel("batches between dual updates, K")
    handles = [*legend_lines(f"{words} {value:g}" for value in values), *_shade(seeds)]
    size = budget([row["samples"] for row in rows], seeds, ABLATION_SEEDS)
    lacking = ", ".join(task for task in planned if task not in tasks)
    title = f"{words.capitalize()} and K: {size}" + (f"\nnot run: {lacking}" if lacking else "")
    return finish(figure, title, handles, below=0.04)


def _points(rows: Sequence[Row], quantity: str) -> Band:
    inner = sorted({row["inner"] for row in rows})
    seeds = sorted({row["seed"] for row in rows})
    values = np.full((len(seeds), len(inner)), np.nan)
    for row in rows:
        values[seeds.index(row["seed"]), inner.index(row["inner"])] = row[quantity]
    return np.array(inner), values


def _draw_band(axes: Axes, x: np.ndarray, values: np.ndarray, index: int, every: int = 12) -> None:
    """Mean of `values [seeds, n]` with its 95% interval; of two seeds, the two.

    The interval of two seeds is thirteen times as wide as they are apart.
    """
    seen = ~np.isnan(values).all(0)
    columns = [column[~np.isnan(column)] for column in values.T[seen]]
    look: dict[str, Any] = {**style(index), "markevery": every}
    axes.plot(x[seen], [column.mean() for column in columns], **look)
    if len(values) > 1:
        ends = [
            (min(column), max(column)) if len(column) <= 2 else mean_interval(column)[1:]
            for column in columns
        ]
        shade = {"color": look["color"], "alpha": 0.18, "linewidth": 0}
        axes.fill_between(x[seen], *np.transpose(ends), **shade)


def _shade(seeds: Sequence[int]) -> list[Patch]:
    """What the bands of curves with so many seeds are."""
    kinds = {BETWEEN.get(one, "95% interval") for one in seeds if one}
    words = " or ".join(sorted(kinds))
    return [Patch(color="0.4", alpha=0.25, label=words)] if words else []
