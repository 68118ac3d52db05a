"""What a sweep is: fields of a config, each with a value, a list (every combination is tried) or a
range (drawn at random).

    kind = "train"                 # or "exact"
    seeds = 5                      # so many, or a list of them
    draws = 20                     # random points, if any field is a range
    eps = 5.0                      # selection: best return with cost <= limit + eps (exact:
    violation <= eps, by default 0.01)

    [settings]                     # any field; for exact runs: model, method, eps, features, and
    the method's own settings environment = ["SafetyAntVelocity-v1", "SafetyHopperVelocity-v1"]
    learning_rate = { low = 1e-4, high = 1e-2, log = true }

    [methods.spma-alm]             # the same for one method only; the methods named here are the
    ones that are run spma_step = [0.1, 0.3]

`limit` and `hidden` hold several values: a list of them is one setting, and a list of lists every
combination. A draw depends on the method, the field and its number alone: with more draws, the
earlier ones stay.
"""

import itertools
import json
import math
import tomllib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.runs import EXACT, Run, check_problems, exact_run, train_run
from cmdpax.learning.config import TrainConfig
from cmdpax.solvers.table import Method, find

Kind = Literal["train", "exact"]
EXCESS: Mapping[Kind, float] = {"train": 5.0, "exact": 0.01}
LARGEST = 1e300  # larger integers are no floats
MOST_RUNS = 100_000  # more would take longer to list than anybody waits; split the sweep
TRAIN = {
    one.name: "" if one.default is MISSING else one.default
    for one in fields(TrainConfig)
    if one.name != "seed"
}


