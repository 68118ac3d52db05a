"""One pass over the sparse rows of a system, or over a batch of small dense systems.

Sparse, for `P [S, S]` by rows and the M-matrix `I - gamma P`:

- `relax`: fixed-point steps with P or its transpose, each with its residual in the same pass.
  (Plain products are left to SciPy, whose loops are as fast: `benchmarks/kernels.py`);
- `system_rows`: the rows of `I - gamma P`, canonical;
- `incomplete_factors`: LU without fill-in, which exists and is stable for every M-matrix: exact for
  birth-death chains, a strong preconditioner on grids; `bicgstab`: the Krylov method that uses it;
- `gauss_seidel`: sweeps through such a system, which converge whatever happens;
- `flow_order`: the order of states in which both work best, every state after those it leads to.

Dense, for grid searches (`batch_values`, `batch_occupancies`): `I - gamma P_pi` is diagonally
dominant by rows, so that LU without pivoting is as stable as with it, and zeros outside the fill-in
stay zeros. One pass per policy builds the system straight from the successors, eliminates, and
skips what is zero; on grids that is most of it.

Large fixed-point steps are shared among threads; transposed ones are not, because their blocks
would write to the same states (two halves, added up, took longer than the whole).
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.compiled import Array, compiled, is_shared, over_blocks, readable
from cmdpax.loops.rows import Block, Matrix


def relax(
    rows: Matrix,
    right: Array,
    discount: float,
    start: Array,
    steps: int,
    target: float,
    transpose: bool,
    closed: bool = True,
) -> tuple[Array, list[float], float]:
    """At most `steps` steps `x <- right + discount P x` from `start [S]` (or with P transposed).

    Returns x `[S]`, the size of every step's change, and the middle of the last one. The size is
    the sum of the absolute changes of occupancies; for values half the width of the changes, or the
    largest one where rows do not sum to 1 (not `closed`; then the middle is 0). Steps end when it
    is at most `target`.
    """
    if is_shared(len(right)) and not transpose:
        all_sizes: list[float] = []
        middle = 0.0
        while len(all_sizes) < steps and not (all_sizes and all_sizes[-1] <= target):
            now, start = readable(start), np.empty_like(right)
            arguments = *rows.parts, readable(right), discount, now, start
            lowest, highest = zip(*over_blocks(_relax, len(right), *arguments), strict=True)
            size, middle = _size(min(lowest), max(highest), closed)
            all_sizes.append(size)
        return start, all_sizes, middle
    vectors, sizes = (start.copy(), np.empty_like(right)), np.empty(steps)
    system = *rows.parts, readable(right), discount
    done, middle = _relax_often(*system, *vectors, sizes, target, transpose, closed)
    return vectors[done % 2], sizes[:done].tolist(), middle


@compiled
def _size(low, high, closed):
    """Size and middle of changes between `low` and `high`."""
    if closed:
        return (high - low) / 2, (high + low) / 2
    return max(abs(low), abs(high)), 0.0


@compiled
def _relax_often(
    pointers, columns, entries, right, discount, now, moved, sizes, target, transpose, closed
):
    """At most `len(sizes)` steps between `now` and `moved`: their number, the last one's middle."""
    middle = 0.0
    for step in range(len(sizes)):
        if transpose:
            sizes[step] = _relax_transposed(pointers, columns, entries, right, discount, now, moved)
        else:
            rows = pointers, columns, entries
            low, high = _relax(0, len(right), *rows, right, discount, now, moved)
            sizes[step], middle = _size(low, high, closed)
        now, moved = moved, now
        if not sizes[step] > target:
            return step + 1, middle
    return len(sizes), middle


@compiled
def _relax(first, last, pointers, columns, entries, right, discount, now, moved):
    """One step for values; the extremes of its change."""
    low, high = np.inf, -np.inf
    for s in range(first, last):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * now[columns[k]]
        value = right[s] + discount * total
        moved[s], change = value, value - now[s]
        low, high = min(low, change), max(high, change)
    return low, high


