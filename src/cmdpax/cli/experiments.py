"""Commands of whoever runs many configurations: sweep."""

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.live import Live
from rich.table import Table

from cmdpax.cli.terminal import err, out
from cmdpax.errors import InputError
from cmdpax.experiments.executors import Execute
from cmdpax.experiments.executors import executor as find_executor
from cmdpax.experiments.export import check_export
from cmdpax.experiments.export import export as write_export
from cmdpax.experiments.part import part
from cmdpax.experiments.results import made_by_others, problem, rows, select, write_selection
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.paper.settings import find_spec

SAY_SECONDS = 30.0  # off a terminal, one line in so many seconds


def sweep(
    spec: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SPEC")],
    store: Path | None = None,
    executor: Literal["local", "serial", "ray"] = "local",
    workers: int = 0,
    address: str | None = None,
    seeds: int | None = None,
    fraction: float = 1.0,
    only: tuple[str, ...] = (),
    export: Path | None = None,
) -> int:
    """Run many configurations, and select the best of each method. Kill it when you like: the same
    command continues.

    Args:
        spec: a .toml file (docs/experiments.md), or a preset: tiny, deep, penalties, dual-steps,
        paper-grids, exact-grids store: folder of the runs; default runs/NAME
        executor: processes of this machine, this process, or Ray
        workers: how many at a time; 0: one per core
        address: of a running Ray cluster whose nodes all see the store; without it, ray means an
        embedded one seeds: so many seeds instead of the sweep's own
        fraction: of the training samples of every run
        only: a part of the sweep, as in --only method=cpo,ppo-lag seed=0; the parts of a sweep
        share its store export: write one row a run to this .jsonl, .csv or .parquet file
    """
    chosen = find_spec(spec)
    if seeds is not None:
        chosen = chosen.with_seeds(seeds)
    if fraction != 1.0:
        chosen = chosen.with_fraction(fraction)
    runs, carry_out = part(chosen.runs(), only), find_executor(executor, address)
    if export is not None:
        check_export(export)
    folder = Store(store or Path("runs") / chosen.name, create=True)
    execute(runs, folder, carry_out, workers)
    found = rows(runs, folder)
    table = select(runs, found, chosen.excess)
    written = (
        [] if only else [write_selection(folder, table)]
    )  # that of a part would take the whole's place
    shown = Table(
        title=f"selected: best score with excess <= {chosen.excess:g}, and what the search cost"
    )
    for heading in ("problem", "method", "eligible", "selected", "score", "excess", "CPU hours"):
        shown.add_column(heading)
    for row in table:
        row = {**row, "eligible": f"{row['eligible']} of {row['configurations']}"}
        cells = (row[str(column.header)] for column in shown.columns)
        shown.add_row(
            *(f"{entry:.3g}" if isinstance(entry, float) else str(entry) for entry in cells)
        )
    out.print(shown)
    if export is not None:
        write_export(found, export)
        written.append(export)
    for path in written:
        out.print(f"wrote {path}")
    return 1 if all(row["failed"] for row in found) else 0


def execute(runs: Sequence[Run], store: Store, carry_out: Execute, workers: int) -> None:
    """Carry runs out under the eyes of the caller; whatever stops it, finished runs are kept, and
    it says how to go on.
    """
    if workers < 0:
        raise InputError(f"--workers {workers}: give a positive number, or 0 for one per core.")
    with store.alone():
        store.tidy()
        changed = made_by_others(runs, store)
        if changed:
            err.print(f"note: {changed}")
        with Board(runs, store) as board:
            try:
                carry_out(runs, store, workers or len(os.sched_getaffinity(0)), board.refresh)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"interrupted; {board.summary()}; the same command continues."
                ) from None
        store.tidy()
        missing = store.pending(runs)
    if missing:
        raise InputError(
            f"{len(missing)} runs were given up, because their workers died again and again (see"
            f" {store.folder / 'workers.log'})."
        )
    reasons = {
        run.id: outcome["failed"]
        for run in runs
        if "failed" in (outcome := store.result(run)["outcome"])  # type: ignore[index]
    }
    if reasons:
        name, reason = next(iter(reasons.items()))
        err.print(f"{len(reasons)} of {len(runs)} runs failed, the first of them with: {reason}")
        err.print(f"to try one again, remove its folder, as in {store.done / name}")


def last_row(path: Path) -> dict[str, Any] | None:
    """The last whole row of a metrics file that somebody is writing; None if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 4096))
            lines = file.read().split(b"\n")[
                :-1
            ]  # what follows the last end of a line is not whole
        return json.loads(lines[-1])
    except (FileNotFoundError, IndexError, ValueError):
        return None


class Board:
    """How a sweep stands: on a terminal a live table, otherwise a line now and then. All it knows,
    it reads in the store.
    """

    def __init__(self, runs: Sequence[Run], store: Store) -> None:
        self.store, self.runs, self.said = store, {run.id: run for run in runs}, time.perf_counter()
        self.at_start = len(store.finished() & self.runs.keys())
        self.started = time.perf_counter()
        self.live = (
            Live(console=err, auto_refresh=False, transient=True) if err.is_terminal else None
        )

    def __enter__(self) -> "Board":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def summary(self) -> str:
        """One line."""
        done = len(self.store.finished() & self.runs.keys())
        working = len(
            {entry.name.split(".")[0] for entry in os.scandir(self.store.work)} & self.runs.keys()
        )
        text = f"{done} of {len(self.runs)} runs are done, {working} begun"
        if done > self.at_start and done < len(self.runs):
            left = (
                (time.perf_counter() - self.started)
                / (done - self.at_start)
                * (len(self.runs) - done)
            )
            text += f", about {left / 60:.0f} min left"
        return text

    def refresh(self) -> None:
        """Show the state of now."""
        if self.live:
            self.live.update(self.table(), refresh=True)
        elif time.perf_counter() - self.said > SAY_SECONDS:
            err.print(self.summary())
            self.said = time.perf_counter()

    def training(self) -> list[str]:
        """How far each training under way is."""
        lines = []
        for path in self.store.work.glob("*/metrics.jsonl"):
            run, row = self.runs.get(path.parent.name.split(".")[0]), last_row(path)
            if run is not None and row is not None:
                costs = ", ".join(f"{name} {value:.3g}" for name, value in row["cost"].items())
                share = 100 * row["samples"] / run.config["samples"]
                who = f"{problem(run)} {run.config['method']} seed {run.seed}"
                lines.append(f"{who}: {share:.0f}%, return {row['return']:.4g}, {costs}")
        return sorted(lines)

    def table(self) -> Table:
        """Runs done and begun, by problem and method."""
        done, begun = (
            self.store.finished(),
            {entry.name.split(".")[0] for entry in os.scandir(self.store.work)},
        )
        counts: dict[tuple[str, str], list[int]] = {}
        for run in self.runs.values():
            count = counts.setdefault((problem(run), run.config["method"]), [0, 0, 0])
            count[0] += 1
            count[1] += run.id in done
            count[2] += run.id in begun and run.id not in done
        caption = "\n".join([*self.training(), "Ctrl-C is safe: the same command continues"])
        table = Table(title=self.summary(), caption=caption)
        for heading in ("problem", "method", "runs", "done", "begun", ""):
            table.add_column(
                heading, justify="left" if heading in ("problem", "method", "") else "right"
            )
        for (where, method), (of, finished, working) in counts.items():
            bar = "█" * (20 * finished // of)
            table.add_row(where, method, str(of), str(finished), str(working), f"{bar:<20}")
        return table
