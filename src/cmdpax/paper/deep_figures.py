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
from cmdpax.experiments.sweep import Sweep
from cmdpax.files.reading import Row
from cmdpax.paper.charts import finish, legend_lines, panel, style
from cmdpax.paper.deep_records import Record
from cmdpax.paper.deep_study import DeepStudy, budget, planned_tasks
from cmdpax.paper.settings import (
    ABLATION_SEEDS,
    ABLATIONS,
    BOX_SEEDS,
    DEEP_SWEEP,
    LIMIT,
    RESULTS,
    SWEEPS,
    TITLES,
)

AT_EDGE = "paper's final value (right edge)"
POINTS = 100  # of a learning curve: each is a mean over one hundredth of the samples
LINE = 0.28  # height in inches of a line of a legend
HIGHEST = 2.5  # of a cost's axis, in limits: what lies higher is cut, and said to be
ZERO: dict[str, Any] = {"color": "0.25", "linewidth": 1.0, "linestyle": "--"}
AIM: dict[str, Any] = {"linewidth": 1.0, "linestyle": ":"}
NOTE: dict[str, Any] = {"ha": "center", "va": "center", "color": "0.35", "fontsize": 8}
BETWEEN = {1: "one seed: no interval", 2: "both seeds"}  # what stands for it where seeds are few
UNITS = {"cost": "steps too fast in an episode", "energy": "mean square of actions, summed"}
EDGE: dict[str, Any] = {"linestyle": "none", "markersize": 5, "markerfacecolor": "white"}
Points = tuple[np.ndarray, np.ndarray]  # x [n], values [seeds, n]


def learning_curves(
    study: DeepStudy, title: str, paper: int | None, planned: Sweep = DEEP_SWEEP
) -> Figure:
    """Return and every limited cost against samples; a row of panels for each.

    Mean and 95% interval over seeds (of two seeds, both). paper: its number of seeds, if it has
    such runs. planned: the sweep whose tasks and methods should be there.
    """
    limits, tasks, methods = study.records[0].limits, study.tasks, planned.methods
    quantities = ["return", *limits.names]
    figure = Figure(figsize=(1.8 + 4.4 * len(tasks), 1.4 + 3.0 * len(quantities)))
    grid = figure.subplots(len(quantities), len(tasks), squeeze=False, sharex="col")
    for (i, quantity), (j, task) in itertools.product(enumerate(quantities), enumerate(tasks)):
        axes = grid[i][j]
        drawn = _draw_methods(axes, study, task, quantity, paper is not None)
        if i == 0:
            panel(axes, "\n".join([task, *_missing(study, task, methods)]))
        else:
            limit = float(limits.bounds[i - 1, 1])
            axes.axhline(limit, **ZERO)
            panel(axes)
            axes.set_title(_cut(axes, drawn, HIGHEST * limit), fontsize=8)
    for axes, quantity in zip(grid[:, 0], quantities):
        words = f"{quantity}\n{UNITS.get(quantity, '')}".strip()
        axes.set_ylabel("episode return" if quantity == "return" else words)
    for axes in grid[-1]:
        axes.xaxis.set_major_formatter(lambda samples, _: f"{samples / 1e6:g}")
        axes.set_xlabel("million samples")
    every = legend_lines(TITLES.values())
    handles: list[Any] = [line for line, method in zip(every, TITLES) if method in methods]
    if paper is not None:
        handles.append(Line2D([], [], label=AT_EDGE, color="0.4", marker="o", **EDGE))
    handles.append(Line2D([], [], label="limit", **ZERO))
    handles.append(Line2D([], [], color="0.4", label="aim of training", **AIM))
    if kinds := _kinds([len(study.of(task, method)) for task in tasks for method in TITLES]):
        handles.append(Patch(label=kinds, color="0.4", alpha=0.0 if kinds == BETWEEN[1] else 0.25))
    title = f"{title}: {study.size(paper)}{_not_run(study.tasks, planned)}"
    return finish(figure, title, handles, below=LINE / figure.get_figheight())


def _not_run(tasks: Collection[str], planned: Sweep) -> str:
    """A line for a title, if there are no records of a task of the sweep."""
    lacking = ", ".join(task for task in planned_tasks(planned) if task not in tasks)
    return f"\nnot run: {lacking}" if lacking else ""


