"""The training loop, one for all methods: act, measure the margins, move the multipliers, improve
the policy.

A run is a folder: `config.json` (frozen), `metrics.jsonl` (one row per update, no clocks in it),
`tensorboard/`, `checkpoints/`. Each batch starts from reset with a seed of its own, so that a
checkpoint of networks, optimisers, multipliers, normaliser and counter is the whole state, and a
resumed run repeats the uninterrupted one bit for bit on the same machine.
"""

import json
import os
import warnings
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import jax
import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError
from cmdpax.files import write_bytes
from cmdpax.learning import normaliser
from cmdpax.learning import run_folder as stored
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import Learner, adam, init, make_learn
from cmdpax.learning.policy import NetworkPolicy, read_newest, refuse_other_spaces
from cmdpax.learning.rollout import collect, episodes
from cmdpax.learning.simulator import ActionSpace, Simulator
from cmdpax.model.limits import match_limits

ENOUGH = 20  # episodes for an estimate of a margin
Report = Callable[[dict[str, Any]], None]


def train(
    config: TrainConfig, folder: Path, resume: bool = False, report: Report = lambda row: None
) -> Learner:
    """Train to the end and return the final state; `report` sees every row of metrics."""
    config = config.resolved()
    simulator = make_simulator(config.environment, config.batch // config.horizon)
    constraints = match_limits(config.limit, simulator.cost_names)
    aim = constraints.thresholds + config.reserve * abs(constraints.thresholds)
    learn = make_learn(config)
    learner = init(config, simulator)
    if resume:
        _refuse_changes(config, folder)
        learner = restore(learner, folder, simulator)
    else:
        _begin(config, folder)
    warned = False
    metrics_file, board = _metrics(folder, int(learner.update)), _tensorboard(folder)
    with metrics_file, board:
        for update in range(int(learner.update), config.updates):
            acting = network_policy(learner, simulator)
            batch, raw = collect(
                simulator, acting, constraints, config.horizon, (config.seed, update)
            )
            finished = episodes(batch.rewards, batch.ended)
            valued = (
                episodes(batch.rewards, batch.ended, config.discount)
                if config.discounted
                else finished
            )
            margin = valued.totals[1:].mean(1) - aim
            learner = move_multipliers(
                see_margin(learner, margin, len(finished.lengths), config), config
            )
            worth = constraint_weights(learner.multiplier, learner.margin, config)
            length = float(finished.lengths.mean())
            learner, metrics = learn(learner, batch, worth, margin, episode_units(length, config))
            learner = learner._replace(
                seen=normaliser.absorb(learner.seen, raw), update=np.asarray(update + 1)
            )
            _refuse_nan(learner, update, folder)
            if not finished.completed and not warned:
                warned = _warn_of_cut_episodes(update, config)
            sign = [limit.sign for limit in constraints.limits]
            names = [limit.name for limit in constraints.limits]
            row = {
                "update": update + 1,
                "samples": (update + 1) * config.batch,
                "return": float(finished.totals[0].mean()),
                "cost": dict(zip(names, (sign * valued.totals[1:].mean(1) + 0.0).tolist())),
                "multiplier": dict(zip(names, learner.multiplier.tolist())),
                "weight": dict(zip(names, worth.tolist())),
                "length": length,
                "episodes": finished.completed,
                **metrics,
            }
            metrics_file.write(json.dumps(row) + "\n")
            metrics_file.flush()
            for name, value in _flat(row):
                board.add_scalar(name, value, row["samples"])
            if (update + 1) % config.checkpoint_every == 0 or update + 1 == config.updates:
                os.fsync(
                    metrics_file.fileno()
                )  # no checkpoint without the rows before it, even if the power fails
                save(learner, simulator, folder)
            report(row)
    return learner


def see_margin(learner: Learner, margin: np.ndarray, episodes: int, config: TrainConfig) -> Learner:
    """Take in the margins `[m]` of a batch: it counts for as many of `ENOUGH` episodes as it has,
    what came before for the rest.

    Two episodes say little about a policy that hardly changes from batch to batch. Worse, a weight
    that follows them is largest just when they had much cost: `E[w c] = E[w] E[c] + penalty Var(c)`
    makes the policy shun whatever varies. Many short episodes say enough by themselves, and then
    the answer must be quick: a policy that has learned to run and fall is hard to teach.
    """
    share = 1.0 if config.margin == "latest" or learner.update == 0 else min(1.0, episodes / ENOUGH)
    return learner._replace(margin=learner.margin + share * (margin - learner.margin))


def move_multipliers(learner: Learner, config: TrainConfig) -> Learner:
    """The dual update, where one is due: every `inner` batches with the slack (augmented), or every
    batch (Lagrangian).
    """
    dual, update, multiplier = METHODS[config.method].dual, int(learner.update), learner.multiplier
    # before the first update nothing has been learned yet: its margin is the random policy's
    if dual == "none" or update == 0 or (dual == "augmented" and update % config.inner):
        return learner
    margin, step = learner.margin, config.dual_step
    if config.dual_optimiser == "adam":
        slope = (
            margin - lagrangian.slack(multiplier, config.penalty, margin)
            if dual == "augmented"
            else margin
        )
        change, dual_adam = adam.update(slope.astype(np.float32), learner.dual_adam)
        moved = (multiplier - step * np.asarray(change, dtype=np.float64)).clip(0)
        return learner._replace(multiplier=moved, dual_adam=dual_adam)
    if dual == "augmented":
        return learner._replace(
            multiplier=lagrangian.step_update(multiplier, config.penalty, margin, step)
        )
    return learner._replace(multiplier=lagrangian.gradient_update(multiplier, margin, step))


def constraint_weights(
    multiplier: np.ndarray, margin: np.ndarray, config: TrainConfig
) -> np.ndarray:
    """What each constraint is worth in the pseudo-reward, `[m]`: AL weights, multiplier, or
    nothing.
    """
    if METHODS[config.method].dual == "augmented":
        return lagrangian.weights(multiplier, config.penalty, margin)
    return multiplier


def episode_units(length: float, config: TrainConfig) -> float:
    """What turns a mean advantage per step into a change of an episode's total: CPO compares it
    with the margin.
    """
    if not config.discounted or config.discount == 1:
        return length
    return (1 - config.discount**length) / (1 - config.discount)


def network_policy(learner: Learner, simulator: Simulator) -> NetworkPolicy:
    """The current policy for NumPy."""
    layers = jax.tree.map(np.asarray, learner.policy["layers"])
    log_std = learner.policy.get("log_std")
    return NetworkPolicy(
        [layer["weight"] for layer in layers],
        [layer["bias"] for layer in layers],
        None if log_std is None else np.asarray(log_std),
        learner.seen.mean,
        learner.seen.scale,
        simulator.action_space,
        simulator.observation_shape,
        int(learner.update),
    )


def save(learner: Learner, simulator: Simulator, folder: Path) -> Path:
    """Write a checkpoint of the whole state, with what its policy needs to know of the environment."""
    notes = {
        "action_space": simulator.action_space.as_json(),
        "observation_shape": list(simulator.observation_shape),
    }
    return stored.write(folder / "checkpoints", int(learner.update), named(learner), notes)


def restore(template: Learner, folder: Path, simulator: Simulator) -> Learner:
    """The state of the newest intact checkpoint, in the shape of `template`; the template itself if
    there is none yet.
    """
    if not any(stored.newest(folder / "checkpoints")):
        return template
    arrays, notes = read_newest(folder / "checkpoints")
    seen = notes.get("observation_shape", simulator.observation_shape)
    refuse_other_spaces(ActionSpace.from_json(notes["action_space"]), seen, simulator)
    wanted = named(template)
    if {name: value.shape for name, value in arrays.items()} != {
        name: value.shape for name, value in wanted.items()
    }:
        raise InputError(f"the checkpoint in {folder} has other arrays than this config needs.")
    leaves = [arrays[name] for name in wanted]
    return jax.tree.unflatten(jax.tree.structure(template), leaves)


def named(tree: Any) -> dict[str, np.ndarray]:
    """Leaves of a tree by their path, as in `policy/layers/0/weight`, in the tree's own order."""
    flat = jax.tree_util.tree_flatten_with_path(tree)[0]
    return {
        jax.tree_util.keystr(path, simple=True, separator="/"): np.asarray(leaf)
        for path, leaf in flat
    }


def _begin(config: TrainConfig, folder: Path) -> None:
    if any((folder / part).exists() for part in ("config.json", "metrics.jsonl", "checkpoints")):
        raise InputError(
            f"{folder} already holds a run; give another folder, or --resume to continue it."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise InputError(f"{folder} is not a folder; give another name for the run.") from None
    write_bytes(folder / "config.json", json.dumps(asdict(config), indent=1).encode())


def _refuse_changes(config: TrainConfig, folder: Path) -> None:
    if not folder.exists():
        raise InputError(f"{folder} holds no run to resume; start one without --resume.")
    before, now = stored.read_config(folder), json.loads(json.dumps(asdict(config)))
    changed = [
        f"{name} was {before.get(name)!r}, is {now.get(name)!r}"
        for name in now
        if before.get(name) != now.get(name)
    ]
    if changed:
        raise InputError(
            f"{folder} was started with another config ({'; '.join(changed)}); repeat it, or give"
            " another folder."
        )


def _metrics(folder: Path, updates: int) -> Any:
    """The metrics file, cut back to the rows of the updates that the restored state has made."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    rows = {number: line for line in lines if 0 < (number := _update_of(line)) <= updates}
    if len(rows) < updates:
        warnings.warn(
            f"{path} lacks {updates - len(rows)} of the {updates} rows before the checkpoint.",
            stacklevel=3,
        )
    write_bytes(path, b"".join(rows[number] + b"\n" for number in sorted(rows)))
    return open(path, "a", encoding="utf-8")


def _update_of(line: bytes) -> int:
    """The update of a row of metrics; 0 if the line is none."""
    try:
        return int(json.loads(line)["update"])
    except (ValueError, TypeError, KeyError):
        return 0


def _tensorboard(folder: Path) -> Any:
    from tensorboardX import SummaryWriter

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SummaryWriter(str(folder / "tensorboard"))


def _flat(row: dict[str, Any]) -> list[tuple[str, float]]:
    """Numbers of a row with flat names, `cost/heat` for nested ones."""
    found = []
    for name, value in row.items():
        if isinstance(value, dict):
            found += [(f"{name}/{inner}", number) for inner, number in value.items()]
        elif isinstance(value, int | float):
            found.append((name, value))
    return found


def _refuse_nan(learner: Learner, update: int, folder: Path) -> None:
    for name, value in named((learner.policy, learner.critics, learner.multiplier)).items():
        if not np.isfinite(value).all():
            part = ("policy", "critics", "multiplier")[int(name[0])]
            raise NumericalError(
                f"update {update + 1} made the {part} not finite; {stored.kept(folder)}."
            )


def _warn_of_cut_episodes(update: int, config: TrainConfig) -> bool:
    warnings.warn(
        f"update {update + 1}: no episode ended within the {config.horizon} steps of --horizon, so"
        " the limits are held to the beginnings of episodes; give a longer --horizon (and"
        " --batch), or the environment a time limit.",
        stacklevel=3,
    )
    return True
