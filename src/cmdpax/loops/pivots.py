"""The key dual simplex: pivots over the rows of a model, and what a basis says.

A basis is one key choice of every state and p extra choices J for p tight constraints I. Relative
to the policy pi of the keys, with `K` the kernel that counts (`gamma P`), exactly:

    V_i = V_i(pi) + sum_j x_j R_i(j)          R_i: advantages under pi, i = 0 .. m
    y_s = mu_s - sum_j N(s; j) x_j            N(s; j) = g_s(s_j) - K_j.g_s,  g_s = (I - K_pi)^-1 e_s
    x = -W^-1 u_I,  w_I = -W^-T R_0[J],       W = R[I, J],  mu_s = rho.g_s

x and y are visits of extra and of key choices, w prices, u margins of pi. Only states with an extra
choice ("ties", at most m) can have y < 0, because `I - K_pi` is an M-matrix. All reduced costs
`d = R_0 + w.R` are at most 0: pi is optimal for `r + w.c`, and w is a dual solution. A pivot moves
w along the edge on which one variable that is negative leaves:

    a constraint i with margin < 0:  dw = e_i - W^-T R_i[J] on I
    an extra choice with x < 0:      dw = a row of -W^-1
    a key with y < 0:                it changes places with an extra of its state, which then leaves

until a reduced cost or a price is 0, which enters. Of those that may leave, the one with the
largest `infeasibility^2 / |dw|^2` does. No edge that ends means that dw is a ray: `dw.(V - b) < 0`
for every policy. A constraint that is not tight but has a price (a start from prices of somebody
else's) leaves too, whichever sign its margin has.

When the key of s becomes a, with theta = N(s; (s, a)):

    R_i -= R_i(s, a) / theta N(s; .),   u_i += mu_s R_i(s, a) / theta,
    g_l += g_s q_l / theta,             q_l = (K_a - K_pi)(s).g_l
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any, NamedTuple

import numpy as np

from cmdpax.loops.compiled import Array, compiled, spliced
from cmdpax.loops.small import factorise, substitute, substitute_all

SMALLEST = 1e-10  # pivot, relative to the largest change of a price
SINGULAR = 1e-13  # what is left of a column of W, relative to its size, if it depends on others
OPTIMAL, INFEASIBLE, REFRESH, TROUBLE = range(4)  # why pivots ended
TIGHT, TIES, SWAPS, PIVOTS = range(4)  # places in `counts`


class Basis(NamedTuple):
    """A basis and what is known about it; loops write to it. M is `max(m, 1)`."""

    keys: Array  # [S] int64
    kinds: Array  # [K] int8: 1 for keys, 2 for extra choices
    advantages: Array  # [1 + m, K]
    reduced: Array  # [K], <= 0
    margins: Array  # [1 + m]: V_0(pi), then V_i(pi) - b_i
    weights: Array  # [m]
    tight: Array  # [M] int64: I
    extra: Array  # [M] int64: J
    shares: Array  # [M]: x of J
    ties: Array  # [M + 1] int64: states of extra choices
    key_shares: Array  # [M + 1]: y of each
    vectors: Array  # [M + 1, S]: g of each
    swaps: Array  # [H, 2] int64: old and new key of every change since the last refresh
    swap_vectors: Array  # [H, S]: g_s / theta of each
    inverse: Array  # [M, M]: of W
    ray: Array  # [m]
    counts: Array  # [4] int64: tight constraints, ties with a vector, swaps, pivots


@compiled
def empty_basis(states, choices, constraints, swaps):
    """A basis without tight constraints; keys, advantages and margins are still to be filled in."""
    m, M = constraints, max(constraints, 1)
    return Basis(
        np.zeros(states, np.int64),
        np.zeros(choices, np.int8),
        np.zeros((1 + m, choices)),
        np.zeros(choices),
        np.zeros(1 + m),
        np.zeros(m),
        np.zeros(M, np.int64),
        np.zeros(M, np.int64),
        np.zeros(M),
        np.zeros(M + 1, np.int64),
        np.zeros(M + 1),
        np.zeros((M + 1, states)),
        np.zeros((swaps, 2), np.int64),
        np.zeros((swaps, states)),
        np.zeros((M, M)),
        np.zeros(m),
        np.zeros(4, np.int64),
    )


@compiled
def pivot(kernel, owner, initial, factors, basis, limits):
    """Pivots until the basis is optimal, there is a ray, or swaps are full; why it ended.

    kernel: rows of `gamma P`. owner: `[K]`, the state of each choice. initial: `[S]`. factors: LU
    of `I - K_pi` for the keys of the last refresh. limits: what margins and what visits
    may miss, and how many pivots there may be.
    """
    keys, kinds, R, d, u, w, tight, extra, x, ties, y, G, swaps, H, inverse, ray, counts = basis
    m, K, S = len(w), len(d), len(keys)
    change, slope, parts = np.zeros(m), np.empty(K), np.empty(len(tight))
    N, marked = np.empty((m + 1, len(tight))), np.zeros(m, dtype=np.bool_)
    lowest, visited = limits[0], limits[1]
    forced = -1
    while counts[PIVOTS] < limits[2]:
        p, tie_count = counts[TIGHT], counts[TIES]
        if not _invert(R, tight, extra, p, inverse):
            return TROUBLE
        for b in range(p):
            x[b] = 0.0
            for a in range(p):
                x[b] -= inverse[b, a] * u[1 + tight[a]]
        for t in range(tie_count):
            y[t] = 0.0
            for s in range(S):
                y[t] += initial[s] * G[t, s]
            for b in range(p):
                N[t, b] = outflow(kernel, owner, G[t], extra[b])
                y[t] -= N[t, b] * x[b]
        for i in range(m):
            marked[i] = False
        for a in range(p):
            marked[tight[a]] = True
        best, kind, sign = 0.0, -1, 1.0
        which: Any = np.int64(-1)
        if forced >= 0:
            kind, which = 1, forced
        else:
            for i in range(m):
                if marked[i]:
                    continue
                slack = u[1 + i]
                for b in range(p):
                    slack += R[1 + i, extra[b]] * x[b]
                is_off = slack < -lowest or (w[i] > 0.0 and slack > lowest)
                if is_off and slack * slack > best:  # norms are at least 1
                    for a in range(p):
                        parts[a] = 0.0
                    for b in range(p):
                        own = R[1 + i, extra[b]]
                        for a in range(p):
                            parts[a] += inverse[b, a] * own
                    norm = 1.0
                    for a in range(p):
                        norm += parts[a] * parts[a]
                    if slack * slack > best * norm:
                        best, kind, which = slack * slack / norm, 0, i
                        sign = 1.0 if slack < 0.0 else -1.0
            for b in range(p):
                if x[b] < -visited:
                    norm = 0.0
                    for a in range(p):
                        norm += inverse[b, a] * inverse[b, a]
                    if x[b] * x[b] > best * norm:
                        best, kind, which = x[b] * x[b] / norm, 1, b
            for t in range(tie_count):
                if y[t] < -visited:
                    for a in range(p):
                        parts[a] = 0.0
                    for b in range(p):
                        for a in range(p):
                            parts[a] += inverse[b, a] * N[t, b]
                    norm = 0.0
                    for a in range(p):
                        norm += parts[a] * parts[a]
                    if y[t] * y[t] > best * norm:
                        best, kind, which = y[t] * y[t] / norm, 2, t
        if kind < 0:
            return OPTIMAL
        counts[PIVOTS] += 1
        if kind == 2:
            if counts[SWAPS] == len(swaps):
                return REFRESH
            forced = _swap(kernel, owner, initial, basis, which)
            continue
        forced = -1
        for i in range(m):
            change[i] = 0.0
        if kind == 0:
            change[which] = sign
            for a in range(p):
                for b in range(p):
                    change[tight[a]] -= sign * inverse[b, a] * R[1 + which, extra[b]]
        else:
            for a in range(p):
                change[tight[a]] = -inverse[which, a]
        largest = 0.0
        for i in range(m):
            largest = max(largest, abs(change[i]))
        step, entering, is_price = _ratio(
            R, d, w, kinds, change, slope, tight, p, SMALLEST * largest
        )
        if kind == 0 and sign < 0.0 and w[which] <= step:
            step, entering, is_price = w[which], -1, True
        elif entering < 0:
            for i in range(m):
                ray[i] = max(change[i], 0.0)
            return INFEASIBLE
        for k in range(K):
            d[k] = min(d[k] + step * slope[k], 0.0) if kinds[k] == 0 else 0.0
        for i in range(m):
            w[i] = max(w[i] + step * change[i], 0.0)
        if is_price:
            if entering < 0:
                w[which] = 0.0
                continue
            w[tight[entering]] = 0.0
            if kind == 0:
                tight[entering] = which
                continue
            left = extra[which]
            kinds[left], d[left] = 0, -step
            tight[entering], extra[which] = tight[p - 1], extra[p - 1]
            counts[TIGHT] -= 1
            _forget(owner, basis, owner[left])
            continue
        if kind == 0:
            tight[p], extra[p] = which, entering
            counts[TIGHT] += 1
        else:
            left = extra[which]
            kinds[left], d[left] = 0, -step
            extra[which] = entering
            _forget(owner, basis, owner[left])
        kinds[entering], d[entering] = 2, 0.0
        state, is_new = owner[entering], True
        for t in range(counts[TIES]):
            is_new = is_new and ties[t] != state
        if is_new:
            t = counts[TIES]
            ties[t] = state
            counts[TIES] += 1
            unit_solution(factors, state, G[t])
            _bring_up_to_date(kernel, owner, G[t], swaps, H, counts[SWAPS])
    return TROUBLE


@compiled
def _ratio(R, d, w, kinds, change, slope, tight, p, smallest):
    """How far prices can move, and the choice or the place in `tight` that stops them."""
    m, K = len(w), len(d)
    for k in range(K):
        slope[k] = 0.0
    for i in range(m):
        if change[i] != 0.0:
            for k in range(K):
                slope[k] += change[i] * R[1 + i, k]
    step, entering, steepest, is_price = np.inf, -1, 0.0, False
    for k in range(K):
        if slope[k] > smallest and kinds[k] == 0:
            ratio = -d[k] / slope[k]
            if ratio < step or (ratio == step and slope[k] > steepest):
                step, entering, steepest = ratio, k, slope[k]
    for a in range(p):
        if change[tight[a]] < -smallest:
            ratio = w[tight[a]] / -change[tight[a]]
            if ratio < step:
                step, entering, is_price = ratio, a, True
    return step, entering, is_price


@compiled
def unit_solution(factors, state, vector):
    """`g_s = (I - K_pi)^-1 e_s` of a state, in place on `vector [S]`."""
    for s in range(len(vector)):
        vector[s] = 0.0
    vector[state] = 1.0
    substitute(factors, vector)


@compiled
def outflow(kernel, owner, vector, k):
    """`N(s; k) = g_s(s_k) - K_k.g_s` of a choice, for the vector g_s."""
    _, first_entry, successors, chances = kernel
    total = vector[owner[k]]
    for e in range(first_entry[k], first_entry[k + 1]):
        total -= chances[e] * vector[successors[e]]
    return total


@compiled
def _swap(kernel, owner, initial, basis, tie):
    """Let the key of a tie change places with its largest extra choice; that one's place in J."""
    keys, kinds, R, u, extra, x = (
        basis.keys,
        basis.kinds,
        basis.advantages,
        basis.margins,
        basis.extra,
        basis.shares,
    )
    ties, G, swaps, H, counts = (
        basis.ties,
        basis.vectors,
        basis.swaps,
        basis.swap_vectors,
        basis.counts,
    )
    s, place = ties[tie], -1
    for b in range(counts[TIGHT]):
        if owner[extra[b]] == s and (place < 0 or x[b] > x[place]):
            place = b
    old, new = keys[s], extra[place]
    theta, mass = outflow(kernel, owner, G[tie], new), 0.0
    n = counts[SWAPS]
    for t in range(len(initial)):
        H[n, t] = G[tie, t] / theta
        mass += initial[t] * H[n, t]
    swaps[n, 0], swaps[n, 1] = old, new
    counts[SWAPS] += 1
    flows = np.empty(len(kinds))
    for k in range(len(kinds)):
        flows[k] = outflow(kernel, owner, H[n], k)
    for i in range(len(R)):
        pay = R[i, new]
        u[i] += mass * pay
        if pay != 0.0:
            for k in range(len(kinds)):
                R[i, k] -= pay * flows[k]
        R[i, new] = 0.0
    keys[s], extra[place], kinds[new], kinds[old] = new, old, 1, 2
    for t in range(counts[TIES]):
        _update(kernel, owner, G[t], old, new, H[n])
    return place


