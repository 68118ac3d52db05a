"""Pictures: a policy on its grid, the budget frontier. Readable in black and white.

Every function returns a matplotlib figure; `save` writes it as PNG. Nothing here computes anything
but what it draws.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from PIL import Image

from cmdpax.errors import InputError
from cmdpax.exact.discounted import occupancy
from cmdpax.files import replacing
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.solvers.frontier import FrontierPoint

# colours that stay apart for colour-blind readers, each with a dash pattern so that print without
# colour works too
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072b2", "linestyle": "-"},
    {"color": "#d55e00", "linestyle": "--"},
    {"color": "#009e73", "linestyle": "-."},
    {"color": "#cc79a7", "linestyle": ":"},
    {"color": "#000000", "linestyle": (0, (5, 1))},
    {"color": "#e69f00", "linestyle": (0, (3, 1, 1, 1))},
    {"color": "#56b4e9", "linestyle": (0, (1, 1))},
    {"color": "#7f7f7f", "linestyle": (0, (7, 2, 1, 2))},
)
HAZARD, GOAL = "#f4b6a6", "#b9e3c0"
TABLE_STATES = 60  # without a grid, at most this many states are drawn one by one


def save(figure: Figure, path: str | Path) -> Path:
    """Write a figure as PNG and return where; a reader finds the old picture or the new one, never
    a part of it.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=130, bbox_inches="tight")
    # a palette of 256 colours takes a third of the room and looks the same; the octree keeps rare
    # colours apart
    picture = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE)
    with replacing(path) as file:
        picture.save(file, format="png", optimize=True)
    return path


def plain(text: str) -> str:
    """A caller's name as text: matplotlib would read mathematics between dollar signs."""
    return text.replace("$", r"\$")


def policy_picture(model: CMDP, policy: np.ndarray, title: str = "") -> Figure:
    """A policy `[S, A]` with its occupancy: arrows on the model's grid, or bars per state where
    there is no grid.
    """
    visits = (1 - model.discount) * occupancy(model, policy)
    if model.grid is None:
        return _bars(model, policy, visits, title)
    return _arrows(model, model.grid, policy, visits, title)


def _arrows(model: CMDP, grid: Grid, policy: np.ndarray, visits: np.ndarray, title: str) -> Figure:
    cells = np.array(grid.cells)
    width, height = np.ptp(cells, axis=0) + 1
    figure = Figure(figsize=(min(1.1 * width + 2.2, 14), min(1.1 * height + 1.0, 12)))
    axes = figure.add_subplot()
    shades = matplotlib.colormaps["Greys"]
    top = max(
        float(visits[[s for s in range(len(cells)) if s not in grid.absorbing]].max(initial=0.0)),
        1e-12,
    )
    for s, (x, y) in enumerate(cells):
        marked = HAZARD if s in grid.hazards else GOAL if s in grid.goals else "white"
        hatch = "///" if s in grid.hazards else "..." if s in grid.goals else None
        axes.add_patch(
            Rectangle(
                (x - 0.5, y - 0.5),
                1,
                1,
                facecolor=marked,
                edgecolor="0.55",
                hatch=hatch,
                linewidth=0.8,
                zorder=1,
            )
        )
        # the disc's area is the occupancy; a corner number names the state when there is room
        if s not in grid.absorbing:
            size = np.sqrt(min(float(visits[s]) / top, 1.0)) * 0.42
            axes.add_patch(
                matplotlib.patches.Circle(
                    (x, y), size, facecolor=shades(0.35), edgecolor="none", zorder=2
                )
            )
        if len(cells) <= 100:
            axes.text(
                x - 0.46, y + 0.44, str(s), fontsize=7, ha="left", va="top", color="0.25", zorder=5
            )
        if s in grid.absorbing:
            axes.text(x, y, "end", fontsize=8, ha="center", va="center", zorder=5)
            continue
        for probability, move in zip(policy[s], np.array(grid.moves), strict=True):
            if probability > 0.01 and s not in grid.goals:
                dx, dy = 0.44 * probability * move / max(np.abs(move).max(), 1e-9)
                axes.annotate(
                    "",
                    xy=(x + dx, y + dy),
                    xytext=(x, y),
                    arrowprops={
                        "arrowstyle": "-|>",
                        "color": "#0b3c6f",
                        "lw": 0.8 + probability,
                        "shrinkA": 0,
                        "shrinkB": 0,
                        "mutation_scale": 3 + 7 * probability,
                    },
                    zorder=4,
                )
    axes.set_xlim(cells[:, 0].min() - 0.55, cells[:, 0].max() + 0.55)
    axes.set_ylim(cells[:, 1].min() - 0.55, cells[:, 1].max() + 0.55)
    axes.set_aspect("equal")
    axes.set_xlabel("column x")
    axes.set_ylabel("row y")
    axes.set_xticks(np.unique(cells[:, 0]) if width <= 30 else [])
    axes.set_yticks(np.unique(cells[:, 1]) if height <= 30 else [])
    handles = [
        Rectangle((0, 0), 1, 1, facecolor=HAZARD, edgecolor="0.55", hatch="///", label="hazard"),
        Rectangle((0, 0), 1, 1, facecolor=GOAL, edgecolor="0.55", hatch="...", label="goal"),
        matplotlib.lines.Line2D(
            [],
            [],
            marker="o",
            linestyle="none",
            color=shades(0.35),
            markersize=11,
            label="occupancy (area)",
        ),
        matplotlib.lines.Line2D(
            [],
            [],
            marker=r"$\rightarrow$",
            linestyle="none",
            color="#0b3c6f",
            markersize=13,
            label="probability (length)",
        ),
    ]
    axes.legend(
        handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9
    )
    axes.set_title(plain(title) or "policy and occupancy", fontsize=11)
    return figure


