"""One pass over the rows of a model, by choice.

- `backup`: `(T V)(s) = max_k r(k) + gamma E V(s')` over the choices k of s, and who attains it;
- `sweep`: the same in place, state after state (Gauss-Seidel), so that news crosses the whole model
  in one pass; a state's own self-loop is solved for exactly;
- `expected`: `E[V(s') | k]` of every choice;
- `ratios`: `(x + gamma E V - V) / (u - gamma E u)` of every state, with its rounding, for bounds;
- `differences`: `x + E (V(s') - V(s))` of every choice, exactly 0 where nothing changes;
- `policy_rows`: the sparse rows of `P_pi`, for deterministic and stochastic policies;
- `distances`: breadth-first search; `order_rows`: the one form of every row.

Rows come in blocks, `rows(first, last)` (`rows.py`). Large models are shared among threads
(`compiled.py`), a block of states each. `sweep`, whose states depend on each other, stays on one.
"""
# mypy: disable-error-code="no-untyped-def"

from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.loops.compiled import Array, compiled, over_blocks, readable, unsigned
from cmdpax.loops.rows import Matrix, Rows


def backup(rows: Rows, reward: Array, values: Array, discount: float) -> tuple[Array, Array]:
    """Greedy choices `[S]` (int32; the first of equals) and `T V [S]`.

    For `reward [K]` and `values [S]`.
    """
    choices, backed_up = np.empty(rows.states, dtype=np.int32), np.empty(rows.states)
    vectors = readable(reward), readable(values), discount
    over_blocks(
        lambda i, j: fill_backup(rows.rows(i, j), *vectors, choices[i:j], backed_up[i:j]),
        rows.states,
    )
    return choices, backed_up


@compiled
def fill_backup(rows, reward, values, discount, choices, backed_up):
    """The loop of `backup`, for the n states of a block: choices and `T V`, both `[n]`."""
    first_choice, first_entry, successors, probabilities = rows
    begin, end = first_choice[0], first_entry[0]
    origin = end
    for i in range(len(first_choice) - 1):
        best, choice = -np.inf, first_choice[i]
        for k in range(first_choice[i], first_choice[i + 1]):
            start, end = end, first_entry[k + 1 - begin]
            next_value = 0.0
            for e in range(start - origin, end - origin):
                next_value += probabilities[e] * values[successors[e]]
            action_value = reward[k] + discount * next_value
            if action_value > best:
                best, choice = action_value, k
        choices[i], backed_up[i] = choice, best


def sweep(rows: Rows, reward: Array, values: Array, discount: float, backwards: bool) -> float:
    """One Gauss-Seidel sweep of `T` through all states, in place on `values [S]`.

    For `reward [K]`; from the last state to the first if `backwards`. The largest change.
    """
    block = rows.rows(0, rows.states)
    return float(sweep_block(0, block, readable(reward), values, discount, backwards))


@compiled
def sweep_block(first, rows, reward, values, discount, backwards):
    """The loop of `sweep`, for a block of states from `first` on; `reward [k]` of its choices."""
    largest, n = 0.0, len(rows[0]) - 1
    for step in range(n):
        i = n - 1 - step if backwards else step
        value = best_alone(i, first, rows, reward, values, discount)[1]
        largest, values[first + i] = max(largest, abs(value - values[first + i])), value
    return largest


@compiled
def best_alone(i, first, rows, reward, values, discount):
    """The best choice of state `first + i` and its value, all other values as they are.

    That is `max_k (r(k) + gamma sum_{s' != s} p V(s')) / (1 - gamma p(s))`.
    """
    first_choice, first_entry, successors, probabilities = rows
    best, choice = -np.inf, first_choice[i]
    for k in range(first_choice[i], first_choice[i + 1]):
        next_value, stay = 0.0, 0.0
        for e in range(first_entry[k], first_entry[k + 1]):
            if successors[e] == first + i:
                stay += probabilities[e]
            else:
                next_value += probabilities[e] * values[successors[e]]
        action_value = (reward[k] + discount * next_value) / (1.0 - discount * stay)
        if action_value > best:
            best, choice = action_value, k
    return choice, best


