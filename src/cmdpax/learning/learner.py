"""From a batch and weights to better critics and a better policy: one update.

The critics and the surrogate methods (SPMA, PPO) take `passes` passes of minibatch Adam steps; the
trust-region methods (TRPO, CPO) take one step for the policy and the same passes for the critics.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from cmdpax.learning import formulas, trust_region
from cmdpax.learning.config import METHODS, ResolvedConfig
from cmdpax.learning.descent import Rule
from cmdpax.learning.encoders import Encoder
from cmdpax.learning.formulas import Network, Policy, values
from cmdpax.learning.margins import Margins
from cmdpax.learning.passes import Networks, descend
from cmdpax.learning.policy import Statistics
from cmdpax.learning.rollout import Batch, cut
from cmdpax.learning.scales import Scales, ratio
from cmdpax.learning.simulator import Simulator
from cmdpax.model.limits import Limits

KL_TARGET = 0.005  # an update of SPMA that moves less gets a longer step; decays to 0
SPMA_STEPS = (0.3, 10.0)  # smallest, which is the first, and largest


class Learner(NamedTuple):
    """The whole state of a run, as one tree of arrays; with the config it determines the rest."""

    policy: Policy
    critics: list[Network]
    scales: Scales
    policy_adam: Any
    critics_adam: Any
    spma_step: np.ndarray  # scalar
    multiplier: np.ndarray  # [M], one for each row of the limits
    dual_adam: Any
    margins: Margins
    observed: Statistics
    update: np.ndarray  # how many updates were made


def init(config: ResolvedConfig, simulator: Simulator) -> Learner:
    """The state before the first batch."""
    rows, space = len(Limits.parse(config.limits).rows), simulator.action_space
    encoder = Encoder.of(config.network, simulator.observation_shape)
    inputs = simulator.observation_size if encoder is None else encoder.size
    sizes = (inputs, *config.hidden, space.size)
    key = jax.random.key(config.seed)
    initial_std = None if space.low is None else config.initial_std
    choices = None
    if space.parts is not None or space.masked:
        choices = formulas.Choices(space.parts or (space.choices,), space.masked)
    policy = formulas.init_policy(key, sizes, initial_std, choices, encoder)
    critics = [
        formulas.init_network(key, 1 + i, (*sizes[:-1], 1), 1.0, encoder) for i in range(1 + rows)
    ]
    scales = Scales.empty(rows)
    return Learner(
        policy,
        critics,
        scales.plain() if config.critics == "plain" else scales,
        _no_moments(policy),
        _no_moments(critics),
        np.full((), config.spma_step or SPMA_STEPS[0]),
        np.zeros(rows),
        _no_moments(np.zeros(rows, np.float32)),
        Margins.empty(rows),
        Statistics.empty(simulator.observation_size),
        np.zeros((), np.int64),
    )


def _no_moments(parameters: Any) -> optax.ScaleByAdamState:
    """Adam's memory before its first step."""
    zeros = jax.tree.map(np.zeros_like, parameters)
    return optax.ScaleByAdamState(np.zeros((), np.int32), zeros, zeros)


class Samples(NamedTuple):
    """A batch prepared for learning, K = T * N samples."""

    observation: np.ndarray  # [K, d]
    action: np.ndarray  # [K, a] or [K]
    output: np.ndarray  # [K, a], of the policy's network
    log_old: np.ndarray  # [K]
    advantages: np.ndarray  # [1 + M, K]
    targets: np.ndarray  # [K, 1 + M]
    centre: np.ndarray  # [1 + M], level of the values in the targets


