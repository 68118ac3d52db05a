"""Small models of one shape in one call: reach, ranges, pivots and proofs of each in turn.

The formulas are those of `exact/ranges.py`, `standard.scaled` and `solvers/key_simplex.py`. Arrays
have a leading axis n, one entry for each model of S states and K choices.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np

from cmdpax.loops.bellman import ratio_rounding, search
from cmdpax.loops.compiled import Array, compiled, frozen, spliced
from cmdpax.loops.pivots import (
    OPTIMAL,
    PIVOTS,
    REFRESH,
    TIGHT,
    empty_basis,
    fill_policy,
    has_one_price,
    neighbours,
    pivot,
    refresh,
    refresh_values,
)
from cmdpax.loops.proofs import (
    Model,
    empty_functions,
    empty_proof,
    judge,
    prove,
    reward_range,
    roundings,
    take_constants,
    tolerance_of,
)
from cmdpax.loops.rows import Block
from cmdpax.loops.small import SWEEPS, best_keys, whole_factors


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


@compiled
def certify_all(models, prices, shares, answers):
    """The certified vertex of every model, by pivots from the prices and keys of the one before.

    prices: `[M]`, of the first one.
    """
    (n, S), K, M = models.initial.shape, models.rewards.shape[1], len(prices)
    owner, chances = np.empty(K, np.int64), np.empty(models.rows.successors.shape[1])
    steps, frontier = np.empty(S, np.int64), np.empty(S, np.uint32)
    reachable, nothing, factors = np.empty(S, np.bool_), frozen(np.empty(0)), whole_factors(S)
    basis = empty_basis(S, K, M, shares.swaps)
    functions, proof = empty_functions(K, M), empty_proof(prices, S)
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
        model = Model(
            rows,
            kernel,
            frozen(owner),
            initial,
            frozen(reachable),
            discount,
            ratio_rounding(longest),
            roundings(initial),
            nothing,
        )
        _turn(models, i, functions)
        take_constants(model, functions)
        is_start = (
            discount**farthest > shares.far
            and _measure(model, functions, proof, shares)
            and _vertex(model, functions, prices, shares, factors, basis, answers, i, is_start)
        )
        if is_start:
            policy, plan = answers.policies[i], answers.dual_potentials[i : i + 1]
            prove(model, functions, proof, factors, basis.keys, policy, plan)
            points, numbers = answers.points[i], answers.numbers[i]
            is_start = judge(model, functions, proof, shares, points, numbers)
        answers.are_certified[i] = is_start
        if is_start:
            _say(models.signs[i], functions, proof, answers, i)
        else:
            for j in range(M):
                prices[j] = 0.0


@spliced
def _turn(models, n, functions):
    """The reward and the rows of model n, in the orientation of standard forms."""
    raw, row, bounds = functions.raw, 0, models.bounds[n]
    for k in range(raw.shape[1]):
        raw[0, k] = models.signs[n] * models.rewards[n, k] + 0.0
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
                    raw[row, k] = sign * models.constraints[n, i, k] + 0.0


@spliced
def _say(sign, functions, proof, answers, n):
    """The proof about model n, in its own orientation; a limit has a row or two."""
    limits, signs = functions.limits, functions.signs
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
def _measure(model, functions, proof, shares):
    """Units: of the reward what policies can change, of rows what is possible; False: unsettled.

    Without rows nothing is scaled.
    """
    mass = 1.0 / (1.0 - model.discount)
    for i in range(len(functions.units)):
        low, high = functions.ends[i]
        functions.units[i] = (high - low if high > low else 1.0) * mass
    if len(functions.units) == 1:
        return True
    if not reward_range(model, functions, shares, proof):
        return False
    tolerance = tolerance_of(functions, shares, np.int64(0), proof.ranges)
    functions.units[0] = tolerance / shares.eps
    return tolerance > 0.0


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
def _vertex(model, functions, prices, shares, factors, basis, answers, n, is_start):
    """Pivots from prices `[M]` and keys to the policy of model n, its points, and a new plan.

    Prices are unscaled. is_start: whether keys are a guess of the plan. False where there is no
    vertex; else keys are the choices of a plan at the prices, and `factors` theirs.
    """
    _scale(model, functions)
    c, K = functions.scaled.shape
    units, unit, values = functions.units, 1.0 - model.discount, answers.dual_potentials[n]
    numbers, reward = answers.numbers[n], np.empty(K)
    basis.kinds[:] = 0
    basis.counts[:] = 0
    for i in range(c - 1):
        basis.weights[i] = prices[i] * units[1 + i] / units[0]
    _scalarise(functions.scaled, basis.weights, reward)
    values[:] = 0.0
    sweeps = np.int64(0 if is_start else SWEEPS)
    if not best_keys(model.kernel, frozen(reward), basis.keys, factors, values, sweeps):
        return False
    for s in range(len(values)):
        basis.kinds[basis.keys[s]] = 1
    _perturb(functions, basis.kinds, shares.lowered * shares.eps * unit)
    allowed = shares.missed * shares.eps
    limits = np.array([allowed, allowed / unit, shares.most])
    rewards, thresholds = frozen(functions.perturbed), frozen(functions.thresholds)
    why = _optimum(model, rewards, thresholds, factors, basis, limits)
    numbers[0] = basis.counts[PIVOTS]
    if why != OPTIMAL:
        return False
    p, reached = basis.counts[TIGHT], np.empty(c)
    for i in range(c):
        reached[i] = basis.margins[i]
        for b in range(p):
            reached[i] += basis.advantages[i, basis.extra[b]] * basis.shares[b]
    count = 1 + p
    if not has_one_price(basis, reached, limits):
        refresh(model.kernel, model.initial, rewards, thresholds, factors, basis)
        count = 1 + K - len(values)
    numbers[7], points = count, answers.points[n][:count]
    neighbours(model.kernel, model.owner, model.initial, factors, basis, points)
    fill_policy(model.owner, basis, answers.policies[n])
    _scalarise(functions.scaled, basis.weights, reward)
    if not best_keys(model.kernel, frozen(reward), basis.keys, factors, values, np.int64(0)):
        return False
    gap = -reached[0]
    for s in range(len(values)):
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
def _perturb(functions, kinds, lowered):
    """Scaled rewards, those of all choices but keys less a random share of `lowered`."""
    draw = np.uint64(1)
    for k in range(len(kinds)):
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        share = np.float64(draw >> np.uint64(11)) / 9007199254740992.0
        for i in range(len(functions.units)):
            functions.perturbed[i, k] = functions.scaled[i, k]
        if kinds[k] == 0:
            functions.perturbed[0, k] -= lowered * share


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
def _optimum(model, rewards, thresholds, factors, basis, limits):
    """Pivots to the end, from keys that are optimal for the basis's prices; why they ended."""
    kernel, owner, initial = model.kernel, model.owner, model.initial
    refresh_values(kernel, initial, rewards, thresholds, factors, basis)
    for k in range(len(basis.reduced)):
        reduced = basis.advantages[0, k]
        for i in range(len(basis.weights)):
            reduced += basis.weights[i] * basis.advantages[1 + i, k]
        basis.reduced[k] = min(reduced, 0.0)
    why = pivot(kernel, owner, initial, factors, basis, limits)
    while why == REFRESH:
        refresh(kernel, initial, rewards, thresholds, factors, basis)
        why = pivot(kernel, owner, initial, factors, basis, limits)
    return why