def greedy(first_choice: Array, action_values: Array) -> tuple[Array, Array]:
    """The best choice of each state (int32; the first of equals) and its value, both `[S]`.

    For `first_choice [S + 1]` (int32) and action values `[K]`.
    """
    count = len(first_choice) - 1
    choices, best = np.empty(count, dtype=np.int32), np.empty(count)
    _greedy(unsigned(first_choice), readable(action_values), choices, best)
    return choices, best


@compiled
def _greedy(first_choice, action_values, choices, best):
    for s in range(len(choices)):
        choice = first_choice[s]
        for k in range(first_choice[s], first_choice[s + 1]):
            if action_values[k] > action_values[choice]:
                choice = k
        choices[s], best[s] = choice, action_values[choice]


def expected(rows: Rows, values: Array) -> Array:
    """`E[V(s') | k]` for `values [S]` -> `[K]`."""
    next_values = np.empty(rows.choices)
    over_blocks(lambda i, j: _expected(rows.rows(i, j), readable(values), next_values), rows.states)
    return next_values


@compiled
def _expected(rows, values, next_values):
    first_choice, first_entry, successors, probabilities = rows
    first, end = first_choice[0], first_entry[0]
    origin = end
    for k in range(len(first_entry) - 1):
        start, end = end, first_entry[k + 1]
        total = 0.0
        for e in range(start - origin, end - origin):
            total += probabilities[e] * values[successors[e]]
        next_values[first + k] = total


def ratios(
    rows: Rows,
    reward: Array,
    sizes: Array,
    values: Array,
    gauge: Array | None,
    discount: float,
    longest: int,
    policy: Array | None = None,
    lost: Array | None = None,
) -> tuple[Array, Array]:
    """Lower and upper bounds `[S]` on `d / g`, `d = x + gamma E V - V` and `g = u - gamma E u`.

    d is added up as `x - (1 - gamma) V + gamma E (V(s') - V(s))`: what stays near costs no digits.

    For rewards x `[K]`, values V `[S]` and a gauge u `[S]` (None: 1), in real numbers: every sum is
    widened by its own rounding, that of x by what `sizes [K]` were added up, and rows, of at most
    `longest` entries, count divided by their exact sums. With a policy `[K]` they are about its
    means of d and g; without one the larger of each over the choices of a state. Where d is 0
    beyond doubt so is the ratio (at discount 1 only if V is 0 too); where g may be 0 the bounds are
    infinite. lost: `[K]`, the chance that nothing follows (None: rows are whole, or empty).
    """
    low, high = np.empty(rows.states), np.empty(rows.states)
    optional = (np.empty(0) if array is None else array for array in (gauge, policy, lost))
    numbers: list[Any] = [readable(array) for array in (reward, sizes, values, *optional)]
    numbers += [discount, ratio_rounding(longest)]
    over_blocks(
        lambda i, j: fill_ratios(i, rows.rows(i, j), *numbers, low[i:j], high[i:j]), rows.states
    )
    return low, high


@compiled
def ratio_rounding(longest):
    """What rounding of a ratio amounts to, as a share of its terms, for rows of so many entries."""
    return 2.220446049250313e-16 * (2.5 * longest + 10.0)