@compiled
def _relax_transposed(pointers, columns, entries, right, discount, now, moved):
    """One step for occupancies; the sum of its absolute changes."""
    for s in range(len(now)):
        moved[s] = right[s]
    for s in range(len(now)):
        mass = discount * now[s]
        for k in range(pointers[s], pointers[s + 1]):
            moved[columns[k]] += entries[k] * mass
    size = 0.0
    for s in range(len(now)):
        size += abs(moved[s] - now[s])
    return size


def system_rows(rows: Matrix, discount: float, transpose: bool) -> Matrix:
    """`I - discount P` (or with P transposed): columns increase, every diagonal entry is there."""
    S = len(rows.pointers) - 1
    if transpose:
        parts = [np.zeros_like(part) for part in rows.parts]
        _transpose(*rows.parts, *parts)
        rows = Matrix(*map(readable, parts))
    most = len(rows.columns) + S
    pointers = np.zeros_like(rows.pointers)
    columns, entries = np.empty(most, dtype=np.uint32), np.empty(most)
    place = np.full(S, -1, dtype=np.int64)
    used = _subtract(*rows.parts, discount, pointers, columns, entries, place)
    return Matrix(readable(pointers), readable(columns[:used]), readable(entries[:used]))


@compiled
def _transpose(pointers, columns, entries, starts, states, moved):
    """The rows of the transpose, by counting; `starts` comes as zeros."""
    S = len(pointers) - 1
    for k in range(len(columns)):
        starts[columns[k] + 1] += 1
    for s in range(S):
        starts[s + 1] += starts[s]
    for s in range(S):
        for k in range(pointers[s], pointers[s + 1]):
            place = starts[columns[k]]
            states[place], moved[place] = s, entries[k]
            starts[columns[k]] = place + 1
    for s in range(S, 0, -1):
        starts[s] = starts[s - 1]
    starts[0] = 0


@compiled
def _subtract(pointers, columns, entries, discount, starts, others, differences, place):
    """Fill in `I - discount P`; the number of entries. `place` (column -> position) comes as -1."""
    used = 0
    for s in range(len(pointers) - 1):
        first = used
        others[used], differences[used], place[s] = s, 1.0, used
        used += 1
        for k in range(pointers[s], pointers[s + 1]):
            t = columns[k]
            if place[t] < first:  # not yet in this row
                others[used], differences[used], place[t] = t, 0.0, used
                used += 1
            differences[place[t]] -= discount * entries[k]
        for k in range(first + 1, used):
            other, difference, to = others[k], differences[k], k
            while to > first and others[to - 1] > other:
                others[to], differences[to] = others[to - 1], differences[to - 1]
                to -= 1
            others[to], differences[to] = other, difference
        starts[s + 1] = used
    return used


def incomplete_factors(system: Matrix) -> Array:
    """Entries `[n]` of L (unit diagonal, not stored) and U on the pattern of a canonical system."""
    entries = system.entries.copy()
    place = np.full(len(system.pointers) - 1, -1, dtype=np.int64)
    _factor(system.pointers, system.columns, entries, place)
    return entries


@compiled
def _factor(pointers, columns, entries, place):
    """Row by row: subtract multiples of earlier ones where the row has entries (at `place`)."""
    for s in range(len(pointers) - 1):
        for k in range(pointers[s], pointers[s + 1]):
            place[columns[k]] = k
        for k in range(pointers[s], pointers[s + 1]):
            t = columns[k]
            if t >= s:
                break
            diagonal = pointers[t]
            while columns[diagonal] != t:
                diagonal += 1
            entries[k] /= entries[diagonal]
            for j in range(diagonal + 1, pointers[t + 1]):
                if place[columns[j]] >= 0:
                    entries[place[columns[j]]] -= entries[k] * entries[j]
        for k in range(pointers[s], pointers[s + 1]):
            place[columns[k]] = -1


