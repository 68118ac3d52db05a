"""What do the interactive parts show: replays of exact runs, learning curves?

A replay has the policy and its occupancy at a choice of iterations; gap, violation and weights at
all of them. Records hold curves, not policies, so that a run is done again from its method and
settings: exact runs take a second and are deterministic. Those that take longer (log-linear
policies) are kept in `.replays/` beside the results, under a hash of what they depend on.
Probabilities and occupancies are rounded to 1/255, which no eye sees in an arrow; curves are 32-bit
floats.

Frames of a replay: every iterate at first, then ever fewer, but never more than `STRIDE` apart, an
odd number: an oscillation of period two would vanish at an even one. On a page of many replays each
has fewer frames: `pace` times fewer.

A training run is a folder with `config.json` and `metrics.jsonl`; a row that was cut off when a run
was killed is passed over. Of more than `POINTS` rows, neighbours are averaged, and their smallest
and largest value kept as a band.
"""

import base64
import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments.by_name import open_features, open_model
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.results import provenance
from cmdpax.files import Row, read_json, read_rows, write_text
from cmdpax.learning.config import METHODS
from cmdpax.learning.run_folder import from_0_1
from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limits
from cmdpax.solvers.solve import solve, trajectory

DENSE, GROWTH, STRIDE = 40, 0.025, 9
MAX_STATES, MAX_EVALUATIONS = 2_500, 20_000  # that can be drawn, and shown
PATIENCE_SECONDS = 2.0  # what took longer is worth keeping
FULL_REPLAYS = 24  # so many have every frame
CACHE = ".replays"
POINTS = 200


@dataclass(frozen=True)
class Replay:
    """An exact run to be shown: what to run, and the names it goes by on the page."""

    problem: str  # its title; runs of one problem can be compared
    model: str  # as `open_model` reads it
    label: str
    method: str
    settings: Row = field(default_factory=dict)
    features: str | None = None  # as `open_features` reads it


def frames(last: int, pace: int = 1) -> list[int]:
    """Iterates to keep out of 0..last, both included; see the module docstring."""
    kept, k, stride = [0], 0, (STRIDE * pace) | 1
    while k < last:
        k += 1 if k < DENSE // pace else min(stride, max(1, round(GROWTH * pace * k)))
        kept.append(min(k, last))
    return kept


def problems(
    replays: Sequence[Replay], folder: Path, callback: Callable[[Row], None] = lambda row: None
) -> list[Row]:
    """The problems of `replays` with their runs, ready for JSON; what cannot be drawn is left out.

    callback: called before each run with its `problem`, `label`, `number`, and the `count`.
    """
    shown, pace = [], max(1, round(len(replays) / FULL_REPLAYS))
    for title in dict.fromkeys(replay.problem for replay in replays):
        own = [replay for replay in replays if replay.problem == title]
        try:
            model = open_model(own[0].model)
        except InputError:  # a model file that has moved away
            continue
        if model.grid is None or model.states > MAX_STATES:
            continue
        runs = []
        for number, replay in enumerate(own, 1):
            callback({"problem": title, "label": replay.label, "number": number, "count": len(own)})
            with suppress(InputError, NumericalError):  # of another version, diverged, too long
                runs.append(_kept(model, replay, folder, pace))
        if runs:
            shown.append({**_common(title, model), "replays": runs})
    return shown


def _common(title: str, model: CMDP) -> Row:
    """What the runs of one problem have in common."""
    assert model.grid is not None
    names = model.constraint_names or [f"c{i}" for i in range(model.constraint_count)]
    return {
        "title": title,
        "optimum": solve(model, eps=1e-12).reward,
        "states": list(model.state_names or map(str, range(model.states))),
        "actions": list(model.action_names or map(str, range(model.actions))),
        "constraints": list(names),
        **asdict(model.grid),
    }


def _kept(model: CMDP, replay: Replay, folder: Path, pace: int) -> Row:
    """Run a replay, or take it from where an earlier report left it."""
    made_by: Row = {"replay": asdict(replay), "model": model.digest, "by": provenance()}
    made_by["frames"] = [DENSE, GROWTH, STRIDE, pace]
    name = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:24]
    path = folder / CACHE / f"{name}.json"
    with suppress(OSError):
        if run := read_json(path):
            return run
    started = time.perf_counter()
    run = _run(model, replay, pace)
    if time.perf_counter() - started > PATIENCE_SECONDS:
        with suppress(OSError):  # a folder that cannot be written only costs time
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(run))
    return run