@dataclass(frozen=True)
class Spec:
    """A sweep, as in the module docstring."""

    name: str
    kind: Kind = "train"
    seeds: tuple[int, ...] = (0,)
    draws: int = 0
    eps: float = -1.0  # the kind's own
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def excess(self) -> float:
        """By how much a selected run may exceed its limits: `eps`, or what suits the kind."""
        return EXCESS[self.kind] if self.eps < 0 else self.eps

    def with_seeds(self, count: int) -> "Spec":
        """The same with the seeds 0, 1, ..., count - 1."""
        if not 1 <= count <= MOST_RUNS:
            raise InputError(
                f"sweep {self.name}: seeds is {count}; it must lie between 1 and {MOST_RUNS}."
            )
        return replace(self, seeds=tuple(range(count)))

    def with_fraction(self, fraction: float) -> "Spec":
        """The same with that part of every run's samples."""
        if self.kind != "train" or not 0 < fraction <= 1:
            raise InputError(
                f"fraction is {fraction:g}; it must lie in (0, 1], and is for training runs only."
            )
        settings = self._scaled({"samples": TRAIN["samples"], **self.settings}, fraction)
        return replace(
            self,
            settings=settings,
            methods={name: self._scaled(own, fraction) for name, own in self.methods.items()},
        )

    def _scaled(self, table: Mapping[str, Any], fraction: float) -> Mapping[str, Any]:
        """A table with that part of its samples, if it has any."""
        if "samples" not in table:
            return table
        given = table["samples"]
        every = given if isinstance(given, list) else [given]
        if not all(_is_number(one) and round(fraction * one) >= 1 for one in every):
            raise InputError(
                f"sweep {self.name}: samples is {_text(given)}, of which a fraction of {fraction:g}"
                " makes no sense."
            )
        scaled = [round(fraction * one) for one in every]
        return {**table, "samples": scaled if isinstance(given, list) else scaled[0]}

    def runs(self) -> list[Run]:
        """Every run of the sweep, each once, the first seed of all before the second of any.

        Whatever is wrong with any of them is said here, before work begins.
        """
        tables = [
            {**self.settings, **own, "method": name} for name, own in self.methods.items()
        ] or [dict(self.settings)]
        points = [
            point for table in tables for point in self._points(table) if not self._senseless(point)
        ]
        if not points:
            raise InputError(f"sweep {self.name}: there is nothing to run.")
        if len(points) * len(self.seeds) > MOST_RUNS:
            raise self._too_many(len(points))
        found = list(
            {
                run.id: run
                for seed in self.seeds
                for point in points
                for run in [self._run(point, seed)]
            }.values()
        )
        check_problems(found)
        return found

    def _too_many(self, points: int) -> InputError:
        runs = points * len(self.seeds)
        return InputError(
            f"sweep {self.name}: it has {runs} runs, more than {MOST_RUNS}; make it smaller, or"
            " several sweeps."
        )

    def _points(self, table: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Every combination of the lists, with every draw of the ranges."""
        lists, ranges, fixed = {}, {}, {}
        for name, value in table.items():
            if isinstance(value, Mapping):
                ranges[name] = value
            elif isinstance(value, list | tuple) and not self._is_one(name, value):
                if not value:
                    raise InputError(
                        f"sweep {self.name}: '{name}' is an empty list; give it a value, or leave"
                        " it out."
                    )
                lists[name] = value
            else:
                fixed[name] = value
        if ranges and self.draws < 1:
            raise InputError(
                f"sweep {self.name}: '{next(iter(ranges))}' is a range; say how many draws to make,"
                " as in draws = 20."
            )
        size = math.prod(map(len, lists.values())) * (self.draws if ranges else 1)
        if size * len(self.seeds) > MOST_RUNS:  # before anything is listed
            raise self._too_many(size)
        points = []
        for values in itertools.product(*lists.values()):
            grid = {**fixed, **dict(zip(lists, values))}
            for number in range(self.draws if ranges else 1):
                drawn = {
                    name: _draw(name, one, f"{grid.get('method', '')}/{name}/{number}")
                    for name, one in ranges.items()
                }
                points.append({**grid, **drawn})
        return points

    def _senseless(self, point: Mapping[str, Any]) -> bool:
        """Whether the methods table says that the update makes no sense there."""
        if self.kind == "train":
            return False
        method, settings = self._exact(point)
        return method.skip({**method.settings(), **settings})

    def _is_one(self, name: str, value: Sequence[Any]) -> bool:
        """Whether a list is one value: fields that hold several take a list of lists."""
        return (
            isinstance(TRAIN.get(name), tuple)
            and self.kind == "train"
            and not any(isinstance(v, list | tuple) for v in value)
        )

    def _run(self, point: Mapping[str, Any], seed: int) -> Run:
        if self.kind == "train":
            settings = {name: self._checked(name, value, TRAIN) for name, value in point.items()}
            if not settings.get("environment"):
                raise InputError(
                    f"sweep {self.name}: settings.environment is missing; name a simulator."
                )
            return train_run(TrainConfig(**{**settings, "seed": seed}))
        config = {
            name: self._checked(name, value, EXACT)
            for name, value in point.items()
            if name in EXACT
        }
        config["settings"] = self._exact(point)[1]
        if not config.get("model"):
            raise InputError(
                f"sweep {self.name}: settings.model is missing; name a model file or an"
                " environment."
            )
        return exact_run(config, seed)

    def _exact(self, point: Mapping[str, Any]) -> tuple[Method, dict[str, Any]]:
        """The method of an exact run, and those of its own settings that are given."""
        method = find(self._checked("method", point.get("method", EXACT["method"]), EXACT))
        known = {name: value for name, value in method.settings().items() if name != "report"}
        return method, {
            name: self._checked(name, value, known)
            for name, value in point.items()
            if name not in EXACT
        }

    def _checked(self, name: str, value: Any, known: Mapping[str, Any]) -> Any:
        """A value in the type of its field, so that 1 and 1.0 are the same run."""
        if name not in known:
            kind = (
                ' (finite models need kind = "exact")'
                if self.kind == "train" and name in EXACT
                else ""
            )
            raise InputError(
                f"sweep {self.name}: a run of kind '{self.kind}' has no field '{name}'{kind};"
                f" {did_you_mean(name, known)}"
            )
        if isinstance(value, int | float) and not _is_number(value) and not isinstance(value, bool):
            raise InputError(f"sweep {self.name}: {name} is {value}; it must be finite.")
        default = known[name]
        if isinstance(default, tuple):  # several values of one type, or one of them by itself
            several = tuple(value) if isinstance(value, list | tuple) else (value,)
            if any(type(one) is not type(default[0]) for one in several):
                raise InputError(
                    f"sweep {self.name}: {name} is {_text(value)}; write {_text(default)}, for"
                    " example."
                )
            return several
        if isinstance(default, bool) or isinstance(value, bool):
            fits = isinstance(default, bool) and isinstance(value, bool)
        elif isinstance(default, int | float):
            fits = isinstance(value, int | float) and (
                isinstance(default, float) or value == int(value)
            )
            value = type(default)(value) if fits else value
            fits = fits or (name == "step" and isinstance(value, str))  # a step may be a rule
        else:  # features, or a limit, which are not set by default
            fits = (
                _is_number(value)
                if default is None and name != "features"
                else isinstance(value, str)
            )
        if not fits:
            example = (
                "a name in quotes"
                if default == "" or name == "features"
                else f"{_text(10 if default is None else default)}, for example"
            )
            raise InputError(f"sweep {self.name}: {name} is {_text(value)}; write {example}.")
        return value


def read_spec(path: Path) -> Spec:
    """A sweep from a TOML file."""
    try:
        given = tomllib.loads(path.read_text())
    except OSError as error:
        raise InputError(f"sweep {path}: the file cannot be read ({error.strerror}).") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"sweep {path}: this is not TOML: {error}.") from None
    known = [one.name for one in fields(Spec) if one.name != "name"]
    for name in given:
        if name not in known:
            raise InputError(f"sweep {path}: there is no key '{name}'; {did_you_mean(name, known)}")
    if given.get("kind", "train") not in ("train", "exact"):
        raise InputError(f"sweep {path}: kind is {given['kind']!r}; it is 'train' or 'exact'.")
    for name, kinds in (("eps", (int, float)), ("draws", (int,))):
        value = given.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value < math.inf:
            raise InputError(
                f"sweep {path}: {name} is {value!r}; it must be a"
                f" {'whole ' if name == 'draws' else ''}number >= 0."
            )
    for name in ("settings", "methods"):
        if not isinstance(given.get(name, {}), Mapping):
            raise InputError(f"sweep {path}: {name} must be a table, [{name}].")
    for name, own in given.get("methods", {}).items():
        if not isinstance(own, Mapping):
            raise InputError(f"sweep {path}: methods.{name} must be a table, [methods.{name}].")
        if "method" in own:
            raise InputError(
                f"sweep {path}: methods.{name} is of the method '{name}'; it cannot name another."
            )
    spec = Spec(path.stem, **{name: value for name, value in given.items() if name != "seeds"})
    return spec if "seeds" not in given else _seeded(spec, given["seeds"])


def _seeded(spec: Spec, seeds: Any) -> Spec:
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        return spec.with_seeds(seeds)
    if (
        not isinstance(seeds, list)
        or not seeds
        or not all(type(seed) is int and seed >= 0 for seed in seeds)
    ):
        raise InputError(
            f"sweep {spec.name}: seeds is {seeds}; give a number of them, or a list of whole"
            " numbers >= 0."
        )
    return replace(spec, seeds=tuple(seeds))


def _draw(name: str, limits: Mapping[str, Any], place: str) -> Any:
    """A number between `low` and `high`, evenly, or evenly in its logarithm; whole if both limits
    are.
    """
    low, high, log = limits.get("low", np.nan), limits.get("high", np.nan), limits.get("log", False)
    numbers, whole = (
        all(isinstance(limit, kind) for limit in (low, high)) for kind in (int | float, int)
    )
    least, most = 0 if log else -np.inf, 2**62 if whole else np.inf
    if set(limits) - {"low", "high", "log"} or not numbers or not least < low < high < most:
        raise InputError(
            f"{name} = {dict(limits)}: write a range as {{ low = 1e-4, high = 1e-2, log = true }}, "
            "low below high, and above 0 with log."
        )
    random = np.random.default_rng(zlib.crc32(place.encode()))
    if whole and not log:
        return int(random.integers(low, high + 1))
    value = float(
        np.exp(random.uniform(np.log(low), np.log(high))) if log else random.uniform(low, high)
    )
    return round(value) if whole else float(f"{value:.4g}")


def _is_number(value: Any) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and -LARGEST < value < LARGEST
    )


def _text(value: Any) -> str:
    return json.dumps(value, default=str)  # TOML has dates
