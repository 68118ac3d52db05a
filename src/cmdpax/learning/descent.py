"""Passes of minibatch Adam steps for critics and policy, in one compiled call.

    critics  minimise  sum_i mean (V_i(s) - target_i)^2
    policy   maximises mean f(log ratio),   log ratio = log pi(a|s) - log pi_k(a|s)

Gradients are written out: the networks are small, so that what a general compiler adds to their
matrix products costs as much as those. Parameters are flat, float32: bias and weight `[in, out]` of
each layer in turn, then a Gaussian policy's log_std `[a]`.
"""
# mypy: disable-error-code="no-untyped-def"

import math
from typing import NamedTuple

import numpy as np

from cmdpax.learning.forward import inline_parts, tanh
from cmdpax.learning.policy import FORBIDDEN
from cmdpax.loops.compiled import contracted, piece

Array = np.ndarray
BLOCK = 128  # samples of one product: BLAS multiplies more than 10^6 numbers by another, slower way
DECAYS, EPSILON = (0.9, 0.999), 1e-8  # Adam's
inline_parts()


class Rule(NamedTuple):
    """How the policy is moved: SPMA's step size, or PPO's clipping and step 0.

    kl_stop: the policy stays after a minibatch with a larger KL. gradient_clip, critic_clip: the
    largest norm of a policy's and of a critic's gradient. 0: none of them. parts: how many choices
    every part of an action has. masked: whether observations end with a mask of choices.
    as_printed: whether SPMA's surrogate is the paper's.
    """

    spma_step: float
    clip: float
    kl_stop: float
    gradient_clip: float
    parts: np.ndarray
    masked: bool
    as_printed: bool = False
    critic_clip: float = 0.0


@piece
def count_parameters(sizes):
    """How many the layers have."""
    total = 0
    for layer in range(len(sizes) - 1):
        total += (sizes[layer] + 1) * sizes[layer + 1]
    return total


@piece
def layer_of(parameters, sizes, layer):
    """Bias `[out]` and weight `[in, out]` of a layer, both views."""
    start = count_parameters(sizes[: layer + 1])
    middle = start + sizes[layer + 1]
    end = middle + sizes[layer] * sizes[layer + 1]
    return parameters[start:middle], parameters[middle:end].reshape(sizes[layer], -1)


@piece
def outputs(parameters, sizes, inputs, store):
    """What a network says of `inputs [B, d]`, `[B, out]`; all layers stay in `store [layers, :]`.

    sizes: widths of inputs, hidden layers and outputs, `[layers + 1]`.
    """
    hidden, layers = inputs, len(sizes) - 1
    for layer in range(layers):
        bias, weight = layer_of(parameters, sizes, layer)
        above = store[layer, : len(inputs) * len(bias)].reshape(-1, len(bias))
        multiply(hidden, weight, above)
        for n in range(len(above)):
            add(above[n], bias)
            if layer < layers - 1:
                tanh(above[n])
        hidden = above
    return hidden


@piece
def multiply(left, right, product):
    """`product = left right`, block by block: `[B, k]`, `[k, w]`, `[B, w]`."""
    for first in range(0, len(left), BLOCK):
        np.dot(left[first : first + BLOCK], right, product[first : first + BLOCK])


@piece
def differentiate(parameters, sizes, inputs, store, slopes, gradient):
    """Fill in `gradient`, that of a loss, after `outputs`; `slopes [B, out]` are by the outputs."""
    for layer in range(len(sizes) - 2, -1, -1):
        bias, weight = layer_of(gradient, sizes, layer)
        width = sizes[layer]
        below = inputs if layer == 0 else store[layer - 1, : len(inputs) * width].reshape(-1, width)
        weight[:] = 0
        for first in range(0, len(below), BLOCK):
            product = np.dot(below[first : first + BLOCK].T, slopes[first : first + BLOCK])
            add(weight.reshape(-1), product.reshape(-1))
        bias[:] = 0
        for n in range(len(slopes)):
            add(bias, slopes[n])
        if layer > 0:
            transposed = np.ascontiguousarray(layer_of(parameters, sizes, layer)[1].T)
            slopes_below = np.empty_like(below)
            multiply(slopes, transposed, slopes_below)
            flat, hidden, slopes = slopes_below.reshape(-1), below.reshape(-1), slopes_below
            for k in range(len(flat)):
                flat[k] *= np.float32(1) - hidden[k] * hidden[k]