@compiled
def _update(kernel, owner, vector, old, new, swapped):
    """A solution of `(I - K_pi) g = b`, after the key of a state has changed, in place."""
    moved = outflow(kernel, owner, vector, old) - outflow(kernel, owner, vector, new)
    if moved != 0.0:
        for s in range(len(vector)):
            vector[s] += moved * swapped[s]


@compiled
def _bring_up_to_date(kernel, owner, vector, swaps, swap_vectors, count):
    """The same after all changes since the last refresh."""
    for n in range(count):
        _update(kernel, owner, vector, swaps[n, 0], swaps[n, 1], swap_vectors[n])


@compiled
def _forget(owner, basis, state):
    """Drop the vector of a state that has no extra choice any more."""
    extra, ties, G, counts = basis.extra, basis.ties, basis.vectors, basis.counts
    for b in range(counts[TIGHT]):
        if owner[extra[b]] == state:
            return
    last = counts[TIES] - 1
    for t in range(last + 1):
        if ties[t] == state:
            ties[t] = ties[last]
            for s in range(G.shape[1]):
                G[t, s] = G[last, s]
            counts[TIES] -= 1
            return


@compiled
def _invert(R, tight, extra, p, inverse):
    """`inverse[b, a]` of `W[a, b] = R[tight[a], extra[b]]`, with row pivots; False if singular."""
    sizes, rows = np.zeros(p), np.empty(p, np.int64)
    for a in range(p):
        for b in range(p):
            inverse[a, b] = R[1 + tight[a], extra[b]]
            sizes[b] = max(sizes[b], abs(inverse[a, b]))
    for b in range(p):
        row = b
        for a in range(b + 1, p):
            if abs(inverse[a, b]) > abs(inverse[row, b]):
                row = a
        if not abs(inverse[row, b]) > SINGULAR * sizes[b]:
            return False
        rows[b] = row
        if row != b:
            for c in range(p):
                inverse[b, c], inverse[row, c] = inverse[row, c], inverse[b, c]
        pivot = inverse[b, b]
        inverse[b, b] = 1.0  # the column of the unit matrix takes the place of this one
        for c in range(p):
            inverse[b, c] /= pivot
        for a in range(p):
            factor = inverse[a, b]
            if a != b and factor != 0.0:
                inverse[a, b] = 0.0
                for c in range(p):
                    inverse[a, c] -= factor * inverse[b, c]
    for b in range(p - 1, -1, -1):
        if rows[b] != b:
            for a in range(p):
                swapped = inverse[a, b]
                inverse[a, b], inverse[a, rows[b]] = inverse[a, rows[b]], swapped
    return True


