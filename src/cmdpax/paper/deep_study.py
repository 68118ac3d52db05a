"""Small records of training runs: what the deep figures and tables are drawn from.

A run of the main comparison is a folder `<task>-<method>-<seed>`: `config.json`, at most 300 rows
of `metrics.jsonl`, `evaluation.json` (10 episodes, acting as in training and deterministically) and
`summary.json`: how much the cost swings in the last fifth of training, how many samples it took to
come near the paper's return while feasible, what it cost, which versions made it. Batches of 2,000
and of 20,000 steps are made comparable by first averaging rows over windows of 20,000 steps. A run
of an ablation is one line of `penalties.jsonl` or `dual-steps.jsonl`.

What a folder lacks at a fraction of the paper's budget is run through the run store and recorded;
what a store has finished is recorded without running anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.experiments.results import read_lines, write_lines
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store, versions
from cmdpax.files import Row, named, read_bytes, read_json, write_bytes, write_json, write_rows
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits
from cmdpax.paper.settings import ABLATIONS, RESULTS, SAMPLES, SEEDS, SWEEPS, TASKS, TITLES

WINDOW = 20_000  # samples over which rows are averaged
ROWS = 300  # of a record
Cell = tuple[object, ...]  # the values of `cell_fields`
CarryOut = Callable[[Sequence[Run], Store], None]  # with whatever display of progress


@dataclass(frozen=True)
class Record:
    """One training run, as it is stored."""

    task: str
    method: str
    seed: int
    config: Row
    rows: list[Row]
    evaluation: Row
    summary: Row
    longer: Row | None = None  # an evaluation of a hundred episodes, where there is one

    @property
    def samples(self) -> int:
        """Environment steps that the run was planned for."""
        return self.config["samples"]

    def episodes(
        self, kind: str = "stochastic", evaluation: Row | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns and excess `[episodes]` of the evaluation, or of a longer one.

        The excess is minus the margin of the run's first limit: above 0 the limit is broken.
        """
        seen = (evaluation or self.evaluation)[kind]
        name, excess = _excess(self.config["limits"][0])
        return np.array(seen["returns"]), excess(np.array(seen["totals"][name]))

    def curve(self, quantity: str, edges: np.ndarray) -> np.ndarray:
        """Mean of `return` or `cost` between successive `edges [n + 1]` of samples -> `[n]`.

        NaN where there is no row.
        """
        name, _ = _excess(self.config["limits"][0])
        values = [row["return"] if quantity == "return" else row["cost"][name] for row in self.rows]
        place = np.searchsorted(edges, [row["samples"] for row in self.rows], side="left") - 1
        parts = len(edges) - 1
        inside = (place >= 0) & (place < parts)
        count = np.bincount(place[inside], minlength=parts)
        total = np.bincount(place[inside], np.array(values)[inside], minlength=parts)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


class DeepStudy:
    """What is recorded in a folder; missing cells are missing."""

    def __init__(self, folder: Path) -> None:
        self.records = read_records(folder)
        self.ablations = {name: read_lines(folder / f"{name}.jsonl")[1] for name in ABLATIONS}

    def of(self, task: str, method: str) -> list[Record]:
        """Seeds of one cell of the main comparison."""
        return [record for record in self.records if (record.task, record.method) == (task, method)]

    def cells(self, sweep: str) -> dict[Cell, Row]:
        """Cells of a sweep that are recorded; of an ablation, with their rows."""
        if sweep not in ABLATIONS:
            return {(one.task, one.method, one.seed): {} for one in self.records}
        names = cell_fields(sweep)
        return {tuple(row[name] for name in names): row for row in self.ablations[sweep]}

    @property
    def size(self) -> str:
        """The share of the paper's samples, and the seeds, in words for a figure."""
        if not self.records:
            return "no records yet"
        seeds = [len(self.of(task, method)) for task in TASKS for method in TITLES]
        return budget([record.samples for record in self.records], seeds, SEEDS)


def budget(samples: Sequence[int], seeds: Sequence[int], paper: int) -> str:
    """Shares of the paper's samples, and numbers of seeds beside the `paper`'s, in words."""
    shares = dict.fromkeys(f"{100 * one / SAMPLES:.3g}%" for one in sorted(samples))
    fewest, most = min(filter(None, seeds)), max(seeds)
    words = f"{most} seed{'' if most == 1 else 's'}"
    words = words if fewest == most else f"{fewest} to {words}"
    return f"{' and '.join(shares)} of the paper's samples, {words} (paper: 100%, {paper} seeds)"


