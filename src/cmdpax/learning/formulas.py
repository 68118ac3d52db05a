"""Networks, log-probabilities, KL, advantages, surrogates: one formula, one function, one test.

A network is a list of layers `{"weight": [in, out], "bias": [out]}` with tanh between them. Ahead
of them may stand `{"encoder": Encoder, "parameters": [...]}`, whose features they see. A policy is
`{"layers": network, "log_std": [a]}` (Gaussian, deviation independent of the state) or
`{"layers": network}` (categorical), with "choices" where they have several parts or a mask.
Observations `[..., d]` are normalised already. What JAX differentiates takes arrays of JAX and of
NumPy alike, and all else those of NumPy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import numpy as np

from cmdpax import lagrangian
from cmdpax.learning.encoders import Encoder
from cmdpax.learning.policy import FORBIDDEN
from cmdpax.loops.compiled import at_once

Array = Any  # NumPy's or JAX's
LOG_CIRCLE = math.log(2 * math.pi)
Network = list[dict[str, Any]]
Policy = dict[str, Any]
LOOK_AHEAD = 30.0  # parts of an episode
GAIN = 2**0.5
jax.tree_util.register_static(Encoder)


def init_network(
    key: Array,
    index: int,
    sizes: tuple[int, ...],
    last_gain: float,
    encoder: Encoder | None = None,
) -> Network:
    """Orthogonal weights, gain sqrt 2 (`last_gain` for the last layer), and zero biases.

    Networks of one key have different indices. sizes: of the dense layers' inputs (an encoder's
    features, if there is one), of hidden layers and outputs.
    """
    layers: Network = []
    gains = [GAIN] * (len(sizes) - 2) + [last_gain]
    for layer, (gain, pair) in enumerate(zip(gains, pairwise(sizes))):
        weight = _orthogonal(key, index, layer, pair, gain)
        layers.append({"weight": weight, "bias": np.zeros(pair[1], np.float32)})
    if encoder is None:
        return layers
    first = {"encoder": encoder, "parameters": _init_encoder(key, index, len(layers), encoder)}
    return [first, *layers]


def _init_encoder(key: Array, index: int, layers: int, encoder: Encoder) -> list[np.ndarray]:
    """Parameters of an encoder ahead of so many dense layers."""
    if encoder.is_custom:
        return encoder.init_own(jax.random.fold_in(jax.random.fold_in(key, index), layers))
    parameters = []
    for layer, shape in enumerate(encoder.kernel_shapes):
        pair = (math.prod(shape[:-1]), shape[-1])
        kernel = _orthogonal(key, index, layers + layer, pair, GAIN)
        parameters += [kernel.reshape(shape), np.zeros(shape[-1], np.float32)]
    return parameters


def _orthogonal(
    key: Array, index: int, layer: int, pair: tuple[int, int], gain: float
) -> np.ndarray:
    """Weights `[in, out]` with orthogonal columns or rows of length `gain`."""
    own = jax.random.fold_in(jax.random.fold_in(key, index), layer)
    normal = np.asarray(jax.random.normal(own, (max(pair), min(pair))))  # compiled for each shape
    columns, triangle = np.linalg.qr(normal)
    columns *= np.sign(np.diag(triangle))
    return np.float32(gain) * (columns if pair[0] >= pair[1] else columns.T)


@jax.tree_util.register_static
@dataclass(frozen=True)
class Choices:
    """How many there are of each part of an action; masked: observations end with their mask."""

    parts: tuple[int, ...]
    masked: bool = False


def init_policy(
    key: Array,
    sizes: tuple[int, ...],
    initial_std: float | None,
    choices: Choices | None = None,
    encoder: Encoder | None = None,
) -> Policy:
    """A policy whose first actions hardly depend on the state: its last layer is small.

    Gaussian with `initial_std`; without it categorical, one choice of `sizes[-1]` or `choices`.
    """
    policy: Policy = {"layers": init_network(key, 0, sizes, 0.01, encoder)}
    if initial_std is not None:
        policy["log_std"] = np.full(sizes[-1], np.log(initial_std), np.float32)
    elif choices is not None:
        policy["choices"] = choices
    return policy


def said(policy: Policy, observation: Array) -> Array:
    """Output of a policy's network, `[..., d] -> [..., a]`; of forbidden choices it is -1e9."""
    output = apply(policy["layers"], observation)
    if "choices" in policy and policy["choices"].masked:
        output = output + (observation[..., -output.shape[-1] :] - 1) * FORBIDDEN
    return output


