"""Which runs does a sweep have, and which part is wanted?

A sweep gives each field of a config a value, a list (every combination is tried) or a range (drawn
at random):

    kind = "train"                 # or "exact"
    seeds = 5                      # so many, or a list of them
    draws = 20                     # random points, if any field is a range
    allowed_excess = 5.0           # selection: best return with cost <= limit + allowed_excess
                                   # (exact: violation <= allowed_excess, by default 0.01)

    [settings]                     # any field; for exact runs: model, method, eps, features, and
                                   # the method's own settings
    environment = ["SafetyAntVelocity-v1", "SafetyHopperVelocity-v1"]
    learning_rate = { low = 1e-4, high = 1e-2, log = true }
    clip = { among = [0.1, 0.2] }  # drawn from a list, where all combinations would be too many

    [methods.spma-alm]             # the same for one method only; only methods named here are run
    spma_step = [0.1, 0.3]

`limits` and `hidden` hold several values: a list of them is one setting, and a list of lists every
combination. A draw depends on the method, the field and its number alone: with more draws, the
earlier ones stay.
"""

import itertools
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from cmdpax.errors import InputError, check_known
from cmdpax.experiments.runs import EXACT, LIMITS, Run, check_problems, exact_run, train_run
from cmdpax.files.reading import LARGEST_TOML, Row, named, parse_json, parse_toml, read_bytes
from cmdpax.learning.config import METHODS, TrainConfig
from cmdpax.learning.run_folder import NAMES_OF_0_1
from cmdpax.solvers.table import Method, find_method

Kind = Literal["train", "exact"]
EXCESS: Mapping[Kind, float] = {"train": 5.0, "exact": 0.01}
MAX_NUMBER = 1e300  # larger integers are no floats
MAX_RUNS = 100_000  # more would take longer to list than anybody waits; split the sweep
OLD_KEYS = {"eps": "allowed_excess"}  # of files written for 0.1
EXACT_FIELDS = {name: default for name, default in EXACT.items() if name != "settings"}
TRAIN_FIELDS = {"environment": "", **asdict(TrainConfig().resolved())}
del TRAIN_FIELDS["seed"]


