"""Small models of one shape in one call: reach, ranges, pivots and proofs of each in turn.

The formulas are those of `exact/ranges.py`, `standard.scaled`, `solvers/key_simplex.py` and
`exact/bounds.py`; a value of a constant, a fraction there, is a sum of two numbers here. Arrays
have a leading axis n, one entry for each model of S states and K choices.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np

from cmdpax.loops.bellman import search
from cmdpax.loops.compiled import Array, compiled, frozen, spliced
from cmdpax.loops.pivots import (
    OPTIMAL,
    PIVOTS,
    REFRESH,
    SWAPS,
    TIES,
    TIGHT,
    empty_basis,
    neighbours,
    pivot,
    refresh,
    unit_solution,
)
from cmdpax.loops.rows import Block
from cmdpax.loops.small import (
    SWEEPS,
    Factors,
    best_keys,
    centre,
    extremes,
    factorise,
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


class Models(NamedTuple):
    """What n models say, with m limits each that make M rows of standard forms, c = 1 + M."""

    rows: Block  # [n, S + 1], [n, K + 1] and padded [n, E]
    initial: Array  # [n, S]
    discounts: Array  # [n]
    signs: Array  # [n]: -1 where the reward is minimised
    rewards: Array  # [n, K]
    constraints: Array  # [n, m, K]
    bounds: Array  # [n, m, 2], as `model/limits.py` has them


class Shares(NamedTuple):
    """How accurate everything is: constants of the rooms above."""

    eps: float
    missed: float  # share of eps by which margins and visits may be negative
    lowered: float  # the same by which perturbed rewards may change a value
    off: float  # the same of what points may be off
    most: int  # pivots
    swaps: int  # changes of keys between two refreshes
    floor: float  # of tolerances: of the size of numbers, of constants, of the largest reward
    digits: float
    tiniest: float
    rough: float  # share of a range that may be missed
    far: float  # what the discount leaves of states that are far away


class Answers(NamedTuple):
    """What is proven about each model, in the model's own orientation (`certificate.said_back`)."""

    are_certified: Array  # [n] booleans; if not, nothing else counts
    policies: Array  # [n, K]
    weights: Array  # [n, m]
    bounds: Array  # [n, 1 + m, 2]: of values
    margins: Array  # [n, m, 2]
    dual_bounds: Array  # [n]
    potentials: Array  # [n, 1 + m, S]
    dual_potentials: Array  # [n, S]
    ranges: Array  # [n, 1 + m, 2]
    range_potentials: Array  # [n, 1 + m, 2, S]
    points: Array  # [n, P, c], of rows
    numbers: Array  # [n, 8]: pivots; gap and violation of the vertex, scaled and not; those
    # proven, scaled; how many points


class _Model(NamedTuple):
    """One of them, and what its rows say."""

    rows: Block
    kernel: Block
    owner: Array  # [K]
    initial: Array  # [S]
    reachable: Array  # [S]
    discount: float
    rounding: float  # of ratios
    roundings: float  # in a sum over initial states
    nothing: Array  # [0]


class _Functions(NamedTuple):
    """The reward and the rows of one of them, in the orientation of standard forms."""

    raw: Array  # [c, K]
    limits: Array  # [M] int64: the limit of each row
    signs: Array  # [M]: what turns its value into the row
    compared: Array  # [M, 2]: the threshold of each row, and the other one of a range
    centred: Array  # [c, K], less their constants
    sizes: Array  # [c, K]
    ends: Array  # [c, 2], of reachable choices
    rests: Array  # [c, 2]: values of constants, as a sum of two numbers
    scaled: Array  # [c, K]
    perturbed: Array  # [c, K]
    thresholds: Array  # [M], scaled
    units: Array  # [c]


class _Proof(NamedTuple):
    """What is proven about one of them, likewise."""

    weights: Array  # [M]
    bounds: Array  # [c, 2]
    margins: Array  # [M, 2]
    potentials: Array  # [c, S]
    ranges: Array  # [c, 2]
    range_potentials: Array  # [c, 2, S]
    upper: Array  # [1]: no feasible policy has a better reward


