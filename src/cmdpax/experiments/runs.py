"""What is a run, and how is it carried out?

A run is one plain JSON object that determines everything. `train` trains a network policy on a
simulator and evaluates it; `exact` runs a method of the table on a finite model and certifies what
it returns. The same run makes the same bytes on the same machine with the same versions, whoever
carries it out and however often it was interrupted: no clock, host or process is in them.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cmdpax.environments.by_name import open_features, open_model, seeded
from cmdpax.errors import check_known, check_number
from cmdpax.files.reading import Row
from cmdpax.learning.config import EPISODES, SHAPE, TrainConfig
from cmdpax.learning.run_folder import RunFolder
from cmdpax.model.limits import Limits
from cmdpax.solvers.log_linear import Features
from cmdpax.solvers.solve import solve
from cmdpax.solvers.table import find_method
from cmdpax.stopping import Stopper

# the config of an exact run
EXACT = {"model": "", "method": "corrective-alm", "eps": 1e-6, "features": None, "settings": {}}
LIMITS = {"time_limit": None, "memory_limit": None}  # that every method takes among its settings


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

    @property
    def problem(self) -> str:
        """The simulator or the model."""
        return self.config["environment" if self.kind == "train" else "model"]

    @property
    def fields(self) -> Row:
        """Everything that determines the run, by name; settings of an exact method among them."""
        return {"seed": self.seed, **self.config, **self.config.get("settings", {})}

    @staticmethod
    def from_text(text: str) -> "Run":
        """The run that `text` is the canonical JSON of."""
        return Run(**json.loads(text))


def train_run(environment: str, config: TrainConfig) -> Run:
    """The run of a training config, checked; what its environment decides is left open."""
    shape = {name: getattr(config, name) for name in SHAPE}
    settings = json.loads(json.dumps({**asdict(config.resolved()), **shape}))
    seed = settings.pop("seed")
    return Run("train", {"environment": environment, **settings}, seed)


def exact_run(config: Mapping[str, Any], seed: int = 0) -> Run:
    """The run of a method on a finite model; the seed is the model's, if it has one."""
    for name in config:
        check_known("an exact run: field", name, EXACT)
    filled = {**EXACT, **config}
    method, settings = find_method(filled["method"]), filled["settings"]
    for name in settings:
        check_known(f"{method.name}: setting", name, {**method.settings, **LIMITS})
    check_number("eps", filled["eps"], above=0, below=1)
    for name in LIMITS:
        if settings.get(name) is not None:
            check_number(name, settings[name], least=0)
    seeded(filled["model"], seed)  # refuses a seed where there is nothing to seed
    return Run("exact", json.loads(json.dumps(filled)), seed)


def check_problems(runs: Sequence[Run]) -> None:
    """Open each simulator and each model once, and match the limits: before any work is done."""
    names = ("environment", "limits", "model", "features")
    problems = {json.dumps([run.config.get(name) for name in names]): run for run in runs}
    for run in problems.values():
        if run.kind == "exact":
            _open(run)
        else:
            from cmdpax.learning.gym_simulator import make_simulator

            limits = Limits.parse(run.config["limits"])
            with chdir("."):  # which an environment may leave
                limits.columns(make_simulator(run.problem, 1).cost_names)


def carry_out(
    run: Run, folder: Path, earlier: Sequence[Path] = (), watch: Callable[[], None] = lambda: None
) -> Row:
    """Carry a run out in `folder` and return its outcome.

    earlier: folders of other attempts, which may have checkpoints to go on from.
    watch: called after every update of a training.
    """
    return _train(run, folder, earlier, watch) if run.kind == "train" else _exact(run)


def load_code(run: Run) -> None:
    """Import what a run needs; a ModuleNotFoundError is this machine's fault, not the run's."""
    if run.kind == "train":
        import_module("cmdpax.learning.training")


def _open(run: Run) -> tuple[Any, Any]:
    """Model and features of an exact run."""
    model, source = open_model(seeded(run.problem, run.seed)), run.config["features"]
    if source is None:
        return model, None
    features = Features(open_features(source, model))
    features.check(model.states, model.actions)
    return model, features


def _exact(run: Run) -> Row:
    config, (model, features) = run.config, _open(run)
    with Stopper() as stop:
        settings = {"eps": config["eps"], "features": features, **config["settings"]}
        result = solve(model, config["method"], **settings)
    if stop():  # the best so far is an answer to somebody who waits, not the outcome of a run
        raise KeyboardInterrupt
    left_out = ("seconds", "method", "eps")
    return {name: value for name, value in result.summary().items() if name not in left_out}


def _train(run: Run, folder: Path, earlier: Sequence[Path], watch: Callable[[], None]) -> Row:
    from cmdpax.learning.evaluation import as_numbers, evaluate
    from cmdpax.learning.training import train

    config, run_folder = run.config, RunFolder(folder)
    run_folder.adopt(earlier)
    training = train(
        **config,
        seed=run.seed,
        folder=folder,
        resume=(folder / "config.json").exists(),
        callback=lambda row: watch(),
    )
    measured = evaluate(training, episodes=config.get("evaluate_episodes") or EPISODES)
    if run_folder.evaluation is None:  # it only warned that its numbers were not kept
        run_folder.save_evaluation(as_numbers(measured))
    evidence = measured["stochastic"]
    run_folder.keep_result()
    limits = Limits.parse(config["limits"])
    costs = {name: evidence.costs[name].mean for name in limits.names}
    excess = -limits.margins(np.array(list(costs.values())))
    return {
        "return": evidence.reward.mean,
        "cost": costs,
        "excess": float(excess.max(initial=-np.inf)) if len(limits) else 0.0,
        "verdict": None if evidence.verdict is None else evidence.verdict.word,
        "samples": training.metrics[-1]["samples"],
    }
