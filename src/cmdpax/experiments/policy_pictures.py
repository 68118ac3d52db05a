"""A policy as a picture: where it goes, what it does there, how often it is there.

| states | picture |
|---|---|
| cells of a grid, `model.grid` | arrows on the cells |
| names with two coordinates, such as `(3, urgent)` | a table of cells, coloured by action |
| other names, such as `worn` | a network of the most visited states |
| numbers, or no names | a bar for each state, in their order |
| a finite horizon | a bar for each time |

Visits are areas or shades; what is never visited is faint. Only actions that are taken are in the
legend. Hatches and numbers tell actions apart without colour.
"""

import re
from collections.abc import Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, Rectangle

from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.pictures import HATCHES, LEGEND, STYLES, escape_math
from cmdpax.model.arguments import Grid
from cmdpax.model.cmdp import CMDP

HAZARD: dict[str, Any] = {"facecolor": "#f4b6a6", "hatch": "///"}
GOAL: dict[str, Any] = {"facecolor": "#b9e3c0", "hatch": "..."}
ARROW, EDGE = "#0b3c6f", "0.55"
FAINTEST = 1e-6  # share of the largest visits below which shades are the same
FAINT = 0.25  # opacity of what is not visited
MANY_CELLS = 900  # more than these are drawn by one arrow each
TABLE_STATES = 60  # at most this many states are drawn as bars
NODES = 14  # of a network
RARELY = 0.01  # chances below this are not drawn
NUMBER = re.compile(r"[-+]?\d+(\.\d+)?(?![\w.])")
PAIR = re.compile(r"\(\s*([^(),]+?)\s*,\s*([^(),]+?)\s*,?\s*\)")  # (3, urgent)