@piece
def add(total, change):
    """`total += change`, both `[K]`."""
    for k in range(len(total)):
        total[k] += change[k]


@piece
def adam(parameters, gradient, mu, nu, count, rate):
    """`p -= rate m / (sqrt v + eps)`, Adam's step number `count`, from 1; all in place."""
    first, second = np.float32(DECAYS[0]), np.float32(DECAYS[1])
    one, epsilon = np.float32(1), np.float32(EPSILON)
    mean_scale = np.float32(1 / (1 - DECAYS[0] ** count))
    square_scale = np.float32(1 / (1 - DECAYS[1] ** count))
    for k in range(len(parameters)):
        mu[k] = first * mu[k] + (one - first) * gradient[k]
        nu[k] = second * nu[k] + (one - second) * gradient[k] * gradient[k]
        parameters[k] -= rate * (mu[k] * mean_scale) / (np.sqrt(nu[k] * square_scale) + epsilon)


@piece
def spma_slope(growth, advantage, step):
    """Slope, by log ratio, of `A log ratio - (ratio - 1 - log ratio) / eta`, SPMA's surrogate.

    growth = ratio - 1. Maximised, the surrogate projects `pi_k (1 + eta A)` onto the policies. In
    expectation it equals the paper's `E[(A + 1/eta) log ratio]`, because `E ratio = 1` under pi_k;
    sample by sample it is far less noisy, since one with A = 0 pulls towards no change instead of
    towards itself. `pi_k (1 + eta A)` is a policy only where `A >= -1/eta`, and below that the
    surrogate has no maximum. So a sample's own step is `min(eta, 1/|A|)`: its target lies between
    never and twice as often, and its gradient at `pi = pi_k`, which is A, stays. Clipping A instead
    would play down rare disasters, whose advantages are -8 deviations where one happened, and as
    large upwards where it was expected and escaped.
    """
    return advantage - max(abs(advantage), 1 / step) * growth


@piece
def printed_slope(advantage, step):
    """Slope, by log ratio, of the paper's `(A + 1/eta) log ratio`, where A is at least -1/eta."""
    return max(advantage + 1 / step, 0.0)


@piece
def ppo_slope(growth, advantage, clip):
    """Slope, by log ratio, of `min(ratio A, clip(ratio, 1 - c, 1 + c) A)`, PPO's surrogate.

    growth = ratio - 1.
    """
    is_clipped = min(max(growth, -clip), clip) * advantage < growth * advantage
    return 0.0 if is_clipped else (1 + growth) * advantage


@piece
def log_chance(output, action, deviation, parts, slope):
    """`log pi(a|s)`, but for a constant, of an action `[a]`, and its slope by the output `[a]`.

    deviation: of a Gaussian; else empty, and the action is 1 where the choice of each part is.
    """
    total = 0.0
    if len(deviation):
        for k in range(len(output)):
            distance = (action[k] - output[k]) / deviation[k]
            total -= 0.5 * distance**2
            slope[k] = distance / deviation[k]
        return total
    first = 0
    for size in parts:
        last = first + size
        largest, chances = output[first], 0.0
        for k in range(first + 1, last):
            largest = max(largest, output[k])
        for k in range(first, last):
            chances += math.exp(output[k] - largest)
        level = largest + math.log(chances)
        for k in range(first, last):
            total += action[k] * (output[k] - level)
            slope[k] = action[k] - math.exp(output[k] - level)
        first = last
    return total


