"""JSON values that a person or a program wrote, each checked and named by where it stands in the
file.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from reprlib import repr as brief
from sys import float_info
from typing import Any, TypeVar

from cmdpax.errors import InputError, did_you_mean

VERSION = 1
WORDS: Mapping[type, str] = {dict: "a JSON object", list: "a list", str: "text"}
T = TypeVar("T")


def dump(value: Any, finite: bool = True) -> str:
    """JSON text; NumPy's numbers and arrays become plain ones."""
    try:
        return json.dumps(value, default=lambda item: item.tolist(), allow_nan=not finite)
    except (AttributeError, TypeError, ValueError):
        raise InputError(
            "trace, mixture and grid: only finite numbers, text, lists and dictionaries can be"
            " saved."
        ) from None


def parse(text: str | bytes, finite: bool = True) -> Any:
    """JSON with no key twice; NaN and Infinity, which JSON does not know, only where `finite` is
    false.
    """
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_constant=_refuse_constant if finite else float
        )
    except InputError:
        raise
    except json.JSONDecodeError as error:
        raise InputError(
            f"it is not valid JSON: {error.msg} (line {error.lineno}, column {error.colno})."
        ) from None
    except UnicodeDecodeError:
        raise InputError("it is not valid JSON: it is not text in UTF-8.") from None
    except (RecursionError, ValueError):
        raise InputError(
            "it is JSON nested too deeply, or with a number of thousands of digits."
        ) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise InputError(
            f"key {brief(Counter(key for key, _ in pairs).most_common(1)[0][0])} is given twice;"
            " keep one."
        )
    return data


def _refuse_constant(word: str) -> float:
    raise InputError(f"it holds {word}; every number must be finite.")


def identified(data: Any, kind: str) -> dict[str, Any]:
    """A JSON object that says it is of this kind and version."""
    found = data.get("format") if isinstance(data, dict) else None
    if found != kind:
        raise InputError(f"it is not a {kind} file; its 'format' is {brief(found)}.")
    if type(data.get("version")) is not int or data["version"] != VERSION:
        raise InputError(
            f"its version is {brief(data.get('version'))}; this cmdpax reads version {VERSION}."
        )
    return data


def checked_keys(
    where: str, value: Any, required: tuple[str, ...], optional: Iterable[str] = ()
) -> dict[str, Any]:
    """The object, with every required key and none that is unknown."""
    known = (*required, *optional)
    for key in typed(where, value, dict):
        if key not in known:
            raise InputError(f"{where}: unknown key {brief(key)}; {did_you_mean(key[:40], known)}")
    for key in required:
        if key not in value:
            raise InputError(f"{where}: '{key}' is missing.")
    return value


def typed(where: str, value: Any, kind: type[T]) -> T:
    """A value of a given JSON type."""
    if not isinstance(value, kind):
        raise InputError(f"{where}: {brief(value)} is not {WORDS[kind]}.")
    return value


def texts(where: str, value: Any) -> list[str]:
    """A list of texts."""
    return [typed(f"{where}[{i}]", item, str) for i, item in enumerate(typed(where, value, list))]


def number(where: str, value: Any) -> float:
    """A finite number."""
    if type(value) not in (int, float) or not -float_info.max <= value <= float_info.max:
        raise InputError(f"{where}: {brief(value)} is not a finite number.")
    return float(value)


def counted(where: str, value: Any) -> tuple[int, list[str] | None]:
    """A count, or a list of different names, as (count, names or None)."""
    if type(value) is int and value > 0:
        return value, None
    names = texts(where, value)
    if not names:
        raise InputError(f"{where}: the list is empty; give at least one.")
    if len(set(names)) < len(names):
        raise InputError(
            f"{where}: {brief(Counter(names).most_common(1)[0][0])} is listed twice; names must"
            " differ."
        )
    return len(names), names


def index_of(names: Iterable[str] | None, count: int) -> dict[str, int]:
    """Index of each label; what has no name goes by its number."""
    return {label: i for i, label in enumerate(map(str, range(count)) if names is None else names)}


def find(where: str, label: Any, index: Mapping[str, int]) -> int:
    """The index of a label."""
    found = index.get(str(label)) if type(label) in (str, int) else None
    if found is None:
        hint = (
            did_you_mean(label[:40], index)
            if isinstance(label, str) and len(index) <= 20
            else f"there are {len(index)}."
        )
        raise InputError(f"{where}: {brief(label)} is not known; {hint}")
    return found


def by_index(where: str, value: Any, index: Mapping[str, int]) -> dict[int, float]:
    """`{label: number}` as `{index: number}`."""
    return {
        find(where, label, index): number(f"{where}.{label[:40]}", x)
        for label, x in typed(where, value, dict).items()
    }