@compiled
def refresh(kernel, initial, rewards, thresholds, factors, basis):
    """Everything anew from the keys: their LU, what follows from it, and the vectors of ties."""
    factorise(kernel, basis.keys, factors)
    refresh_values(kernel, initial, rewards, thresholds, factors, basis)
    basis.counts[SWAPS] = 0
    for t in range(basis.counts[TIES]):
        unit_solution(factors, basis.ties[t], basis.vectors[t])


@compiled
def refresh_values(kernel, initial, rewards, thresholds, factors, basis):
    """Advantages `[1 + m, K]` and margins of the keys from their LU, `rewards [1 + m, K]`."""
    values = np.empty((len(initial), len(rewards)))
    for n in range(len(rewards)):
        for s in range(len(initial)):
            values[s, n] = rewards[n, basis.keys[s]]
    substitute_all(factors, values)
    _fill_advantages(kernel, rewards, values, basis.advantages)
    for n in range(len(rewards)):
        total = -thresholds[n - 1] if n else 0.0
        for s in range(len(initial)):
            total += initial[s] * values[s, n]
        basis.margins[n] = total


@spliced
def _fill_advantages(kernel, rewards, values, advantages):
    """`x + K V - V` of every choice, for n rewards `[n, K]` and values `[S, n]`, into `[n, K]`."""
    first_choice, first_entry, successors, chances = kernel
    total = np.empty(len(rewards))
    for s in range(len(first_choice) - 1):
        for k in range(first_choice[s], first_choice[s + 1]):
            for n in range(len(rewards)):
                total[n] = rewards[n, k] - values[s, n]
            for e in range(first_entry[k], first_entry[k + 1]):
                chance, t = chances[e], successors[e]
                for n in range(len(rewards)):
                    total[n] += chance * values[t, n]
            for n in range(len(rewards)):
                advantages[n, k] = total[n]


