"""Somebody's environment by its name: a Gymnasium id, `module:id`, or `module:function` that makes
one.

What their code raises, when it is imported, made, reset or stepped, is their concern and becomes
one sentence that says where.
"""

import importlib
import inspect
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.velocity import TASKS

FAULTS = (Exception, SystemExit)  # what somebody's code may raise
PICTURES: dict[str, Any] = {"render_mode": "rgb_array"}


def factory(name: str, pictures: bool = False) -> Callable[[], Any]:
    """How to make one copy of a named environment; with `pictures`, one that draws what it shows,
    if it can.
    """
    options: dict[str, Any] = PICTURES if pictures else {}
    module, colon, own = name.partition(":")
    if not colon:
        return partial(gymnasium.make, _registered(name), **options)
    if not module or not own:
        raise InputError(f"environment '{name}': write module:function, as in heater:make.")
    try:
        found = importlib.import_module(module)
    except ImportError as error:
        raise InputError(
            f"environment '{name}': module '{module}' cannot be imported ({error})."
        ) from None
    except FAULTS as error:
        raise blame(name, f"importing '{module}'", error) from error
    made = getattr(found, own, None)
    if callable(made):
        return partial(made, **options) if options and _takes(made, "render_mode") else made
    if own in gymnasium.registry:
        return partial(gymnasium.make, own, **options)
    callables = [
        one for one, value in vars(found).items() if callable(value) and not one.startswith("_")
    ]
    raise InputError(
        f"environment '{name}': module '{module}' has no function '{own}';"
        f" {did_you_mean(own, callables)}"
    )


def blame(name: str, doing: str, error: BaseException) -> InputError:
    """What an environment raised, as a sentence; an `InputError` of ours stays as it is."""
    if isinstance(error, InputError):
        return error
    if isinstance(error, SyntaxError):
        what, file, line = error.msg, error.filename, error.lineno
    else:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what, file, line = " ".join(str(error).split()), place.filename, place.lineno
    where = f"{Path(file or '').name}, line {line}"
    return InputError(
        f"environment '{name}': {doing} raised {type(error).__name__}: {what} ({where})."
    )


def _registered(name: str) -> str:
    if name in gymnasium.registry:
        return name
    close = get_close_matches(name, [*TASKS, *gymnasium.registry], n=1)
    hint = (
        f"did you mean '{close[0]}'?"
        if close
        else f"give {', '.join(TASKS)}, a Gymnasium id, or module:function."
    )
    raise InputError(f"environment '{name}' is not known; {hint}")


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
