"""Rows as users give them: dense, sparse, as lists of successors or of choices, with goals.

Whatever the form, `read_rows` says which rows came (`Raw`), selects those that are kept, and
checks them into the one form of `transitions.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.loops import bellman
from cmdpax.model.limits import NUMERIC
from cmdpax.model.numbers import (
    NORMALISE,
    ROW_SUM_TOLERANCE,
    float_array,
    real_array,
    refuse_huge,
    rounding,
    say_divided,
)
from cmdpax.model.transitions import Array, Transitions, entries_of

WASTE = 0.1  # share of an array that may stay unused at its end
CUBE = "transitions: as many states as actions; read as [S, A, S], from_mdptoolbox reads [A, S, S]."
FORMS = (
    "[S, A, S], [A, S, S], successor lists, sparse matrices, one [S*A, S], or for every state a"
    " list of choices {next state: probability}"
)
NO_ACTIONS = "the action set is empty; every state needs at least one action."


class RowLists(NamedTuple):
    """Rows by choice, one after another: what a user may give as transitions, with `first_choice`.

    Those of choice k are at `first_entry[k] .. first_entry[k + 1] - 1`.
    """

    first_entry: Array  # [K + 1] integers
    successors: Array  # [e] integers
    probabilities: Array  # [e]


class Raw(NamedTuple):
    """Rows as they came, before anything is checked; nobody writes to them."""

    first_choice: Array  # [S + 1]
    first_entry: Array  # [K + 1]
    successors: Array  # [e], any integers
    probabilities: Array  # [e] float64
    actions: int  # A
    labels: Array | None = None  # [K]


class Kept(NamedTuple):
    """Which rows of what a user gave are the model's."""

    rows: Array  # [K], as they came; -1: the new choice of a goal
    came: int  # so many


def read_rows(
    transitions: Any,
    available: Any = None,
    first_choice: Any = None,
    goal: Callable[[int], Array] | None = None,
) -> tuple[Transitions, Kept | None]:
    """What a user gave as transitions, checked, and which rows of it are kept (None: all).

    goal: `goal(S)` marks goals, `[S]` booleans; they get one choice, to stay. Rows that are not
    kept are not looked at. Transitions of another model are taken as they are.
    """
    is_own = isinstance(transitions, Transitions)
    if is_own and available is None and goal is None:
        return transitions, None
    raw, rows = _raw(transitions, first_choice), None
    S, count = len(raw.first_choice) - 1, len(raw.first_entry) - 1
    ended = np.zeros(S, dtype=bool) if goal is None else goal(S)
    if available is not None:
        A = None if first_choice is not None else raw.actions
        mask = _availability(available, A, ended)
        if A is None:
            raw = _labelled(raw, mask)
        elif not mask.all() or is_own:
            raw, rows = _available(raw, mask)
    if goal is not None:
        raw, own = _with_goal(raw, ended)
        rows = own if rows is None else np.where(own < 0, -1, rows[own])
    for s in np.flatnonzero(np.diff(raw.first_choice) == 0)[:1].tolist():
        raise InputError(f"transitions, state {s}: {NO_ACTIONS}")
    return _canonical(raw), None if rows is None else Kept(rows, count)


