"""The few loops that NumPy cannot fuse, over padded successors `[S, A, B]` and over sparse rows. Float64, int32 successors.

- `backup`: one pass over all transitions gives `(T V)(s) = max_a r(s,a) + gamma E V(s')` and the action that attains it;
- `sweep`: the same in place, state after state (Gauss-Seidel), so that news crosses the whole model in one pass; a state's own
  self-loop is solved for exactly;
- `policy_rows`: the rows of `P_pi` straight from padded successors, for deterministic and stochastic policies;
- `relax`, `relax_transposed`: a fixed-point step with such rows, and the residual in the same pass. (Plain products are left to
  SciPy, whose compiled loops are as fast as any we could write: `benchmarks/kernels.py` measures both.)
- `incomplete_factors`: LU without fill-in of a sparse M-matrix (it exists and is stable for every `I - gamma P`): exact for
  birth-death chains, a strong preconditioner on grids; and `bicgstab`, the Krylov method that uses it;
- `reachable`: breadth-first search.

Compiled by numba on first use and cached on disk. Where numba cannot be imported, NumPy gives the same numbers, and callers
that find no `sweep` or factors do without (`COMPILED`). Indices are read as unsigned, so that numba need not test for negative
ones.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

try:
    from numba import njit
except ImportError:  # the pure NumPy path below

    def njit(**_options: Any) -> Callable[[Any], Any]:  # type: ignore[no-redef]
        """Leave the function as it is; nobody calls it."""
        return lambda function: function

    COMPILED = False
else:
    COMPILED = True


def backup(
    successors: np.ndarray, probabilities: np.ndarray, reward: np.ndarray, values: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Greedy actions `[S]` (int32; the first of equals) and backed-up values `[S]` of `reward [S, A]` at `values [S]`."""
    if not COMPILED:
        quality = reward + discount * np.einsum("sab,sab->sa", probabilities, values[successors])
        actions = np.argmax(quality, axis=1)
        return actions.astype(np.int32), np.take_along_axis(quality, actions[:, None], axis=1)[:, 0]
    actions, backed_up = np.empty(len(values), dtype=np.int32), np.empty(len(values))
    _backup(successors.view(np.uint32), probabilities, reward, values, discount, actions, backed_up)
    return actions, backed_up


def sweep(
    successors: np.ndarray, probabilities: np.ndarray, reward: np.ndarray, values: np.ndarray, discount: float, backwards: bool
) -> None:
    """One Gauss-Seidel sweep of the optimality operator through all states, in place on `values [S]`. Needs `COMPILED`."""
    _sweep(successors.view(np.uint32), probabilities, reward, values, discount, backwards)


