"""Models written as functions or tables, turned into arrays: the fields that `CMDP` takes."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.transitions import float_array, padded_rows, real_number


def step_fields(
    states: Sequence[Hashable],
    actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
    step: Callable[[Any, Any], tuple[Mapping[Any, float], float, Sequence[float]]],
    thresholds: Sequence[float],
    initial: Mapping[Any, float],
) -> dict[str, Any]:
    """Arrays of a model given by `step(state, action)`; see `CMDP.from_step`."""
    states = list(states)
    if not isinstance(initial, Mapping):
        raise InputError(
            "initial: give a mapping of states to probabilities, for example {'idle': 1.0}."
        )
    state_index = {state: index for index, state in enumerate(states)}
    if len(state_index) < len(states):
        raise InputError(
            f"states: {len(states)} given, but only {len(state_index)} differ; list each once."
        )
    choices: dict[Any, list[Any]] = {}
    for state in states:
        options = actions(state) if callable(actions) else actions
        if isinstance(options, str):
            raise InputError(
                f"actions: for state {state!r} they are the text {options!r}; give a list of"
                " actions."
            )
        choices[state] = list(options)
    names: dict[Any, int] = {}
    for state, options in choices.items():
        if not options:
            raise InputError(
                f"state {state!r}: the action set is empty; every state needs at least one action."
            )
        for option in options:
            names.setdefault(option, len(names))
    S, A, m = len(states), len(names), np.size(float_array("thresholds", thresholds))
    reward, constraints, available = (
        np.zeros((S, A)),
        np.zeros((m, S, A)),
        np.zeros((S, A), dtype=bool),
    )
    rows: dict[tuple[int, int], Mapping[Any, float]] = {}
    for state, s in state_index.items():
        for option in choices[state]:
            a = names[option]
            outcome = step(state, option)
            try:
                following, reward[s, a], values = outcome
                rows[s, a], costs = dict(following), np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError):
                raise InputError(
                    f"step({state!r}, {option!r}): return ({{next_state: probability}}, reward,"
                    " [constraint rewards])."
                ) from None
            if costs.shape != (m,):
                raise InputError(
                    f"step({state!r}, {option!r}): {costs.size} constraint rewards for {m}"
                    " thresholds; return one for each."
                )
            constraints[:, s, a] = costs
            available[s, a] = True
    successors, probabilities = padded_rows(
        rows, state_index, S, A, name=lambda s, a: f"step({states[s]!r}, ...)"
    )
    start = np.zeros(S)
    for state, probability in initial.items():
        if state not in state_index:
            raise InputError(f"initial: {state!r} is not one of the states.")
        start[state_index[state]] = real_number(f"initial, state {state!r}", probability)
    return {
        "transitions": (successors, probabilities),
        "reward": reward,
        "constraints": constraints,
        "thresholds": thresholds,
        "initial": start,
        "available": None if available.all() else available,
        "state_names": [str(state) for state in states],
        "action_names": [str(action) for action in names],
    }


def toy_text_fields(
    env: Any, cost: Callable[[int, int, int], float], initial: Any = None
) -> dict[str, Any]:
    """Arrays of a Gymnasium toy-text environment; see `CMDP.from_toy_text`."""
    table = getattr(getattr(env, "unwrapped", env), "P", None)
    if table is None:
        raise InputError(
            "environment: it has no transition table `unwrapped.P`; only toy-text environments have"
            " one."
        )
    S, A = len(table) + 1, len(table[0])
    reward, costs = np.zeros((S, A)), np.zeros((1, S, A))
    rows: dict[tuple[int, int], Mapping[Any, float]] = {(S - 1, a): {S - 1: 1.0} for a in range(A)}
    for s in range(S - 1):
        for a in range(A):
            following: dict[int, float] = {}
            for probability, successor, gain, terminated in table[s][a]:
                target = S - 1 if terminated else int(successor)
                following[target] = following.get(target, 0.0) + probability
                reward[s, a] += probability * gain
                costs[0, s, a] += probability * real_number(
                    f"cost({s}, {a}, {successor})", cost(s, a, int(successor))
                )
            rows[s, a] = following
    start = (
        initial if initial is not None else getattr(env.unwrapped, "initial_state_distrib", None)
    )
    if start is None:
        raise InputError(
            "initial: the environment does not tell its initial distribution; give `initial` [S]."
        )
    start = np.append(float_array("initial", start), 0.0)
    return {
        "transitions": padded_rows(rows, {s: s for s in range(S)}, S, A),
        "reward": reward,
        "constraints": costs,
        "initial": start,
        "state_names": [*(str(s) for s in range(S - 1)), "end"],
    }
