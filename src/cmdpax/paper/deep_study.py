"""What does a study have, what does it lack, and how is that run and recorded?

A run of the main comparison is a folder (`deep_records`). Other sweeps have a folder of such
folders, by their name. A run of an ablation, or of the search in the paper's grid, is one line of
`penalties.jsonl`, `dual-steps.jsonl` or `paper-search.jsonl`. A run that failed is a line, too: of
`failed.jsonl`, where others are folders.

What a folder lacks at a fraction of a sweep's budget is run through the run store and recorded;
what a store has finished is recorded without training; only final policies that are to be kept
are run, for a hundred episodes.
"""

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.experiments.publishing import publish
from cmdpax.experiments.results import read_lines, write_lines
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store, versions
from cmdpax.experiments.sweep import Sweep
from cmdpax.files.reading import Row
from cmdpax.learning.config import METHODS
from cmdpax.learning.run_folder import RunFolder
from cmdpax.paper.deep_records import (
    Record,
    best_printed,
    read_record,
    read_records,
    task_name,
    write_record,
)
from cmdpax.paper.settings import (
    ABLATIONS,
    ALL_TASKS,
    SAMPLES,
    SEARCH_EXCESS,
    SEARCH_SWEEP,
    SEARCHED,
    SWEEPS,
    TITLES,
    paper_settings_sweep,
)

MAIN, CHOSEN = "deep", "paper-settings"  # the comparison of the paper; what its grid gives here
LINES = (*ABLATIONS, SEARCH_SWEEP.name)  # sweeps of which a run is one line
FAILED = "failed.jsonl"
Cell = tuple[object, ...]  # the values of `cell_fields`
CarryOut = Callable[[Sequence[Run], Store], None]  # with whatever display of progress


class DeepStudy:
    """What is recorded in a folder of runs; missing cells are missing."""

    def __init__(self, folder: Path) -> None:
        self.records = read_records(folder)
        self.lines = {name: read_lines(folder / f"{name}.jsonl")[1] for name in LINES}
        self.failed = read_lines(folder / FAILED)[1]

    @property
    def tasks(self) -> list[str]:
        """Tasks of which there is a record, in the paper's order."""
        return [task for task in ALL_TASKS if any(one.task == task for one in self.records)]

    def of(self, task: str, method: str) -> list[Record]:
        """Seeds of one cell of the main comparison."""
        return [record for record in self.records if (record.task, record.method) == (task, method)]

    def absence(self, task: str, method: str) -> str:
        """What is said of a cell without records."""
        failed = any((row["task"], row["method"]) == (task, method) for row in self.failed)
        return "failed" if failed else "not run"

    def cells(self, sweep: str) -> dict[Cell, Row]:
        """Recorded cells of a sweep, each with its line, or that of its failure; else empty."""
        names, folders = cell_fields(sweep), {}
        if sweep not in LINES:
            folders = {(one.task, one.method, one.seed): dict[str, Any]() for one in self.records}
        rows = self.lines[sweep] if sweep in LINES else self.failed
        return {**folders, **{tuple(row[name] for name in names): row for row in rows}}

    def has_any(self, sweep: str) -> bool:
        """Whether a run of a sweep is recorded that did not fail: there is something to draw."""
        if sweep not in LINES:
            return bool(self.records)
        return any("failed" not in row for row in self.lines[sweep])

    def size(self, paper: int | None) -> str:
        """Samples and seeds in words for a figure, beside the `paper`'s number of seeds."""
        seeds = [len(self.of(task, method)) for task in self.tasks for method in TITLES]
        return budget([record.samples for record in self.records], seeds, paper)


def budget(samples: Sequence[int], seeds: Sequence[int], paper: int | None) -> str:
    """Samples and numbers of seeds in words: beside the `paper`'s, if it has such runs."""
    fewest, most = min(filter(None, seeds)), max(seeds)
    words = f"{most} seed{'' if most == 1 else 's'}"
    words = words if fewest == most else f"{fewest} to {words}"
    if paper is None:
        sizes = dict.fromkeys(f"{one / 1e6:g}e6" for one in sorted(samples))
        return f"{' and '.join(sizes)} samples, {words} (not in the paper)"
    shares = dict.fromkeys(f"{100 * one / SAMPLES:.3g}%" for one in sorted(samples))
    return f"{' and '.join(shares)} of the paper's samples, {words} (paper: 100%, {paper} seeds)"


def planned_tasks(sweep: Sweep) -> list[str]:
    """Tasks of a sweep, in the paper's order."""
    return [task for task, name in ALL_TASKS.items() if name in sweep.settings["environment"]]


def place(folder: Path, sweep: str) -> Path:
    """Where the records of a sweep lie."""
    return folder if sweep == MAIN or sweep in LINES else folder / sweep