def _bars(model: CMDP, policy: np.ndarray, visits: np.ndarray, title: str) -> Figure:
    """States in order of occupancy, each a stacked bar of action probabilities, with the occupancy
    above.
    """
    chosen = (
        np.sort(np.argsort(-visits)[:TABLE_STATES])
        if model.states > TABLE_STATES
        else np.arange(model.states)
    )
    figure = Figure(figsize=(min(4 + 0.16 * len(chosen), 14), 5))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2])
    place = np.arange(len(chosen))
    above.bar(place, visits[chosen], color="0.45", width=0.9)
    above.set_ylabel("occupancy")
    bottom = np.zeros(len(chosen))
    hatches = ("", "///", "...", "xx", "\\\\", "++", "oo")
    for a in range(model.actions):
        name = model.action_names[a] if model.action_names else f"action {a}"
        below.bar(
            place,
            policy[chosen, a],
            bottom=bottom,
            width=0.9,
            color=STYLES[a % len(STYLES)]["color"],
            hatch=hatches[a % len(hatches)],
            edgecolor="white",
            linewidth=0.3,
            label=plain(name),
        )
        bottom += policy[chosen, a]
    below.set_ylabel("probability of action")
    below.set_ylim(0, 1)
    every = max(1, len(chosen) // 20)
    names = model.state_names
    below.set_xticks(
        place[::every],
        [names[s] if names and len(names[s]) < 12 else str(s) for s in chosen[::every]],
        rotation=60,
        fontsize=7,
    )
    below.set_xlabel(
        "state"
        if len(chosen) == model.states
        else f"state (the {len(chosen)} most visited of {model.states})"
    )
    below.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), frameon=False, fontsize=9)
    above.set_title(plain(title) or "policy and occupancy", fontsize=11)
    return figure


def frontier_picture(
    curve: Sequence[FrontierPoint], name: str, sense: str, current: float | None = None
) -> Figure:
    """Best reward and shadow price against one budget."""
    if not curve:
        raise InputError("frontier: there are no points to draw.")
    figure = Figure(figsize=(10, 3.8))
    left, right = figure.subplots(1, 2)
    budget = [point.threshold for point in curve]
    left.plot(budget, [point.reward for point in curve], marker="o", markersize=3.5, **STYLES[0])
    left.set_ylabel("best reward $V_r^*$")
    right.step(
        budget,
        [point.multiplier for point in curve],
        where="mid",
        marker="o",
        markersize=3.5,
        **STYLES[1],
    )
    right.set_ylabel("shadow price (reward per unit)")
    for axes in (left, right):
        axes.set_xlabel(f"threshold b of '{plain(name)}'  ($V_c$ {sense} b)")
        axes.grid(alpha=0.3)
        if current is not None and min(budget) <= current <= max(budget):
            axes.axvline(current, color="0.4", linestyle=":", linewidth=1)
            axes.annotate(
                "the model's b",
                (current, 0.03),
                xycoords=("data", "axes fraction"),
                fontsize=8,
                rotation=90,
                ha="right",
            )
    figure.suptitle(f"trade-off between reward and '{plain(name)}'", fontsize=11)
    figure.tight_layout()
    return figure
