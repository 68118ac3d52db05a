"""What is proven about a policy of a small model, with the formulas of `exact/bounds.py`.

All bounds hold for real numbers: they are widened by what rounding amounts to. The value of a
constant, a fraction there, is a sum of two numbers here.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np

from cmdpax.loops.compiled import Array, compiled, frozen, spliced
from cmdpax.loops.rows import Block
from cmdpax.loops.small import (
    centre,
    extremes,
    factorise_mean,
    plan_both,
    substitute,
    substitute_all,
)

UNIT = 2.220446049250313e-16
SPLIT = 134217729.0  # 2^27 + 1: halves of a number
SMALL = 1e-250  # a product so small may have lost digits
TWICE = 2.0  # as far from a value as its bounds are: what another's rounding surely allows
ROUNDED = 1e-13  # of a value, in units of possible ones
SQUARED = 1e-15  # what rounding of a sum of two numbers amounts to, in units of rounding


class Model(NamedTuple):
    """One small model, and what its rows say."""

    rows: Block
    kernel: Block
    owner: Array  # [K]
    initial: Array  # [S]
    reachable: Array  # [S]
    discount: float
    rounding: float  # of ratios
    roundings: float  # in a sum over initial states
    nothing: Array  # [0]


class Functions(NamedTuple):
    """The reward and M rows of a model, c = 1 + M, in the orientation of standard forms."""

    raw: Array  # [c, K]
    limits: Array  # [M] int64: the limit of each row
    signs: Array  # [M]: what turns its value into the row
    compared: Array  # [M, 2]: the threshold of each row, and the other one of a range
    centred: Array  # [c, K]: raw less a constant, where that is larger than differences
    sizes: Array  # [c, K], of these
    ends: Array  # [c, 2]: least and largest reward of reachable choices
    rests: Array  # [c, 2]: values of the constants, as sums of two numbers
    scaled: Array  # [c, K]
    perturbed: Array  # [c, K]
    thresholds: Array  # [M], scaled
    units: Array  # [c]


class Proof(NamedTuple):
    """What is proven about a policy of a model, likewise."""

    weights: Array  # [M]
    bounds: Array  # [c, 2]
    margins: Array  # [M, 2]
    potentials: Array  # [c, S]
    ranges: Array  # [c, 2]
    range_potentials: Array  # [c, 2, S]
    upper: Array  # [1]: no feasible policy has a better reward


@spliced
def empty_functions(K, M):
    """Room for the functions of a model."""
    c = 1 + M
    return Functions(
        np.empty((c, K)),
        np.empty(M, np.int64),
        np.empty(M),
        np.empty((M, 2)),
        np.empty((c, K)),
        np.empty((c, K)),
        np.empty((c, 2)),
        np.empty((c, 2)),
        np.empty((c, K)),
        np.empty((c, K)),
        np.empty(M),
        np.empty(c),
    )


@spliced
def empty_proof(prices, S):
    """Room for the proof of a policy; `prices [M]` become its weights."""
    c = 1 + len(prices)
    return Proof(
        prices,
        np.empty((c, 2)),
        np.empty((c - 1, 2)),
        np.empty((c, S)),
        np.empty((c, 2)),
        np.empty((c, 2, S)),
        np.empty(1),
    )


@compiled
def two_sum(a, b):
    """`a + b` and what rounding took from it, exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@compiled
def two_product(a, b):
    """`a * b` and what rounding took from it, exactly; NaN where numbers are too small."""
    product = a * b
    if abs(product) < SMALL and a != 0.0 and b != 0.0:
        return product, np.nan
    high, other = SPLIT * a, SPLIT * b
    high, other = high - (high - a), other - (other - b)
    low, rest = a - high, b - other
    return product, ((high * other - product) + high * rest + low * other) + low * rest


@spliced
def roundings(initial):
    """How often a sum over initial states is rounded; what their chances miss 1 by counts too."""
    total, rest, count = 0.0, 0.0, 9.0
    for chance in initial:
        if chance != 0.0:
            total, error = two_sum(total, chance)
            rest += error
            count += 1.0
    return count + abs((total - 1.0) + rest) / UNIT


