"""Small records of training runs: what the deep figures and tables are drawn from.

One folder a run, `<task>-<method>-<seed>`: `config.json`, at most 300 rows of `metrics.jsonl`,
`evaluation.json` (10 episodes, acting as in training and deterministically) and `summary.json`: how
much the cost swings in the last fifth of training, how many samples it took to come near the
paper's return while feasible, what it cost, which versions made it. Batches of 2,000 and of 20,000
steps are made comparable by first averaging rows over windows of 20,000 steps.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.limits import parse_limit

LIMIT = 25.0
WINDOW = 20_000  # samples over which rows are averaged
ROWS = 300
TITLES = {"spma-alm": "SPMA-ALM", "ppo-alm": "PPO-ALM", "ppo-lag": "PPO-Lag", "cpo": "CPO"}
TASKS = {
    "Ant": "SafetyAntVelocity-v1",
    "HalfCheetah": "SafetyHalfCheetahVelocity-v1",
    "Hopper": "SafetyHopperVelocity-v1",
}
# the paper's table at 1e7 samples: return, its interval, cost - 25, its interval
PAPER: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "spma-alm": {
        "Ant": (3202.29, 79.14, -2.68, 5.69),
        "HalfCheetah": (2933.2, 69.9, -0.74, 3.34),
        "Hopper": (1687.37, 7.64, -6.06, 2.27),
    },
    "ppo-alm": {
        "Ant": (3042.76, 161.36, 2.4, 5.45),
        "HalfCheetah": (2933.91, 21.05, -7.06, 1.87),
        "Hopper": (1644.06, 45.45, -9.92, 2.85),
    },
    "ppo-lag": {
        "Ant": (3223.58, 52.21, -4.96, 2.5),
        "HalfCheetah": (3010.19, 37.12, -7.74, 3.3),
        "Hopper": (1675.45, 42.51, -6.56, 9.12),
    },
    "cpo": {
        "Ant": (3011.19, 123.74, -11.26, 5.13),
        "HalfCheetah": (2685.9, 419.2, 6.18, 31.42),
        "Hopper": (1682.68, 40.78, 3.94, 23.1),
    },
}
# its table of tails of cost - 25: mean, worst, P90, P95
PAPER_TAILS: dict[str, dict[str, tuple[float, float, float, float]]] = {
    "spma-alm": {
        "Ant": (-2.68, 7.2, 4.44, 5.82),
        "HalfCheetah": (-0.74, 1.9, 1.62, 1.76),
        "Hopper": (-6.06, -2.7, -3.22, -2.96),
    },
    "ppo-alm": {
        "Ant": (2.4, 12.7, 11.62, 12.16),
        "HalfCheetah": (-7.06, -3.8, -4.16, -3.98),
        "Hopper": (-9.92, -2.9, -4.9, -3.9),
    },
    "ppo-lag": {
        "Ant": (-4.96, -2.3, -2.46, -2.38),
        "HalfCheetah": (-7.74, -3.2, -3.64, -3.42),
        "Hopper": (-6.56, 7.7, 3.62, 5.66),
    },
    "cpo": {
        "Ant": (-11.26, -4.0, -5.96, -4.98),
        "HalfCheetah": (6.18, 68.6, 41.64, 55.12),
        "Hopper": (3.94, 50.1, 29.1, 39.6),
    },
}


@dataclass(frozen=True)
class Record:
    """One training run, as it is stored."""

    task: str
    method: str
    seed: int
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    evaluation: dict[str, Any]
    summary: dict[str, Any]
    longer: dict[str, Any] | None = None  # an evaluation of a hundred episodes, where there is one

    @property
    def samples(self) -> int:
        """Environment steps that the run was planned for."""
        return self.config["samples"]

    def episodes(self, deterministic: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Returns and excess costs (cost minus limit) of the evaluation, `[episodes]` each."""
        seen = self.evaluation["deterministic" if deterministic else "stochastic"]
        limit = parse_limit(self.config["limit"][0])
        return np.array(seen["returns"]), np.array(seen["totals"][limit.name]) - limit.bound

    def curve(self, column: str, edges: np.ndarray) -> np.ndarray:
        """Mean of `return` or `cost` between successive `edges [n + 1]` of samples -> `[n]`; NaN
        where there is no row.
        """
        limit = parse_limit(self.config["limit"][0])
        values = np.array(
            [row["return"] if column == "return" else row["cost"][limit.name] for row in self.rows]
        )
        place = np.searchsorted(edges, [row["samples"] for row in self.rows], side="left") - 1
        inside = (place >= 0) & (place < len(edges) - 1)
        count = np.bincount(place[inside], minlength=len(edges) - 1)
        total = np.bincount(place[inside], values[inside], minlength=len(edges) - 1)
        return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def record_name(environment: str, method: str, seed: int) -> str:
    """The folder of a run: `Hopper-spma-alm-0`."""
    return f"{task_name(environment)}-{method}-{seed}"


def task_name(environment: str) -> str:
    """`Hopper` for `SafetyHopperVelocity-v1`; other simulators keep their name."""
    return environment.removeprefix("Safety").removesuffix("Velocity-v1")


