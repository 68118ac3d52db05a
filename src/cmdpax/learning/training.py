"""The loop, one for all methods: act, measure margins, move multipliers, improve the policy.

Each batch starts from reset with a seed of its own. So a checkpoint of networks, optimisers,
multipliers, statistics of observations and counter is the whole state, and a resumed run repeats
the uninterrupted one bit for bit on the same machine.
"""

import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError
from cmdpax.files.reading import Row
from cmdpax.learning import compilation
from cmdpax.learning.board import Board
from cmdpax.learning.config import (
    EPISODES,
    METHODS,
    SHAPE,
    WORKER_LIMIT,
    ResolvedConfig,
    TrainConfig,
)
from cmdpax.learning.encoders import default_network
from cmdpax.learning.environment_names import is_object
from cmdpax.learning.evaluation import Evidence, means, measure_in, simulator_for
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.learner import Learner, assess, init, learn
from cmdpax.learning.margins import Verdict, candidates, choose, in_users_orientation
from cmdpax.learning.passes import adam
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.portable import Policy
from cmdpax.learning.rollout import collect, episodes
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.saved import (
    acting_leaves,
    begin_from,
    policy_of,
    restore,
    save,
    with_leaves,
)
from cmdpax.learning.simulator import Copies, Recorder, Simulator
from cmdpax.learning.workers import worker_simulator
from cmdpax.model.limits import Limits

MOST_COUNTED = 1.0  # of a violation: so many times what an update can mend
MOST_CHANGE = 0.05  # of a multiplier in an update, as a share of the price
TRAVEL = 8.0  # the same over a whole run: a short one takes larger steps
BYTES_SEEN, BYTES_DONE = 20, 12  # of a record, for each number of an observation and an action
MOST_BYTES = 8e9  # of a batch
CUT = (
    "update {}: no episode ended within the {} steps of rollout_steps, so limits are held to the"
    " beginnings of episodes; give more (and a larger batch), or the environment a time limit."
)


@dataclass(frozen=True)
class Training:
    """A finished training."""

    environment: Any  # as it was given to `train`
    folder: Path
    policy: Policy
    verdict: Verdict | None  # on this policy; None without limits
    out_of_reach: tuple[str, ...] = ()  # a sentence for each limit that no estimate kept
    kept: str = ""  # a sentence if the policy is not the last

    @property
    def metrics(self) -> list[Row]:
        """One row for each update: return, costs, multipliers, weights and more."""
        return RunFolder(self.folder).rows()