def policy_picture(
    model: CMDP, policy: np.ndarray, title: str = "", *, heat: bool = False
) -> Figure:
    """A policy `[S, A]` with its occupancy, drawn as the module says.

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
    names = model.state_names or ()
    if coordinates := _coordinates(names):
        return _plane(model, policy, visits, title, coordinates)
    if any(_number(name) is None for name in names) and (
        network := _network(model, form, policy, visits, title)
    ):
        return network
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


def _arrows(grid: Grid, policy: np.ndarray, visits: np.ndarray, title: str, heat: bool) -> Figure:
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
                look |= {} if visits[s] > FAINTEST * most else {"alpha": FAINT}
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


def _number(name: str) -> float | None:
    """The number that a name begins with, as in `15 in stock`."""
    match = NUMBER.match(name)
    return float(match[0]) if match else None


def _coordinates(names: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """The two coordinates of every state's name; None unless all names but one have them.

    The other one, a state where everything ends, has empty ones.
    """
    parts = [match.groups() if (match := PAIR.fullmatch(name)) else ("", "") for name in names]
    if len(parts) < 2 or sum(part == ("", "") for part in parts) > 1:
        return None
    first, second = ([word.strip("'\"") for word in words] for words in zip(*parts))
    return first, second


def _axis(words: Sequence[str]) -> list[str]:
    """The places along an axis: numbers by size, other words as they come."""
    places = [word for word in dict.fromkeys(words) if word]
    numbers = {place: _number(place) for place in places}
    if None in numbers.values():
        return places
    return sorted(places, key=lambda word: numbers[word] or 0)


def _opacity(visits: np.ndarray) -> np.ndarray:
    """`[S]`: FAINT where nobody goes, at least twice that elsewhere, 1 where most time is spent."""
    shares = visits / max(float(visits.max(initial=0.0)), 1e-300)
    return np.where(shares > FAINTEST, 2 * FAINT + (1 - 2 * FAINT) * np.sqrt(shares), FAINT)


def _plane(
    model: CMDP,
    policy: np.ndarray,
    visits: np.ndarray,
    title: str,
    coordinates: tuple[list[str], list[str]],
) -> Figure:
    """States with two coordinates as a table: colour and number of the likeliest action.

    A cell with a chance in it has the numbers of all its actions. Visits are opacity.
    """
    across, up = map(_axis, coordinates)
    size = min(0.42 * len(across) + 4, 15), min(0.42 * len(up) + 1.6, 12)
    figure = Figure(figsize=size)
    axes = figure.add_subplot()
    has_numbers = len(across) * len(up) <= 400
    used: dict[int, None] = {}
    for s, opacity in enumerate(_opacity(visits)):
        x, y = coordinates[0][s], coordinates[1][s]
        if not x:
            continue
        place = across.index(x), up.index(y)
        taken = [a for a in np.argsort(-policy[s], kind="stable").tolist() if policy[s, a] > RARELY]
        used |= dict.fromkeys(taken)
        box = Rectangle((place[0] - 0.5, place[1] - 0.5), 1, 1, linewidth=0.5, edgecolor=EDGE)
        box.set(facecolor=(STYLES[taken[0] % len(STYLES)]["color"], 0.8 * opacity))
        axes.add_patch(box)
        if has_numbers:
            shade: dict[str, Any] = {"ha": "center", "va": "center", "alpha": opacity}
            axes.text(*place, "/".join(map(str, taken)), fontsize=8, **shade)
    axes.set(xlim=(-0.5, len(across) - 0.5), ylim=(-0.5, len(up) - 0.5), aspect="equal")
    for ticks, places in ((axes.set_xticks, across), (axes.set_yticks, up)):
        every = max(1, -(-len(places) // 25))
        ticks(range(0, len(places), every), [escape_math(w) for w in places[::every]], fontsize=8)
    axes.set_xlabel("first coordinate of the state")
    axes.set_ylabel("second coordinate of the state")
    handles = []
    for a in sorted(used):
        shade, label = STYLES[a % len(STYLES)]["color"], escape_math(model.action_labels[a])
        handles.append(Rectangle((0, 0), 1, 1, facecolor=(shade, 0.8), label=f"{a}  {label}"))
    axes.legend(handles=handles, fontsize=9, title="action (faint: not visited)", **LEGEND)
    axes.set_title(title, fontsize=11)
    return figure


def _network(
    model: CMDP, form: StandardForm, policy: np.ndarray, visits: np.ndarray, title: str
) -> Figure | None:
    """The most visited states as discs, by their distance from the start; arrows are what follows.

    The area of a disc is its visits, the width of an arrow its probability under the policy. None
    where there are too many arrows to see any.
    """
    chosen = [s for s in np.argsort(-visits, kind="stable")[:NODES].tolist() if visits[s] > 0]
    rows, weights = form.transitions, form.heard(model.by_choice(policy))
    follows = np.zeros((len(chosen), len(chosen)))
    for i, s in enumerate(chosen):
        own = slice(rows.first_choice[s], rows.first_choice[s + 1])
        follows[i] = (weights[own] @ rows.matrix[own])[chosen]
    np.fill_diagonal(follows, 0.0)  # staying is what no other arrow shows
    follows[follows < RARELY] = 0.0
    if np.count_nonzero(follows) > 3 * len(chosen):
        return None
    layers = _distances(follows, model.initial[chosen])
    places = np.zeros((len(chosen), 2))
    for layer in set(layers):
        members = [i for i, own in enumerate(layers) if own == layer]
        for k, i in enumerate(members):  # every second layer a little higher: arrows are seen
            places[i] = 1.4 * layer, (len(members) - 1) / 2 - k + 0.25 * (layer % 2)
    width, height = np.ptp(places, axis=0)
    figure = Figure(figsize=(min(1.7 * width + 3, 15), min(1.7 * height + 2.4, 12)))
    axes = figure.add_subplot()
    radii = 0.06 + 0.16 * np.sqrt(visits[chosen] / visits[chosen].max())
    look: dict[str, Any] = {"facecolor": "0.85", "edgecolor": EDGE, "zorder": 2}
    discs = [
        axes.add_patch(Circle((float(x), float(y)), radius, **look))
        for (x, y), radius in zip(places, radii)
    ]
    for i, j in zip(*np.nonzero(follows)):
        arrow: dict[str, Any] = {"arrowstyle": "-|>", "color": ARROW}
        arrow |= {"connectionstyle": "arc3,rad=0.18", "lw": 0.5 + 2.0 * follows[i, j]}
        arrow |= {"patchA": discs[i], "patchB": discs[j], "mutation_scale": 12}
        axes.annotate("", places[j], places[i], arrowprops=arrow, zorder=1)
    for (x, y), radius, s in zip(places.tolist(), radii, chosen):
        name = model.state_names[s] if model.state_names else str(s)
        does = [
            escape_math(model.action_labels[a])
            + ("" if policy[s, a] > 0.99 else f" {policy[s, a]:.2f}")
            for a in np.argsort(-policy[s], kind="stable").tolist()
            if policy[s, a] > RARELY
        ]
        is_inside = len(name) < 60 * radius
        above: dict[str, Any] = {"ha": "center", "fontsize": 9, "zorder": 4}
        above |= {"va": "center"} if is_inside else {"va": "bottom"}
        axes.text(x, y if is_inside else y + radius + 0.03, escape_math(name), **above)
        below: dict[str, Any] = {"ha": "center", "va": "top", "color": ARROW, "zorder": 4}
        axes.text(x, y - radius - 0.04, "\n".join(does), fontsize=8, **below)
    (left, low), (right, high) = places.min(0), places.max(0)
    axes.set(xlim=(left - 0.5, right + 0.5), ylim=(low - 0.75, high + 0.5), aspect="equal")
    axes.set_axis_off()
    few = "" if len(chosen) == model.states else f" ({len(chosen)} of {model.states} states)"
    said = "area: share of visits; width of an arrow: probability; blue: actions"
    axes.set_title(f"{title}\n{said}{few}", fontsize=10)
    return figure


def _distances(follows: np.ndarray, initial: np.ndarray) -> list[int]:
    """Steps from where a run begins, or comes in from states that are not drawn, `[n]`.

    What is not reached from there comes last.
    """
    steps = [-1] * len(initial)
    front, at = set(np.flatnonzero((initial > 0) | ~follows.any(0)).tolist()), 0
    while front:
        for i in front:
            steps[i] = at
        at += 1
        front = {int(j) for i in front for j in np.flatnonzero(follows[i] > 0) if steps[j] < 0}
    return [at if step < 0 else step for step in steps]


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
    opacity = _opacity(visits)[chosen]
    for a in np.flatnonzero((policy[chosen] > RARELY).any(0)).tolist():
        look: dict[str, Any] = {
            "color": STYLES[a % len(STYLES)]["color"],
            "hatch": HATCHES[a % len(HATCHES)],
            "label": escape_math(model.action_labels[a]),
        }
        heights = policy[chosen, a]
        bars = below.bar(place, heights, 0.9, bottom, edgecolor="white", linewidth=0.3, **look)
        for bar, shade in zip(bars, opacity):
            bar.set_alpha(shade)
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
