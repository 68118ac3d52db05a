"""The table and the picture of `vs_lp.py`, from its records."""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from cmdpax.experiments.pictures import STYLES, save

EPS = 1e-6
US = "cmdpax"
INSTANCE = ("family", "states", "discount", "constraints", "seed", "eps")
MARKERS = "os^vDP*"


def key_of(row: dict) -> tuple:
    """What a run is a run of."""
    return tuple(row[key] for key in (*INSTANCE, "solver"))


def failed_before(rows: list[dict], task: dict) -> int | None:
    """The size of an instance of the same family, discount and m, no larger than this one, that a
    peer did not finish.
    """
    same = ("solver", "family", "discount", "constraints")
    if task["solver"] == US:
        return None
    failed = [
        row["states"]
        for row in rows
        if not row["finished"] and all(row[key] == task[key] for key in same)
    ]
    return min((size for size in failed if size <= task["states"]), default=None)


def table(rows: list[dict], solvers: list[str]) -> str:
    """Markdown: our time and the peak memory of the process, every peer's time, and the ratio to
    the best LP; failures say so.
    """
    peers = [name for name in solvers if name != US and any(row["solver"] == name for row in rows)]
    lines = [
        f"| instance | {US} | {' | '.join(peers)} | best LP / {US} |",
        "|---|---|" + "---|" * (len(peers) + 1),
    ]
    order = ("garnet", "queue", "grid", "inventory")
    cases = sorted(
        {key_of(row)[:-1] for row in rows}, key=lambda case: (order.index(case[0]), *case[1:])
    )
    for case in cases:
        found = {row["solver"]: row for row in rows if key_of(row)[:-1] == case}
        if US not in found:
            continue
        family, states, discount, constraints, seed, eps = case
        known = dict(zip(INSTANCE, case, strict=True))
        ours = found[US]
        cells = [
            _cell(found.get(name), failed_before(rows, {**known, "solver": name})) for name in peers
        ]
        ratios = [row["seconds"] / ours["seconds"] for row in found.values() if _is_lp(row)]
        tried = any(row["solver"] not in (US, "storm") for row in found.values())
        best = _ratio(min(ratios)) if ratios else "no LP finished" if tried else "no LP run"
        title = f"{family} S={states:,} gamma={discount} m={constraints} seed={seed}" + (
            f" eps={eps:g}" if eps != EPS else ""
        )
        lines.append(
            f"| {title} | {ours['seconds']:.3g} s, {ours['peak_mb']:.0f} MB | {' | '.join(cells)} |"
            f" {best} |"
        )
    return "\n".join(lines)


def _is_lp(row: dict) -> bool:
    """A peer that gave a policy which is good enough; Storm gives a value only."""
    return row["solver"] != US and row["finished"] and row["solved"] and "gap" in row


def _ratio(ratio: float) -> str:
    return f"{ratio:,.0f}x" if ratio >= 100 else f"{ratio:.2g}x"


def _cell(row: dict | None, smaller: int | None) -> str:
    if row is None:
        return f"failed at S={smaller:,}" if smaller else "not run"
    if not row["finished"]:
        return (
            f"not in {row['limit']:.0f} s"
            if row.get("note", "").startswith(("over", "no answer"))
            else "failed"
        )
    wrong = (
        ""
        if row["solved"]
        else f" (off by {max(row.get('gap', 0), row.get('violation', 0), row.get('error', 0)):.0e})"
    )
    return f"{row['seconds']:.3g} s{wrong}"


def draw(rows: list[dict], solvers: list[str], path: Path) -> Path:
    """Time against states, log-log, one panel a family (gamma .99, one constraint, eps 1e-6);
    crosses are peers that failed.
    """
    families = [
        name
        for name in ("garnet", "queue", "grid", "inventory")
        if any(row["family"] == name for row in rows)
    ]
    figure = Figure(figsize=(3.6 * len(families) + 0.6, 4.6))
    panels = np.atleast_1d(figure.subplots(1, len(families), sharex=True, sharey=True))
    shown: dict[str, Line2D] = {}
    for axes, family in zip(panels, families, strict=True):
        heights: dict[int, int] = {}  # how many names stand above a cross already
        for name, style, marker in zip(solvers, STYLES, MARKERS, strict=False):
            wanted = (name, family, 0.99, 1, EPS)
            mine = [row for row in rows if _columns(row) == wanted]
            solved = [row for row in mine if row["finished"] and row["solved"]]
            sizes = sorted({row["states"] for row in solved})
            times = [
                float(np.median([row["seconds"] for row in solved if row["states"] == size]))
                for size in sizes
            ]
            look = {
                "marker": marker,
                "markersize": 6 if name == US else 5,
                "linewidth": 2.8 if name == US else 1.3,
                **style,
            }
            if sizes:
                (line,) = axes.plot(sizes, times, zorder=2 if name == US else 3, **look)
                shown.setdefault(name, line)
            failed = [row for row in mine if not (row["finished"] and row["solved"])]
            if (
                failed and sizes
            ):  # a thin line from the last success to the failure tells whose it is without colour
                row = min(failed, key=lambda row: row["states"])
                axes.plot(
                    [sizes[-1], row["states"]],
                    [times[-1], row["limit"]],
                    **{**style, "linewidth": 0.7},
                )
            for row in failed:
                size, place = row["states"], heights.get(row["states"], 0)
                heights[size] = place + 1
                axes.plot(
                    size,
                    row["limit"],
                    marker="x",
                    markersize=9,
                    markeredgewidth=2,
                    color="0.3",
                    zorder=4,
                )
                side, shift = ("right", 6) if size == 1_000_000 else ("center", 0)
                where = {
                    "xytext": (shift, 7 + 10 * place),
                    "textcoords": "offset points",
                    "ha": side,
                }
                axes.annotate(name, (size, row["limit"]), color=style["color"], fontsize=8, **where)
        axes.axhline(600, color="0.5", linewidth=0.8, linestyle=(0, (1, 3)))
        axes.set(xscale="log", yscale="log", xlabel="states S", title=family, ylim=(2e-3, 2e4))
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("CPU seconds, one core")
    panels[0].annotate("600 s limit", (70, 660), fontsize=8, color="0.35")
    handles = [shown[name] for name in solvers if name in shown]
    labels = [
        name if name != "storm" else "storm (value only)" for name in solvers if name in shown
    ]
    cross = Line2D(
        [], [], marker="x", markersize=8, markeredgewidth=2, color="0.3", linestyle="none"
    )
    figure.legend(
        [*handles, cross],
        [*labels, "not solved (600 s, 10 GB, error)"],
        loc="lower center",
        ncols=8,
        frameon=False,
        fontsize=9,
    )
    figure.suptitle(
        "Constrained MDPs to 1e-6 (discount 0.99, one constraint): CPU time against the number of"
        " states"
    )
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.21, wspace=0.06, top=0.85)
    return save(figure, path)


def _columns(row: dict) -> tuple:
    return row["solver"], row["family"], row["discount"], row["constraints"], row["eps"]
