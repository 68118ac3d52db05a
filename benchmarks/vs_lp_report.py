"""The table and the heat map of `vs_lp.py`, from its records.

python benchmarks/vs_lp.py --report-only --figure docs/images/vs-lp.png
"""

from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from cmdpax.experiments.pictures import save

EPS = 1e-6
US = "cmdpax"
FAMILIES = ("garnet", "queue", "grid", "inventory", "tight grid")
SIZES = (20, 100, 250, 1000, 10_000, 100_000)
COUNTS = (0, 1, 10, 50)
CELL = ("family", "states", "constraints", "discount")
Row = dict[str, Any]


class Ratio(NamedTuple):
    """The best peer's time over ours, in one process."""

    ratio: float
    is_least: bool  # nobody finished: at least this
    peer: str
    ours: float  # CPU seconds
    missing: tuple[str, ...]  # peers that were not run
    solved: bool  # whether we did


def key_of(row: Row) -> tuple[Any, ...]:
    """What is solved, and by whom."""
    return tuple(row[key] for key in (*CELL, "solver"))


def title_of(cell: Row) -> str:
    size = f"{cell['family']} S={cell['states']:,} m={cell['constraints']}"
    return f"{size} gamma={cell['discount']:g}"


def ratios(rows: Iterable[Row], peers: Iterable[str]) -> dict[tuple[Any, ...], Ratio]:
    """The smallest ratio of every cell among the newest of every peer, each beside ours."""
    newest: dict[tuple[Any, ...], Row] = {}
    ours: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        newest[key_of(row)] = row
        if row["solver"] == US:
            ours[*key_of(row)[:-1], row["run"]] = row
    made: dict[tuple[Any, ...], Ratio] = {}
    for cell in dict.fromkeys(key[:-1] for key in newest):
        times, least, seconds, is_solved = {}, {}, np.nan, True
        for peer in peers:
            row = newest.get((*cell, peer))
            own = None if row is None else ours.get((*cell, row["run"]))
            if row is None or own is None or "seconds" not in own:
                continue
            seconds, is_solved = own["seconds"], own["solved"]
            if row["finished"] and row["solved"]:
                times[peer] = row["seconds"] / seconds
            elif is_late(row):
                least[peer] = row.get("seconds", row.get("spent", 0.0)) / seconds
        missing = tuple(peer for peer in peers if (*cell, peer) not in newest)
        known = times or least
        if known:
            peer = min(known, key=lambda name: known[name])
            made[cell] = Ratio(known[peer], not times, peer, seconds, missing, is_solved)
        elif np.isfinite(seconds):
            made[cell] = Ratio(np.inf, True, "all failed", seconds, missing, is_solved)
    return made


def is_late(row: Row) -> bool:
    """Whether a limit stopped a peer, and not a failure of its own."""
    note = row.get("note", "")
    return "Time limit" in note or "overran" in note or row.get("wall", 0.0) >= 0.99 * row["limit"]


def report(rows: list[Row]) -> str:
    """Markdown: what we lose, how often we win by how much, and a line for every cell."""
    programs = sorted({row["solver"] for row in rows} - {US, "storm"})
    best, storm = ratios(rows, programs), ratios(rows, ["storm"])
    lines = ["Lost to the best LP solver (ratio = its time / ours):", ""]
    lost = sorted((one.ratio, cell) for cell, one in best.items() if one.ratio < 1)
    lines += [f"- {named(cell)}: {ratio:.2f} ({best[cell].peer})" for ratio, cell in lost]
    lines += [] if lost else ["- none"]
    lines += ["", "Lost to Storm, which gives a value and no policy:", ""]
    behind = sorted((one.ratio, cell) for cell, one in storm.items() if one.ratio < 1)
    lines += [f"- {named(cell)}: {ratio:.2f}" for ratio, cell in behind] or ["- none"]
    bad = [named(cell) for cell, one in best.items() if not one.solved]
    lines += ["", "Not certified by us: " + (", ".join(bad) or "none"), ""]
    numbers = np.array([one.ratio for one in best.values()])
    if len(numbers):
        shares = [f"{(numbers >= level).mean():.0%} >= {level}" for level in (1, 2, 10)]
        lines += [f"{len(numbers)} cells: {', '.join(shares)}", ""]
    lines += [*matrix(best), ""]
    lines += ["| cell | ours, s | best LP | ratio | Storm | not run |", "|---|---|---|---|---|---|"]
    for cell in sorted(best, key=lambda cell: (FAMILIES.index(cell[0]), *cell[1:])):
        one, other = best[cell], storm.get(cell)
        beside = "" if other is None else said(other)
        absent = ", ".join(one.missing)
        lines.append(
            f"| {named(cell)} | {one.ours:.3g} | {one.peer} | {said(one)} | {beside} | {absent} |"
        )
    return "\n".join(lines)


