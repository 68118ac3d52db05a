"""The compiled loops behind `master.py`, which says what they compute; Gram-Schmidt stands for the
singular values there.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import numpy as np

from cmdpax.loops.systems import compiled


@compiled
def mix(spread, gain, multipliers, penalty, x, rank, negligible):
    """The best `x`, in place."""
    m, n = spread.shape
    k = n - m
    free, gradient, direction, worth = x > 0, np.empty(n), np.empty(n), np.empty(m)
    others, basis, upper, part = (
        np.empty(n, np.int64),
        np.empty((m, m)),
        np.empty((m, m + 1)),
        np.empty(m + 1),
    )
    largest = np.zeros(m)
    for i in range(m):
        for j in range(k):
            largest[i] = max(largest[i], abs(spread[i, j]))
    best = 0.0
    for j in range(k):
        best = max(best, abs(gain[j]))
    slopes(spread, gain, multipliers, penalty, x, worth, gradient)
    entered = -1
    for _ in range(100 + 20 * n):
        newton = descend(
            x, free, k, spread, gradient, penalty, rank, direction, others, basis, upper, part
        )
        room, blocking = np.inf, -1
        for j in range(n):
            if direction[j] < 0 and x[j] / -direction[j] < room:
                room, blocking = x[j] / -direction[j], j
        length = min(room, 1.0) if newton else room
        if blocking >= 0 and blocking == entered and length == 0.0:
            return
        if length < np.inf:
            for j in range(n):
                x[j] += length * direction[j]
        blocked = blocking >= 0 and length == room
        if blocked:
            x[blocking], free[blocking] = 0.0, False
        slopes(spread, gain, multipliers, penalty, x, worth, gradient)
        if blocked:
            continue
        total = mean = 0.0
        for j in range(k):
            total += x[j]
            mean += x[j] * gradient[j]
        mean /= total
        entered, least = -1, np.inf
        for j in range(n):
            price = 0.0 if free[j] else gradient[j] - (mean if j < k else 0.0)
            if price < least:
                entered, least = j, price
        size = best
        for i in range(m):
            size += abs(worth[i]) * largest[i]
        if least >= -negligible * size:
            return
        free[entered] = True


@compiled
def slopes(spread, gain, multipliers, penalty, x, worth, gradient):
    """What constraints are worth at `x`, and the gradient there."""
    m, n = spread.shape
    for j in range(n):
        gradient[j] = -gain[j]
    for i in range(m):
        total = 0.0
        for j in range(n):
            total += spread[i, j] * x[j]
        worth[i] = multipliers[i] + penalty * total
        for j in range(n):
            gradient[j] += worth[i] * spread[i, j]


@compiled
def descend(x, free, k, spread, gradient, penalty, rank, direction, others, basis, upper, part):
    """A direction among the free variables that keeps the sum of the first k; whether it is
    Newton's, or a null direction.

    Gram-Schmidt on the free variables' effects, less that of the largest weight, which gives what
    the others take.
    """
    m, n = spread.shape
    pivot, count = -1, 0
    for j in range(n):
        direction[j] = 0.0
        if j < k and free[j] and (pivot < 0 or x[j] > x[pivot]):
            pivot = j
    newton, own = True, np.empty(m)
    for j in range(n):
        if not free[j] or j == pivot:
            continue
        scale = 0.0
        for i in range(m):
            taken = spread[i, pivot] if j < k else 0.0
            own[i] = spread[i, j] - taken
            scale += spread[i, j] * spread[i, j] + taken * taken
        others[count], size = j, 0.0
        for before in range(count):
            upper[before, count] = 0.0
        for _ in range(2):  # twice is enough
            for before in range(count):
                overlap = 0.0
                for i in range(m):
                    overlap += basis[before, i] * own[i]
                upper[before, count] += overlap
                for i in range(m):
                    own[i] -= overlap * basis[before, i]
        for i in range(m):
            size += own[i] * own[i]
        newton = count < m and size > rank * rank * scale
        if not newton:
            break
        upper[count, count] = np.sqrt(size)
        for i in range(m):
            basis[count, i] = own[i] / upper[count, count]
        count += 1
    for j in range(count):  # (R'R) part = -slope / penalty, or R part = the dependent column
        slope = gradient[others[j]] - (gradient[pivot] if others[j] < k else 0.0)
        part[j] = -slope / penalty if newton else upper[j, count]
        if newton:
            for before in range(j):
                part[j] -= upper[before, j] * part[before]
            part[j] /= upper[j, j]
    for j in range(count - 1, -1, -1):
        for after in range(j + 1, count):
            part[j] -= upper[j, after] * part[after]
        part[j] /= upper[j, j]
    if not newton:
        part[count] = -1.0
        count += 1
    rising = 0.0
    for j in range(count):
        direction[others[j]] = part[j]
        direction[pivot] -= part[j] if others[j] < k else 0.0
        rising += part[j] * (gradient[others[j]] - (gradient[pivot] if others[j] < k else 0.0))
    if not newton:
        sign, leaves = -1.0 if rising > 0 else 1.0, False
        for j in range(n):
            leaves = leaves or sign * direction[j] < 0
        for j in range(n):
            direction[j] *= sign if leaves else -sign
    return newton