def prepare(
    policy: Policy,
    critics: Sequence[Network],
    centre: np.ndarray,
    unit: np.ndarray,
    batch: Batch,
    longest: float,
    config: ResolvedConfig,
) -> Samples:
    """Advantages and critic targets; a critic's value is `centre + unit * output`.

    longest: steps of an episode.

    Where limits are discounted, the advantages of a cost at time t count `discount^t`: so much does
    the total change.
    """
    column, discount = (slice(None), None, None), config.discount
    observation = batch.observation.reshape(-1, batch.observation.shape[-1])
    said = values(critics, observation).reshape(len(critics), *batch.ended.shape)
    said_next = np.roll(said, -1, axis=1)
    said_next[:, cut(batch.ended)] = values(critics, batch.beyond)
    value, next_value = (centre[column] + unit[column] * one for one in (said, said_next))
    if config.critics == "normalised":
        rewards, terminated = batch.rewards, batch.terminated
        shift = formulas.level_shift(rewards, value, next_value, terminated, discount)
        centre = centre + shift
        value, next_value = value + shift[column], next_value + shift[column]
    kinds = np.stack((batch.rewards, value, next_value))  # [3, 1 + M, T, N]
    ends = (batch.terminated, batch.ended, discount)
    decay = config.cost_gae
    if decay is None:
        decay = formulas.cost_decay(longest)
    parts = [(*kinds[:, :1], *ends, config.gae), (*kinds[:, 1:], *ends, decay)]
    advantages = np.concatenate([formulas.generalised_advantage(*part) for part in parts])
    targets = (advantages + value).reshape(len(critics), -1).T
    if config.discounted:
        advantages[1:] *= discount**batch.age
    advantages = advantages.reshape(len(critics), -1)
    action = batch.action.reshape(len(observation), *batch.action.shape[2:])
    output = batch.output.reshape(len(observation), -1)
    log_old = formulas.log_chance(policy, output, action)
    return Samples(observation, action, output, log_old, advantages, targets, centre)


def assess(
    learner: Learner, batch: Batch, longest: float, config: ResolvedConfig
) -> tuple[Learner, Samples]:
    """Advantages and targets of a batch, and the scales with it; `longest` in steps."""
    scales = learner.scales
    samples = prepare(
        learner.policy,
        learner.critics,
        scales.centre.astype(np.float32),
        scales.output_unit.astype(np.float32),
        batch,
        longest,
        config,
    )
    scales = scales._replace(centre=samples.centre.astype(np.float64))
    after = scales.add(samples.advantages, samples.targets, longest)
    if config.critics == "plain":
        after = after.plain()
    critics = rescale(learner.critics, scales, after)
    return learner._replace(scales=after, critics=critics), samples


def rescale(critics: list[Network], before: Scales, after: Scales) -> list[Network]:
    """Critics that predict in the new units what they predicted in the old ones (PopArt).

    A critic stays as it is where its unit was or is 0: its targets did not vary.
    """
    old, new = before.output_unit, after.output_unit
    factors = np.where((old > 0) & (new > 0), ratio(old, new), 1.0).astype(np.float32)
    return [
        [*critic[:-1], {name: part * factor for name, part in critic[-1].items()}]
        for critic, factor in zip(critics, factors)
    ]


def learn(
    learner: Learner,
    samples: Samples,
    weights: np.ndarray,
    margin: np.ndarray,
    steps_per_episode: float,
    config: ResolvedConfig,
) -> tuple[Learner, dict[str, Any]]:
    """Better critics and a better policy from a batch, and metrics.

    weights `[M]` of the pseudo-reward; margin `[M]`, per episode; steps_per_episode turns a mean
    advantage per step into a change of an episode's total.
    """
    method, scales, old = METHODS[config.method], learner.scales, learner.policy
    advantage = formulas.combine(
        samples.advantages, weights.astype(np.float32), config.standardise, config.rescale
    )
    # every step size of the policy and the critics decays linearly to 0
    remaining = 1 - int(learner.update) / config.updates if config.decay else 1.0
    step_metrics: dict[str, Any] = {}
    # advantages of untrained critics are noise: the policy does not learn from the first batch
    is_first = int(learner.update) == 0 and config.critics == "normalised"
    if not method.is_descent and not is_first:
        rows = len(margin) if method.surrogate == "cpo" else 0
        size = np.where(scales.size > 0, scales.size, 1.0)[1 : 1 + rows]
        bounds = samples.advantages[1 : 1 + rows] / size.astype(np.float32)[:, None]
        centred = bounds - bounds.mean(-1, keepdims=True)
        policy, step_metrics = trust_region.improve(
            old,
            samples.observation,
            samples.action,
            np.concatenate((advantage[None], centred)),
            margin[:rows] / size,
            steps_per_episode,
            config.trust_region * remaining,
            config.cpo_step == "recover",
        )
        learner = learner._replace(policy=policy)
    is_frozen = is_first or not method.is_descent
    learner, loss = _descend(learner, samples, advantage, remaining, config, is_frozen)
    metrics = _measure(old, learner.policy, samples, advantage)
    if not is_first:
        learner = learner._replace(scales=scales.add_gain(metrics["gain"]))
    if config.spma_step is None and not is_first:
        step = adapted_step(learner.spma_step, metrics["kl"], KL_TARGET * remaining)
        learner = learner._replace(spma_step=step)
    return learner, {**metrics, "critic_loss": loss, **step_metrics}