def train(
    environment: Any,
    method: str = "spma-alm",
    *,
    limits: Sequence[str] | str = TrainConfig.limits,
    folder: str | Path | None = None,
    resume: bool = False,
    start: str | Path | None = None,
    workers: int | str | None = None,
    worker_limit: float = WORKER_LIMIT,
    callback: Callable[[Row], None] | None = None,
    **settings: Any,
) -> Training:
    """Train a policy on a simulator with limits on its costs, to the end.

    environment: a velocity task, a Gymnasium id (also `module:id`), `module:function`, a function
    that makes a Gymnasium environment, or such an environment itself, of which there is one copy
    (then `rollout_steps` is `batch`). Its steps report their costs in `info["cost"]`.
    method: spma-alm, ppo-alm, trpo-alm, ppo-lag, cpo, or without limits ppo, spma.
    limits: on named costs, as in `["cost<=25", "uptime>=10", "2<=heat<=5"]`.
    folder: where the run is kept, by default `runs/ENVIRONMENT-METHOD-SEED`; a new one, or with
    `resume` that of a run, which goes on from its last checkpoint; with more `samples` than it had,
    also if it is finished: step sizes are then those of a run of so many samples, and decay anew.
    start: a run folder, whose policy, normaliser and critics (of the reward, and of costs that both
    limit) this one begins with; multipliers, optimisers and counters begin anew.
    workers: who steps the environment: this process, or so many others, or `"ray"`, or the address
    of a Ray cluster as `"HOST:PORT"`; no number depends on it. One that dies, or has not answered
    after `worker_limit` seconds, is started again, and its part of the batch repeated.
    callback: sees every row of metrics. settings: the fields of `TrainConfig`.
    """
    chosen = TrainConfig.of({"method": method, "limits": limits, **settings})
    chosen.resolved()  # refuses what cannot be before an environment is made
    name = recorded_name(environment)
    place = Path(folder or default_folder(name, chosen.method, chosen.seed))
    run_folder = RunFolder(place.absolute())  # also if the environment changes the current folder
    simulator = make_simulator(environment, 1)
    earlier = run_folder.config if resume and run_folder.path.exists() else {}
    shape: Row = {part: earlier.get(part) for part in SHAPE if getattr(chosen, part) is None}
    shape["network"] = default_network(chosen.network, simulator.observation_shape)
    chosen, start = replace(chosen, **shape), start or earlier.get("start")
    config = chosen.resolved(simulator.episode_limit, 1 if is_object(environment) else None)
    copies = config.batch // config.rollout_steps
    _refuse_too_large(simulator, config.batch)
    if copies > 1 and workers is None:
        simulator = make_simulator(environment, copies)
    if config.limits == TrainConfig.limits and "cost" not in simulator.cost_names:
        costs = ", ".join(simulator.cost_names)
        raise InputError(
            f"environment '{name}' has no cost named 'cost', but {costs}; give limits on these, as"
            " cmdpax check-env suggests them."
        )
    Limits.parse(config.limits).columns(simulator.cost_names)  # refuses others before all work
    compilation.recall()
    learner, recorded = init(config, simulator), {"environment": name, **asdict(config)}
    if start is not None:
        recorded["start"] = str(start)
        if not run_folder.checkpoints():
            learner = begin_from(RunFolder(start), learner, simulator, config)
    hold = run_folder.resume if resume else run_folder.begin
    elsewhere = worker_simulator(workers, simulator, copies, environment, worker_limit)
    examine = None
    if config.evaluate_every is not None:
        examine = partial(
            measure_in, *simulator_for(environment, config.evaluate_episodes or EPISODES)
        )
    with elsewhere as stepped, hold(recorded):
        learner = restore(learner, run_folder, simulator) if resume else learner
        if earlier and earlier["samples"] < config.samples:
            warnings.warn(_longer(earlier, config, int(learner.update)), stacklevel=2)
        run_folder.rewind(int(learner.update))
        learner = _learn(learner, stepped, config, run_folder, examine, callback)
        policy, verdict, kept = _kept(learner, stepped, config, run_folder)
    is_exceeded = verdict is not None and verdict.word == "exceeded"
    never = learner.margins.out_of_reach(Limits.parse(config.limits)) if is_exceeded else ()
    return Training(environment, place, Policy(policy), verdict, never, kept)