def matrix(best: dict[tuple[Any, ...], Ratio]) -> list[str]:
    """Markdown: the ratio of every family, size and discount, by m; in bold what we lose."""
    kinds = [(S, 0.99) for S in SIZES] + [(1000, 0.9), (1000, 0.9999)]
    lines = ["| family, S | " + " | ".join(f"m = {m}" for m in COUNTS) + " |"]
    lines.append("|---" * (1 + len(COUNTS)) + "|")
    for family, (S, discount) in product(FAMILIES, kinds):
        own = [best.get((family, S, m, discount)) for m in COUNTS]
        texts = ["" if one is None else said(one) for one in own]
        texts = [
            f"**{text}**" if one and one.ratio < 1 else text
            for one, text in zip(own, texts, strict=True)
        ]
        if any(texts):
            size = f"{S:,}" + ("" if discount == 0.99 else f" at {discount:g}")
            lines.append(f"| {family}, {size} | {' | '.join(texts)} |")
    return lines


def named(cell: tuple[Any, ...]) -> str:
    return title_of(dict(zip(CELL, cell, strict=True)))


def said(one: Ratio) -> str:
    if not np.isfinite(one.ratio):
        return "all failed"
    number = f"{one.ratio:,.0f}" if one.ratio >= 10 else f"{one.ratio:.2g}"
    return f">= {number}" if one.is_least else number


def draw(rows: list[Row], path: Path) -> Path:
    """A heat map of the ratio to the best LP solver: families and m by states, and by discount."""
    programs = sorted({row["solver"] for row in rows} - {US, "storm"})
    best = ratios(rows, programs)
    lines = [(family, m) for family in FAMILIES for m in COUNTS]
    columns = [(S, 0.99) for S in SIZES] + [(1000, 0.9), (1000, 0.9999)]
    figure = Figure(figsize=(8.6, 8.8))
    axes = figure.subplots()
    norm = LogNorm(0.01, 100)
    shown = np.full((len(lines), len(columns)), np.nan)
    for i, (family, m) in enumerate(lines):
        for j, (S, discount) in enumerate(columns):
            one = best.get((family, S, m, discount))
            if one is None:
                axes.text(j, i, "not run", ha="center", va="center", fontsize=7, color="0.45")
                continue
            shown[i, j] = np.clip(one.ratio, 0.01, 100)
            text = said(one).replace(">= ", "≥").replace("all failed", "all fail")
            is_lost = one.ratio < 1
            colour = "white" if not 0.06 < one.ratio < 16 else "black"
            axes.text(
                j,
                i,
                f"[{text}]" if is_lost else text,
                ha="center",
                va="center",
                fontsize=9,
                color=colour,
                fontweight="bold" if is_lost else "normal",
            )
    image = axes.imshow(shown, norm=norm, cmap="RdBu", aspect="auto")
    names = [f"{S:,}" if S < 10_000 else f"{S:.0e}".replace("e+0", "e") for S, _ in columns]
    names = [f"{name}\n$\\gamma$={gamma:g}" for name, (_, gamma) in zip(names, columns)]
    axes.set_xticks(range(len(columns)), names, fontsize=9)
    axes.set_yticks(range(len(lines)), [f"{family}, m={m}" for family, m in lines], fontsize=9)
    for edge in range(len(COUNTS), len(lines), len(COUNTS)):
        axes.axhline(edge - 0.5, color="black", linewidth=1)
    axes.axvline(len(SIZES) - 0.5, color="black", linewidth=1)
    axes.set_xlabel("states S and discount")
    axes.set_title(
        "CPU time of the best LP solver / ours, to 1e-6; [bold in brackets]: we lose\n"
        "≥: no LP solver finished within max(60 s, 20 times ours)",
        fontsize=10,
    )
    bar = figure.colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label("ratio (colours end at 0.01 and 100)")
    figure.tight_layout()
    return save(figure, path)
