"""Batches of policies on small models, compiled: what a grid search spends its time on.

`I - gamma P_pi` is an M-matrix, diagonally dominant by rows: LU without pivoting exists and is as
stable as with it, and zeros outside the fill-in stay zeros. So one pass per policy builds the
system straight from the successors, eliminates, and skips what is zero; on grids that is most of
it. Where numba is missing, for single policies and for more than 64 states `evaluation.py` takes
the dense LAPACK way, with the same numbers up to rounding.
"""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")


def values(
    successors: np.ndarray,
    probabilities: np.ndarray,
    discount: float,
    policies: np.ndarray,
    rewards: np.ndarray,
) -> np.ndarray:
    """Values of k rewards, `[1, k, S, A]` or `[n, k, S, A]` for each policy, under n policies `[n,
    S, A]` -> `[n, k, S]`.
    """
    found = np.empty((len(policies), rewards.shape[1], len(successors)))
    _values(successors, probabilities, discount, _own(policies), _own(rewards), found)
    return found


def occupancies(
    successors: np.ndarray,
    probabilities: np.ndarray,
    discount: float,
    policies: np.ndarray,
    initial: np.ndarray,
) -> np.ndarray:
    """Unnormalised occupancies of n policies `[n, S, A]` from `initial [S]` -> `[n, S]`."""
    found = np.empty((len(policies), 1, len(successors)))
    found[:, 0] = initial
    _occupancies(successors, probabilities, discount, _own(policies), found)
    return found[:, 0]


def _own(array: np.ndarray) -> np.ndarray:
    """Contiguous and writable: numba compiles once for every other kind of array."""
    return np.require(array, requirements=["C", "W"])


@compiled
def _values(successors, probabilities, discount, policies, rewards, found):
    count, S, A = policies.shape
    system = np.empty((S, S))
    for n in range(count):
        own = n if len(rewards) > 1 else 0
        _identity(system)
        for s in range(S):
            for k in range(found.shape[1]):
                found[n, k, s] = 0.0
            for a in range(A):
                chance = policies[n, s, a]
                for k in range(found.shape[1]):
                    found[n, k, s] += chance * rewards[own, k, s, a]
                for j in range(successors.shape[2]):
                    system[s, successors[s, a, j]] -= discount * chance * probabilities[s, a, j]
        _solve(system, found[n])


@compiled
def _occupancies(successors, probabilities, discount, policies, found):
    count, S, A = policies.shape
    system = np.empty((S, S))
    for n in range(count):
        _identity(system)
        for s in range(S):
            for a in range(A):
                for j in range(successors.shape[2]):
                    system[successors[s, a, j], s] -= (
                        discount * policies[n, s, a] * probabilities[s, a, j]
                    )
        _solve(system, found[n])


@compiled
def _identity(system):
    for row in range(len(system)):
        for column in range(len(system)):
            system[row, column] = 0.0
        system[row, row] = 1.0


@compiled
def _solve(system, right):
    """Solve `system x = right[k]` for every k, in place in `right [k, S]`; `system [S, S]` is used
    up.
    """
    S = len(system)
    ends = np.empty(S, np.int64)  # one past the last entry of each row that is not zero
    for row in range(S):
        ends[row] = S
        while system[row, ends[row] - 1] == 0.0:
            ends[row] -= 1
    for i in range(S):
        for row in range(i + 1, S):
            factor = system[row, i]
            if factor != 0.0:
                factor /= system[i, i]
                for column in range(i + 1, ends[i]):
                    system[row, column] -= factor * system[i, column]
                for k in range(len(right)):
                    right[k, row] -= factor * right[k, i]
                ends[row] = max(ends[row], ends[i])
    for k in range(len(right)):
        for i in range(S - 1, -1, -1):
            rest = right[k, i]
            for column in range(i + 1, ends[i]):
                rest -= system[i, column] * right[k, column]
            right[k, i] = rest / system[i, i]
