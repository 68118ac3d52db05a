"""Training runs for the report: return and costs against samples, thinned to what a chart can show,
and their evaluation.

A run is a folder with `config.json` and `metrics.jsonl`; a row that was cut off when a run was
killed is passed over. Of more than `POINTS` rows, neighbours are averaged, and their smallest and
largest value kept as a band.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.config import METHODS
from cmdpax.model.limits import parse_limit

POINTS = 200
Row = dict[str, Any]


@dataclass(frozen=True)
class TrainingRun:
    """A run as it was found."""

    name: str  # its folder
    config: Row
    samples: np.ndarray  # [n]
    series: dict[str, np.ndarray]  # "return" and every cost, each [n]
    evaluation: Row  # "stochastic" and "deterministic", if it was evaluated

    @property
    def environment(self) -> str:
        """What it was trained on."""
        return str(self.config.get("environment", "unknown environment"))

    @property
    def method(self) -> str:
        """What it was trained with."""
        return str(self.config.get("method", "unknown method"))

    @property
    def limits(self) -> dict[str, Row]:
        """Limit of each cost that has one."""
        try:
            return {
                limit.name: {"sense": limit.sense, "bound": limit.bound}
                for limit in map(parse_limit, self.config.get("limit", ()))
            }
        except (InputError, TypeError):
            return {}

    def curves(self) -> Row:
        """Ready for JSON: for every series, mean, lowest and highest of each group of neighbouring
        rows.
        """
        groups = np.array_split(np.arange(len(self.samples)), min(POINTS, len(self.samples)))
        return {
            "name": self.name,
            "method": self.method,
            "seed": self.config.get("seed"),
            "samples": [_digits(self.samples[group].mean()) for group in groups],
            "series": {
                name: {
                    kind: [_digits(measure(numbers[group])) for group in groups]
                    for kind, measure in (("mean", np.mean), ("low", np.min), ("high", np.max))
                }
                for name, numbers in self.series.items()
            },
        }


def read_run(folder: Path, name: str) -> TrainingRun | None:
    """The run in a folder; None if there is none, or nothing of it that can be read."""
    config, evaluation = (
        read_json(folder / "config.json"),
        _measured(read_json(folder / "evaluation.json")),
    )
    rows = [row for row in read_rows(folder / "metrics.jsonl") if _whole(row)]
    if not config or not rows:
        return None
    costs = [cost for cost in rows[0]["cost"] if all(cost in row["cost"] for row in rows)]
    series = {
        "return": np.array([row["return"] for row in rows], dtype=np.float64),
        **{cost: np.array([row["cost"][cost] for row in rows], dtype=np.float64) for cost in costs},
    }
    return TrainingRun(
        name,
        config,
        np.array([row["samples"] for row in rows], dtype=np.float64),
        series,
        evaluation,
    )


def environments(runs: list[TrainingRun]) -> list[Row]:
    """Runs by environment, ready for JSON, each with the limits of its costs; methods in the order
    of their table.
    """
    shown, order = [], list(METHODS)
    runs = sorted(
        runs, key=lambda run: order.index(run.method) if run.method in order else len(order)
    )
    for environment in sorted({run.environment for run in runs}):
        own = [run for run in runs if run.environment == environment]
        limits = {name: limit for run in own for name, limit in run.limits.items()}
        costs = list(dict.fromkeys(name for run in own for name in run.series if name != "return"))
        shown.append(
            {
                "title": environment,
                "limits": limits,
                "costs": costs,
                "runs": [run.curves() for run in own],
            }
        )
    return shown


def read_json(path: Path) -> Row:
    """An object in a JSON file; empty if there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def read_rows(path: Path) -> list[Row]:
    """The objects in a file of JSON lines; lines that are none are passed over."""
    rows = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def _measured(evaluation: Row) -> Row:
    """The parts of an evaluation that are objects as they should be."""

    def is_sound(seen: Any) -> bool:
        if not isinstance(seen, dict):
            return False
        parts = [seen.get(name, {}) for name in ("reward", "costs", "violation_probability")]
        return all(isinstance(part, dict) for part in parts) and all(
            isinstance(cost, dict) for cost in parts[1].values()
        )

    return {kind: seen for kind, seen in evaluation.items() if is_sound(seen)}


def _whole(row: Row) -> bool:
    numbers = [
        row.get("samples"),
        row.get("return"),
        *(row["cost"].values() if isinstance(row.get("cost"), dict) else [None]),
    ]
    return all(isinstance(number, int | float) and np.isfinite(number) for number in numbers)


def _digits(number: Any) -> float:
    return float(f"{float(number):.5g}")