@dataclass(frozen=True)
class Sweep:
    """A sweep, as in the module docstring."""

    name: str
    kind: Kind = "train"
    seeds: tuple[int, ...] = (0,)
    draws: int = 0
    allowed_excess: float | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def excess(self) -> float:
        """By how much a selected run may exceed its limits: as given, or what suits the kind."""
        return EXCESS[self.kind] if self.allowed_excess is None else self.allowed_excess

    def with_seeds(self, count: int) -> "Sweep":
        """The same with the seeds 0, 1, ..., count - 1."""
        if not 1 <= count <= MAX_RUNS:
            raise self._error(f"seeds is {count}; it must lie between 1 and {MAX_RUNS}.")
        return replace(self, seeds=tuple(range(count)))

    def with_fraction(self, fraction: float) -> "Sweep":
        """The same with that part of every run's samples."""
        if self.kind != "train" or not 0 < fraction <= 1:
            wanted = "it must lie in (0, 1], and is for training runs only"
            raise InputError(f"fraction is {fraction:g}; {wanted}.")
        settings = self._scaled({"samples": TRAIN_FIELDS["samples"], **self.settings}, fraction)
        methods = {name: self._scaled(own, fraction) for name, own in self.methods.items()}
        return replace(self, settings=settings, methods=methods)

    def _scaled(self, table: Mapping[str, Any], fraction: float) -> Mapping[str, Any]:
        """A table with that part of its samples, if it has any."""
        if "samples" not in table:
            return table
        samples = table["samples"]
        every = samples if isinstance(samples, list) else [samples]
        if not all(_is_number(one) and round(fraction * one) >= 1 for one in every):
            what = f"samples is {_json(samples)}, of which a fraction of {fraction:g}"
            raise self._error(f"{what} makes no sense.")
        scaled = [round(fraction * one) for one in every]
        return {**table, "samples": scaled if isinstance(samples, list) else scaled[0]}

    def runs(self) -> list[Run]:
        """Every run of the sweep, each once, so that what a sweep cut short has done is of use.

        The first seed of all comes before the second of any; in a seed the first draw before the
        second; in a draw problem by problem, as they are listed: name those first that cost least.
        Whatever is wrong with any of them is said here, before work begins.
        """
        tables = [{**self.settings, **own, "method": name} for name, own in self.methods.items()]
        every = (self._points(table) for table in tables or [dict(self.settings)])
        numbered = [one for own in every for one in own if not self._is_senseless(one[1])]
        problem = "environment" if self.kind == "train" else "model"
        problems = [_json(point.get(problem)) for _, point in numbered]
        place = {name: number for number, name in enumerate(dict.fromkeys(problems))}
        order = sorted(zip(numbered, problems), key=lambda one: (one[0][0], place[one[1]]))
        points = [point for (_, point), _ in order]
        if not points:
            raise self._error("there is nothing to run.")
        self._refuse_too_many(len(points))
        planned = (self._run(point, seed) for seed in self.seeds for point in points)
        runs = list({run.id: run for run in planned}.values())
        check_problems(runs)
        return runs

    def _error(self, sentence: str) -> InputError:
        return InputError(f"sweep {self.name}: {sentence}")

    def _refuse_too_many(self, points: int) -> None:
        if (runs := points * len(self.seeds)) > MAX_RUNS:
            size = f"it has {runs} runs, more than {MAX_RUNS}"
            raise self._error(f"{size}; make it smaller, or several sweeps.")

    def _points(self, table: Mapping[str, Any]) -> list[tuple[int, Row]]:
        """Every combination of the lists, with every draw of the ranges and its number."""
        lists, ranges, fixed = {}, {}, {}
        for name, value in table.items():
            name = NAMES_OF_0_1.get(name, name) if self.kind == "train" else name
            if isinstance(value, Mapping):
                ranges[name] = value
            elif isinstance(value, list | tuple) and not self._is_one(name, value):
                if not value:
                    remedy = "give it a value, or leave it out"
                    raise self._error(f"'{name}' is an empty list; {remedy}.")
                lists[name] = value
            else:
                fixed[name] = value
        if ranges and self.draws < 1:
            remedy = "say how many draws to make, as in draws = 20"
            raise self._error(f"'{next(iter(ranges))}' is a range; {remedy}.")
        draws = self.draws if ranges else 1
        self._refuse_too_many(math.prod(map(len, lists.values())) * draws)  # before any is listed
        points = []
        for values in itertools.product(*lists.values()):
            grid = {**fixed, **dict(zip(lists, values))}
            for number in range(draws):
                drawn = {
                    name: _draw(name, one, f"{grid.get('method', '')}/{name}/{number}")
                    for name, one in ranges.items()
                }
                points.append((number, {**grid, **drawn}))
        return points

    def _is_senseless(self, point: Row) -> bool:
        """Whether the methods table says that the update makes no sense there."""
        if self.kind == "train":
            return False
        method, settings = self._exact(point)
        return not method.sensible({**method.settings, **settings})

    def _is_one(self, name: str, value: Sequence[Any]) -> bool:
        """Whether a list is one value: fields that hold several take a list of lists."""
        holds_several = self.kind == "train" and isinstance(TRAIN_FIELDS.get(name), tuple)
        return holds_several and not any(isinstance(one, list | tuple) for one in value)

    def _run(self, point: Row, seed: int) -> Run:
        if self.kind == "train":
            settings = {key: self._checked(key, one, TRAIN_FIELDS) for key, one in point.items()}
            if not settings.get("environment"):
                raise self._error("settings.environment is missing; name a simulator.")
            environment = settings.pop("environment")
            # what changes nothing makes no other run
            method = METHODS.get(settings.get("method", TrainConfig.method))
            for name in method.unused if method else ():
                settings.pop(name, None)
            return train_run(environment, TrainConfig(**settings, seed=seed))
        own = {name: value for name, value in point.items() if name in EXACT_FIELDS}
        config = {name: self._checked(name, value, EXACT_FIELDS) for name, value in own.items()}
        if not config.get("model"):
            raise self._error("settings.model is missing; name a model file or an environment.")
        return exact_run({**config, "settings": self._exact(point)[1]}, seed)

    def _exact(self, point: Row) -> tuple[Method, Row]:
        """The method of an exact run, and those of its own settings that are given."""
        name = point.get("method", EXACT_FIELDS["method"])
        method = find_method(self._checked("method", name, EXACT_FIELDS))
        defaults = {**method.settings, **LIMITS, **EXACT_FIELDS}
        own = {name: value for name, value in point.items() if name not in EXACT_FIELDS}
        return method, {name: self._checked(name, value, defaults) for name, value in own.items()}

    def _checked(self, name: str, value: Any, defaults: Mapping[str, Any]) -> Any:
        """A value in the type of its field, so that 1 and 1.0 are the same run."""
        if self.kind == "train" and name in EXACT_FIELDS and name not in defaults:
            remedy = 'finite models need kind = "exact"'
            raise self._error(f"a training has no field '{name}'; {remedy}.")
        check_known(f"sweep {self.name}: field", name, defaults)
        if isinstance(value, int | float) and not _is_number(value) and not isinstance(value, bool):
            raise self._error(f"{name} is {value}; it must be finite.")
        default = defaults[name]
        if isinstance(default, tuple):  # several values of one type, or one of them by itself
            several = tuple(value) if isinstance(value, list | tuple) else (value,)
            if any(type(one) is not type(default[0]) for one in several):
                raise self._error(f"{name} is {_json(value)}; write {_json(default)}, for example.")
            return several
        is_name = default == "" or name in ("features", "network")
        if isinstance(default, bool) or isinstance(value, bool):
            fits = isinstance(default, bool) and isinstance(value, bool)
        elif isinstance(default, str) or is_name:
            fits = isinstance(value, str)
        elif default is None:  # a limit, which is not set by default
            fits = _is_number(value)
        elif isinstance(value, str):
            fits = name == "step"  # a step may be a rule
        else:
            fits = _is_number(value) and (isinstance(default, float) or value == int(value))
            value = type(default)(value) if fits else value
        if not fits:
            default = 10 if default is None else default
            example = "a name in quotes" if is_name else f"{_json(default)}, for example"
            raise self._error(f"{name} is {_json(value)}; write {example}.")
        return value


