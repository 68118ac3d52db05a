"""The compiled loops behind `kernels.py`, which says what each computes and checks its arguments.
Shapes are given there.

Nothing here looks at bounds. Indices come as unsigned integers (numba then need not test for
negative ones), and everything that is only read comes read-only, so that each loop is compiled
once. The machine code is cached on disk. Loops that begin with `first, last` treat that range of
states alone, so that threads can share the work.
"""
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def backup(first, last, successors, probabilities, reward, values, discount, actions, backed_up):
    """Bellman backup and greedy action."""
    _, A, B = successors.shape
    for s in range(first, last):
        best, choice = -np.inf, 0
        for a in range(A):
            following = 0.0
            for b in range(B):
                following += probabilities[s, a, b] * values[successors[s, a, b]]
            quality = reward[s, a] + discount * following
            if quality > best:
                best, choice = quality, a
        actions[s], backed_up[s] = choice, best


@compiled
def sweep(successors, probabilities, reward, values, discount, backwards):
    """Gauss-Seidel sweep of the optimality operator; self-loops are solved for."""
    S, A, B = successors.shape
    for step in range(S):
        s = S - 1 - step if backwards else step
        best = -np.inf
        for a in range(A):
            following, stay = 0.0, 0.0
            for b in range(B):
                successor = successors[s, a, b]
                if successor == s:
                    stay += probabilities[s, a, b]
                else:
                    following += probabilities[s, a, b] * values[successor]
            quality = (reward[s, a] + discount * following) / (1.0 - discount * stay)
            best = max(best, quality)
        values[s] = best


@compiled
def expected(first, last, successors, probabilities, values, following):
    """Expected next values."""
    _, A, B = successors.shape
    for s in range(first, last):
        for a in range(A):
            total = 0.0
            for b in range(B):
                total += probabilities[s, a, b] * values[successors[s, a, b]]
            following[s, a] = total


@compiled
def count_chosen(first, last, probabilities, actions, counts):
    """Entries in each row of `P_pi` for actions."""
    B = probabilities.shape[2]
    for s in range(first, last):
        total = 0
        for b in range(B):
            total += probabilities[s, actions[s], b] > 0
        counts[s] = total


@compiled
def fill_chosen(first, last, successors, probabilities, actions, pointers, columns, entries):
    """Rows of `P_pi` for actions."""
    B = probabilities.shape[2]
    place = pointers[first]
    for s in range(first, last):
        a = actions[s]
        for b in range(B):
            if probabilities[s, a, b] > 0:
                columns[place], entries[place] = successors[s, a, b], probabilities[s, a, b]
                place += 1


@compiled
def count_mixed(first, last, probabilities, policy, counts):
    """Entries in each row of `P_pi` for probabilities."""
    _, A, B = probabilities.shape
    for s in range(first, last):
        total = 0
        for a in range(A):
            if policy[s, a] > 0:
                for b in range(B):
                    total += policy[s, a] * probabilities[s, a, b] > 0
        counts[s] = total


@compiled
def fill_mixed(first, last, successors, probabilities, policy, pointers, columns, entries):
    """Rows of `P_pi` for probabilities."""
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


@compiled
def relax(first, last, pointers, columns, entries, right, discount, values, following):
    """Fixed-point step for values, and the extremes of its change."""
    low, high = np.inf, -np.inf
    for s in range(first, last):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * values[columns[k]]
        moved = right[s] + discount * total
        following[s] = moved
        change = moved - values[s]
        low, high = min(low, change), max(high, change)
    return low, high


@compiled
def relax_transposed(pointers, columns, entries, right, discount, visits, following):
    """Fixed-point step for occupancies, and the size of its change."""
    for s in range(len(visits)):
        following[s] = right[s]
    for s in range(len(visits)):
        mass = discount * visits[s]
        for k in range(pointers[s], pointers[s + 1]):
            following[columns[k]] += entries[k] * mass
    size = 0.0
    for s in range(len(visits)):
        size += abs(following[s] - visits[s])
    return size


