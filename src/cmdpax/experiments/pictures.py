"""Pictures: a policy on its grid, the budget frontier; a saved PNG.

Readable in black and white. Every function returns a matplotlib figure; `save` writes it. Nothing
here computes anything but what it draws.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle
from matplotlib.tri import Triangulation
from PIL import Image

from cmdpax.errors import InputError
from cmdpax.exact.standard import StandardForm
from cmdpax.files import replacing
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.model.result import FrontierPoint, FrontierRegion

# colours that colour-blind readers tell apart, each with a dash pattern for print without colour
STYLES: tuple[dict[str, Any], ...] = (
    {"color": "#0072b2", "linestyle": "-"},
    {"color": "#d55e00", "linestyle": "--"},
    {"color": "#009e73", "linestyle": "-."},
    {"color": "#cc79a7", "linestyle": ":"},
    {"color": "#000000", "linestyle": (0, (5, 1))},
    {"color": "#e69f00", "linestyle": (0, (3, 1, 1, 1))},
    {"color": "#56b4e9", "linestyle": (0, (1, 1))},
    {"color": "#7f7f7f", "linestyle": (0, (7, 2, 1, 2))},
    {"color": "#8c510a", "linestyle": (0, (9, 2))},
    {"color": "#5e3c99", "linestyle": (0, (4, 1, 1, 1, 1, 1))},
    {"color": "#80b918", "linestyle": (0, (2, 2))},
    {"color": "#a50026", "linestyle": (0, (6, 1, 2, 1))},
)
HATCHES = ("", "///", "...", "xx", "\\\\", "++", "oo")
HAZARD: dict[str, Any] = {"facecolor": "#f4b6a6", "hatch": "///"}
GOAL: dict[str, Any] = {"facecolor": "#b9e3c0", "hatch": "..."}
ARROW, EDGE = "#0b3c6f", "0.55"
LEGEND: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False}
FAINTEST = 1e-6  # share of the largest visits below which shades are the same
MANY_CELLS = 900  # more than these are drawn by one arrow each
TABLE_STATES = 60  # without a grid, at most this many states are drawn one by one


def save(figure: Figure, path: Path) -> Path:
    """Write a figure as PNG and return where; a reader finds the old picture or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=130, bbox_inches="tight")
    # 256 colours take a third of the room and look the same; the octree keeps rare ones apart
    picture = Image.open(drawn).convert("RGB").quantize(256, Image.Quantize.FASTOCTREE)
    with replacing(path) as file:
        picture.save(file, format="png", optimize=True)
    return path


def escape_math(text: str) -> str:
    """A caller's name as text: matplotlib would read mathematics between dollar signs."""
    return text.replace("$", r"\$")


def policy_picture(
    model: CMDP, policy: np.ndarray, title: str = "", *, heat: bool = False
) -> Figure:
    """A policy `[S, A]` with its occupancy: arrows on the model's grid, or bars without one.

    With a horizon, `[H, S, A]`: how often each action is taken at each time. heat: whether the
    visits stand beside the arrows as a heat map.
    """
    form = StandardForm.of(model)
    missing = model.policy_shape[-1] - policy.shape[-1]  # actions that no policy of a mixture takes
    policy = np.pad(policy, [(0, 0)] * (policy.ndim - 1) + [(0, missing)])
    visits = form.criterion.share(form, form.heard(model.by_choice(policy)))
    title = escape_math(title) or "policy and occupancy"
    if model.horizon is not None:
        visits = visits[: -policy.shape[1]].reshape(policy.shape[:2])
        total = np.maximum(visits.sum(1), np.finfo(float).tiny)
        taken = np.einsum("ts,tsa->ta", visits, policy) / total[:, None]
        return _bars(model, taken, visits.sum(1), title, "time")
    if model.grid is not None:
        return _arrows(model.grid, policy, visits, title, heat)
    return _bars(model, policy, visits, title)


def _heat_map(figure: Figure, axes: Any, grid: Grid, visits: np.ndarray) -> None:
    """Visits `[S]` as shades of cells, on a logarithmic scale: they span orders of magnitude."""
    cells = np.array(grid.cells)
    first = cells.min(0)
    width, height = (np.ptp(cells, axis=0) + 1).astype(int)
    table = np.full((height, width), np.nan)
    x, y = (cells - first).astype(int).T
    inner = np.array([s not in grid.absorbing for s in range(len(cells))])
    shades = np.maximum(visits, FAINTEST * visits[inner].max())
    table[y, x] = np.where(inner, shades, np.nan)
    look: dict[str, Any] = {"cmap": "viridis", "norm": "log", "origin": "lower"}
    edges = (first[0] - 0.5, first[0] + width - 0.5, first[1] - 0.5, first[1] + height - 0.5)
    image = axes.imshow(table, extent=edges, **look)
    bar = figure.colorbar(image, ax=axes, fraction=0.046, pad=0.03)
    bar.set_label("share of visits")
    axes.set(aspect="equal", xlabel="column x", title="visits")


