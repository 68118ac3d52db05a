"""Arguments of a model beside its rows: what users may write, checked, and as arrays say it.

Every refusal is one sentence: which argument, what is wrong with it, what is expected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.model.horizon import at_the_end, unrolled
from cmdpax.model.numbers import (
    NORMALISE,
    ROW_SUM_TOLERANCE,
    float_array,
    normalised,
    real_number,
    refuse_large,
    say_divided,
)
from cmdpax.model.reading import Kept
from cmdpax.model.transitions import Transitions

FLAGS = bool | np.bool_
CRITERIA = ("discounted", "total", "average", "finite")


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cells, directions of actions, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states with nothing left to choose: no arrow is drawn there


def by_choice(field: str, numbers: Any, rows: Transitions, kept: Kept | None) -> np.ndarray:
    """Finite float64 numbers `[K]`, of `[S, A]` or of `[K]`, as the rows are or as they came."""
    array = float_array(field, numbers)
    if rows.horizon is not None:
        flat = unrolled(field, array, rows, kept)
    elif array.shape == (rows.states, rows.actions):
        flat = array.reshape(-1)
        flat = flat if rows.is_regular else flat[rows.cells]
    elif array.shape == (rows.states, rows.actions, rows.states):
        choices = rows.entry_choices
        own = array[rows.state_of[choices], rows.action_of[choices], rows.successors]
        flat = np.add.reduceat(rows.probabilities * own, rows.first_entry[:-1])
    elif kept is not None and array.shape == (kept.came,):
        flat = array[kept.rows]
    elif array.shape == (rows.choices,):
        flat = array
    else:
        shapes = f"{(rows.states, rows.actions)}, or {(rows.choices,)} by choice"
        raise InputError(f"{field}: shape {array.shape}, expected {shapes}.")
    if kept is not None:
        flat = np.where(kept.rows < 0, 0.0, flat)  # goals
    for k in np.flatnonzero(~np.isfinite(flat))[:1].tolist():
        place = f"state {rows.state_of[k]}, action {rows.action_of[k]}"
        what = f"{field} of {place} is {flat[k]}"
        raise InputError(f"{what}; every entry must be a finite number.")
    refuse_large(field, flat)
    return flat + 0.0  # a copy, and no -0.0


def constraint_rows(
    constraints: Any, count: int, rows: Transitions, kept: Kept | None
) -> np.ndarray:
    """Numbers of m constraints by choice, `[m, K]`, of `[m, S, A]` and the other forms.

    Without the axis m they are one. count: of thresholds, which says it where the shape does not.
    """
    array, (*H, S, A) = float_array("constraints", constraints), rows.policy_shape
    if array.ndim == 0:
        raise InputError(f"constraints: a number; give {(S, A)} numbers for each constraint.")
    sizes = (rows.choices, rows.choices if kept is None else kept.came)
    is_one = array.shape == (S, A) and not (count == S and A in sizes)
    if H:
        is_one |= count == 1 < H[0] and array.shape == (*H, S, A)
    else:
        is_one |= A != S and array.shape == (S, A, S)  # else it is S constraints
    if is_one or (array.ndim == 1 and array.size):
        array = array[None]
    numbers = np.empty((len(array), rows.choices))
    for i, row in enumerate(array):
        numbers[i] = by_choice(f"constraints[{i}]", row, rows, kept)
    if count != (m := len(array)):
        raise InputError(f"thresholds: {count} given for {m} constraints; give one for each.")
    return numbers


def add_at_the_end(
    field: str, pays: Any, earned: np.ndarray, rows: Transitions, discount: float
) -> None:
    """Add what states pay at the end, `[S]` or `[m, S]`, to what choices earn, `[K]` or `[m, K]`.

    pays: None, if nothing is paid there.
    """
    if pays is None:
        return
    array, shape = float_array(field, pays), (*earned.shape[:-1], rows.policy_shape[-2])
    if array.shape != shape or not np.isfinite(array).all():
        raise InputError(f"{field}: shape {array.shape}, expected {shape} finite numbers.")
    refuse_large(field, array)
    for own, at_end in zip(np.atleast_2d(earned), np.atleast_2d(array)):
        own += at_the_end(rows, at_end, discount)


def state_index(what: str, state: Any, S: int, names: Sequence[str] | None) -> int:
    """The index of a state, which a user gave by index or name."""
    if isinstance(state, str):
        if names is None:
            raise InputError(f"{what}: '{state}' is a name; give state_names= too, or an index.")
        own = [s for s, name in enumerate(names) if name == state]
        if len(own) != 1:
            what += f": '{state}' is"
            if own:
                raise InputError(f"{what} the name of {len(own)} states; give an index.")
            raise InputError(f"{what} no state; {did_you_mean(state, names)}")
        return own[0]
    if isinstance(state, FLAGS) or not isinstance(state, int | np.integer):
        raise InputError(f"{what}: {state!r} is neither the index nor the name of a state.")
    if not 0 <= state < S:
        raise InputError(f"{what}: state {state} is out of range; states are 0..{S - 1}.")
    return int(state)


def goal_mask(goal: Any, S: int, names: Sequence[str] | None) -> np.ndarray:
    """Goals `[S]` booleans, of a mask, an index, a name, or a list of indices and names."""
    if isinstance(goal, list | tuple) and goal and all(isinstance(g, FLAGS) for g in goal):
        goal = np.array(goal)
    if isinstance(goal, np.ndarray) and goal.dtype == bool:
        if goal.shape != (S,):
            raise InputError(f"goal: a mask of shape {goal.shape}, expected {(S,)}.")
        return goal
    mask = np.zeros(S, dtype=bool)
    is_one = isinstance(goal, str | Mapping) or not np.iterable(goal)
    for state in [goal] if is_one else goal:
        own = state_index("goal", state, S, names)
        if mask[own]:  # 0, 0, 1 is no mask
            raise InputError(f"goal: state {own} is listed twice; a mask must be of booleans.")
        mask[own] = True
    return mask


def distribution(initial: Any, S: int, names: Sequence[str] | None) -> np.ndarray:
    """A checked and normalised distribution, `[S]`, of a state, a mapping, or numbers `[S]`."""
    if isinstance(initial, str | int | np.integer) and not isinstance(initial, bool):
        initial = {initial: 1.0}
    if isinstance(initial, Mapping):
        chances, initial = initial, np.zeros(S)
        for state, chance in chances.items():
            spot = state_index("initial", state, S, names)
            initial[spot] = real_number(f"initial, state {state!r}", chance)
    if not np.iterable(initial):  # None too: other libraries have no initial state
        wanted = f"give an index, a name, {{state: probability}}, or {S} probabilities"
        raise InputError(f"initial: {initial!r} is no state; {wanted}.")
    start = float_array("initial", initial) + 0.0  # no -0.0, and no array of the caller's
    if start.shape != (S,):
        raise InputError(f"initial: shape {start.shape}, expected {(S,)}.")
    for s in np.flatnonzero(~np.isfinite(start))[:1].tolist():
        raise InputError(f"initial[{s}] is {start[s]}; every entry must be a finite number.")
    refuse_large("initial", start)
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    with np.errstate(over="ignore"):
        total = start.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {total:.9g}, not 1; {NORMALISE}.")
    say_divided("initial: the probabilities", float(abs(total - 1)))
    return normalised(start)


def criterion_of(criterion: Any, discount: Any, horizon: int | None) -> tuple[str, float]:
    """What is added up, and a checked discount factor; an average has none, which is 1."""
    check_criterion(criterion)
    if discount is None and criterion != "average" and horizon is None:
        raise InputError(
            "discount: give it, for example 0.95; or horizon=, or criterion='average'."
        )
    factor = discount_factor(1.0 if discount is None else discount)
    own = "total" if factor == 1 else "discounted"
    own = own if horizon is None else "finite"
    if criterion == "average" and (factor < 1 or horizon is not None):
        raise InputError("criterion: an average has no discount and no horizon; leave them out.")
    if criterion not in (None, "average", own):
        said = f"discount {factor:g}" if horizon is None else "a horizon"
        raise InputError(f"criterion: {criterion!r} does not go with {said}.")
    return criterion or own, factor


def check_criterion(criterion: Any) -> None:
    """Refuse an unknown word."""
    if criterion is not None and criterion not in CRITERIA:
        hint = did_you_mean(str(criterion), CRITERIA)
        raise InputError(f"criterion: {criterion!r} is unknown; {hint}")


def discount_factor(discount: Any) -> float:
    """A checked discount factor."""
    is_array = isinstance(discount, np.ndarray) and discount.ndim == 0
    number = discount.item() if is_array else discount
    if not isinstance(number, Real):
        shape, kind = getattr(discount, "shape", None), type(discount).__name__
        what = f"a {kind}" if shape is None else f"an array of shape {shape}"
        raise InputError(f"discount: {what}, expected one number.")
    factor = float(number)
    if not 0 <= factor <= 1:
        raise InputError(f"discount is {factor:g}; it must be between 0 and 1.")
    return factor + 0.0


def flag(field: str, value: Any) -> bool:
    """A checked truth value."""
    if not isinstance(value, FLAGS):
        raise InputError(f"{field} is {value!r}; it must be True or False.")
    return bool(value)


def labels(field: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """One text for each of `count` things, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not np.iterable(names):
        raise InputError(f"{field}: {names!r} is not a list.")
    texts = tuple(str(name) for name in names)
    for i, label in enumerate(texts):
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise InputError(f"{field}[{i}]: {label!r} is not valid text: half a surrogate pair.")
    if len(texts) != count:
        raise InputError(f"{field}: {len(texts)} names for {count}; give one for each.")
    return texts


