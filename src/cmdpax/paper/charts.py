"""Charts of whole studies: certified error against work, sensitivity to settings, measured rates
against proven ones.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.experiments.pictures import STYLES

MARKS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">", "p", "h")
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]  # evaluations, signed gap, signed violation
FLOOR = 1e-10  # errors below this are drawn at it: rounding


def style(index: int) -> dict[str, Any]:
    """Colour, dashes and a sparse mark for the index-th curve; where colours repeat, dashes and
    marks differ.
    """
    colour, dashes = (
        STYLES[index % len(STYLES)],
        STYLES[(index + 3 * (index // len(STYLES))) % len(STYLES)],
    )
    mark = {"marker": MARKS[index % len(MARKS)], "markersize": 4.5, "linewidth": 1.4}
    return {"color": colour["color"], "linestyle": dashes["linestyle"], **mark}


def side_by_side(
    curves: Mapping[str, Curve], title: str, limit: float, reference: float | None = None
) -> Figure:
    """One column per method: signed gap above, signed violation below, on shared axes; the grey
    band is within `limit`.

    `reference` is a gap to mark in the upper row, that of the best policy in a class. Axes are
    linear near zero and logarithmic beyond, so that oscillation across zero shows.
    """
    figure = Figure(figsize=(1.2 + 1.75 * len(curves), 4.6))
    grid = figure.subplots(2, len(curves), sharex=True, sharey="row", squeeze=False)
    for column, (name, (steps, gap, violation)) in zip(grid.T, curves.items(), strict=True):
        for axes, errors in zip(column, (gap, violation), strict=True):
            axes.axhspan(-limit, limit, color="0.85", linewidth=0)
            axes.axhline(0, color="0.4", linewidth=0.8)
            axes.plot(steps, errors, color=STYLES[0]["color"], linewidth=1.1)
            axes.set_yscale("symlog", linthresh=1e-3, linscale=0.6)
            axes.grid(alpha=0.3)
        if reference is not None:
            column[0].axhline(reference, color="black", linewidth=1.0, linestyle="--")
        column[0].set_title(name, fontsize=9)
    grid[0][0].set_ylabel(r"gap  $V_r^* - V_r^{\pi}$")
    grid[1][0].set_ylabel(r"violation  $b - V_c^{\pi}$")
    figure.supxlabel("policy-gradient evaluations", fontsize=10)
    dashed = "" if reference is None else "; dashed: best policy in the class"
    figure.suptitle(f"{title} (grey: within {limit:g} of zero{dashed})", fontsize=11)
    figure.tight_layout()
    return figure


def curves(
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]],
    ylabel: str,
    title: str,
    marks_every: int = 20,
) -> Figure:
    """One panel per problem, one curve per method: (evaluations, error), the error logarithmic and
    cut off at rounding.
    """
    figure = Figure(figsize=(5.2 * len(panels) + 2.2, 4.6))
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for panel in panels.values() for label in panel))
    for axes, (name, panel) in zip(row, panels.items(), strict=True):
        for label, (work, error) in panel.items():
            index = labels.index(label)
            offset = index * marks_every // max(len(labels), 1)
            axes.plot(
                work,
                np.maximum(error, FLOOR),
                label=label,
                markevery=(offset, marks_every),
                **style(index),
            )
        axes.set_yscale("log")
        axes.set_title(name, fontsize=10)
        axes.set_xlabel("policy-gradient evaluations")
        axes.grid(alpha=0.3)
    row[0].set_ylabel(ylabel)
    handles = [Line2D([], [], label=label, **style(index)) for index, label in enumerate(labels)]
    row[-1].legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9
    )
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    return figure


def sensitivity(
    panels: Mapping[str, Mapping[str, np.ndarray]], tolerance: float, title: str
) -> Figure:
    """Final |gap| and violation of every configuration, one line per method; two panels per
    problem, side by side.

    `panels[problem][method]` is an array `[n, 4]` of gap, violation, and the worst of either among
    the last iterates, NaN where it diverged. Filled marks meet the tolerance in both and keep to
    it; hollow ones do by the final iterate only; crosses do not.
    """
    labels = list(next(iter(panels.values())))
    figure = Figure(figsize=(13, 1.6 + 0.36 * len(labels) * len(panels)))
    grid = figure.subplots(len(panels), 2, sharex=True, sharey=True, squeeze=False)
    jitter = np.random.default_rng(0)  # only moves marks apart
    for (name, methods), row in zip(panels.items(), grid, strict=True):
        for y, points in enumerate(methods.values()):
            lost = np.isnan(points).any(1)
            errors = np.abs(points[~lost])
            heights = y + jitter.uniform(-0.25, 0.25, len(errors))
            good = errors[:, :2].max(1) <= tolerance
            steady = good & (errors[:, 2:].max(1) <= tolerance)
            for axes, column in zip(row, (0, 1), strict=True):
                shown = np.clip(errors[:, column], FLOOR, None)
                _strip(axes, shown, heights, steady, good)
                axes.set_title(
                    f"{name}: {('|optimality gap|', 'constraint violation')[column]} of the final"
                    " iterate",
                    fontsize=10,
                )
            text = f"{steady.sum()}/{good.sum()}/{len(points)}" + (
                f", {lost.sum()} diverged" if lost.any() else ""
            )
            row[1].text(
                1.01, y, text, transform=row[1].get_yaxis_transform(), va="center", fontsize=8
            )
        row[1].text(
            1.01,
            -1.0,
            "steady/good/all",
            transform=row[1].get_yaxis_transform(),
            va="center",
            fontsize=8,
            style="italic",
        )
        for axes in row:
            axes.set_xscale("log")
            axes.axvline(tolerance, color="0.4", linewidth=0.8, linestyle=":")
            axes.set_yticks(range(len(labels)), labels)
            axes.set_ylim(len(labels) - 0.4, -0.6)
            axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel(f"error (what is below {FLOOR:g} is drawn there); dotted: {tolerance:g}")
    handles = [
        Line2D(
            [],
            [],
            marker="o",
            linestyle="none",
            color="#0072b2",
            label=f"gap and violation within {tolerance:g}, last 200 too",
        ),
        Line2D(
            [],
            [],
            marker="o",
            linestyle="none",
            color="#0072b2",
            markerfacecolor="white",
            label="by the final iterate only",
        ),
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


Line = tuple[np.ndarray, np.ndarray, np.ndarray]  # iterations, measured error, its bound


def rates(panels: Mapping[str, Mapping[str, Mapping[str, Line]]], title: str) -> Figure:
    """Measured errors (solid) and their proven bounds (dashed) against outer iterations, log-log.

    `panels[problem][quantity][label]`: a row of panels per problem, a column per quantity.
    """
    quantities = list(next(iter(panels.values())))
    figure = Figure(figsize=(11, 1.0 + 3.3 * len(panels)))
    grid = figure.subplots(len(panels), len(quantities), sharex=True, sharey=True, squeeze=False)
    for (name, columns), row in zip(panels.items(), grid, strict=True):
        for axes, (quantity, lines) in zip(row, columns.items(), strict=True):
            for index, (label, (t, measured, bound)) in enumerate(lines.items()):
                look = {**style(index), "linestyle": "-"}
                axes.plot(t, np.maximum(measured, FLOOR), label=label, markevery=4, **look)
                axes.plot(
                    t, bound, markevery=8, **{**look, "linestyle": "--", "markerfacecolor": "white"}
                )
            axes.set_xscale("log")
            axes.set_yscale("log")
            axes.minorticks_off()
            axes.set_title(name, fontsize=10)
            axes.set_ylabel(quantity)
            axes.grid(alpha=0.3)
    for axes in grid[-1]:
        axes.set_xlabel("outer iterations T (dual updates)")
    handles, _ = grid[0][0].get_legend_handles_labels()
    kinds = [
        Line2D([], [], color="0.3", label="measured"),
        Line2D([], [], color="0.3", linestyle="--", label="proven bound"),
    ]
    figure.suptitle(title, fontsize=11)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.legend(
        handles=[*handles, *kinds],
        loc="lower center",
        ncols=len(handles) + 2,
        frameon=False,
        fontsize=9,
    )
    return figure
