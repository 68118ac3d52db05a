"""Pictures: how lines look, a saved PNG, the frontiers of one and two budgets.

Readable in black and white. Every function returns a matplotlib figure; `save` writes it. Nothing
here computes anything but what it draws. Policies are drawn by `policy_pictures`.
"""

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation
from PIL import Image

from cmdpax.errors import InputError
from cmdpax.files.written import replacing
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
LEGEND: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False}


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


def frontier_picture(
    curve: Sequence[FrontierPoint], name: str, sense: str, best: str, current: float | None = None
) -> Figure:
    """`best` ("best reward") and price against the budget `name`; `current` is the model's own."""
    if not curve:
        raise InputError("frontier: there are no points to draw.")
    figure, name = Figure(figsize=(10, 3.8)), escape_math(name)
    left, right = figure.subplots(1, 2)
    budget = [point.threshold for point in curve]
    dots: dict[str, Any] = {"marker": "o", "markersize": 3.5}
    left.plot(budget, [point.reward for point in curve], **dots, **STYLES[0])
    left.set_ylabel(f"{best} $V_r^*$")
    # a breakpoint has the price of the side before it
    where = "pre" if any(point.is_breakpoint for point in curve) else "mid"
    right.step(budget, [point.multiplier for point in curve], where=where, **dots, **STYLES[1])
    right.set_ylabel("shadow price, per unit")
    for axes in (left, right):
        axes.set_xlabel(f"threshold b of '{name}'  ($V_c$ {sense} b)")
        axes.grid(alpha=0.3)
        if current is not None and min(budget) <= current <= max(budget):
            axes.axvline(current, color="0.4", linestyle=":", linewidth=1)
            frame = ("data", "axes fraction")
            place: dict[str, Any] = {"xycoords": frame, "rotation": 90, "ha": "right"}
            axes.annotate("the model's b", (current, 0.03), fontsize=8, **place)
    figure.suptitle(f"{best} against '{name}'", fontsize=11)
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
