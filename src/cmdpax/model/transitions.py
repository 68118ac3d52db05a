"""Transitions in their one form: padded successor lists, checked and sorted; and how numbers come
in at all.

`successors [S, A, B]` (int32) are increasing in every row, each once, unused places last with
probability 0; B is the largest number of successors of any pair. So equal models have equal bytes,
whichever way they were written: dense, sparse or as lists.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.loops import bellman as kernels

ROW_SUM_TOLERANCE = 1e-8
PADDED_ENTRIES = 2_000_000_000  # refuse to allocate more than this for successors
NUMERIC = "biuf"  # NumPy's kinds of real numbers


def padded_rows(
    rows: Mapping[tuple[int, int], Mapping[Any, float]],
    index: Mapping[Any, int],
    S: int,
    A: int,
    name: Callable[[int, int], str] = lambda s, a: f"transitions[{s}, {a}]",
) -> tuple[np.ndarray, np.ndarray]:
    """Padded successors and probabilities `[S, A, B]` from `{(s, a): {next: probability}}`; missing
    pairs stay empty.
    """
    B = max((len(row) for row in rows.values()), default=1) or 1
    refuse_huge((S, A, B))
    successors, probabilities = np.zeros((S, A, B), dtype=np.int32), np.zeros((S, A, B))
    for (s, a), row in rows.items():
        for place, (following, probability) in enumerate(row.items()):
            if following not in index:
                raise InputError(
                    f"{name(s, a)}: successor {following!r} is not one of the {S} states."
                )
            successors[s, a, place] = index[following]
            probabilities[s, a, place] = real_number(
                f"{name(s, a)}, probability of {following!r}", probability
            )
    return successors, probabilities


def padded(transitions: Any) -> tuple[np.ndarray, np.ndarray]:
    """Any accepted form of transitions as (successors, probabilities) `[S, A, B]`, not yet checked.

    Fresh arrays, except that read-only ones (of a memory-mapped file) are taken as they are.
    """
    if isinstance(transitions, tuple) and len(transitions) == 2 and not sp.issparse(transitions[0]):
        successors, probabilities = (real_array("transitions", part) for part in transitions)
        if successors.ndim != 3 or successors.shape != probabilities.shape:
            raise InputError(
                f"transitions: successors {successors.shape} and probabilities"
                f" {probabilities.shape} must both be [S, A, B]."
            )
        if not np.issubdtype(successors.dtype, np.integer):
            raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
        if (
            not (successors.flags.writeable or probabilities.flags.writeable)
            and probabilities.dtype == np.float64
        ):
            return successors, probabilities
        return successors.copy(), probabilities.astype(np.float64, order="C")
    if sp.issparse(transitions):
        return _padded_from_stack(transitions)
    if isinstance(transitions, (list, tuple)) and any(sp.issparse(part) for part in transitions):
        return _padded_from_sparse(transitions)
    dense = float_array("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InputError(
            f"transitions: shape {dense.shape}, expected [S, A, S] (or sparse matrices, or padded"
            " successors)."
        )
    S, A, _ = dense.shape
    if S == 0 or A == 0:
        return np.zeros((S, A, 1), dtype=np.int32), np.zeros((S, A, 1))
    return _padded_from_matrix(sp.csr_array(dense.reshape(S * A, S)))


def _padded_from_sparse(matrices: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """From A sparse matrices `[S, S]`, one per action."""
    if not all(sp.issparse(part) for part in matrices):
        raise InputError(
            "transitions: some parts are sparse matrices and others are not; give A sparse matrices"
            " [S, S]."
        )
    S, A = matrices[0].shape[0], len(matrices)
    for a, matrix in enumerate(matrices):
        if matrix.shape != (S, S):
            raise InputError(
                f"transitions[{a}]: shape {matrix.shape}, expected {(S, S)} as in transitions[0]."
            )
        if matrix.dtype.kind not in NUMERIC:
            raise InputError(f"transitions[{a}]: it must hold real numbers, not {matrix.dtype}.")
    by_action = sp.csr_array(sp.vstack(matrices, format="csr"))
    by_state = np.arange(S * A).reshape(A, S).T.ravel()
    return _padded_from_matrix(by_action[by_state])


def _padded_from_stack(matrix: Any) -> tuple[np.ndarray, np.ndarray]:
    """From one sparse matrix `[S*A, S]`, row `s*A + a`, as a user gives it."""
    if len(matrix.shape) != 2 or matrix.shape[1] == 0 or matrix.shape[0] % matrix.shape[1]:
        raise InputError(
            f"transitions: shape {matrix.shape}, expected [S*A, S] of one sparse matrix (row s*A"
            " + a)."
        )
    if matrix.dtype.kind not in NUMERIC:
        raise InputError(f"transitions: it must hold real numbers, not {matrix.dtype}.")
    rows = sp.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    return _padded_from_matrix(rows)


def _padded_from_matrix(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """From one sparse matrix `[S*A, S]`, row `s*A + a`."""
    pairs, S = matrix.shape
    if S == 0:
        return np.zeros((0, 1, 1), dtype=np.int32), np.zeros((0, 1, 1))
    counts = np.diff(matrix.indptr)
    B = max(int(counts.max()), 1)
    shape = (S, pairs // S, B)
    refuse_huge(shape)
    successors, probabilities = np.zeros((pairs, B), dtype=np.int32), np.zeros((pairs, B))
    row = np.repeat(np.arange(pairs), counts)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    successors[row, place] = matrix.indices
    probabilities[row, place] = matrix.data
    return successors.reshape(shape), probabilities.reshape(shape)


def canonical(successors: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked rows `[S, A, B]` in their one form: see above; no more places than needed. Writeable
    ones are changed in place.
    """
    if is_canonical(successors, probabilities):
        return successors, probabilities
    successors, probabilities = (
        writeable(successors.astype(np.int32, copy=False)),
        writeable(probabilities),
    )
    needed = kernels.order_rows(successors, probabilities)
    return np.ascontiguousarray(successors[:, :, :needed]), normalised(
        np.ascontiguousarray(probabilities[:, :, :needed])
    )


