"""Commands on many runs and whole studies: sweep, reproduce, report, demo."""

import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal, get_args

import tyro
from rich.live import Live
from rich.table import Table

from cmdpax.checker import check as checker
from cmdpax.cli.terminal import EXIT, StatusLine, err, out
from cmdpax.environments import finite
from cmdpax.errors import InputError, check_count
from cmdpax.experiments import results
from cmdpax.experiments.executors import Execute, find_executor
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store
from cmdpax.experiments.sweep import subset
from cmdpax.files.reading import Row
from cmdpax.learning.run_folder import RunFolder
from cmdpax.paper.settings import Task, find_sweep
from cmdpax.solvers.solve import solve

LINE_SECONDS = 30.0  # off a terminal, one line in so many seconds
PASSED_OVER = 20  # that a report names on the terminal


def sweep(
    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SWEEP")],
    store: Path | None = None,
    executor: Literal["local", "serial", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
    seeds: int | None = None,
    fraction: float = 1.0,
    only: tuple[str, ...] = (),
    skip_recorded: Path | None = None,
    export: Path | None = None,
) -> int:
    """Run many configurations, and select the best of each method.

    Kill it when you like: the same command continues.

    Args:
        source: a .toml file (docs/experiments.md), or a preset: tiny, deep, held-out, two-limits,
            paper-search, penalties, dual-steps, paper-grids, exact-grids
        store: folder of the runs; default runs/NAME
        executor: processes of this machine, this process, or Ray
        workers: processes, each with one run at a time; default: one per core
        address: of a running Ray cluster whose nodes all see the store; without it, ray means an
            embedded one
        seeds: so many seeds instead of the sweep's own
        fraction: of the training samples of every run
        only: a part of the sweep, as in --only method=cpo,ppo-lag seed=0; the parts of a sweep
            share its store
        skip_recorded: leave out what this folder (results/deep) has records of, made by this code
        export: write one row a run to this .jsonl, .csv or .parquet file
    """
    if workers is not None:
        check_count("--workers", workers)
    chosen = find_sweep(source)
    if seeds is not None:
        chosen = chosen.with_seeds(seeds)
    if fraction != 1.0:
        chosen = chosen.with_fraction(fraction)
    every, run_all = chosen.runs(), find_executor(executor, address)
    runs = subset(every, only)
    if skip_recorded is not None:
        runs = _not_recorded(runs, skip_recorded, chosen.name)
        if not runs:
            return 0
    if export is not None:
        results.check_export(export)
    folder = Store(store or Path("runs") / chosen.name, create=True)
    execute(runs, folder, run_all, workers)
    rows = results.rows(runs, folder)
    table = results.select_configurations(runs, rows, chosen.excess)
    # the selection of a part would take the whole's place
    written = [] if len(runs) < len(every) else [results.write_selection(folder, table)]
    rule = f"best score with excess <= {chosen.excess:g}"
    headings = ("problem", "method", "eligible", "selected", "score", "excess", "CPU hours")
    shown = Table(*headings, title=f"selected: {rule}, and what the search cost")
    for row in table:
        row = {**row, "eligible": f"{row['eligible']} of {row['configurations']}"}
        shown.add_row(*(results.cell(row[heading]) for heading in headings))
    out.print(shown)
    if export is not None:
        results.export(rows, export)
        written.append(export)
    for path in written:
        out.print(f"wrote {path}")
    return 1 if all(row["failed"] for row in rows) else 0


def _not_recorded(runs: Sequence[Run], folder: Path, sweep: str) -> list[Run]:
    """Runs without a record in a folder; says how many have one."""
    from cmdpax.paper.deep_study import not_recorded

    left, others = not_recorded(runs, folder, sweep)
    text = f"{len(runs) - len(left)} of {len(runs)} runs are recorded in {folder}"
    if others:
        text += f"; {others} more are by other code, and are done again"
    err.print(f"note: {text}")
    return left


def execute(
    runs: Sequence[Run], store: Store, run_all: Execute, workers: int | None = None
) -> None:
    """Carry runs out and show how they stand; `workers` at a time, None for one per core.

    Whatever stops it, finished runs are kept, and it says how to go on.
    """
    with store.alone():
        store.tidy()
        changed = results.made_by_others(runs, store)
        if changed:
            err.print(f"note: {changed}")
        with Board(runs, store) as board:
            try:
                run_all(runs, store, workers or len(os.sched_getaffinity(0)), board.watch)
            except KeyboardInterrupt:
                sentence = f"interrupted; {board.summary()}; the same command continues."
                raise KeyboardInterrupt(sentence) from None
        store.tidy()
    outcomes = {run.id: (store.result(run) or {})["outcome"] for run in runs}
    reasons = {name: one["failed"] for name, one in outcomes.items() if "failed" in one}
    for name, reason in list(reasons.items())[:1]:
        err.print(f"{len(reasons)} of {len(runs)} runs failed, the first of them with: {reason}")
        err.print(f"to try one again, remove its folder, as in {store.done / name}")


class Board:
    """How a sweep stands, by its store: on a terminal a live table, else a line now and then."""

    def __init__(self, runs: Sequence[Run], store: Store) -> None:
        self.store, self.runs = store, {run.id: run for run in runs}
        self.started = self.said = time.perf_counter()
        self.at_start = len(store.finished() & self.runs.keys())
        live = Live(console=err, auto_refresh=False, transient=True)
        self.live = live if err.is_terminal else None

    def __enter__(self) -> "Board":
        if self.live:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live:
            self.live.stop()

    def watch(self) -> None:
        """Show the state of now."""
        if self.live:
            self.live.update(self.table(), refresh=True)
        elif time.perf_counter() - self.said > LINE_SECONDS:
            err.print(self.summary())
            self.said = time.perf_counter()

    def summary(self) -> str:
        """One line."""
        done = len(self.store.finished() & self.runs.keys())
        working = len(self.store.begun() & self.runs.keys())
        text = f"{done} of {len(self.runs)} runs are done, {working} begun"
        if self.at_start < done < len(self.runs):
            seconds = (time.perf_counter() - self.started) / (done - self.at_start)
            text += f", about {seconds * (len(self.runs) - done) / 60:.0f} min left"
        return text

    def training(self) -> list[str]:
        """How far each training under way is."""
        lines = []
        for path in self.store.work.glob("*/metrics.jsonl"):
            run = self.runs.get(path.parent.name.split(".")[0])
            row = RunFolder(path.parent).last_row()
            if run is not None and row is not None:
                costs = ", ".join(f"{name} {value:.3g}" for name, value in row["cost"].items())
                share = 100 * row["samples"] / run.config["samples"]
                who = f"{run.problem} {run.config['method']} seed {run.seed}"
                lines.append(f"{who}: {share:.0f}%, return {row['return']:.4g}, {costs}")
        return sorted(lines)

    def table(self) -> Table:
        """Runs done and begun, by problem and method."""
        done, begun = self.store.finished(), self.store.begun()
        counts: dict[tuple[str, str], list[int]] = {}
        for run in self.runs.values():
            count = counts.setdefault((run.problem, run.config["method"]), [0, 0, 0])
            count[0] += 1
            count[1] += run.id in done
            count[2] += run.id in begun and run.id not in done
        caption = "\n".join([*self.training(), "Ctrl-C is safe: the same command continues"])
        table = Table(title=self.summary(), caption=caption)
        for heading in ("problem", "method", "runs", "done", "begun", ""):
            is_number = heading in ("runs", "done", "begun")
            table.add_column(heading, justify="right" if is_number else "left")
        for group, (of, finished, working) in counts.items():
            bar = "█" * (20 * finished // of)
            table.add_row(*group, str(of), str(finished), str(working), f"{bar:<20}")
        return table


def reproduce(
    what: Annotated[Literal["tabular", "linear", "deep"], tyro.conf.Positional],
    figure: str | None = None,
    out_dir: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
    rerun: bool = False,
    fraction: float | None = None,
    seeds: int | None = None,
    tasks: tuple[Task, ...] = get_args(Task),
    store: Path | None = None,
    policies: bool = False,
) -> int:
    """The paper's experiments: grid searches of every method, tables and figures.

    Redrawn in seconds from their records. `tabular` takes about two minutes; `linear` (log-linear
    policies) some 45 minutes on two cores, and goes on where it was stopped. `deep` draws what is
    recorded; with --fraction it first runs what is missing, one process per core, and goes on where
    it was stopped.

    Args:
        what: which experiments
        figure: one figure only: first, all-methods, certified, rate, theory, ... (linear:
            cliff-world-40, ...; deep: learning-curves, violations, penalties, dual-steps, held-out,
            two-limits, paper-settings; and paper-search, which is a table)
        out_dir: folder of records, tables and figures (default: results/tabular, linear or deep;
            deep-FRACTION below 1)
        rerun: run again what is recorded there (tabular and linear)
        fraction: deep: run what is missing with this share of every run's samples
        seeds: deep: so many seeds (default: the sweep's own; 5 in the main comparison)
        tasks: deep: run, or record, these only
        store: deep: record what this store of `cmdpax sweep` has finished (--figure penalties: a
            store of that sweep); with --fraction, run what is missing there (default: runs/deep,
            penalties and dual-steps)
        policies: deep: keep final policies in the records, too, with 100 episodes of each
    """
    from cmdpax.paper import reproduce

    missing = []
    if what == "deep":
        if rerun:
            raise InputError("--rerun is for tabular and linear; remove records of deep instead.")
        share = "" if fraction in (None, 1) else f"-{fraction:g}"
        folder = out_dir or Path("results") / f"deep{share}"
        carry_out = partial(execute, run_all=find_executor("local"))
        part: Row = {"fraction": fraction, "seeds": seeds, "tasks": tasks, "store": store}
        part |= {"keep_policies": policies, "carry_out": carry_out}
        written = reproduce.deep(folder, figure, **part)
        if figure is None:
            missing = sorted(set(reproduce.FIGURES["deep"]) - {path.stem for path in written})
    elif policies or tasks != get_args(Task) or (fraction, seeds, store) != (None, None, None):
        why = f"{what} has one budget, and nothing random in it"
        options = "--fraction, --seeds, --tasks, --store and --policies"
        raise InputError(f"{options} are for deep; {why}.")
    else:
        folder = out_dir or Path("results") / what
        with StatusLine() as status:
            written = reproduce.exact(what, folder, figure, rerun, status.say)
    for path in written:
        out.print(f"wrote {path}")
    if missing:
        out.print(f"no records yet: {', '.join(missing)}; --fraction runs one with --figure")
    return 0


def report(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")],
    out_file: Annotated[Path | None, tyro.conf.arg(name="out")] = None,
) -> int:
    """One HTML page about a folder of results: tables, figures, settings, learning curves, replays.

    The page needs no network and nothing beside it. Exact runs are done again to have their
    policies, which takes seconds (log-linear ones: minutes, once; they are kept in DIR/.replays).

    Args:
        folder: what reproduce, sweep, train or solve --out wrote, or a folder of such folders
        out_file: the page (default: DIR/report.html)
    """
    from cmdpax.report import write_report

    with StatusLine() as status:

        def callback(row: Row) -> None:
            status.say("{problem}: {label} ({number} of {count})".format(**row))

        written, passed_over = write_report(folder, out_file, callback)
    out.print(f"wrote {written} ({written.stat().st_size / 1e6:.1f} MB)")
    if passed_over:
        out.print("not shown, or not in full:")
    for name, why in passed_over[:PASSED_OVER]:
        out.print(f"  {name}: {why}")
    if len(passed_over) > PASSED_OVER:
        out.print(f"  and {len(passed_over) - PASSED_OVER} more, at the end of the page")
    return 0


def demo(out_dir: Annotated[Path, tyro.conf.arg(name="out")] = Path("demo")) -> int:
    """The main job on the paper's two problems: solve with PQA-ALM, certify, check, and draw.

    Args:
        out_dir: folder for the pictures
    """
    from cmdpax.experiments.pictures import save
    from cmdpax.experiments.policy_pictures import policy_picture
    from cmdpax.paper.exact_figures import first

    out.print("the first run on a machine compiles for about half a minute")
    codes = []
    for name in ("cliff-world", "deep-sea"):
        problem = finite[name]()
        result = solve(problem, "pqa-alm")
        out.print(f"\n{name}, {problem!r}", style="bold")
        out.print(str(result))
        out.print(str(checker.check(problem, result)))
        gap = f"gap <= {max(result.certificate.gap, 0):.1e}"
        title = f"{name}: optimal policy, reward {result.reward:.4f}, {gap}"
        path = save(policy_picture(problem, result.policies[1][0], title), out_dir / f"{name}.png")
        out.print(f"wrote {path}")
        codes.append(EXIT[result.status])
    out.print(f"\nwrote {save(first(), out_dir / 'alm-against-primal-dual.png')}")
    return max(codes)
