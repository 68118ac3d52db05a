"""How does a person write a model as `.json`?

Small models, in the user's orientation; and how JSON values that a person or a program wrote are
checked, each named by where it stands in the file.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from reprlib import repr as brief
from sys import float_info
from typing import Any, TypeVar

import numpy as np

from cmdpax.errors import InputError, check_count, did_you_mean
from cmdpax.files.reading import identified, parse_json
from cmdpax.model.arguments import Grid
from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import Limits
from cmdpax.model.steps import Pair, from_pairs, staged

MODEL = "cmdpax-model"
VERSION = 2  # of models as .json, and of results
NAMES = ("state_names", "action_names", "constraint_names")
HEAD_KEYS = ("format", "version", "discount", "states", "actions", "initial", "constraints")
MAY = ("grid", "minimise", "may_stay", "criterion", "notes", "horizon")  # be left out
LARGEST_JSON = 500_000  # entries of a model in .json: S * A * max(B, 1 + m)
WORDS: Mapping[type, str] = {dict: "a JSON object", list: "a list", str: "text"}
T = TypeVar("T")


def what_counts(model: CMDP) -> dict[str, Any]:
    """What a file says of the criterion beside the discount, where that does not say it."""
    said: dict[str, Any] = {"may_stay": True} if model.may_stay else {}
    return said | ({"criterion": "average"} if model.criterion == "average" else {})


def model_from_json(text: bytes) -> CMDP:
    """The model in a `.json` file."""
    data = identified(parse_json(text), MODEL, VERSION)
    checked_keys("the model", data, (*HEAD_KEYS, "transitions"), MAY)
    transitions = typed("transitions", data["transitions"], list)
    limits, constraint_names = _limits(typed("constraints", data["constraints"], list))
    S, state_names = counted("states", data["states"])
    A, action_names = counted("actions", data["actions"])
    m = len(limits)
    if len(transitions) < S:  # a count costs nothing to write, so it is not yet to be believed
        counts = f"{brief(S)} of them but {len(transitions)} transitions"
        raise InputError(f"states: {counts}; some state's action set is empty.")
    horizon = None if "horizon" not in data else check_count("horizon", data["horizon"])
    refuse_large(S * (horizon or 1), A, 1 + m)
    states, actions = index_of(state_names, S), index_of(action_names, A)
    costs, pairs = index_of(constraint_names, m), dict[tuple[int, int, int], Pair]()
    has_times = horizon is not None and any("time" in entry for entry in transitions)
    for i, entry in enumerate(transitions):
        where = f"transitions[{i}]"
        timed = ("time",) if has_times else ()
        checked_keys(where, entry, ("state", "action", "to", *timed), ("reward", "costs"))
        t = check_count(f"{where}.time", entry["time"], 0, horizon - 1) if horizon and timed else 0
        s = find(f"{where}.state", entry["state"], states)
        a = find(f"{where}.action", entry["action"], actions)
        if (t, s, a) in pairs:
            pair = f"state {brief(entry['state'])}, action {brief(entry['action'])}"
            raise InputError(f"{where}: {pair} is listed twice; keep one.")
        chances = by_index(f"{where}.to", entry["to"], states)
        reward = number(f"{where}.reward", entry.get("reward", 0.0))
        paid = by_index(f"{where}.costs", entry.get("costs", {}), costs)
        pairs[t, s, a] = Pair(s, a, chances, reward, [paid.get(c, 0.0) for c in range(m)])
    made, longest = [], max(len(pair.successors) for pair in pairs.values())
    refuse_large(S * (horizon or 1), A, longest)
    for t in range(horizon if horizon and has_times else 1):
        own = [pair for (time, _, _), pair in pairs.items() if time == t]
        busy = {pair.state for pair in own}
        for name, s in states.items():
            if s not in busy:
                when = f" at time {t}" if has_times else ""
                advice = "list a transition for each of its actions"
                raise InputError(f"state {brief(name)}{when}: the action set is empty; {advice}.")
        made.append(from_pairs(own, S, A, m))
    return CMDP(
        **(staged(made) if has_times else made[0]),
        horizon=horizon,
        thresholds=[threshold for threshold, _ in limits],
        senses=[sense for _, sense in limits],
        initial=_initial(data["initial"], states),
        discount=number("discount", data["discount"]),
        minimise=data.get("minimise", False),
        may_stay=data.get("may_stay", False),
        criterion=data.get("criterion"),
        state_names=state_names,
        action_names=action_names,
        constraint_names=constraint_names,
        grid=grid_from(data.get("grid")),
        notes=texts("notes", data.get("notes", [])),
    )


def _limits(limits: list[Any]) -> tuple[list[tuple[Any, str]], list[str] | None]:
    """Threshold and sense of each constraint, and their names (or None)."""
    senses = {"at_most": "<=", "at_least": ">=", "equals": "=="}
    written, names = [], []
    for i, limit in enumerate(limits):
        where = f"constraints[{i}]"
        checked_keys(where, limit, (), ("name", "at_least", "at_most", "equals"))
        keys = [key for key in ("at_least", "at_most", "equals") if key in limit]
        if len(keys) != 1 and keys != ["at_least", "at_most"]:
            raise InputError(f"{where}: give 'at_most', 'at_least', both for a range, or 'equals'.")
        bounds = [number(f"{where}.{key}", limit[key]) for key in keys]
        written.append((bounds, "in") if len(keys) > 1 else (bounds[0], senses[keys[0]]))
        names += [limit["name"]] if "name" in limit else []
    if names and len(names) < len(limits):
        raise InputError("constraints: some have a name and some have none; name all or none.")
    return written, counted("constraints", names)[1] if names else None


def _said(limits: Limits) -> list[dict[str, Any]]:
    """Limits as the file has them."""
    keys = {"<=": ("at_most",), ">=": ("at_least",), "==": ("equals",)}
    return [
        {"name": name} | dict(zip(keys.get(sense, ("at_least", "at_most")), np.atleast_1d(entry)))
        for name, sense, entry in zip(limits.names, limits.senses, limits.entries)
    ]


def _initial(value: Any, states: Mapping[str, int]) -> np.ndarray:
    if isinstance(value, list):
        return np.array([number(f"initial[{s}]", chance) for s, chance in enumerate(value)])
    chances = by_index("initial", value, states)
    return np.array([chances.get(s, 0.0) for s in range(len(states))])


def grid_from(value: Any) -> Grid | None:
    """Drawing instructions out of parsed JSON."""
    if value is None:
        return None
    marks = ("hazards", "goals", "absorbing")
    checked_keys("grid", value, ("cells", "moves"), marks)
    names = ("cells", "moves", *marks)
    lists = {name: typed(f"grid.{name}", value.get(name, []), list) for name in names}
    for name in names[:2]:
        for i, point in enumerate(lists[name]):
            if len(typed(f"grid.{name}[{i}]", point, list)) != 2:
                raise InputError(f"grid.{name}[{i}]: {brief(point)} is not a pair [x, y].")
            lists[name][i] = tuple(number(f"grid.{name}", x) for x in point)
    for name in marks:
        if any(type(state) is not int for state in lists[name]):
            raise InputError(f"grid.{name}: it must list indices of states.")
    return Grid(**{name: tuple(items) for name, items in lists.items()})


def model_to_json(model: CMDP) -> str:
    """A model as `.json` text, one pair a line."""
    S, A, m = *model.policy_shape[-2:], model.constraint_count
    refuse_large(model.states, A, max(model.transitions.longest, 1 + m))
    if model.action_names and not isinstance(model.action_names[0], str):
        raise InputError("action_names: those of each state do not fit .json; save as .npz.")
    labels = []
    for field, count in zip(NAMES, (S, A, m), strict=True):
        labels.append(list(index_of(getattr(model, field), count)))
        if len(labels[-1]) < count:
            raise InputError(f"{field}: in .json they must differ; rename some, or save as .npz.")
    states, actions, costs = labels
    head = {
        "format": MODEL,
        "version": VERSION,
        "discount": model.discount,
        "states": model.state_names or S,
        "actions": model.action_names or A,
        "initial": {states[s]: model.initial[s] for s in np.nonzero(model.initial)[0]},
        "constraints": _said(model.limits),
    }
    head |= {} if model.horizon is None else {"horizon": model.horizon}
    head |= ({"minimise": True} if model.minimise else {}) | what_counts(model)
    head |= {"grid": asdict(model.grid)} if model.grid else {}
    head |= {"notes": model.notes} if model.notes else {}
    lines = []
    rows = model.transitions
    for k, (state, a) in enumerate(zip(rows.state_of.tolist(), rows.action_of.tolist())):
        time, s = divmod(state, S)
        if time == model.horizon:
            break
        own = slice(rows.first_entry[k], rows.first_entry[k + 1])
        chances = zip(rows.successors[own], rows.probabilities[own])
        paid = zip(costs, model.constraints[:, k])
        entry = {
            **({} if model.horizon is None else {"time": time}),
            "state": states[s],
            "action": actions[a],
            "to": {states[successor % S]: chance for successor, chance in chances},
            "reward": model.reward[k],
            "costs": {name: cost for name, cost in paid if cost},
        }
        lines.append(f"    {dump(entry)}")
    fields = [f"  {dump(key)}: {dump(value)}" for key, value in head.items()]
    fields.append('  "transitions": [\n' + ",\n".join(lines) + "\n  ]")
    return "{\n" + ",\n".join(fields) + "\n}\n"


def refuse_large(S: int, A: int, width: int) -> None:
    """Refuse what would be absurd as text."""
    if S * A * width > LARGEST_JSON:
        size = f"{brief(S)} states x {brief(A)} actions x {width} entries"
        raise InputError(f"{size} are too many for .json; save the model as .npz.")


def dump(value: Any, finite: bool = True) -> str:
    """JSON text; NumPy's numbers and arrays become plain ones."""
    try:
        return json.dumps(value, default=lambda item: item.tolist(), allow_nan=not finite)
    except (AttributeError, TypeError, ValueError):
        only = "only finite numbers, text, lists and dictionaries can be saved"
        raise InputError(f"trace, averaged and grid: {only}.") from None


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
        twice = brief(Counter(names).most_common(1)[0][0])
        raise InputError(f"{where}: {twice} is listed twice; names must differ.")
    return len(names), names


def index_of(names: Iterable[str] | None, count: int) -> dict[str, int]:
    """Index of each label; what has no name goes by its number."""
    return {label: i for i, label in enumerate(map(str, range(count)) if names is None else names)}


def find(where: str, label: Any, index: Mapping[str, int]) -> int:
    """The index of a label."""
    place = index.get(str(label)) if type(label) in (str, int) else None
    if place is None:
        is_short = isinstance(label, str) and len(index) <= 20
        hint = did_you_mean(label[:40], index) if is_short else f"there are {len(index)}."
        raise InputError(f"{where}: {brief(label)} is not known; {hint}")
    return place


def by_index(where: str, value: Any, index: Mapping[str, int]) -> dict[int, float]:
    """`{label: number}` as `{index: number}`."""
    return {
        find(where, label, index): number(f"{where}.{label[:40]}", x)
        for label, x in typed(where, value, dict).items()
    }
