"""A part of a sweep: those of its runs whose settings have the values that somebody names, as in
`method=cpo,ppo-lag seed=0`.

Which runs a sweep has does not change what any of them is, so that parts run one after the other
make up the whole.
"""

import json
from collections.abc import Sequence
from typing import Any

from cmdpax.errors import InputError, did_you_mean
from cmdpax.experiments.runs import Run


def part(runs: Sequence[Run], conditions: Sequence[str]) -> list[Run]:
    """The runs that meet every condition `field=value,value,...`; one that no run meets is an
    error.
    """
    for condition in conditions:
        name, equals, values = condition.partition("=")
        if not equals or not values:
            raise InputError(
                f"--only {condition}: write FIELD=VALUE, or FIELD=VALUE,VALUE, as in"
                " method=cpo,ppo-lag."
            )
        fields = dict.fromkeys(field for run in runs for field in _fields(run))
        if name not in fields:
            raise InputError(
                f"--only {condition}: the runs of this sweep have no field '{name}';"
                f" {did_you_mean(name, fields)}"
            )
        there = {_text(_fields(run).get(name)): None for run in runs}
        wanted = [_text(value) for value in _values(values)]
        for value in wanted:
            if value not in there:
                raise InputError(
                    f"--only {condition}: no run has {name} {value}; there are"
                    f" {', '.join(list(there)[:20])}."
                )
        runs = [run for run in runs if _text(_fields(run).get(name)) in wanted]
    return list(runs)


def _fields(run: Run) -> dict[str, Any]:
    """Everything that determines a run, by name."""
    return {"seed": run.seed, **run.config, **run.config.get("settings", {})}


def _values(text: str) -> list[Any]:
    """What stands between commas: numbers and lists, as in `[8, 8],[16]`, for what looks like them,
    else words.
    """
    try:
        return json.loads(f"[{text}]")
    except ValueError:
        return [_value(word) for word in text.split(",")]


def _value(word: str) -> Any:
    try:
        return json.loads(word)
    except ValueError:
        return word


def _text(value: Any) -> str:
    """A value as it is compared and shown: 1 and 1.0 are the same."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return value if isinstance(value, str) else json.dumps(value)