@compiled
def fill_ratios(
    first, rows, reward, sizes, values, gauge, shares, lost, discount, unit, lows, highs
):
    """The loop of `ratios`, for the n states of a block from `first` on: bounds `[n]`."""
    first_choice, first_entry, successors, probabilities = rows
    begin, end = first_choice[0], first_entry[0]
    origin, is_mean, rest = end, len(shares) > 0, 1.0 - discount
    for i in range(len(first_choice) - 1):
        value, scale = values[first + i], gauge[first + i] if len(gauge) > 0 else 1.0
        low = high = -np.inf
        sum_d = sum_g = sum_error = sum_doubt = 0.0
        terms = unit
        if is_mean:
            terms += 4.5e-16 * (first_choice[i + 1] - first_choice[i])
        for k in range(first_choice[i], first_choice[i + 1]):
            start, end = end, first_entry[k + 1 - begin]
            if is_mean and shares[k] == 0.0:
                continue
            gone = chance_of_end(lost, k, end - start)
            change, moved, loss, risen = -gone * value, gone * abs(value), gone * scale, 0.0
            for e in range(start - origin, end - origin):
                step = probabilities[e] * (values[successors[e]] - value)
                change += step
                moved += abs(step)
                if len(gauge) > 0:
                    fall = probabilities[e] * (scale - gauge[successors[e]])
                    loss += fall
                    risen += abs(fall)
            d = reward[k] - rest * value + discount * change
            g = rest * scale + discount * loss
            error = terms * (sizes[k] + rest * abs(value) + discount * moved)
            doubt = terms * (rest * scale + discount * (gone * scale + risen))
            if len(gauge) == 0:  # rows sum to 1
                g = rest
                doubt = 2.3e-16 * g
            if is_mean:
                share = shares[k]
                sum_d, sum_error = sum_d + share * d, sum_error + share * error
                sum_g, sum_doubt = sum_g + share * g, sum_doubt + share * doubt
            else:
                least, most = _quotient(d, error, g, doubt, discount < 1.0 or value == 0.0)
                low, high = max(low, least), max(high, most)
        if is_mean:
            is_over = discount < 1.0 or value == 0.0
            low, high = _quotient(sum_d, sum_error, sum_g, sum_doubt, is_over)
        lows[i], highs[i] = low, high


@compiled
def chance_of_end(lost, k, entries):
    """The chance `lost [K]` that nothing follows a choice; if not given: 1 if it has no entries."""
    if len(lost) > 0:
        return lost[k]
    return 1.0 if entries == 0 else 0.0


@compiled
def _quotient(d, error, g, doubt, is_over):
    """Bounds on `d / g` for numbers that are off by up to `error` and `doubt`.

    is_over: whether a run may stay here for ever if d is 0: nothing is left of V by then.
    """
    least, most = d - error, d + error
    if least == 0.0 and most == 0.0 and ((is_over and g >= doubt) or g > 2.0 * doubt):
        return 0.0, 0.0
    if not (g > 2.0 * doubt and error < np.inf):  # nor with numbers that are not finite
        return -np.inf, np.inf
    less, more = g - doubt, g + doubt
    return least / (less if least < 0.0 else more), most / (less if most > 0.0 else more)


def differences(
    rows: Rows,
    reward: Array,
    sizes: Array,
    values: Array,
    *,
    lost: Array | None = None,
    tails: Array | None = None,
) -> tuple[Array, Array]:
    """`x + E (V(s') - V(s))` of every choice, `[K]`, and what its terms amount to, `[K]`.

    For rows that sum to 1, or are empty: nothing follows, and it is `x - V(s)`. Where V is one
    number and x is 0, both are 0 exactly. For `reward [K]`, its `sizes [K]` and `values [S]`. lost:
    `[K]`, the chance that nothing follows, of rows that are neither. tails: `[S]`, further digits
    of V.
    """
    total, size = np.empty(rows.choices), np.empty(rows.choices)
    optional = [np.empty(0) if array is None else array for array in (tails, lost)]
    numbers = [readable(array) for array in (reward, sizes, values, *optional)] + [total, size]
    over_blocks(lambda i, j: _differences(i, rows.rows(i, j), *numbers), rows.states)
    return total, size


@compiled
def _differences(first, rows, reward, sizes, values, tails, lost, total, size):
    first_choice, first_entry, successors, probabilities = rows
    begin, end = first_choice[0], first_entry[0]
    origin = end
    for i in range(len(first_choice) - 1):
        value = values[first + i]
        for k in range(first_choice[i], first_choice[i + 1]):
            start, end = end, first_entry[k + 1 - begin]
            gone = chance_of_end(lost, k, end - start)
            change, moved = -gone * value, gone * abs(value)
            for e in range(start - origin, end - origin):
                step, more = values[successors[e]] - value, 0.0
                if len(tails) > 0:
                    more = tails[successors[e]] - tails[first + i]
                change += probabilities[e] * (step + more)
                moved += probabilities[e] * (abs(step) + abs(more))
            total[k], size[k] = reward[k] + change, sizes[k] + moved