@compiled
def relax_often(
    pointers, columns, entries, right, discount, now, following, sizes, target, transpose
):
    """Fixed-point steps from `now` to `following` and back, one for each place in `sizes` or until
    one is at most `target`.

    How many there were, and the middle of the last change.
    """
    middle = 0.0
    for step in range(len(sizes)):
        if transpose:
            sizes[step] = relax_transposed(
                pointers, columns, entries, right, discount, now, following
            )
        else:
            low, high = relax(
                0, len(right), pointers, columns, entries, right, discount, now, following
            )
            sizes[step], middle = (high - low) / 2, (high + low) / 2
        now, following = following, now
        if not sizes[step] > target:
            return step + 1, middle
    return len(sizes), middle


@compiled
def transpose(pointers, columns, entries, starts, states, moved):
    """Rows of the transpose, by counting; `starts` comes as zeros."""
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
def subtract(pointers, columns, entries, discount, starts, others, differences, place):
    """Canonical rows of `I - discount P`; how many entries they have. `place` (column -> position)
    comes as -1.
    """
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


@compiled
def factor(pointers, columns, entries, place):
    """Row by row: subtract multiples of earlier rows, keeping only the row's own pattern (`place`:
    column -> position).
    """
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


@compiled
def substitute(pointers, columns, factors, right, solution):
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
def product(pointers, columns, entries, vector, image):
    """Sparse matrix times vector."""
    for s in range(len(vector)):
        total = 0.0
        for k in range(pointers[s], pointers[s + 1]):
            total += entries[k] * vector[columns[k]]
        image[s] = total


@compiled
def dot(left, right):
    """Inner product."""
    total = 0.0
    for s in range(len(left)):
        total += left[s] * right[s]
    return total


@compiled
def bicgstab(pointers, columns, entries, factors, right, solution, target, steps, total):
    """Preconditioned BiCGStab, in place on `solution`."""
    S = len(right)
    image, half, other, turned = np.zeros(S), np.empty(S), np.empty(S), np.empty(S)
    product(pointers, columns, entries, solution, turned)
    residual = right - turned
    shadow, direction = residual.copy(), np.zeros(S)
    before = alpha = omega = 1.0
    for _ in range(steps):
        overlap = dot(shadow, residual)
        beta = overlap / before * alpha / omega
        for s in range(S):
            direction[s] = residual[s] + beta * (direction[s] - omega * image[s])
        substitute(pointers, columns, factors, direction, half)
        product(pointers, columns, entries, half, image)
        alpha = overlap / dot(shadow, image)
        for s in range(S):
            residual[s] -= alpha * image[s]
        substitute(pointers, columns, factors, residual, other)
        product(pointers, columns, entries, other, turned)
        length = dot(turned, turned)
        omega = dot(turned, residual) / length if length > 0 else 0.0
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
def relax_rows(pointers, columns, entries, right, solution, backwards):
    """Gauss-Seidel sweep through the rows of a system, in place on `solution`."""
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


@compiled
def postorder(pointers, columns, entries, order, stack, following, seen):
    """Depth-first postorder; of every state the most probable successor is followed first."""
    S, place = len(order), 0
    for root in range(S):
        depth = 0
        if not seen[root]:
            seen[root], stack[0], following[root], depth = True, root, -1, 1
        while depth > 0:
            s = stack[depth - 1]
            start, count = pointers[s], pointers[s + 1] - pointers[s]
            if following[s] >= count:
                order[place] = s
                place += 1
                depth -= 1
                continue
            chosen = following[s]
            following[s] += 1
            if chosen < 0:
                chosen = 0
                for k in range(1, count):
                    if entries[start + k] > entries[start + chosen]:
                        chosen = k
                if count == 0:
                    continue
            t = columns[start + chosen]
            if not seen[t]:
                seen[t], stack[depth], following[t] = True, t, -1
                depth += 1


@compiled
def search(successors, probabilities, seen, frontier):
    """Breadth-first search, in place on `seen`."""
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


@compiled
def order_rows(successors, probabilities):
    """Insertion sort of every row, then merging of equal successors, in place; the number of places
    needed.
    """
    S, A, B = successors.shape
    needed = 0
    for s in range(S):
        for a in range(A):
            row, chances = successors[s, a], probabilities[s, a]
            for b in range(B):
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