def read_sweep(path: Path) -> Sweep:
    """A sweep from a TOML file."""
    where = f"sweep {path}"
    with named(where):
        table = parse_toml(read_bytes(path, LARGEST_TOML))
    keys = [one.name for one in fields(Sweep) if one.name != "name"]
    for old, new in OLD_KEYS.items():
        if old in table and new in table:
            raise InputError(f"{where}: {old} is the old name of {new}; give one of them.")
    for name in table:
        check_known(f"{where}: key", OLD_KEYS.get(name, name), keys)
    if table.get("kind", "train") not in ("train", "exact"):
        raise InputError(f"{where}: kind is {table['kind']!r}; it is 'train' or 'exact'.")
    for name in ("allowed_excess", "eps", "draws"):
        value, types = table.get(name, 0), (int,) if name == "draws" else (int, float)
        if isinstance(value, bool) or not isinstance(value, types) or not 0 <= value < math.inf:
            wanted = f"a {'whole ' if name == 'draws' else ''}number >= 0"
            raise InputError(f"{where}: {name} is {value!r}; it must be {wanted}.")
    for name in ("settings", "methods"):
        if not isinstance(table.get(name, {}), Mapping):
            raise InputError(f"{where}: {name} must be a table, [{name}].")
    for name, own in table.get("methods", {}).items():
        if not isinstance(own, Mapping):
            raise InputError(f"{where}: methods.{name} must be a table, [methods.{name}].")
        if "method" in own:
            what = f"methods.{name} is of the method '{name}'"
            raise InputError(f"{where}: {what}; it cannot name another.")
    seeds = table.pop("seeds", [0])
    sweep = Sweep(path.stem, **{OLD_KEYS.get(name, name): value for name, value in table.items()})
    if type(seeds) is int:
        return sweep.with_seeds(seeds)
    is_list = isinstance(seeds, list) and all(type(seed) is int and seed >= 0 for seed in seeds)
    if not is_list or not seeds:
        remedy = "give a number of them, or a list of whole numbers >= 0"
        raise InputError(f"{where}: seeds is {seeds}; {remedy}.")
    return replace(sweep, seeds=tuple(seeds))