def _raw(transitions: Any, first_choice: Any) -> Raw:
    """Rows as they came, in whatever form."""
    if isinstance(transitions, Transitions):
        if first_choice is not None:
            raise InputError("first_choice: the transitions are a model's, which has its own.")
        t = transitions
        arrays = t.first_choice, t.first_entry, t.successors, t.probabilities
        return Raw(*arrays, t.actions, t.action_of)
    if isinstance(transitions, Array) and transitions.dtype == object:
        transitions = list(transitions.ravel())  # mdptoolbox has arrays of sparse matrices
    if transitions is None or isinstance(transitions, str | Mapping):
        raise InputError(f"transitions: a {type(transitions).__name__}, expected {FORMS}.")
    if isinstance(transitions, list | tuple) and _are_choices(transitions):
        if first_choice is not None:
            raise InputError("first_choice: these lists of choices need none; leave it out.")
        return _mappings(transitions)
    if isinstance(transitions, RowLists):
        return _row_lists(transitions, first_choice)
    is_pair = isinstance(transitions, tuple) and len(transitions) == 2
    if is_pair and not any(map(sp.issparse, transitions)):
        successors, chances = (real_array("transitions", part) for part in transitions)
        return _lists(successors, chances, first_choice)
    matrix, S, A = _matrix(transitions, first_choice is not None)
    if matrix.dtype.kind not in NUMERIC:
        raise InputError(f"transitions: it must hold real numbers, not {matrix.dtype}.")
    parts = matrix.indptr, matrix.indices, matrix.data.astype(np.float64, copy=False)
    if first_choice is None:
        return Raw(np.arange(S + 1) * A, *parts, A)
    pointers = pointers_of("first_choice", first_choice, S, matrix.shape[0])
    return Raw(pointers, *parts, int(np.diff(pointers).max(initial=1)))


def _matrix(transitions: Any, is_by_choice: bool) -> tuple[sp.csr_array, int, int]:
    """Matrices, dense or sparse, as one `[K, S]`, state after state; S, and A unless by choice."""
    is_sparse = sp.issparse(transitions)
    if isinstance(transitions, list | tuple) and any(map(sp.issparse, transitions)):
        S, A = next(part.shape[0] for part in transitions if sp.issparse(part)), len(transitions)
        for a, part in enumerate(transitions):
            if not sp.issparse(part) or part.shape != (S, S):
                raise InputError(f"transitions[{a}]: expected a sparse matrix {(S, S)} as others.")
        _refuse_empty(S, A)
        by_state = np.arange(S * A).reshape(A, S).T.ravel()
        return sp.csr_array(sp.vstack(transitions, format="csr"))[by_state], S, A
    if _are_matrices(transitions):  # an array of this shape would be [S, A, S]
        transitions = np.stack(transitions, 1)
    array = transitions if is_sparse else float_array("transitions", transitions)
    if array.ndim == 3 and array.shape[0] != array.shape[2] and array.shape[1] == array.shape[2]:
        array = array.transpose(1, 0, 2)  # A matrices [S, S]
    shape = array.shape
    if len(shape) == 3 and shape[0] == shape[2] and not is_by_choice:
        S, A, _ = shape
        _refuse_empty(S, A)
        return sp.csr_array(array.reshape(S * A, S)), S, A
    is_whole = len(shape) == 2 and (is_by_choice or (shape[1] > 0 and shape[0] % shape[1] == 0))
    if not is_whole:
        wanted = "[choices, S] with first_choice=; or leave that out" if is_by_choice else FORMS
        raise InputError(f"transitions: shape {shape}, expected {wanted}.")
    rows, S = shape
    _refuse_empty(S, rows)
    return sp.csr_array(array), S, 0 if is_by_choice else rows // S


def is_cube(transitions: Any) -> bool:
    """Whether an array could be `[S, A, S]` and `[A, S, S]`, of two different models."""
    is_array = isinstance(transitions, Array) and transitions.ndim == 3
    is_same = is_array and len(set(transitions.shape)) == 1
    return is_same and not np.array_equal(transitions, transitions.swapaxes(0, 1))


def _are_matrices(transitions: Any) -> bool:
    """Whether they are a list of as many square matrices as these have rows."""
    if not isinstance(transitions, list | tuple) or not len(transitions):
        return False
    cube = (len(transitions),) * 2
    return all(isinstance(part, Array) and part.shape == cube for part in transitions)


def _are_choices(transitions: Sequence[Any]) -> bool:
    """Whether a list has, for some state, a list of choices or what was meant as one."""
    if any(isinstance(own, Array) or sp.issparse(own) for own in transitions):
        return False
    lists = (own if isinstance(own, list | tuple) else [own] for own in transitions)
    return any(isinstance(choice, Mapping) for own in lists for choice in own)


