"""How do other libraries write a model, and how does theirs become ours?

Each function takes what their constructor takes, or a Gymnasium toy-text environment, and returns
arguments of `CMDP`. FrozenLake and CliffWalking are drawn as their maps, with row 0 above; a state
of Taxi is called (row, column, where the passenger is, where he wants to go).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.model.arguments import Grid
from cmdpax.model.numbers import float_array, real_array, real_number, refuse_huge
from cmdpax.model.reading import NO_ACTIONS
from cmdpax.model.steps import Pair, from_pairs

MOST_ACTIONS = 1_000_000
STOPS = ("R", "G", "Y", "B")
COMPASS = {"left": (-1.0, 0.0), "down": (0.0, -1.0), "right": (1.0, 0.0), "up": (0.0, 1.0)}
LAKE_ACTIONS = ("left", "down", "right", "up")
CLIFF_ACTIONS = ("up", "right", "down", "left")
TAXI_ACTIONS = ("south", "north", "east", "west", "pick up", "drop off")
Array = np.ndarray


def mdptoolbox_fields(P: Any, R: Any, constraints: Sequence[Any] = ()) -> dict[str, Any]:
    """Of pymdptoolbox: `P [A, S, S]`, a list of A matrices, dense or sparse, or an array of them.

    R and each constraint: `[S]`, `[S, A]`, or `[A, S, S]` in any form of P; the last is what a
    transition pays, and counts with its probability.
    """
    matrices = _matrices("P", P)
    A, S = len(matrices), matrices[0].shape[0]
    by_state = np.arange(S * A).reshape(A, S).T.ravel()
    paid = [_paid(f"constraints[{i}]", numbers, matrices) for i, numbers in enumerate(constraints)]
    return {
        "transitions": sp.csr_array(sp.vstack(matrices, format="csr"))[by_state],
        "reward": _paid("R", R, matrices),
        "constraints": np.array(paid).reshape(-1, S, A),
    }


def _matrices(field: str, parts: Any) -> list[sp.csr_array]:
    """A square matrices of one size, as sparse ones."""
    if not isinstance(parts, list | tuple | Array) or not len(parts):
        raise InputError(f"{field}: give a matrix [S, S] for each action, [A, S, S].")
    matrices = [
        part if sp.issparse(part) else float_array(f"{field}[{a}]", part)
        for a, part in enumerate(parts)
    ]
    S = matrices[0].shape[-1] if matrices[0].ndim else 0
    for a, matrix in enumerate(matrices):
        if matrix.shape != (S, S):
            raise InputError(f"{field}[{a}]: shape {matrix.shape}, expected {(S, S)}, [A, S, S].")
    return [sp.csr_array(matrix) for matrix in matrices]


def _paid(field: str, numbers: Any, matrices: Sequence[sp.csr_array]) -> Array:
    """What a step pays, `[S, A]`."""
    A, S = len(matrices), matrices[0].shape[0]
    if sp.issparse(numbers):
        numbers = numbers.toarray()
    is_list = isinstance(numbers, list | tuple | Array) and len(numbers) > 0
    if not (is_list and any(map(sp.issparse, numbers))):
        array = float_array(field, numbers)
        if array.shape == (S,):
            return np.repeat(array[:, None], A, axis=1)
        if array.shape == (S, A):
            return array
        if array.shape != (A, S, S):
            shapes = f"[S], [S, A] or [A, S, S] with S = {S} and A = {A}"
            raise InputError(f"{field}: shape {array.shape}, expected {shapes}.")
    own = _matrices(field, numbers)
    if len(own) != A:
        raise InputError(f"{field}: {len(own)} matrices for {A} actions; give one for each.")
    means = [(matrix.multiply(part)).sum(1) for matrix, part in zip(matrices, own)]
    return np.stack([np.asarray(mean).reshape(S) for mean in means], axis=1)


def quantecon_fields(
    R: Any, Q: Any, s_indices: Any = None, a_indices: Any = None, constraints: Any = ()
) -> dict[str, Any]:
    """Of QuantEcon's `DiscreteDP`: `R [S, A]`, `Q [S, A, S]`, or pairs `R [L]`, `Q [L, S]`.

    s_indices, a_indices: `[L]`, the state and the action of every pair. A reward of -inf says that
    there is no such action. constraints: `[m, S, A]`, or `[m, L]`.
    """
    rewards = float_array("R", R)
    costs = [float_array(f"constraints[{i}]", one) for i, one in enumerate(constraints)]
    for i, cost in enumerate(costs):
        if cost.shape != rewards.shape:
            shapes = f"shape {cost.shape}, expected {rewards.shape} as R"
            raise InputError(f"constraints[{i}]: {shapes}.")
    rows = sp.csr_array(Q) if sp.issparse(Q) else float_array("Q", Q)
    S = rows.shape[-1] if rows.ndim else 0
    if s_indices is None or a_indices is None:
        if rewards.ndim != 2 or rows.shape != (*rewards.shape, rewards.shape[0]):
            remedy = "R is [S, A] and Q [S, A, S]; give pairs with s_indices and a_indices"
            raise InputError(f"R {rewards.shape} and Q {rows.shape} do not fit: {remedy}.")
        s, a = (part.ravel() for part in np.indices(rewards.shape))
    else:
        s, a = _indices("s_indices", s_indices, rewards, S), _indices("a_indices", a_indices, R)
        if rewards.ndim != 1 or rows.shape != (len(s), S):
            remedy = "with s_indices R is [L] and Q [L, S]"
            raise InputError(f"R {rewards.shape} and Q {rows.shape} do not fit: {remedy}.")
    order = np.lexsort((a, s))
    order = order[rewards.ravel()[order] != -np.inf]
    s, a = s[order], a[order]
    for i in np.flatnonzero((np.diff(s) == 0) & (np.diff(a) == 0))[:1].tolist():
        raise InputError(f"state {s[i]}, action {a[i]} is listed twice; keep one.")
    counts = np.bincount(s, minlength=S)
    for state in np.flatnonzero(counts == 0)[:1].tolist():
        raise InputError(f"state {state}: {NO_ACTIONS}")
    refuse_huge((S, int(a.max(initial=0)) + 1))
    available = np.zeros((S, int(a.max(initial=0)) + 1), dtype=bool)
    available[s, a] = True
    flat = rows if sp.issparse(rows) else rows.reshape(-1, S)
    return {
        "transitions": sp.csr_array(flat[order]),
        "first_choice": np.append(0, np.cumsum(counts)),
        "available": available,
        "reward": rewards.ravel()[order],
        "constraints": np.array([cost.ravel()[order] for cost in costs]).reshape(-1, len(order)),
    }


def _indices(field: str, numbers: Any, rewards: Any, count: int | None = None) -> Array:
    """Indices `[L]` below `count`, one for each reward."""
    array, size = real_array(field, numbers), np.size(rewards)
    if array.shape != (size,) or not np.issubdtype(array.dtype, np.integer):
        raise InputError(f"{field}: shape {array.shape} of {array.dtype}, expected {size} indices.")
    most = MOST_ACTIONS if count is None else count
    for i in np.flatnonzero((array < 0) | (array >= most))[:1].tolist():
        raise InputError(f"{field}[{i}] is {array[i]}; it must lie in 0..{most - 1}.")
    return array


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