def is_canonical(successors: np.ndarray, probabilities: np.ndarray) -> bool:
    """Whether checked rows `[S, A, B]` are in their one form already, as in every file that cmdpax
    has written.
    """
    if successors.dtype != np.int32 or not (
        successors.flags.c_contiguous and probabilities.flags.c_contiguous
    ):
        return False
    used = probabilities > 0
    rising = (successors[:, :, 1:] > successors[:, :, :-1]) | ~used[:, :, 1:]
    leading = used[:, :, :-1] | ~used[:, :, 1:]
    plain = rising.all() and leading.all() and used[:, :, -1].any() and not successors[~used].any()
    return bool(plain) and not (np.abs(probabilities.sum(-1) - 1) > _rounding(probabilities)).any()


def writeable(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy of a read-only one."""
    return array if array.flags.writeable else np.array(array)


def _rounding(probabilities: np.ndarray) -> float:
    """How far a sum over the last axis may be from 1 by rounding alone."""
    return float((probabilities.shape[-1] + 1) * np.finfo(np.float64).eps)


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """Distributions `[..., n]` that sum to 1, in place; those that already do, up to rounding, keep
    their bits.

    Division is not idempotent: without the exception a model would change a little every time it is
    saved and loaded.
    """
    total = probabilities.sum(-1, keepdims=True)
    rounding = _rounding(probabilities)
    if (np.abs(total - 1) > rounding).any():
        probabilities /= np.where(np.abs(total - 1) <= rounding, 1.0, total)
    return probabilities


def copy_first(available: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
    """Overwrite every unavailable action of arrays `[S, A, ...]` by the state's first available
    one, in place.
    """
    first = np.argmax(available, axis=1)
    state, action = np.nonzero(~available)
    for array in arrays:
        array[state, action] = array[state, first[state]]


def refuse_huge(shape: tuple[int, ...]) -> None:
    """Refuse to allocate transitions of an absurd size, before allocating."""
    if float(np.prod([float(size) for size in shape])) > PADDED_ENTRIES:
        raise InputError(
            f"transitions: padded shape {shape} would need more than {PADDED_ENTRIES:.0e} entries;"
            " split the pair with the most successors by intermediate states."
        )


def check_rows(
    successors: np.ndarray, probabilities: np.ndarray, available: np.ndarray | None
) -> None:
    """Rows `[S, A, B]`: successors are states; probabilities are finite, >= 0 and sum to 1;
    unavailable pairs do not matter.
    """
    S = len(successors)
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that overflows is wrong all the same
        total = probabilities.sum(-1)
    off = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE)
    if (
        not off.any()
        and successors.min() >= 0
        and successors.max() < S
        and probabilities.min() >= 0
    ):
        # as nearly always; what follows finds out what is wrong, and needs arrays as large as the
        # model
        return
    every = np.True_ if available is None else available[:, :, None]
    wrong = ((successors < 0) | (successors >= S)) & every
    if wrong.any():
        s, a, b = (int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"transitions: successor {successors[s, a, b]} at [{s}, {a}, {b}] is out of range;"
            f" states are 0..{S - 1}."
        )
    for bad, what in (
        (~np.isfinite(probabilities), "every entry must be finite"),
        (probabilities < 0, "none may be negative"),
    ):
        wrong = bad & every
        if wrong.any():
            s, a, b = (int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"transitions: probability of state {s}, action {a}, successor"
                f" {successors[s, a, b]} is {probabilities[s, a, b]}; {what}."
            )
    off &= np.True_ if available is None else available
    if off.any():
        s, a = (int(i) for i in np.argwhere(off)[0])
        others = int(off.sum()) - 1
        also = f" ({others} more pairs too)" if others else ""
        raise InputError(
            f"transitions: probabilities of state {s}, action {a} sum to {total[s, a]:.9g}, not"
            f" 1{also}; normalise them."
        )


def real_array(field: str, data: Any) -> np.ndarray:
    """Data as an array of real numbers; what NumPy would only guess at (None, text, objects, ragged
    rows) is refused.
    """
    try:
        array = np.asarray(data)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in NUMERIC:
        raise InputError(f"{field}: it must be an array of real numbers with rows of equal length.")
    return array


def float_array(field: str, data: Any) -> np.ndarray:
    """Data as a float64 array; see `real_array`."""
    return real_array(field, data).astype(np.float64, copy=False)


def real_number(what: str, value: Any) -> float:
    """A finite number; `what` names it in the error."""
    is_real = isinstance(value, Real)
    if not is_real or not -float_info.max <= value <= float_info.max:
        raise InputError(f"{what}: {value!r} is not a finite number.")
    return float(value)
