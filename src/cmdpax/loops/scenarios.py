"""Many small models of one shape in one call: reach, ranges, pivots and proofs of each in turn.

Arrays have a leading axis n, one entry for each model; rows of a model are `first_choice [n, S+1]`,
`first_entry [n, K+1]` and padded `successors [n, E]`, `probabilities [n, E]`. Everything that is
computed here is what `loops/small.py` and `loops/pivots.py` compute for one model.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops import pivots
from cmdpax.loops.bellman import search
from cmdpax.loops.compiled import compiled
from cmdpax.loops.pivots import OPTIMAL, REFRESH, SWAPS, TIES, TIGHT, TROUBLE
from cmdpax.loops.rows import Block
from cmdpax.loops.small import (
    Factors,
    best_keys,
    centre,
    extremes,
    factorise,
    factorise_mean,
    plan_both,
    substitute,
)

SWEEPS = (0,) * 5  # before a plan without a start; not a number, which would be compiled in


@compiled
def distances(first_choice, first_entry, successors, steps):
    """Fewest steps to every state, in place on `steps [n, S]`: 0 at the start, else -1."""
    frontier = np.empty(steps.shape[1], dtype=np.uint32)
    for n in range(len(steps)):
        search(first_choice[n], first_entry[n], successors[n], steps[n], frontier)


@compiled
def ranges(rows, both, initial, reaches, reachable, is_closed, rough, potentials):
    """Potentials `[n, c, 2, S]` of -x and x for c functions; False where a plan does not settle.

    rows: a `Block` of stacked kernels, `gamma P`. both: `[n, c, 2, K]`. reaches: `[n]`. The rest as
    for `small.plan_both`.
    """
    first_choice, first_entry, successors, chances = rows
    for n in range(len(both)):
        kernel = Block(first_choice[n], first_entry[n], successors[n], chances[n])
        kind = initial[n], reaches[n], reachable[n], is_closed, rough
        if not plan_both(kernel, both[n], *kind, potentials[n]):
            return False
    return True


@compiled
def all_extremes(rows, rewards, sizes, potentials, shares, discounts, units, reachable, ends):
    """`small.extremes` of c functions `[n, c, K]` and potentials `[n, c, S]`, into `[n, c, 2]`.

    shares: policies `[n, K]`, or `[n, 0]` for the better choice of every state. units: `[n]`, what
    rounding amounts to.
    """
    first_choice, first_entry, successors, chances = rows
    for n in range(len(rewards)):
        own = Block(first_choice[n], first_entry[n], successors[n], chances[n])
        nothing = shares[n, :0]
        numbers = rewards[n], sizes[n], potentials[n], nothing, shares[n], nothing
        extremes(own, *numbers, discounts[n], units[n], reachable[n], ends[n])


@compiled
def optima(rows, owner, initial, rewards, thresholds, units, lowered, limits, basis, scratch, out):
    """The vertex of every model, by pivots from the prices and the keys of the one before.

    rewards: `[n, 1 + m, K]`, scaled; thresholds: `[n, m]`. units: `[n, 1 + m]` of the scaled
    forms. lowered: `[K]`, against ties. limits: `[n, 4]`: as `pivots.pivot` takes them, and what
    `lowered` is multiplied by. basis: room for one. scratch: room for rewards, `[K]` and `[1 + m,
    K]`, to write and to read, so that loops are compiled for one kind of array.

    out: why each ended `[n]`, policies `[n, K]`, prices `[n, m]`, plans at them `[n, S]` and their
    values `[n]`, reward and margins `[n, 1 + m]`, pivots `[n]`, points `[n, P, 1 + m]` and how many
    `[n]`.
    """
    whys, policies, prices, choices, bounds, values, pivoted, points, counts = out
    first_choice, first_entry, successors, chances = rows
    count, rows_count, K = rewards.shape
    m, S, before, sweeps = rows_count - 1, initial.shape[1], -1, len(SWEEPS)
    factors, at = _room(S), np.zeros(S)
    reward, to_read, perturbed, perturbed_to_read = scratch
    for n in range(count):
        kernel = Block(first_choice[n], first_entry[n], successors[n], chances[n])
        whys[n] = TROUBLE
        _clear(basis)
        for i in range(m):
            if before >= 0:  # what a unit is worth stays, its size may not
                own = prices[before, i] * units[before, 0] / units[before, 1 + i]
                basis.weights[i] = own * units[n, 1 + i] / units[n, 0]
        if before < 0:
            at[:] = 0.0
            for s in range(S):
                basis.keys[s] = first_choice[n, s]
        _scalarise(rewards[n], basis.weights, reward)
        if not best_keys(kernel, to_read, basis.keys, factors, at, sweeps):
            before, sweeps = -1, len(SWEEPS)
            continue
        for s in range(S):
            basis.kinds[basis.keys[s]] = 1
        perturbed[:] = rewards[n]
        for k in range(K):
            if basis.kinds[k] == 0:
                perturbed[0, k] -= lowered[k] * limits[n, 3]
        whys[n] = _optimum(
            kernel,
            owner[n],
            initial[n],
            perturbed_to_read,
            thresholds[n],
            factors,
            basis,
            limits[n],
        )
        pivoted[n] = basis.counts[pivots.PIVOTS]
        before, sweeps = -1, len(SWEEPS)
        if whys[n] != OPTIMAL:
            continue
        for i in range(1 + m):
            values[n, i] = basis.margins[i]
            for b in range(basis.counts[TIGHT]):
                values[n, i] += basis.advantages[i, basis.extra[b]] * basis.shares[b]
        parts = kernel, owner[n], initial[n], perturbed_to_read, thresholds[n], factors, basis
        counts[n] = _points(*parts, values[n], limits[n], points[n])
        _policy(owner[n], basis, policies[n])
        prices[n] = basis.weights
        _scalarise(rewards[n], basis.weights, reward)
        if not best_keys(kernel, to_read, basis.keys, factors, at, 0 * sweeps):
            whys[n] = TROUBLE
            continue
        choices[n] = basis.keys
        bounds[n] = 0.0
        for s in range(S):
            bounds[n] += initial[n, s] * at[s]
        for i in range(m):
            bounds[n] -= basis.weights[i] * thresholds[n, i]
        before, sweeps = n, 0


@compiled
def policy_values(rows, rewards, policies, reachable, values):
    """Values `[n, c, S]` of rewards `[n, c, K]` under policies `[n, K]`, centred, in place."""
    first_choice, first_entry, successors, chances = rows
    S = values.shape[2]
    factors = _room(S)
    for n in range(len(rewards)):
        kernel = Block(first_choice[n], first_entry[n], successors[n], chances[n])
        factorise_mean(kernel, policies[n], factors)
        for i in range(len(rewards[n])):
            numbers = rewards[n, i], policies[n], reachable[n], factors
            _evaluate(first_choice[n], *numbers, values[n, i])


@compiled
def _room(S):
    """`small.empty_factors`."""
    return Factors(np.empty((S, S)), np.zeros(S, np.int64), np.zeros(S, np.int64))


@compiled
def _evaluate(first_choice, reward, policy, reachable, factors, values):
    """Values of a reward under a policy from its LU, centred as `small.centre` does, in place."""
    for s in range(len(values)):
        values[s] = 0.0
        for k in range(first_choice[s], first_choice[s + 1]):
            values[s] += policy[k] * reward[k]
    centre(values, reachable)  # a constant has no say, and costs digits
    substitute(factors, values)
    centre(values, reachable)


@compiled
def _scalarise(rewards, weights, reward):
    """`r + w.c`, into `reward [K]`."""
    reward[:] = rewards[0]
    for i in range(len(weights)):
        if weights[i] != 0.0:
            for k in range(len(reward)):
                reward[k] += weights[i] * rewards[1 + i, k]


@compiled
def _clear(basis):
    """Forget all but the keys."""
    basis.kinds[:] = 0
    basis.weights[:] = 0.0
    basis.counts[:] = 0


@compiled
def _optimum(kernel, owner, initial, rewards, thresholds, factors, basis, limits):
    """Pivots to the end, from keys that are optimal for the basis's prices; why they ended."""
    pivots.refresh(kernel, initial, rewards, thresholds, factors, basis)
    for k in range(len(basis.reduced)):
        reduced = basis.advantages[0, k]
        for i in range(len(basis.weights)):
            reduced += basis.weights[i] * basis.advantages[1 + i, k]
        basis.reduced[k] = min(reduced, 0.0)
    while True:
        why = pivots._pivot(kernel, owner, initial, factors, basis, limits)
        if why != REFRESH:
            return why
        _refresh(kernel, initial, rewards, thresholds, factors, basis)


