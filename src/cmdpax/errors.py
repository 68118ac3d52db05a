"""What can go wrong, as types. Every message is one sentence: what, where, how to fix."""

from collections.abc import Iterable
from difflib import get_close_matches


class CmdpaxError(Exception):
    """Base of every error that cmdpax raises on purpose."""


class InputError(CmdpaxError, ValueError):
    """The caller's input is wrong; the command line turns it into exit code 2."""


class CertificateError(CmdpaxError):
    """A claim about a policy is false: the checker could not verify it."""


class NumericalError(CmdpaxError, ArithmeticError):
    """A computation could not be carried out to the accuracy it promises."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suggestion for a mistyped `word` out of `known`, or the list of what is known."""
    known = [str(name) for name in known]
    close = get_close_matches(str(word), known, n=1)
    return f"did you mean '{close[0]}'?" if close else f"known: {', '.join(sorted(known))}."
