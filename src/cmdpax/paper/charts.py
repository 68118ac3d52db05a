"""Charts of exact studies: gap and violation, certified error, sensitivity, measured rates."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.experiments.pictures import LEGEND, STYLES
from cmdpax.model.result import Trajectory

MARKS = ("o", "s", "^", "v", "D", "P", "X", "*", "<", ">", "p", "h")
FLOOR = 1e-10  # errors below this are drawn at it: rounding
WORK = "policy-gradient evaluations"
GAP, VIOLATION = r"gap  $V_r^* - V_r^{\pi}$", r"violation  $b - V_c^{\pi}$"
# linear near zero and logarithmic beyond, so that an oscillation across zero shows
LINEAR = 1e-3
SIGNED: dict[str, Any] = {"value": "symlog", "linthresh": LINEAR, "linscale": 0.6}
SCALE = f"axis linear within {LINEAR:g} of zero, logarithmic beyond"
BESIDE = {**LEGEND, "fontsize": 9}
COLUMNS = 5  # of a legend below a figure
# configurations within the tolerance to the last, by their final iterate only, and not
STEADY: dict[str, Any] = {"marker": "o", "color": "#0072b2", "linestyle": "none"}
LUCKY = {**STEADY, "markerfacecolor": "white"}
BAD: dict[str, Any] = {"marker": "x", "color": "#d55e00", "linestyle": "none"}
Curve = tuple[np.ndarray, np.ndarray, np.ndarray]  # evaluations, signed gap, signed violation
Line = tuple[np.ndarray, np.ndarray, np.ndarray]  # iterations, measured error, its bound


def style(index: int) -> dict[str, Any]:
    """Colour, dashes and a mark of the index-th curve; twelve of them differ in all three."""
    mark = {"marker": MARKS[index % len(MARKS)], "markersize": 4.5}
    return {**STYLES[index % len(STYLES)], "linewidth": 1.4, **mark}


def legend_lines(labels: Iterable[str]) -> list[Line2D]:
    """Handles of a legend: the looks of the first curves."""
    return [Line2D([], [], label=label, **style(index)) for index, label in enumerate(labels)]


def panel(axes: Axes, title: str = "", **words: Any) -> None:
    """Title, grid, and whatever else `axes.set` takes: `xlabel`, `ylabel`, `yscale`."""
    axes.set(**words)
    axes.set_title(title, fontsize=10)
    axes.grid(alpha=0.3)


def finish(figure: Figure, title: str, handles: Sequence[Any] = (), below: float = 0.05) -> Figure:
    """Title, layout and a legend of `handles`, each line a share `below` of the height."""
    figure.suptitle(title, fontsize=11)
    lines = -(-len(handles) // COLUMNS)
    figure.tight_layout(rect=(0, below * lines, 1, 1) if handles else None)
    if handles:
        place: dict[str, Any] = {"loc": "lower center", "ncols": -(-len(handles) // lines)}
        figure.legend(handles=handles, frameon=False, fontsize=9, **place)
    return figure


def comparison(runs: Mapping[str, Trajectory], optimum: float, title: str) -> Figure:
    """Gap and violation of unbatched trajectories against evaluations, on signed axes."""
    figure = Figure(figsize=(10, 3.8))
    left, right = figure.subplots(1, 2)
    for (name, run), look in zip(runs.items(), STYLES):
        steps = np.arange(len(run.rewards))
        left.plot(steps, optimum - run.rewards, label=name, linewidth=1.6, **look)
        right.plot(steps, -run.margins.min(-1), label=name, linewidth=1.6, **look)
    for axes, text in ((left, f"optimality {GAP}"), (right, f"constraint {VIOLATION}")):
        axes.set_yscale(**SIGNED)
        axes.axhline(0, color="0.4", linewidth=0.8)
        panel(axes, xlabel=WORK, ylabel=text)
    left.legend(frameon=False, fontsize=9)
    return finish(figure, f"{title}\n({SCALE})")


def side_by_side(
    curves: Mapping[str, Curve], title: str, tolerance: float, reference: float | None = None
) -> Figure:
    """One column per method: signed gap above, signed violation below, on shared axes.

    Keys are headings of columns: the method, and its settings. The grey band is within `tolerance`
    of zero. `reference` is a gap to mark in the upper row: that of the best policy in a class.
    """
    figure = Figure(figsize=(1.2 + 1.75 * len(curves), 5.2))
    grid = figure.subplots(2, len(curves), sharex=True, sharey="row", squeeze=False)
    for column, (name, (steps, *both)) in zip(grid.T, curves.items()):
        for axes, errors in zip(column, both):
            axes.axhspan(-tolerance, tolerance, color="0.85", linewidth=0)
            axes.axhline(0, color="0.4", linewidth=0.8)
            axes.plot(steps, errors, color=STYLES[0]["color"], linewidth=1.1)
            axes.set_yscale(**SIGNED)
            axes.grid(alpha=0.3)
        if reference is not None:
            column[0].axhline(reference, color="black", linewidth=1.0, linestyle="--")
        column[0].set_title(name, fontsize=8)
    grid[0][0].set_ylabel(GAP)
    grid[1][0].set_ylabel(VIOLATION)
    figure.supxlabel(WORK, fontsize=10)
    dashed = "" if reference is None else "; dashed: best policy in the class"
    return finish(figure, f"{title}\n(grey: within {tolerance:g} of zero{dashed}; {SCALE})")


def curves(
    panels: Mapping[str, Mapping[str, tuple[np.ndarray, np.ndarray]]], ylabel: str, title: str
) -> Figure:
    """`panels[problem][method]`: (evaluations, error), the error logarithmic, cut off at FLOOR."""
    figure = Figure(figsize=(5.2 * len(panels) + 2.2, 4.6))
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    labels = list(dict.fromkeys(label for methods in panels.values() for label in methods))
    for axes, (name, methods) in zip(row, panels.items()):
        for label, (work, error) in methods.items():
            index = labels.index(label)
            marks = (20 * index // len(labels), 20)  # the first, and how far apart
            axes.plot(work, np.maximum(error, FLOOR), label=label, markevery=marks, **style(index))
        panel(axes, name, xlabel=WORK, yscale="log")
    row[0].set_ylabel(ylabel)
    row[-1].legend(handles=legend_lines(labels), **BESIDE)
    return finish(figure, title)


def sensitivity(
    panels: Mapping[str, Mapping[str, np.ndarray]], tolerance: float, title: str
) -> Figure:
    """Final |gap| and violation of every configuration, a line per method, two panels per problem.

    `panels[problem][method]` is an array `[n, 4]` of gap, violation, and the worst of either among
    the last iterates, NaN where it diverged. Filled marks meet the tolerance in both and keep to
    it; hollow ones do by the final iterate only; crosses do not.
    """
    labels = list(next(iter(panels.values())))
    figure = Figure(figsize=(13, 1.6 + 0.36 * len(labels) * len(panels)))
    grid = figure.subplots(len(panels), 2, sharex=True, sharey=True, squeeze=False)
    jitter = np.random.default_rng(0)  # only moves marks apart
    for (name, methods), row in zip(panels.items(), grid):
        aside: dict[str, Any] = {"transform": row[1].get_yaxis_transform(), "va": "center"}
        for y, points in enumerate(methods.values()):
            lost = np.isnan(points).any(1)
            errors = np.abs(points[~lost])
            heights = y + jitter.uniform(-0.25, 0.25, len(errors))
            good = errors[:, :2].max(1) <= tolerance
            steady = good & (errors[:, 2:].max(1) <= tolerance)
            for axes, column in zip(row, errors.T):
                _strip(axes, np.clip(column, FLOOR, None), heights, steady, good)
            share = f"{steady.sum()}/{good.sum()}/{len(points)}"
            diverged = f", {lost.sum()} diverged" if lost.any() else ""
            row[1].text(1.01, y, share + diverged, fontsize=8, **aside)
        row[1].text(1.01, -1.0, "steady/good/all", style="italic", fontsize=8, **aside)
        for axes, error in zip(row, ("|optimality gap|", "constraint violation")):
            axes.axvline(tolerance, color="0.4", linewidth=0.8, linestyle=":")
            axes.set_yticks(range(len(labels)), labels)
            axes.set_ylim(len(labels) - 0.4, -0.6)
            panel(axes, f"{name}: {error} of the final iterate", xscale="log")
    for axes in grid[-1]:
        axes.set_xlabel(f"error (what is below {FLOOR:g} is drawn there); dotted: {tolerance:g}")
    looks = {
        f"gap and violation within {tolerance:g}, last 200 too": STEADY,
        "by the final iterate only": LUCKY,
        "not": BAD,
    }
    handles = [Line2D([], [], label=label, **look) for label, look in looks.items()]
    return finish(figure, title, handles)


def _strip(axes: Axes, x: np.ndarray, y: np.ndarray, steady: np.ndarray, good: np.ndarray) -> None:
    """Marks of one method's configurations; the steady ones are drawn last."""
    lucky = good & ~steady
    axes.plot(x[~good], y[~good], markersize=4, alpha=0.8, **BAD)
    axes.plot(x[lucky], y[lucky], markersize=4.5, **LUCKY)
    axes.plot(x[steady], y[steady], markersize=4.5, **STEADY)


