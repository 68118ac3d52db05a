"""Numbers as users give them: checked, finite, and distributions whose sum is 1 to the last bit."""

import warnings
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.limits import LARGEST_NUMBER, NUMERIC

# how far the sum of a row may be from 1: float32, or six printed digits of twenty successors
ROW_SUM_TOLERANCE = 1e-5
NEGLIGIBLE = 1e-12  # what is divided away without a word
MAX_ENTRIES = 2_000_000_000  # refuse to allocate more than this
NORMALISE = f"normalise them (within {ROW_SUM_TOLERANCE:g} of 1 it is done for you)"


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


def refuse_huge(shape: tuple[int, ...]) -> None:
    """Refuse to allocate transitions of an absurd size, before allocating."""
    if float(np.prod([float(size) for size in shape])) > MAX_ENTRIES:
        most, remedy = f"more than {MAX_ENTRIES:.0e} entries", "use fewer states or successors"
        raise InputError(f"transitions: {shape} would be {most}; {remedy}.")


def refuse_large(field: str, numbers: np.ndarray) -> None:
    """Refuse numbers whose sums or squares would overflow."""
    if numbers.size and max(numbers.max(), -numbers.min()) > LARGEST_NUMBER:
        raise InputError(f"{field}: it has entries beyond {LARGEST_NUMBER:g}; rescale it.")


def normalised(probabilities: np.ndarray) -> np.ndarray:
    """Distributions `[..., n]` divided by their sums, in place.

    Those that sum to 1 up to rounding keep their bits. Division is not idempotent: otherwise a
    model would change a little every time it is saved and loaded.
    """
    total = probabilities.sum(-1, keepdims=True)
    is_off = np.abs(total - 1) > rounding(probabilities.shape[-1])
    if is_off.any():
        probabilities /= np.where(is_off, total, 1.0)
    return probabilities


def rounding(terms: int) -> float:
    """How far a sum of so many probabilities may be from 1 by rounding alone."""
    return float((terms + 1) * np.finfo(np.float64).eps)


def say_divided(what: str, missed: float) -> None:
    """A warning, if probabilities missed a sum of 1 by more than rounding."""
    if missed > NEGLIGIBLE:
        sentence = f"{what} miss a sum of 1, by up to {missed:.2g}; they are divided by their sum."
        warnings.warn(sentence, stacklevel=5)


def hash_array(hasher: Any, array: np.ndarray) -> None:
    """Add the shape and the numbers of an array."""
    hasher.update(str(array.shape).encode())
    hasher.update(np.ascontiguousarray(array).data)