def _mappings(transitions: Sequence[Sequence[Mapping[int, float]]]) -> Raw:
    """A list of states, each a list of choices `{next state: probability}`."""
    for s, own in enumerate(transitions):
        if not (isinstance(own, list | tuple) and all(isinstance(k, Mapping) for k in own)):
            what = f"transitions, state {s}: {str(own)[:80]}"
            raise InputError(f"{what} is no list of choices {{next state: probability}}.")
    choices = [choice for state in transitions for choice in state]
    counts, lengths = [len(state) for state in transitions], [len(choice) for choice in choices]
    states = np.array([to for choice in choices for to in choice])
    chances = np.array([chance for choice in choices for chance in choice.values()])
    if states.dtype.kind not in "iu" or chances.dtype.kind not in NUMERIC:
        for s, own in enumerate(transitions):
            for a, choice in enumerate(own):
                _check_choice(f"transitions, state {s}, choice {a}", choice)
    pointers = np.append(0, np.cumsum(counts)), np.append(0, np.cumsum(lengths))
    numbers = states.astype(np.int64), chances.astype(np.float64)
    return Raw(*pointers, *numbers, max(counts, default=1))


def _check_choice(where: str, choice: Mapping[Any, Any]) -> None:
    """Refuse what is no `{next state: probability}`."""
    for to, chance in choice.items():
        is_number = isinstance(to, int | np.integer) and not isinstance(to, bool)
        if not is_number or abs(to) >= 1 << 62:
            advice = (
                "CMDP.from_step takes names"
                if isinstance(to, str)
                else "states are numbered from 0"
            )
            raise InputError(f"{where}: {to!r} is not the number of a state; {advice}.")
        if not isinstance(chance, Real):
            raise InputError(f"{where}: the probability of {to} is {chance!r}, not a number.")


def _lists(successors: Array, probabilities: Array, first_choice: Any) -> Raw:
    """Successor lists `[S, A, B]`, or `[K, B]` with the first choice of every state."""
    axes = 3 if first_choice is None else 2
    if successors.ndim != axes or successors.shape != probabilities.shape:
        shapes = f"successors {successors.shape} and probabilities {probabilities.shape}"
        wanted = "[S, A, B], or [choices, B] with first_choice=" if axes == 3 else "[choices, B]"
        advice = "; matrices of actions go into a list" if successors.ndim == 2 == axes - 1 else ""
        raise InputError(f"transitions: {shapes} must both be {wanted}{advice}.")
    if not np.issubdtype(successors.dtype, np.integer):
        raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
    K, B = int(np.prod(successors.shape[:-1])), successors.shape[-1]
    chances = probabilities.astype(np.float64, copy=False)
    parts = np.arange(K + 1) * B, successors.reshape(-1), chances.reshape(-1)
    if first_choice is None:
        S, A, _ = successors.shape
        _refuse_empty(S, A)
        return Raw(np.arange(S + 1) * A, *parts, A)
    pointers = pointers_of("first_choice", first_choice, max(np.size(first_choice) - 1, 0), K)
    return Raw(pointers, *parts, int(np.diff(pointers).max(initial=1)))


def _row_lists(rows: RowLists, first_choice: Any) -> Raw:
    """Rows by choice, whose pointers are checked."""
    chances = float_array("probabilities", rows.probabilities)
    if chances.ndim != 1 or np.shape(rows.successors) != chances.shape:
        shapes = f"successors {np.shape(rows.successors)} and probabilities {chances.shape}"
        raise InputError(f"transitions: {shapes} must both be [entries].")
    successors = real_array("successors", rows.successors)
    if not np.issubdtype(successors.dtype, np.integer):
        raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
    K = max(np.size(rows.first_entry) - 1, 0)
    first_entry = pointers_of("first_entry", rows.first_entry, K, len(chances))
    states = max(np.size(first_choice) - 1, 0)
    pointers = pointers_of("first_choice", first_choice, states, K)
    _refuse_empty(states, K)
    return Raw(pointers, first_entry, successors, chances, int(np.diff(pointers).max(initial=1)))


