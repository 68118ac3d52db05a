"""Models that are pairs of a state and an action, listed or given by a function of both."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.model.limits import listed
from cmdpax.model.numbers import real_number
from cmdpax.model.reading import NO_ACTIONS


class Pair(NamedTuple):
    """An available pair of a state and an action: where it leads, and what it pays."""

    state: int
    action: int
    successors: Mapping[int, float]  # {next state: probability}
    reward: float
    constraints: Sequence[float] | np.ndarray  # [m]


def from_pairs(pairs: Sequence[Pair], S: int, A: int, m: int) -> dict[str, Any]:
    """Fields of a model whose pairs are listed; those that are not do not exist."""
    pairs = sorted(pairs, key=lambda pair: pair[:2])
    counts, lengths = np.zeros(S, dtype=np.int64), [len(pair.successors) for pair in pairs]
    available = np.zeros((S, A), dtype=bool)
    for s, a, *_ in pairs:
        counts[s] += 1
        available[s, a] = True
    successors = np.array([to for pair in pairs for to in pair.successors], dtype=np.int32)
    chances = np.array([p for pair in pairs for p in pair.successors.values()], dtype=np.float64)
    entries = chances, successors, np.append(0, np.cumsum(lengths)).astype(np.int32)
    return {
        "transitions": sp.csr_array(entries, shape=(len(pairs), S)),
        "first_choice": np.append(0, np.cumsum(counts)),
        "available": available,
        "reward": np.array([pair.reward for pair in pairs]),
        "constraints": np.array([pair.constraints for pair in pairs]).reshape(len(pairs), m).T,
    }


def staged(made: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The fields of H steps, as `from_pairs` makes them, for one model with that horizon."""
    fields: dict[str, Any] = {name: [one[name] for one in made] for name in made[0]}
    fields["available"] = np.stack(fields["available"])
    fields["reward"] = np.concatenate(fields["reward"])
    return {**fields, "constraints": np.concatenate(fields["constraints"], -1)}


def step_fields(
    states: Sequence[Hashable],
    actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
    step: Callable[..., tuple[Mapping[Any, float], float, Sequence[float]]],
    thresholds: Sequence[float],
    initial: Any,
    horizon: int | None = None,
) -> dict[str, Any]:
    """Fields of a model given by `step(state, action)`; see `CMDP.from_step`."""
    states = list(states)
    index = {state: s for s, state in enumerate(states)}
    if isinstance(initial, Hashable) and initial in index:
        initial = {initial: 1.0}
    if not isinstance(initial, Mapping):
        raise InputError("initial: give a state, or probabilities of states, as {'idle': 1.0}.")
    if (different := len(index)) < len(states):
        raise InputError(f"states: {len(states)} given, {different} differ; list each once.")
    names: dict[Any, int] = {}
    times: list[tuple[Any, ...]] = [()] if horizon is None else [(t,) for t in range(horizon)]
    stages: list[list[Pair]] = [[] for _ in times]
    m = len(listed(thresholds))
    for s, state in enumerate(states):
        options = actions(state) if callable(actions) else actions
        if isinstance(options, str):
            raise InputError(f"actions: state {state!r} has the text {options!r}; give a list.")
        if not (options := list(options)):
            raise InputError(f"state {state!r}: {NO_ACTIONS}")
        for option in options:
            a = names.setdefault(option, len(names))
            for pairs, time in zip(stages, times):
                called = f"step({', '.join(map(repr, (state, option, *time)))})"
                outcome = _outcome(called, step(state, option, *time), index, m)
                pairs.append(Pair(s, a, *outcome))
    start = np.zeros(len(states))
    for state, probability in initial.items():
        if state not in index:
            raise InputError(f"initial: {state!r} is not one of the states.")
        start[index[state]] = real_number(f"initial, state {state!r}", probability)
    made = [from_pairs(pairs, len(states), len(names), m) for pairs in stages]
    return {
        **(made[0] if horizon is None else staged(made)),
        "thresholds": thresholds,
        "initial": start,
        "state_names": [str(state) for state in states],
        "action_names": [str(action) for action in names],
    }


def _outcome(
    called: str, outcome: Any, index: Mapping[Any, int], m: int
) -> tuple[dict[int, float], float, np.ndarray]:
    """What a step returned: probabilities by index, reward, constraint values `[m]`."""
    try:
        chances, reward, values = outcome
        chances, reward = dict(chances), float(reward)
        costs = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        wanted = "({next_state: probability}, reward, [constraint values])"
        raise InputError(f"{called}: return {wanted}.") from None
    if costs.shape != (m,):
        what = f"the number {values} as its" if costs.ndim == 0 else f"{costs.size}"
        example = f", as in [{values}]" if costs.ndim == 0 else ""
        wanted = f"return a list of {m}{example}"
        raise InputError(f"{called} returned {what} constraint values; {wanted}.")
    numbers = {}
    for successor, chance in chances.items():
        if successor not in index:
            raise InputError(f"{called}: successor {successor!r} is not one of the states.")
        numbers[index[successor]] = real_number(f"{called}, probability of {successor!r}", chance)
    return numbers, reward, costs