def sweep_of(folder: Path, name: str) -> Sweep:
    """The sweep of a name; that of the paper's settings is what the search in `folder` chose."""
    if name != CHOSEN:
        return SWEEPS[name]
    chosen = choose_settings(DeepStudy(folder).lines[SEARCH_SWEEP.name])
    if not chosen:
        remedy = f"run `cmdpax sweep {SEARCH_SWEEP.name}` and record it first"
        raise InputError(f"{folder} has no search in the paper's grids; {remedy}.")
    return paper_settings_sweep(chosen)


def choose_settings(rows: Sequence[Row]) -> dict[str, Row]:
    """What the search in the paper's grids selects for each method: settings by name.

    The best mean of `return / best return of the paper` over its tasks, among configurations whose
    cost exceeds no limit by more than `SEARCH_EXCESS`; if there is none, the least excess. A run
    that failed is infeasible. A configuration that lacks a task does not take part.
    """
    chosen = dict[str, Row]()
    tasks = [task_name(name) for name in SEARCH_SWEEP.settings["environment"]]
    for method, grid in SEARCH_SWEEP.methods.items():
        groups = dict[Cell, dict[str, Row]]()
        for row in rows:
            if row["method"] == method:
                point = tuple(row[name] for name in SEARCHED)
                groups.setdefault(point, {})[row["task"]] = row
        scores = dict[Cell, tuple[bool, float]]()
        for point, own in groups.items():
            if own.keys() >= set(tasks):
                exceeded = [own[task]["excess"] for task in tasks]
                excess = max(np.inf if one is None else one for one in exceeded)
                shares = [(own[task]["return"] or 0.0) / best_printed(task) for task in tasks]
                is_good = excess <= SEARCH_EXCESS
                scores[point] = (is_good, float(np.mean(shares)) if is_good else -excess)
        if scores:
            winner = max(scores, key=lambda point: scores[point])
            best = dict(zip(SEARCHED, winner))
            chosen[method] = {name: best[name] for name in SEARCHED if name in grid}
    return chosen


def sweep_text(sweep: Sweep) -> str:
    """A sweep with numbers, texts and lists alone as the TOML file that `cmdpax sweep` takes."""
    tables = {"settings": sweep.settings}
    tables |= {f"methods.{method}": own for method, own in sweep.methods.items()}
    lines = [f"seeds = {json.dumps(sweep.seeds)}"]
    for title, own in tables.items():
        lines += ["", f"[{title}]", *(f"{name} = {json.dumps(one)}" for name, one in own.items())]
    return "\n".join(lines) + "\n"


def run_missing(
    folder: Path,
    sweep: str,
    fraction: float,
    seeds: int | None,
    tasks: Sequence[str],
    store: Path | None,
    carry_out: CarryOut,
    keep_policies: bool = False,
) -> None:
    """Run and record what `folder` lacks of a sweep at that fraction of its budget.

    seeds: so many, None for the sweep's own. store: the folder of the runs, by default that of
    `cmdpax sweep`. `carry_out(runs, store)` does those that the store has not finished.
    keep_policies: as for `record_finished`.
    """
    chosen = sweep_of(folder, sweep).with_fraction(fraction)
    every = (chosen if seeds is None else chosen.with_seeds(seeds)).runs()
    runs = [run for run in every if task_name(run.problem) in tasks]
    recorded = DeepStudy(place(folder, sweep)).cells(sweep)
    lacking = [run for run in runs if cell(run, sweep) not in recorded]
    if lacking:
        made = Store(store or Path("runs") / sweep, create=True)
        if made.pending(lacking):
            carry_out(lacking, made)
        _record(folder, sweep, lacking, made, keep_policies)


def record_finished(
    folder: Path,
    sweep: str,
    seeds: int | None,
    tasks: Sequence[str],
    store: Store,
    keep_policies: bool = False,
) -> int:
    """Record what a store has finished of a sweep, at whichever budget -> how many runs.

    keep_policies: publish final policies in their records, with a hundred episodes of each.
    """
    runs, wanted = dict[Cell, Run](), sweep_of(folder, sweep)
    for run in store.finished_runs():
        if _takes_part(run, sweep, wanted, tasks) and (seeds is None or run.seed < seeds):
            own = cell(run, sweep)
            other = runs.setdefault(own, run)
            if other != run:
                differing = [key for key in run.config if run.config[key] != other.config.get(key)]
                both = f"{other.id} and {run.id} differ in {', '.join(differing)}"
                raise InputError(
                    f"{store.folder} has more than one run of {', '.join(map(str, own))} ({both});"
                    " give the sweep that you want a store of its own."
                )
    _record(folder, sweep, list(runs.values()), store, keep_policies)
    return len(runs)


