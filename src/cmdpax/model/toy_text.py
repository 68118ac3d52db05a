"""Gymnasium's toy-text environments as models: rows from their table, grids and names of their own.

FrozenLake and CliffWalking are drawn as their maps, with row 0 above; a state of Taxi is called
(row, column, where the passenger is, where he wants to go).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.arguments import Grid
from cmdpax.model.numbers import float_array, real_number
from cmdpax.model.steps import Pair, from_pairs

STOPS = ("R", "G", "Y", "B")
COMPASS = {"left": (-1.0, 0.0), "down": (0.0, -1.0), "right": (1.0, 0.0), "up": (0.0, 1.0)}
LAKE_ACTIONS = ("left", "down", "right", "up")
CLIFF_ACTIONS = ("up", "right", "down", "left")
TAXI_ACTIONS = ("south", "north", "east", "west", "pick up", "drop off")


def toy_text_fields(
    env: Any, cost: Callable[[int, int, int], float], initial: Any = None
) -> dict[str, Any]:
    """Fields of a Gymnasium toy-text environment; see `CMDP.from_toy_text`."""
    own = getattr(env, "unwrapped", env)
    table = getattr(own, "P", None)
    if table is None:
        raise InputError(
            "environment: it has no transition table `unwrapped.P`, as FrozenLake, Taxi and"
            " CliffWalking have; build the model with CMDP.from_step, or train on the simulator."
        )
    end, A = len(table), len(table[0])
    pairs = [Pair(end, a, {end: 1.0}, 0.0, [0.0]) for a in range(A)]
    for s in range(end):
        for a in range(A):
            chances: dict[int, float] = {}
            reward = costs = 0.0
            for probability, successor, gain, terminated in table[s][a]:
                target = end if terminated else int(successor)
                chances[target] = chances.get(target, 0.0) + probability
                reward += probability * gain
                paid = cost(s, a, int(successor))
                costs += probability * real_number(f"cost({s}, {a}, {successor})", paid)
            pairs.append(Pair(s, a, chances, reward, [costs]))
    start = getattr(own, "initial_state_distrib", None) if initial is None else initial
    if start is None:
        raise InputError("initial: the environment does not tell it; give the distribution [S].")
    return {
        **from_pairs(pairs, end + 1, A, 1),
        "initial": np.append(float_array("initial", start), 0.0),
        **_drawing(own, end, A),
    }


def _drawing(own: Any, end: int, A: int) -> dict[str, Any]:
    """Names of states and actions, and how to draw them; numbers where the map is not known."""
    lake, shape = np.asarray(getattr(own, "desc", [])), getattr(own, "shape", None)
    if lake.ndim == 2 and lake.size == end and A == 4:
        marks = lake.astype("U1")
        return _map(marks == "H", marks == "G", LAKE_ACTIONS)
    cliff = np.asarray(getattr(own, "_cliff", []))
    if shape == cliff.shape and cliff.size == end and A == 4:
        goal = np.arange(end).reshape(cliff.shape) == end - 1
        return _map(cliff, goal, CLIFF_ACTIONS)
    if end == 500 and A == 6 and hasattr(own, "decode"):
        names = []
        for s in range(end):
            row, column, passenger, goal = own.decode(s)
            names.append(f"({row}, {column}, {(*STOPS, 'taxi')[passenger]}, {STOPS[goal]})")
        return {"state_names": [*names, "end"], "action_names": TAXI_ACTIONS}
    return {"state_names": [*map(str, range(end)), "end"]}


def _map(hazards: np.ndarray, goals: np.ndarray, actions: tuple[str, ...]) -> dict[str, Any]:
    """Of a map `[rows, columns]` with its marks; the end stands beside its last row."""
    rows, columns = np.indices(hazards.shape).reshape(2, -1).tolist()
    height, width = hazards.shape
    cells = [(float(x), float(height - 1 - y)) for y, x in zip(rows, columns)]
    grid = Grid(
        cells=(*cells, (float(width), 0.0)),
        moves=tuple(COMPASS[action] for action in actions),
        hazards=tuple(np.flatnonzero(hazards).tolist()),
        goals=tuple(np.flatnonzero(goals).tolist()),
        absorbing=(hazards.size,),
    )
    names = [f"({y}, {x})" for y, x in zip(rows, columns)]
    return {"state_names": [*names, "end"], "action_names": actions, "grid": grid}
