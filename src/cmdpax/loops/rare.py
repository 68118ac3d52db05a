"""Small models in which some steps are rare, or runs are long: elimination without subtraction.

A chain moves by `moves [S, S]`, whose diagonal does not count, and loses `lost [S]`. The diagonal
of `I - K` is then `lost + sum of the moves`. Elimination (Grassmann, Taksar and Heyman 1985) keeps
what each row loses, so that nothing is ever subtracted, and every number of the solution has nearly
all its digits, even where a step is as rare as 1e-300. LU (`small.py`) would compute `1 - p`, and
lose the digits of a rare p.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.bellman import chance_of_end
from cmdpax.loops.compiled import Array, compiled, readable
from cmdpax.loops.rows import Block

SWITCH = 1e-14  # gain as a share of its terms below which policy iteration keeps a choice
DIGITS = 1e-15  # the same as a share of the largest value: its rounding
ITERATIONS = 1000
REFINEMENTS = 2  # of values, by what is left of their equations


def factors_of(moves: Array, lost: Array) -> Array:
    """Factors `[S, S]` of `I - K`; the diagonal of the moves does not count."""
    factors = np.array(moves, dtype=np.float64)
    _eliminate(factors, np.array(lost, dtype=np.float64))
    return factors


def solved(factors: Array, right: Array, transpose: bool = False) -> Array:
    """Solve `(I - K) x = right`, or with K transposed, for `right [n, S]` -> `[n, S]`."""
    vectors = np.array(right, dtype=np.float64)
    for vector in vectors:
        (_substitute_back if transpose else _substitute)(factors, vector)
    return vectors


def stationary(moves: Array) -> Array:
    """Long-run shares of time `[S]` of a chain whose states all reach each other.

    NaN where they are not: products of chances below 1e-300 are 0.
    """
    factors = factors_of(moves, np.zeros(len(moves)))
    shares = np.zeros(len(moves))
    shares[-1] = 1.0
    _spread(factors, shares)
    with np.errstate(invalid="ignore"):
        return shares / shares.sum()


def best_choices(
    rows: Block, reward: Array, lost: Array | None, discount: float, start: Array | None
) -> tuple[Array, Array] | None:
    """Optimal choices and values, both `[S]`, for `reward [K]`; None if it does not settle.

    lost: `[K]`, the chance that nothing follows a choice. None: rows sum to 1, or are empty. At a
    discount below 1 a constant that values have in common is then kept apart, and costs no digits.
    """
    S = len(rows.first_choice) - 1
    keys = (rows.first_choice[:-1] if start is None else start).astype(np.int64)
    values, gone = np.zeros(S), np.empty(0) if lost is None else lost
    is_closed = lost is None and discount < 1.0
    numbers = readable(reward), readable(gone), discount, is_closed
    return (keys, values) if _best_keys(rows, *numbers, keys, values) else None


@compiled
def _eliminate(moves, lost):
    S = len(moves)
    for i in range(S):
        pivot = lost[i]
        for column in range(i + 1, S):
            pivot += moves[i, column]
        moves[i, i] = pivot
        for row in range(i + 1, S):
            if moves[row, i] != 0.0:
                factor = moves[row, i] / pivot
                moves[row, i] = factor
                lost[row] += factor * lost[i]
                for column in range(i + 1, S):
                    if column != row:
                        moves[row, column] += factor * moves[i, column]


@compiled
def _substitute(factors, vector):
    S = len(vector)
    for i in range(S):
        for column in range(i):
            vector[i] += factors[i, column] * vector[column]
    for step in range(S):
        i = S - 1 - step
        for column in range(i + 1, S):
            vector[i] += factors[i, column] * vector[column]
        vector[i] /= factors[i, i]


@compiled
def _substitute_back(factors, vector):
    """The same with the matrix transposed."""
    S = len(vector)
    for i in range(S):
        for row in range(i):
            vector[i] += factors[row, i] * vector[row]
        vector[i] /= factors[i, i]
    _spread(factors, vector)


@compiled
def _spread(factors, vector):
    S = len(vector)
    for step in range(S):
        i = S - 1 - step
        for row in range(i + 1, S):
            vector[i] += factors[row, i] * vector[row]


@compiled
def _left(rows, reward, lost, discount, k, s, values):
    """`d = x + gamma E V - V` of choice k of state s, and the sum of its terms' sizes."""
    _, first_entry, successors, chances = rows
    first, last = first_entry[k], first_entry[k + 1]
    gone = chance_of_end(lost, k, last - first)
    change = (1.0 - discount + discount * gone) * values[s]
    total, size = reward[k] - change, abs(reward[k]) + abs(change)
    for e in range(first, last):
        step = discount * chances[e] * (values[successors[e]] - values[s])
        total, size = total + step, size + abs(step)
    return total, size


@compiled
def _best_keys(rows, reward, lost, discount, is_closed, keys, values):
    first_choice, first_entry, successors, chances = rows
    S = len(keys)
    moves, rest, left = np.empty((S, S)), np.empty(S), np.empty(S)
    for _ in range(ITERATIONS):
        moves[:] = 0.0
        for s in range(S):
            k = keys[s]
            first, last = first_entry[k], first_entry[k + 1]
            gone = chance_of_end(lost, k, last - first)
            rest[s] = 1.0 - discount + discount * gone
            for e in range(first, last):
                moves[s, successors[e]] += discount * chances[e]
        _eliminate(moves, rest)
        shift = 0.0
        values[:] = 0.0
        for _ in range(1 + REFINEMENTS):
            low, high = np.inf, -np.inf
            for s in range(S):
                left[s] = _left(rows, reward, lost, discount, keys[s], s, values)[0]
                low, high = min(low, left[s]), max(high, left[s])
            if is_closed:
                middle = low / 2 + high / 2
                shift = middle / (1.0 - discount)
                left -= middle
            _substitute(moves, left)
            low, high = np.inf, -np.inf
            for s in range(S):
                values[s] += left[s]
                low, high = min(low, values[s]), max(high, values[s])
            if is_closed:
                middle = low / 2 + high / 2
                shift += middle
                values -= middle
                low, high = low - middle, high - middle
        is_better, digits = False, DIGITS * max(-low, high)
        for s in range(S):
            current, size = _left(rows, reward, lost, discount, keys[s], s, values)
            best, choice = current, keys[s]
            for k in range(first_choice[s], first_choice[s + 1]):
                total, own = _left(rows, reward, lost, discount, k, s, values)
                if total > best and total - current > SWITCH * (size + own) + digits:
                    best, choice = total, np.int64(k)
            if choice != keys[s]:
                keys[s], is_better = choice, True
        if not is_better:
            values += shift
            return True
    return False
