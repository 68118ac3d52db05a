"""Charts of training runs: learning curves with confidence bands, box plots of final costs,
ablations; the missing is marked.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cmdpax.experiments.statistics import mean_interval
from cmdpax.paper.charts import style

Band = tuple[np.ndarray, np.ndarray]  # x [n], values [seeds, n]


def learning_curves(
    panels: Mapping[str, Mapping[str, Mapping[str, Band]]],
    labels: Sequence[str],
    marks: Mapping[str, Mapping[str, Mapping[str, float]]],
    limit: float,
    title: str,
) -> Figure:
    """`panels[quantity][task][label]`: a row per quantity, a column per task, mean and 95% interval
    over seeds (of two, both).

    `marks[quantity][task][label]` are values to compare with, drawn at the right edge. The row
    named `cost` gets the limit.
    """
    tasks = list(next(iter(panels.values())))
    figure = Figure(figsize=(1.5 + 4.4 * len(tasks), 7.2))
    grid = figure.subplots(len(panels), len(tasks), squeeze=False)
    for (quantity, columns), row in zip(panels.items(), grid):
        for (task, curves), axes in zip(columns.items(), row):
            for label, (x, values) in curves.items():
                _band(axes, x, values, labels.index(label))
            for label, value in marks[quantity][task].items() if curves else ():
                axes.plot([1.0, 1.045], [value] * 2, color=style(labels.index(label))["color"], linewidth=2.2, clip_on=False,
                          transform=axes.get_yaxis_transform())  # fmt: skip
            if quantity == "cost":
                axes.axhline(limit, color="0.25", linewidth=1.0, linestyle="--")
                top = max(
                    (float(np.nanpercentile(values, 99)) for _, values in curves.values()),
                    default=limit,
                )
                axes.set_ylim(0, max(2.5 * limit, min(1.1 * top, 8 * limit)))
            _missing(axes, [label for label in labels if label not in curves], empty=not curves)
            axes.set_title(task, fontsize=10)
            axes.grid(alpha=0.3)
        row[0].set_ylabel(
            {"return": "episode return", "cost": f"episode cost (dashed: limit {limit:g})"}[
                quantity
            ]
        )
    for axes in grid[-1]:
        axes.set_xlabel("samples")
    paper = Line2D([], [], color="0.4", linewidth=2.2, label="paper's final value (right edge)")
    seeds = [len(values) for curves in panels["return"].values() for _, values in curves.values()]
    _legend(figure, labels, [paper, *_shade(seeds)])
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def box_plot(
    panels: Mapping[str, Mapping[str, Sequence[np.ndarray]]], labels: Sequence[str], title: str
) -> Figure:
    """`panels[task][label]` holds, for every seed, the excess costs of its episodes; boxes are over
    all episodes.

    Triangles are means and orange lines medians, as in the paper; grey dots are the seeds' means.
    """
    median = {"color": "#e69f00", "linewidth": 1.8}
    mean = {
        "marker": "^",
        "markerfacecolor": "#009e73",
        "markeredgecolor": "#009e73",
        "markersize": 7,
    }
    dots: dict[str, Any] = {"marker": ".", "linestyle": "none", "color": "0.45", "markersize": 5}
    figure = Figure(figsize=(1.2 + 3.7 * len(panels), 4.5))
    for axes, (task, methods) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items()
    ):
        for place, label in enumerate(labels, 1):
            if label not in methods:
                axes.text(place, 0.8, "no records", rotation=90, ha="center", va="center", color="0.5", fontsize=8,
                          transform=axes.get_xaxis_transform())  # fmt: skip
                continue
            seeds = methods[label]
            axes.boxplot(
                [np.concatenate(seeds)],
                positions=[place],
                widths=0.55,
                showmeans=True,
                medianprops=median,
                meanprops=mean,
                flierprops={"marker": ".", "markersize": 3, "markeredgecolor": "0.5"},
            )
            axes.plot([place + 0.38] * len(seeds), [one.mean() for one in seeds], **dots)
        axes.axhline(0, color="0.25", linewidth=1.0, linestyle="--")
        if not methods:
            axes.set_yticks([])
        axes.set_xlim(0.4, len(labels) + 0.6)
        axes.set_xticks(range(1, len(labels) + 1), labels, rotation=20, fontsize=9)
        axes.set_title(task, fontsize=10)
        axes.grid(alpha=0.3, axis="y")
    figure.axes[0].set_ylabel("cost - limit of the final policy\n(above 0: violated)")
    looks: dict[str, dict[str, Any]] = {
        "median": median,
        "mean": {**mean, "linestyle": "none"},
        "mean of a seed": dots,
    }
    _legend(figure, [], [Line2D([], [], label=name, **look) for name, look in looks.items()])
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    return figure


def ablation(
    panels: Mapping[tuple[str, str], Mapping[str, Mapping[float, Band]]], rows: Sequence[str], columns: Sequence[str],
    field: str, values: Sequence[float], inner: Sequence[int], title: str,
) -> Figure:  # fmt: skip
    """`panels[row, column][quantity][value]`: final return and excess cost against the number of
    inner batches, a line per value.

    `x` of a band are some of the `inner` batches, drawn evenly spaced; each row of panels has its
    return above and its excess cost below.
    """
    figure = Figure(figsize=(1.5 + 4.0 * len(columns), 1.2 + 4.2 * len(rows)))
    grid = figure.subplots(2 * len(rows), len(columns), squeeze=False)
    labels = [f"{field} {value:g}" for value in values]
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            for axes, quantity in zip(grid[2 * i : 2 * i + 2, j], ("return", "excess")):
                curves = panels.get((row, column), {}).get(quantity, {})
                for value, (x, points) in curves.items():
                    _band(
                        axes, np.searchsorted(inner, x), points, list(values).index(value), every=1
                    )
                axes.set_xlim(-0.3, len(inner) - 0.7)
                axes.set_xticks(range(len(inner)), [f"{one:g}" for one in inner])
                if quantity == "excess":
                    axes.axhline(0, color="0.25", linewidth=1.0, linestyle="--")
                if not curves:
                    _missing(axes, [], empty=True)
                axes.set_title(f"{row}, {column}", fontsize=9)
                axes.grid(alpha=0.3)
        grid[2 * i, 0].set_ylabel("final return")
        grid[2 * i + 1, 0].set_ylabel("final cost - limit\n(above 0: violated)")
    for axes in grid[-1]:
        axes.set_xlabel("batches between dual updates, K")
    _legend(
        figure,
        labels,
        _shade(
            [len(points) for panel in panels.values() for _, points in panel["return"].values()]
        ),
    )
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    return figure


def _band(axes: Axes, x: np.ndarray, values: np.ndarray, index: int, every: int = 12) -> None:
    """Mean of `values [seeds, n]` with its 95% interval; of two seeds, whose interval is thirteen
    times as wide, the two.
    """
    seen = ~np.isnan(values).all(0)
    columns = [column[~np.isnan(column)] for column in values.T[seen]]
    look: dict[str, Any] = {**style(index), "markevery": every}
    axes.plot(x[seen], [column.mean() for column in columns], **look)
    if len(values) > 1:
        intervals = [mean_interval(column) for column in columns]
        ends = (
            [(one.low, one.high) for one in intervals]
            if len(values) > 2
            else [(min(one), max(one)) for one in columns]
        )
        axes.fill_between(
            x[seen], *np.transpose(ends), color=look["color"], alpha=0.18, linewidth=0
        )


def _shade(seeds: Sequence[int]) -> list[Patch]:
    """What the bands of curves with so many seeds are."""
    words = [
        *(["95% interval"] if max(seeds, default=0) > 2 else []),
        *(["both seeds"] if 2 in seeds else []),
    ]
    return [Patch(color="0.4", alpha=0.25, label=" or ".join(words))] if words else []


def _missing(axes: Axes, labels: Sequence[str], empty: bool) -> None:
    """Say what a panel lacks; an empty one has no scale either."""
    if empty:
        axes.text(
            0.5, 0.5, "no records", transform=axes.transAxes, ha="center", va="center", color="0.5"
        )
        axes.set_xticks([])
        axes.set_yticks([])
    elif labels:
        axes.text(
            0.03,
            0.97,
            f"no records: {', '.join(labels)}",
            transform=axes.transAxes,
            va="top",
            fontsize=8,
            color="0.4",
        )


def _legend(figure: Figure, labels: Sequence[str], more: Sequence[Artist]) -> None:
    handles = [Line2D([], [], label=label, **style(index)) for index, label in enumerate(labels)]
    figure.legend(
        handles=[*handles, *more],
        loc="lower center",
        ncols=len(handles) + len(more),
        frameon=False,
        fontsize=9,
    )