def _arrows(
    grid: Grid, policy: np.ndarray, visits: np.ndarray, title: str, heat: bool = False
) -> Figure:
    cells = np.array(grid.cells)
    width, height = np.ptp(cells, axis=0) + 1
    size = min(1.1 * width + 2.2, 14), min(1.1 * height + 1.0, 12)
    figure = Figure(figsize=(2 * size[0], size[1]) if heat else size)
    axes = figure.add_subplot(1, 2, 1) if heat else figure.add_subplot()
    if heat:
        _heat_map(figure, figure.add_subplot(1, 2, 2), grid, visits)
    shade = matplotlib.colormaps["Greys"](0.35)
    inner = [s for s in range(len(cells)) if s not in grid.absorbing]
    most = max(float(visits[inner].max(initial=0.0)), 1e-12)
    if len(cells) > MANY_CELLS:  # one arrow each: where the policy goes on average
        steps = policy @ np.array(grid.moves)
        axes.quiver(*cells[inner].T, *steps[inner].T, color=ARROW, angles="xy", pivot="mid")
    for s, (x, y) in enumerate(cells if len(cells) <= MANY_CELLS else []):
        look = HAZARD if s in grid.hazards else GOAL if s in grid.goals else {"facecolor": "white"}
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, edgecolor=EDGE, linewidth=0.8, **look))
        if len(cells) <= 100:  # a corner number names the state when there is room
            corner: dict[str, Any] = {"ha": "left", "va": "top", "color": "0.25", "zorder": 5}
            axes.text(x - 0.46, y + 0.44, str(s), fontsize=7, **corner)
        if s in grid.absorbing:
            axes.text(x, y, "end", fontsize=8, ha="center", va="center", zorder=5)
            continue
        radius = np.sqrt(min(float(visits[s]) / most, 1.0)) * 0.42  # the area is the occupancy
        axes.add_patch(Circle((x, y), radius, facecolor=shade, edgecolor="none", zorder=2))
        for probability, move in zip(policy[s], np.array(grid.moves), strict=True):
            if probability > 0.01 and s not in grid.goals:
                dx, dy = 0.44 * probability * move / max(np.abs(move).max(), 1e-9)
                look = {"color": ARROW, "lw": 0.8 + probability, "arrowstyle": "-|>"}
                look |= {"shrinkA": 0, "shrinkB": 0, "mutation_scale": 3 + 7 * probability}
                axes.annotate("", (x + dx, y + dy), (x, y), arrowprops=look, zorder=4)
    axes.set_xlim(cells[:, 0].min() - 0.55, cells[:, 0].max() + 0.55)
    axes.set_ylim(cells[:, 1].min() - 0.55, cells[:, 1].max() + 0.55)
    axes.set(aspect="equal", xlabel="column x", ylabel="row y")
    if max(width, height) <= 30:  # each cell has a number
        axes.set(xticks=np.unique(cells[:, 0]), yticks=np.unique(cells[:, 1]))
    disc: dict[str, Any] = {"marker": "o", "color": shade, "markersize": 11}
    arrow: dict[str, Any] = {"marker": r"$\rightarrow$", "color": ARROW, "markersize": 13}
    handles = [
        Rectangle((0, 0), 1, 1, edgecolor=EDGE, label="hazard", **HAZARD),
        Rectangle((0, 0), 1, 1, edgecolor=EDGE, label="goal", **GOAL),
        Line2D([], [], linestyle="none", label="occupancy (area)", **disc),
        Line2D([], [], linestyle="none", label="probability (length)", **arrow),
    ]
    if len(cells) > MANY_CELLS:
        handles = [Line2D([], [], linestyle="none", label="mean direction", **arrow)]
    below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.08), "ncols": 4}
    axes.legend(handles=handles, fontsize=9, **({**LEGEND, **below} if heat else LEGEND))
    axes.set_title(title, fontsize=11)
    return figure


