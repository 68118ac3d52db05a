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

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.experiments.results import read_lines, write_lines
from cmdpax.experiments.runs import Run
from cmdpax.experiments.store import Store, versions
from cmdpax.files import Row
from cmdpax.learning.run_folder import RunFolder, from_0_1
from cmdpax.model.limits import Limits
from cmdpax.paper.settings import ABLATIONS, RESULTS, SAMPLES, SEEDS, SWEEPS, TASKS, TITLES

WINDOW = 20_000  # samples over which rows are averaged
ROWS = 300  # of a record
# task, method, seed; of an ablation also the value and the number of inner batches
Cell = tuple[object, ...]
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
        inside, parts = (place >= 0) & (place < len(edges) - 1), len(edges) - 1
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
        names = ("task", "method", "seed", ABLATIONS[sweep], "inner")
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
    shares = sorted({f"{100 * one / SAMPLES:.3g}%" for one in samples}, key=_percent)
    counts = [count for count in seeds if count]
    words = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{' and '.join(shares)} of the paper's samples, {words} seed{'' if words == '1' else 's'}"
        f" (paper: 100%, {paper} seeds)"
    )


def _percent(text: str) -> float:
    return float(text[:-1])


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
            other = runs.setdefault(cell(run, sweep), run)
            if other != run:
                differing = [key for key in run.config if run.config[key] != other.config.get(key)]
                raise InputError(
                    f"{store.folder} has more than one run of"
                    f" {', '.join(map(str, cell(run, sweep)))} ({other.id} and {run.id} differ in"
                    f" {', '.join(differing)}); give the sweep that you want a store of its own."
                )
    _record(folder, sweep, list(runs.values()), store)
    return len(runs)


def cell(run: Run, sweep: str) -> Cell:
    """What a run is a measurement of."""
    config = run.config
    own = (config[ABLATIONS[sweep]], config["inner"]) if sweep in ABLATIONS else ()
    return (task_name(config["environment"]), config["method"], run.seed, *own)


def _takes_part(run: Run, sweep: str, tasks: Sequence[str]) -> bool:
    config, wanted = run.config, SWEEPS[sweep]
    if run.kind != "train" or config["environment"] not in {TASKS[task] for task in tasks}:
        return False
    varied = (ABLATIONS[sweep], "inner") if sweep in ABLATIONS else ()
    is_wanted = all(config[name] in wanted.settings[name] for name in varied)
    return config["method"] in wanted.methods and is_wanted


def _record(folder: Path, sweep: str, runs: Sequence[Run], store: Store) -> None:
    """Record those of `runs` that are finished and did not fail; what is recorded is kept."""
    recorded, rows = DeepStudy(folder).cells(sweep), []
    for run in runs:
        result, config = store.result(run), run.config
        if cell(run, sweep) in recorded or result is None or "failed" in result["outcome"]:
            continue
        task, method = task_name(config["environment"]), config["method"]
        if sweep not in ABLATIONS:
            spent = (store.spent(run) or {}).get("cpu_seconds")
            target = folder / f"{task}-{method}-{run.seed}"
            write_record(store.done / run.id, target, spent, result["versions"])
            continue
        rows.append(
            {
                "task": task,
                "method": method,
                ABLATIONS[sweep]: config[ABLATIONS[sweep]],
                "inner": config["inner"],
                "seed": run.seed,
                "samples": config["samples"],
                "return": result["outcome"]["return"],
                "excess": result["outcome"]["excess"],
                "code": result["versions"]["code"],
            }
        )
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
    def read(name: str) -> Any:
        return json.loads((folder / name).read_text())

    try:
        config, evaluation = read("config.json"), read("evaluation.json")
        rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
        summary = read("summary.json") if (folder / "summary.json").exists() else {}
        is_longer = (folder / "evaluation-100.json").exists()
        longer = read("evaluation-100.json") if is_longer else None
        needed = {"environment", "method", "seed", "limits", "samples"}
        config = from_0_1(config) if isinstance(config, dict) else {}
        if not needed <= config.keys():
            raise ValueError("config.json is not that of a run")
        for one in (evaluation, *([longer] if is_longer else [])):
            if not isinstance(one, dict) or not {"stochastic", "deterministic"} <= one.keys():
                raise ValueError("an evaluation is not what cmdpax evaluate writes")
    except (OSError, ValueError) as error:
        raise InputError(f"record {folder} cannot be read: {error}.") from None
    task = task_name(config["environment"])
    return Record(task, config["method"], config["seed"], config, rows, evaluation, summary, longer)


def write_record(
    run: Path,
    target: Path,
    cpu_seconds: float | None = None,
    made_by: Mapping[str, str] | None = None,
) -> None:
    """Write the small record of a finished run folder, with its cost and versions if known."""
    config = RunFolder(run).config
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    summary = summarise(rows, config) | {"cpu_seconds": cpu_seconds, "versions": made_by}
    target.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps(row) + "\n" for row in condensed(rows))
    (target / "metrics.jsonl").write_text(lines)
    (target / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    for name in ("evaluation.json", "config.json"):  # the config last: with it the record is there
        (target / name).write_bytes((run / name).read_bytes())


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
    task, method = task_name(config["environment"]), config["method"]
    paper = RESULTS.get(method, {}).get(task, (np.inf,))[0]
    best = max(row.get(task, (np.inf,))[0] for row in RESULTS.values())

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
