"""From a batch and weights to better critics and a better policy: one update.

The critics and the surrogate methods (SPMA, PPO) take `passes` passes of minibatch Adam steps,
compiled into one loop; the trust-region methods (TRPO, CPO) take one step for the policy and the
same passes for the critics.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from cmdpax.learning import formulas, trust_region
from cmdpax.learning.config import METHODS, ResolvedConfig
from cmdpax.learning.formulas import Array, Network, Policy, log_probability, values
from cmdpax.learning.margins import Margins
from cmdpax.learning.policy import Statistics
from cmdpax.learning.rollout import Batch
from cmdpax.learning.scales import Scales, ratio
from cmdpax.learning.simulator import Simulator
from cmdpax.model.limits import Limits

adam = optax.scale_by_adam()
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
    key, rows = jax.random.key(config.seed), len(Limits.parse(config.limits).rows)
    space, size = simulator.action_space, simulator.observation_size
    policy = formulas.init_policy(
        jax.random.fold_in(key, 0),
        (size, *config.hidden, space.size),
        space.low is not None,
        config.initial_std,
    )
    critics = [
        formulas.init_network(jax.random.fold_in(key, 1 + i), (size, *config.hidden, 1), 1.0)
        for i in range(1 + rows)
    ]
    return Learner(
        policy,
        critics,
        Scales.empty(rows),
        adam.init(policy),
        adam.init(critics),
        np.full((), config.spma_step or SPMA_STEPS[0]),
        np.zeros(rows),
        adam.init(np.zeros(rows)),
        Margins.empty(rows),
        Statistics.empty(size),
        np.zeros((), np.int64),
    )


class Samples(NamedTuple):
    """A batch prepared for learning, K = T * N samples."""

    observation: Array  # [K, d]
    action: Array  # [K, a] or [K]
    log_old: Array  # [K]
    advantages: Array  # [1 + M, K]
    targets: Array  # [K, 1 + M]
    centre: Array  # [1 + M], of the values that targets are made of


@partial(jax.jit, static_argnums=5)
def prepare(
    policy: Policy,
    critics: Sequence[Network],
    centre: Array,
    unit: Array,
    batch: Batch,
    config: ResolvedConfig,
) -> Samples:
    """Advantages and critic targets; a critic's value is `centre + unit * output`.

    Where limits are discounted, the advantages of a cost at time t count `discount^t`: so much does
    the total change.
    """
    column, discount = (slice(None), None, None), config.discount
    value = centre[column] + unit[column] * values(critics, batch.observation)
    next_value = centre[column] + unit[column] * values(critics, batch.next_observation)
    if config.critics == "normalised":
        rewards, terminated = batch.rewards, batch.terminated
        shift = formulas.level_shift(rewards, value, next_value, terminated, discount)
        centre = centre + shift
        value, next_value = value + shift[column], next_value + shift[column]
    advantages = formulas.generalised_advantage(
        batch.rewards, value, next_value, batch.terminated, batch.ended, discount, config.gae
    )
    targets = (advantages + value).reshape(len(critics), -1).T
    if config.discounted:
        advantages = advantages.at[1:].multiply(discount**batch.age)
    advantages = advantages.reshape(len(critics), -1)
    observation = batch.observation.reshape(-1, batch.observation.shape[-1])
    action = batch.action.reshape(len(observation), *batch.action.shape[2:])
    log_old = log_probability(policy, observation, action)
    return Samples(observation, action, log_old, advantages, targets, centre)


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
        config,
    )
    scales = scales._replace(centre=np.asarray(samples.centre, np.float64))
    after = scales.add(np.asarray(samples.advantages), np.asarray(samples.targets), longest)
    if config.critics == "plain":
        after = after.plain()
    critics = rescale(learner.critics, scales, after)
    return learner._replace(scales=after, critics=critics), samples


def rescale(critics: list[Network], before: Scales, after: Scales) -> list[Network]:
    """Critics that predict in the new units what they predicted in the old ones (PopArt).

    Those whose targets did not vary in one of them predicted nothing, and stay as they are.
    """
    old, new = before.output_unit, after.output_unit
    factors = np.where((old > 0) & (new > 0), ratio(old, new), 1.0).astype(np.float32)
    return [
        [*critic[:-1], {name: part * factor for name, part in critic[-1].items()}]
        for critic, factor in zip(critics, factors)
    ]


@lru_cache(maxsize=8)  # compiling takes seconds
def make_learn(config: ResolvedConfig) -> Callable[..., tuple[Learner, dict[str, Any]]]:
    """`learn` for a config: `learn(learner, samples, weights, margin, steps_per_episode)`.

    weights `[M]` of the pseudo-reward; margin `[M]`, per episode; steps_per_episode
    turns a mean advantage per step into a change of an episode's total. Returns learner, metrics.
    """
    method = METHODS[config.method]

    def surrogate(log_ratio: Array, advantage: Array, spma_step: Array) -> Array:
        if method.surrogate == "spma":
            return formulas.spma(log_ratio, advantage, spma_step)
        return formulas.ppo(log_ratio, advantage, config.clip)

    def minibatch_step(carry: Any, rows: Any) -> Any:
        policy, critics, policy_adam, critics_adam, rate, spma_step, frozen = carry
        observation, action, log_old, advantage, targets = rows

        def policy_loss(parameters: Policy) -> tuple[Array, Array]:
            log_ratio = log_probability(parameters, observation, action) - log_old
            return -surrogate(log_ratio, advantage, spma_step), log_ratio

        def critics_loss(parameters: list[Network]) -> Array:
            return jnp.square(values(parameters, observation) - targets.T).mean(-1).sum()

        def improve(state: Any) -> Any:
            policy, policy_adam, _ = state
            gradient, log_ratio = jax.grad(policy_loss, has_aux=True)(policy)
            if config.gradient_clip > 0:
                clip = optax.clip_by_global_norm(config.gradient_clip)
                gradient = clip.update(gradient, optax.EmptyState())[0]
            change, moved_adam = adam.update(gradient, policy_adam)
            moved = jax.tree.map(lambda old, move: old - rate * move, policy, change)
            enough = (config.kl_stop > 0) & (formulas.sampled_kl(log_ratio) > config.kl_stop)
            before, after = (policy, policy_adam), (moved, moved_adam)
            chosen = jax.tree.map(lambda old, new: jnp.where(enough, old, new), before, after)
            return *chosen, enough

        loss, gradient = jax.value_and_grad(critics_loss)(critics)
        change, critics_adam = adam.update(gradient, critics_adam)
        critics = jax.tree.map(lambda old, move: old - rate * move, critics, change)
        if method.is_descent:  # a frozen policy costs nothing more
            state = (policy, policy_adam, frozen)
            policy, policy_adam, frozen = jax.lax.cond(frozen, lambda state: state, improve, state)
        return (policy, critics, policy_adam, critics_adam, rate, spma_step, frozen), loss

    @jax.jit
    def descend(
        state: Any, samples: Samples, advantage: Array, rates: Any, orders: Array, frozen: Array
    ) -> Any:
        old, critics, policy_adam, critics_adam = state
        observation, action, log_old, _, targets, _ = samples

        def one_pass(carry: Any, order: Array) -> Any:
            data = (observation, action, log_old, advantage, targets)
            rows = jax.tree.map(lambda x: x[order], data)
            carry, losses = jax.lax.scan(minibatch_step, carry, rows)
            return carry, losses.mean()

        carry = (old, critics, policy_adam, critics_adam, *rates, frozen)
        carry, losses = jax.lax.scan(one_pass, carry, orders)
        log_ratio = log_probability(carry[0], observation, action) - log_old
        return carry[:4], {
            "gain": formulas.gain(log_ratio, advantage, samples.advantages),
            "kl": formulas.kl(old, carry[0], observation).mean(),
            "entropy": formulas.entropy(old, observation).mean(),
            "critic_loss": losses[-1],
        }

    def learn(
        learner: Learner,
        samples: Samples,
        weights: np.ndarray,
        margin: np.ndarray,
        steps_per_episode: float,
    ) -> tuple[Learner, dict[str, Any]]:
        policy, scales = learner.policy, learner.scales
        unit = scales.output_unit.astype(np.float32)
        targets = ratio(np.asarray(samples.targets) - scales.centre.astype(np.float32), unit)
        samples = samples._replace(targets=jnp.asarray(targets, jnp.float32))
        advantage = _combine(
            samples.advantages, weights.astype(np.float32), config.standardise, config.rescale
        )
        # every step size of the policy and the critics decays linearly to 0
        remaining = 1 - int(learner.update) / config.updates
        rate = np.float32(config.learning_rate * remaining)
        orders = minibatches(len(samples.observation), config, int(learner.update))
        step_metrics: dict[str, Any] = {}
        # until critics have learned once, advantages are noise: the first batch is theirs alone
        is_first = int(learner.update) == 0 and config.critics == "normalised"
        if not method.is_descent and not is_first:
            rows = len(margin) if method.surrogate == "cpo" else 0
            size = np.where(scales.size > 0, scales.size, 1.0)[1 : 1 + rows]
            bounds = samples.advantages[1 : 1 + rows] / size.astype(np.float32)[:, None]
            centred = bounds - bounds.mean(-1, keepdims=True)
            policy, step_metrics = trust_region.improve(
                policy,
                samples.observation,
                samples.action,
                jnp.concatenate((advantage[None], centred)),
                margin[:rows] / size,
                steps_per_episode,
                config.trust_region * remaining,
            )
        state = (policy, learner.critics, learner.policy_adam, learner.critics_adam)
        sizes = (rate, learner.spma_step.astype(np.float32))
        state, metrics = descend(state, samples, advantage, sizes, orders, np.array(is_first))
        names = ("policy", "critics", "policy_adam", "critics_adam")
        learner = learner._replace(**dict(zip(names, state)))
        if not is_first:
            learner = learner._replace(scales=scales.add_gain(float(metrics["gain"])))
        if config.spma_step is None and not is_first:
            step = adapted_step(learner.spma_step, float(metrics["kl"]), KL_TARGET * remaining)
            learner = learner._replace(spma_step=step)
        return learner, {**{name: float(value) for name, value in metrics.items()}, **step_metrics}

    return learn


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


_combine = jax.jit(formulas.combine, static_argnums=(2, 3))
