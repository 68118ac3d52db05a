"""The master problem of the corrective oracle: how to mix the columns that are known.

A primal active-set method on `min -V_r.alpha + beta/2 |lambda/beta - u(alpha) + z|^2` over `alpha` in the simplex and slacks
`z >= 0`. The free variables stay affinely independent (dependent ones are moved along their null direction until one
reaches 0), which is what purifies the mixture.

It is small and called often, so that Python takes longer over it than arithmetic does. Both functions are written in that part
of NumPy which numba compiles; large models, which load numba anyway, run them compiled.
"""
# mypy: disable-error-code="no-untyped-def, no-untyped-call, assignment"

from collections.abc import Callable
from functools import cache

import numpy as np

NEGLIGIBLE = 1e-13  # relative size of a slope that is rounding
RANK = 1e-11  # relative singular value below which columns count as dependent


def master(
    rewards: np.ndarray, margins: np.ndarray, multipliers: np.ndarray, penalty: float, start: np.ndarray, compiled: bool = False
) -> np.ndarray:
    """Weights `[k]` on the simplex that maximise the AL of the mixture; at most m + 1 of them are positive.

    rewards `[k]`, margins `[k, m]`, multipliers `[m]`, start `[k]` on the simplex. `compiled` asks for numba, where there is one.
    """
    if not margins.shape[1]:
        return np.eye(len(rewards))[np.argmax(rewards)]
    method = _compiled() if compiled else _mix
    with np.errstate(over="ignore"):
        return method(rewards, margins, multipliers, float(penalty), start)


@cache
def _compiled() -> Callable[..., np.ndarray]:
    try:
        from numba import njit
        from numba.extending import register_jitable
    except ImportError:
        return _mix
    register_jitable(_direction)
    return njit(cache=True, error_model="numpy")(_mix)


def _mix(rewards, margins, multipliers, penalty, start):
    k, m = margins.shape
    spread = np.hstack((-margins.T, np.eye(m)))  # w = multipliers + penalty * spread @ x, for x = (alpha, z)
    gain = np.append(rewards, np.zeros(m))
    x = np.append(start, np.maximum(start @ margins - multipliers / penalty, 0.0))
    free = x > 0
    entered = -1
    worth = multipliers + penalty * (spread @ x)
    gradient = worth @ spread - gain
    for _ in range(100 + 20 * (k + m)):
        direction, is_newton = _direction(x, free, k, spread, gradient, penalty)
        falling = direction < 0
        room = np.where(falling, x / np.where(falling, -direction, 1.0), np.inf)
        blocking = np.argmin(room)
        length = min(1.0, room[blocking]) if is_newton else room[blocking]
        if blocking == entered and length == 0:  # rounding: the entering variable cannot move, so this is the minimum
            break
        if np.isfinite(length):
            x = x + length * direction
        is_blocked = length == room[blocking]
        if is_blocked:
            x[blocking], free[blocking] = 0.0, False
        worth = multipliers + penalty * (spread @ x)
        gradient = worth @ spread - gain
        if is_blocked:
            continue
        price = gradient.copy()
        price[:k] -= np.sum(gradient[:k] * x[:k]) / x[:k].sum()
        price[free] = 0.0
        entered = np.argmin(price)
        largest = np.abs(gain).max() + np.abs(worth) @ np.array([np.abs(margins[:, i]).max() for i in range(m)])
        if price[entered] >= -NEGLIGIBLE * largest:
            break
        free[entered] = True
    alpha = np.maximum(x[:k], 0.0)
    return alpha / alpha.sum()


def _direction(x, free, k, spread, gradient, penalty):
    """A descent direction among the free variables that keeps the weights' sum, and whether it is Newton's.

    The first k variables are weights. Another one is a null direction, to leave along.
    """
    direction = np.zeros(len(x))
    index = np.nonzero(free)[0]
    pivot = index[np.argmax(np.where(index < k, x[index], -1.0))]
    others = index[index != pivot]
    if len(others) == 0:
        return direction, True
    shared = np.where(others < k, 1.0, 0.0)
    basis = spread[:, others] - np.outer(spread[:, pivot], shared)
    slope = gradient[others] - shared * gradient[pivot]
    _, singular, right = np.linalg.svd(basis)
    rank = np.sum(singular > RANK * max(singular.max(), np.finfo(np.float64).tiny))
    is_newton = rank == len(others)
    if is_newton:
        part = -right.T @ ((right @ slope) / singular[:rank] ** 2) / penalty
    else:
        null = right[rank:].copy()
        part = -null.T @ (null @ slope)
        if np.abs(part).max() <= NEGLIGIBLE * np.abs(slope).max():
            part = null[0].copy()
    direction[others] = part
    direction[pivot] = -np.sum(part * shared)
    if not is_newton and not (direction < 0).any():
        direction = -direction
    return direction, is_newton