def bicgstab(
    system: Matrix,
    factors: Array,
    right: Array,
    guess: Array,
    target: float,
    steps: int,
    total: bool,
) -> Array:
    """BiCGStab (van der Vorst 1992) for `right [S]` from `guess [S]` -> `[S]`.

    Preconditioned from the right by `incomplete_factors`. It ends when the residual of its own
    recurrence is at most `target` (its largest entry, or with `total` the sum of all), after
    `steps` steps, or when it breaks down. Compute the true residual before you believe the result.
    """
    solution = guess.copy()
    _bicgstab(*system.parts, readable(factors), readable(right), solution, target, steps, total)
    return solution


@compiled
def _bicgstab(pointers, columns, entries, factors, right, solution, target, steps, total):
    S = len(right)
    image, half, other, turned = np.zeros(S), np.empty(S), np.empty(S), np.empty(S)
    _product(pointers, columns, entries, solution, turned)
    residual = right - turned
    shadow, direction = residual.copy(), np.zeros(S)
    before = alpha = omega = 1.0
    for _ in range(steps):
        overlap = _dot(shadow, residual)
        beta = overlap / before * alpha / omega
        for s in range(S):
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
        _substitute(pointers, columns, factors, direction, half)
        _product(pointers, columns, entries, half, image)
        length = _dot(shadow, image)
        if length == 0.0:  # it has broken down
            return
        alpha = overlap / length
        for s in range(S):
            residual[s] -= alpha * image[s]
        _substitute(pointers, columns, factors, residual, other)
        _product(pointers, columns, entries, other, turned)
        length = _dot(turned, turned)
        omega = _dot(turned, residual) / length if length > 0 else 0.0
        if not (np.isfinite(alpha) and np.isfinite(omega)):
            return
        largest, absolute = 0.0, 0.0
        for s in range(S):
            solution[s] += alpha * half[s] + omega * other[s]
            residual[s] -= omega * turned[s]
            largest = max(largest, abs(residual[s]))
            absolute += abs(residual[s])
        before = overlap
        if (absolute if total else largest) <= target or before == 0.0 or omega == 0.0:
            return


@compiled
def _substitute(pointers, columns, factors, right, solution):
    """Forward and backward substitution with the incomplete factors."""
    S = len(pointers) - 1
    for s in range(S):
        total = right[s]
        for k in range(pointers[s], pointers[s + 1]):
            if columns[k] >= s:
                break
            total -= factors[k] * solution[columns[k]]
        solution[s] = total
    for step in range(S):
        s = S - 1 - step
        total = solution[s]
        for back in range(pointers[s + 1] - pointers[s]):
            k = pointers[s + 1] - 1 - back
            if columns[k] == s:
                solution[s] = total / factors[k]
                break
            total -= factors[k] * solution[columns[k]]


@compiled
def _product(pointers, columns, entries, vector, image):
    for s in range(len(vector)):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * vector[columns[k]]
        image[s] = total


@compiled
def _dot(left, right):
    total = 0.0
    for s in range(len(left)):
        total += left[s] * right[s]
    return total


def gauss_seidel(system: Matrix, right: Array, solution: Array, sweeps: int) -> None:
    """Gauss-Seidel `sweeps` forwards and back for `right [S]`, in place on `solution [S]`."""
    for sweep in range(2 * sweeps):
        _gauss_seidel(*system.parts, readable(right), solution, sweep % 2 == 1)


@compiled
def _gauss_seidel(pointers, columns, entries, right, solution, backwards):
    S = len(right)
    for step in range(S):
        s = S - 1 - step if backwards else step
        total, diagonal = right[s], 1.0
        for k in range(pointers[s], pointers[s + 1]):
            if columns[k] == s:
                diagonal = entries[k]
            else:
                total -= entries[k] * solution[columns[k]]
        solution[s] = total / diagonal


def flow_order(rows: Matrix) -> Array:
    """States `[S]` (int32) ordered so that most transitions of `rows` lead to an earlier one."""
    S = len(rows.pointers) - 1
    order, stack, next_entry = (np.empty(S, dtype=np.int32) for _ in range(3))
    _postorder(*rows.parts, order, stack, next_entry, np.zeros(S, dtype=np.bool_))
    return order