def expected(successors: np.ndarray, probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`E[V(s') | s, a]` for `values [S]` -> `[S, A]`."""
    if not COMPILED:
        return np.einsum("sab,sab->sa", probabilities, values[successors])
    following = np.empty(successors.shape[:2])
    _expected(successors.view(np.uint32), probabilities, values, following)
    return following


def policy_rows(successors: np.ndarray, probabilities: np.ndarray, policy: np.ndarray) -> sp.csr_array:
    """`P_pi` as sparse `[S, S]` for actions `[S]` or probabilities `[S, A]`; zeros left out, duplicates not merged."""
    S, A, B = successors.shape
    if policy.ndim == 1:
        policy = policy.astype(np.int32, copy=False)
    if not COMPILED:
        if policy.ndim == 1:
            states = np.arange(S)
            columns, entries = successors[states, policy], probabilities[states, policy]
        else:
            columns, entries = successors.reshape(S, A * B), (probabilities * policy[:, :, None]).reshape(S, A * B)
        used = entries > 0
        pointers = np.append(0, np.cumsum(used.sum(1))).astype(np.int32)
        return sp.csr_array((entries[used], columns[used], pointers), shape=(S, S))
    count = _count_chosen if policy.ndim == 1 else _count_mixed
    fill = _fill_chosen if policy.ndim == 1 else _fill_mixed
    pointers = np.empty(S + 1, dtype=np.int64)
    count(probabilities, policy, pointers)
    if pointers[-1] <= np.iinfo(np.int32).max:
        pointers = pointers.astype(np.int32)
    columns, entries = np.empty(pointers[-1], dtype=np.int32), np.empty(pointers[-1])
    fill(successors, probabilities, policy, columns, entries)
    return sp.csr_array((entries, columns.astype(pointers.dtype, copy=False), pointers), shape=(S, S))


def relax(matrix: sp.csr_array, right: np.ndarray, discount: float, values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """`right + discount P values` `[S]`, with the smallest and the largest change it makes."""
    if not COMPILED:
        following = right + discount * (matrix @ values)
        change = following - values
        return following, float(change.min()), float(change.max())
    following = np.empty_like(right)
    low, high = _relax(_unsigned(matrix.indptr), _unsigned(matrix.indices), matrix.data, right, discount, values, following)
    return following, low, high


def relax_transposed(matrix: sp.csr_array, right: np.ndarray, discount: float, visits: np.ndarray) -> tuple[np.ndarray, float]:
    """`right + discount P^T visits` `[S]`, with the sum of the absolute changes it makes."""
    if not COMPILED:
        following = right + discount * (matrix.T @ visits)
        return following, float(np.abs(following - visits).sum())
    following = right.copy()
    size = _relax_transposed(_unsigned(matrix.indptr), _unsigned(matrix.indices), matrix.data, discount, visits, following)
    return following, size


def incomplete_factors(system: sp.csr_array) -> np.ndarray:
    """Entries of L (unit diagonal, not stored) and U on the pattern of `system` (sorted, with its diagonal). Needs `COMPILED`."""
    entries = system.data.copy()
    _factor(_unsigned(system.indptr), _unsigned(system.indices), entries, np.full(system.shape[0], -1, dtype=np.int64))
    return entries


def bicgstab(
    system: sp.csr_array, factors: np.ndarray, right: np.ndarray, guess: np.ndarray, target: float, steps: int, total: bool
) -> np.ndarray:
    """BiCGStab (van der Vorst 1992), preconditioned from the right by `incomplete_factors`. Needs `COMPILED`.

    Until the residual of its own recurrence is at most `target` (its largest entry, or with `total` their sum), at most `steps`
    times, or until it breaks down. Nothing it returns is to be believed before the true residual is computed.
    """
    solution = guess.copy()
    _bicgstab(_unsigned(system.indptr), _unsigned(system.indices), system.data, factors, right, solution, target, steps, total)
    return solution


def reachable(successors: np.ndarray, probabilities: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """`[S]` booleans: states that some policy visits from the initial distribution."""
    seen = initial > 0
    if COMPILED:
        _search(successors.view(np.uint32), probabilities, seen, np.empty(len(seen), dtype=np.uint32))
        return seen
    frontier = np.nonzero(seen)[0]
    while frontier.size:
        reached = successors[frontier][probabilities[frontier] > 0]
        frontier = np.unique(reached[~seen[reached]])
        seen[frontier] = True
    return seen


def _unsigned(indices: np.ndarray) -> np.ndarray:
    return indices.view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


# ---- compiled loops; shapes as above --------------------------------------------------------------------------------
@njit(cache=True, nogil=True, error_model="numpy")
def _backup(successors, probabilities, reward, values, discount, actions, backed_up):  # type: ignore[no-untyped-def]
    S, A, B = successors.shape
    for s in range(S):
        best, choice = -np.inf, 0
        for a in range(A):
            following = 0.0
            for b in range(B):
                following += probabilities[s, a, b] * values[successors[s, a, b]]
            quality = reward[s, a] + discount * following
            if quality > best:
                best, choice = quality, a
        actions[s], backed_up[s] = choice, best


@njit(cache=True, nogil=True, error_model="numpy")
def _sweep(successors, probabilities, reward, values, discount, backwards):  # type: ignore[no-untyped-def]
    S, A, B = successors.shape
    for step in range(S):
        s = S - 1 - step if backwards else step
        best = -np.inf
        for a in range(A):
            following, stay = 0.0, 0.0
            for b in range(B):
                successor = successors[s, a, b]
                if successor == s:
                    stay += probabilities[s, a, b]
                else:
                    following += probabilities[s, a, b] * values[successor]
            quality = (reward[s, a] + discount * following) / (1.0 - discount * stay)
            best = max(best, quality)
        values[s] = best


@njit(cache=True, nogil=True, error_model="numpy")
def _expected(successors, probabilities, values, following):  # type: ignore[no-untyped-def]
    S, A, B = successors.shape
    for s in range(S):
        for a in range(A):
            total = 0.0
            for b in range(B):
                total += probabilities[s, a, b] * values[successors[s, a, b]]
            following[s, a] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _count_chosen(probabilities, actions, pointers):  # type: ignore[no-untyped-def]
    S, _, B = probabilities.shape
    total = 0
    pointers[0] = 0
    for s in range(S):
        for b in range(B):
            total += probabilities[s, actions[s], b] > 0
        pointers[s + 1] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_chosen(successors, probabilities, actions, columns, entries):  # type: ignore[no-untyped-def]
    S, _, B = probabilities.shape
    place = 0
    for s in range(S):
        a = actions[s]
        for b in range(B):
            if probabilities[s, a, b] > 0:
                columns[place], entries[place] = successors[s, a, b], probabilities[s, a, b]
                place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _count_mixed(probabilities, policy, pointers):  # type: ignore[no-untyped-def]
    S, A, B = probabilities.shape
    total = 0
    pointers[0] = 0
    for s in range(S):
        for a in range(A):
            if policy[s, a] > 0:
                for b in range(B):
                    total += policy[s, a] * probabilities[s, a, b] > 0
        pointers[s + 1] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_mixed(successors, probabilities, policy, columns, entries):  # type: ignore[no-untyped-def]
    S, A, B = probabilities.shape
    place = 0
    for s in range(S):
        for a in range(A):
            if policy[s, a] > 0:
                for b in range(B):
                    entry = policy[s, a] * probabilities[s, a, b]
                    if entry > 0:
                        columns[place], entries[place] = successors[s, a, b], entry
                        place += 1


@njit(cache=True, nogil=True, error_model="numpy")
def _relax(pointers, columns, entries, right, discount, values, following):  # type: ignore[no-untyped-def]
    low, high = np.inf, -np.inf
    for s in range(len(right)):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * values[columns[k]]
        following[s] = right[s] + discount * total
        change = following[s] - values[s]
        low, high = min(low, change), max(high, change)
    return low, high


@njit(cache=True, nogil=True, error_model="numpy")
def _relax_transposed(pointers, columns, entries, discount, visits, following):  # type: ignore[no-untyped-def]
    for s in range(len(visits)):
        mass = discount * visits[s]
        for k in range(pointers[s], pointers[s + 1]):
            following[columns[k]] += entries[k] * mass
    size = 0.0
    for s in range(len(visits)):
        size += abs(following[s] - visits[s])
    return size


@njit(cache=True, nogil=True, error_model="numpy")
def _factor(pointers, columns, entries, place):  # type: ignore[no-untyped-def]
    """Row by row: subtract multiples of earlier rows, keeping only the row's own pattern (`place`: column -> position)."""
    for s in range(len(pointers) - 1):
        for k in range(pointers[s], pointers[s + 1]):
            place[columns[k]] = k
        for k in range(pointers[s], pointers[s + 1]):
            t = columns[k]
            if t >= s:
                break
            diagonal = pointers[t]
            while columns[diagonal] != t:
                diagonal += 1
            entries[k] /= entries[diagonal]
            for j in range(diagonal + 1, pointers[t + 1]):
                if place[columns[j]] >= 0:
                    entries[place[columns[j]]] -= entries[k] * entries[j]
        for k in range(pointers[s], pointers[s + 1]):
            place[columns[k]] = -1


@njit(cache=True, nogil=True, error_model="numpy")
def _substitute(pointers, columns, factors, right, solution):  # type: ignore[no-untyped-def]
    S = len(pointers) - 1
    for s in range(S):
        total = right[s]
        for k in range(pointers[s], pointers[s + 1]):
            if columns[k] >= s:
                break
            total -= factors[k] * solution[columns[k]]
        solution[s] = total
    for step in range(S):
        s = S - 1 - step
        total = solution[s]
        for back in range(pointers[s + 1] - pointers[s]):
            k = pointers[s + 1] - 1 - back
            if columns[k] == s:
                solution[s] = total / factors[k]
                break
            total -= factors[k] * solution[columns[k]]


@njit(cache=True, nogil=True, error_model="numpy")
def _product(pointers, columns, entries, vector, image):  # type: ignore[no-untyped-def]
    for s in range(len(vector)):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * vector[columns[k]]
        image[s] = total


@njit(cache=True, nogil=True, error_model="numpy")
def _dot(left, right):  # type: ignore[no-untyped-def]
    total = 0.0
    for s in range(len(left)):
        total += left[s] * right[s]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _bicgstab(pointers, columns, entries, factors, right, solution, target, steps, total):  # type: ignore[no-untyped-def]
    S = len(right)
    image, half, other, turned = np.zeros(S), np.empty(S), np.empty(S), np.empty(S)
    _product(pointers, columns, entries, solution, turned)
    residual = right - turned
    shadow, direction = residual.copy(), np.zeros(S)
    before = alpha = omega = 1.0
    for _ in range(steps):
        overlap = _dot(shadow, residual)
        beta = overlap / before * alpha / omega
        for s in range(S):
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
        _substitute(pointers, columns, factors, direction, half)
        _product(pointers, columns, entries, half, image)
        alpha = overlap / _dot(shadow, image)
        for s in range(S):
            residual[s] -= alpha * image[s]
        _substitute(pointers, columns, factors, residual, other)
        _product(pointers, columns, entries, other, turned)
        length = _dot(turned, turned)
        omega = _dot(turned, residual) / length if length > 0 else 0.0
        if not (np.isfinite(alpha) and np.isfinite(omega)):
            return
        largest, absolute = 0.0, 0.0
        for s in range(S):
            solution[s] += alpha * half[s] + omega * other[s]
            residual[s] -= omega * turned[s]
            largest = max(largest, abs(residual[s]))
            absolute += abs(residual[s])
        before = overlap
        if (absolute if total else largest) <= target or before == 0.0 or omega == 0.0:
            return


@njit(cache=True, nogil=True, error_model="numpy")
def _search(successors, probabilities, seen, frontier):  # type: ignore[no-untyped-def]
    S, A, B = successors.shape
    count = 0
    for s in range(S):
        if seen[s]:
            frontier[count] = s
            count += 1
    read = 0
    while read < count:
        s = frontier[read]
        read += 1
        for a in range(A):
            for b in range(B):
                successor = successors[s, a, b]
                if probabilities[s, a, b] > 0 and not seen[successor]:
                    seen[successor] = True
                    frontier[count] = successor
                    count += 1