@compiled
def fill_policy(owner, basis, policy):
    """The policy `[K]` with the visits of the basis, in place."""
    keys, extra, p, totals = basis.keys, basis.extra, basis.counts[TIGHT], np.zeros(len(basis.keys))
    policy[:] = 0.0
    for s in range(len(keys)):
        policy[keys[s]] = 1.0
    for b in range(p):
        totals[owner[extra[b]]] += max(basis.shares[b], 0.0)
    for t in range(basis.counts[TIES]):
        totals[basis.ties[t]] += max(basis.key_shares[t], 0.0)
    for b in range(p):
        k = extra[b]
        s = owner[k]
        if totals[s] > 0.0:
            policy[k] = max(basis.shares[b], 0.0) / totals[s]
            policy[keys[s]] = max(policy[keys[s]] - policy[k], 0.0)


@compiled
def has_one_price(basis, mixed, limits):
    """Whether no other prices are optimal: no visit is 0, nor a margin that is not tight."""
    p, tied, is_positive = basis.counts[TIGHT], 0, True
    for b in range(p):
        is_positive = is_positive and basis.shares[b] > limits[1]
    for t in range(basis.counts[TIES]):
        is_positive = is_positive and basis.key_shares[t] > limits[1]
    for i in range(1, len(mixed)):
        tied += abs(mixed[i]) <= limits[0]
    return is_positive and tied == p


