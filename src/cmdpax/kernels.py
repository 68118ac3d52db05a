"""The few loops that NumPy cannot fuse, over padded successors `[S, A, B]` and over sparse rows. Float64, int32 successors.

- `backup`: one pass over all transitions gives `(T V)(s) = max_a r(s,a) + gamma E V(s')` and the action that attains it;
- `sweep`: the same in place, state after state (Gauss-Seidel), so that news crosses the whole model in one pass; a state's own
  self-loop is solved for exactly;
- `policy_rows`: the rows of `P_pi` straight from padded successors, for deterministic and stochastic policies;
- `relax`, `relax_transposed`: a fixed-point step with such rows, and the residual in the same pass. (Plain products are left to
  SciPy, whose compiled loops are as fast as any we could write: `benchmarks/kernels.py` measures both.)
- `incomplete_factors`: LU without fill-in of a sparse M-matrix (it exists and is stable for every `I - gamma P`): exact for
  birth-death chains, a strong preconditioner on grids; and `bicgstab`, the Krylov method that uses it;
- `gauss_seidel`: sweeps through such a system, which converge whatever happens; `flow_order`: the order of states in which both
  work best, every state after those it leads to (depth-first postorder);
- `order_rows`, `reachable`: the one form of every row, and breadth-first search.

The loops themselves are in `loops.py`, compiled by numba on first use and cached on disk. Where numba cannot be imported, NumPy
gives the same numbers, and callers do without `sweep` and the solvers of systems (`loops()` is None).

Large models are worked on by all threads (`threads.py`), each with blocks of states of its own; only `sweep` and the transposed
step, whose blocks would write to the same states, stay on one (two halves of the latter, added up, took longer than the whole).
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax import threads
from cmdpax.errors import InputError

SMALL = 256  # states below which compiled code is not worth loading
BLOCK = 1 << 16  # states that one thread treats at a time; models of fewer stay on one thread


@cache
def loops() -> ModuleType | None:
    """The compiled loops, imported when first needed (numba takes a while to import); None where there is no numba."""
    try:
        import cmdpax.loops as compiled
    except ImportError:
        return None
    return compiled


def _over_blocks(loop: Callable[..., Any], states: int, *arguments: object) -> list[Any]:
    """The answers of `loop(first, last, *arguments)` for all blocks of states, on all threads (loops release Python's lock)."""
    blocks = [(first, min(first + BLOCK, states)) for first in range(0, states, BLOCK)]
    if len(blocks) > 1 and (shared := threads.shared()):
        return list(shared.map(lambda block: loop(*block, *arguments), blocks))
    return [loop(*block, *arguments) for block in blocks]


def backup(
    successors: np.ndarray, probabilities: np.ndarray, reward: np.ndarray, values: np.ndarray, discount: float
) -> tuple[np.ndarray, np.ndarray]:
    """Greedy actions `[S]` (int32; the first of equals) and backed-up values `[S]` of `reward [S, A]` at `values [S]`."""
    if (compiled := loops()) is None:
        quality = reward + discount * np.einsum("sab,sab->sa", probabilities, values[successors])
        actions = np.argmax(quality, axis=1)
        return actions.astype(np.int32), np.take_along_axis(quality, actions[:, None], axis=1)[:, 0]
    actions, backed_up = np.empty(len(values), dtype=np.int32), np.empty(len(values))
    given = _unsigned(successors), _read(probabilities), _read(reward), _read(values), discount
    _over_blocks(compiled.backup, len(values), *given, actions, backed_up)
    return actions, backed_up


def sweep(
    successors: np.ndarray, probabilities: np.ndarray, reward: np.ndarray, values: np.ndarray, discount: float, backwards: bool
) -> None:
    """One Gauss-Seidel sweep of the optimality operator through all states, in place on `values [S]`. Needs numba."""
    _needed().sweep(_unsigned(successors), _read(probabilities), _read(reward), values, discount, backwards)


def expected(successors: np.ndarray, probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`E[V(s') | s, a]` for `values [S]` -> `[S, A]`."""
    if (compiled := loops()) is None:
        return np.einsum("sab,sab->sa", probabilities, values[successors])
    following = np.empty(successors.shape[:2])
    _over_blocks(compiled.expected, len(following), _unsigned(successors), _read(probabilities), _read(values), following)
    return following


def policy_rows(successors: np.ndarray, probabilities: np.ndarray, policy: np.ndarray) -> sp.csr_array:
    """`P_pi` as sparse `[S, S]` for actions `[S]` or probabilities `[S, A]`; zeros left out, duplicates not merged."""
    S, A, B = successors.shape
    if policy.ndim == 1:
        policy = policy.astype(np.int32, copy=False)
        if policy.shape != (S,) or policy.min() < 0 or policy.max() >= A:  # compiled loops do not look
            raise InputError(f"policy: actions must be {S} integers in 0..{A - 1}.")
    elif policy.shape != (S, A):
        raise InputError(f"policy: shape {policy.shape}, expected {(S, A)}.")
    if (compiled := loops()) is None:
        if policy.ndim == 1:
            states = np.arange(S)
            columns, entries = successors[states, policy], probabilities[states, policy]
        else:
            columns, entries = successors.reshape(S, A * B), (probabilities * policy[:, :, None]).reshape(S, A * B)
        used = entries > 0
        pointers = np.append(0, np.cumsum(used.sum(1))).astype(np.int32)
        return sp.csr_array((entries[used], columns[used], pointers), shape=(S, S))
    count = compiled.count_chosen if policy.ndim == 1 else compiled.count_mixed
    fill = compiled.fill_chosen if policy.ndim == 1 else compiled.fill_mixed
    pointers = np.zeros(S + 1, dtype=np.int64)
    _over_blocks(count, S, _read(probabilities), _read(policy), pointers[1:])
    np.cumsum(pointers, out=pointers)
    columns, entries = np.empty(pointers[-1], dtype=np.int32), np.empty(pointers[-1])
    _over_blocks(fill, S, _read(successors), _read(probabilities), _read(policy), _read(pointers), columns, entries)
    if pointers[-1] <= np.iinfo(np.int32).max:
        pointers = pointers.astype(np.int32)
    return sp.csr_array((entries, columns.astype(pointers.dtype, copy=False), pointers), shape=(S, S))


def relax(matrix: sp.csr_array, right: np.ndarray, discount: float, values: np.ndarray) -> tuple[np.ndarray, float, float]:
    """`right + discount P values` `[S]`, with the smallest and the largest change it makes."""
    if (compiled := loops()) is None:
        following = right + discount * (matrix @ values)
        change = following - values
        return following, float(change.min()), float(change.max())
    following = np.empty_like(right)
    changes = _over_blocks(compiled.relax, len(right), *_parts(matrix), _read(right), discount, _read(values), following)
    lowest, highest = zip(*changes, strict=True)
    return following, min(lowest), max(highest)


def relax_transposed(matrix: sp.csr_array, right: np.ndarray, discount: float, visits: np.ndarray) -> tuple[np.ndarray, float]:
    """`right + discount P^T visits` `[S]`, with the sum of the absolute changes it makes."""
    if (compiled := loops()) is None:
        following = right + discount * (matrix.T @ visits)
        return following, float(np.abs(following - visits).sum())
    following = right.copy()
    return following, compiled.relax_transposed(*_parts(matrix), discount, _read(visits), following)


def incomplete_factors(system: sp.csr_array) -> np.ndarray:
    """Entries of L (unit diagonal, not stored) and U on the pattern of `system` (sorted, with its diagonal). Needs numba."""
    entries = system.data.copy()
    _needed().factor(*_parts(system)[:2], entries, np.full(system.shape[0], -1, dtype=np.int64))
    return entries


def bicgstab(
    system: sp.csr_array, factors: np.ndarray, right: np.ndarray, guess: np.ndarray, target: float, steps: int, total: bool
) -> np.ndarray:
    """BiCGStab (van der Vorst 1992), preconditioned from the right by `incomplete_factors`. Needs numba.

    Until the residual of its own recurrence is at most `target` (its largest entry, or with `total` their sum), at most `steps`
    times, or until it breaks down. Nothing it returns is to be believed before the true residual is computed.
    """
    solution = guess.copy()
    _needed().bicgstab(*_parts(system), _read(factors), _read(right), solution, target, steps, total)
    return solution


def gauss_seidel(system: sp.csr_array, right: np.ndarray, solution: np.ndarray, sweeps: int) -> None:
    """`sweeps` Gauss-Seidel sweeps forwards and back, in place on `solution [S]`. Needs numba."""
    for sweep in range(2 * sweeps):
        _needed().relax_rows(*_parts(system), _read(right), solution, sweep % 2 == 1)


def flow_order(matrix: sp.csr_array) -> np.ndarray:
    """States `[S]` (int32) ordered so that most transitions of `matrix [S, S]` lead to an earlier one. Needs numba."""
    S = matrix.shape[0]
    order, stack, following = (np.empty(S, dtype=np.int32) for _ in range(3))
    _needed().postorder(*_parts(matrix), order, stack, following, np.zeros(S, dtype=np.bool_))
    return order


def reachable(successors: np.ndarray, probabilities: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """`[S]` booleans: states that some policy visits from the initial distribution."""
    seen = initial > 0
    if len(seen) > SMALL and (compiled := loops()) is not None:
        compiled.search(_unsigned(successors), _read(probabilities), seen, np.empty(len(seen), dtype=np.uint32))
        return seen
    frontier = np.nonzero(seen)[0]
    while frontier.size:
        reached = successors[frontier][probabilities[frontier] > 0]
        frontier = np.unique(reached[~seen[reached]])
        seen[frontier] = True
    return seen


def order_rows(successors: np.ndarray, probabilities: np.ndarray) -> int:
    """Put the rows of both `[S, A, B]` (int32, float64) in order, in place; returns how many places of B any row needs.

    Successors increase and occur once (their probabilities are added, from the last to the first); unused places come
    last, as state 0.
    """
    if len(successors) > SMALL and (compiled := loops()) is not None:
        return int(compiled.order_rows(successors, probabilities))
    _sort_rows(successors, probabilities)
    twice = (successors[:, :, 1:] == successors[:, :, :-1]) & (probabilities[:, :, 1:] > 0)
    if twice.any():
        for b in range(successors.shape[2] - 1, 0, -1):
            merged = np.where(twice[:, :, b - 1], probabilities[:, :, b], 0.0)
            probabilities[:, :, b - 1] += merged
            probabilities[:, :, b] -= merged
        _sort_rows(successors, probabilities)
    return int((probabilities > 0).any((0, 1)).sum())


def _sort_rows(successors: np.ndarray, probabilities: np.ndarray) -> None:
    """Every row sorted by successor, unused places last and as state 0, in place."""
    S = np.int32(len(successors))
    keys = np.where(probabilities > 0, successors, S)
    wrong = (keys[:, :, 1:] < keys[:, :, :-1]).any(-1)  # most rows come sorted
    order = np.argsort(keys[wrong], axis=-1, kind="stable")
    for array in (keys, probabilities):
        array[wrong] = np.take_along_axis(array[wrong], order, -1)
    successors[...] = np.where(keys < S, keys, np.int32(0))


def _needed() -> ModuleType:
    compiled = loops()
    assert compiled is not None, "callers check that there is numba"
    return compiled


def _read(array: np.ndarray) -> np.ndarray:
    """A contiguous read-only view: numba compiles each loop once, not once more for arrays that may be written."""
    view = np.ascontiguousarray(array).view()
    view.setflags(write=False)
    return view


def _unsigned(indices: np.ndarray) -> np.ndarray:
    return _read(indices).view(np.uint32 if indices.dtype.itemsize == 4 else np.uint64)


def _parts(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return _unsigned(matrix.indptr), _unsigned(matrix.indices), _read(matrix.data)
