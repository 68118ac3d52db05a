"""The few loops that NumPy cannot fuse, over padded successors `[S, A, B]` and over sparse rows.
Float64, int32 successors.

- `backup`: one pass over all transitions gives `(T V)(s) = max_a r(s,a) + gamma E V(s')` and the
  action that attains it;
- `sweep`: the same in place, state after state (Gauss-Seidel), so that news crosses the whole model
  in one pass; a state's own self-loop is solved for exactly;
- `policy_rows`: the rows of `P_pi` straight from padded successors, for deterministic and
  stochastic policies;
- `relax`: fixed-point steps with such rows or their transpose, each with its residual in the same
  pass. (Plain products are left to SciPy, whose compiled loops are as fast as any we could write:
  `benchmarks/kernels.py` measures both.)
- `system_rows`: the system `I - gamma P` of such rows, canonical;
- `incomplete_factors`: LU without fill-in of a sparse M-matrix (it exists and is stable for every
  `I - gamma P`): exact for birth-death chains, a strong preconditioner on grids; and `bicgstab`,
  the Krylov method that uses it;
- `gauss_seidel`: sweeps through such a system, which converge whatever happens; `flow_order`: the
  order of states in which both work best, every state after those it leads to (depth-first
  postorder);
- `order_rows`, `reachable`: the one form of every row, and breadth-first search.

The loops themselves are in `loops.py`, compiled by numba on first use and cached on disk. Where
numba cannot be imported, NumPy gives the same numbers, and callers do without `sweep` and the
solvers of systems (`loops()` is None).

Large models are worked on by all threads (`threads.py`), each with blocks of states of its own;
only `sweep` and the transposed step, whose blocks would write to the same states, stay on one (two
halves of the latter, added up, took longer than the whole).
"""

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.loops import compiled as threads
from cmdpax.loops.rows import Rows, readable

SMALL = 256  # states below which compiled code is not worth loading
BLOCK = 1 << 16  # states that one thread treats at a time; models of fewer stay on one thread


@cache
def loops() -> ModuleType | None:
    """The compiled loops, imported when first needed (numba takes a while to import); None where
    there is no numba.
    """
    try:
        import cmdpax.loops.systems as compiled
    except ImportError:
        return None
    return compiled


def _over_blocks(loop: Callable[..., Any], states: int, *arguments: object) -> list[Any]:
    """The answers of `loop(first, last, *arguments)` for all blocks of states, on all threads
    (loops release Python's lock).
    """
    blocks = [(first, min(first + BLOCK, states)) for first in range(0, states, BLOCK)]
    if len(blocks) > 1 and (shared := threads.shared()):
        return list(shared.map(lambda block: loop(*block, *arguments), blocks))
    return [loop(*block, *arguments) for block in blocks]


