"""Models whose transitions are short: plans by policy iteration with LU inside a narrow envelope.

`kernel` is the rows of `gamma P`. No policy's LU leaves the envelope of all transitions (`small`),
so that a policy of a thousand states is evaluated in the time of some ten sweeps. Between two
evaluations Gauss-Seidel sweeps there and back carry news across the whole model: that takes a few
evaluations where greedy steps alone take some twenty. Rough plans of many functions are swept side
by side first, where a sweep of one costs next to nothing.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.compiled import Array, compiled, readable
from cmdpax.loops.rows import Block
from cmdpax.loops.small import (
    ITERATIONS,
    SWITCH,
    backup_all,
    centre,
    empty_factors,
    evaluate,
    whole_factors,
)

SIDE = 16  # functions swept side by side: values of some thousand states stay in a cache
LOOK = 10  # sweeps between two looks at their rate
EVALUATIONS = 10, 100  # that sweeps save, and what else these cost, in sweeps: `plan_both`


def envelope_work(rows: Block, most: float) -> float:
    """Multiplications of one LU in the envelope of all transitions, `most` if there are more."""
    return float(_envelope_work(rows, most))


@compiled
def _envelope_work(rows, most):
    first_choice, first_entry, successors, _ = rows
    S, work = len(first_choice) - 1, 0.0
    right = np.empty(S, np.int64)
    for s in range(S):
        left, right[s] = np.int64(s), s + 1
        for e in range(first_entry[first_choice[s]], first_entry[first_choice[s + 1]]):
            t = np.int64(successors[e])
            left, right[s] = min(left, t), max(right[s], t + 1)
        for i in range(left, s):
            right[s] = max(right[s], right[i])
            work += right[i] - i
        if work >= most:
            return most
    return work


def best_choices(kernel: Block, reward: Array, start: Array | None) -> tuple[Array, Array] | None:
    """Optimal choices and values, both `[S]`, for `reward [K]`; None if it does not settle."""
    S = len(kernel.first_choice) - 1
    keys = (kernel.first_choice[:-1] if start is None else start).astype(np.int64)
    values, factors = np.zeros(S), empty_factors(S)
    is_settled = _best_keys(kernel, readable(reward), start is None, keys, factors, values)
    return (keys, values) if is_settled else None


@compiled
def _best_keys(kernel, reward, is_fresh, keys, factors, values):
    if is_fresh:
        _sweep(kernel, reward, values, keys)
    for _ in range(ITERATIONS):
        evaluate(kernel, reward, keys, factors, values)
        if not _sweep(kernel, reward, values, keys):
            return True
    return False


@compiled
def _sweep(kernel, reward, values, keys):
    """Gauss-Seidel sweeps there and back, in place on values and keys; whether a key changed.

    Where a key is as good as the best but for rounding it stays.
    """
    first_choice, first_entry, successors, chances = kernel
    S, is_better, least = len(values), False, 0.0
    for s in range(S):
        least = max(least, SWITCH * abs(values[s]))
    for step in range(2 * S):
        s = step if step < S else 2 * S - 1 - step
        best, choice, current = -np.inf, keys[s], 0.0
        for k in range(first_choice[s], first_choice[s + 1]):
            total, stay = reward[k], 1.0
            for e in range(first_entry[k], first_entry[k + 1]):
                if successors[e] == s:
                    stay -= chances[e]
                else:
                    total += chances[e] * values[successors[e]]
            total /= stay
            if total > best:
                best, choice = total, np.int64(k)
            if k == keys[s]:
                current = total
        if choice != keys[s] and best - current > least + SWITCH * abs(best):
            keys[s], is_better, current = choice, True, best
        values[s] = current
    return is_better


@compiled
def plan_both(kernel, rewards, initial, reach, reachable, is_closed, rough, potentials):
    """As `small.plan_both`, for n functions in groups of `SIDE`."""
    n, _, S = potentials.shape
    potentials[:] = 0.0
    keys, factors, backed_up = np.empty((2, S), np.int64), whole_factors(S), np.empty(S)
    ends, is_best = np.zeros((2, 2)), np.zeros(2, np.bool_)
    most = EVALUATIONS[1] + EVALUATIONS[0] * _envelope_work(kernel, np.inf) / len(kernel[2])
    for first in range(0, n, SIDE):
        own, vectors = rewards[first : first + SIDE], potentials[first : first + SIDE]
        is_open = np.ones(len(own), np.bool_)
        if is_closed:
            _sweep_both(kernel, own, initial, reach, rough, most, is_open, vectors)
        for i in range(len(own)):
            is_done = not is_open[i]
            for side in range(2):
                is_best[side] = False
                for s in range(S):
                    keys[side, s] = kernel[0][s]
                if not is_done:
                    _sweep(kernel, own[i, side], vectors[i, side], keys[side])
            for _ in range(ITERATIONS):
                if is_done:
                    break
                for side in range(2):
                    if is_best[side]:
                        continue
                    reward, values = own[i, side], vectors[i, side]
                    evaluate(kernel, reward, keys[side], factors, values)
                    is_best[side] = not _sweep(kernel, reward, values, keys[side])
                    low, high = _backup(kernel, reward, values, backed_up)
                    if not is_closed:
                        low, high = min(low, 0.0), max(high, 0.0)
                    total = 0.0
                    for s in range(S):
                        total += initial[s] * backed_up[s]
                    ends[side, 0], ends[side, 1] = total + reach * low, total + reach * high
                width = ends[0, 0] + ends[1, 0]
                error = ends[0, 1] + ends[1, 1] - width
                is_done = error <= rough * width or (is_best[0] and is_best[1])
            if not is_done:
                return False
            if is_closed:
                centre(vectors[i, 0], reachable)
                centre(vectors[i, 1], reachable)
    return True


@compiled
def _backup(kernel, reward, values, backed_up):
    """`T V`, in place, and the least and the largest change."""
    first_choice, first_entry, successors, chances = kernel
    low, high = np.inf, -np.inf
    for s in range(len(values)):
        best = -np.inf
        for k in range(first_choice[s], first_choice[s + 1]):
            total = reward[k]
            for e in range(first_entry[k], first_entry[k + 1]):
                total += chances[e] * values[successors[e]]
            best = max(best, total)
        backed_up[s] = best
        low, high = min(low, best - values[s]), max(high, best - values[s])
    return low, high


@compiled
def _sweep_both(kernel, rewards, initial, reach, rough, most, is_open, potentials):
    """Sweeps from 0 of all functions side by side, until errors are at most `rough` of ranges.

    Potentials are written to. They end before where their rate says that all take more than `most`.
    """
    n, _, S = potentials.shape
    K, N = rewards.shape[2], 2 * n
    pays, values, backed_up = np.empty((K, N)), np.zeros((S, N)), np.empty((S, N))
    total, start, low, high = np.empty(N), np.empty(N), np.empty(N), np.empty(N)
    errors, open_count = np.full(n, np.inf), n
    for j in range(N):
        for k in range(K):
            pays[k, j] = rewards[j // 2, j % 2, k]
    sweep, is_slow = 0, False
    while open_count > 0 and not is_slow and sweep < most:
        sweep += 1
        backup_all(kernel, pays, initial, N, values, backed_up, total, start, low, high)
        values, backed_up = backed_up, values
        is_look = sweep % LOOK == 0
        is_slow = is_look
        for i in range(n):
            a, b = 2 * i, 2 * i + 1
            width = start[a] + start[b] + reach * (low[a] + low[b])
            error = reach * (high[a] - low[a] + high[b] - low[b])
            if is_open[i] and error <= rough * width:
                is_open[i], open_count = False, open_count - 1
                for s in range(S):
                    potentials[i, 0, s], potentials[i, 1, s] = values[s, a], values[s, b]
            elif is_open[i] and is_look:
                rate = min((error / errors[i]) ** (1.0 / LOOK), 1.0)
                is_slow &= error * rate ** (most - sweep) > rough * (width + error)
                errors[i] = error
    for i in range(n):
        if is_open[i]:
            for s in range(S):
                potentials[i, 0, s], potentials[i, 1, s] = values[s, 2 * i], values[s, 2 * i + 1]
