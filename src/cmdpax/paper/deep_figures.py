"""The paper's deep figures: learning curves, box plots of final costs, ablations.

Each says which share of the paper's budget it shows, and marks what is missing.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cmdpax.experiments.statistics import mean_interval
from cmdpax.files import Row
from cmdpax.paper.charts import finish, legend_lines, panel, style
from cmdpax.paper.deep_study import DeepStudy, Record, budget
from cmdpax.paper.settings import ABLATION_SEEDS, ABLATIONS, LIMIT, RESULTS, SWEEPS, TASKS, TITLES

POINTS = 100  # of a learning curve: each is a mean over one hundredth of the samples
ZERO: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": "--"}
NOTE: dict[str, Any] = {"ha": "center", "va": "center", "color": "0.5"}
Band = tuple[np.ndarray, np.ndarray]  # x [n], values [seeds, n]


def learning_curves(study: DeepStudy) -> Figure:
    """Return and cost against samples; mean and 95% interval over seeds (of two seeds, both)."""
    figure = Figure(figsize=(1.5 + 4.4 * len(TASKS), 7.2))
    grid = figure.subplots(2, len(TASKS), squeeze=False)
    methods, seeds = list(TITLES), []
    for quantity, row in zip(("return", "cost"), grid):
        for task, axes in zip(TASKS, row):
            cells = {method: study.of(task, method) for method in methods}
            bands = {method: _band(cell, quantity) for method, cell in cells.items() if cell}
            seeds += [len(values) for _, values in bands.values()]
            for method, (x, values) in bands.items():
                _draw_band(axes, x, values, methods.index(method))
            edge = {"linewidth": 2.2, "clip_on": False, "transform": axes.get_yaxis_transform()}
            for index, method in enumerate(methods if bands else ()):
                paper = RESULTS[method][task]
                value = paper.reward if quantity == "return" else paper.excess + LIMIT
                axes.plot([1.0, 1.045], [value] * 2, color=style(index)["color"], **edge)
            if quantity == "cost":
                axes.axhline(LIMIT, **ZERO)
                tops = (float(np.nanpercentile(values, 99)) for _, values in bands.values())
                axes.set_ylim(0, np.clip(1.1 * max(tops, default=LIMIT), 2.5 * LIMIT, 8 * LIMIT))
            lacking = [title for method, title in TITLES.items() if method not in bands]
            _say_missing(axes, lacking, is_empty=not bands)
            panel(axes, task)
    grid[0][0].set_ylabel("episode return")
    grid[1][0].set_ylabel(f"episode cost (dashed: limit {LIMIT:g})")
    for axes in grid[-1]:
        axes.set_xlabel("samples")
    words = "paper's final value (right edge)"
    paper_mark = Line2D([], [], color="0.4", linewidth=2.2, label=words)
    handles = [*legend_lines(TITLES.values()), paper_mark, *_shade(seeds)]
    return finish(figure, f"Velocity tasks: {study.size}", handles)


def _band(records: Sequence[Record], quantity: str) -> Band:
    longest = max(record.rows[-1]["samples"] for record in records)
    fewest = min(len(record.rows) for record in records)
    edges = np.linspace(0, longest, min(POINTS, fewest) + 1)
    values = np.stack([record.curve(quantity, edges) for record in records])
    return (edges[1:] + edges[:-1]) / 2, values


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
    figure = Figure(figsize=(1.2 + 3.7 * len(TASKS), 4.5))
    for axes, task in zip(figure.subplots(1, len(TASKS), squeeze=False)[0], TASKS):
        is_empty = True
        for place, method in enumerate(TITLES, 1):
            seeds = [record.episodes()[1] for record in study.of(task, method)]
            if not seeds:
                above: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90}
                axes.text(place, 0.8, "no records", fontsize=8, **above, **NOTE)
                continue
            is_empty = False
            together = [np.concatenate(seeds)]
            axes.boxplot(together, positions=[place], widths=0.55, showmeans=True, **looks)
            axes.plot([place + 0.38] * len(seeds), [one.mean() for one in seeds], **dots)
        axes.axhline(0, **ZERO)
        if is_empty:
            axes.set_yticks([])
        axes.set_xlim(0.4, len(TITLES) + 0.6)
        axes.set_xticks(range(1, len(TITLES) + 1), list(TITLES.values()), rotation=20, fontsize=9)
        axes.set_title(task, fontsize=10)
        axes.grid(alpha=0.3, axis="y")
    figure.axes[0].set_ylabel("cost - limit of the final policy\n(above 0: violated)")
    shown = {"median": median, "mean": {**mean, "linestyle": "none"}, "mean of a seed": dots}
    handles = [Line2D([], [], label=name, **look) for name, look in shown.items()]
    return finish(figure, f"Final policies, every episode of every seed: {study.size}", handles)


def ablation(study: DeepStudy, name: str) -> Figure:
    """Final return and excess cost against the number of inner batches K, a line for each value.

    The values of K are drawn evenly spaced. Each task has its return above, its excess below.
    """
    sweep, field, rows = SWEEPS[name], ABLATIONS[name], study.ablations[name]
    values, inner = sweep.settings[field], sweep.settings["inner"]
    tasks = [task for task in TASKS if any(row["task"] == task for row in rows)]
    methods, words, seeds = list(sweep.methods), field.replace("_", " "), []
    figure = Figure(figsize=(1.5 + 4.0 * len(methods), 1.2 + 4.2 * len(tasks)))
    grid = figure.subplots(2 * len(tasks), len(methods), squeeze=False)
    for (i, task), (j, method) in itertools.product(enumerate(tasks), enumerate(methods)):
        own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        for axes, quantity in zip(grid[2 * i : 2 * i + 2, j], ("return", "excess")):
            for index, value in enumerate(values):
                line = [row for row in own if row[field] == value]
                if line:
                    x, points = _points(line, quantity)
                    _draw_band(axes, np.searchsorted(inner, x), points, index, every=1)
                    seeds.append(len(points))
            axes.set_xlim(-0.3, len(inner) - 0.7)
            axes.set_xticks(range(len(inner)), [f"{one:g}" for one in inner])
            if quantity == "excess":
                axes.axhline(0, **ZERO)
            _say_missing(axes, [], is_empty=not own)
            axes.set_title(f"{task}, {TITLES[method]}", fontsize=9)
            axes.grid(alpha=0.3)
        grid[2 * i, 0].set_ylabel("final return")
        grid[2 * i + 1, 0].set_ylabel("final cost - limit\n(above 0: violated)")
    for axes in grid[-1]:
        axes.set_xlabel("batches between dual updates, K")
    handles = [*legend_lines(f"{words} {value:g}" for value in values), *_shade(seeds)]
    count = len({row["seed"] for row in rows})
    size = budget([row["samples"] for row in rows], [count], ABLATION_SEEDS)
    lacking = ", ".join(task for task in TASKS if task not in tasks)
    title = f"{words.capitalize()} and K: {size}" + (f"\nno records: {lacking}" if lacking else "")
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
            (min(column), max(column)) if len(values) == 2 else mean_interval(column)[1:]
            for column in columns
        ]
        shade = {"color": look["color"], "alpha": 0.18, "linewidth": 0}
        axes.fill_between(x[seen], *np.transpose(ends), **shade)


def _shade(seeds: Sequence[int]) -> list[Patch]:
    """What the bands of curves with so many seeds are."""
    words = ["95% interval"] if max(seeds, default=0) > 2 else []
    words += ["both seeds"] if 2 in seeds else []
    return [Patch(color="0.4", alpha=0.25, label=" or ".join(words))] if words else []


def _say_missing(axes: Axes, labels: Sequence[str], is_empty: bool) -> None:
    """Say what a panel lacks; an empty one has no scale either."""
    if is_empty:
        axes.text(0.5, 0.5, "no records", transform=axes.transAxes, **NOTE)
        axes.set_xticks([])
        axes.set_yticks([])
    elif labels:
        text = f"no records: {', '.join(labels)}"
        corner: dict[str, Any] = {"transform": axes.transAxes, "va": "top"}
        axes.text(0.03, 0.97, text, fontsize=8, color="0.4", **corner)