@compiled
def _refresh(kernel, initial, rewards, thresholds, factors, basis):
    """Everything anew from the keys, and the vectors of ties from their LU."""
    factorise(kernel, basis.keys, factors)
    pivots.refresh(kernel, initial, rewards, thresholds, factors, basis)
    basis.counts[SWAPS] = 0
    for t in range(basis.counts[TIES]):
        basis.vectors[t] = 0.0
        basis.vectors[t, basis.ties[t]] = 1.0
        substitute(factors, basis.vectors[t])


@compiled
def _points(kernel, owner, initial, rewards, thresholds, factors, basis, mixed, limits, points):
    """Policies that say which prices are optimal, into `points`; how many."""
    p, tied, is_unique = basis.counts[TIGHT], 0, True
    for b in range(p):
        is_unique = is_unique and basis.shares[b] > limits[1]
    for t in range(basis.counts[TIES]):
        is_unique = is_unique and basis.key_shares[t] > limits[1]
    for i in range(1, len(mixed)):
        tied += abs(mixed[i]) <= limits[0]
    if is_unique and tied == p:
        pivots.neighbours(kernel, owner, initial, factors, basis, points[: 1 + p])
        return 1 + p
    _refresh(kernel, initial, rewards, thresholds, factors, basis)
    count = 1 + len(basis.reduced) - len(basis.keys)
    pivots.neighbours(kernel, owner, initial, factors, basis, points[:count])
    return count


@compiled
def _policy(owner, basis, policy):
    """The policy `[K]` with the visits of the basis, in place."""
    totals = np.zeros(len(basis.keys))
    policy[:] = 0.0
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