def _bars(
    model: CMDP, policy: np.ndarray, visits: np.ndarray, title: str, unit: str = "state"
) -> Figure:
    """Action probabilities of the most visited states as stacked bars, with occupancies above.

    unit: what a bar stands for, a state or a time.
    """
    chosen = np.sort(np.argsort(-visits)[:TABLE_STATES])
    figure = Figure(figsize=(min(4 + 0.16 * len(chosen), 14), 5))
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[1, 2])
    place, bottom = np.arange(len(chosen)), np.zeros(len(chosen))
    above.bar(place, visits[chosen], color="0.45", width=0.9)
    above.set_ylabel("occupancy")
    for a in range(model.actions):
        look: dict[str, Any] = {
            "color": STYLES[a % len(STYLES)]["color"],
            "hatch": HATCHES[a % len(HATCHES)],
            "label": escape_math(model.action_labels[a]),
        }
        heights = policy[chosen, a]
        below.bar(place, heights, 0.9, bottom, edgecolor="white", linewidth=0.3, **look)
        bottom += heights
    below.set(ylabel="probability of action", ylim=(0, 1))
    every, names = max(1, len(chosen) // 20), model.state_names if unit == "state" else None
    labels = [names[s] if names and len(names[s]) < 12 else str(s) for s in chosen[::every]]
    below.set_xticks(place[::every], labels, rotation=60, fontsize=7)
    few = f"{unit} (the {len(chosen)} most visited of {len(visits)})"
    below.set_xlabel(unit if len(chosen) == len(visits) else few)
    below.legend(fontsize=9, **LEGEND)
    above.set_title(title, fontsize=11)
    return figure


def frontier_picture(
    curve: Sequence[FrontierPoint], name: str, sense: str, current: float | None = None
) -> Figure:
    """Best reward and shadow price against the budget `name`; `current` is the model's own."""
    if not curve:
        raise InputError("frontier: there are no points to draw.")
    figure, name = Figure(figsize=(10, 3.8)), escape_math(name)
    left, right = figure.subplots(1, 2)
    budget = [point.threshold for point in curve]
    dots: dict[str, Any] = {"marker": "o", "markersize": 3.5}
    left.plot(budget, [point.reward for point in curve], **dots, **STYLES[0])
    left.set_ylabel("best reward $V_r^*$")
    # a breakpoint has the price of the side before it
    where = "pre" if any(point.is_breakpoint for point in curve) else "mid"
    right.step(budget, [point.multiplier for point in curve], where=where, **dots, **STYLES[1])
    right.set_ylabel("shadow price (reward per unit)")
    for axes in (left, right):
        axes.set_xlabel(f"threshold b of '{name}'  ($V_c$ {sense} b)")
        axes.grid(alpha=0.3)
        if current is not None and min(budget) <= current <= max(budget):
            axes.axvline(current, color="0.4", linestyle=":", linewidth=1)
            frame = ("data", "axes fraction")
            place: dict[str, Any] = {"xycoords": frame, "rotation": 90, "ha": "right"}
            axes.annotate("the model's b", (current, 0.03), fontsize=8, **place)
    figure.suptitle(f"trade-off between reward and '{name}'", fontsize=11)
    figure.tight_layout()
    return figure


def surface_picture(
    regions: Sequence[FrontierRegion],
    names: Sequence[str],
    current: Sequence[float] | None = None,
) -> Figure:
    """Best reward and both shadow prices over two budgets `names`; `current` are the model's own.

    Rewards are linear in every region, so colours and contour lines are exact.
    """
    if not regions:
        raise InputError("surface: there are no regions to draw.")
    figure, names = Figure(figsize=(13, 4.2)), [escape_math(name) for name in names]
    corners = np.concatenate([region.thresholds for region in regions])
    corners, firsts, place = np.unique(corners, True, True, axis=0)  # so that contours go on
    rewards = np.concatenate([region.rewards for region in regions])[firsts]
    first = np.cumsum([0, *(len(region.rewards) for region in regions[:-1])]).tolist()
    fans = [
        (start, start + k, start + k + 1)
        for start, region in zip(first, regions)
        for k in range(1, len(region.rewards) - 1)
    ]
    mesh = Triangulation(corners[:, 0], corners[:, 1], place.reshape(-1)[np.array(fans)])
    panels = figure.subplots(1, 3)
    shade = panels[0].tripcolor(mesh, rewards, shading="gouraud", cmap="viridis")
    lines = panels[0].tricontour(mesh, rewards, levels=8, colors="white", linewidths=0.8)
    panels[0].clabel(lines, fontsize=7)
    figure.colorbar(shade, ax=panels[0])
    panels[0].set_title("best reward $V_r^*$", fontsize=10)
    for k, (axes, name) in enumerate(zip(panels[1:], names, strict=True)):
        prices = np.array([region.multipliers[k] for region in regions])
        # the last regions before nothing is feasible may cost any price: they share the last colour
        top = float(np.quantile(prices, 0.95)) or float(prices.max()) or 1.0
        patches = PolyCollection([region.thresholds for region in regions], cmap="magma_r")
        patches.set(array=prices, clim=(0.0, top), edgecolor="0.6", linewidth=0.3)
        axes.add_collection(patches)
        figure.colorbar(patches, ax=axes, extend="max" if top < prices.max() else "neither")
        axes.set_title(f"shadow price of '{name}'", fontsize=10)
    low, high = corners.min(0), corners.max(0)
    for axes in panels:
        axes.set(
            xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel=f"threshold of '{names[0]}'"
        )
        axes.set_ylabel(f"threshold of '{names[1]}'")
        axes.set_facecolor("0.9")  # where no policy meets both
        if current is not None:
            axes.plot(*current, marker="x", color="black", markersize=8, clip_on=True)
    figure.suptitle("trade-off of two budgets (grey: no policy meets both; x: the model's own)")
    figure.tight_layout()
    return figure
