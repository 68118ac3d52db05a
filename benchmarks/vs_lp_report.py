"""The table and the picture of `vs_lp.py`, from its records.

python benchmarks/vs_lp.py --report-only --figure docs/images/vs-lp.png
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.experiments.pictures import STYLES, save

EPS = 1e-6
US = "cmdpax"
FAMILIES = ("garnet", "queue", "grid", "inventory")
INSTANCE = ("family", "states", "discount", "constraints", "seed", "eps")
MARKERS = "os^vDP*"
CROSS = {"marker": "x", "markeredgewidth": 2, "color": "0.3"}
RING = {"marker": "o", "markersize": 12, "markerfacecolor": "none", "color": "0.3"}


def key_of(row: dict) -> tuple:
    """What is solved, and by whom."""
    return tuple(row[key] for key in (*INSTANCE, "solver"))


def title_of(case: dict) -> str:
    size = f"{case['family']} S={case['states']:,} gamma={case['discount']}"
    eps = "" if case["eps"] == EPS else f" eps={case['eps']:g}"
    return f"{size} m={case['constraints']} seed={case['seed']}{eps}"


def failed_before(rows: list[dict], task: dict) -> int | None:
    """The smallest size, up to this one, at which a peer failed on a like instance."""
    if task["solver"] == US:
        return None
    alike = ("solver", "family", "discount", "constraints")
    failures = [row for row in rows if not row["finished"]]
    sizes = [row["states"] for row in failures if all(row[key] == task[key] for key in alike)]
    return min((size for size in sizes if size <= task["states"]), default=None)


def table(rows: list[dict], solvers: Sequence[str]) -> str:
    """Markdown: our time and the peak memory of the process, every peer's time, and the ratio.

    The ratio is the best LP's time over ours in the same run of `vs_lp.py`; the records of 0.1,
    which name no run, count as one.
    """
    peers = [name for name in solvers if name != US and any(row["solver"] == name for row in rows)]
    lines = [f"| instance | {US} | {' | '.join(peers)} | best LP / {US} |"]
    lines.append("|---|---|" + "---|" * (len(peers) + 1))
    cases = {key_of(row)[:-1] for row in rows}
    for case in sorted(cases, key=lambda case: (FAMILIES.index(case[0]), *case[1:])):
        mine = [row for row in rows if key_of(row)[:-1] == case]
        ours = {row.get("run"): row for row in mine if row["solver"] == US and "seconds" in row}
        if not ours:
            continue
        header = dict(zip(INSTANCE, case, strict=True))
        newest = {row["solver"]: row for row in mine}
        cells = [
            _cell(newest.get(name), failed_before(rows, {**header, "solver": name}))
            for name in peers
        ]
        last = list(ours.values())[-1]
        own = f"{last['seconds']:.3g} s, {last['peak_mb']:.0f} MB"
        lines.append(f"| {title_of(header)} | {own} | {' | '.join(cells)} | {_best(mine, ours)} |")
    return "\n".join(lines)


def _best(rows: list[dict], ours: dict[str | None, dict]) -> str:
    """The best LP's time on one instance over that of `ours` (by run) in the same run."""
    programs = [row for row in rows if row["solver"] not in (US, "storm")]
    if not programs:
        return "no LP run"
    solved = [row for row in programs if row["finished"] and row["solved"]]
    if not solved:
        return "no LP finished"
    beside = [(row, ours[row.get("run")]) for row in solved if row.get("run") in ours]
    if not beside:
        return "no LP in the same run"
    ratio = min(row["seconds"] / own["seconds"] for row, own in beside)
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.2g}x"


def _cell(row: dict | None, smaller: int | None) -> str:
    if row is None:
        return f"failed at S={smaller:,}" if smaller else "not run"
    if not row["finished"]:
        note = row.get("note", "")
        is_late = note.startswith(("over", "no answer")) or "Time limit reached" in note
        return f"not in {row['limit']:.0f} s" if is_late else "failed"
    error = max(row.get(key, 0) for key in ("gap", "violation", "error"))
    return f"{row['seconds']:.3g} s" + ("" if row["solved"] else f" (off by {error:.0e})")


