"""A run: one plain JSON object that determines everything, and how it is carried out in a folder of
its own.

Two kinds. `train` trains a network policy on a simulator and evaluates it; `exact` runs a method of
the table on a finite model and certifies what it returns. The same run makes the same bytes on the
same machine with the same versions, whoever carries it out and however often it was interrupted: no
clock, host or process is in them.
"""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cmdpax.environments.by_name import open_features, open_model, seeded
from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.config import TrainConfig
from cmdpax.solvers.certified import within
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.table import find
from cmdpax.solvers.table import run as run_method
from cmdpax.stopping import Stopper

EXACT = {
    "model": "",
    "method": "corrective-alm",
    "eps": 1e-6,
    "features": None,
    "settings": {},
}  # the config of an exact run


@dataclass(frozen=True)
class Run:
    """What is to be done: a config without its seed, and the seed."""

    kind: Literal["train", "exact"]
    config: Mapping[str, Any]
    seed: int

    @cached_property
    def text(self) -> str:
        """Canonical JSON: sorted, compact, nothing implied."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def id(self) -> str:
        """A short hash of kind, config and seed."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @staticmethod
    def from_text(text: str) -> "Run":
        """The run that `text` is the canonical JSON of."""
        return Run(**json.loads(text))


def train_run(config: TrainConfig) -> Run:
    """The run of a training config, every setting filled in and checked."""
    settings = json.loads(json.dumps(asdict(config.resolved())))
    seed = settings.pop("seed")
    return Run("train", settings, seed)


def exact_run(config: Mapping[str, Any], seed: int = 0) -> Run:
    """The run of a method on a finite model; the seed is the model's, if it has one."""
    for name in config:
        if name not in EXACT:
            raise InputError(f"an exact run has no field '{name}'; {did_you_mean(name, EXACT)}")
    filled = {**EXACT, **config}
    known = find(filled["method"]).settings()
    for name in filled["settings"]:
        if name not in known:
            raise InputError(
                f"setting '{name}' is not one of {filled['method']}'s; {did_you_mean(name, known)}"
            )
    within("eps", filled["eps"], 1.0)
    if filled["settings"].get("time_limit") is not None:
        within("time_limit", filled["settings"]["time_limit"], np.inf, zero=True)
    seeded(filled["model"], seed)  # refuses a seed where there is nothing to seed
    return Run("exact", json.loads(json.dumps(filled)), seed)


def check_problems(runs: Sequence[Run]) -> None:
    """Open each simulator and each model once, and match the limits: what is misspelt is said
    before any work is done.
    """
    telling = ("environment", "limit", "model", "features")
    for run in {
        json.dumps([run.config.get(name) for name in telling]): run for run in runs
    }.values():
        if run.kind == "exact":
            model = open_model(seeded(run.config["model"], run.seed))
            if run.config["features"] is not None:
                features = Features(open_features(run.config["features"], model))
                features.check(model.states, model.actions)
        else:
            from cmdpax.learning.gym_simulator import make_simulator
            from cmdpax.model.limits import match_limits

            match_limits(
                run.config["limit"], make_simulator(run.config["environment"], 1).cost_names
            )


def perform(
    run: Run, folder: Path, earlier: Sequence[Path] = (), note: Callable[[], None] = lambda: None
) -> dict[str, Any]:
    """Carry a run out in `folder` and return its outcome.

    `earlier` attempts may have checkpoints to go on from; `note` is called after every update of a
    training.
    """
    return _train(run, folder, earlier, note) if run.kind == "train" else _exact(run)


def _exact(run: Run) -> dict[str, Any]:
    config = run.config
    model = open_model(seeded(config["model"], run.seed))
    features = None if config["features"] is None else open_features(config["features"], model)
    with Stopper() as stop:
        outcome = run_method(
            model, config["method"], config["eps"], features, **config["settings"]
        ).summary()
    if stop():  # the best so far is an answer to somebody who waits, not the outcome of a run
        raise KeyboardInterrupt
    return {
        name: value for name, value in outcome.items() if name not in ("seconds", "method", "eps")
    }


def _train(
    run: Run, folder: Path, earlier: Sequence[Path], note: Callable[[], None]
) -> dict[str, Any]:
    from cmdpax.learning.evaluation import evaluate
    from cmdpax.learning.run_folder import newest
    from cmdpax.learning.training import train
    from cmdpax.model.limits import parse_limit

    config = train_config(run)
    _adopt(folder, earlier)
    train(config, folder, resume=(folder / "config.json").exists(), report=lambda row: note())
    acting = evaluate(folder)["stochastic"]
    # what has clocks in it, and what only a resume needs, is not part of the result
    shutil.rmtree(folder / "tensorboard", ignore_errors=True)
    for old in list(newest(folder / "checkpoints"))[1:]:
        old.unlink()
        old.with_suffix(".json").unlink()
    limits = [parse_limit(text) for text in config.limit]
    costs = {limit.name: acting.costs[limit.name].mean for limit in limits}
    excess = [float(-limit.sign) * (costs[limit.name] - limit.bound) for limit in limits]
    return {
        "return": acting.reward.mean,
        "cost": costs,
        "excess": max(excess, default=0.0),
        "samples": config.updates * config.batch,
    }


def train_config(run: Run) -> TrainConfig:
    """The training config of a run."""
    settings: dict[str, Any] = {**run.config, "seed": run.seed}
    settings.update(
        {name: tuple(value) for name, value in settings.items() if isinstance(value, list)}
    )
    return TrainConfig(**settings)


def _adopt(folder: Path, earlier: Sequence[Path]) -> None:
    """Copy the furthest intact checkpoint of other attempts; their owners may be alive and at work,
    hence copies.
    """
    from cmdpax.learning import run_folder as stored

    found = [
        (path.name, path) for attempt in earlier for path in stored.newest(attempt / "checkpoints")
    ]
    for name, path in sorted(found, reverse=True):
        attempt = path.parents[1]
        try:
            stored.read(path)
            rows = (attempt / "metrics.jsonl").read_bytes().splitlines()[: int(path.stem)]
            if len(rows) < int(path.stem):
                continue
            (folder / "checkpoints").mkdir(exist_ok=True)
            shutil.copyfile(path, folder / "checkpoints" / name)
            shutil.copyfile(
                path.with_suffix(".json"), (folder / "checkpoints" / name).with_suffix(".json")
            )
            (folder / "metrics.jsonl").write_bytes(b"".join(row + b"\n" for row in rows))
            shutil.copyfile(
                attempt / "config.json", folder / "config.json"
            )  # last: with it, the folder can be resumed
            return
        except (
            FileNotFoundError,
            InputError,
        ):  # its owner has moved on, or it is damaged: the one before
            continue