def apply(network: Network, observation: Array) -> Array:
    """Output of a network, `[..., in] -> [..., out]`."""
    hidden = observation
    if "encoder" in network[0]:
        first, *network = network
        hidden = first["encoder"].features(first["parameters"], observation)
    for layer in network[:-1]:
        inner = hidden @ layer["weight"]
        inner += layer["bias"]
        hidden = inner.__array_namespace__().tanh(inner)
    return hidden @ network[-1]["weight"] + network[-1]["bias"]


def encoder_of(policy: Policy) -> Encoder | None:
    """What stands ahead of a policy's dense layers, if anything does."""
    return policy["layers"][0].get("encoder")


def values(critics: Sequence[Network], observation: Array) -> Array:
    """Outputs of all critics, `[..., d] -> [1 + M, ...]`: reward first, then the rows of limits."""
    said = [apply(critic, observation)[..., 0] for critic in critics]
    return said[0].__array_namespace__().stack(said)


def log_probability(policy: Policy, observation: Array, action: Array) -> Array:
    """`log pi(a|s) [...]` of actions `[..., a]` (Gaussian) or choices `[...]` (categorical).

    Choices of several parts are `[..., parts]`.
    """
    return log_chance(policy, said(policy, observation), action)


def log_chance(policy: Policy, output: Array, action: Array) -> Array:
    """The same from the network's output `[..., a]`."""
    space = output.__array_namespace__()
    if "log_std" not in policy:
        parts = parts_of(policy, output)
        index = action.reshape(*output.shape[:-1], len(parts)) + first_of(parts)
        return space.take_along_axis(log_softmax(output, parts), index, -1).sum(-1)
    log_std = policy["log_std"]
    distance = (action - output) * space.exp(-log_std)
    return (-0.5 * distance**2 - log_std - 0.5 * LOG_CIRCLE).sum(-1)


def parts_of(policy: Policy, output: Array) -> tuple[int, ...]:
    """Into how many logits of each part a categorical policy's output `[..., a]` falls."""
    return policy["choices"].parts if "choices" in policy else (output.shape[-1],)


def first_of(parts: tuple[int, ...]) -> np.ndarray:
    """The index of the first logit of each part."""
    return np.cumsum((0, *parts[:-1]))


def log_softmax(output: Array, parts: tuple[int, ...]) -> Array:
    """Logarithms of the chances that logits `[..., a]` stand for, part by part."""
    space, levels = output.__array_namespace__(), []
    for first, size in zip(first_of(parts), parts):
        part = output[..., first : first + size]
        below = part - part.max(-1, keepdims=True)
        levels.append(below - space.log(space.exp(below).sum(-1, keepdims=True)))
    return levels[0] if len(levels) == 1 else space.concatenate(levels, -1)


def kl(old: Policy, new: Policy, observation: Array) -> Array:
    """`KL(old || new) [...]` at each state."""
    return divergence(old, new, *(said(one, observation) for one in (old, new)))


def divergence(old: Policy, new: Policy, before: Array, after: Array) -> Array:
    """The same from the outputs of the two networks, `[..., a]` each."""
    exp = after.__array_namespace__().exp
    if "log_std" not in old:
        parts = parts_of(old, before)
        log_before = log_softmax(before, parts)
        return (exp(log_before) * (log_before - log_softmax(after, parts))).sum(-1)
    wider = new["log_std"] - old["log_std"]
    moved = (before - after) ** 2 * exp(-2 * new["log_std"])
    return (wider + 0.5 * (exp(-2 * wider) + moved - 1)).sum(-1)


def entropy(policy: Policy, output: Array) -> Array:
    """Entropy of the policy at each state, `[...]`, from its network's output `[..., a]`."""
    if "log_std" in policy:
        level = (policy["log_std"] + 0.5 * (LOG_CIRCLE + 1)).sum()
        return np.broadcast_to(level, output.shape[:-1])
    log_chances = log_softmax(output, parts_of(policy, output))
    return -(np.exp(log_chances) * log_chances).sum(-1)


def cost_decay(steps: float) -> float:
    """`1 - 1 / clip(steps / 30, 2, 20)`: advantages of costs look so far ahead in an episode.

    In a short one an event is held against the few steps before it, where all others are noise.
    """
    return 1 - 1 / min(max(steps / LOOK_AHEAD, 2.0), 20.0)


