"""What do the interactive parts show: replays of exact runs, learning curves?

A replay has the policy and its occupancy at a choice of iterations; gap, violation and weights at
all of them. Records hold curves, not policies, so that a run is done again from its method and
settings: exact runs take a second and are deterministic. Those that take longer (log-linear
policies) are kept in `.replays/` beside the results, under a hash of what they depend on.
Probabilities and occupancies are rounded to 1/255, which no eye sees in an arrow; curves are 32-bit
floats. What a record says is not believed: a replay that would cost too much is left out before
anything of it is made or opened.

Frames of a replay: every iterate at first, then ever fewer, but never more than `STRIDE` apart, an
odd number: an oscillation of period two would vanish at an even one. On a page of many replays each
has fewer frames: `pace` times fewer.

A training run is a folder with `config.json` and `metrics.jsonl`; a line that is no row is passed
over. Of more than `POINTS` rows, neighbours are averaged, and their smallest and largest value kept
as a band.
"""

import base64
import hashlib
import json
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np

from cmdpax.environments.by_name import drawn_states, open_features, open_model
from cmdpax.errors import InputError, NumericalError, check_count
from cmdpax.exact.standard import StandardForm
from cmdpax.experiments.results import provenance
from cmdpax.files.reading import Row, read_json
from cmdpax.files.written import write_text
from cmdpax.learning.config import METHODS
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limits
from cmdpax.solvers.solve import solve
from cmdpax.solvers.table import find_method
from cmdpax.solvers.trajectory import trajectory

DENSE, GROWTH, STRIDE = 40, 0.025, 9
MAX_STATES, MAX_EVALUATIONS = 2_500, 20_000  # that can be drawn, and shown
MAX_FILE = 20_000_000  # bytes of a model or of features that a record names
MAX_COUNT = 1_000  # of any other setting that counts, such as passes
# about microseconds: of one replay, and of all on a page
MAX_COST, MAX_TOTAL_COST = 60_000_000, 400_000_000
PATIENCE_SECONDS = 2.0  # what took longer is worth keeping
FULL_REPLAYS = 24  # so many have every frame
CACHE = ".replays"
KEPT = {"label", "method", "settings", "features", "frames", "policies", "visits", "most"}
KEPT |= {"rewards", "violations", "weights"}  # of a replay
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
    file: str = ""  # that it is from


def frames(last: int, pace: int = 1) -> list[int]:
    """Iterates to keep out of 0..last, both included; see the module docstring."""
    kept, k, stride = [0], 0, (STRIDE * pace) | 1
    while k < last:
        k += 1 if k < DENSE // pace else min(stride, max(1, round(GROWTH * pace * k)))
        kept.append(min(k, last))
    return kept


def reason(error: Exception, path: Path) -> str:
    """Why something was passed over, in one sentence that does not repeat the file's name."""
    if isinstance(error, OSError) and error.strerror:
        return f"it cannot be read ({error.strerror})."
    if isinstance(error, UnicodeDecodeError):
        return "it is not text in UTF-8."
    if isinstance(error, InputError | NumericalError):
        return str(error).removeprefix(f"{path}: ")
    return f"it is not what it should be ({type(error).__name__}: {str(error)[:200]})."


def problems(
    replays: Sequence[Replay], folder: Path, callback: Callable[[Row], None] = lambda row: None
) -> tuple[list[Row], list[tuple[str, str]]]:
    """The problems of `replays` with their runs, ready for JSON; and file and reason of the others.

    callback: called before each run with its `problem`, `label`, `number`, and the `count`.
    """
    passed_over: list[tuple[str, str]] = []
    shown, total, pace = [], 0.0, max(1, round(len(replays) / FULL_REPLAYS))
    for title in dict.fromkeys(replay.problem for replay in replays):
        own, runs, common = [one for one in replays if one.problem == title], [], None
        for number, replay in enumerate(own, 1):
            callback({"problem": title, "label": replay.label, "number": number, "count": len(own)})
            try:
                if common is None:
                    model = _drawable(replay.model)
                    common = _common(title, model)
                features = None if replay.features is None else _features(model, replay.features)
                total += _cost(model, replay, features)
                if total > MAX_TOTAL_COST:
                    raise InputError("its replay would be too much for one page.")
                runs.append(_kept(model, replay, features, folder, pace))
            except Exception as error:  # of another version, diverged, too long, or anything else
                why = f"{title}, {replay.label}: {reason(error, folder)}"
                passed_over.append((replay.file, why))
                if common is None:
                    break
        if runs and common is not None:
            shown.append({**common, "replays": runs})
    return shown, passed_over


def _drawable(source: str) -> CMDP:
    """The model that a record names, if it is small and can be drawn."""
    states = drawn_states(source)
    if states is None:
        _check_file(source)
    elif states > MAX_STATES:
        raise InputError(f"its model has more than the {MAX_STATES} states that can be drawn.")
    model = open_model(source)
    if model.grid is None or model.states * model.actions > 4 * MAX_STATES:
        raise InputError("its model has no drawing, or is too large for one.")
    return model


def _check_file(source: str) -> None:
    """Refuse to open what a record names, unless it is a file of a modest size."""
    if "\0" in source or not Path(source).is_file():
        raise InputError(f"{source[:80]} cannot be drawn, or is not there.")
    if Path(source).stat().st_size > MAX_FILE:
        raise InputError(f"{source[:80]} has more than the {MAX_FILE:,} bytes that a report reads.")