def pointers_of(field: str, numbers: Any, count: int, end: int) -> Array:
    """Where each of `count` things begins, and at last where all of them end: `[count + 1]`."""
    pointers = real_array(field, numbers)
    if pointers.shape != (count + 1,) or not np.issubdtype(pointers.dtype, np.integer):
        own = f"shape {pointers.shape} of {pointers.dtype}"
        wanted = f"{count + 1} integers, where each begins and where all end"
        raise InputError(f"{field}: {own}, expected {wanted}.")
    falls = np.flatnonzero(pointers[1:] < pointers[:-1])
    if pointers[0] != 0 or pointers[-1] != end or falls.size:
        ends = f"it runs from {pointers[0]} to {pointers[-1]}"
        what = f"it falls after entry {falls[0]}" if falls.size else ends
        raise InputError(f"{field}: {what}; it must rise from 0 to {end}.")
    return pointers.astype(np.int64, copy=False)


def _availability(available: Any, A: int | None, ended: Array) -> Array:
    """The mask of available pairs, `[S, A]`; A is the mask's own if it is None.

    ended: `[S]` booleans, states that need no action.
    """
    mask, S = real_array("available", available), len(ended)
    A = mask.shape[-1] if A is None and mask.ndim else A
    if mask.shape != (S, A) or mask.dtype != bool:
        own = f"shape {mask.shape} of {mask.dtype}"
        raise InputError(f"available: {own}, expected {(S, A)} of bool.")
    for s in np.flatnonzero(~(mask.any(1) | ended))[:1].tolist():
        raise InputError(f"available[{s}]: {NO_ACTIONS}")
    return mask


def _labelled(raw: Raw, mask: Array) -> Raw:
    """Rows by choice whose actions are those marked in the mask `[S, A]`."""
    wrong = np.flatnonzero(mask.sum(1) != np.diff(raw.first_choice))
    for s in wrong[:1].tolist():
        count = int(raw.first_choice[s + 1] - raw.first_choice[s])
        raise InputError(f"available[{s}] marks {mask[s].sum()} actions for {count} choices.")
    return raw._replace(actions=mask.shape[1], labels=np.nonzero(mask)[1])


def _available(raw: Raw, mask: Array) -> tuple[Raw, Array]:
    """The rows of marked pairs `[S, A]` alone, and their numbers."""
    S, A = mask.shape
    owners = np.repeat(np.arange(S), np.diff(raw.first_choice))
    labels = np.tile(np.arange(A), S) if raw.labels is None else raw.labels
    kept = np.flatnonzero(mask[owners, labels])
    if len(kept) < mask.sum():
        mask = mask.copy()
        mask[owners, labels] = False
        s, a = np.argwhere(mask)[0].tolist()
        raise InputError(f"available[{s}, {a}] is True, but the model has no such action.")
    return _selected(raw, kept, mask.sum(1))._replace(labels=labels[kept]), kept


def _selected(raw: Raw, kept: Array, counts: Array) -> Raw:
    """The rows `kept [K]` alone, so many of each state."""
    lengths = np.diff(raw.first_entry)[kept]
    first_entry, entries = entries_of(raw.first_entry[kept], lengths)
    parts = raw.successors[entries], raw.probabilities[entries], raw.actions
    labels = None if raw.labels is None else raw.labels[kept]
    return Raw(np.append(0, np.cumsum(counts)), first_entry, *parts, labels)


def _with_goal(raw: Raw, goal: Array) -> tuple[Raw, Array]:
    """Every goal (`[S]` booleans) with one choice, which stays; and the rows that are left, `[K]`.

    A goal may have no choice before; -1 stands for its new one.
    """
    counts = np.diff(raw.first_choice)
    own = np.flatnonzero(~np.repeat(goal, counts))
    rest = _selected(raw, own, np.where(goal, 0, counts))
    states = np.flatnonzero(goal)
    place = rest.first_choice[states]  # where the new rows come in
    spot = rest.first_entry[place]
    ones = np.ones(len(states))
    new = Raw(
        np.append(0, np.cumsum(np.where(goal, 1, counts))),
        np.append(0, np.cumsum(np.insert(np.diff(rest.first_entry), place, 1))),
        np.insert(rest.successors.astype(np.int64), spot, states),
        np.insert(rest.probabilities, spot, ones),
        max(raw.actions, 1),
        None if rest.labels is None else np.insert(rest.labels, place, 0),
    )
    return new, np.insert(own, place, -1)


def _refuse_empty(S: int, A: int) -> None:
    if S == 0:
        raise InputError("transitions: the model has no states; give at least one.")
    if A == 0:
        raise InputError(f"transitions: {NO_ACTIONS}")


def _canonical(raw: Raw) -> Transitions:
    """Rows checked and in their one form; read-only ones that are in it already are not copied."""
    S, K = len(raw.first_choice) - 1, len(raw.first_entry) - 1
    refuse_huge((len(raw.successors),))
    labels = None if raw.labels is None else raw.labels.astype(np.int32)
    if labels is not None:
        places = np.arange(K) - np.repeat(raw.first_choice[:-1], np.diff(raw.first_choice))
        labels = None if np.array_equal(labels, places) else labels
    if raw.successors.size and not 0 <= raw.successors.min() <= raw.successors.max() < S:
        e = int(np.argmax((raw.successors < 0) | (raw.successors >= S)))
        what = f"successor {raw.successors[e]} of {_named(raw, _row_of(raw, e))}"
        raise InputError(f"transitions: {what} is out of range; states are 0..{S - 1}.")
    first_choice, first_entry = raw.first_choice.astype(np.int32), raw.first_entry.astype(np.int32)
    successors = np.ascontiguousarray(raw.successors, dtype=np.int32)
    chances = np.ascontiguousarray(raw.probabilities)
    facts = bellman.inspect_rows(first_entry, successors, chances, ROW_SUM_TOLERANCE)
    _refuse_bad(raw, facts)
    ordered, longest, farthest = facts[4:]
    say_divided("transitions: the probabilities of some choices", float(farthest))
    is_canonical = ordered and farthest <= rounding(int(longest))
    if not is_canonical or successors.flags.writeable or chances.flags.writeable:
        successors, chances = successors.copy(), chances.copy()  # not the caller's own
    if not is_canonical:
        used = bellman.order_rows(first_entry, successors, chances)
        successors, chances = successors[:used], chances[:used]
        if used < (1 - WASTE) * len(raw.successors):
            successors, chances = successors.copy(), chances.copy()
        most = int(np.diff(first_entry).max())
        bellman.normalise_rows(first_entry, chances, rounding(most))
    arrays = first_choice, first_entry, successors, chances
    return Transitions(*arrays, raw.actions, labels, float(farthest))


def _refuse_bad(raw: Raw, facts: Array) -> None:
    """One sentence about what `inspect_rows` saw: entries not finite or negative, wrong sums."""
    infinite, negative, off, count = facts[:4].astype(np.int64).tolist()
    for e, wrong in ((infinite, "every entry must be finite"), (negative, "none may be negative")):
        if e >= 0:
            named = _named(raw, _row_of(raw, e))
            what = f"probability of {named}, successor {raw.successors[e]}"
            raise InputError(f"transitions: {what} is {raw.probabilities[e]}; {wrong}.")
    if off >= 0:
        also = f" ({count - 1} more pairs too)" if count > 1 else ""
        with np.errstate(over="ignore"):
            total = raw.probabilities[raw.first_entry[off] : raw.first_entry[off + 1]].sum()
        what = f"probabilities of {_named(raw, off)} sum to {total:.9g}, not 1{also}"
        raise InputError(f"transitions: {what}; {NORMALISE}.")


def _row_of(raw: Raw, entry: int) -> int:
    """The row of an entry."""
    return int(np.searchsorted(raw.first_entry, entry, side="right")) - 1


def _named(raw: Raw, row: int) -> str:
    """A row by its state and its action."""
    s = int(np.searchsorted(raw.first_choice, row, side="right")) - 1
    a = row - int(raw.first_choice[s]) if raw.labels is None else int(raw.labels[row])
    return f"state {s}, action {a}"
