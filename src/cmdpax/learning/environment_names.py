"""How does a name, a function or an object become environments?

Whatever somebody's code raises when it is imported or made becomes one sentence that says where.
While a module that a name holds is imported, and while its environments are made, the current
folder is the last place where Python looks for modules: `beside`. At no other time is it looked
into.
"""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium

from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.robots import TASKS, register

USER_ERRORS = (Exception, SystemExit)  # what somebody's code may raise


def environment_factory(environment: Any, pictures: bool = False) -> Callable[[], Any]:
    """How to make one copy of what `GymSimulator` takes.

    With `pictures`, a named environment draws what it shows, if it can.
    """
    if is_object(environment):
        return lambda: environment
    if callable(environment):
        return environment
    if not isinstance(environment, str):
        raise InputError(
            f"environment: {environment!r} is no name, no function that makes an environment, no"
            " environment and no CMDP."
        )
    options: dict[str, Any] = {"render_mode": "rgb_array"} if pictures else {}
    module, colon, name = environment.partition(":")
    if not colon:
        return partial(gymnasium.make, _registered(environment), **options)
    if not module or not name:
        raise InputError(f"environment '{environment}': write module:function, as in heater:make.")
    try:
        content = beside(importlib.import_module, module)
    except ImportError as error:
        remedy = "install it, or go to the folder where it lies"
        if module.endswith(".py"):
            remedy = f"leave out .py, as in {module[:-3]}:{name}"
        raise InputError(
            f"environment '{environment}': module '{module}' cannot be imported ({error});"
            f" {remedy}."
        ) from None
    except USER_ERRORS as error:
        raise as_input_error(environment, f"importing '{module}'", error) from error
    make = getattr(content, name, None)
    if callable(make):
        return partial(beside, make, **options if _takes(make, "render_mode") else {})
    if name in gymnasium.registry:
        return partial(beside, gymnasium.make, name, **options)
    public = [
        key
        for key, value in vars(content).items()
        if callable(value) and key[0] != "_" and getattr(value, "__module__", "") == module
    ]
    raise InputError(
        f"environment '{environment}': module '{module}' has no function '{name}';"
        f" {did_you_mean(name, public) if public else 'write one there.'}"
    )


def names_module(environment: str) -> bool:
    """Whether a module is imported to make an environment of that name."""
    return ":" in environment


def beside(call: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """`call(*arguments, **options)`, with the current folder as the last to look for modules in."""
    here = os.getcwd()
    sys.path.append(here)
    try:
        return call(*arguments, **options)
    finally:  # this entry, not an equal one of somebody else's
        sys.path[:] = [entry for entry in sys.path if entry is not here]


def as_input_error(name: str, doing: str, error: BaseException) -> InputError:
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


def name_of(environment: Any) -> str:
    """What messages call an environment: its name, its function's, or its class's."""
    if isinstance(environment, str):
        return environment
    return str(getattr(environment, "__name__", type(environment).__name__))


def is_object(environment: Any) -> bool:
    """Whether this is an environment itself, neither a name nor what makes one."""
    return hasattr(environment, "step") and not isinstance(environment, type)


def _registered(name: str) -> str:
    register()
    if name in gymnasium.registry:
        return name
    close = get_close_matches(name, [*TASKS, *gymnasium.registry], n=1)
    hint = f"give {', '.join(TASKS)}, a Gymnasium id, or module:function."
    hint = f"did you mean '{close[0]}'?" if close else hint
    raise InputError(f"environment '{name}' is not known; {hint}")


def _takes(function: Callable[..., Any], parameter: str) -> bool:
    try:
        return parameter in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
