"""A finite horizon: the same states at the times 0 .. H, each a state of its own.

State s at time t is number `t S + s`. A choice at time t < H leads to states at time t + 1; at time
H the run has ended: every state stays, and nothing is paid. So a finite horizon is a model in which
every policy ends, with `(H + 1) S` states, and a policy `[H, S, A]` is a policy of it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.model.numbers import refuse_huge
from cmdpax.model.reading import Kept, RowLists, read_rows
from cmdpax.model.transitions import Array, Transitions

STAGED = 4  # axes of transitions that depend on the time: [H, S, A, S]


def read_stages(
    transitions: Any,
    horizon: int,
    available: Any = None,
    first_choice: Any = None,
    goal: Callable[[int], Array] | None = None,
) -> tuple[Transitions, Kept | None]:
    """Transitions of one step, or of H, at all times, and which rows of them are kept.

    Those that are layers of such a horizon already are taken as they are.
    """
    if isinstance(transitions, Transitions) and transitions.horizon is not None:
        if transitions.horizon != horizon or available is not None or goal is not None:
            raise InputError("horizon: it, available= and goal= change with transitions= only.")
        return transitions, None
    parts = transitions if _is_staged(transitions, first_choice) else None
    if parts is not None and len(parts) != horizon:
        raise InputError(f"transitions: {len(parts)} steps for a horizon of {horizon}.")
    masks = np.asarray(available) if np.ndim(available) == 3 else None
    if masks is not None and len(masks) != horizon:
        raise InputError(f"available: {len(masks)} steps for a horizon of {horizon}.")
    stages: list[tuple[Transitions, Kept | None]] = []
    is_list = first_choice is not None and np.ndim(first_choice[0]) > 0
    for t in range(horizon if parts is not None or masks is not None else 1):
        mask = available if masks is None else masks[t]
        own = transitions if parts is None else parts[t]
        stages.append(read_rows(own, mask, first_choice[t] if is_list else first_choice, goal))
    return _layers(stages if len(stages) == horizon else stages * horizon, horizon)


def _is_staged(transitions: Any, first_choice: Any) -> bool:
    """Whether transitions are a sequence of those of one step."""
    if isinstance(transitions, np.ndarray):
        return transitions.ndim >= STAGED
    if not isinstance(transitions, list | tuple) or isinstance(transitions, RowLists):
        return False
    is_pair = isinstance(transitions, tuple) and len(transitions) == 2  # successors, probabilities
    return not is_pair and (first_choice is not None or _axes(transitions) >= STAGED)


def _axes(part: Any) -> int:
    """How deep lists, arrays and matrices are nested."""
    if isinstance(part, list | tuple):
        return 1 + (_axes(part[0]) if len(part) else 0)
    return 1 if isinstance(part, Mapping) else 2 if sp.issparse(part) else np.ndim(part)


def _layers(
    stages: list[tuple[Transitions, Kept | None]], horizon: int
) -> tuple[Transitions, Kept]:
    """One layer of states for every step, and the last, where all stay."""
    S, last = stages[0][0].states, np.arange(stages[0][0].states)
    for t, (rows, _) in enumerate(stages):
        if rows.states != S:
            raise InputError(f"transitions[{t}]: {rows.states} states, but transitions[0] has {S}.")
    entries = sum(len(rows.successors) for rows, _ in stages) + S
    refuse_huge((entries,))
    successors, chances = np.empty(entries, dtype=np.int32), np.ones(entries)
    kept, labels, choices, place = [], [], [], 0
    for t, (rows, own) in enumerate(stages):
        end = place + len(rows.successors)
        np.add(rows.successors, (t + 1) * S, out=successors[place:end], dtype=np.int32)
        chances[place:end], place = rows.probabilities, end
        labels.append(rows.action_of)
        choices.append(np.arange(rows.choices) if own is None else own.rows)
    successors[place:] = horizon * S + last
    came = [rows.choices if own is None else own.came for rows, own in stages]
    firsts = accumulate(came, initial=0)
    kept = [np.where(own < 0, -1, own + first) for own, first in zip(choices, firsts)]
    first_choice, first_entry = (
        np.cumsum(
            np.concatenate([[0], *(np.diff(getattr(rows, name)) for rows, _ in stages), np.ones(S)])
        ).astype(np.int32)
        for name in ("first_choice", "first_entry")
    )
    has_labels = any(rows.labels is not None for rows, _ in stages)
    layers = Transitions(
        first_choice,
        first_entry,
        successors,
        chances,
        max(rows.actions for rows, _ in stages),
        np.concatenate([*labels, np.zeros(S)]).astype(np.int32) if has_labels else None,
        max(rows.missed for rows, _ in stages),
        horizon,
    )
    return layers, Kept(np.concatenate([*kept, np.full(S, -1)]), sum(came))


def as_layers(rows: Transitions, horizon: int) -> Transitions:
    """Rows as a file has them, if they are layers of such a horizon."""
    S, rest = divmod(rows.states, horizon + 1)
    times = np.repeat(rows.state_of, np.diff(rows.first_entry)) // max(S, 1)
    is_next = rows.successors // max(S, 1) == np.minimum(times + 1, horizon)
    ends = rows.first_choice[horizon * S]
    stay = np.array_equal(rows.successors[rows.first_entry[ends] :], horizon * S + np.arange(S))
    if rest or not is_next.all() or not stay or len(rows.first_entry) - 1 - ends != S:
        raise InputError(f"meta.horizon is {horizon}, but the transitions are not those of it.")
    return replace(rows, horizon=horizon)


def unrolled(field: str, array: Array, rows: Transitions, kept: Kept | None) -> Array:
    """Numbers of choices at all times, `[K]`, 0 at the end.

    array: `[S, A]`, or by choice, of every step; or `[H, ...]` of each, or by choice one step after
    another; or `[H, S, A, S]` of transitions; or `[K]` itself if the rows came as layers.
    """
    H, S, A = rows.policy_shape
    if kept is None and array.shape == (rows.choices,):
        return array
    came = rows.choices - S if kept is None else kept.came
    if array.shape in ((S, A), (H, S, A)):
        table = np.zeros((H + 1, S, A))
        table[:-1] = array
        return table.reshape(-1)[rows.cells]
    if array.shape == (H, S, A, S):
        choice = rows.entry_choices[:-S]
        to, states = rows.successors[: len(choice)] % S, rows.state_of[choice]
        own = array[states // S, states % S, rows.action_of[choice], to]
        paid = rows.probabilities[: len(choice)] * own
        return np.append(np.add.reduceat(paid, rows.first_entry[: -S - 1]), np.zeros(S))
    each, rest = divmod(came, H)
    if array.shape == (came,) or (not rest and array.shape in ((each,), (H, each))):
        stacked = np.tile(array.reshape(-1), came // array.size)
        return np.append(stacked, np.zeros(S)) if kept is None else stacked[kept.rows]
    shapes = f"{(S, A)} or {(H, S, A)}, or {(H, S, A, S)} of transitions"
    raise InputError(f"{field}: shape {array.shape}, expected {shapes}, with a horizon of {H}.")


def at_the_end(rows: Transitions, pays: Array, discount: float) -> Array:
    """What the last step earns by where it leads, `[K]`, if states pay `[S]` at the end."""
    H, S, _ = rows.policy_shape
    first, end = rows.first_choice[(H - 1) * S], rows.first_choice[H * S]
    entries = slice(rows.first_entry[first], rows.first_entry[end])
    paid = rows.probabilities[entries] * pays[rows.successors[entries] - H * S]
    earned = np.zeros(rows.choices)
    starts = rows.first_entry[first:end] - rows.first_entry[first]
    earned[first:end] = discount * np.add.reduceat(paid, starts)
    return earned