def run_missing(
    folder: Path,
    sweep: str,
    fraction: float,
    seeds: int | None,
    tasks: Sequence[str],
    store: Path | None,
    carry_out: CarryOut,
) -> None:
    """Run and record what `folder` lacks of a sweep at that fraction of its budget.

    seeds: so many, None for the sweep's own. store: the folder of the runs, by default that of
    `cmdpax sweep`. `carry_out(runs, store)` does those that the store has not finished.
    """
    whole = SWEEPS[sweep]
    settings = {**whole.settings, "environment": [TASKS[task] for task in tasks]}
    chosen = replace(whole, settings=settings).with_fraction(fraction)
    runs = (chosen if seeds is None else chosen.with_seeds(seeds)).runs()
    recorded = DeepStudy(folder).cells(sweep)
    lacking = [run for run in runs if cell(run, sweep) not in recorded]
    if lacking:
        made = Store(store or Path("runs") / sweep, create=True)
        if made.pending(lacking):
            carry_out(lacking, made)
        _record(folder, sweep, lacking, made)


def record_finished(
    folder: Path, sweep: str, seeds: int | None, tasks: Sequence[str], store: Store
) -> int:
    """Record what a store has finished of a sweep, at whichever budget -> how many runs."""
    runs: dict[Cell, Run] = {}
    for run in store.finished_runs():
        if _takes_part(run, sweep, tasks) and (seeds is None or run.seed < seeds):
            own = cell(run, sweep)
            other = runs.setdefault(own, run)
            if other != run:
                differing = [key for key in run.config if run.config[key] != other.config.get(key)]
                both = f"{other.id} and {run.id} differ in {', '.join(differing)}"
                raise InputError(
                    f"{store.folder} has more than one run of {', '.join(map(str, own))} ({both});"
                    " give the sweep that you want a store of its own."
                )
    _record(folder, sweep, list(runs.values()), store)
    return len(runs)


def cell_fields(sweep: str) -> tuple[str, ...]:
    """What the cells of a sweep differ in."""
    varied = (ABLATIONS[sweep], "inner") if sweep in ABLATIONS else ()
    return ("task", "method", *varied, "seed")


def cell(run: Run, sweep: str) -> Cell:
    """What a run is a measurement of."""
    fields = {**run.fields, "task": task_name(run.problem)}
    return tuple(fields[name] for name in cell_fields(sweep))


def _takes_part(run: Run, sweep: str, tasks: Sequence[str]) -> bool:
    config, wanted = run.config, SWEEPS[sweep]
    if run.kind != "train" or run.problem not in {TASKS[task] for task in tasks}:
        return False
    _, _, *varied, _ = cell_fields(sweep)
    is_wanted = all(config[name] in wanted.settings[name] for name in varied)
    return config["method"] in wanted.methods and is_wanted


def _record(folder: Path, sweep: str, runs: Sequence[Run], store: Store) -> None:
    """Record those of `runs` that are finished and did not fail; what is recorded is kept."""
    recorded, rows = DeepStudy(folder).cells(sweep), []
    for run in runs:
        result, own = store.result(run), cell(run, sweep)
        if own in recorded or result is None or "failed" in result["outcome"]:
            continue
        if sweep in ABLATIONS:
            row = {**dict(zip(cell_fields(sweep), own)), "samples": run.config["samples"]}
            row |= {name: result["outcome"][name] for name in ("return", "excess")}
            rows.append({**row, "code": result["versions"]["code"]})
        else:
            spent = store.spent(run).get("cpu_seconds")
            target = folder / "-".join(map(str, own))
            write_record(store.done / run.id, target, spent, result["versions"])
    if rows:
        header = {"kind": "header", **versions()}
        write_lines(folder / f"{sweep}.jsonl", header, [*recorded.values(), *rows])


def task_name(environment: str) -> str:
    """`Hopper` for `SafetyHopperVelocity-v1`; other simulators keep their name."""
    return environment.removeprefix("Safety").removesuffix("Velocity-v1")


def read_records(folder: Path) -> list[Record]:
    """Every record of a run in a folder, by name."""
    return [_read(path.parent) for path in sorted(folder.glob("*/config.json"))]