def rates(panels: Mapping[str, Mapping[str, Mapping[str, Line]]], title: str) -> Figure:
    """Measured errors (solid) and their proven bounds (dashed) against outer iterations, log-log.

    `panels[problem][quantity][label]`: a row of panels per problem, a column per quantity.
    """
    quantities = list(next(iter(panels.values())))
    figure = Figure(figsize=(11, 1.0 + 3.3 * len(panels)))
    grid = figure.subplots(len(panels), len(quantities), sharex=True, sharey=True, squeeze=False)
    for (name, columns), row in zip(panels.items(), grid):
        for axes, (quantity, lines) in zip(row, columns.items()):
            for index, (label, (t, measured, bound)) in enumerate(lines.items()):
                look = {**style(index), "linestyle": "-"}
                axes.plot(t, np.maximum(measured, FLOOR), label=label, markevery=4, **look)
                look |= {"linestyle": "--", "markerfacecolor": "white"}
                axes.plot(t, bound, markevery=8, **look)
            panel(axes, name, ylabel=quantity, xscale="log", yscale="log")
            axes.minorticks_off()
    for axes in grid[-1]:
        axes.set_xlabel("outer iterations T (dual updates)")
    handles, _ = grid[0][0].get_legend_handles_labels()
    handles.append(Line2D([], [], color="0.3", label="measured"))
    handles.append(Line2D([], [], color="0.3", linestyle="--", label="proven bound"))
    return finish(figure, title, handles)
