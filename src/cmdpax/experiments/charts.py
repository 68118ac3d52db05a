"""Charts of whole studies: certified error against work, sensitivity to settings, measured rates against proven ones."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.experiments.figures import STYLES

MARKS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">", "p", "h")
FLOOR = 1e-10  # errors below this are drawn at it: rounding


def style(index: int) -> dict[str, Any]:
    """Colour, dashes and a sparse mark for the index-th curve; the marks tell curves apart where colours repeat."""
    return {**STYLES[index % len(STYLES)], "marker": MARKS[index % len(MARKS)], "markersize": 4.5, "linewidth": 1.4}


def curves(
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]], ylabel: str, title: str, marks_every: int = 20
) -> Figure:
    """One panel per problem, one curve per method: (evaluations, error), the error logarithmic and cut off at rounding."""
    figure = Figure(figsize=(5.2 * len(panels) + 2.2, 4.6))
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    for axes, (name, panel) in zip(row, panels.items(), strict=True):
        for label, (work, error) in panel.items():
            index = labels.index(label)
            offset = index * marks_every // max(len(labels), 1)
            axes.plot(work, np.maximum(error, FLOOR), label=label, markevery=(offset, marks_every), **style(index))
        axes.set_yscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("policy-gradient evaluations")
        axes.grid(alpha=0.3)
    row[0].set_ylabel(ylabel)
    handles = [Line2D([], [], label=label, **style(index)) for index, label in enumerate(labels)]
    row[-1].legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def sensitivity(panels: Mapping[str, Mapping[str, Sequence[tuple[float, float, float]]]], tolerance: float, title: str) -> Figure:
    """Final |gap| and violation of every configuration, one line per method; two panels per problem, side by side.

    `panels[problem][method]` lists (gap, violation, worst violation of the last iterates), NaN where it diverged. Filled marks meet
    the tolerance in both and keep to it; hollow ones meet it by the final iterate only; crosses do not.
    """
    labels = list(next(iter(panels.values())))
    figure = Figure(figsize=(13, 1.6 + 0.36 * len(labels) * len(panels)))
    grid = figure.subplots(len(panels), 2, sharex=True, sharey=True, squeeze=False)
    jitter = np.random.default_rng(0)  # only moves marks apart
    for (name, methods), row in zip(panels.items(), grid, strict=True):
        for y, points in enumerate(methods.values()):
            table = np.array(points, dtype=np.float64)
            lost = np.isnan(table).any(1)
            errors = np.abs(table[~lost])
            heights = y + jitter.uniform(-0.25, 0.25, len(errors))
            good = (errors[:, :2] <= tolerance).all(1)
            steady = good & (errors[:, 2] <= tolerance)
            for axes, column in zip(row, (0, 1), strict=True):
                shown = np.clip(errors[:, column], FLOOR, None)
                _strip(axes, shown, heights, steady, good)
                axes.set_title(
                    f"{name}: {('|optimality gap|', 'constraint violation')[column]} of the final iterate", fontsize=10
                )
            text = f"{steady.sum()}/{good.sum()}/{len(table)}" + (f", {lost.sum()} diverged" if lost.any() else "")
            row[1].text(1.01, y, text, transform=row[1].get_yaxis_transform(), va="center", fontsize=8)
        row[1].text(
            1.01, -1.0, "steady/good/all", transform=row[1].get_yaxis_transform(), va="center", fontsize=8, style="italic"
        )
        for axes in row:
            axes.set_xscale("log")
            axes.axvline(tolerance, color="0.4", linewidth=0.8, linestyle=":")
            axes.set_yticks(range(len(labels)), labels)
            axes.set_ylim(len(labels) - 0.4, -0.6)
            axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel(f"error (values below {FLOOR:g} are drawn there); dotted: {tolerance:g}")
    handles = [
        Line2D(
            [], [], marker="o", linestyle="none", color="#0072b2", label=f"gap and violation within {tolerance:g}, last 200 too"
        ),
        Line2D([], [], marker="o", linestyle="none", color="#0072b2", markerfacecolor="white", label="by the final iterate only"),
        Line2D([], [], marker="x", linestyle="none", color="#d55e00", label="not"),
    ]
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.legend(handles=handles, loc="lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def _strip(axes: Axes, x: np.ndarray, y: np.ndarray, steady: np.ndarray, good: np.ndarray) -> None:
    blue, red = "#0072b2", "#d55e00"
    axes.plot(x[~good], y[~good], "x", color=red, markersize=4, alpha=0.8)
    lucky = good & ~steady
    axes.plot(x[lucky], y[lucky], "o", color=blue, markerfacecolor="white", markersize=4.5)
    axes.plot(x[steady], y[steady], "o", color=blue, markersize=4.5)


def rates(panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]], ylabels: Sequence[str], title: str) -> Figure:
    """Measured error (solid, marked) and its proven bound (dashed) against outer iterations, log-log; one panel per quantity."""
    figure = Figure(figsize=(11, 4.2))
    row = figure.subplots(1, len(panels), sharex=True, squeeze=False)[0]
    for axes, ylabel, (name, lines) in zip(row, ylabels, panels.items(), strict=True):
        for index, (label, (measured, bound)) in enumerate(lines.items()):
            t = np.arange(1, len(measured) + 1)
            look = {**style(index), "linestyle": "-"}
            axes.plot(t, np.maximum(measured, 1e-17), label=label, markevery=0.08, **look)
            axes.plot(
                t, bound, color=look["color"], linestyle="--", marker=look["marker"], markevery=0.2, markersize=4, linewidth=1
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("outer iterations T (dual updates)")
        axes.set_ylabel(ylabel)
        axes.grid(alpha=0.3)
    row[0].legend(frameon=False, fontsize=9, title="measured (solid), proven bound (dashed)", title_fontsize=9)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure
