"""One update: from a batch and the constraint weights to better critics and a better policy.

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

from cmdpax.learning import normaliser, surrogates, trust_region
from cmdpax.learning.advantages import combine, generalised_advantage
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.learning.formulas import (
    Network,
    Policy,
    divergence,
    entropy,
    init_network,
    init_policy,
    log_probability,
    values,
)
from cmdpax.learning.rollout import Batch
from cmdpax.learning.simulator import Simulator

adam = optax.scale_by_adam()


class Learner(NamedTuple):
    """The whole state of a run, as one tree of arrays; together with the config it determines the
    rest of the run.
    """

    policy: Policy
    critics: list[Network]
    centre: np.ndarray  # [1 + m], what the critics' networks are added to
    policy_adam: Any
    critics_adam: Any
    multiplier: np.ndarray  # [m]
    dual_adam: Any
    margin: np.ndarray  # [m], what weights and multipliers see of the batches so far
    seen: normaliser.Statistics
    update: np.ndarray  # how many updates were made


def init(config: TrainConfig, simulator: Simulator) -> Learner:
    """The state before the first batch."""
    key, count = jax.random.key(config.seed), len(config.limit)
    space, size = simulator.action_space, simulator.observation_size
    policy = init_policy(
        jax.random.fold_in(key, 0),
        (size, *config.hidden, space.size),
        space.low is not None,
        config.initial_std,
    )
    critics = [
        init_network(jax.random.fold_in(key, 1 + i), (size, *config.hidden, 1), 1.0)
        for i in range(1 + count)
    ]
    return Learner(
        policy,
        critics,
        np.zeros(1 + count),
        adam.init(policy),
        adam.init(critics),
        np.zeros(count),
        adam.init(np.zeros(count)),
        np.zeros(count),
        normaliser.empty(size),
        np.zeros((), np.int64),
    )


class Samples(NamedTuple):
    """A batch prepared for learning, K = T * N samples."""

    observation: jax.Array  # [K, d]
    action: jax.Array  # [K, a] or [K]
    log_old: jax.Array  # [K]
    advantages: jax.Array  # [1 + m, K]
    targets: jax.Array  # [K, 1 + m]


@partial(jax.jit, static_argnums=(4, 5))
def prepare(
    policy: Policy,
    critics: Sequence[Network],
    centre: np.ndarray,
    batch: Batch,
    discount: float,
    gae: float,
) -> Samples:
    """Advantages and critic targets of a batch; a critic's value is its network's plus its
    `centre`, `[1 + m]`.
    """
    level = jnp.asarray(centre, jnp.float32)[:, None, None]
    value, following = (
        values(critics, batch.observation) + level,
        values(critics, batch.next_observation) + level,
    )
    advantages = generalised_advantage(
        batch.rewards, value, following, batch.terminated, batch.ended, discount, gae
    )
    observation = batch.observation.reshape(-1, batch.observation.shape[-1])
    action = batch.action.reshape(len(observation), *batch.action.shape[2:])
    targets = (advantages + value).reshape(len(critics), -1).T
    return Samples(
        observation,
        action,
        log_probability(policy, observation, action),
        advantages.reshape(len(critics), -1),
        targets,
    )


@lru_cache(maxsize=8)  # compiling takes seconds
def make_learn(config: TrainConfig) -> Callable[..., tuple[Learner, dict[str, Any]]]:
    """`learn(learner, batch, worth [m], margin [m], units) -> (learner, metrics)` for a config."""
    method = METHODS[config.method]

    def surrogate(log_ratio: jax.Array, advantage: jax.Array) -> jax.Array:
        if method.surrogate == "spma":
            return surrogates.spma(log_ratio, advantage, config.spma_step)
        return surrogates.ppo(log_ratio, advantage, config.clip)

    descend = method.surrogate in ("spma", "ppo")  # else the trust region moves the policy

    def minibatch_step(carry: Any, rows: Any) -> Any:
        policy, critics, policy_adam, critics_adam, rate, frozen = carry
        observation, action, log_old, advantage, targets = rows

        def policy_loss(parameters: Policy) -> tuple[jax.Array, jax.Array]:
            log_ratio = log_probability(parameters, observation, action) - log_old
            return -surrogate(log_ratio, advantage), log_ratio

        def critics_loss(parameters: list[Network]) -> jax.Array:
            return jnp.square(values(parameters, observation) - targets.T).mean(-1).sum()

        loss, gradient = jax.value_and_grad(critics_loss)(critics)
        change, critics_adam = adam.update(gradient, critics_adam)
        critics = jax.tree.map(lambda old, move: old - rate * move, critics, change)
        if descend:

            def improve(state: Any) -> Any:
                policy, policy_adam, _ = state
                gradient, log_ratio = jax.grad(policy_loss, has_aux=True)(policy)
                if config.gradient_clip > 0:
                    gradient = optax.clip_by_global_norm(config.gradient_clip).update(
                        gradient, optax.EmptyState()
                    )[0]
                change, moved_adam = adam.update(gradient, policy_adam)
                moved = jax.tree.map(lambda old, move: old - rate * move, policy, change)
                enough = (config.kl_stop > 0) & (surrogates.divergence(log_ratio) > config.kl_stop)
                before, after = (policy, policy_adam), (moved, moved_adam)
                return *jax.tree.map(
                    lambda old, new: jnp.where(enough, old, new), before, after
                ), enough

            # a frozen policy costs nothing more
            state = (policy, policy_adam, frozen)
            policy, policy_adam, frozen = jax.lax.cond(frozen, lambda state: state, improve, state)
        return (policy, critics, policy_adam, critics_adam, rate, frozen), loss

    @jax.jit
    def descend_passes(
        learner: Any, samples: Samples, advantage: jax.Array, rate: jax.Array, orders: jax.Array
    ) -> Any:
        old, critics, policy_adam, critics_adam = learner

        def one_pass(carry: Any, order: jax.Array) -> Any:
            data = (
                samples.observation,
                samples.action,
                samples.log_old,
                advantage,
                samples.targets,
            )
            rows = jax.tree.map(lambda x: x[order], data)
            carry, losses = jax.lax.scan(minibatch_step, carry, rows)
            return carry, losses.mean()

        carry = (old, critics, policy_adam, critics_adam, rate, jnp.array(False))
        carry, losses = jax.lax.scan(one_pass, carry, orders)
        return carry[:4], {
            "kl": divergence(old, carry[0], samples.observation).mean(),
            "entropy": entropy(old, samples.observation).mean(),
            "critic_loss": losses[-1],
        }

    def learn(
        learner: Learner, batch: Batch, worth: np.ndarray, margin: np.ndarray, units: float
    ) -> tuple[Learner, dict[str, Any]]:
        samples = prepare(
            learner.policy, learner.critics, learner.centre, batch, config.discount, config.gae
        )
        # Adam moves a critic by a few units an update, but returns rise by hundreds: with networks
        # alone most seeds of Hopper stand still for good
        moved = np.asarray(samples.targets, np.float64).mean(0) - learner.centre
        learner = learner._replace(centre=learner.centre + config.critic_centre * moved)
        samples = samples._replace(targets=samples.targets - learner.centre.astype(np.float32))
        advantage = _combine(
            samples.advantages, worth.astype(np.float32), config.standardise, config.rescale
        )
        remaining = (
            1 - int(learner.update) / config.updates
        )  # every step size of the policy and critics decays linearly to 0
        rate = np.float32(config.learning_rate * remaining)
        orders = minibatches(len(samples.observation), config, int(learner.update))
        policy = learner.policy
        step_metrics: dict[str, Any] = {}
        if not descend:
            bounds = (
                samples.advantages[1:] if method.surrogate == "cpo" else samples.advantages[1:1]
            )
            centred = bounds - bounds.mean(-1, keepdims=True)
            policy, step_metrics = trust_region.improve(
                policy,
                samples.observation,
                samples.action,
                jnp.concatenate((advantage[None], centred)),
                margin if method.surrogate == "cpo" else margin[:0],
                units,
                config.trust_region * remaining,
            )
        state = (policy, learner.critics, learner.policy_adam, learner.critics_adam)
        (policy, critics, policy_adam, critics_adam), metrics = descend_passes(
            state, samples, advantage, rate, orders
        )
        learner = learner._replace(
            policy=policy, critics=critics, policy_adam=policy_adam, critics_adam=critics_adam
        )
        return learner, {**{name: float(value) for name, value in metrics.items()}, **step_metrics}

    return learn


def minibatches(samples: int, config: TrainConfig, update: int) -> np.ndarray:
    """Which samples make up each minibatch of each pass, `[passes, minibatches, minibatch]`.

    Samples that fill no minibatch are left out, others in every pass. Shuffled by NumPy: JAX sorts
    random keys, which took a seventh of the whole update.
    """
    random, used = (
        np.random.default_rng((config.seed, update, 1)),
        samples - samples % config.minibatch,
    )
    orders = [random.permutation(samples)[:used] for _ in range(config.passes)]
    return np.array(orders, np.int32).reshape(config.passes, -1, config.minibatch)


_combine = jax.jit(combine, static_argnums=(2, 3))
