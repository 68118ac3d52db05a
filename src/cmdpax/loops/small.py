"""Small models: dense systems, plans, and bounds of many functions in one call.

`kernel` is the rows of `gamma P`; `I - K_pi` is an M-matrix, so LU without pivoting is stable, and
zeros outside the fill-in stay zeros. Up to some hundred states it is as fast as LAPACK, on banded
models ten times as fast, and no number depends on the threads of a BLAS. Many functions at once
stand side by side, `[S, n]`, so that a processor works on several of them in one step.

A policy's keys `[S]` are the numbers of its choices, int64.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import NamedTuple

import numpy as np

from cmdpax.loops.bellman import fill_ratios
from cmdpax.loops.compiled import Array, compiled, frozen, readable, spliced
from cmdpax.loops.rows import Block

SWITCH = 1e-12  # relative gain below which policy iteration keeps a choice
SWEEPS, ITERATIONS = 5, 1000  # before policy iteration, and of policy iteration at the most
ROUGH_SWEEPS = 400  # at the most, before a rough plan is made by policy iteration
LOOK, FALLEN = 20, 0.7  # after LOOK sweeps errors must have fallen to this share


class Factors(NamedTuple):
    """LU of `I - K_pi`; row s is 0 but for the columns `left[s] .. right[s] - 1`."""

    numbers: Array  # [S, W]: column c of row s is at c - first[s]; what lies outside is not set
    first: Array  # [S] int64
    left: Array  # [S] int64
    right: Array  # [S] int64


def empty_factors(states: int, reach: int | None = None) -> Factors:
    """Room for the factors of S states, none of whose transitions goes beyond `reach`."""
    first, left, right = (np.zeros(states, np.int64) for _ in range(3))
    if reach is None or 2 * reach + 1 >= states:
        return Factors(np.empty((states, states)), first, left, right)
    first += np.arange(-reach, states - reach)
    return Factors(np.empty((states, 2 * reach + 1)), first, left, right)


@compiled
def whole_factors(states):
    """The same within loops, wherever transitions lead."""
    edges = np.zeros((3, states), np.int64)
    return Factors(np.empty((states, states)), edges[0], edges[1], edges[2])


def best_choices(kernel: Block, reward: Array, start: Array | None) -> tuple[Array, Array] | None:
    """Optimal choices and values, both `[S]`, for `reward [K]`; None if it does not settle."""
    S = len(kernel.first_choice) - 1
    keys = kernel.first_choice[:-1] if start is None else start
    keys, values, factors = keys.astype(np.int64), np.zeros(S), empty_factors(S)
    sweeps = SWEEPS if start is None else 0
    is_settled = best_keys(kernel, readable(reward), keys, factors, values, sweeps)
    return (keys, values) if is_settled else None


def solve_dense(kernel: Block, policy: Array, right: Array, transpose: bool) -> Array:
    """Solve `(I - K_pi) x = right`, or with K transposed, for `right [n, S]` -> `[n, S]`.

    policy: choices `[S]`, or probabilities `[K]`.
    """
    S = len(kernel.first_choice) - 1
    factors = empty_factors(S)
    if np.issubdtype(policy.dtype, np.integer):
        factorise(kernel, policy.astype(np.int64), factors)
    else:
        factorise_mean(kernel, readable(policy), factors)
    if transpose or len(right) == 1:
        vectors = np.array(right)
        for vector in vectors:
            (_substitute_transposed if transpose else substitute)(factors, vector)
        return vectors
    columns = np.array(right.T, order="C")
    substitute_all(factors, columns)
    return np.ascontiguousarray(columns.T)


@compiled
def best_keys(kernel, reward, keys, factors, values, sweeps):
    """Optimal keys for a reward `[K]` and their values, in place; False if it does not settle.

    First `sweeps` sweeps from `values [S]`, then policy iteration; `factors` are those of the keys.
    """
    backed_up = np.empty(len(values))
    for _ in range(sweeps):
        _backup(kernel, reward, values, keys, backed_up)
        for s in range(len(values)):
            values[s] = backed_up[s]
    for _ in range(ITERATIONS):
        evaluate(kernel, reward, keys, factors, values)
        if not _backup(kernel, reward, values, keys, backed_up)[1]:
            return True
    return False


@compiled
def evaluate(kernel, reward, keys, factors, values):
    """Values `[S]` of the keys for a reward `[K]`, and their LU, both in place."""
    factorise(kernel, keys, factors)
    for s in range(len(values)):
        values[s] = reward[keys[s]]
    substitute(factors, values)


@compiled
def factorise(kernel, keys, factors):
    """LU of `I - K_pi` in place on `factors`; without pivoting, as for any M-matrix."""
    whole = frozen(np.ones(1))
    for s in range(len(keys)):
        _factorise_row(kernel, s, keys[s], whole, factors)


@compiled
def factorise_mean(kernel, policy, factors):
    """The same for a policy `[K]`."""
    first_choice = kernel[0]
    for s in range(len(first_choice) - 1):
        first, last = np.int64(first_choice[s]), np.int64(first_choice[s + 1])
        _factorise_row(kernel, s, first, policy[first:last], factors)


@spliced
def _factorise_row(kernel, row, choice, shares, factors):
    """Row s of the LU, given those before it; `shares` are of the choices from `choice` on."""
    _, first_entry, successors, chances = kernel
    numbers, first, left, right = factors
    here = first[row]
    left[row], right[row] = row, row + 1
    for k in range(len(shares)):
        if shares[k] != 0.0:
            for e in range(first_entry[choice + k], first_entry[choice + k + 1]):
                t = np.int64(successors[e])
                left[row], right[row] = min(left[row], t), max(right[row], t + 1)
    for column in range(left[row], right[row]):
        numbers[row, column - here] = 0.0
    numbers[row, row - here] = 1.0
    for k in range(len(shares)):
        if shares[k] != 0.0:
            for e in range(first_entry[choice + k], first_entry[choice + k + 1]):
                numbers[row, np.int64(successors[e]) - here] -= shares[k] * chances[e]
    for i in range(left[row], row):
        factor = numbers[row, i - here]
        if factor != 0.0:
            factor /= numbers[i, i - first[i]]
            numbers[row, i - here] = factor
            for column in range(right[row], right[i]):
                numbers[row, column - here] = 0.0
            right[row] = max(right[row], right[i])
            own, other = np.uint64(i + 1 - here), np.uint64(i + 1 - first[i])
            for j in range(np.uint64(right[i] - i - 1)):  # unsigned: indices are as they are
                numbers[row, own + j] -= factor * numbers[i, other + j]


@compiled
def substitute(factors, vector):
    """Solve `L U x = b` in place on `vector [S]`."""
    numbers, first, left, right = factors
    S = len(vector)
    for i in range(S):
        vector[i] -= _product(numbers, i, first[i], vector, left[i], i)
    for step in range(S):
        i = S - 1 - step
        rest = vector[i] - _product(numbers, i, first[i], vector, i + 1, right[i])
        vector[i] = rest / numbers[i, i - first[i]]


@compiled
def _product(numbers, row, first, vector, start, end):
    """`sum_j numbers[row, j - first] vector[j]` over a range, as four sums: none waits."""
    a = b = c = d = 0.0
    last = start + 4 * ((end - start) // 4)
    for j in range(start, last, 4):
        i = j - first
        a += numbers[row, i] * vector[j]
        b += numbers[row, i + 1] * vector[j + 1]
        c += numbers[row, i + 2] * vector[j + 2]
        d += numbers[row, i + 3] * vector[j + 3]
    for j in range(max(last, start), end):
        a += numbers[row, j - first] * vector[j]
    return (a + b) + (c + d)


@compiled
def substitute_all(factors, columns):
    """The same for n vectors side by side, in place on `columns [S, n]`."""
    numbers, first, left, right = factors
    S, n = columns.shape
    for i in range(S):
        for other in range(left[i], i):
            factor = numbers[i, other - first[i]]
            if factor != 0.0:
                for j in range(n):
                    columns[i, j] -= factor * columns[other, j]
    for step in range(S):
        i = S - 1 - step
        for other in range(i + 1, right[i]):
            factor = numbers[i, other - first[i]]
            if factor != 0.0:
                for j in range(n):
                    columns[i, j] -= factor * columns[other, j]
        for j in range(n):
            columns[i, j] /= numbers[i, i - first[i]]


@compiled
def _substitute_transposed(factors, vector):
    """Solve `U' L' x = b` in place on `vector [S]`."""
    numbers, first, left, right = factors
    S = len(vector)
    for i in range(S):
        vector[i] /= numbers[i, i - first[i]]
        for column in range(i + 1, right[i]):
            vector[column] -= numbers[i, column - first[i]] * vector[i]
    for step in range(S):
        i = S - 1 - step
        for column in range(left[i], i):
            vector[column] -= numbers[i, column - first[i]] * vector[i]


@compiled
def plan_both(kernel, rewards, initial, reach, reachable, is_closed, rough, potentials):
    """Values `[n, 2, S]` of good policies for -x and x of n functions, `rewards [n, 2, K]`.

    Both plans end when their errors are at most `rough` of what policies can change, or with the
    best policies: first sweeps, if constants may be added (is_closed), then policy iteration. Then
    values are cut to the range of reachable states, less its middle. reach: what an error in one
    step amounts to in a value. False if a plan does not settle.
    """
    n, _, S = potentials.shape
    open_ones, count = np.arange(n), n
    potentials[:] = 0.0
    if is_closed:
        count = _sweep_both(kernel, rewards, initial, reach, rough, open_ones, potentials)
    keys, factors, backed_up = np.empty((2, S), np.int64), whole_factors(S), np.empty(S)
    ends, is_best = np.zeros((2, 2)), np.zeros(2, np.bool_)
    for place in range(count):
        i, is_done = open_ones[place], False
        for side in range(2):
            is_best[side] = False
            for s in range(S):
                keys[side, s] = kernel[0][s]
            _backup(kernel, rewards[i, side], potentials[i, side], keys[side], backed_up)
        for _ in range(ITERATIONS):
            for side in range(2):
                values, reward = potentials[i, side], rewards[i, side]
                if is_best[side]:
                    continue
                evaluate(kernel, reward, keys[side], factors, values)
                high, is_better = _backup(kernel, reward, values, keys[side], backed_up)
                is_best[side] = not is_better
                total = 0.0
                for s in range(S):
                    total += initial[s] * values[s]
                ends[side, 0], ends[side, 1] = total, total + reach * high if is_better else total
            width = ends[0, 0] + ends[1, 0]
            error = ends[0, 1] + ends[1, 1] - width
            is_done = error <= rough * width or (is_best[0] and is_best[1])
            if is_done:
                break
        if not is_done:
            return False
    if is_closed:
        for i in range(n):
            centre(potentials[i, 0], reachable)
            centre(potentials[i, 1], reachable)
    return True


@compiled
def _sweep_both(kernel, rewards, initial, reach, rough, open_ones, potentials):
    """Sweeps from 0 for all functions side by side, until errors are at most `rough` of ranges.

    Potentials are written to. `open_ones` has the functions for which it ends before: so many.
    """
    n, _, S = potentials.shape
    K, left, count, own = rewards.shape[2], n, 0, np.arange(n)
    pays, values, backed_up = np.empty((K, 2 * n)), np.zeros((S, 2 * n)), np.empty((S, 2 * n))
    total, start, low, high = np.empty(2 * n), np.empty(2 * n), np.empty(2 * n), np.empty(2 * n)
    errors = np.full(n, np.inf)  # of the last look
    for i in range(n):
        for side in range(2):
            for k in range(K):
                pays[k, 2 * i + side] = rewards[i, side, k]
    most = SWEEPS if rough == 0.0 else ROUGH_SWEEPS
    for sweep in range(1, most + 1):
        backup_all(kernel, pays, initial, 2 * left, values, backed_up, total, start, low, high)
        values, backed_up = backed_up, values
        for i in range(left - 1, -1, -1):
            a, b = 2 * i, 2 * i + 1
            width = start[a] + start[b] + reach * (low[a] + low[b])
            error = reach * (high[a] - low[a] + high[b] - low[b])
            is_slow = sweep == most
            if sweep % LOOK == 0:
                is_slow = is_slow or error > FALLEN * errors[i]
                errors[i] = error
            is_done = error <= rough * width
            if not is_done and not is_slow:
                continue
            for s in range(S):
                potentials[own[i], 0, s], potentials[own[i], 1, s] = values[s, a], values[s, b]
            if not is_done:
                open_ones[count] = own[i]
                count += 1
            left -= 1  # the last one takes its place
            own[i], errors[i] = own[left], errors[left]
            for side in range(2):
                for s in range(S):
                    values[s, 2 * i + side] = values[s, 2 * left + side]
                for k in range(K):
                    pays[k, 2 * i + side] = pays[k, 2 * left + side]
        if left == 0:
            break
    return count


@compiled
def backup_all(kernel, pays, initial, N, values, backed_up, total, start, low, high):
    """`T V` of N functions side by side, `[S, .]` in place, for `pays [K, .]`.

    Also its initial values and its least and largest changes, `[.]`; total: `[.]`, to work in.
    """
    first_choice, first_entry, successors, chances = kernel
    for j in range(N):
        low[j], high[j], start[j] = np.inf, -np.inf, 0.0
    for s in range(len(values)):
        for k in range(first_choice[s], first_choice[s + 1]):
            for j in range(N):
                total[j] = pays[k, j]
            for e in range(first_entry[k], first_entry[k + 1]):
                chance, t = chances[e], successors[e]
                for j in range(N):
                    total[j] += chance * values[t, j]
            if k == first_choice[s]:
                for j in range(N):
                    backed_up[s, j] = total[j]
            else:
                for j in range(N):
                    backed_up[s, j] = max(backed_up[s, j], total[j])
        for j in range(N):
            change = backed_up[s, j] - values[s, j]
            low[j], high[j] = min(low[j], change), max(high[j], change)
        if initial[s] != 0.0:
            for j in range(N):
                start[j] += initial[s] * backed_up[s, j]


@compiled
def _backup(kernel, reward, values, keys, backed_up):
    """`T V`, in place, and keys that are greedy for V; `max T V - V`, and whether a key changed.

    Where a key is as good as the best but for rounding it stays.
    """
    first_choice, first_entry, successors, chances = kernel
    high, is_better, largest = -np.inf, False, 0.0
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
        high = max(high, best - values[s])
    return high, is_better


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
def extremes(rows, rewards, sizes, values, gauge, shares, lost, discount, unit, reachable, ends):
    """The least and the largest ratio of reachable states (`bellman.ratios`), into `ends [n, 2]`.

    For n rewards and sizes `[n, K]` and values `[n, S]`.
    """
    lows, highs = np.empty(len(reachable)), np.empty(len(reachable))
    for n in range(len(rewards)):
        arrays = rewards[n], sizes[n], values[n], gauge, shares, lost
        fill_ratios(0, rows, *arrays, discount, unit, lows, highs)
        low, high = np.inf, -np.inf
        for s in range(len(reachable)):
            if reachable[s]:
                low, high = min(low, lows[s]), max(high, highs[s])
        ends[n, 0], ends[n, 1] = low, high