@compiled
def _postorder(pointers, columns, entries, order, stack, next_entry, seen):
    """Depth-first postorder; of every state the most probable successor is followed first."""
    S, place = len(order), 0
    for root in range(S):
        depth = 0
        if not seen[root]:
            seen[root], stack[0], next_entry[root], depth = True, root, -1, 1
        while depth > 0:
            s = stack[depth - 1]
            start, count = pointers[s], pointers[s + 1] - pointers[s]
            if next_entry[s] >= count:
                order[place] = s
                place += 1
                depth -= 1
                continue
            chosen = next_entry[s]
            next_entry[s] += 1
            if chosen < 0:
                chosen = 0
                for k in range(1, count):
                    if entries[start + k] > entries[start + chosen]:
                        chosen = k
                if count == 0:
                    continue
            t = columns[start + chosen]
            if not seen[t]:
                seen[t], stack[depth], next_entry[t] = True, t, -1
                depth += 1


def batch_values(rows: Block, discount: float, policies: Array, rewards: Array) -> Array:
    """Values of k rewards under n policies `[n, K]` -> `[n, k, S]`.

    rows: of all states. rewards: `[1, k, K]`, or `[n, k, K]` if every policy has its own.
    """
    values = np.zeros((len(policies), rewards.shape[1], len(rows.first_choice) - 1))
    _solve_batch(rows, readable(policies), readable(rewards), discount, values, False)
    return values


def batch_occupancies(rows: Block, discount: float, policies: Array, initial: Array) -> Array:
    """Occupancies, unnormalised, of n policies `[n, K]` from `initial [S]` -> `[n, S]`."""
    visits = np.empty((len(policies), 1, len(initial)))
    visits[:, 0] = initial
    no_rewards = readable(np.empty((1, 0, policies.shape[1])))
    _solve_batch(rows, readable(policies), no_rewards, discount, visits, True)
    return visits[:, 0]


@compiled
def _solve_batch(rows, policies, rewards, discount, right, transpose):
    """Add the rewards under each policy to `right [n, k, S]`, and solve for it in place."""
    first_choice, first_entry, successors, probabilities = rows
    S = len(first_choice) - 1
    system = np.empty((S, S))
    for n in range(len(policies)):
        own = n if len(rewards) > 1 else 0
        system[:] = 0.0
        np.fill_diagonal(system, 1.0)
        for s in range(S):
            for k in range(first_choice[s], first_choice[s + 1]):
                chance = policies[n, k]
                for j in range(rewards.shape[1]):
                    right[n, j, s] += chance * rewards[own, j, k]
                for e in range(first_entry[k], first_entry[k + 1]):
                    entry = discount * chance * probabilities[e]
                    if transpose:
                        system[successors[e], s] -= entry
                    else:
                        system[s, successors[e]] -= entry
        eliminate(system, right[n])


@compiled
def eliminate(system, right):
    """Solve `system x = right[k]` for every k, in place on `right [k, S]`; overwrites `system`."""
    S = len(system)
    ends = np.empty(S, np.int64)  # one past the last entry of each row that is not zero
    for row in range(S):
        ends[row] = S
        while system[row, ends[row] - 1] == 0.0:
            ends[row] -= 1
    for i in range(S):
        for row in range(i + 1, S):
            factor = system[row, i]
            if factor != 0.0:
                factor /= system[i, i]
                for column in range(i + 1, ends[i]):
                    system[row, column] -= factor * system[i, column]
                for k in range(len(right)):
                    right[k, row] -= factor * right[k, i]
                ends[row] = max(ends[row], ends[i])
    for k in range(len(right)):
        for i in range(S - 1, -1, -1):
            rest = right[k, i]
            for column in range(i + 1, ends[i]):
                rest -= system[i, column] * right[k, column]
            right[k, i] = rest / system[i, i]