@compiled
def neighbours(kernel, owner, initial, factors, basis, points):
    """Reward and margins of policies: that of the keys, and those with another choice in one state.

    Into `points [n, 1 + m]`: with each extra choice, or with every choice if n > 1 + p; then
    `factors` are those of the keys. Prices that no such policy forbids are optimal.
    """
    keys, extra, vector = basis.keys, basis.extra, np.empty(len(initial))
    for row in range(len(points)):
        for n in range(points.shape[1]):
            points[row, n] = basis.margins[n]
    row, p = 1, basis.counts[TIGHT]
    if len(points) == 1 + p:
        for t in range(basis.counts[TIES]):
            for b in range(p):
                if owner[extra[b]] == basis.ties[t]:
                    own = basis.vectors[t]
                    _switch(kernel, owner, initial, basis, own, extra[b], points[row])
                    row += 1
        return
    for s in range(len(keys)):
        unit_solution(factors, s, vector)
        for choice in range(kernel[0][s], kernel[0][s + 1]):
            k = np.int64(choice)
            if k != keys[s]:
                _switch(kernel, owner, initial, basis, vector, k, points[row])
                row += 1


@compiled
def _switch(kernel, owner, initial, basis, vector, k, point):
    """Add to the values of the keys what choice k of its state changes, for the state's vector."""
    mass = 0.0
    for s in range(len(initial)):
        mass += initial[s] * vector[s]
    share = mass / outflow(kernel, owner, vector, k)
    for n in range(len(point)):
        point[n] += share * basis.advantages[n, k]
