"""Small records of training runs: what the deep figures and tables are drawn from.

A record is a folder `<task>-<method>-<seed>`: `config.json`, at most 100 rows of `metrics.jsonl` of
four digits, `evaluation.json` (10 episodes, acting as in training and deterministically) and
`summary.json`: how much the cost swings in the last fifth of training, how many samples it took to
come near the paper's return while feasible, what it cost, which versions made it. Batches of 2,000
and of 20,000 steps are made comparable by first averaging rows over windows of 20,000 steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.experiments.runs import Run
from cmdpax.files.reading import Row, named, read_bytes, read_json
from cmdpax.files.written import write_bytes, write_json, write_rows
from cmdpax.learning.config import SHAPE
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits
from cmdpax.paper.settings import RESULTS

WINDOW = 20_000  # samples over which rows are averaged
ROWS = 100  # of a record: a curve has as many points


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

    def has_settings_of(self, run: Run) -> bool:
        """Whether it is of that run, whatever its seed; shapes that a run leaves open are any."""
        return all(
            self.config.get(name) == value
            for name, value in run.config.items()
            if value is not None or name not in SHAPE
        )

    @property
    def code(self) -> str:
        """A digest of the sources that made it; empty where that is not known."""
        return (self.summary.get("versions") or {}).get("code", "")

    @property
    def limits(self) -> Limits:
        """Limits of the run."""
        return Limits.parse(self.config["limits"])

    def curve(self, quantity: str, edges: np.ndarray) -> np.ndarray:
        """Mean of `return` or of a cost between successive `edges [n + 1]` of samples -> `[n]`.

        NaN where there is no row.
        """
        rows = self.rows if quantity == "return" else [row["cost"] for row in self.rows]
        return self._means([row[quantity] for row in rows], edges)

    def aims(self, cost: str, edges: np.ndarray) -> np.ndarray:
        """What training aimed at for a cost with an upper limit, as `curve`."""
        limits = self.limits
        limit = limits.bounds[limits.names.index(cost), 1]
        aim = limit * (1 - (self.config.get("reserve") or 0.0))  # of rows that do not say
        return self._means([row.get("aim", {}).get(cost, aim) for row in self.rows], edges)

    def _means(self, values: Sequence[float], edges: np.ndarray) -> np.ndarray:
        place = np.searchsorted(edges, [row["samples"] for row in self.rows], side="left") - 1
        parts = len(edges) - 1
        inside = (place >= 0) & (place < parts)
        count = np.bincount(place[inside], minlength=parts)
        total = np.bincount(place[inside], np.array(values)[inside], minlength=parts)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def read_records(folder: Path) -> list[Record]:
    """Every record of a run in a folder, by name."""
    return [read_record(path.parent) for path in sorted(folder.glob("*/config.json"))]


def read_record(folder: Path) -> Record:
    """The record in a folder."""
    run = RunFolder(folder)
    try:
        config, rows, evaluation = run.config, run.rows(), run.evaluation
        if evaluation is None:
            raise InputError("it has no evaluation.json.")
        longer = [read_json(path) for path in folder.glob("evaluation-100.json")]
        summary = read_json(folder / "summary.json")
        is_whole = "last_fifth" in summary and all("stochastic" in one for one in longer)
        if not is_whole or not {"seed", "samples"} <= config.keys():
            raise InputError("it is not what write_record writes.")
    except InputError as error:
        raise InputError(f"record {folder} cannot be read: {error}") from None
    own = (task_name(config["environment"]), config["method"], config["seed"])
    return Record(*own, config, rows, evaluation, summary, *longer)


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
        return values[-1] if isinstance(values[-1], str) else float(f"{np.mean(values):.4g}")

    last = rows[-1]
    # the first batch trains critics alone: its row says nothing of the policy's step
    means = {name: mean([row[name] for row in rows if name in row]) for name in last}
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
    best, own = best_printed(task), RESULTS.get(config["method"], {}).get(task)
    paper = np.inf if own is None else own.reward

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


def task_name(environment: str) -> str:
    """`Hopper` for `SafetyHopperVelocity-v1`; other simulators keep their name."""
    return environment.removeprefix("Safety").removesuffix("Velocity-v1")


def best_printed(task: str) -> float:
    """The paper's best return of any method; infinite for a task that it does not have."""
    printed = [row[task].reward for row in RESULTS.values() if task in row]
    return max(printed, default=np.inf)