def _features(model: CMDP, source: str) -> np.ndarray:
    """The features that a record names, if they are small."""
    name, _, sizes = source.partition(":")
    if name != "tiles":
        _check_file(source)
    elif any(not size.isdecimal() or int(size[:9]) > MAX_COUNT for size in sizes.split(",")):
        raise InputError(f"its features are {source[:80]}; a report makes {MAX_COUNT} at most.")
    return open_features(source, model)


def _cost(model: CMDP, replay: Replay, features: np.ndarray | None) -> float:
    """About how many microseconds a replay takes: evaluations x (500 + S x A x d)."""
    budget = find_method(replay.method).budget
    settings = {**budget, **replay.settings}
    for name, value in settings.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InputError(f"{name} is {brief(value)}; a replay needs one number.")
    counts = {name: settings[name] for name in budget if isinstance(budget[name], int)}
    names = ("steps",) if "steps" in counts else ("outer", "inner")
    evaluations = math.prod(check_count(name, counts.pop(name)) for name in names)
    if evaluations > MAX_EVALUATIONS:
        raise InputError(f"{evaluations:.2g} evaluations are more than a page can show.")
    for name, value in counts.items():
        check_count(name, value, most=MAX_COUNT)
    size = model.states * model.actions if features is None else features.size
    if evaluations * (500 + size) > MAX_COST:
        raise InputError("its replay would take too long.")
    return evaluations * (500 + size)


def _common(title: str, model: CMDP) -> Row:
    """What the runs of one problem have in common."""
    assert model.grid is not None
    return {
        "title": title,
        "optimum": solve(model, eps=1e-12).reward,
        "states": list(model.state_names or map(str, range(model.states))),
        "actions": list(model.action_labels),
        "constraints": list(model.constraint_names),
        **asdict(model.grid),
    }


def _kept(model: CMDP, replay: Replay, features: np.ndarray | None, folder: Path, pace: int) -> Row:
    """Run a replay, or take it from where an earlier report left it."""
    own = {name: value for name, value in asdict(replay).items() if name != "file"}
    made_by: Row = {"replay": own, "model": model.digest, "by": provenance()}
    made_by["frames"] = [DENSE, GROWTH, STRIDE, pace]
    name = hashlib.sha256(json.dumps(made_by, sort_keys=True).encode()).hexdigest()[:24]
    path = folder / CACHE / f"{name}.json"
    is_ours = not path.parent.is_symlink() and not path.is_symlink()  # links may lead out of it
    with suppress(OSError):
        if is_ours and (run := read_json(path)).keys() == KEPT:
            return run
    started = time.perf_counter()
    run = _run(model, replay, features, pace)
    if is_ours and time.perf_counter() - started > PATIENCE_SECONDS:
        with suppress(OSError):  # a folder that cannot be written only costs time
            path.parent.mkdir(exist_ok=True)
            write_text(path, json.dumps(run))
    return run


def _run(model: CMDP, replay: Replay, features: np.ndarray | None, pace: int) -> Row:
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
    visits = np.stack([form.criterion.share(form, model.by_choice(policy)) for policy in policies])
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
        starts, counts = [group[0] for group in groups], [len(group) for group in groups]

        def mean(numbers: np.ndarray) -> list[float]:
            return _rounded(np.add.reduceat(numbers, starts) / counts)

        def summarised(numbers: np.ndarray) -> dict[str, list[float]]:
            low, high = (of.reduceat(numbers, starts) for of in (np.minimum, np.maximum))
            return {"mean": mean(numbers), "low": _rounded(low), "high": _rounded(high)}

        return {
            "name": self.name,
            "method": self.method,
            "seed": self.config.get("seed"),
            "samples": mean(self.samples),
            "series": {name: summarised(numbers) for name, numbers in self.series.items()},
        }


def read_run(folder: Path, name: str) -> tuple[TrainingRun, dict[str, str]]:
    """The run in a folder; and why files of it, by name, are not shown, or not in full."""
    for part in ("config.json", "evaluation.json"):
        if (folder / part).is_symlink():
            raise InputError(f"the {part} beside it is a link, and not followed.")
    run, complaints = RunFolder(folder), {}
    config, (rows, damaged) = run.config, run.readable_rows()
    whole = [row for row in rows if _is_whole(row)]
    if not whole:
        raise InputError("it has no row that could be drawn.")
    if lost := len(damaged) + len(rows) - len(whole):
        complaints["metrics.jsonl"] = f"{lost} of {lost + len(whole)} lines are no rows."
    try:
        evaluation = run.evaluation or {}
        if not all(map(_is_evidence, evaluation.values())):
            raise InputError("it is damaged; evaluate the run again.")
    except (InputError, OSError) as error:
        complaints["evaluation.json"], evaluation = reason(error, folder), {}
    costs = [cost for cost in whole[0]["cost"] if all(cost in row["cost"] for row in whole)]
    series = {"return": np.array([float(row["return"]) for row in whole])}
    series |= {cost: np.array([float(row["cost"][cost]) for row in whole]) for cost in costs}
    samples = np.array([float(row["samples"]) for row in whole])
    return TrainingRun(name, config, samples, series, evaluation), complaints


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


def _rounded(numbers: np.ndarray) -> list[float]:
    return [float(f"{number:.5g}") for number in numbers.tolist()]