def _run(model: CMDP, replay: Replay, pace: int) -> Row:
    features = None if replay.features is None else open_features(replay.features, model)
    wanted = frames(MAX_EVALUATIONS, pace)  # a shorter run has the first of them
    run = trajectory(model, replay.method, features=features, keep=wanted, **replay.settings)
    last = len(run.rewards) - 1
    if run.diverged or run.policies is None:
        raise NumericalError(f"{replay.method}: step {run.diverged} is not finite.")
    if last > MAX_EVALUATIONS:
        raise InputError(f"{replay.method}: {last} evaluations are more than a page can show.")
    kept, policies = wanted[: len(run.policies)], run.policies
    if kept[-1] < last:
        kept, policies = [*kept, last], np.concatenate([policies, run.policy[None]])
    form = StandardForm.of(model)
    visits = np.stack([form.criterion.share(form, policy) for policy in policies])
    short = -run.margins.min(-1) if model.constraint_count else np.zeros_like(run.rewards)
    settings = {k: v if isinstance(v, str) else float(v) for k, v in replay.settings.items()}
    return {
        "label": replay.label,
        "method": replay.method,
        "settings": settings,
        "features": replay.features,
        "frames": kept,
        "policies": _bytes(policies),  # [frames, S, A]
        "visits": _bytes(visits / visits.max()),  # [frames, S]
        "most": float(visits.max()),
        "rewards": _floats(run.rewards),  # [N + 1]
        "violations": _floats(short),  # [N + 1], signed: negative means slack
        "weights": _floats(run.weights[kept]),  # [frames, m]
    }


def _bytes(shares: np.ndarray) -> str:
    """Numbers in 0..1 as bytes."""
    numbers = np.rint(255 * np.clip(shares, 0, 1)).astype(np.uint8)
    return base64.b64encode(numbers.tobytes()).decode()


def _floats(numbers: np.ndarray) -> str:
    """Numbers as 32-bit floats, little-endian."""
    return base64.b64encode(numbers.astype("<f4").tobytes()).decode()


@dataclass(frozen=True)
class TrainingRun:
    """A training run as it lies on disk."""

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
            limits = Limits.parse(self.config.get("limits", ()))
        except (InputError, TypeError):
            return {}
        return {
            name: {"sense": "<=", "bound": high} if high < np.inf else {"sense": ">=", "bound": low}
            for name, (low, high) in zip(limits.names, limits.bounds)
        }

    def curves(self) -> Row:
        """Ready for JSON: mean, lowest and highest of each group of neighbouring rows."""
        groups = np.array_split(np.arange(len(self.samples)), min(POINTS, len(self.samples)))
        measures: dict[str, Any] = {"mean": np.mean, "low": np.min, "high": np.max}

        def summarised(numbers: np.ndarray) -> dict[str, list[float]]:
            parts = [numbers[group] for group in groups]
            return {name: [_rounded(of(part)) for part in parts] for name, of in measures.items()}

        return {
            "name": self.name,
            "method": self.method,
            "seed": self.config.get("seed"),
            "samples": [_rounded(self.samples[group].mean()) for group in groups],
            "series": {name: summarised(numbers) for name, numbers in self.series.items()},
        }


def read_run(folder: Path, name: str) -> TrainingRun | None:
    """The run in a folder; None if there is none, or nothing of it that can be read."""
    config = from_0_1(read_json(folder / "config.json"))
    evaluation = read_json(folder / "evaluation.json")
    rows = [row for row in read_rows(folder / "metrics.jsonl") if _is_whole(row)]
    if not config or not rows:
        return None
    costs = [cost for cost in rows[0]["cost"] if all(cost in row["cost"] for row in rows)]
    series = {"return": _column(row["return"] for row in rows)}
    series |= {cost: _column(row["cost"][cost] for row in rows) for cost in costs}
    evaluation = {kind: one for kind, one in evaluation.items() if _is_evidence(one)}
    samples = _column(row["samples"] for row in rows)
    return TrainingRun(name, config, samples, series, evaluation)


def environments(runs: Sequence[TrainingRun]) -> list[Row]:
    """Runs by environment with limits, ready for JSON; methods in the order of their table."""
    shown, order = [], [*METHODS, ""]
    ordered = sorted(runs, key=lambda run: order.index(run.method if run.method in METHODS else ""))
    for environment in sorted({run.environment for run in runs}):
        own = [run for run in ordered if run.environment == environment]
        costs = dict.fromkeys(name for run in own for name in run.series if name != "return")
        limits = {name: limit for run in own for name, limit in run.limits.items()}
        about = {"title": environment, "limits": limits, "costs": list(costs)}
        shown.append({**about, "runs": [run.curves() for run in own]})
    return shown


def _is_evidence(evidence: Any) -> bool:
    """Whether the parts of an evaluation that are shown are what they should be."""
    if not isinstance(evidence, dict):
        return False
    parts = [evidence.get(name, {}) for name in ("reward", "costs", "violation_probability")]
    if isinstance(parts[1], dict):
        parts += parts[1].values()
    return all(isinstance(part, dict) for part in parts)


def _is_whole(row: Row) -> bool:
    costs = row["cost"].values() if isinstance(row.get("cost"), dict) else [None]
    numbers = [row.get("samples"), row.get("return"), *costs]
    return all(isinstance(number, int | float) and abs(number) < 1e300 for number in numbers)


def _column(numbers: Iterable[float]) -> np.ndarray:
    return np.array(list(numbers), dtype=np.float64)


def _rounded(number: Any) -> float:
    return float(f"{float(number):.5g}")
