"""Small models: dense systems, plans, and bounds of many functions in one call.

`kernel` is the rows of `gamma P`; `I - K_pi` is an M-matrix, so LU without pivoting is stable, and
zeros outside the fill-in stay zeros. Up to some hundred states it is as fast as LAPACK, on banded
models ten times, and no number depends on the threads of a BLAS.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.bellman import fill_ratios
from cmdpax.loops.compiled import Array, compiled, readable
from cmdpax.loops.rows import Block

SWITCH = 1e-12  # relative gain below which policy iteration keeps a choice
SWEEPS, ITERATIONS = 5, 1000
ROUGH_SWEEPS = 20  # before a rough plan is made by policy iteration


def best_choices(kernel: Block, reward: Array, start: Array | None) -> tuple[Array, Array] | None:
    """Optimal choices and values, both `[S]`, for `reward [K]`; None if it does not settle."""
    S = len(kernel.first_choice) - 1
    keys = kernel.first_choice[:-1] if start is None else start
    keys, values, factors = keys.astype(np.int64), np.zeros(S), np.empty((S, S))
    sweeps = SWEEPS if start is None else 0
    is_settled = best_keys(kernel, readable(reward), keys, factors, values, sweeps)
    return (keys, values) if is_settled else None


def solve_dense(kernel: Block, policy: Array, right: Array, transpose: bool) -> Array:
    """Solve `(I - K_pi) x = right`, or with K transposed, for `right [n, S]` -> `[n, S]`.

    policy: choices `[S]`, or probabilities `[K]`.
    """
    S = len(kernel.first_choice) - 1
    factors, vectors = np.empty((S, S)), np.array(right)
    if np.issubdtype(policy.dtype, np.integer):
        factorise(kernel, policy.astype(np.int64), factors)
    else:
        factorise_mean(kernel, readable(policy), factors)
    _solve_all(factors, vectors, transpose)
    return vectors


@compiled
def best_keys(kernel, reward, keys, factors, values, sweeps):
    """Optimal keys for a reward `[K]` and their values, in place; False if it does not settle.

    So many sweeps from `values [S]`, then policy iteration; `factors [S, S]` are those of the keys.
    """
    backed_up = np.empty(len(values))
    for _ in range(sweeps):
        _backup(kernel, reward, values, keys, backed_up)
        values[:] = backed_up
    for _ in range(ITERATIONS):
        factorise(kernel, keys, factors)
        for s in range(len(values)):
            values[s] = reward[keys[s]]
        substitute(factors, values)
        if not _backup(kernel, reward, values, keys, backed_up)[2]:
            return True
    return False


@compiled
def factorise(kernel, keys, factors):
    """LU of `I - K_pi` in place on `factors [S, S]`; without pivoting, as for any M-matrix."""
    _, first_entry, successors, chances = kernel
    S = len(keys)
    factors[:] = 0.0
    for s in range(S):
        factors[s, s] = 1.0
        for e in range(first_entry[keys[s]], first_entry[keys[s] + 1]):
            factors[s, successors[e]] -= chances[e]
    _eliminate(factors)


@compiled
def factorise_mean(kernel, policy, factors):
    """The same for a policy `[K]`."""
    first_choice, first_entry, successors, chances = kernel
    factors[:] = 0.0
    for s in range(len(factors)):
        factors[s, s] = 1.0
        for k in range(first_choice[s], first_choice[s + 1]):
            if policy[k] != 0.0:
                for e in range(first_entry[k], first_entry[k + 1]):
                    factors[s, successors[e]] -= policy[k] * chances[e]
    _eliminate(factors)


@compiled
def _eliminate(factors):
    S = len(factors)
    for i in range(S):
        for row in range(i + 1, S):
            factor = factors[row, i]
            if factor != 0.0:
                factor /= factors[i, i]
                factors[row, i] = factor
                for column in range(i + 1, S):
                    factors[row, column] -= factor * factors[i, column]


@compiled
def substitute(factors, vector):
    """Solve `L U x = b` in place on `vector [S]`."""
    S = len(vector)
    for i in range(S):
        rest = vector[i]
        for column in range(i):
            rest -= factors[i, column] * vector[column]
        vector[i] = rest
    for step in range(S):
        i = S - 1 - step
        rest = vector[i]
        for column in range(i + 1, S):
            rest -= factors[i, column] * vector[column]
        vector[i] = rest / factors[i, i]


@compiled
def _solve_all(factors, vectors, transpose):
    """Solve for every vector, in place on `[n, S]`; `U' L' x = b` with `transpose`."""
    S = len(factors)
    for n in range(len(vectors)):
        if not transpose:
            substitute(factors, vectors[n])
            continue
        x = vectors[n]
        for i in range(S):
            x[i] /= factors[i, i]
            for column in range(i + 1, S):
                x[column] -= factors[i, column] * x[i]
        for step in range(S):
            i = S - 1 - step
            for column in range(i):
                x[column] -= factors[i, column] * x[i]


@compiled
def plan_both(kernel, rewards, initial, reach, reachable, is_closed, rough, potentials):
    """Values `[n, 2, S]` of good policies for -x and x of n functions, `rewards [n, 2, K]`.

    Both plans end when their errors are at most `rough` of what policies can change, or with the
    best policies: first sweeps, if constants may be added (is_closed), then policy iteration. Then
    values are cut to the range of reachable states, less its middle. reach: what an error in one
    step amounts to in a value. False if a plan does not settle.
    """
    n, _, S = potentials.shape
    keys, factors = np.empty((2, S), np.int64), np.empty((S, S))
    backed_up, ends, is_best = np.empty(S), np.zeros((2, 2)), np.zeros(2, np.bool_)
    for i in range(n):
        is_done = False
        is_best[:] = False
        potentials[i] = 0.0
        for side in range(2):
            for s in range(S):
                keys[side, s] = kernel[0][s]
        swept = ROUGH_SWEEPS if rough > 0.0 else SWEEPS
        for round in range(swept + ITERATIONS):
            sweeps = round < swept
            if is_done or (sweeps and not is_closed):
                continue
            for side in range(2):
                values, reward = potentials[i, side], rewards[i, side]
                if is_best[side]:
                    continue
                if not sweeps:
                    factorise(kernel, keys[side], factors)
                    for s in range(S):
                        values[s] = reward[keys[side, s]]
                    substitute(factors, values)
                low, high, is_better = _backup(kernel, reward, values, keys[side], backed_up)
                if sweeps:
                    values[:] = backed_up
                else:
                    low, is_best[side] = 0.0, not is_better
                    high = high if is_better else 0.0
                total = 0.0
                for s in range(S):
                    total += initial[s] * values[s]
                ends[side, 0], ends[side, 1] = total + reach * low, total + reach * high
            width = ends[0, 0] + ends[1, 0]
            error = ends[0, 1] + ends[1, 1] - width
            is_done = error <= rough * width or (is_best[0] and is_best[1])
        if not is_done:
            return False
        for side in range(2):
            if is_closed:
                centre(potentials[i, side], reachable)
    return True


@compiled
def _backup(kernel, reward, values, keys, backed_up):
    """`T V`, in place, and keys that are greedy for V; the ends of `T V - V`, and if a key changed.

    Where a key is as good as the best but for rounding it stays.
    """
    first_choice, first_entry, successors, chances = kernel
    low, high, is_better, largest = np.inf, -np.inf, False, 0.0
    for s in range(len(values)):
        largest = max(largest, abs(values[s]))
    for s in range(len(values)):
        best, choice, current = -np.inf, keys[s], 0.0
        for k in range(first_choice[s], first_choice[s + 1]):
            total = reward[k]
            for e in range(first_entry[k], first_entry[k + 1]):
                total += chances[e] * values[successors[e]]
            if total > best:
                best, choice = total, np.int64(k)
            if k == keys[s]:
                current = total
        if choice != keys[s] and best - current > SWITCH * (largest + abs(best)):
            keys[s], is_better = choice, True
        backed_up[s] = best
        low, high = min(low, best - values[s]), max(high, best - values[s])
    return low, high, is_better


@compiled
def centre(values, reachable):
    """Cut values `[S]` to the range of reachable states, less its middle, in place."""
    low, high = np.inf, -np.inf
    for s in range(len(values)):
        if reachable[s]:
            low, high = min(low, values[s]), max(high, values[s])
    middle = low / 2 + high / 2
    for s in range(len(values)):
        values[s] = min(max(values[s], low), high) - middle


@compiled
def extremes(rows, rewards, sizes, values, gauge, shares, discount, unit, reachable, ends):
    """The least and the largest ratio of reachable states (`bellman.ratios`), into `ends [n, 2]`.

    For n rewards and sizes `[n, K]` and values `[n, S]`.
    """
    lows, highs = np.empty(len(reachable)), np.empty(len(reachable))
    for n in range(len(rewards)):
        arrays = rewards[n], sizes[n], values[n], gauge, shares
        fill_ratios(0, rows, *arrays, discount, unit, lows, highs)
        low, high = np.inf, -np.inf
        for s in range(len(reachable)):
            if reachable[s]:
                low, high = min(low, lows[s]), max(high, highs[s])
        ends[n, 0], ends[n, 1] = low, high