def read_records(folder: Path) -> list[Record]:
    """Every record in a folder, by name."""
    found = []
    for path in sorted(folder.glob("*/config.json")):
        try:
            config = json.loads(path.read_text())
            rows = [
                json.loads(line)
                for line in (path.parent / "metrics.jsonl").read_text().splitlines()
            ]
            evaluation = json.loads((path.parent / "evaluation.json").read_text())
            summary_file = path.parent / "summary.json"
            summary = json.loads(summary_file.read_text()) if summary_file.exists() else {}
            longer_file = path.parent / "evaluation-100.json"
            longer = json.loads(longer_file.read_text()) if longer_file.exists() else None
            _refuse_others(config, evaluation, longer)
        except (OSError, ValueError) as error:
            raise InputError(f"record {path.parent} cannot be read: {error}.") from None
        task = task_name(config["environment"])
        found.append(
            Record(
                task, config["method"], config["seed"], config, rows, evaluation, summary, longer
            )
        )
    return found


def _refuse_others(config: Any, *evaluations: Any) -> None:
    if (
        not isinstance(config, dict)
        or not {"environment", "method", "seed", "limit", "samples"} <= config.keys()
    ):
        raise ValueError("config.json is not that of a run")
    for one in evaluations:
        if one is not None and not (
            isinstance(one, dict) and {"stochastic", "deterministic"} <= one.keys()
        ):
            raise ValueError("an evaluation is not what cmdpax evaluate writes")


def collect(
    run: Path,
    target: Path,
    cpu_seconds: float | None = None,
    versions: Mapping[str, str] | None = None,
) -> None:
    """Write the small record of a finished run folder, with what it cost and the versions that made
    it, where that is known.
    """
    config = json.loads((run / "config.json").read_text())
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    summary = summarise(rows, task_name(config["environment"]), config["method"])
    summary |= {"cpu_seconds": cpu_seconds, "versions": versions}
    target.mkdir(parents=True, exist_ok=True)
    (target / "metrics.jsonl").write_text(
        "".join(json.dumps(row) + "\n" for row in condensed(rows))
    )
    (target / "evaluation.json").write_bytes((run / "evaluation.json").read_bytes())
    (target / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    (target / "config.json").write_bytes(
        (run / "config.json").read_bytes()
    )  # last: with it, the record is there


def condensed(rows: Sequence[dict[str, Any]], most: int = ROWS) -> list[dict[str, Any]]:
    """At most so many rows: means over groups of successive ones; counters and words are those of a
    group's last.
    """
    size = -(-len(rows) // most)
    return [_mean(rows[start : start + size]) for start in range(0, len(rows), size)]


def _mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    def mean(values: Sequence[Any]) -> Any:
        if isinstance(values[-1], dict):
            return {name: mean([value[name] for value in values]) for name in values[-1]}
        return values[-1] if isinstance(values[-1], str) else float(f"{np.mean(values):.6g}")

    last = rows[-1]
    means = {name: mean([row[name] for row in rows]) for name in last}
    return {**means, "update": last["update"], "samples": last["samples"]}


def summarise(rows: Sequence[dict[str, Any]], task: str, method: str) -> dict[str, Any]:
    """What all rows of a run say: the last fifth of training, and the way there."""
    late = rows[-max(1, len(rows) // 5) :]
    cost, returns = (
        np.array([row["cost"]["cost"] for row in late]),
        np.array([row["return"] for row in late]),
    )
    averaged = _windows(rows)
    late_costs = np.array([spent for _, _, spent in averaged[-max(1, len(averaged) // 5) :]])
    paper, best = (
        PAPER.get(method, {}).get(task, (np.inf,))[0],
        max(row.get(task, (np.inf,))[0] for row in PAPER.values()),
    )

    def reached(wanted: float) -> int | None:
        return next(
            (samples for samples, gained, spent in averaged if gained >= wanted and spent <= LIMIT),
            None,
        )

    return {
        "samples": rows[-1]["samples"],
        "last_fifth": {
            "return": float(returns.mean()),
            "cost": float(cost.mean()),
            "cost_deviation_of_updates": float(cost.std()),
            "cost_deviation_of_windows": float(late_costs.std()),
            "updates_above_limit": float((cost > LIMIT).mean()),
            "windows_above_limit": float((late_costs > LIMIT).mean()),
        },
        "samples_to_95_percent_of_paper_while_feasible": reached(0.95 * paper),
        "samples_to_paper_while_feasible": reached(paper),
        "samples_to_95_percent_of_best_while_feasible": reached(0.95 * best),
    }


def _windows(rows: Sequence[dict[str, Any]]) -> list[tuple[int, float, float]]:
    """Samples, mean return and mean cost of successive windows."""
    size = max(1, round(WINDOW / rows[0]["samples"]))
    parts = [rows[start : start + size] for start in range(0, max(1, len(rows) - size + 1), size)]
    means = [
        [
            float(np.mean([row["return"] for row in p])),
            float(np.mean([row["cost"]["cost"] for row in p])),
        ]
        for p in parts
    ]
    return [(part[-1]["samples"], *mean) for part, mean in zip(parts, means)]
