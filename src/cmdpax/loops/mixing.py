"""The master problem of the corrective oracle: how to mix the columns that are known.

A primal active-set method on `min -V_r.alpha + beta/2 |lambda/beta - u(alpha) + z|^2` over `alpha`
in the simplex and slacks `z >= 0`. The free variables stay affinely independent (dependent ones are
moved along their null direction until one reaches 0), which is what purifies the mixture.

It is small and called often, so that Python takes longer over it than arithmetic does: large
models, which load compiled loops anyway, have it there too (`master_loops.py`).
"""

import numpy as np

from cmdpax.loops import bellman as kernels

NEGLIGIBLE = 1e-13  # relative size of a slope that is rounding
RANK = 1e-11  # relative singular value below which columns count as dependent


def master(
    rewards: np.ndarray,
    margins: np.ndarray,
    multipliers: np.ndarray,
    penalty: float,
    start: np.ndarray,
    compiled: bool = False,
) -> np.ndarray:
    """Weights `[k]` on the simplex that maximise the AL of the mixture; at most m + 1 of them are
    positive.

    rewards `[k]`, margins `[k, m]`, multipliers `[m]`, start `[k]` on the simplex. `compiled` asks
    for numba, where there is one.
    """
    k, m = margins.shape
    spread = np.hstack(
        [-margins.T, np.eye(m)]
    )  # w = multipliers + penalty * spread @ x, for x = (alpha, z)
    gain = np.append(rewards, np.zeros(m))
    x = np.concatenate([start, np.maximum(start @ margins - multipliers / penalty, 0)])
    if compiled and kernels.loops() is not None:
        from cmdpax.loops.mixing_loops import mix

        mix(spread, gain, multipliers, float(penalty), x, RANK, NEGLIGIBLE)
    else:
        x = _mix(spread, gain, multipliers, penalty, x)
    alpha = np.maximum(x[:k], 0)
    return alpha / alpha.sum()


def _mix(
    spread: np.ndarray, gain: np.ndarray, multipliers: np.ndarray, penalty: float, x: np.ndarray
) -> np.ndarray:
    """The best `x [k + m]`, from `x`, for the effect `spread [m, k + m]` and the reward `gain [k +
    m]` of its entries.
    """
    m, n = spread.shape
    k = n - m
    is_weight = np.arange(n) < k
    free = x > 0
    entered = -1
    worth = multipliers + penalty * (spread @ x)
    gradient = spread.T @ worth - gain
    for _ in range(100 + 20 * n):
        direction, is_newton = _direction(x, free, is_weight, spread, gradient, penalty)
        falling = direction < 0
        with np.errstate(over="ignore"):
            room = np.where(falling, x / -np.where(falling, direction, -1.0), np.inf)
        blocking = int(np.argmin(room))
        length = min(1.0, room[blocking]) if is_newton else room[blocking]
        if (
            blocking == entered and length == 0
        ):  # rounding: the entering variable cannot move, so this is the minimum
            break
        if np.isfinite(length):
            x = x + length * direction
        is_blocked = length == room[blocking]
        if is_blocked:
            x[blocking], free[blocking] = 0.0, False
        worth = multipliers + penalty * (spread @ x)
        gradient = spread.T @ worth - gain
        if is_blocked:
            continue
        price = gradient - np.where(is_weight, gradient[:k] @ x[:k] / x[:k].sum(), 0.0)
        price[free] = 0.0
        entered = int(np.argmin(price))
        if price[entered] >= -NEGLIGIBLE * (
            np.abs(gain).max() + np.abs(worth) @ np.abs(spread[:, :k]).max(1, initial=0.0)
        ):
            break
        free[entered] = True
    return x


def _direction(
    x: np.ndarray,
    free: np.ndarray,
    is_weight: np.ndarray,
    spread: np.ndarray,
    gradient: np.ndarray,
    penalty: float,
) -> tuple[np.ndarray, bool]:
    """A descent direction among the free variables that keeps the weights' sum: Newton's, or a null
    direction to leave along.
    """
    direction = np.zeros_like(x)
    index = np.nonzero(free)[0]
    pivot = index[np.argmax(np.where(is_weight[index], x[index], -1.0))]
    others = index[index != pivot]
    if not others.size:
        return direction, True
    shared = is_weight[others]
    basis = spread[:, others] - shared * spread[:, [pivot]]
    slope = gradient[others] - shared * gradient[pivot]
    _, singular, right = np.linalg.svd(basis, full_matrices=True)
    rank = int((singular > RANK * max(singular.max(initial=0.0), np.finfo(float).tiny)).sum())
    if is_newton := rank == len(others):
        part = -right.T @ ((right @ slope) / singular**2) / penalty
    else:
        null = right[rank:]
        part = -null.T @ (null @ slope)
        if np.abs(part).max() <= NEGLIGIBLE * np.abs(slope).max(initial=0.0):
            part = null[0]
    direction[others] = part
    direction[pivot] = -part[shared].sum()
    if not is_newton and not (direction < 0).any():
        direction = -direction
    return direction, is_newton