@compiled
def certify_all(models, prices, shares, answers):
    """The certified vertex of every model, by pivots from the prices and keys of the one before.

    prices: `[M]`, of the first one.
    """
    (n, S), K, M = models.initial.shape, models.rewards.shape[1], len(prices)
    c = 1 + M
    owner, chances = np.empty(K, np.int64), np.empty(models.rows.successors.shape[1])
    steps, frontier = np.empty(S, np.int64), np.empty(S, np.uint32)
    reachable, nothing = np.empty(S, np.bool_), frozen(np.empty(0))
    edges = np.zeros((3, S), np.int64)
    factors = Factors(np.empty((S, S)), edges[0], edges[1], edges[2])
    basis = empty_basis(S, K, M, shares.swaps)
    functions = _Functions(
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
    proof = _Proof(
        prices,
        np.empty((c, 2)),
        np.empty((M, 2)),
        np.empty((c, S)),
        np.empty((c, 2)),
        np.empty((c, 2, S)),
        np.empty(1),
    )
    is_start = False
    for i in range(n):
        discount, initial = models.discounts[i], models.initial[i]
        rows = Block(
            models.rows.first_choice[i],
            models.rows.first_entry[i],
            models.rows.successors[i],
            models.rows.probabilities[i],
        )
        for e in range(len(chances)):
            chances[e] = discount * rows.probabilities[e]
        kernel = Block(rows.first_choice, rows.first_entry, rows.successors, frozen(chances))
        farthest, longest = np.int64(0), np.int64(0)
        for s in range(S):
            steps[s] = 0 if initial[s] > 0.0 else -1
            for k in range(rows.first_choice[s], rows.first_choice[s + 1]):
                owner[k] = s
                longest = max(longest, np.int64(rows.first_entry[k + 1] - rows.first_entry[k]))
        if discount > 0.0:
            search(rows.first_choice, rows.first_entry, rows.successors, steps, frontier)
        for s in range(S):
            reachable[s] = steps[s] >= 0
            farthest = max(farthest, steps[s])
            if not is_start:
                basis.keys[s] = rows.first_choice[s]
        unit, count = UNIT * (2.5 * longest + 10.0), _roundings(initial)
        own = frozen(owner), initial, frozen(reachable)
        model = _Model(rows, kernel, own[0], own[1], own[2], discount, unit, count, nothing)
        _turn(
            models.signs[i], models.rewards[i], models.constraints[i], models.bounds[i], functions
        )
        _look(model, functions)
        policy, points, numbers = answers.policies[i], answers.points[i], answers.numbers[i]
        dual_potential = answers.dual_potentials[i : i + 1]
        is_certified = False
        if discount**farthest > shares.far and _measure(model, functions, proof, shares):
            _scale(model, functions)
            vector, weights = dual_potential[0], proof.weights
            if _vertex(
                model,
                functions,
                weights,
                shares,
                factors,
                basis,
                policy,
                points,
                numbers,
                vector,
                is_start,
            ):
                _prove(model, functions, proof, factors, basis.keys, policy, dual_potential)
                is_certified = _judge(model, functions, proof, shares, points, numbers)
        answers.are_certified[i] = is_start = is_certified
        if is_start:
            _say(models.signs[i], functions.limits, functions.signs, proof, answers, i)
        else:
            for j in range(M):
                prices[j] = 0.0


@spliced
def _turn(sign, reward, constraints, bounds, functions):
    """The reward and the rows of a model."""
    raw, row = functions.raw, 0
    for k in range(raw.shape[1]):
        raw[0, k] = sign * reward[k] + 0.0
    for i in range(len(bounds)):
        for side in range(2):
            bound, other = bounds[i, side], bounds[i, 1 - side]
            if np.isfinite(bound):
                sign = 1.0 - 2.0 * side
                functions.limits[row], functions.signs[row] = i, sign
                functions.compared[row, 0] = sign * bound + 0.0
                functions.compared[row, 1] = sign * (other if np.isfinite(other) else bound)
                row += 1
                for k in range(raw.shape[1]):
                    raw[row, k] = sign * constraints[i, k] + 0.0


@spliced
def _say(sign, limits, signs, proof, answers, n):
    """The proof about model n, in its own orientation, a row or two for each limit."""
    answers.dual_bounds[n] = sign * proof.upper[0] + 0.0
    _say_one(proof, np.int64(0), sign, answers, n, np.int64(0))
    for row in range(len(limits)):
        i, sign, weight = limits[row], signs[row], proof.weights[row]
        low, high = proof.margins[row]
        if row > 0 and limits[row - 1] == i:
            answers.margins[n, i, 0] = min(answers.margins[n, i, 0], low)
            answers.margins[n, i, 1] = min(answers.margins[n, i, 1], high)
            answers.weights[n, i] -= weight
        else:
            answers.margins[n, i, 0], answers.margins[n, i, 1] = low, high
            answers.weights[n, i] = weight
            _say_one(proof, 1 + row, sign, answers, n, 1 + i)


@compiled
def _say_one(proof, row, sign, answers, n, i):
    """Values and range of one row as those of the user's function i."""
    values, ranges = answers.bounds[n, i], answers.ranges[n, i]
    for side in range(2):
        own = side if sign > 0.0 else 1 - side
        values[side] = sign * proof.bounds[row, own] + 0.0
        ranges[side] = sign * proof.ranges[row, own] + 0.0
        for s in range(proof.potentials.shape[1]):
            answers.range_potentials[n, i, side, s] = proof.range_potentials[row, own, s]
    for s in range(proof.potentials.shape[1]):
        answers.potentials[n, i, s] = sign * proof.potentials[row, s] + 0.0


@spliced
def _roundings(initial):
    """How often a sum over initial states is rounded; their own sum counts as a whole."""
    total, rest, count = 0.0, 0.0, 9.0
    for chance in initial:
        if chance != 0.0:
            total, error = two_sum(total, chance)
            rest += error
            count += 1.0
    return count + abs((total - 1.0) + rest) / UNIT


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
def _look(model, functions):
    """Ends, constants and what is left of functions."""
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
def _measure(model, functions, proof, shares):
    """Units: of the reward what policies can change, of others what is possible; False: unsettled.

    Without constraints nothing is scaled.
    """
    mass = 1.0 / (1.0 - model.discount)
    for i in range(len(functions.units)):
        low, high = functions.ends[i]
        functions.units[i] = (high - low if high > low else 1.0) * mass
    if len(functions.units) == 1:
        return True
    if not _range(model, functions, shares, np.int64(0), proof.ranges, proof.range_potentials):
        return False
    tolerance = _tolerance(functions, shares, np.int64(0), proof.ranges)
    functions.units[0] = tolerance / shares.eps
    return tolerance > 0.0


@compiled
def _range(model, functions, shares, i, ranges, potentials):
    """The attained range of one function and its potentials, in place; False if unsettled."""
    K = functions.centred.shape[1]
    both, sizes, ends = np.empty((1, 2, K)), np.empty((2, K)), np.empty((2, 2))
    for k in range(K):
        both[0, 0, k], both[0, 1, k] = -functions.centred[i, k], functions.centred[i, k]
        sizes[0, k], sizes[1, k] = functions.sizes[i, k], functions.sizes[i, k]
    reach, own = model.discount / (1.0 - model.discount), potentials[i : i + 1]
    numbers = model.initial, reach, model.reachable, True, shares.rough
    if not plan_both(model.kernel, frozen(both), *numbers, own):
        return False
    _extremes(model, both[0], sizes, own[0], model.nothing, ends)
    for side in range(2):
        sign, rest = 2.0 * side - 1.0, functions.rests[i, 0] + functions.rests[i, 1]
        low = _outwards(model, own[0, side], ends[side, 0], ends[side, 1], sign * rest, 0.0)[0]
        ranges[i, side] = sign * low + 0.0
    return True


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


@compiled
def _tolerance(functions, shares, i, ranges):
    """What the gap or a violation may be, given an attained range (`Ranges.tolerances`)."""
    rest, own, largest = functions.rests[i, 0], 0.0, 0.0
    for j in range(4 if i > 0 else 2):
        number = ranges[i, j] if j < 2 else functions.compared[i - 1, j - 2]
        own, largest = max(own, abs(number - rest)), max(largest, abs(number))
    floor = max(shares.floor * own, shares.digits * largest)
    floor = max(floor, shares.tiniest * max(-functions.ends[i, 0], functions.ends[i, 1]))
    return max(shares.eps * (ranges[i, 1] - ranges[i, 0]), floor)


@spliced
def _scale(model, functions):
    """Functions less their least, in units, and thresholds."""
    raw, mass = functions.raw, 1.0 / (1.0 - model.discount)
    for i in range(len(raw)):
        low, high = functions.ends[i]
        unit = functions.units[i]
        most = (high - low) / unit
        for k in range(raw.shape[1]):
            functions.scaled[i, k] = min(max((raw[i, k] - low) / unit, 0.0), most)
        if i > 0:
            functions.thresholds[i - 1] = (functions.compared[i - 1, 0] - low * mass) / unit


@spliced
def _vertex(
    model,
    functions,
    prices,
    shares,
    factors,
    basis,
    policy,
    points,
    numbers,
    values,
    is_start,
):
    """Pivots from prices `[M]` and keys to a policy, its points and a plan at its prices.

    Prices are unscaled. False where there is no vertex; else `factors` are those of the
    plan, whose choices are the basis's keys.
    """
    c, K = functions.scaled.shape
    units, unit, S = functions.units, 1.0 - model.discount, len(values)
    _clear(basis)
    for i in range(c - 1):
        basis.weights[i] = prices[i] * units[1 + i] / units[0]
    reward = np.empty(K)
    _scalarise(functions.scaled, basis.weights, reward)
    for s in range(S):
        values[s] = 0.0
    sweeps = np.int64(0 if is_start else SWEEPS)
    if not best_keys(model.kernel, frozen(reward), basis.keys, factors, values, sweeps):
        return False
    for s in range(S):
        basis.kinds[basis.keys[s]] = 1
    draw, lowered = np.uint64(1), shares.lowered * shares.eps * unit
    for k in range(K):
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        share = np.float64(draw >> np.uint64(11)) / 9007199254740992.0
        for i in range(c):
            functions.perturbed[i, k] = functions.scaled[i, k]
        if basis.kinds[k] == 0:
            functions.perturbed[0, k] -= lowered * share
    allowed = shares.missed * shares.eps
    limits = np.array([allowed, allowed / unit, shares.most])
    rewards, thresholds = frozen(functions.perturbed), frozen(functions.thresholds)
    why = _optimum(model, rewards, thresholds, factors, basis, limits)
    numbers[0] = basis.counts[PIVOTS]
    if why != OPTIMAL:
        return False
    reached = np.empty(c)
    for i in range(c):
        reached[i] = basis.margins[i]
        for b in range(basis.counts[TIGHT]):
            reached[i] += basis.advantages[i, basis.extra[b]] * basis.shares[b]
    numbers[7] = _points(model, rewards, thresholds, factors, basis, reached, limits, points)
    _policy(model.owner, basis, policy)
    _scalarise(functions.scaled, basis.weights, reward)
    if not best_keys(model.kernel, frozen(reward), basis.keys, factors, values, np.int64(0)):
        return False
    gap = -reached[0]
    for s in range(S):
        gap += model.initial[s] * values[s]
    numbers[2], numbers[4] = 0.0, 0.0
    for i in range(c - 1):
        gap -= basis.weights[i] * functions.thresholds[i]
        prices[i] = basis.weights[i] * units[0] / units[1 + i]
        numbers[2] = max(numbers[2], -reached[1 + i])
        numbers[4] = max(numbers[4], -reached[1 + i] * units[1 + i])
    numbers[1], numbers[3] = gap, gap * units[0]
    return True


@spliced
def _prove(model, functions, proof, factors, keys, policy, dual_potential):
    """Bounds on the values of the policy, and on the best one, and whether they are close enough.

    The keys are those of a plan at the prices, and so is their LU.
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
def _judge(model, functions, proof, shares, points, numbers):
    """Whether gap and violations are small enough.

    The policy's own value is attained: where the floor of a tolerance is enough nobody asks what
    policies can change; where it is not, the door does. Points are what they are for sure.
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
        tolerance = _tolerance(functions, shares, i, ranges)
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
def _scalarise(rewards, weights, reward):
    """`r + w.c`, into `reward [K]`."""
    for k in range(len(reward)):
        reward[k] = rewards[0, k]
    for i in range(len(weights)):
        if weights[i] != 0.0:
            for k in range(len(reward)):
                reward[k] += weights[i] * rewards[1 + i, k]


@spliced
def _clear(basis):
    """Forget all but the keys."""
    for k in range(len(basis.kinds)):
        basis.kinds[k] = 0
    for n in range(len(basis.counts)):
        basis.counts[n] = 0


@spliced
def _optimum(model, rewards, thresholds, factors, basis, limits):
    """Pivots to the end, from keys that are optimal for the basis's prices; why they ended."""
    kernel, owner, initial = model.kernel, model.owner, model.initial
    refresh(kernel, initial, rewards, thresholds, factors, basis)
    for k in range(len(basis.reduced)):
        reduced = basis.advantages[0, k]
        for i in range(len(basis.weights)):
            reduced += basis.weights[i] * basis.advantages[1 + i, k]
        basis.reduced[k] = min(reduced, 0.0)
    why = pivot(kernel, owner, initial, factors, basis, limits)
    while why == REFRESH:
        _refresh(kernel, initial, rewards, thresholds, factors, basis)
        why = pivot(kernel, owner, initial, factors, basis, limits)
    return why


@compiled
def _refresh(kernel, initial, rewards, thresholds, factors, basis):
    """Everything anew from the keys, and the vectors of ties from their LU."""
    factorise(kernel, basis.keys, factors)
    refresh(kernel, initial, rewards, thresholds, factors, basis)
    basis.counts[SWAPS] = 0
    for t in range(basis.counts[TIES]):
        unit_solution(factors, basis.ties[t], basis.vectors[t])


@spliced
def _points(model, rewards, thresholds, factors, basis, mixed, limits, points):
    """Policies that say which prices are optimal, into `points`; how many."""
    kernel, owner, initial = model.kernel, model.owner, model.initial
    p, tied, is_unique = basis.counts[TIGHT], 0, True
    for b in range(p):
        is_unique = is_unique and basis.shares[b] > limits[1]
    for t in range(basis.counts[TIES]):
        is_unique = is_unique and basis.key_shares[t] > limits[1]
    for i in range(1, len(mixed)):
        tied += abs(mixed[i]) <= limits[0]
    if is_unique and tied == p:
        count = 1 + p
    else:
        _refresh(kernel, initial, rewards, thresholds, factors, basis)
        count = 1 + len(basis.reduced) - len(basis.keys)
    neighbours(kernel, owner, initial, factors, basis, points[:count])
    return count


@spliced
def _policy(owner, basis, policy):
    """The policy `[K]` with the visits of the basis, in place."""
    totals = np.zeros(len(basis.keys))
    for k in range(len(policy)):
        policy[k] = 0.0
    for s in range(len(totals)):
        policy[basis.keys[s]] = 1.0
    for b in range(basis.counts[TIGHT]):
        totals[owner[basis.extra[b]]] += max(basis.shares[b], 0.0)
    for t in range(basis.counts[TIES]):
        totals[basis.ties[t]] += max(basis.key_shares[t], 0.0)
    for b in range(basis.counts[TIGHT]):
        k = basis.extra[b]
        s = owner[k]
        if totals[s] > 0.0:
            policy[k] = max(basis.shares[b], 0.0) / totals[s]
            policy[basis.keys[s]] = max(policy[basis.keys[s]] - policy[k], 0.0)
