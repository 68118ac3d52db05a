"""One pass over the successors of a model, padded to `[S, A, B]` (int32, with float64 chances).

- `backup`: `(T V)(s) = max_a r(s,a) + gamma E V(s')`, and the action that attains it;
- `sweep`: the same in place, state after state (Gauss-Seidel), so that news crosses the whole model
  in one pass; a state's own self-loop is solved for exactly;
- `expected`: `E[V(s') | s, a]`;
- `policy_rows`: the sparse rows of `P_pi`, for deterministic and stochastic policies;
- `reachable`: breadth-first search; `order_rows`: the one form of every row.

Large models are shared among threads (`compiled.py`): loops that begin with `first, last` treat
that range of states alone. `sweep`, whose blocks would write to the same states, stays on one.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.errors import InputError
from cmdpax.loops.compiled import Array, compiled, over_blocks, readable, unsigned
from cmdpax.loops.systems import Rows


def backup(
    successors: Array, probabilities: Array, reward: Array, values: Array, discount: float
) -> tuple[Array, Array]:
    """Greedy actions `[S]` (int32; the first of equals) and `T V [S]`.

    For `reward [S, A]` and `values [S]`; successors and probabilities here and below `[S, A, B]`.
    """
    actions, backed_up = np.empty(len(values), dtype=np.int32), np.empty(len(values))
    arrays = unsigned(successors), readable(probabilities), readable(reward), readable(values)
    over_blocks(_backup, len(values), *arrays, discount, actions, backed_up)
    return actions, backed_up


@compiled
def _backup(first, last, successors, probabilities, reward, values, discount, actions, backed_up):
    _, A, B = successors.shape
    for s in range(first, last):
        best, choice = -np.inf, 0
        for a in range(A):
            next_value = 0.0
            for b in range(B):
                next_value += probabilities[s, a, b] * values[successors[s, a, b]]
            action_value = reward[s, a] + discount * next_value
            if action_value > best:
                best, choice = action_value, a
        actions[s], backed_up[s] = choice, best


def sweep(
    successors: Array,
    probabilities: Array,
    reward: Array,
    values: Array,
    discount: float,
    backwards: bool,
) -> None:
    """One Gauss-Seidel sweep of `T` through all states, in place on `values [S]`.

    For `reward [S, A]`; from the last state to the first if `backwards`.
    """
    arrays = unsigned(successors), readable(probabilities), readable(reward)
    _sweep(*arrays, values, discount, backwards)


@compiled
def _sweep(successors, probabilities, reward, values, discount, backwards):
    S, A, B = successors.shape
    for step in range(S):
        s = S - 1 - step if backwards else step
        best = -np.inf
        for a in range(A):
            next_value, stay = 0.0, 0.0
            for b in range(B):
                successor = successors[s, a, b]
                if successor == s:
                    stay += probabilities[s, a, b]
                else:
                    next_value += probabilities[s, a, b] * values[successor]
            action_value = (reward[s, a] + discount * next_value) / (1.0 - discount * stay)
            best = max(best, action_value)
        values[s] = best


def expected(successors: Array, probabilities: Array, values: Array) -> Array:
    """`E[V(s') | s, a]` for `values [S]` -> `[S, A]`."""
    next_values = np.empty(successors.shape[:2])
    arrays = unsigned(successors), readable(probabilities), readable(values)
    over_blocks(_expected, len(next_values), *arrays, next_values)
    return next_values


@compiled
def _expected(first, last, successors, probabilities, values, next_values):
    _, A, B = successors.shape
    for s in range(first, last):
        for a in range(A):
            total = 0.0
            for b in range(B):
                total += probabilities[s, a, b] * values[successors[s, a, b]]
            next_values[s, a] = total


def policy_rows(successors: Array, probabilities: Array, policy: Array) -> Rows:
    """`P_pi [S, S]` for actions `[S]` or probabilities `[S, A]`; no zeros, duplicates unmerged."""
    S, A, _ = successors.shape
    if policy.ndim == 1:
        policy = policy.astype(np.int32, copy=False)
        if policy.shape != (S,) or policy.min() < 0 or policy.max() >= A:
            raise InputError(f"policy: actions must be {S} integers in 0..{A - 1}.")
        count, fill = _count_chosen, _fill_chosen
    elif policy.shape != (S, A):
        raise InputError(f"policy: shape {policy.shape}, expected {(S, A)}.")
    else:
        count, fill = _count_mixed, _fill_mixed
    arrays = readable(probabilities), readable(policy)
    pointers = np.zeros(S + 1, dtype=np.uint32)
    over_blocks(count, S, *arrays, pointers[1:])
    np.cumsum(pointers, out=pointers)
    columns, entries = np.empty(pointers[-1], dtype=np.uint32), np.empty(pointers[-1])
    over_blocks(fill, S, unsigned(successors), *arrays, readable(pointers), columns, entries)
    return Rows(readable(pointers), readable(columns), readable(entries))


@compiled
def _count_chosen(first, last, probabilities, actions, counts):
    B = probabilities.shape[2]
    for s in range(first, last):
        total = 0
        for b in range(B):
            total += probabilities[s, actions[s], b] > 0
        counts[s] = total


@compiled
def _fill_chosen(first, last, successors, probabilities, actions, pointers, columns, entries):
    B = probabilities.shape[2]
    place = pointers[first]
    for s in range(first, last):
        a = actions[s]
        for b in range(B):
            if probabilities[s, a, b] > 0:
                columns[place], entries[place] = successors[s, a, b], probabilities[s, a, b]
                place += 1


@compiled
def _count_mixed(first, last, probabilities, policy, counts):
    _, A, B = probabilities.shape
    for s in range(first, last):
        total = 0
        for a in range(A):
            if policy[s, a] > 0:
                for b in range(B):
                    total += policy[s, a] * probabilities[s, a, b] > 0
        counts[s] = total


@compiled
def _fill_mixed(first, last, successors, probabilities, policy, pointers, columns, entries):
    _, A, B = probabilities.shape
    place = pointers[first]
    for s in range(first, last):
        for a in range(A):
            if policy[s, a] > 0:
                for b in range(B):
                    entry = policy[s, a] * probabilities[s, a, b]
                    if entry > 0:
                        columns[place], entries[place] = successors[s, a, b], entry
                        place += 1


def reachable(successors: Array, probabilities: Array, initial: Array) -> Array:
    """`[S]` booleans: states that some policy visits from the distribution `initial [S]`."""
    seen = initial > 0
    frontier = np.empty(len(seen), dtype=np.uint32)
    _search(unsigned(successors), readable(probabilities), seen, frontier)
    return seen


@compiled
def _search(successors, probabilities, seen, frontier):
    S, A, B = successors.shape
    count = 0
    for s in range(S):
        if seen[s]:
            frontier[count] = s
            count += 1
    read = 0
    while read < count:
        s = frontier[read]
        read += 1
        for a in range(A):
            for b in range(B):
                successor = successors[s, a, b]
                if probabilities[s, a, b] > 0 and not seen[successor]:
                    seen[successor] = True
                    frontier[count] = successor
                    count += 1


def order_rows(successors: Array, probabilities: Array) -> int:
    """Put the rows of both `[S, A, B]` (int32, float64) in order, in place; the places they need.

    Successors increase and occur once (their probabilities are added, from the last to the first);
    unused places come last, as state 0. No row needs more than the returned number of the B places.
    """
    return int(_order_rows(successors, probabilities))


@compiled
def _order_rows(successors, probabilities):
    S, A, B = successors.shape
    needed = 0
    for s in range(S):
        for a in range(A):
            row, chances = successors[s, a], probabilities[s, a]
            for b in range(B):  # insertion sort: most rows come sorted
                state, chance = row[b], chances[b]
                key = state if chance > 0 else S
                place = b
                while place > 0 and (row[place - 1] if chances[place - 1] > 0 else S) > key:
                    row[place], chances[place] = row[place - 1], chances[place - 1]
                    place -= 1
                row[place], chances[place] = state, chance
            for b in range(B - 1, 0, -1):
                if chances[b] > 0 and row[b] == row[b - 1]:
                    chances[b - 1] += chances[b]
                    chances[b] = 0.0
            used = 0
            for b in range(B):
                if chances[b] > 0:
                    row[used], chances[used] = row[b], chances[b]
                    used += 1
            for b in range(used, B):
                row[b], chances[b] = 0, 0.0
            needed = max(needed, used)
    return needed