def _descend(
    learner: Learner,
    samples: Samples,
    advantage: np.ndarray,
    remaining: float,
    config: ResolvedConfig,
    is_frozen: bool,
) -> tuple[Learner, float]:
    """All passes over a batch, and the critics' loss in the last; a frozen policy stays."""
    unit, centre = learner.scales.output_unit, learner.scales.centre
    targets = ratio(samples.targets - centre.astype(np.float32), unit.astype(np.float32))
    method, policy = METHODS[config.method], learner.policy
    parts: tuple[int, ...] = ()
    if "log_std" not in policy:
        parts = formulas.parts_of(policy, samples.output)
    is_spma = method.surrogate == "spma"
    rule = Rule(
        float(learner.spma_step) if is_spma else 0.0,
        float(config.clip),
        float(config.kl_stop),
        float(config.gradient_clip),
        np.array(parts, np.int64),
        "choices" in policy and policy["choices"].masked,
        is_spma and config.surrogate == "printed",
        float(config.gradient_clip) if method.surrogate == "cpo" else 0.0,
    )
    networks, loss = descend(
        Networks(policy, learner.policy_adam, learner.critics, learner.critics_adam),
        (samples.observation, samples.action, samples.log_old, advantage),
        np.ascontiguousarray(targets.T, np.float32),
        minibatches(len(advantage), config, int(learner.update)),
        np.float32(config.learning_rate * remaining),
        rule,
        is_frozen,
    )
    return learner._replace(**networks._asdict()), loss


def adapted_step(step: np.ndarray, kl: float, target: float) -> np.ndarray:
    """SPMA's next step size: longer by a tenth while updates move less than `target`, or shorter.

    Advantages are standardised. Where they are mostly noise, the smallest step, which suits clear
    ones, hardly moves the policy.
    """
    return (step * 1.1 if kl < target else step / 1.1).clip(*SPMA_STEPS)


def minibatches(samples: int, config: ResolvedConfig, update: int) -> np.ndarray:
    """Which samples make up each minibatch of each pass, `[passes, minibatches, minibatch]`.

    Samples that fill no minibatch are left out, others in every pass. Shuffled by NumPy: JAX sorts
    random keys, which took a seventh of the whole update.
    """
    random = np.random.default_rng((config.seed, update, 1))
    used = samples - samples % config.minibatch
    orders = [random.permutation(samples)[:used] for _ in range(config.passes)]
    return np.array(orders, np.int32).reshape(config.passes, -1, config.minibatch)


def _measure(old: Policy, new: Policy, samples: Samples, advantage: np.ndarray) -> dict[str, float]:
    """What an update achieved."""
    output = formulas.said(new, samples.observation)
    with np.errstate(over="ignore"):  # of a policy that went astray
        log_ratio = formulas.log_chance(new, output, samples.action) - samples.log_old
        measured = {
            "gain": formulas.gain(log_ratio, advantage, samples.advantages),
            "kl": formulas.divergence(old, new, samples.output, output).mean(),
            "entropy": formulas.entropy(old, samples.output).mean(),
        }
    return {name: float(value) for name, value in measured.items()}