def draw(rows: list[dict], solvers: Sequence[str], path: Path) -> Path:
    """CPU time against states, log-log, one panel a family.

    Crosses are peers that failed, rings the largest models on which others were run. Discount .99,
    one constraint, eps 1e-6.
    """
    families = [name for name in FAMILIES if any(row["family"] == name for row in rows)]
    figure = Figure(figsize=(3.6 * len(families) + 0.6, 4.6))
    panels = np.atleast_1d(figure.subplots(1, len(families), sharex=True, sharey=True))
    lines: dict[str, Line2D] = {}
    for axes, family in zip(panels, families, strict=True):
        _draw_family(axes, [row for row in rows if row["family"] == family], solvers, lines)
        axes.axhline(600, color="0.5", linewidth=0.8, linestyle=(0, (1, 3)))
        axes.set(xscale="log", yscale="log", xlabel="states S", title=family, ylim=(2e-3, 2e4))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("CPU seconds, one core")
    panels[0].annotate("600 s limit", (70, 660), fontsize=8, color="0.35")
    names = [name for name in solvers if name in lines]
    labels = ["storm (value only)" if name == "storm" else name for name in names]
    figure.legend(
        [
            *(lines[name] for name in names),
            Line2D([], [], markersize=8, linestyle="none", **CROSS),
            Line2D([], [], linestyle="none", **{**RING, "markersize": 9}),
        ],
        [*labels, "failed (600 s, 10 GB, error)", "not run on larger ones"],
        loc="lower center",
        ncols=5,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(
        "Constrained MDPs to 1e-6 (discount 0.99, one constraint): CPU time against the number of"
        " states"
    )
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.21, wspace=0.06, top=0.85)
    return save(figure, path)


def _draw_family(
    axes: Axes, rows: list[dict], solvers: Sequence[str], lines: dict[str, Line2D]
) -> None:
    """One panel; `lines` keeps the first line of every solver, for the legend."""
    heights: dict[int, int] = {}  # by size: how many names stand above its cross already
    for name, style, marker in zip(solvers, STYLES, MARKERS, strict=False):
        wanted = {"solver": name, "discount": 0.99, "constraints": 1, "eps": EPS}
        mine = [row for row in rows if all(row[key] == wanted[key] for key in wanted)]
        solved = [row for row in mine if row["finished"] and row["solved"]]
        failed = [row for row in mine if not (row["finished"] and row["solved"])]
        sizes = sorted({row["states"] for row in solved})
        by_size = [[row["seconds"] for row in solved if row["states"] == size] for size in sizes]
        times = [float(np.median(seconds)) for seconds in by_size]
        look = {"zorder": 3, "markersize": 5, "linewidth": 1.3}
        if name == US:
            look = {"zorder": 2, "markersize": 6, "linewidth": 2.8}
        if sizes:
            (line,) = axes.plot(sizes, times, marker=marker, **look, **style)
            lines.setdefault(name, line)
        largest = max(row["states"] for row in rows)
        if sizes and not failed and sizes[-1] < largest:
            axes.plot(sizes[-1], times[-1], linestyle="none", zorder=4, **RING)
        if failed and sizes:  # whose failure it is, told without colour
            first = min(failed, key=lambda row: row["states"])
            ends = [sizes[-1], first["states"]], [times[-1], first["limit"]]
            axes.plot(*ends, **style, linewidth=0.7)
        for row in failed:
            size, place = row["states"], (row["states"], row["limit"])
            axes.plot(*place, markersize=9, zorder=4, **CROSS)
            is_last = size == 1_000_000
            axes.annotate(
                name,
                place,
                color=style["color"],
                fontsize=8,
                xytext=(6 if is_last else 0, 7 + 10 * heights.get(size, 0)),
                textcoords="offset points",
                ha="right" if is_last else "center",
            )
            heights[size] = heights.get(size, 0) + 1