def _read(folder: Path) -> Record:
    run = RunFolder(folder)
    try:
        config, rows, evaluation = run.config, run.rows(), run.evaluation
        if evaluation is None:
            raise InputError("it has no evaluation.json.")
        longer = [read_json(path) for path in folder.glob("evaluation-100.json")]
        if not {"seed", "samples"} <= config.keys() or not all(
            "stochastic" in one for one in longer
        ):
            raise InputError("it is not what write_record writes.")
    except InputError as error:
        raise InputError(f"record {folder} cannot be read: {error}") from None
    own = (task_name(config["environment"]), config["method"], config["seed"])
    return Record(*own, config, rows, evaluation, read_json(folder / "summary.json"), *longer)


def write_record(
    run: Path, target: Path, cpu_seconds: float | None = None, made_by: Row | None = None
) -> None:
    """Write the small record of a finished run folder, with its cost and versions if known."""
    config, rows = RunFolder(run).config, RunFolder(run).rows()
    summary = summarise(rows, config) | {"cpu_seconds": cpu_seconds, "versions": made_by}
    target.mkdir(parents=True, exist_ok=True)
    write_rows(target / "metrics.jsonl", condensed(rows))
    write_json(target / "summary.json", summary)
    for name in ("evaluation.json", "config.json"):  # the config last: with it the record is there
        with named(run / name):
            content = read_bytes(run / name)
        write_bytes(target / name, content)


def condensed(rows: Sequence[Row], most: int = ROWS) -> list[Row]:
    """At most so many rows: means over groups; counters and words are those of a group's last."""
    size = -(-len(rows) // most)
    return [_mean(rows[start : start + size]) for start in range(0, len(rows), size)]


def _mean(rows: Sequence[Row]) -> Row:
    def mean(values: Sequence[Any]) -> Any:
        if isinstance(values[-1], dict):
            return {name: mean([value[name] for value in values]) for name in values[-1]}
        return values[-1] if isinstance(values[-1], str) else float(f"{np.mean(values):.6g}")

    last = rows[-1]
    means = {name: mean([row[name] for row in rows]) for name in last}
    return {**means, "update": last["update"], "samples": last["samples"]}


def summarise(rows: Sequence[Row], config: Row) -> Row:
    """What all rows of a run say: the last fifth of training, and the way there."""
    name, excess = _excess(config["limits"][0])
    returns = np.array([row["return"] for row in rows])
    costs = np.array([row["cost"][name] for row in rows])
    size = max(1, round(WINDOW / rows[0]["samples"]))
    starts = range(0, max(1, len(rows) - size + 1), size)
    samples = [rows[min(start + size, len(rows)) - 1]["samples"] for start in starts]
    gained, spent = (
        np.array([float(np.mean(values[start : start + size])) for start in starts])
        for values in (returns, costs)
    )
    late, windows = (-max(1, len(values) // 5) for values in (rows, samples))
    task = task_name(config["environment"])
    printed = {name: row[task].reward for name, row in RESULTS.items() if task in row}
    paper, best = printed.get(config["method"], np.inf), max(printed.values(), default=np.inf)

    def reached(wanted: float) -> int | None:
        there = np.nonzero((gained >= wanted) & (excess(spent) <= 0))[0]
        return samples[there[0]] if len(there) else None

    return {
        "samples": rows[-1]["samples"],
        "last_fifth": {
            "return": float(returns[late:].mean()),
            "cost": float(costs[late:].mean()),
            "cost_deviation_of_updates": float(costs[late:].std()),
            "cost_deviation_of_windows": float(spent[windows:].std()),
            "updates_above_limit": float((excess(costs[late:]) > 0).mean()),
            "windows_above_limit": float((excess(spent[windows:]) > 0).mean()),
        },
        "samples_to_95_percent_of_paper_while_feasible": reached(0.95 * paper),
        "samples_to_paper_while_feasible": reached(paper),
        "samples_to_95_percent_of_best_while_feasible": reached(0.95 * best),
    }


def _excess(text: str) -> tuple[str, Callable[[np.ndarray], np.ndarray]]:
    """The cost that a limit such as `cost<=25` names, and the function from costs to excess."""
    limits = Limits.parse([text])
    return limits.names[0], lambda costs: -limits.margins(costs[..., None])[..., 0]