def not_recorded(runs: Sequence[Run], folder: Path, sweep: str) -> tuple[list[Run], int]:
    """Runs of a sweep that are to be done, and how many of them other code recorded in `folder`.

    A record counts if it has the run's settings and today's sources made it: so a study goes on
    where nothing but its records is left, and one table comes from one code.
    """
    study, code = DeepStudy(place(folder, sweep)), versions()["code"]
    folders: dict[Cell, Record] = {(one.task, one.method, one.seed): one for one in study.records}
    lines, left, others = study.cells(sweep), list[Run](), 0
    for run in runs:
        own = cell(run, sweep)
        row, record = lines.get(own), folders.get(own) if sweep not in LINES else None
        if record is not None:
            is_same, made_by = record.has_settings_of(run), record.code
        else:
            is_same = row is not None and row["samples"] == run.config["samples"]
            made_by = "" if row is None else row["code"]
        if not is_same or made_by != code:
            left.append(run)
            others += is_same
    return left, others


def cell_fields(sweep: str) -> tuple[str, ...]:
    """What the cells of a sweep differ in."""
    varied: tuple[str, ...] = SEARCHED if sweep == SEARCH_SWEEP.name else ()
    varied = (ABLATIONS[sweep], "inner") if sweep in ABLATIONS else varied
    return ("task", "method", *varied, "seed")


def cell(run: Run, sweep: str) -> Cell:
    """What a run is a measurement of."""
    fields = {**run.fields, "task": task_name(run.problem)}
    return tuple(fields[name] for name in cell_fields(sweep))


def _takes_part(run: Run, sweep: str, wanted: Sweep, tasks: Sequence[str]) -> bool:
    environments = wanted.settings["environment"]
    if run.kind != "train" or not (run.problem in environments and task_name(run.problem) in tasks):
        return False
    own, (_, _, *varied, _) = wanted.methods.get(run.config["method"]), cell_fields(sweep)
    if own is None:
        return False
    # what a method does not use is no part of its runs, whatever the sweep says for others
    table, unused = {**wanted.settings, **own}, METHODS[run.config["method"]].unused
    return all(_allows(table, name, run.config[name]) for name in varied if name not in unused)


def _allows(table: Mapping[str, Any], name: str, value: object) -> bool:
    """Whether a sweep's table has such a value; it has any where it says nothing."""
    wanted = table.get(name, value)
    wanted = wanted["among"] if isinstance(wanted, Mapping) else wanted
    return value in wanted if isinstance(wanted, list | tuple) else value == wanted


def _record(
    folder: Path, sweep: str, runs: Sequence[Run], store: Store, keep_policies: bool
) -> None:
    """Record those of `runs` that are finished; what is recorded of them is kept."""
    target = place(folder, sweep)
    _make_way(target, sweep, runs, store)
    recorded, rows = DeepStudy(target).cells(sweep), []
    for run in runs:
        result, own = store.result(run), cell(run, sweep)
        if result is None:
            continue
        outcome, finished = result["outcome"], store.done / run.id
        record = target / "-".join(map(str, own))
        is_folder = sweep not in LINES and "failed" not in outcome
        if own not in recorded and is_folder:
            spent = store.spent(run).get("cpu_seconds")
            write_record(finished, record, spent, result["versions"])
        elif own not in recorded:
            row = {**dict(zip(cell_fields(sweep), own)), "samples": run.config["samples"]}
            row |= {name: outcome.get(name) for name in ("return", "excess")}
            row |= {"failed": outcome["failed"]} if "failed" in outcome else {}
            rows.append({**row, "code": result["versions"]["code"]})
        if keep_policies and is_folder and RunFolder(record).card is None:
            publish(finished, record)
    if rows:
        name = f"{sweep}.jsonl" if sweep in LINES else FAILED
        target.mkdir(parents=True, exist_ok=True)
        kept = [row for row in recorded.values() if row]
        write_lines(target / name, {"kind": "header", **versions()}, [*kept, *rows])


def _make_way(target: Path, sweep: str, runs: Sequence[Run], store: Store) -> None:
    """Remove records that other code or other settings made of what a store has finished.

    If settings differ, all seeds of the task and method go, so that no mean mixes settings. Records
    of more samples than the finished run has stay.
    """
    made = {cell(run, sweep): (run, result) for run in runs if (result := store.result(run))}

    def is_remade(own: Cell, samples: int, code: str) -> bool:
        run, result = made.get(own, (None, {}))
        longer = run is not None and run.config["samples"] >= samples
        return longer and result["versions"].get("code", "") != code

    for path in target.glob("*/config.json") if sweep not in LINES else ():
        record = read_record(path.parent)
        own = record.task, record.method, record.seed
        others = (run for place, (run, _) in made.items() if place[:2] == own[:2])
        if is_remade(own, record.samples, record.code) or any(
            run.config["samples"] >= record.samples and not record.has_settings_of(run)
            for run in others
        ):
            shutil.rmtree(path.parent)
    lines = target / (f"{sweep}.jsonl" if sweep in LINES else FAILED)
    header, rows = read_lines(lines)
    names = cell_fields(sweep)
    kept = [
        row
        for row in rows
        if not is_remade(tuple(row[name] for name in names), row["samples"], row["code"])
    ]
    if len(kept) < len(rows):
        write_lines(lines, header, kept)
