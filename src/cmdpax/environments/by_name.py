"""Where models and features come from on the command line.

A model: a file, or an environment by name with settings, `garnet:states=200,seed=3`. Features `[S,
A, d]`: tile coding, `tiles:60,4,3` (dimension, tilings, size), or an array in a `.npy` file, or the
array `features` of an `.npz` file.
"""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from cmdpax.environments import finite
from cmdpax.environments.tiles import tiles
from cmdpax.errors import InputError, did_you_mean
from cmdpax.model.archive import load_model
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_classes import Features

SUFFIXES = (".npz", ".json")


def open_model(source: str) -> CMDP:
    """The model that `source` names."""
    name, _, text = source.partition(":")
    if name in finite:
        return finite[name](**_settings(name, finite[name], text))
    if Path(source).suffix.lower() in SUFFIXES or Path(source).exists():
        return load_model(source)
    raise InputError(
        f"'{source}' is neither a model file ({' or '.join(SUFFIXES)}) nor an environment;"
        f" {did_you_mean(name, finite)}"
    )


def seeded(source: str, seed: int) -> str:
    """The same source with a seed, where its environment takes one; a model without randomness has
    the seed 0 only.
    """
    name, _, text = source.partition(":")
    random = name in finite and "seed" in inspect.signature(finite[name]).parameters
    given = any(part.partition("=")[0] == "seed" for part in text.split(","))
    if random and not given:
        return f"{name}:{text + ',' if text else ''}seed={seed}"
    if seed != 0:
        raise InputError(
            f"model '{source}' takes no seed of its own; sweep it with one seed, or leave its seed"
            " out."
        )
    return source


def open_features(source: str, model: CMDP) -> Features:
    """The features that `source` names, for this model."""
    name, _, text = source.partition(":")
    if name == "tiles":
        try:
            dimension, tilings, size = (int(part) for part in text.split(","))
        except ValueError:
            raise InputError(
                f"--features {source}: write tiles:dimension,tilings,size, for example"
                " tiles:60,4,3."
            ) from None
        return Features(tiles(model.states, model.actions, dimension, tilings, size))
    path = Path(source)
    if path.suffix.lower() not in (".npy", ".npz"):
        raise InputError(
            f"--features {source}: give tiles:60,4,3, or a .npy or .npz file with numbers [states,"
            " actions, d]."
        )
    try:
        stored = np.load(path, allow_pickle=False)
        table = stored if isinstance(stored, np.ndarray) else stored["features"]
    except OSError as error:
        raise InputError(
            f"--features {source}: the file cannot be read ({error.strerror or error})."
        ) from None
    except KeyError:
        raise InputError(
            f"--features {source}: there is no array 'features' in it; save it under that name."
        ) from None
    except (ValueError, EOFError, BadZipFile):
        raise InputError(
            f"--features {source}: this is not an array of numbers; write it with numpy.save."
        ) from None
    features = Features(table)
    features.check(model.states, model.actions)
    return features


def _settings(name: str, builder: Callable[..., CMDP], text: str) -> dict[str, Any]:
    """`states=200,seed=3` as keyword arguments, converted to the type of each default; lists are
    written `12+16`.
    """
    defaults = {
        key: parameter.default for key, parameter in inspect.signature(builder).parameters.items()
    }
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in defaults:
            raise InputError(f"{name}: setting '{key}' is not known; {did_you_mean(key, defaults)}")
        if not equals:
            raise InputError(
                f"{name}: setting '{key}' has no value; write {key}={_text(defaults[key])}, for"
                " example."
            )
        if key in settings:
            raise InputError(f"{name}: setting '{key}' is given twice.")
        try:
            settings[key] = _convert(value, defaults[key])
        except (ValueError, OverflowError):
            raise InputError(
                f"{name}: {key}={value} is not understood; write {key}={_text(defaults[key])}, for"
                " example."
            ) from None
    return settings


def _text(default: Any) -> str:
    return (
        "+".join(str(part) for part in default)
        if isinstance(default, tuple)
        else str(default).lower()
    )


def _convert(text: str, default: Any) -> Any:
    if isinstance(default, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"
    if isinstance(default, tuple):
        return tuple(_convert(part, default[0]) for part in text.split("+"))
    if isinstance(default, int):
        number = float(text)
        if number != int(number):
            raise ValueError
        return int(number)
    return type(default)(text)