def subset(runs: Sequence[Run], conditions: Sequence[str]) -> list[Run]:
    """`subset(runs, ["method=cpo,ppo-lag", "seed=0"])`: the runs that meet every condition.

    A value that no run has is an error. The parts of a sweep together are the whole.
    """
    for condition in conditions:
        name, _, values = condition.partition("=")
        if not values:
            example = "write FIELD=VALUE, or FIELD=VALUE,VALUE, as in method=cpo,ppo-lag"
            raise InputError(f"--only {condition}: {example}.")
        check_known(f"--only {condition}: field", name, {key for run in runs for key in run.fields})
        present = {_shown(run.fields.get(name)): None for run in runs}
        wanted = [_shown(value) for value in _values(values)]
        for value in wanted:
            if value not in present:
                nobody = f"no run has {name} {value}"
                there = ", ".join(list(present)[:20])
                raise InputError(f"--only {condition}: {nobody}; there are {there}.")
        runs = [run for run in runs if _shown(run.fields.get(name)) in wanted]
    return list(runs)


def _values(text: str) -> list[Any]:
    """What stands between commas: numbers and lists, as in `[8, 8],[16]`, or else words."""
    try:
        return parse_json(f"[{text}]", finite=False) or [text]
    except ValueError:
        words = text.split(",")
        return [value for word in words for value in _values(word)] if len(words) > 1 else words


def _draw(name: str, limits: Mapping[str, Any], place: str) -> Any:
    """A number between `low` and `high`, evenly, or evenly in its logarithm; whole if both are.

    Or, evenly, one of those `among` which to draw.
    """
    random, listed = np.random.default_rng(zlib.crc32(place.encode())), limits.get("among")
    if limits.keys() == {"among"} and isinstance(listed, list | tuple) and listed:
        return listed[random.integers(len(listed))]
    low, high, log = limits.get("low", np.nan), limits.get("high", np.nan), limits.get("log", False)
    numbers = isinstance(low, int | float) and isinstance(high, int | float)
    whole = isinstance(low, int) and isinstance(high, int)
    least, most = 0 if log else -np.inf, 2**62 if whole else np.inf
    if set(limits) - {"low", "high", "log"} or not numbers or not least < low < high < most:
        example = "{ low = 1e-4, high = 1e-2, log = true }, low below high, and above 0 with log"
        raise InputError(f"{name} = {dict(limits)}: write a range as {example}.")
    if whole and not log:
        return int(random.integers(low, high + 1))
    value = random.uniform(np.log(low), np.log(high)) if log else random.uniform(low, high)
    value = float(np.exp(value) if log else value)
    return round(value) if whole else float(f"{value:.4g}")


def _is_number(value: Any) -> bool:
    is_real = isinstance(value, int | float) and not isinstance(value, bool)
    return is_real and -MAX_NUMBER < value < MAX_NUMBER


def _json(value: Any) -> str:
    return json.dumps(value, default=str)  # TOML has dates


def _shown(value: Any) -> str:
    """A value as it is compared and shown: 1 and 1.0 are the same."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return value if isinstance(value, str) else json.dumps(value)