@spliced
def take_constants(model, functions):
    """Ends of functions, their constants, and what is left without them."""
    raw = functions.raw
    for i in range(len(raw)):
        low, high = np.inf, -np.inf
        for k in range(raw.shape[1]):
            if model.reachable[model.owner[k]]:
                low, high = min(low, raw[i, k]), max(high, raw[i, k])
        middle = low / 2 + high / 2
        constant = middle if abs(middle) > high - low else 0.0
        for k in range(raw.shape[1]):
            functions.centred[i, k] = raw[i, k] - constant
            functions.sizes[i, k] = abs(functions.centred[i, k])
        functions.ends[i, 0], functions.ends[i, 1] = low, high
        functions.rests[i, 0], functions.rests[i, 1] = 0.0, 0.0
        if constant != 0.0:
            below, tail = two_sum(1.0, -model.discount)
            first = constant / below
            product, error = two_product(first, below)
            functions.rests[i, 0] = first
            functions.rests[i, 1] = (((constant - product) - error) - first * tail) / below


@spliced
def reward_range(model, functions, shares, proof):
    """The attained range of the reward and its potentials, in place; False if unsettled."""
    K = functions.centred.shape[1]
    both, sizes, ends = np.empty((1, 2, K)), np.empty((2, K)), np.empty((2, 2))
    for k in range(K):
        both[0, 0, k], both[0, 1, k] = -functions.centred[0, k], functions.centred[0, k]
        sizes[0, k], sizes[1, k] = functions.sizes[0, k], functions.sizes[0, k]
    reach, own = model.discount / (1.0 - model.discount), proof.range_potentials[:1]
    numbers = model.initial, reach, model.reachable, True, shares.rough
    if not plan_both(model.kernel, frozen(both), *numbers, own):
        return False
    _extremes(model, both[0], sizes, own[0], model.nothing, ends)
    for side in range(2):
        sign, rest = 2.0 * side - 1.0, functions.rests[0, 0] + functions.rests[0, 1]
        low = _outwards(model, own[0, side], ends[side, 0], ends[side, 1], sign * rest, 0.0)[0]
        proof.ranges[0, side] = sign * low + 0.0
    return True


@compiled
def tolerance_of(functions, shares, i, ranges):
    """What gap (i = 0) or violation may be, from ranges `[c, 2]` (`Ranges.tolerances`)."""
    rest, own, largest = functions.rests[i, 0], 0.0, 0.0
    for j in range(4 if i > 0 else 2):
        number = ranges[i, j] if j < 2 else functions.compared[i - 1, j - 2]
        own, largest = max(own, abs(number - rest)), max(largest, abs(number))
    floor = max(shares.floor * own, shares.digits * largest)
    floor = max(floor, shares.tiniest * max(-functions.ends[i, 0], functions.ends[i, 1]))
    return max(shares.eps * (ranges[i, 1] - ranges[i, 0]), floor)


@spliced
def prove(model, functions, proof, factors, keys, policy, dual_potential):
    """Bounds on the values of a policy `[K]`, and on the best one at the prices.

    keys, factors: those of a plan at the prices. dual_potential: `[1, S]`, its values, in place.
    """
    c, K = functions.centred.shape
    values = dual_potential[0]
    S, rests, room = len(values), functions.rests, np.empty((c - 1, 3))
    total, tail, doubt = rests[0, 0], rests[0, 1], abs(rests[0, 0])
    mixed, sizes, ends = np.empty((1, K)), np.empty((1, K)), np.empty((c, 2))
    for k in range(K):
        mixed[0, k], sizes[0, k] = functions.centred[0, k], functions.sizes[0, k]
    for i in range(c - 1):
        threshold = functions.compared[i, 0]
        first, error = two_sum(rests[1 + i, 0], -threshold)
        error += rests[1 + i, 1]
        room[i, 0], room[i, 1] = first, error
        room[i, 2] = abs(rests[1 + i, 0]) + abs(threshold) if rests[1 + i, 0] != 0.0 else 0.0
        weight = proof.weights[i]
        if weight == 0.0:
            continue
        product, lost = two_product(weight, first)
        total, rounded = two_sum(total, product)
        tail += rounded + (lost + weight * error)
        doubt += weight * (abs(rests[1 + i, 0]) + abs(threshold))
        for k in range(K):
            mixed[0, k] += weight * functions.centred[1 + i, k]
            sizes[0, k] += weight * functions.sizes[1 + i, k]
    for s in range(S):
        values[s] = mixed[0, keys[s]]
    for k in range(K):
        sizes[0, k] *= c + 1
    centre(values, model.reachable)  # a constant has no say, and costs digits
    substitute(factors, values)
    centre(values, model.reachable)
    _extremes(model, mixed, sizes, dual_potential, model.nothing, ends)
    upper = _outwards(model, values, ends[0, 0], ends[0, 1], total + tail, (c + 10) * doubt)[1]
    potentials, policy = proof.potentials, frozen(policy)
    _evaluate(model, functions.centred, policy, factors, potentials)
    _extremes(model, functions.centred, functions.sizes, potentials, policy, ends)
    proof.upper[0] = upper
    for i in range(c):
        low, high, vector = ends[i, 0], ends[i, 1], potentials[i]
        pair = _outwards(model, vector, low, high, rests[i, 0] + rests[i, 1], 0.0)
        proof.bounds[i, 0], proof.bounds[i, 1] = pair
        if i > 0:
            rest, doubt = room[i - 1, 0] + room[i - 1, 1], room[i - 1, 2]
            pair = _outwards(model, vector, low, high, rest, doubt)
            proof.margins[i - 1, 0], proof.margins[i - 1, 1] = pair