def _learn(
    learner: Learner,
    simulator: Simulator | Recorder,
    config: ResolvedConfig,
    run_folder: RunFolder,
    examine: Callable[[NetworkPolicy, Row], dict[str, Evidence]] | None,
    callback: Callable[[Row], None] | None,
) -> Learner:
    """The remaining updates of a run; `examine` measures a policy by the config."""
    limits, warned = Limits.parse(config.limits), False
    aside = candidates(config.updates) if len(limits) else []
    board = Board(run_folder.path / "tensorboard")
    for update in range(int(learner.update), config.updates):
        acting, seed = policy_of(learner, simulator), (config.seed, update)
        batch, raw = collect(simulator, acting, limits, config.rollout_steps, seed)
        finished = valued = episodes(batch.rewards, batch.ended)
        if config.discounted:
            valued = episodes(batch.rewards, batch.ended, config.discount)
        length = float(finished.lengths.mean())
        margins = learner.margins.add(
            valued.totals[1:], learner.scales.reach, latest=config.margin == "latest"
        ).hold(limits)
        longest = simulator.episode_limit or length
        learner, samples = assess(learner._replace(margins=margins), batch, longest, config)
        dual = Dual.of(learner, limits, config)
        learner = dual.move(learner, config)
        weights = lagrangian.weights(learner.multiplier, dual.penalty, dual.counted)
        learner, metrics = learn(learner, samples, weights, dual.margin, length, config)
        space = simulator.action_space
        observed = learner.observed.add(raw).unscaled(space.choices * space.masked)
        if acting.encoder is not None and not acting.encoder.is_custom:
            observed = observed.shared()
        learner = learner._replace(observed=observed, update=np.asarray(update + 1))
        _refuse_nan(learner, run_folder)
        if update + 1 in aside:
            run_folder.set_aside(update + 1, acting_leaves(learner))
        if not finished.completed and not warned:
            warned = True
            warnings.warn(CUT.format(update + 1, config.rollout_steps), stacklevel=3)
        by_name = partial(_by_name, limits)
        row = {
            "update": update + 1,
            "samples": (update + 1) * config.batch,
            "return": float(finished.totals[0].mean()),
            "cost": by_name(in_users_orientation(limits, valued.totals[1:].mean(1))),
            "estimate": by_name(in_users_orientation(limits, margins.mean)),
            "aim": by_name(in_users_orientation(limits, margins.mean - dual.margin)),
            "multiplier": by_name(limits.fold(learner.multiplier)),
            "weight": by_name(limits.fold(weights)),
            "penalty": by_name(dual.penalty[limits.first_rows]),
            "length": length,
            "episodes": finished.completed,
            **metrics,
        }
        if examine and config.evaluate_every and (update + 1) % config.evaluate_every == 0:
            row |= means(examine(policy_of(learner, simulator), asdict(config)))
        run_folder.add(row)
        board.show(row)
        if (update + 1) % config.checkpoint_every == 0 or update + 1 == config.updates:
            save(learner, simulator, run_folder)
        if callback:
            callback(row)
    return learner


def _kept(
    learner: Learner, simulator: Simulator | Recorder, config: ResolvedConfig, run_folder: RunFolder
) -> tuple[NetworkPolicy, Verdict | None, str]:
    """The policy that a run keeps, the verdict on it, and a sentence if it is not the last."""
    limits, last = Limits.parse(config.limits), config.updates
    policies = {last: policy_of(learner, simulator)}

    def is_there(update: int) -> bool:
        arrays = run_folder.candidate(update)
        if arrays is not None:
            policies[update] = policy_of(with_leaves(learner, arrays), simulator)
        return arrays is not None

    def play(update: int, number: int) -> np.ndarray:
        seed = (config.seed, update, number)
        batch, _ = collect(simulator, policies[update], limits, config.rollout_steps, seed)
        finished = valued = episodes(batch.rewards, batch.ended)
        if config.discounted:
            valued = episodes(batch.rewards, batch.ended, config.discount)
        costs = in_users_orientation(limits, valued.totals[1:].T)
        return np.column_stack((finished.totals[0], costs))

    finished = run_folder.kept()
    if finished is not None:
        arrays, notes = finished
    else:
        choice = choose(last, filter(is_there, candidates(last)), limits, play)
        if choice is None:
            return policies[last], learner.margins.verdict(limits), ""
        arrays = {} if choice.update == last else run_folder.candidate(choice.update) or {}
        notes = {"checkpoint": choice.update, "updates": last, **asdict(choice)}
        run_folder.keep(arrays, notes)
    run_folder.clear()
    verdict = Verdict(**{**notes["verdict"], "limits": limits.texts})
    if notes["checkpoint"] == last:
        return policies[last], verdict, ""
    why = f"the last was beyond its limit on {' and '.join(notes['exceeded'])}"
    sentence = f"kept the policy of update {notes['checkpoint']} of {last}: {why}"
    return policy_of(with_leaves(learner, arrays), simulator), verdict, sentence