def _draw_methods(
    axes: Axes, study: DeepStudy, task: str, quantity: str, is_papers: bool
) -> dict[str, Points]:
    """Curves of all methods with a record, what they aim at, and the paper's values beside them."""
    drawn = {}
    for index, method in enumerate(TITLES):
        color, cell = style(index)["color"], study.of(task, method)
        if cell:
            edges = _edges(cell)
            values = np.stack([record.curve(quantity, edges) for record in cell])
            drawn[method] = x, _ = (edges[1:] + edges[:-1]) / 2, values
            seen, means, ends = _mean_and_ends(values)
            axes.plot(x[seen], means, **style(index), markevery=12)
            if len(cell) > 1:
                shade = {"color": color, "alpha": 0.18, "linewidth": 0}
                axes.fill_between(x[seen], *ends, **shade)
            if quantity != "return":
                aims = np.stack([record.aims(quantity, edges) for record in cell]).mean(0)
                axes.plot(x, aims, color=color, **AIM)
        printed = RESULTS[method].get(task)
        if is_papers and printed is not None and quantity in ("return", "cost"):
            limits = study.records[0].limits
            limit = limits.bounds[limits.names.index("cost"), 1]
            value = printed.reward if quantity == "return" else printed.excess + limit
            look = {**EDGE, "marker": style(index)["marker"], "color": color}
            beside: dict[str, Any] = {"clip_on": False, "transform": axes.get_yaxis_transform()}
            axes.plot(1.025 + 0.025 * index, value, **look, **beside)
    return drawn


def _edges(records: Sequence[Record]) -> np.ndarray:
    longest = max(record.rows[-1]["samples"] for record in records)
    fewest = min(len(record.rows) for record in records)
    return np.linspace(0, longest, min(POINTS, fewest) + 1)


def _cut(axes: Axes, drawn: dict[str, Points], highest: float) -> str:
    """Cut an axis at `highest`, if means or intervals go beyond; mark which means, and how far.

    The limit's line has been drawn, so that the axis has points.
    """
    is_beyond = axes.dataLim.y1 > highest
    peaks = {method: float(np.nanmax(np.nanmean(v, 0))) for method, (_, v) in drawn.items()}
    axes.set_ylim(0, highest)
    beyond = {method: peak for method, peak in peaks.items() if peak > highest}
    for number, method in enumerate(beyond):
        x, values = drawn[method]
        there = np.flatnonzero(np.nanmean(values, 0) > highest)
        in_turn = there[there % len(beyond) == number]  # so that no mark hides another
        marked = x[in_turn if in_turn.size else there[:1]]
        look = {**style(list(TITLES).index(method)), "linestyle": "none", "clip_on": False}
        axes.plot(marked, np.full(len(marked), highest), **look)
    if not is_beyond:
        return ""
    words = ", ".join(f"{TITLES[method]} {peak:.0f}" for method, peak in beyond.items())
    what = f"marks on the edge: means up to\n{words}" if words else "no mean is beyond"
    return f"axis cut at {highest:g}; {what}"


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
                axes.text(number, 0.8, study.absence(task, method), **above, **NOTE)
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
    size = study.size(BOX_SEEDS) + _not_run(study.tasks, DEEP_SWEEP)
    return finish(figure, f"Final policies, every episode of every seed: {size}", handles)