def policy_rows(rows: Rows, policy: Array) -> Matrix:
    """`P_pi [S, S]` for choices `[S]` or probabilities `[K]`; no zeros, duplicates unmerged."""
    S, K = rows.states, rows.choices
    pointers = np.zeros(S + 1, dtype=np.uint32)
    if policy.ndim == 1 and np.issubdtype(policy.dtype, np.integer):
        block, chosen = rows.rows(0, S), policy.astype(np.int32, copy=False)
        fits = chosen.shape == (S,) and chosen.min() >= 0
        asked = unsigned(chosen), block.first_choice, block.first_entry, pointers[1:]
        if not fits or not all(over_blocks(_count_chosen, S, *asked)):
            raise InputError(f"policy: give each of {S} states one of its own choices.")
        np.cumsum(pointers, out=pointers)
        columns, entries = np.empty(pointers[-1], dtype=np.uint32), np.empty(pointers[-1])
        made = readable(pointers), columns, entries
        over_blocks(_fill_chosen, S, unsigned(chosen), *block[1:], *made)
        return Matrix(readable(pointers), readable(columns), readable(entries))
    if policy.shape != (K,):
        raise InputError(f"policy: shape {policy.shape}, expected {(K,)}.")
    policy = readable(policy)
    over_blocks(lambda i, j: _count_mixed(i, rows.rows(i, j), policy, pointers[1:]), S)
    np.cumsum(pointers, out=pointers)
    columns, entries = np.empty(pointers[-1], dtype=np.uint32), np.empty(pointers[-1])
    parts = policy, readable(pointers), columns, entries
    over_blocks(lambda i, j: _fill_mixed(i, rows.rows(i, j), *parts), S)
    return Matrix(readable(pointers), readable(columns), readable(entries))


@compiled
def _count_chosen(first, last, chosen, first_choice, first_entry, counts):
    """How many entries each row has; False if a choice is not its state's own."""
    for s in range(first, last):
        k = chosen[s]
        if not first_choice[s] <= k < first_choice[s + 1]:
            return False
        counts[s] = first_entry[k + 1] - first_entry[k]
    return True


@compiled
def _fill_chosen(
    first, last, chosen, first_entry, successors, probabilities, pointers, columns, entries
):
    for i in range(first, last):
        place = pointers[i]
        for e in range(first_entry[chosen[i]], first_entry[chosen[i] + 1]):
            columns[place], entries[place] = successors[e], probabilities[e]
            place += 1


@compiled
def _count_mixed(first, rows, policy, counts):
    first_choice, first_entry, _, probabilities = rows
    begin, origin = first_choice[0], first_entry[0]
    for i in range(len(first_choice) - 1):
        total = 0
        for k in range(first_choice[i], first_choice[i + 1]):
            if policy[k] > 0:
                for e in range(
                    first_entry[k - begin] - origin, first_entry[k + 1 - begin] - origin
                ):
                    total += policy[k] * probabilities[e] > 0
        counts[first + i] = total


@compiled
def _fill_mixed(first, rows, policy, pointers, columns, entries):
    first_choice, first_entry, successors, probabilities = rows
    begin, origin = first_choice[0], first_entry[0]
    place = pointers[first]
    for k in range(first_choice[0], first_choice[len(first_choice) - 1]):
        if policy[k] > 0:
            for e in range(first_entry[k - begin] - origin, first_entry[k + 1 - begin] - origin):
                entry = policy[k] * probabilities[e]
                if entry > 0:
                    columns[place], entries[place] = successors[e], entry
                    place += 1


def distances(rows: Rows, initial: Array) -> Array:
    """Fewest steps to each state from the distribution `initial [S]`, `[S]`; -1: never reached."""
    steps, frontier = np.where(initial > 0, 0, -1), np.empty(len(initial), dtype=np.uint32)
    search(*rows.rows(0, rows.states)[:3], steps, frontier)
    return steps