def generalised_advantage(
    reward: Array,
    value: Array,
    next_value: Array,
    terminated: Array,
    ended: Array,
    discount: float,
    decay: float,
) -> Array:
    """`A_t = delta_t + discount decay A_{t+1}`, `delta_t = r_t + discount V(s') - V(s)`.

    reward, value, next_value `[..., T, N]`, of the true successors; terminated, ended `[T, N]` ->
    `[..., T, N]`. Truncation is not termination: where an episode was cut by the time limit or by
    the end of the batch, V(s') still counts; where it ended by itself, it does not.
    """
    delta = reward + discount * next_value * (1 - terminated) - value
    carry_on = discount * decay * (1 - ended)
    advantage = np.ascontiguousarray(delta)
    accumulate(advantage.reshape(-1, *carry_on.shape), carry_on)
    return advantage


@at_once
def accumulate(sums, carry_on):  # type: ignore[no-untyped-def]
    """`S_t += carry_t S_{t+1}` from the last t to the first: `[K, T, N]` in place, `[T, N]`."""
    for row in sums:
        for t in range(len(row) - 2, -1, -1):
            for n in range(row.shape[1]):
                row[t, n] += carry_on[t, n] * row[t + 1, n]


def level_shift(
    reward: Array, value: Array, next_value: Array, terminated: Array, discount: float
) -> Array:
    """`c = mean delta / (1 - discount mean(1 - terminated))`, `[..., T, N]` -> `[...]`.

    Added to all values, it makes the mean error of one step 0. Bootstrapped values find their level
    slowly: with a decay of .95 an update accounts for 20 steps of 200. Without discount and
    termination values have no level, and c is 0.
    """
    goes_on = 1 - terminated
    delta = (reward + discount * next_value * goes_on - value).mean((-2, -1))
    share = 1 - discount * goes_on.mean()
    return delta / share if share > 0 else np.zeros_like(delta)


def standardise(advantage: Array) -> Array:
    """Mean zero, deviation one, over the last axis, `[..., K]`."""
    centred = advantage - advantage.mean(-1, keepdims=True)
    deviation = centred.std(-1, keepdims=True)
    return centred / np.where(deviation > 0, deviation, 1).astype(deviation.dtype)


def combine(advantages: Array, weights: Array, rule: str, rescale: bool = False) -> Array:
    """The advantage of the pseudo-reward `r + w.c`, `[1 + M, K]` and weights `[M]` -> `[K]`.

    `combined` adds in true units, then standardises: the multiplier keeps its meaning. `separate`
    (the incumbents, and the paper by its table) standardises the reward's and only centres the
    constraints' *before* adding, which silently multiplies the multiplier by the reward advantage's
    deviation. `rescale` divides by `1 + sum w`, the incumbents' heuristic.
    """
    reward, constraints = advantages[0], advantages[1:]
    if rule == "separate":
        reward, constraints = standardise(reward), constraints - constraints.mean(-1, keepdims=True)
    total = lagrangian.scalarise(reward, constraints, weights)
    if rescale:
        total = total / (1 + weights.sum())
    return total if rule == "separate" else standardise(total)


def spma(log_ratio: Array, advantage: Array, step: Array) -> Array:
    """`A log ratio - (ratio - 1 - log ratio) / min(eta, 1/|A|)`, `[K]`: `descent.spma_slope`."""
    space = log_ratio.__array_namespace__()
    sharpness = space.maximum(abs(advantage), 1 / step)
    return advantage * log_ratio - sharpness * (space.expm1(log_ratio) - log_ratio)


def printed(log_ratio: Array, advantage: Array, step: Array) -> Array:
    """`(A + 1/eta) log ratio`, SPMA's surrogate as printed, `[K]`; A is at least -1/eta."""
    return (advantage + 1 / step).clip(0) * log_ratio


def ppo(log_ratio: Array, advantage: Array, clip: Array) -> Array:
    """`min(ratio A, clip(ratio, 1 - c, 1 + c) A)`, PPO's surrogate, `[K]`."""
    space = log_ratio.__array_namespace__()
    ratio = space.exp(log_ratio)
    return space.minimum(ratio * advantage, ratio.clip(1 - clip, 1 + clip) * advantage)


def linear(log_ratio: Array, advantage: Array) -> Array:
    """`E[ratio A]`, the surrogate of trust regions; `[K]`, `[..., K]` -> `[...]`.

    `log_ratio = log(pi / pi_k)`, where pi_k is the policy that acted.
    """
    return (log_ratio.__array_namespace__().exp(log_ratio) * advantage).mean(-1)


def gain(log_ratio: Array, combined: Array, advantages: Array) -> Array:
    """`|E[(ratio - 1) A]| / std A`: how far an update moves a value, in deviations of its A.

    The largest of reward, costs (`advantages [1 + M, K]`) and their combination `[K]`; scalar.
    """
    rows = standardise(np.concatenate((combined[None], advantages)))
    return np.abs((np.expm1(log_ratio) * rows).mean(-1)).max()
