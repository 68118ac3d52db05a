"""What `descent` does, for any network: gradients by JAX, one minibatch after the other.

The surrogates, the minibatches and Adam's steps are the same. Networks of dense layers alone are
moved by `descent`, which is several times as fast for them.
"""

from functools import partial
from typing import Any

import jax
import numpy as np
import optax

from cmdpax.learning import formulas
from cmdpax.learning.descent import DECAYS, EPSILON, Rule
from cmdpax.learning.formulas import Array, Network, Policy

adam = optax.scale_by_adam(*DECAYS, EPSILON)
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
Moved = tuple[Policy, Any, list[Network], Any]


def descend(
    policy: Policy,
    policy_adam: Any,
    critics: list[Network],
    critics_adam: Any,
    samples: Samples,
    targets: np.ndarray,
    orders: np.ndarray,
    rate: np.float32,
    rule: Rule,
    is_frozen: bool,
) -> tuple[Moved, float]:
    """Policy, critics and Adam's memories after one step for each minibatch; the last pass's loss.

    samples: observation `[K, d]`, action as `formulas.log_chance` takes it, log_old and advantage
    `[K]`; targets `[1 + M, K]`; orders `[passes, minibatches, minibatch]`. is_frozen: as there.
    """
    surrogate = "spma" if rule.spma_step > 0 else "ppo"
    surrogate = "printed" if rule.as_printed else surrogate
    critic_clip = np.float32(rule.critic_clip)
    number = np.float32(rule.spma_step or rule.clip)
    loss = 0.0
    for one_pass in orders:
        loss = 0.0
        for rows in one_pass:
            own = tuple(part[rows] for part in samples)
            critics, critics_adam, error = _move_critics(
                critics, critics_adam, own[0], targets[:, rows], rate, critic_clip
            )
            loss += float(error) / len(one_pass)
            if is_frozen:
                continue
            moved, memory, kl = _move_policy(
                policy, policy_adam, own, rate, number, np.float32(rule.gradient_clip), surrogate
            )
            is_frozen = 0 < rule.kl_stop < float(kl)
            if not is_frozen:
                policy, policy_adam = moved, memory
    return jax.tree.map(np.array, (policy, policy_adam, critics, critics_adam)), loss


@jax.jit
def _move_critics(
    critics: list[Network],
    memory: Any,
    observation: Array,
    targets: Array,
    rate: Array,
    clip: Array,
) -> tuple[list[Network], Any, Array]:
    """One step down the mean squared errors, whose sum comes last; clip: as below, for each."""

    def loss(critics: list[Network]) -> Array:
        errors = formulas.values(critics, observation) - targets
        return (errors**2).mean(-1).sum()

    error, slopes = jax.value_and_grad(loss)(critics)
    slopes = [_shorten(slope, clip) for slope in slopes]
    return *_step(critics, slopes, memory, rate), error


@partial(jax.jit, static_argnums=6)
def _move_policy(
    policy: Policy,
    memory: Any,
    samples: Samples,
    rate: Array,
    number: Array,
    clip: Array,
    surrogate: str,
) -> tuple[Policy, Any, Array]:
    """One step up the mean surrogate; the KL before it comes last.

    number: SPMA's step size, or PPO's clipping; clip: the largest norm of a gradient, or 0.
    """
    observation, action, log_old, advantage = samples

    def loss(policy: Policy) -> tuple[Array, Array]:
        log_ratio = formulas.log_probability(policy, observation, action) - log_old
        kl = (jax.numpy.expm1(log_ratio) - log_ratio).mean()
        return -getattr(formulas, surrogate)(log_ratio, advantage, number).mean(), kl

    slopes, kl = jax.grad(loss, has_aux=True)(policy)
    return *_step(policy, _shorten(slopes, clip), memory, rate), kl


def _shorten(slopes: Any, longest: Array) -> Any:
    """A gradient scaled so that its norm is at most `longest`; 0: as it is."""
    norm = jax.numpy.sqrt(sum((slope**2).sum() for slope in jax.tree.leaves(slopes)))
    shrink = jax.numpy.where(longest > 0, jax.numpy.minimum(1, longest / norm), 1)
    return jax.tree.map(lambda slope: slope * shrink, slopes)


def _step(tree: Any, slopes: Any, memory: Any, rate: Array) -> tuple[Any, Any]:
    """Adam's step, and what it remembers."""
    changes, memory = adam.update(slopes, memory)
    return jax.tree.map(lambda part, change: part - rate * change, tree, changes), memory
