"""Transitions in their one form, and how arrays, step functions and tables become them.

`successors [S, A, B]` (int32) are increasing in every row, each once, unused places last with
probability 0; B is the largest number of successors of any pair. So equal models have equal bytes,
whichever way they were written: dense, sparse, as lists, as a function or as a table.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from sys import float_info
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.loops import bellman
from cmdpax.model.limits import NUMERIC, listed

ROW_SUM_TOLERANCE = 1e-8
PADDED_ENTRIES = 2_000_000_000  # refuse to allocate more than this for successors
DENSE_STATES, DENSE_ENTRIES = 256, 4_000_000  # up to here dense linear algebra is faster
NO_ACTIONS = "the action set is empty; every state needs at least one action."
Padded = tuple[np.ndarray, np.ndarray]  # successors and probabilities, [S, A, B]


@dataclass(frozen=True, eq=False)
class Transitions:
    """Checked rows in their one form, read-only, shared by models that differ in other things."""

    successors: np.ndarray  # [S, A, B]
    probabilities: np.ndarray  # [S, A, B]

    def __post_init__(self) -> None:
        self.successors.setflags(write=False)
        self.probabilities.setflags(write=False)

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


def read_rows(transitions: Any, available: Any) -> tuple[Transitions, np.ndarray | None]:
    """What a user gave as transitions, checked, and the mask of available pairs (None: all).

    Pairs that are not available are not looked at; they become copies of the state's first
    available one. Transitions of another model are taken as they are.
    """
    if isinstance(transitions, Transitions):
        return transitions, _availability(available, *transitions.successors.shape[:2])
    if isinstance(transitions, tuple) and len(transitions) == 2 and not sp.issparse(transitions[0]):
        rows = _lists(*(real_array("transitions", part) for part in transitions))
    else:
        rows = _padded(_matrix(transitions))
    mask = _availability(available, *rows[0].shape[:2])
    _check_rows(*rows, mask)
    if mask is not None:
        rows = _writeable(rows[0]), _writeable(rows[1])
        copy_first(mask, rows)
    return Transitions(*_canonical(*rows)), mask


def copy_first(available: np.ndarray, arrays: Iterable[np.ndarray]) -> None:
    """Overwrite unavailable actions of arrays `[S, A, ...]` by the state's first available one."""
    first = np.argmax(available, axis=1)
    state, action = np.nonzero(~available)
    for array in arrays:
        array[state, action] = array[state, first[state]]


def _availability(available: Any, S: int, A: int) -> np.ndarray | None:
    """The mask of available pairs, `[S, A]`, or None if all are."""
    if available is None:
        return None
    mask = np.array(real_array("available", available))
    if mask.shape != (S, A) or mask.dtype != bool:
        own = f"shape {mask.shape} of {mask.dtype}"
        raise InputError(f"available: {own}, expected {(S, A)} of bool.")
    if not mask.any(1).all():
        s = int(np.argmin(mask.any(1)))
        raise InputError(f"available[{s}]: {NO_ACTIONS}")
    mask.setflags(write=False)
    return None if mask.all() else mask


def _lists(successors: np.ndarray, probabilities: np.ndarray) -> Padded:
    """Successor lists as fresh arrays; read-only ones (of a memory-mapped file) as they are."""
    if successors.ndim != 3 or successors.shape != probabilities.shape:
        shapes = f"successors {successors.shape} and probabilities {probabilities.shape}"
        raise InputError(f"transitions: {shapes} must both be [S, A, B].")
    if not np.issubdtype(successors.dtype, np.integer):
        raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
    _refuse_empty(*successors.shape[:2])
    is_writeable = successors.flags.writeable or probabilities.flags.writeable
    if not is_writeable and probabilities.dtype == np.float64:
        return successors, probabilities
    return successors.copy(), probabilities.astype(np.float64, order="C")


