"""Transitions in their one form, and how arrays, step functions and tables become them.

`successors [S, A, B]` (int32) are increasing in every row, each once, unused places last with
probability 0; B is the largest number of successors of any pair. So equal models have equal bytes,
whichever way they were written: dense, sparse, as lists, as a function or as a table.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.loops import bellman
from cmdpax.model.limits import listed

ROW_SUM_TOLERANCE = 1e-8
PADDED_ENTRIES = 2_000_000_000  # refuse to allocate more than this for successors
DENSE_STATES, DENSE_ENTRIES = 256, 4_000_000  # up to here dense linear algebra is faster
NUMERIC = "biuf"  # NumPy's kinds of real numbers


@dataclass(frozen=True, eq=False)
class Transitions:
    """Checked rows in their one form, read-only, shared by models that differ in other things."""

    successors: np.ndarray  # [S, A, B]
    probabilities: np.ndarray  # [S, A, B]

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transition matrix `[S*A, S]`, row `s*A + a`."""
        S, A, _ = self.successors.shape
        used = self.probabilities > 0
        pointers = np.append(0, np.cumsum(used.sum(-1)))
        entries = (self.probabilities[used], self.successors[used], pointers)
        return sp.csr_array(entries, shape=(S * A, S), copy=False)

    @cached_property
    def tensor(self) -> np.ndarray:
        """Dense transitions `[S, A, S]`; only where `is_small`."""
        S, A, _ = self.successors.shape
        return self.matrix.toarray().reshape(S, A, S)

    @property
    def is_small(self) -> bool:
        """Whether dense linear algebra is the better choice; batches of policies need it."""
        S, A, _ = self.successors.shape
        return S <= DENSE_STATES and S**2 * A <= DENSE_ENTRIES


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
    needed = bellman.order_rows(successors, probabilities)
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


def step_fields(
    states: Sequence[Hashable],
    actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
    step: Callable[[Any, Any], tuple[Mapping[Any, float], float, Sequence[float]]],
    thresholds: Sequence[float],
    initial: Mapping[Any, float],
) -> dict[str, Any]:
    """Arrays of a model given by `step(state, action)`; see `CMDP.from_step`."""
    states = list(states)
    if not isinstance(initial, Mapping):
        raise InputError(
            "initial: give a mapping of states to probabilities, for example {'idle': 1.0}."
        )
    state_index = {state: index for index, state in enumerate(states)}
    if len(state_index) < len(states):
        raise InputError(
            f"states: {len(states)} given, but only {len(state_index)} differ; list each once."
        )
    choices: dict[Any, list[Any]] = {}
    for state in states:
        options = actions(state) if callable(actions) else actions
        if isinstance(options, str):
            raise InputError(
                f"actions: for state {state!r} they are the text {options!r}; give a list of"
                " actions."
            )
        choices[state] = list(options)
    names: dict[Any, int] = {}
    for state, options in choices.items():
        if not options:
            raise InputError(
                f"state {state!r}: the action set is empty; every state needs at least one action."
            )
        for option in options:
            names.setdefault(option, len(names))
    S, A, m = len(states), len(names), len(listed(thresholds))
    reward, constraints, available = (
        np.zeros((S, A)),
        np.zeros((m, S, A)),
        np.zeros((S, A), dtype=bool),
    )
    rows: dict[tuple[int, int], Mapping[Any, float]] = {}
    for state, s in state_index.items():
        for option in choices[state]:
            a = names[option]
            outcome = step(state, option)
            try:
                following, reward[s, a], values = outcome
                rows[s, a], costs = dict(following), np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    f"step({state!r}, {option!r}): return ({{next_state: probability}}, reward,"
                    " [constraint rewards])."
                ) from None
            if costs.ndim == 0:
                raise InputError(
                    f"step({state!r}, {option!r}) returned the number {values} as its constraint"
                    f" values; return a list of {m}, as in [{values}]."
                )
            if costs.shape != (m,):
                raise InputError(
                    f"step({state!r}, {option!r}) returned {costs.size} constraint values for {m}"
                    " thresholds; return one for each."
                )
            constraints[:, s, a] = costs
            available[s, a] = True
    successors, probabilities = padded_rows(
        rows, state_index, S, A, name=lambda s, a: f"step({states[s]!r}, ...)"
    )
    start = np.zeros(S)
    for state, probability in initial.items():
        if state not in state_index:
            raise InputError(f"initial: {state!r} is not one of the states.")
        start[state_index[state]] = real_number(f"initial, state {state!r}", probability)
    return {
        "transitions": (successors, probabilities),
        "reward": reward,
        "constraints": constraints,
        "thresholds": thresholds,
        "initial": start,
        "available": None if available.all() else available,
        "state_names": [str(state) for state in states],
        "action_names": [str(action) for action in names],
    }


def toy_text_fields(
    env: Any, cost: Callable[[int, int, int], float], initial: Any = None
) -> dict[str, Any]:
    """Arrays of a Gymnasium toy-text environment; see `CMDP.from_toy_text`."""
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise InputError(
            "environment: it has no transition table `unwrapped.P`, as FrozenLake, Taxi and"
            " CliffWalking have; build the model with CMDP.from_step, or train on the simulator."
        )
    S, A = len(table) + 1, len(table[0])
    reward, costs = np.zeros((S, A)), np.zeros((1, S, A))
    rows: dict[tuple[int, int], Mapping[Any, float]] = {(S - 1, a): {S - 1: 1.0} for a in range(A)}
    for s in range(S - 1):
        for a in range(A):
            following: dict[int, float] = {}
            for probability, successor, gain, terminated in table[s][a]:
                target = S - 1 if terminated else int(successor)
                following[target] = following.get(target, 0.0) + probability
                reward[s, a] += probability * gain
                costs[0, s, a] += probability * real_number(
                    f"cost({s}, {a}, {successor})", cost(s, a, int(successor))
                )
            rows[s, a] = following
    start = (
        initial if initial is not None else getattr(env.unwrapped, "initial_state_distrib", None)
    )
    if start is None:
        raise InputError(
            "initial: the environment does not tell its initial distribution; give `initial` [S]."
        )
    start = np.append(float_array("initial", start), 0.0)
    return {
        "transitions": padded_rows(rows, {s: s for s in range(S)}, S, A),
        "reward": reward,
        "constraints": costs,
        "initial": start,
        "state_names": [*(str(s) for s in range(S - 1)), "end"],
    }
