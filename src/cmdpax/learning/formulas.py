"""Policies and critics as plain trees of arrays.

A network is a list of layers `{"weight": [in, out], "bias": [out]}` with tanh between them. A
policy is `{"layers": network, "log_std": [a]}` (Gaussian, deviation independent of the state) or
`{"layers": network}` (categorical). All functions take observations `[..., d]` that are already
normalised.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Network = list[dict[str, jax.Array]]
Policy = dict[str, Any]


def init_network(key: jax.Array, sizes: Sequence[int], last_gain: float) -> Network:
    """Orthogonal weights `[in, out]`, gain sqrt 2 for hidden layers and `last_gain` for the last,
    zero biases `[out]`.
    """
    layers = []
    for index, (width, following) in enumerate(pairwise(sizes)):
        gain = last_gain if index == len(sizes) - 2 else 2**0.5
        weight = jax.nn.initializers.orthogonal(gain)(
            jax.random.fold_in(key, index), (width, following)
        )
        layers.append({"weight": weight, "bias": jnp.zeros(following)})
    return layers


def init_policy(key: jax.Array, sizes: Sequence[int], gaussian: bool, initial_std: float) -> Policy:
    """A policy whose first actions hardly depend on the state: small last layer. A Gaussian one has
    a `log_std [actions]`.
    """
    policy: Policy = {"layers": init_network(key, sizes, 0.01)}
    if gaussian:
        policy["log_std"] = jnp.full(sizes[-1], np.log(initial_std), jnp.float32)
    return policy


def apply(network: Network, observation: jax.Array) -> jax.Array:
    """Forward pass, `[..., in] -> [..., out]`."""
    hidden = observation
    for layer in network[:-1]:
        hidden = jnp.tanh(hidden @ layer["weight"] + layer["bias"])
    return hidden @ network[-1]["weight"] + network[-1]["bias"]


def values(critics: Sequence[Network], observation: jax.Array) -> jax.Array:
    """What every critic says, `[..., d] -> [1 + m, ...]`: reward first, then one per constraint."""
    return jnp.stack([apply(critic, observation)[..., 0] for critic in critics])


def log_probability(policy: Policy, observation: jax.Array, action: jax.Array) -> jax.Array:
    """`log pi(a|s) [...]` of actions `[..., a]` (Gaussian) or choices `[...]` (categorical)."""
    output = apply(policy["layers"], observation)
    if "log_std" not in policy:
        return jnp.take_along_axis(jax.nn.log_softmax(output), action[..., None], -1)[..., 0]
    log_std = policy["log_std"]
    distance = (action - output) * jnp.exp(-log_std)
    return (-0.5 * distance**2 - log_std - 0.5 * jnp.log(2 * jnp.pi)).sum(-1)


def divergence(old: Policy, new: Policy, observation: jax.Array) -> jax.Array:
    """`KL(old || new) [...]` at each state."""
    before, after = apply(old["layers"], observation), apply(new["layers"], observation)
    if "log_std" not in old:
        log_before = jax.nn.log_softmax(before)
        return (jnp.exp(log_before) * (log_before - jax.nn.log_softmax(after))).sum(-1)
    wider = new["log_std"] - old["log_std"]
    moved = (before - after) ** 2 * jnp.exp(-2 * new["log_std"])
    return (wider + 0.5 * (jnp.exp(-2 * wider) + moved - 1)).sum(-1)


def entropy(policy: Policy, observation: jax.Array) -> jax.Array:
    """Entropy of the policy at each state, `[...]`."""
    if "log_std" in policy:
        level = (policy["log_std"] + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
        return jnp.broadcast_to(level, observation.shape[:-1])
    log_chance = jax.nn.log_softmax(apply(policy["layers"], observation))
    return -(jnp.exp(log_chance) * log_chance).sum(-1)
