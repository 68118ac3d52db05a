"""The deep study: three velocity tasks, four methods, seeds; and the two ablations of the
augmented-Lagrangian methods.

Everything is drawn from records (`deep_records.py`; ablations are one JSON line a run), and missing
cells are drawn as missing. With a fraction of the paper's budget, what is missing at that budget is
run first, through the run store, and recorded; what a store has finished is recorded without
running anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cmdpax.errors import InputError
from cmdpax.experiments.results import Row, read_lines, write_lines
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store, versions
from cmdpax.experiments.sweep import Sweep
from cmdpax.paper import settings as presets
from cmdpax.paper.deep_records import (
    TASKS,
    TITLES,
    Record,
    collect,
    read_records,
    record_name,
    task_name,
)

ABLATIONS: dict[str, tuple[str, Callable[..., Sweep]]] = {
    "penalties": ("penalty", presets.penalties),
    "dual-steps": ("dual_step", presets.dual_steps),
}
Cell = tuple[
    object, ...
]  # task, method, seed; of an ablation also the value and the number of inner batches
Carry = Callable[[str, Sequence[Run]], Store]  # name of the preset, its runs


@dataclass(frozen=True)
class Study:
    """What is recorded in a folder."""

    records: list[Record]
    ablations: dict[str, list[Row]]

    def of(self, task: str, method: str) -> list[Record]:
        """Seeds of one cell."""
        return [record for record in self.records if (record.task, record.method) == (task, method)]

    @property
    def size(self) -> str:
        """The share of the paper's samples, and the seeds, in words for a figure."""
        if not self.records:
            return "no records yet"
        return budget(
            [record.samples for record in self.records],
            [len(self.of(t, m)) for t in TASKS for m in TITLES],
            5,
        )


def budget(samples: Sequence[int], seeds: Sequence[int], paper: int) -> str:
    """The share of the paper's samples, and the number of seeds, in words."""
    shares = sorted(
        {f"{100 * one / presets.SAMPLES:.3g}%" for one in samples},
        key=lambda text: float(text[:-1]),
    )
    counts = [count for count in seeds if count]
    words = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{' and '.join(shares)} of the paper's samples, {words} seed{'' if words == '1' else 's'}"
        f" (paper: 100%, {paper} seeds)"
    )


def study(folder: Path) -> Study:
    """Read what a folder holds."""
    return Study(
        read_records(folder), {name: read_lines(folder / f"{name}.jsonl")[1] for name in ABLATIONS}
    )


def run_missing(
    folder: Path,
    parts: Sequence[str],
    fraction: float,
    seeds: int | None,
    tasks: Sequence[str],
    carry: Carry,
) -> None:
    """Run and record what `folder` lacks of the main comparison (`main`) or of an ablation, at that
    fraction of the budget.
    """
    for part in parts:
        make = presets.deep if part == "main" else ABLATIONS[part][1]
        spec = make(environment=[TASKS[task] for task in tasks])
        runs = (spec if seeds is None else spec.with_seeds(seeds)).with_fraction(fraction).runs()
        there = recorded(folder, part)
        lacking = [run for run in runs if cell(run, part) not in there]
        if lacking:
            record(folder, part, lacking, carry(spec.name, lacking))


def record_finished(
    folder: Path, part: str, seeds: int | None, tasks: Sequence[str], store: Store
) -> int:
    """Record what a store has finished of `main` or an ablation, of whichever budget; returns how
    many runs that are.
    """
    found: dict[Cell, Run] = {}
    for run in store.finished_runs():
        if _takes_part(run, part, tasks) and (seeds is None or run.seed < seeds):
            other = found.setdefault(cell(run, part), run)
            if other != run:
                raise InputError(
                    f"{store.folder} has more than one run of"
                    f" {', '.join(map(str, cell(run, part)))} ({other.id} and {run.id} differ in"
                    f" {', '.join(_differences(other, run))}); give the sweep that you want a store"
                    " of its own."
                )
    record(folder, part, list(found.values()), store)
    return len(found)


def recorded(folder: Path, part: str) -> dict[Cell, Row]:
    """Cells of the comparison or of an ablation that `folder` has; of an ablation, with their rows."""
    if part == "main":
        return {(one.task, one.method, one.seed): {} for one in read_records(folder)}
    return {
        (row["task"], row["method"], row["seed"], row[ABLATIONS[part][0]], row["inner"]): row
        for row in read_lines(folder / f"{part}.jsonl")[1]
    }


def cell(run: Run, part: str) -> Cell:
    """What a run is a measurement of."""
    config = run.config
    own = () if part == "main" else (config[ABLATIONS[part][0]], config["inner"])
    return (task_name(config["environment"]), config["method"], run.seed, *own)


def record(folder: Path, part: str, runs: Sequence[Run], store: Store) -> None:
    """Write down those of `runs` that are finished and did not fail; what is recorded already is
    kept.
    """
    there, rows = recorded(folder, part), []
    for run in runs:
        result = store.result(run)
        if cell(run, part) in there or result is None or "failed" in result["outcome"]:
            continue
        if part == "main":
            name = record_name(run.config["environment"], run.config["method"], run.seed)
            collect(
                store.done / run.id,
                folder / name,
                (store.spent(run) or {}).get("cpu_seconds"),
                result["versions"],
            )
        else:
            rows.append(_ablation_row(run, ABLATIONS[part][0], result))
    if rows:
        write_lines(
            folder / f"{part}.jsonl", {"kind": "header", **versions()}, [*there.values(), *rows]
        )


def _takes_part(run: Run, part: str, tasks: Sequence[str]) -> bool:
    if run.kind != "train" or run.config["environment"] not in {TASKS[task] for task in tasks}:
        return False
    if part == "main":
        return run.config["method"] in TITLES
    field, spec = ABLATIONS[part][0], ABLATIONS[part][1]()
    return run.config["method"] in spec.methods and all(
        run.config[one] in spec.settings[one] for one in (field, "inner")
    )


def _differences(one: Run, other: Run) -> list[str]:
    return [name for name in one.config if one.config[name] != other.config.get(name)]


def _ablation_row(run: Run, field: str, result: Row) -> Row:
    config, outcome = run.config, result["outcome"]
    return {
        "task": task_name(config["environment"]),
        "method": config["method"],
        field: config[field],
        "inner": config["inner"],
        "seed": run.seed,
        "samples": config["samples"],
        "return": outcome["return"],
        "excess": outcome["excess"],
        "code": result["versions"]["code"],
    }