def ablation(study: DeepStudy, name: str) -> Figure:
    """Final return and excess cost against the number of inner batches K, a line for each value.

    The values of K are drawn evenly spaced, and the lines a little apart. Each task has its return
    above, with 0, its excess below; both methods share their axes.
    """
    sweep, field, rows = SWEEPS[name], ABLATIONS[name], study.lines[name]
    values, inner = sweep.settings[field], sweep.settings["inner"]
    recorded = {row["task"] for row in rows}
    tasks = [task for task in planned_tasks(sweep) if task in recorded]
    methods, words, seeds = list(sweep.methods), field.replace("_", " "), list[int]()
    figure = Figure(figsize=(1.5 + 4.0 * len(methods), 1.4 + 4.2 * len(tasks)))
    grid = figure.subplots(2 * len(tasks), len(methods), squeeze=False, sharey="row")
    for (i, task), (j, method) in itertools.product(enumerate(tasks), enumerate(methods)):
        own = [row for row in rows if (row["task"], row["method"]) == (task, method)]
        for axes, quantity in zip(grid[2 * i : 2 * i + 2, j], ("return", "excess")):
            for index, value in enumerate(values):
                line = [row for row in own if row[field] == value and row[quantity] is not None]
                if line:
                    shift = 0.6 / len(values) * (index - (len(values) - 1) / 2)
                    seeds += _draw_line(axes, *_points(line, quantity, inner), index, shift)
            if quantity == "excess":
                axes.axhline(0, **ZERO)
            broken = sum("failed" in row for row in own)
            runs = "run" if broken == 1 else "runs"
            label = f"{task}, {TITLES[method]}" + (f" ({broken} {runs} failed)" if broken else "")
            if not own:
                axes.text(0.5, 0.5, "not run", transform=axes.transAxes, **NOTE)
            panel(axes, label, xlim=(-0.5, len(inner) - 0.5))
            axes.set_xticks(range(len(inner)), [f"{one:g}" for one in inner])
            axes.set_xticks(np.arange(0.5, len(inner) - 1), minor=True)  # between values of K
            axes.tick_params(axis="x", which="minor", length=0)
            axes.grid(visible=False, axis="x", which="major")
            axes.grid(alpha=0.3, axis="x", which="minor")
        grid[2 * i, 0].set_ylabel("final return")
        grid[2 * i + 1, 0].set_ylabel("final cost - limit\n(above 0: violated)")
        drawn = [axes.dataLim.intervaly for axes in grid[2 * i] if axes.has_data()] or [(0, 1)]
        ends = np.array([min(0, *np.ravel(drawn)), max(0, *np.ravel(drawn))])
        grid[2 * i, 0].set_ylim(1.08 * ends)
    for axes in grid[-1]:
        axes.set_xlabel("batches between dual updates, K")
    handles = legend_lines(f"{words} {value:g}" for value in values)
    if kinds := _kinds(seeds):
        bar: dict[str, Any] = {"marker": "" if kinds == BETWEEN[1] else "|", "markersize": 12}
        handles.append(Line2D([], [], label=kinds, color="0.4", linestyle="none", **bar))
    size = budget([row["samples"] for row in rows], seeds, ABLATION_SEEDS)
    title = f"{words.capitalize()} and K: {size}{_not_run(tasks, sweep)}"
    return finish(figure, title, handles, below=LINE / figure.get_figheight())


def _points(rows: Sequence[Row], quantity: str, inner: Sequence[int]) -> Points:
    """Places of K among `inner [n]`, and values `[seeds, n]`, NaN where there is none."""
    seeds = sorted({row["seed"] for row in rows})
    values = np.full((len(seeds), len(inner)), np.nan)
    for row in rows:
        values[seeds.index(row["seed"]), inner.index(row["inner"])] = row[quantity]
    return np.arange(len(inner)), values


def _draw_line(
    axes: Axes, x: np.ndarray, values: np.ndarray, index: int, shift: float
) -> list[int]:
    """Means with bars for their intervals -> of how many seeds each is."""
    seen, means, ends = _mean_and_ends(values)
    axes.plot(x[seen] + shift, means, **style(index))
    bars: dict[str, Any] = {"color": style(index)["color"], "linewidth": 1.0}
    axes.vlines(x[seen] + shift, *ends, **bars)
    return np.count_nonzero(~np.isnan(values[:, seen]), axis=0).tolist()


def _mean_and_ends(values: np.ndarray) -> tuple[np.ndarray, list[float], np.ndarray]:
    """Where `values [seeds, n]` has any `[n]`, their mean, and the ends `[2, .]` of its interval.

    Those of two seeds are the two: the interval is thirteen times as wide as they are apart.
    """
    seen = ~np.isnan(values).all(0)
    columns = [column[~np.isnan(column)] for column in values.T[seen]]
    ends = [
        (min(column), max(column)) if len(column) <= 2 else mean_interval(column)[1:]
        for column in columns
    ]
    return seen, [column.mean() for column in columns], np.transpose(ends)


def _kinds(seeds: Sequence[int]) -> str:
    """What the intervals around means of so many seeds are."""
    return " or ".join(sorted({BETWEEN.get(one, "95% interval") for one in seeds if one}))