@piece
def policy_gradient(policy, sizes, samples, rows, inputs, rule, store, gradient):
    """Fill in that of minus the mean surrogate over the samples `rows [B]`; returns their KL.

    inputs: their observations `[B, d]`. KL is `E[ratio - 1 - log ratio]`, an estimate of
    `KL(pi_k || pi)` from samples of pi_k, and never negative.
    """
    _, action, log_old, advantage = samples
    layers = count_parameters(sizes)
    log_std, log_std_gradient = policy[layers:], gradient[layers:]
    log_std_gradient[:] = 0
    deviation, count, kl = np.exp(log_std), len(rows), 0.0
    constant = log_std.sum() + 0.5 * len(log_std) * math.log(2 * math.pi)
    output = outputs(policy, sizes, inputs, store)
    slopes = np.empty_like(output)
    for n in range(count):
        sample, slope = rows[n], slopes[n]
        if rule.masked:
            add(output[n], (inputs[n, -len(slope) :] - np.float32(1)) * FORBIDDEN)
        log_new = log_chance(output[n], action[sample], deviation, rule.parts, slope) - constant
        log_ratio = log_new - log_old[sample]
        growth = math.expm1(log_ratio)
        kl += (growth - log_ratio) / count
        if rule.as_printed:
            factor = printed_slope(advantage[sample], rule.spma_step) / count
        elif rule.spma_step > 0:
            factor = spma_slope(growth, advantage[sample], rule.spma_step) / count
        else:
            factor = ppo_slope(growth, advantage[sample], rule.clip) / count
        for k in range(len(deviation)):  # by log_std: distance^2 - 1
            log_std_gradient[k] -= factor * ((slope[k] * deviation[k]) ** 2 - 1)
        for k in range(len(slope)):
            slope[k] *= -factor
    differentiate(policy, sizes, inputs, store, slopes, gradient)
    if rule.gradient_clip > 0:
        shorten(gradient, rule.gradient_clip)
    return kl


@piece
def shorten(gradient, longest):
    """Scale a gradient, in place, so that its norm is at most `longest`."""
    squares = 0.0
    for k in range(len(gradient)):
        squares += gradient[k] * gradient[k]
    shrink = np.float32(min(1.0, longest / math.sqrt(squares)))
    for k in range(len(gradient)):
        gradient[k] *= shrink


@piece
def critic_gradient(critic, sizes, targets, rows, inputs, store, gradient):
    """Fill in that of the mean squared error over the samples `rows [B]`, which is returned."""
    count, loss = len(rows), 0.0
    errors = outputs(critic, sizes, inputs, store)
    for n in range(count):
        error = errors[n, 0] - targets[rows[n]]
        loss += error * error / count
        errors[n, 0] = 2 * error / count
    differentiate(critic, sizes, inputs, store, errors, gradient)
    return loss


@contracted
def descend(policy, critics, samples, targets, orders, rate, rule, is_frozen):
    """Move policy and critics, in place, by one step for each minibatch; the last pass's mean loss.

    policy, critics: sizes of layers, parameters, Adam's mu and nu `[networks, P]` and count `[1]`;
    one policy and 1 + M critics. samples: observation `[K, d]`, action `[K, a]`, log_old
    and advantage `[K]`; targets `[1 + M, K]`. orders `[passes, minibatches, minibatch]`.
    is_frozen: whether the policy stays; it does from the first minibatch beyond `rule.kl_stop` on.
    """
    sizes, count = policy[0], policy[4]
    parameters, mu, nu = policy[1][0], policy[2][0], policy[3][0]
    critic_sizes, critic_rows, critic_mu, critic_nu, critic_count = critics
    observation = samples[0]
    inputs = np.empty((orders.shape[2], observation.shape[1]), np.float32)
    widest = 0
    for widths in (sizes, critic_sizes):
        for width in widths:
            widest = max(widest, width)
    store = np.empty((len(sizes), len(inputs) * widest), np.float32)
    gradient, slopes, loss = np.empty_like(parameters), np.empty_like(critic_rows[0]), 0.0
    for one_pass in orders:
        loss = 0.0
        for rows in one_pass:
            for n in range(len(rows)):
                for k in range(inputs.shape[1]):
                    inputs[n, k] = observation[rows[n], k]
            critic_count[0] += 1
            for index in range(len(critic_rows)):
                critic, aims = critic_rows[index], targets[index]
                error = critic_gradient(critic, critic_sizes, aims, rows, inputs, store, slopes)
                loss += error / len(one_pass)
                if rule.critic_clip > 0:
                    shorten(slopes, rule.critic_clip)
                adam(critic, slopes, critic_mu[index], critic_nu[index], critic_count[0], rate)
            if is_frozen:
                continue
            kl = policy_gradient(parameters, sizes, samples, rows, inputs, rule, store, gradient)
            is_frozen = 0 < rule.kl_stop < kl
            if not is_frozen:
                count[0] += 1
                adam(parameters, gradient, mu, nu, count[0], rate)
    return loss
