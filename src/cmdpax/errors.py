"""What can go wrong, as types; and is this a known name, a positive number, a count, a seed?

Every message is one sentence: what, where, how to fix. A check returns what it has checked.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

import numpy as np

NUMBERS = (int, float, np.integer, np.floating)


class CmdpaxError(Exception):
    """Base of every error that cmdpax raises on purpose."""


class InputError(CmdpaxError, ValueError):
    """The caller's input is wrong; the command line turns it into exit code 2."""


class CertificateError(CmdpaxError):
    """A claim about a policy is false: the checker could not verify it."""


class NumericalError(CmdpaxError, ArithmeticError):
    """A computation could not be carried out to the accuracy it promises."""


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Import packages inside; one that is not there is an extra of cmdpax to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        sentence = f"this needs the package '{error.name}'; install cmdpax[{extra}]."
        raise InputError(sentence) from None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped `word` out of `known`, or the list of what is known."""
    known = [str(name) for name in known]
    close = get_close_matches(str(word)[:80], known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}."


def check_known(what: str, name: str, known: Iterable[str]) -> str:
    """`name`, if it is one of `known`; `what` it is stands before it in the refusal."""
    known = list(known)
    if name not in known:
        raise InputError(f"{what} '{str(name)[:80]}' is not known; {did_you_mean(name, known)}")
    return name


def check_number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
) -> float:
    """A finite number with `above < value`, `least <= value` and `value < below`, where given."""
    fits = isinstance(value, NUMBERS) and -np.inf < value < np.inf
    if not (
        fits
        and (above is None or value > above)
        and (least is None or value >= least)
        and (below is None or value < below)
    ):
        bounds = (("more than", above), ("at least", least), ("below", below))
        span = " and ".join(f"{words} {bound:g}" for words, bound in bounds if bound is not None)
        wanted = f"a number, {span}" if span else "a finite number"
        raise InputError(f"{name} is {value!r}; it must be {wanted}.")
    return float(value)


def check_count(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least `least` and at most `most`; 3.0 is one too. Seeds begin at 0."""
    fits = isinstance(value, NUMBERS) and -np.inf < value < np.inf and int(value) == value
    if not fits or value < least or (most is not None and value > most):
        span = f"of at least {least}" if most is None else f"between {least} and {most}"
        raise InputError(f"{name} is {value!r}; it must be a whole number {span}.")
    return int(value)


def check_positive(name: str, value: Any) -> Any:
    """A number, or an array of them, all positive and finite: as a float, or as float64."""
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{name} is {value}; it must be positive and finite.")
    return array if array.ndim else float(array)


def check_share(name: str, value: Any) -> float:
    """A number in `[0, 1]`."""
    if not (isinstance(value, NUMBERS) and 0 <= value <= 1):
        raise InputError(f"{name} is {value}; it must lie in [0, 1].")
    return float(value)