def _matrix(transitions: Any) -> sp.csr_array:
    """Dense `[S, A, S]`, A sparse `[S, S]` or one `[S*A, S]`: fresh, as the last, row `s*A + a`."""
    if sp.issparse(transitions):
        shape = transitions.shape
        if len(shape) != 2 or shape[1] == 0 or shape[0] % shape[1]:
            expected = "[S*A, S] of one sparse matrix (row s*A + a)"
            raise InputError(f"transitions: shape {shape}, expected {expected}.")
        _refuse_empty(shape[1], shape[0])
        return sp.csr_array(transitions, copy=True)
    if isinstance(transitions, list | tuple) and any(sp.issparse(part) for part in transitions):
        S, A = next(part.shape[0] for part in transitions if sp.issparse(part)), len(transitions)
        for a, part in enumerate(transitions):
            if not sp.issparse(part) or part.shape != (S, S):
                raise InputError(f"transitions[{a}]: expected a sparse matrix {(S, S)} as others.")
        _refuse_empty(S, A)
        by_state = np.arange(S * A).reshape(A, S).T.ravel()
        return sp.csr_array(sp.vstack(transitions, format="csr"))[by_state]
    dense = float_array("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        expected = "[S, A, S] (or sparse matrices, or successor lists)"
        raise InputError(f"transitions: shape {dense.shape}, expected {expected}.")
    S, A, _ = dense.shape
    _refuse_empty(S, A)
    return sp.csr_array(dense.reshape(S * A, S))


def _refuse_empty(S: int, A: int) -> None:
    if S == 0:
        raise InputError("transitions: the model has no states; give at least one.")
    if A == 0:
        raise InputError(f"transitions: {NO_ACTIONS}")


def _padded(matrix: sp.csr_array) -> Padded:
    """Successor lists of a matrix `[S*A, S]`, which is changed."""
    if matrix.dtype.kind not in NUMERIC:
        raise InputError(f"transitions: it must hold real numbers, not {matrix.dtype}.")
    matrix.sum_duplicates()
    (pairs, S), counts = matrix.shape, np.diff(matrix.indptr)
    B = max(int(counts.max()), 1)
    shape = (S, pairs // S, B)
    refuse_huge(shape)
    successors, probabilities = np.zeros((pairs, B), dtype=np.int32), np.zeros((pairs, B))
    row = np.repeat(np.arange(pairs), counts)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    successors[row, place] = matrix.indices
    probabilities[row, place] = matrix.data
    return successors.reshape(shape), probabilities.reshape(shape)


def refuse_huge(shape: tuple[int, ...]) -> None:
    """Refuse to allocate transitions of an absurd size, before allocating."""
    if float(np.prod([float(size) for size in shape])) > PADDED_ENTRIES:
        raise InputError(
            f"transitions: padded shape {shape} would need more than {PADDED_ENTRIES:.0e} entries;"
            " split the pair with the most successors by intermediate states."
        )


def _check_rows(
    successors: np.ndarray, probabilities: np.ndarray, available: np.ndarray | None
) -> None:
    """Successors are states; probabilities are finite, >= 0 and sum to 1, in available pairs."""
    S = len(successors)
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that overflows is wrong all the same
        total = probabilities.sum(-1)
    off = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE)
    if not off.any() and probabilities.min() >= 0 and 0 <= successors.min() <= successors.max() < S:
        return  # as nearly always; what follows needs arrays as large as the model
    exists = np.ones(off.shape, dtype=bool) if available is None else available
    is_state = (successors >= 0) & (successors < S)
    pair = "probability of state {s}, action {a}, successor {to} is {chance};"
    for wrong, sentence in (
        (~is_state, "successor {to} at [{s}, {a}, {b}] is out of range; states are 0..{last}."),
        (~np.isfinite(probabilities), f"{pair} every entry must be finite."),
        (probabilities < 0, f"{pair} none may be negative."),
    ):
        for s, a, b in np.argwhere(wrong & exists[:, :, None])[:1]:
            numbers = {"to": successors[s, a, b], "chance": probabilities[s, a, b], "last": S - 1}
            raise InputError(f"transitions: {sentence.format(s=s, a=a, b=b, **numbers)}")
    off &= exists
    for s, a in np.argwhere(off)[:1]:
        others = int(off.sum()) - 1
        also = f" ({others} more pairs too)" if others else ""
        wrong = f"state {s}, action {a} sum to {total[s, a]:.9g}, not 1{also}"
        raise InputError(f"transitions: probabilities of {wrong}; normalise them.")


def _canonical(successors: np.ndarray, probabilities: np.ndarray) -> Padded:
    """Checked rows `[S, A, B]` in their one form; writeable ones are changed in place."""
    if _is_canonical(successors, probabilities):
        return successors, probabilities
    successors = _writeable(successors.astype(np.int32, copy=False))
    probabilities = _writeable(probabilities)
    needed = bellman.order_rows(successors, probabilities)
    successors = np.ascontiguousarray(successors[:, :, :needed])
    return successors, normalised(np.ascontiguousarray(probabilities[:, :, :needed]))


def _is_canonical(successors: np.ndarray, probabilities: np.ndarray) -> bool:
    """Whether rows are in their one form already, as in every file that cmdpax has written."""
    is_contiguous = successors.flags.c_contiguous and probabilities.flags.c_contiguous
    if successors.dtype != np.int32 or not is_contiguous:
        return False
    used = probabilities > 0
    rising = (successors[:, :, 1:] > successors[:, :, :-1]) | ~used[:, :, 1:]
    leading = used[:, :, :-1] | ~used[:, :, 1:]
    plain = rising.all() and leading.all() and used[:, :, -1].any() and not successors[~used].any()
    return bool(plain) and not (np.abs(probabilities.sum(-1) - 1) > _rounding(probabilities)).any()


def _writeable(array: np.ndarray) -> np.ndarray:
    """The array itself, or a copy of a read-only one."""
    return array if array.flags.writeable else np.array(array)


def _rounding(probabilities: np.ndarray) -> float:
    """How far a sum over the last axis may be from 1 by rounding alone."""
    return float((probabilities.shape[-1] + 1) * np.finfo(np.float64).eps)


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """Distributions `[..., n]` divided by their sums, in place.

    Those that sum to 1 up to rounding keep their bits. Division is not idempotent: otherwise a
    model would change a little every time it is saved and loaded.
    """
    total = probabilities.sum(-1, keepdims=True)
    rounding = _rounding(probabilities)
    if (np.abs(total - 1) > rounding).any():
        probabilities /= np.where(np.abs(total - 1) <= rounding, 1.0, total)
    return probabilities


def real_array(field: str, data: Any) -> np.ndarray:
    """Data as an array of real numbers; None, text, objects and ragged rows are refused."""
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


class Pair(NamedTuple):
    """An available pair of a state and an action: where it leads, and what it pays."""

    state: int
    action: int
    successors: Mapping[int, float]  # {next state: probability}
    reward: float
    constraints: Sequence[float] | np.ndarray  # [m]


def from_pairs(pairs: Sequence[Pair], S: int, A: int, m: int) -> dict[str, Any]:
    """Arrays of a model whose pairs are listed; those that are not are unavailable."""
    B = max((len(pair.successors) for pair in pairs), default=0) or 1
    refuse_huge((S, A, B))
    successors, probabilities = np.zeros((S, A, B), dtype=np.int32), np.zeros((S, A, B))
    reward, constraints = np.zeros((S, A)), np.zeros((m, S, A))
    available = np.zeros((S, A), dtype=bool)
    for s, a, chances, gain, values in pairs:
        successors[s, a, : len(chances)] = list(chances)
        probabilities[s, a, : len(chances)] = list(chances.values())
        reward[s, a], constraints[:, s, a], available[s, a] = gain, values, True
    rewards = {"reward": reward, "constraints": constraints}
    return {"transitions": (successors, probabilities), "available": available, **rewards}


def step_fields(
    states: Sequence[Hashable],
    actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
    step: Callable[[Any, Any], tuple[Mapping[Any, float], float, Sequence[float]]],
    thresholds: Sequence[float],
    initial: Mapping[Any, float],
) -> dict[str, Any]:
    """Fields of a model given by `step(state, action)`; see `CMDP.from_step`."""
    states = list(states)
    if not isinstance(initial, Mapping):
        raise InputError("initial: give a mapping of states to probabilities, as {'idle': 1.0}.")
    index = {state: s for s, state in enumerate(states)}
    if (different := len(index)) < len(states):
        raise InputError(f"states: {len(states)} given, {different} differ; list each once.")
    names: dict[Any, int] = {}
    pairs, m = [], len(listed(thresholds))
    for s, state in enumerate(states):
        options = actions(state) if callable(actions) else actions
        if isinstance(options, str):
            raise InputError(f"actions: state {state!r} has the text {options!r}; give a list.")
        if not (options := list(options)):
            raise InputError(f"state {state!r}: {NO_ACTIONS}")
        for option in options:
            a, called = names.setdefault(option, len(names)), f"step({state!r}, {option!r})"
            chances, reward, values = _outcome(called, step(state, option), index, m)
            pairs.append(Pair(s, a, chances, reward, values))
    start = np.zeros(len(states))
    for state, probability in initial.items():
        if state not in index:
            raise InputError(f"initial: {state!r} is not one of the states.")
        start[index[state]] = real_number(f"initial, state {state!r}", probability)
    return {
        **from_pairs(pairs, len(states), len(names), m),
        "thresholds": thresholds,
        "initial": start,
        "state_names": [str(state) for state in states],
        "action_names": [str(action) for action in names],
    }


def _outcome(
    called: str, outcome: Any, index: Mapping[Any, int], m: int
) -> tuple[dict[int, float], float, np.ndarray]:
    """What a step returned: probabilities by index, reward, constraint values `[m]`."""
    try:
        chances, reward, values = outcome
        chances, reward = dict(chances), float(reward)
        costs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        wanted = "({next_state: probability}, reward, [constraint values])"
        raise InputError(f"{called}: return {wanted}.") from None
    if costs.shape != (m,):
        what = f"the number {values} as its" if costs.ndim == 0 else f"{costs.size}"
        example = f", as in [{values}]" if costs.ndim == 0 else ""
        wanted = f"return a list of {m}{example}"
        raise InputError(f"{called} returned {what} constraint values; {wanted}.")
    numbers = {}
    for successor, chance in chances.items():
        if successor not in index:
            raise InputError(f"{called}: successor {successor!r} is not one of the states.")
        numbers[index[successor]] = real_number(f"{called}, probability of {successor!r}", chance)
    return numbers, reward, costs


def toy_text_fields(
    env: Any, cost: Callable[[int, int, int], float], initial: Any = None
) -> dict[str, Any]:
    """Fields of a Gymnasium toy-text environment; see `CMDP.from_toy_text`."""
    own = getattr(env, "unwrapped", env)
    table = getattr(own, "P", None)
    if table is None:
        raise InputError(
            "environment: it has no transition table `unwrapped.P`, as FrozenLake, Taxi and"
            " CliffWalking have; build the model with CMDP.from_step, or train on the simulator."
        )
    end, A = len(table), len(table[0])
    pairs = [Pair(end, a, {end: 1.0}, 0.0, [0.0]) for a in range(A)]
    for s in range(end):
        for a in range(A):
            chances: dict[int, float] = {}
            reward = costs = 0.0
            for probability, successor, gain, terminated in table[s][a]:
                target = end if terminated else int(successor)
                chances[target] = chances.get(target, 0.0) + probability
                reward += probability * gain
                paid = cost(s, a, int(successor))
                costs += probability * real_number(f"cost({s}, {a}, {successor})", paid)
            pairs.append(Pair(s, a, chances, reward, [costs]))
    start = getattr(own, "initial_state_distrib", None) if initial is None else initial
    if start is None:
        raise InputError("initial: the environment does not tell it; give the distribution [S].")
    return {
        **from_pairs(pairs, end + 1, A, 1),
        "initial": np.append(float_array("initial", start), 0.0),
        "state_names": [*(str(s) for s in range(end)), "end"],
    }
