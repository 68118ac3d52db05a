"""The deep study: three velocity tasks, four methods, seeds; and the two ablations of the augmented-Lagrangian methods.

Everything is drawn from records (`deep_records.py`; ablations are one JSON line a run), and missing cells are drawn as missing.
With a fraction of the paper's budget, what is missing at that budget is run first, through the run store, and recorded.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cmdpax.experiments import presets
from cmdpax.experiments.records import Row, read_lines, write_lines
from cmdpax.experiments.runs import Run
from cmdpax.experiments.specification import Spec
from cmdpax.experiments.store import Store, read
from cmdpax.experiments.versions import versions
from cmdpax.paper.deep_records import LIMIT, TASKS, TITLES, Record, collect, read_records, record_name, task_name

ABLATIONS: dict[str, tuple[str, Callable[..., Spec]]] = {
    "penalties": ("penalty", presets.penalties),
    "dual-steps": ("dual_step", presets.dual_steps),
}
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
        return budget([record.samples for record in self.records], [len(self.of(t, m)) for t in TASKS for m in TITLES], 5)


def budget(samples: Sequence[int], seeds: Sequence[int], paper: int) -> str:
    """The share of the paper's samples, and the number of seeds, in words."""
    shares = sorted({f"{100 * one / presets.SAMPLES:.3g}%" for one in samples}, key=lambda text: float(text[:-1]))
    counts = [count for count in seeds if count]
    words = f"{min(counts)}" if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return (
        f"{' and '.join(shares)} of the paper's samples, {words} seed{'' if words == '1' else 's'} (paper: 100%, {paper} seeds)"
    )


def study(folder: Path) -> Study:
    """Read what a folder holds."""
    return Study(read_records(folder), {name: read_lines(folder / f"{name}.jsonl")[1] for name in ABLATIONS})


def run_missing(
    folder: Path, parts: Sequence[str], fraction: float, seeds: int | None, tasks: Sequence[str], carry: Carry
) -> None:
    """Run and record what `folder` lacks of the main comparison (`main`) or of an ablation, at that fraction of the budget."""
    for part in parts:
        make = presets.deep if part == "main" else ABLATIONS[part][1]
        spec = make(environment=[TASKS[task] for task in tasks])
        runs = (spec if seeds is None else spec.with_seeds(seeds)).with_fraction(fraction).runs()
        if part == "main":
            names = {record_name(run.config["environment"], run.config["method"], run.seed): run for run in runs}
            lacking = {name: run for name, run in names.items() if not (folder / name / "config.json").exists()}
            store = carry(spec.name, list(lacking.values()))
            for name, run in lacking.items():
                if "failed" not in (store.result(run) or {"outcome": {"failed": ""}})["outcome"]:
                    collect(store.done / run.id, folder / name, (store.spent(run) or {}).get("cpu_seconds"))
        else:
            store = carry(spec.name, runs)
            path = folder / f"{part}.jsonl"
            rows = [row for run in runs for row in [_ablation_row(store, run, ABLATIONS[part][0])] if row]
            kept = [row for row in read_lines(path)[1] if row["task"] not in tasks]
            write_lines(path, {"kind": "header", **versions()}, [*kept, *rows])


def _ablation_row(store: Store, run: Run, field: str) -> Row | None:
    seen = read(store.done / run.id / "evaluation.json")
    if seen is None:
        return None
    config = run.config
    return {
        "task": task_name(config["environment"]),
        "method": config["method"],
        field: config[field],
        "inner": config["inner"],
        "seed": run.seed,
        "samples": config["samples"],
        "return": seen["stochastic"]["reward"]["mean"],
        "excess": seen["stochastic"]["costs"]["cost"]["mean"] - LIMIT,
    }