@compiled
def search(first_choice, first_entry, successors, steps, frontier):
    """The loop of `distances`, breadth first, in place on `steps [S]`: 0 at the start, else -1."""
    count = 0
    for s in range(len(steps)):
        if steps[s] == 0:
            frontier[count] = s
            count += 1
    read = 0
    while read < count:
        s = frontier[read]
        read += 1
        for e in range(first_entry[first_choice[s]], first_entry[first_choice[s + 1]]):
            successor = successors[e]
            if steps[successor] < 0:
                steps[successor] = steps[s] + 1
                frontier[count] = successor
                count += 1


def inspect_rows(
    first_entry: Array, successors: Array, probabilities: Array, tolerance: float
) -> Array:
    """What is to be said about rows (as for `order_rows`), `[7]` float64.

    The first entry that is not finite, the first negative one, the first row whose sum misses 1 by
    more than the tolerance (-1: none) and how many such there are; whether rows are ordered
    (successors increase, none has probability 0); the longest row; how far a sum misses 1 at most.
    """
    pointers = readable(first_entry), readable(successors)
    return np.array(_inspect_rows(*pointers, probabilities, tolerance))


@compiled
def _inspect_rows(first_entry, successors, probabilities, tolerance):
    infinite, negative, off, count = -1.0, -1.0, -1.0, 0.0
    ordered, longest, farthest = 1.0, 0.0, 0.0
    for k in range(len(first_entry) - 1):
        total, before = 0.0, -1
        for e in range(first_entry[k], first_entry[k + 1]):
            chance = probabilities[e]
            if not np.isfinite(chance) and infinite < 0:
                infinite = e
            if chance < 0 and negative < 0:
                negative = e
            if not chance > 0 or successors[e] <= before:
                ordered = 0.0
            before = successors[e]
            total += chance
        miss = abs(total - 1.0)
        if not miss <= tolerance:
            off = k if off < 0 else off
            count += 1
        farthest = max(farthest, miss)
        longest = max(longest, first_entry[k + 1] - first_entry[k])
    return infinite, negative, off, count, ordered, longest, farthest


def order_rows(first_entry: Array, successors: Array, probabilities: Array) -> int:
    """Put rows in order, in place; the number of entries that are left, which come first.

    first_entry `[K + 1]`, successors `[e]` (both int32), probabilities `[e]`. In every row
    successors increase and occur once (their probabilities are added, from the last to the first),
    and none has probability 0.
    """
    return int(_order_rows(first_entry, successors, probabilities))


@compiled
def _order_rows(first_entry, successors, probabilities):
    used = start = 0
    for k in range(len(first_entry) - 1):
        end = first_entry[k + 1]
        for e in range(start + 1, end):  # insertion sort: most rows come sorted
            state, chance, place = successors[e], probabilities[e], e
            while place > start and successors[place - 1] > state:
                successors[place] = successors[place - 1]
                probabilities[place] = probabilities[place - 1]
                place -= 1
            successors[place], probabilities[place] = state, chance
        for e in range(end - 1, start, -1):
            if successors[e] == successors[e - 1]:
                probabilities[e - 1] += probabilities[e]
                probabilities[e] = 0.0
        for e in range(start, end):
            if probabilities[e] > 0:
                successors[used], probabilities[used] = successors[e], probabilities[e]
                used += 1
        start, first_entry[k + 1] = end, used
    return used


def normalise_rows(first_entry: Array, probabilities: Array, rounding: float) -> None:
    """Divide the rows of `probabilities [e]` that miss 1 by more than `rounding`, in place."""
    _normalise_rows(first_entry, probabilities, rounding)


@compiled
def _normalise_rows(first_entry, probabilities, rounding):
    for k in range(len(first_entry) - 1):
        total = 0.0
        for e in range(first_entry[k], first_entry[k + 1]):
            total += probabilities[e]
        if abs(total - 1.0) > rounding:
            for e in range(first_entry[k], first_entry[k + 1]):
                probabilities[e] /= total