def action_labels(
    names: Sequence[str] | Sequence[Sequence[str]] | None, rows: Transitions
) -> tuple[str, ...] | tuple[tuple[str, ...], ...] | None:
    """One text for each action, or for every state one for each of its choices."""
    is_nested = isinstance(names, list | tuple) and any(
        isinstance(own, list | tuple) for own in names
    )
    if names is None or not is_nested:
        return labels("action_names", names, rows.actions)  # type: ignore[arg-type]
    if len(names) != rows.states:
        raise InputError(f"action_names: {len(names)} lists for {rows.states} states.")
    counts = np.diff(rows.first_choice).tolist()
    own = (labels(f"action_names[{s}]", list(names[s]), n) for s, n in enumerate(counts))
    return tuple(labels for labels in own if labels is not None)


def checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    """Drawing instructions that fit S states and A actions."""
    if grid is None:
        return None
    if not isinstance(grid, Grid):
        raise InputError("grid: it must be a cmdpax.Grid.")
    marked = grid.hazards + grid.goals + grid.absorbing
    cells, moves = len(grid.cells), len(grid.moves)
    if (cells, moves) != (S, A) or any(not 0 <= s < S for s in marked):
        own = f"{cells} cells and {moves} moves"
        raise InputError(f"grid: it describes {own}; the model has {S} and {A}.")
    return grid
