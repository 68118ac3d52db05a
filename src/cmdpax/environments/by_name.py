"""What do `garnet:states=200`, `tiles:60,4,3` and a file name mean on the command line?

A model is a file, or an environment with settings, `garnet:states=200,seed=3`. A file of another
kind (a table, UMB, PRISM, JANI) does not say everything; `Reading` says the rest. Features
`[S, A, d]` are tile coding, `tiles:60,4,3` (dimension, tilings, size), or the array in a `.npy`
file, or the array `features` of an `.npz` file.
"""

import inspect
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cmdpax.environments import finite
from cmdpax.errors import InputError, did_you_mean
from cmdpax.files.arrays import arrays_in, read_array
from cmdpax.files.reading import named, opened
from cmdpax.model.archive import load_model
from cmdpax.model.cmdp import CMDP
from cmdpax.model.prism import SUFFIXES as PROGRAMS
from cmdpax.model.tables import SUFFIXES as TABLES

SUFFIXES = (".npz", ".json")
# environments that can be drawn, and how many states they have
DRAWN: dict[str, Callable[..., int]] = {
    "cliff-world": lambda: 21,
    "deep-sea": lambda size: size**2,
    "grid-world": lambda width, height: width * height + 1,
}


@dataclass(frozen=True)
class Reading:
    """What a table, a UMB file, or a PRISM or JANI model does not say itself.

    Attributes:
        discount: the discount factor
        horizon: so many steps, then the run ends
        limit: bounds on columns or rewards, as in --limit 'cost<=3' '2<=heat<=5'
        initial: the first state; or several with chances, as in --initial idle=0.5 busy=0.5
        goal: states of a table, or labels of a UMB file, where the run ends
        reward: which column or reward is the reward
        minimise: the reward is a cost
        criterion: average, for the long-run average, which needs no discount
        may_stay: at discount 1, a run may also stay for ever where nothing is paid
        property: of PRISM, JANI: 'multi(R{"time"}min=? [F "done"], P>=0.9 [F "fast"])'
        constants: of PRISM, JANI: delay=3,fast=0.5
    """

    discount: float | None = None
    horizon: int | None = None
    limit: tuple[str, ...] = ()
    initial: tuple[str, ...] = ()
    goal: tuple[str, ...] = ()
    reward: str | None = None
    minimise: bool = False
    criterion: str | None = None
    may_stay: bool = False
    property: str | None = None
    constants: str | None = None

    def fields(self, source: str, kind: str, takes: tuple[str, ...]) -> dict[str, Any]:
        """What was said, if a source of this kind takes it."""
        said = {key: value for key, value in vars(self).items() if value != getattr(Reading, key)}
        for name in said:
            if name not in takes:
                own = ", ".join(f"--{one.replace('_', '-')}" for one in takes)
                remedy = f"it takes {own}" if takes else "leave it out"
                raise InputError(
                    f"--{name.replace('_', '-')}: {source} is {kind}, which takes none; {remedy}."
                )
        return {"limits" if name == "limit" else name: value for name, value in said.items()}


AS_IT_IS = Reading()
SAID = (
    *("discount", "horizon", "limit", "initial", "goal", "reward", "minimise"),
    *("criterion", "may_stay"),
)
ASKED = ("discount", "property", "constants")


def open_model(source: str, reading: Reading = AS_IT_IS) -> CMDP:
    """The model that `source` names."""
    name, _, text = source.partition(":")
    suffix = Path(source).suffix.lower()
    if name in finite:
        reading.fields(source, "an environment", ())
        return finite[name](**_settings(name, finite[name], text))
    if suffix in TABLES:
        return CMDP.from_table(source, **reading.fields(source, "a table", SAID))
    if suffix == ".umb":
        return CMDP.from_umb(source, **reading.fields(source, "a UMB file", SAID))
    if suffix in PROGRAMS:
        fields = reading.fields(source, "a program", ASKED)
        if "property" not in fields:
            example = '--property \'R{"time"}min=? [F "done"]\''
            raise InputError(f"{source}: nothing says what is asked; give {example}, for example.")
        return CMDP.from_prism(source, **fields)
    if suffix in SUFFIXES or Path(source).exists():
        reading.fields(source, "a model file", ())
        return load_model(source)
    files = ", ".join((*SUFFIXES, *TABLES, ".umb", *PROGRAMS))
    hint = did_you_mean(name, finite)
    raise InputError(f"'{source}' is neither a model file ({files}) nor an environment; {hint}")


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
