"""What do `garnet:states=200`, `tiles:60,4,3` and a file name mean on the command line?

A model is a file, or an environment with settings, `garnet:states=200,seed=3`. Features `[S, A, d]`
are tile coding, `tiles:60,4,3` (dimension, tilings, size), or the array in a `.npy` file, or the
array `features` of an `.npz` file.
"""

import inspect
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments import finite
from cmdpax.errors import InputError, did_you_mean
from cmdpax.files import arrays_in, named, opened, read_array
from cmdpax.model.archive import load_model
from cmdpax.model.cmdp import CMDP

SUFFIXES = (".npz", ".json")
# environments that can be drawn, and how many states they have
DRAWN: dict[str, Callable[..., int]] = {
    "cliff-world": lambda: 21,
    "deep-sea": lambda size: size**2,
    "grid-world": lambda width, height: width * height + 1,
}


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


def drawn_states(source: str) -> int | None:
    """States of the environment that `source` names, without making it; None: it has no drawing."""
    name, _, text = source.partition(":")
    if name not in DRAWN:
        return None
    defaults = {key: one.default for key, one in inspect.signature(finite[name]).parameters.items()}
    settings = {**defaults, **_settings(name, finite[name], text)}
    return DRAWN[name](*(settings[key] for key in inspect.signature(DRAWN[name]).parameters))


def seeded(source: str, seed: int) -> str:
    """The same source with a seed, where its environment takes one; others have the seed 0 only."""
    name, _, text = source.partition(":")
    takes_seed = name in finite and "seed" in inspect.signature(finite[name]).parameters
    has_seed = any(part.partition("=")[0] == "seed" for part in text.split(","))
    if takes_seed and not has_seed:
        return f"{name}:{text + ',' if text else ''}seed={seed}"
    if seed != 0:
        raise InputError(
            f"model '{source}' takes no seed of its own; sweep it with one seed, or leave its seed"
            " out."
        )
    return source


def open_features(source: str, model: CMDP) -> np.ndarray:
    """The features that `source` names for this model; those of a file are as they are there."""
    name, _, text = source.partition(":")
    if name == "tiles":
        try:
            dimension, tilings, size = (int(part) for part in text.split(","))
        except ValueError:
            reason = "write tiles:dimension,tilings,size, for example tiles:60,4,3"
        else:
            return tiles(model.states, model.actions, dimension, tilings, size)
    elif Path(source).suffix.lower() not in (".npy", ".npz"):
        reason = "give tiles:60,4,3, or a .npy or .npz file with numbers [states, actions, d]"
    else:
        with named(f"--features {source}"), opened(source) as file:
            if Path(source).suffix.lower() == ".npy":
                return read_array(file, "features")
            arrays = arrays_in(file)
            if "features" not in arrays:
                raise InputError("it has no array 'features'; save it under that name.")
            return arrays["features"]()
    raise InputError(f"--features {source}: {reason}.")


def tiles(states: int, actions: int, dimension: int, tilings: int, size: int) -> np.ndarray:
    """Tile coding of the state index: features `[S, A, dimension]` of zeros and ones.

    N tilings of the index, each shifted against the one before by 1/N of a tile: `q = floor(N s
    size / S)`, and tiling i has the key `(i, (q + i) // N, a)`. Keys take the d slots in the order
    of first use (over states, actions, tilings); once all are taken, a new key shares the slot
    `crc32("i,tile,a") mod d`. Entries are set to 1, not added. It amounts to state aggregation.
    """
    for name, number in (("dimension", dimension), ("tilings", tilings), ("size", size)):
        if number < 1:
            raise InputError(f"tiles: {name} is {number}; it must be a whole number of at least 1.")
    features = np.zeros((states, actions, dimension))
    slots: dict[tuple[int, int, int], int] = {}
    for s in range(states):
        place = tilings * s * size // states
        for a in range(actions):
            for i in range(tilings):
                key = (i, (place + i) // tilings, a)
                if key not in slots and len(slots) < dimension:
                    slots[key] = len(slots)
                features[s, a, slots.get(key, zlib.crc32(b"%d,%d,%d" % key) % dimension)] = 1.0
    return features


def _settings(name: str, builder: Callable[..., CMDP], text: str) -> dict[str, Any]:
    """`states=200,seed=3` as keyword arguments of the type of each default; lists are `12+16`."""
    parameters = inspect.signature(builder).parameters
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if key not in parameters:
            hint = did_you_mean(key, parameters)
            raise InputError(f"{name}: setting '{key}' is not known; {hint}")
        default = parameters[key].default
        shown = "+".join(map(str, default)) if isinstance(default, tuple) else str(default).lower()
        example = f"write {key}={shown}, for example."
        if not equals:
            raise InputError(f"{name}: setting '{key}' has no value; {example}")
        if key in settings:
            raise InputError(f"{name}: setting '{key}' is given twice.")
        try:
            settings[key] = _convert(value, default)
        except (ValueError, OverflowError):
            raise InputError(f"{name}: {key}={value} is not understood; {example}") from None
    return settings


def _convert(text: str, default: Any) -> Any:
    """`text` as a value of the type of `default`; a `ValueError` if it is none."""
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