class Dual(NamedTuple):
    """Margins, penalties and dual steps of one update, one for each row of the limits, `[M]`."""

    margin: np.ndarray
    counted: np.ndarray  # the margin, clipped: of a violation, what an update can mend
    penalty: np.ndarray  # 0 for the plain Lagrangian: then the weights are the multipliers
    step: np.ndarray
    fastest: np.ndarray  # largest change of a multiplier

    @staticmethod
    def of(learner: Learner, limits: Limits, config: ResolvedConfig) -> "Dual":
        """Penalty and step as multiples of `Scales.units`; or as set, with units of the reward."""
        scales, margins = learner.scales, learner.margins
        error = np.sqrt(margins.error)
        units = scales.units(error, learner.multiplier)
        most = MOST_COUNTED * scales.resolution(error)
        fastest = max(MOST_CHANGE, TRAVEL / config.updates) * scales.price(learner.multiplier)
        if config.units == "reward":
            units, most = np.ones_like(units), np.full_like(units, np.inf)
            fastest = most
        is_augmented = METHODS[config.method].dual == "augmented"
        margin = margins.mean - margins.aims(limits, config.reserve)
        return Dual(
            margin,
            margin.clip(-most, most),
            config.penalty * is_augmented * units,
            config.dual_step * units,
            fastest,
        )

    def move(self, learner: Learner, config: ResolvedConfig) -> Learner:
        """The dual update: every `inner` batches with the slack (augmented), or every batch."""
        dual, update, multiplier = METHODS[config.method].dual, learner.update, learner.multiplier
        # only ppo-lag with plain critics, as published, moves multipliers before the policy
        is_first = update == 0 and (config.critics == "normalised" or dual == "augmented")
        if dual == "none" or is_first or (dual == "augmented" and update % config.inner):
            return learner
        margin, penalty = self.counted, np.maximum(self.penalty, np.finfo(np.float64).tiny)
        if config.dual_optimiser == "adam":
            slack = lagrangian.slack(multiplier, penalty, margin) if dual == "augmented" else 0.0
            slope = (margin - slack).astype(np.float32)
            change, dual_adam = adam.update(slope, learner.dual_adam)
            moved = (multiplier - self.step * np.asarray(change, dtype=np.float64)).clip(0)
            return learner._replace(multiplier=moved, dual_adam=dual_adam)
        if dual == "augmented":
            moved = lagrangian.step_update(multiplier, penalty, margin, self.step)
        else:
            moved = lagrangian.gradient_update(multiplier, margin, self.step)
        moved = moved.clip(multiplier - self.fastest, multiplier + self.fastest)
        return learner._replace(multiplier=moved)


def _refuse_too_large(simulator: Copies, batch: int) -> None:
    """Refuse a batch that no memory holds, before the system ends the process without a word."""
    size, outputs = simulator.observation_size, simulator.action_space.size
    if (needed := batch * (BYTES_SEEN * size + BYTES_DONE * outputs)) > MOST_BYTES:
        raise InputError(
            f"a batch of {batch:,} steps with {size:,} numbers in an observation and {outputs:,}"
            f" in an action takes {needed / 1e9:.0f} GB; make them smaller, or --batch."
        )


def _longer(earlier: Row, config: ResolvedConfig, update: int) -> str:
    """A sentence on the step sizes of a run that was planned with fewer samples."""
    was, now = (1 - update / (one // config.batch) for one in (earlier["samples"], config.samples))
    return (
        f"the run goes on at update {update}, with {config.samples:,} samples in all instead of"
        f" {earlier['samples']:,}: step sizes, which decay linearly to 0 over a run, are"
        f" {now:.0%} of the first now, where they were {was:.0%}."
    )


def recorded_name(environment: Any) -> str:
    """The environment's name in the run folder: from it, where possible, it is made again."""
    if isinstance(environment, str):
        return environment
    name = str(getattr(environment, "__qualname__", type(environment).__name__))
    module = str(getattr(environment, "__module__", ""))
    if module != "__main__" and getattr(sys.modules.get(module), name, None) is environment:
        return f"{module}:{name}"
    return f"{name} (object)"


def default_folder(environment: str, method: str, seed: int) -> Path:
    """`runs/ENVIRONMENT-METHOD-SEED`."""
    plain = environment.replace(":", "-").replace("/", "-")
    return Path("runs") / f"{plain}-{method}-{seed}"


def _by_name(limits: Limits, values: np.ndarray) -> dict[str, float]:
    return dict(zip(limits.names, values.tolist()))


def _refuse_nan(learner: Learner, run_folder: RunFolder) -> None:
    for part in ("policy", "critics", "multiplier"):
        if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(getattr(learner, part))):
            kept = run_folder.last_checkpoint_sentence()
            raise NumericalError(f"update {learner.update} made the {part} not finite; {kept}.")
