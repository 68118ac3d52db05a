"""All passes of minibatch Adam steps over a batch, for networks as trees of arrays.

`descent` moves networks of dense layers alone, in one compiled call. JAX moves those with an
encoder by the same steps, several times as slowly.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
import optax

from cmdpax.learning import descent, formulas
from cmdpax.learning.descent import DECAYS, EPSILON, Rule
from cmdpax.learning.formulas import Array, Network, Policy

adam = optax.scale_by_adam(*DECAYS, EPSILON)
# observation [K, d], action as `formulas.log_chance` takes it, log_old and advantage [K]
Samples = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Networks(NamedTuple):
    """A policy, 1 + M critics, and what Adam remembers of them."""

    policy: Policy
    policy_adam: optax.ScaleByAdamState
    critics: list[Network]
    critics_adam: optax.ScaleByAdamState


def descend(
    networks: Networks,
    samples: Samples,
    targets: np.ndarray,
    orders: np.ndarray,
    rate: np.float32,
    rule: Rule,
    is_frozen: bool,
) -> tuple[Networks, float]:
    """Networks after one step for each minibatch, and the critics' mean loss in the last pass.

    targets: of the critics, `[1 + M, K]`. orders: samples of each minibatch, `[passes, minibatches,
    minibatch]`. rate: Adam's step. is_frozen: whether the policy stays as it is.
    """
    policy, policy_adam, critics, critics_adam = networks
    if formulas.encoder_of(policy) is None:
        return _compiled(networks, samples, targets, orders, rate, rule, is_frozen)
    surrogate = "spma" if rule.spma_step > 0 else "ppo"
    surrogate = "printed" if rule.as_printed else surrogate
    clip, critic_clip = np.float32(rule.gradient_clip), np.float32(rule.critic_clip)
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
                policy, policy_adam, own, rate, number, clip, surrogate
            )
            is_frozen = 0 < rule.kl_stop < float(kl)
            if not is_frozen:
                policy, policy_adam = moved, memory
    after = Networks(policy, policy_adam, critics, critics_adam)
    return jax.tree.map(np.array, after), loss


def _compiled(
    networks: Networks, samples: Samples, targets: np.ndarray, *passes: Any
) -> tuple[Networks, float]:
    """The same by `descent`, which takes flat parameters, and choices as rows of 0 and 1."""
    policy, policy_adam, critics, critics_adam = networks
    observation, action, *rest = samples
    parts = passes[2].parts
    if len(parts):
        index = action.reshape(len(action), -1) + formulas.first_of(tuple(parts))
        action = np.zeros((len(action), parts.sum()), np.float32)
        np.put_along_axis(action, index, 1, -1)
    flat_policy = Flat.of([policy], [policy_adam.mu], [policy_adam.nu], policy_adam.count)
    flat_critics = Flat.of(critics, critics_adam.mu, critics_adam.nu, critics_adam.count)
    rows = (observation, action, *rest)
    loss = descent.descend(flat_policy, flat_critics, rows, targets, *passes)
    (moved,), (mu,), (nu,), count = flat_policy.trees(policy)
    memory = policy_adam._replace(mu=mu, nu=nu, count=count)
    critics, mu, nu, count = flat_critics.trees(critics[0])
    return Networks(moved, memory, critics, critics_adam._replace(mu=mu, nu=nu, count=count)), loss


class Flat(NamedTuple):
    """Networks of one shape and what Adam remembers of them, as `descend` moves them."""

    sizes: np.ndarray  # of inputs, hidden layers and outputs
    parameters: np.ndarray  # [networks, P], as are the next two
    mu: np.ndarray
    nu: np.ndarray
    steps: np.ndarray  # Adam's, [1]

    @staticmethod
    def of(trees: list[Any], mu: list[Any], nu: list[Any], count: np.ndarray) -> "Flat":
        """Copies of the leaves of each tree in a row, in the order of JAX; all have one shape."""
        layers = trees[0]["layers"] if isinstance(trees[0], dict) else trees[0]
        sizes = np.array([len(layers[0]["weight"]), *(len(layer["bias"]) for layer in layers)])
        flat, flat_mu, flat_nu = (
            np.stack([np.concatenate(list(map(np.ravel, jax.tree.leaves(tree)))) for tree in part])
            for part in (trees, mu, nu)
        )
        return Flat(sizes, flat, flat_mu, flat_nu, np.array([count]))

    def trees(self, like: Any) -> tuple[list[Any], list[Any], list[Any], np.ndarray]:
        """Trees of parameters, of mu and of nu, shaped as `like`, and Adam's steps."""
        leaves, structure = jax.tree.flatten(like)
        ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]

        def tree(row: np.ndarray) -> Any:
            parts = zip(np.split(row, ends), leaves)
            return jax.tree.unflatten(structure, [part.reshape(leaf.shape) for part, leaf in parts])

        parameters, mu, nu = ([*map(tree, rows)] for rows in self[1:4])
        return parameters, mu, nu, self.steps[0]


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
