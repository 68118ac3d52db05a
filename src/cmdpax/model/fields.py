"""The parts of a model, checked one by one: every message names the field, the index and the fix."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.transitions import ROW_SUM_TOLERANCE, float_array, normalised, real_array

LARGEST_NUMBER = 1e100  # sums and squares of what is larger would overflow


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cell of each state, direction of each action,
    marked states.
    """

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[
        int, ...
    ] = ()  # states in which nothing is left to choose; no arrow is drawn there


def numbers(
    field: str, data: Any, shape: tuple[int, ...], available: np.ndarray | None = None
) -> np.ndarray:
    """A fresh finite float64 array of the given shape; unavailable pairs are not looked at."""
    array = float_array(field, data)
    if array.size == 0 and 0 in shape:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InputError(f"{field}: shape {array.shape}, expected {shape}.")
    wrong = ~np.isfinite(array)
    if available is not None:
        wrong &= available
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"{field}{list(where)} is {array[where]}; every entry must be a finite number."
        )
    beyond = np.abs(array) > LARGEST_NUMBER
    if (beyond if available is None else beyond & available).any():
        raise InputError(f"{field}: it has entries beyond {LARGEST_NUMBER:g}; rescale it.")
    return np.ascontiguousarray(array) + 0.0  # no -0.0


def availability(available: Any, S: int, A: int) -> np.ndarray | None:
    """The mask of available pairs, `[S, A]`, or None if all are."""
    if available is None:
        return None
    mask = np.array(real_array("available", available))
    if mask.shape != (S, A) or mask.dtype != bool:
        raise InputError(
            f"available: shape {mask.shape} of {mask.dtype}, expected {(S, A)} of bool."
        )
    empty = ~mask.any(1)
    if empty.any():
        raise InputError(
            f"available[{int(np.argmax(empty))}]: the action set is empty; every state needs at"
            " least one action."
        )
    mask.setflags(write=False)
    return None if mask.all() else mask


def distribution(initial: Any, S: int) -> np.ndarray:
    """A checked and normalised distribution, `[S]`."""
    start = numbers("initial", initial, (S,))
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    with np.errstate(over="ignore"):
        total = start.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {total:.9g}, not 1; normalise them.")
    return normalised(start)


def discount_factor(discount: Any) -> float:
    """A checked discount factor."""
    number = float_array("discount", discount)
    if number.ndim:
        raise InputError(f"discount: shape {number.shape}, expected one number.")
    if not 0 <= number < 1:
        raise InputError(
            f"discount is {float(number):g}; it must be at least 0 and below 1 (values are"
            " discounted sums)."
        )
    return float(number) + 0.0


def sense_of_each(senses: Sequence[str] | str | None, m: int) -> tuple[str, ...]:
    """One sense for each of m constraints."""
    if senses is None:
        return (">=",) * m
    senses = (senses,) * m if isinstance(senses, str) else _listed("senses", senses)
    if len(senses) != m:
        raise InputError(f"senses: {len(senses)} given for {m} constraints; give one for each.")
    for i, sense in enumerate(senses):
        if sense not in (">=", "<="):
            raise InputError(f"senses[{i}] is {sense!r}; it must be '>=' or '<='.")
    return senses


def labels(field: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """`count` labels as text, or None."""
    if names is None:
        return None
    texts = tuple(str(name) for name in _listed(field, names))
    if len(texts) != count:
        raise InputError(f"{field}: {len(texts)} names for {count}; give one for each.")
    for i, label in enumerate(texts):
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise InputError(
                f"{field}[{i}]: {label!r} is not valid text; it holds half of a surrogate pair."
            )
    return texts


def _listed(field: str, items: Any) -> tuple[Any, ...]:
    try:
        return tuple(items)
    except TypeError:
        raise InputError(f"{field}: {items!r} is not a list.") from None


def checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    """Drawing instructions that fit S states and A actions."""
    if grid is not None and not isinstance(grid, Grid):
        raise InputError("grid: it must be a cmdpax.Grid.")
    if grid is not None and (
        len(grid.cells) != S
        or len(grid.moves) != A
        or any(not 0 <= s < S for s in grid.hazards + grid.goals + grid.absorbing)
    ):
        raise InputError(
            f"grid: it describes {len(grid.cells)} cells and {len(grid.moves)} moves; the model has"
            f" {S} and {A}."
        )
    return grid


def span(values: np.ndarray) -> float:
    """Largest minus smallest of values of any shape `[...]`, 1 if they are equal."""
    width = np.ptp(values) if values.size else 0.0
    return float(width) if width > 0 else 1.0