def backup(
    successors: np.ndarray,
    probabilities: np.ndarray,
    reward: np.ndarray,
    values: np.ndarray,
    discount: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Greedy actions `[S]` (int32; the first of equals) and backed-up values `[S]` of `reward [S,
    A]` at `values [S]`.
    """
    if (compiled := loops()) is None:
        quality = reward + discount * np.einsum("sab,sab->sa", probabilities, values[successors])
        actions = np.argmax(quality, axis=1)
        return actions.astype(np.int32), np.take_along_axis(quality, actions[:, None], axis=1)[:, 0]
    actions, backed_up = np.empty(len(values), dtype=np.int32), np.empty(len(values))
    given = (
        _unsigned(successors),
        readable(probabilities),
        readable(reward),
        readable(values),
        discount,
    )
    _over_blocks(compiled.backup, len(values), *given, actions, backed_up)
    return actions, backed_up


def sweep(
    successors: np.ndarray,
    probabilities: np.ndarray,
    reward: np.ndarray,
    values: np.ndarray,
    discount: float,
    backwards: bool,
) -> None:
    """One Gauss-Seidel sweep of the optimality operator through all states, in place on `values
    [S]`. Needs numba.
    """
    _needed().sweep(
        _unsigned(successors),
        readable(probabilities),
        readable(reward),
        values,
        discount,
        backwards,
    )


def expected(successors: np.ndarray, probabilities: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`E[V(s') | s, a]` for `values [S]` -> `[S, A]`."""
    if (compiled := loops()) is None:
        return np.einsum("sab,sab->sa", probabilities, values[successors])
    following = np.empty(successors.shape[:2])
    _over_blocks(
        compiled.expected,
        len(following),
        _unsigned(successors),
        readable(probabilities),
        readable(values),
        following,
    )
    return following


def policy_rows(successors: np.ndarray, probabilities: np.ndarray, policy: np.ndarray) -> Rows:
    """`P_pi [S, S]` for actions `[S]` or probabilities `[S, A]`; zeros left out, duplicates not
    merged.
    """
    S, A, B = successors.shape
    if policy.ndim == 1:
        policy = policy.astype(np.int32, copy=False)
        if (
            policy.shape != (S,) or policy.min() < 0 or policy.max() >= A
        ):  # compiled loops do not look
            raise InputError(f"policy: actions must be {S} integers in 0..{A - 1}.")
    elif policy.shape != (S, A):
        raise InputError(f"policy: shape {policy.shape}, expected {(S, A)}.")
    if (compiled := loops()) is None:
        if policy.ndim == 1:
            states = np.arange(S)
            columns, entries = successors[states, policy], probabilities[states, policy]
        else:
            columns, entries = (
                successors.reshape(S, A * B),
                (probabilities * policy[:, :, None]).reshape(S, A * B),
            )
        used = entries > 0
        return Rows(
            np.append(0, np.cumsum(used.sum(1))).astype(np.uint32),
            columns[used].astype(np.uint32),
            entries[used],
        )
    count = compiled.count_chosen if policy.ndim == 1 else compiled.count_mixed
    fill = compiled.fill_chosen if policy.ndim == 1 else compiled.fill_mixed
    pointers = np.zeros(S + 1, dtype=np.uint32)
    _over_blocks(count, S, readable(probabilities), readable(policy), pointers[1:])
    np.cumsum(pointers, out=pointers)
    pointers = readable(pointers)
    columns, entries = np.empty(pointers[-1], dtype=np.uint32), np.empty(pointers[-1])
    _over_blocks(
        fill,
        S,
        _unsigned(successors),
        readable(probabilities),
        readable(policy),
        pointers,
        columns,
        entries,
    )
    return Rows(pointers, readable(columns), readable(entries))


def system_rows(rows: Rows, discount: float, transpose: bool) -> Rows:
    """`I - discount P` (with P transposed, or not): columns of every row increasing and once, with
    its diagonal. Needs numba.
    """
    compiled, S = _needed(), len(rows.pointers) - 1
    if transpose:
        pointers, columns, entries = (
            np.zeros_like(rows.pointers),
            np.empty_like(rows.columns),
            np.empty_like(rows.entries),
        )
        compiled.transpose(*rows.parts, pointers, columns, entries)
        rows = Rows(readable(pointers), readable(columns), readable(entries))
    most = len(rows.columns) + S
    pointers, columns, entries = (
        np.zeros_like(rows.pointers),
        np.empty(most, dtype=np.uint32),
        np.empty(most),
    )
    used = compiled.subtract(
        *rows.parts, discount, pointers, columns, entries, np.full(S, -1, dtype=np.int64)
    )
    return Rows(readable(pointers), readable(columns[:used]), readable(entries[:used]))


def relax(
    rows: Rows,
    right: np.ndarray,
    discount: float,
    start: np.ndarray,
    steps: int,
    target: float,
    transpose: bool,
) -> tuple[np.ndarray, list[float], float]:
    """At most `steps` steps `x <- right + discount P x` from `start [S]` (with P transposed, or
    not).

    Returns x `[S]`, the size of every step's change, and the middle of the last one. The size is
    half the width of the changes of values, and the sum of the absolute changes of occupancies;
    steps end when it is at most `target`.
    """
    compiled = loops()
    if compiled is None or (threads.shared() is not None and len(right) > BLOCK and not transpose):
        sizes: list[float] = []
        middle = 0.0
        while len(sizes) < steps and not (sizes and sizes[-1] <= target):
            start, size, middle = _relax_once(rows, right, discount, start, transpose)
            sizes.append(size)
        return start, sizes, middle
    vectors, found = (start.copy(), np.empty_like(right)), np.empty(steps)
    done, middle = compiled.relax_often(
        *rows.parts, readable(right), discount, *vectors, found, target, transpose
    )
    return vectors[done % 2], found[:done].tolist(), middle


def _relax_once(
    rows: Rows, right: np.ndarray, discount: float, now: np.ndarray, transpose: bool
) -> tuple[np.ndarray, float, float]:
    """One such step in NumPy, or on all threads: x, size and middle of its change."""
    if (compiled := loops()) is None:
        following = right + discount * ((rows.matrix.T if transpose else rows.matrix) @ now)
        change = following - now
        low, high = float(change.min()), float(change.max())
        return (
            following,
            float(np.abs(change).sum()) if transpose else (high - low) / 2,
            0.0 if transpose else (high + low) / 2,
        )
    following = np.empty_like(right)
    changes = _over_blocks(
        compiled.relax, len(right), *rows.parts, readable(right), discount, readable(now), following
    )
    lowest, highest = zip(*changes, strict=True)
    return following, (max(highest) - min(lowest)) / 2, (max(highest) + min(lowest)) / 2


def incomplete_factors(system: Rows) -> np.ndarray:
    """Entries `[nnz]` of L (unit diagonal, not stored) and U on the pattern of `system` (sorted,
    with diagonal). Needs numba.
    """
    entries = system.entries.copy()
    _needed().factor(
        system.pointers,
        system.columns,
        entries,
        np.full(len(system.pointers) - 1, -1, dtype=np.int64),
    )
    return entries


def bicgstab(
    system: Rows,
    factors: np.ndarray,
    right: np.ndarray,
    guess: np.ndarray,
    target: float,
    steps: int,
    total: bool,
) -> np.ndarray:
    """BiCGStab (van der Vorst 1992), preconditioned from the right by `incomplete_factors`. Needs
    numba.

    Until the residual of its own recurrence is at most `target` (its largest entry, or with `total`
    their sum), at most `steps` times, or until it breaks down. Nothing it returns is to be believed
    before the true residual is computed.
    """
    solution = guess.copy()
    _needed().bicgstab(
        *system.parts, readable(factors), readable(right), solution, target, steps, total
    )
    return solution


def gauss_seidel(system: Rows, right: np.ndarray, solution: np.ndarray, sweeps: int) -> None:
    """`sweeps` Gauss-Seidel sweeps forwards and back, in place on `solution [S]`. Needs numba."""
    for sweep in range(2 * sweeps):
        _needed().relax_rows(*system.parts, readable(right), solution, sweep % 2 == 1)


def flow_order(rows: Rows) -> np.ndarray:
    """States `[S]` (int32) ordered so that most transitions of `rows [S, S]` lead to an earlier
    one. Needs numba.
    """
    S = len(rows.pointers) - 1
    order, stack, following = (np.empty(S, dtype=np.int32) for _ in range(3))
    _needed().postorder(*rows.parts, order, stack, following, np.zeros(S, dtype=np.bool_))
    return order


def reachable(successors: np.ndarray, probabilities: np.ndarray, initial: np.ndarray) -> np.ndarray:
    """`[S]` booleans: states that some policy visits from the initial distribution."""
    seen = initial > 0
    if len(seen) > SMALL and (compiled := loops()) is not None:
        compiled.search(
            _unsigned(successors),
            readable(probabilities),
            seen,
            np.empty(len(seen), dtype=np.uint32),
        )
        return seen
    frontier = np.nonzero(seen)[0]
    while frontier.size:
        reached = successors[frontier][probabilities[frontier] > 0]
        frontier = np.unique(reached[~seen[reached]])
        seen[frontier] = True
    return seen


def order_rows(successors: np.ndarray, probabilities: np.ndarray) -> int:
    """Put the rows of both `[S, A, B]` (int32, float64) in order, in place; returns how many places
    of B any row needs.

    Successors increase and occur once (their probabilities are added, from the last to the first);
    unused places come last, as state 0.
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


def _unsigned(indices: np.ndarray) -> np.ndarray:
    return readable(indices).view(np.uint32)