@spliced
def judge(model, functions, proof, shares, points, numbers):
    """Whether gap and violations are small enough; points become lower bounds, unscaled.

    Of rows no range is computed. The policy's own value is attained, so that its bounds stand for
    one: then the floor of a tolerance must do. Where it does not, the door computes the range.
    """
    ranges, c, mass = proof.ranges, len(proof.ranges), 1.0 / (1.0 - model.discount)
    numbers[5], numbers[6] = 0.0, 0.0
    for i in range(c):
        low, high = proof.bounds[i]
        error = proof.upper[0] - low if i == 0 else -proof.margins[i - 1, 0]
        if i > 0 or c == 1:
            doubt = TWICE * (high - low)
            ranges[i, 0], ranges[i, 1] = high + doubt, low - doubt
            for s in range(proof.potentials.shape[1]):
                value = proof.potentials[i, s]
                proof.range_potentials[i, 0, s] = -value
                proof.range_potentials[i, 1, s] = value
        tolerance = tolerance_of(functions, shares, i, ranges)
        if not (error <= tolerance and tolerance > 0.0):
            return False
        scaled = shares.eps * error / tolerance
        numbers[5 if i == 0 else 6] = scaled if i == 0 else max(numbers[6], scaled)
        unit = functions.units[i]
        off = max(shares.off * tolerance, ROUNDED * unit)
        for p in range(int(numbers[7])):
            points[p, i] = points[p, i] * unit - off
            if i == 0:
                points[p, i] += functions.ends[0, 0] * mass
    return True


@spliced
def _evaluate(model, rewards, policy, factors, potentials):
    """Values `[c, S]` of rewards `[c, K]` under a policy `[K]`, centred, in place."""
    c, S = potentials.shape
    columns, first_choice = np.empty((S, c)), model.rows.first_choice
    factorise_mean(model.kernel, policy, factors)
    for i in range(c):
        vector = potentials[i]
        for s in range(S):
            vector[s] = 0.0
            for k in range(first_choice[s], first_choice[s + 1]):
                vector[s] += policy[k] * rewards[i, k]
        centre(vector, model.reachable)
        for s in range(S):
            columns[s, i] = vector[s]
    substitute_all(factors, columns)
    for i in range(c):
        vector = potentials[i]
        for s in range(S):
            vector[s] = columns[s, i]
        centre(vector, model.reachable)


@compiled
def _extremes(model, rewards, sizes, values, policy, ends):
    """`small.extremes` of a model without a gauge."""
    arrays = frozen(rewards), frozen(sizes), frozen(values)
    none, discount, seen = model.nothing, model.discount, model.reachable
    extremes(model.rows, *arrays, none, policy, none, discount, model.rounding, seen, ends)


@compiled
def _outwards(model, values, low, high, rest, doubt):
    """`rho.V + end + rest` of both ends, with rounding; doubt: what `rest` is a difference of."""
    start, spread = 0.0, 0.0
    for s in range(len(values)):
        if model.initial[s] != 0.0:
            start += model.initial[s] * values[s]
            spread += model.initial[s] * abs(values[s])
    first, last = start + low + rest, start + high + rest
    size = model.roundings * spread + abs(rest) + SQUARED * doubt
    first -= UNIT * (size + model.roundings * abs(low) + 2 * abs(first))
    last += UNIT * (size + model.roundings * abs(high) + 2 * abs(last))
    return first if np.isfinite(first) else -np.inf, last if np.isfinite(last) else np.inf
