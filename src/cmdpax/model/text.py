"""The `.json` form of a model, for people to write: small, in the caller's own orientation."""

from collections.abc import Mapping
from dataclasses import asdict
from reprlib import repr as brief
from typing import Any, BinaryIO

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.model.transitions import padded_rows
from cmdpax.model.values import (
    VERSION,
    by_index,
    checked_keys,
    counted,
    dump,
    find,
    identified,
    index_of,
    number,
    parse,
    typed,
)

MODEL = "cmdpax-model"
NAMES = ("state_names", "action_names", "constraint_names")
MODEL_KEYS = (
    "format",
    "version",
    "discount",
    "states",
    "actions",
    "initial",
    "constraints",
    "transitions",
)
LARGEST_TEXT = 64_000_000  # bytes of a .json file
LARGEST_JSON = 500_000  # entries of a model in .json: S * A * max(B, 1 + m)


def model_from_json(file: BinaryIO) -> CMDP:
    """The model in an open `.json` file."""
    text = file.read(LARGEST_TEXT + 1)
    if len(text) > LARGEST_TEXT:
        raise InputError(
            f"it has more than {LARGEST_TEXT:,} bytes; save a model of this size as .npz."
        )
    data = checked_keys("the model", identified(parse(text), MODEL), MODEL_KEYS, ("grid",))
    transitions = typed("transitions", data["transitions"], list)
    senses, thresholds, constraint_names = _limits(typed("constraints", data["constraints"], list))
    S, state_names = counted("states", data["states"])
    A, action_names = counted("actions", data["actions"])
    m = len(thresholds)
    if len(transitions) < S:  # a count costs nothing to write, so it is not yet to be believed
        raise InputError(
            f"states: {brief(S)} of them but {len(transitions)} transitions; some state's action"
            " set is empty."
        )
    refuse_large(S, A, 1 + m)
    states, actions, costs = (
        index_of(state_names, S),
        index_of(action_names, A),
        index_of(constraint_names, m),
    )
    reward, constraints, available = (
        np.zeros((S, A)),
        np.zeros((m, S, A)),
        np.zeros((S, A), dtype=bool),
    )
    rows: dict[tuple[int, int], dict[int, float]] = {}
    for i, entry in enumerate(transitions):
        where = f"transitions[{i}]"
        checked_keys(where, entry, ("state", "action", "to"), ("reward", "costs"))
        s, a = (
            find(f"{where}.state", entry["state"], states),
            find(f"{where}.action", entry["action"], actions),
        )
        if available[s, a]:
            raise InputError(
                f"{where}: state {brief(entry['state'])}, action {brief(entry['action'])} is listed"
                " twice; keep one."
            )
        available[s, a] = True
        rows[s, a] = by_index(f"{where}.to", entry["to"], states)
        reward[s, a] = number(f"{where}.reward", entry.get("reward", 0.0))
        for c, cost in by_index(f"{where}.costs", entry.get("costs", {}), costs).items():
            constraints[c, s, a] = cost
    for name, s in states.items():
        if not available[s].any():
            raise InputError(
                f"state {brief(name)}: the action set is empty; list a transition for each of its"
                " actions."
            )
    refuse_large(S, A, max((len(row) for row in rows.values()), default=1))
    return CMDP(
        padded_rows(rows, {s: s for s in range(S)}, S, A),
        reward,
        constraints,
        thresholds,
        _initial(data["initial"], states),
        number("discount", data["discount"]),
        senses=senses,
        available=available,
        state_names=state_names,
        action_names=action_names,
        constraint_names=constraint_names,
        grid=grid_from(data.get("grid")),
    )


def _limits(limits: list[Any]) -> tuple[list[str], list[float], list[str] | None]:
    """Senses, thresholds and names (or None) of the constraints, in the caller's own orientation."""
    senses, thresholds, names = [], [], []
    for i, limit in enumerate(limits):
        where = f"constraints[{i}]"
        checked_keys(where, limit, (), ("name", "at_most", "at_least"))
        if ("at_most" in limit) == ("at_least" in limit):
            raise InputError(f"{where}: give either 'at_most' or 'at_least'.")
        bound, sense = ("at_most", "<=") if "at_most" in limit else ("at_least", ">=")
        senses.append(sense)
        thresholds.append(number(f"{where}.{bound}", limit[bound]))
        names += [limit["name"]] if "name" in limit else []
    if names and len(names) < len(limits):
        raise InputError(
            "constraints: some have a name and some have none; name all of them, or none."
        )
    return senses, thresholds, counted("constraints", names)[1] if names else None


def _initial(value: Any, states: Mapping[str, int]) -> np.ndarray:
    if isinstance(value, list):
        return np.array(
            [number(f"initial[{s}]", probability) for s, probability in enumerate(value)]
        )
    start = np.zeros(len(states))
    for s, probability in by_index("initial", value, states).items():
        start[s] = probability
    return start


def grid_from(value: Any) -> Grid | None:
    """Drawing instructions out of parsed JSON."""
    if value is None:
        return None
    marks = ("hazards", "goals", "absorbing")
    checked_keys("grid", value, ("cells", "moves"), marks)
    lists = {
        name: typed(f"grid.{name}", value.get(name, []), list)
        for name in ("cells", "moves", *marks)
    }
    for name in ("cells", "moves"):
        for i, point in enumerate(lists[name]):
            if len(typed(f"grid.{name}[{i}]", point, list)) != 2:
                raise InputError(f"grid.{name}[{i}]: {brief(point)} is not a pair [x, y].")
        lists[name] = [
            (number(f"grid.{name}", x), number(f"grid.{name}", y)) for x, y in lists[name]
        ]
    for name in marks:
        if any(type(state) is not int for state in lists[name]):
            raise InputError(f"grid.{name}: it must list indices of states.")
    return Grid(**{name: tuple(items) for name, items in lists.items()})


def model_to_json(model: CMDP) -> str:
    """A model as `.json` text, one pair a line."""
    S, A, m = model.states, model.actions, model.constraint_count
    refuse_large(S, A, max(model.successors.shape[2], 1 + m))
    labels = []
    for field, count in zip(NAMES, (S, A, m), strict=True):
        labels.append(list(index_of(getattr(model, field), count)))
        if len(labels[-1]) < count:
            raise InputError(
                f"{field}: a .json file needs them all different; rename some, or save as .npz."
            )
    states, actions, costs = labels
    sign = np.array([1.0 if sense == ">=" else -1.0 for sense in model.senses])
    constraints = model.constraints * sign[:, None, None]
    head = {
        "format": MODEL,
        "version": VERSION,
        "discount": model.discount,
        "states": model.state_names or S,
        "actions": model.action_names or A,
        "initial": {states[s]: model.initial[s] for s in np.nonzero(model.initial)[0]},
        "constraints": [
            ({"name": name} if model.constraint_names else {})
            | {"at_least" if sense == ">=" else "at_most": limit}
            for name, sense, limit in zip(
                costs, model.senses, model.thresholds * sign + 0.0, strict=True
            )
        ],
    } | ({"grid": asdict(model.grid)} if model.grid else {})
    lines = []
    for s, a in np.argwhere(
        np.ones((S, A), dtype=bool) if model.available is None else model.available
    ):
        entry = {
            "state": states[s],
            "action": actions[a],
            "to": {
                states[t]: p
                for t, p in zip(model.successors[s, a], model.probabilities[s, a], strict=True)
                if p
            },
            "reward": model.reward[s, a],
            "costs": {
                name: row[s, a] for name, row in zip(costs, constraints, strict=True) if row[s, a]
            },
        }
        lines.append(f"    {dump(entry)}")
    fields = [f"  {dump(key)}: {dump(value)}" for key, value in head.items()]
    return (
        "{\n"
        + ",\n".join([*fields, '  "transitions": [\n' + ",\n".join(lines) + "\n  ]"])
        + "\n}\n"
    )


def refuse_large(S: int, A: int, width: int) -> None:
    """Refuse what would be absurd as text."""
    if S * A * width > LARGEST_JSON:
        raise InputError(
            f"{brief(S)} states x {brief(A)} actions x {width} entries are too many for .json; save"
            " the model as .npz."
        )
