"""Optimal values of components, one after another, by policy iteration with sparse elimination.

A component is copied in its own order, with every self-loop solved for: choice k of state i has
`Q(i, k) = pay(k) + sum_j c(k, j) V(j)` over other states j of the component. A few Gauss-Seidel
sweeps of `V(i) <- max_k Q(i, k)` make the first policy. From there on the values of a policy are
exact, by LU without pivoting: row by row, where each row takes multiples of earlier ones (the
matrix is a nonsingular M-matrix: nothing cancels). One more sweep then improves the policy.

In the order of a flow, or in a narrow one, hardly any entries fill in; where more do than pays, the
component is left to whoever asked.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.bellman import best_alone
from cmdpax.loops.compiled import Array, compiled, readable
from cmdpax.loops.components import Order, fill_part, most_work
from cmdpax.loops.rows import Rows

SWEEPS = 5  # before the first policy is evaluated
SWITCH = 1e-12  # relative gain below which policy iteration keeps a choice: no cycling on ties
ITERATIONS = 100


def settle(
    rows: Rows,
    order: Order,
    component: int,
    reward: Array,
    values: Array,
    discount: float,
    allowed: float = 0.0,
) -> int:
    """Optimal values for `reward [K]` from one component on, in place on `values [S]`.

    Components before it are settled already; values of the others are a guess. allowed: the change
    of the last sweep that is small enough. Returns the first component that fills in too much, or
    how many components there are.
    """
    lists = order.states, order.starts, order.place, order.flows, order.filled
    block = rows.rows(0, rows.states)
    return int(_settle(component, *lists, block, readable(reward), values, discount, allowed))


@compiled
def _settle(
    component, states, starts, place, flows, filled, rows, reward, values, discount, allowed
):
    for c in range(component, len(starts) - 1):
        first, count = starts[c], starts[c + 1] - starts[c]
        if count == 1:
            s = states[first]
            values[s] = best_alone(s, 0, rows, reward, values, discount)[1]
        elif filled[c]:
            return c
        else:
            own, turns = states[first : first + count], not flows[c]
            if not _iterate(own, place, first, turns, rows, reward, values, discount, allowed):
                filled[c] = True
                return c
    return len(starts) - 1


@compiled
def _iterate(states, place, first, turns, rows, reward, values, discount, allowed):
    """Policy iteration in one component; False if elimination fills in, or it does not end.

    turns: whether every other sweep goes backwards, where there is no flow.
    """
    n = len(states)
    first_choice, own = _folded(states, place, first, rows, reward, values, discount)
    V, chosen = np.empty(n), np.empty(n, dtype=np.uint32)
    for i in range(n):
        V[i], chosen[i] = values[states[i]], first_choice[i]
    for sweep in range(SWEEPS):
        change, is_better = _improve(first_choice, own, V, chosen, 0.0, turns and sweep % 2 == 1)
        if change <= allowed or not is_better:
            break
    is_better, iterations, pays = change > allowed, 0, True
    columns, entries = np.empty(0, dtype=np.uint32), np.empty(0)
    row, heap = np.empty(n), np.empty(n, dtype=np.uint32)
    starts, marks = np.zeros(n + 1, dtype=np.uint32), np.empty(n, dtype=np.uint32)
    while is_better and pays and iterations < ITERATIONS:
        if iterations == 0:
            room = len(own[1]) + most_work(n)  # fill-in costs at least its number
            columns, entries = np.empty(room, dtype=np.uint32), np.empty(room)
        iterations += 1
        pays = _evaluate(own, chosen, V, starts, columns, entries, row, marks, heap)
        if pays:
            largest = 0.0
            for i in range(n):
                largest = max(largest, abs(V[i]))
            least, back = SWITCH * largest, turns and iterations % 2 == 1
            change, is_better = _improve(first_choice, own, V, chosen, least, back)
            if is_better and turns:
                change, _ = _improve(first_choice, own, V, chosen, least, not back)
            is_better = is_better and change > allowed
    for i in range(n):
        values[states[i]] = V[i]
    return pays and not is_better


@compiled
def _folded(states, place, first, rows, reward, values, discount):
    """The first choices of a component's states, and its choices with self-loops solved for."""
    all_choices, all_entries = rows[0], rows[1]
    n, room = len(states), 0
    first_choice = np.zeros(n + 1, dtype=np.uint32)
    for i in range(n):
        begin, end = all_choices[states[i]], all_choices[states[i] + 1]
        first_choice[i + 1] = first_choice[i] + (end - begin)
        room += all_entries[end] - all_entries[begin]
    K = first_choice[n]
    pointers, choices = np.zeros(K + 1, dtype=np.uint32), np.empty(K, dtype=np.intp)
    others, entries, pays = np.empty(room, dtype=np.uint32), np.empty(room), np.empty(K)
    fill_part(rows, states, place, first, values, pointers, others, entries, choices, pays)
    used = end = 0
    for i in range(n):
        for k in range(first_choice[i], first_choice[i + 1]):
            start, end, begin, stay = end, pointers[k + 1], used, 0.0
            for e in range(start, end):
                if others[e] == i:
                    stay += entries[e]
                else:
                    others[used], entries[used] = others[e], discount * entries[e]
                    used += 1
            pays[k] = reward[choices[k]] + discount * pays[k]
            if stay > 0.0:
                pays[k] /= 1.0 - discount * stay
                for e in range(begin, used):
                    entries[e] /= 1.0 - discount * stay
            pointers[k + 1] = used
    return first_choice, (pointers, others, entries, pays)


@compiled
def _improve(first_choice, own, V, chosen, least, backwards):
    """One sweep of `max_k`, in place; the largest change, and whether a choice changed.

    A choice changes where it gains more than `least`.
    """
    pointers, others, entries, pays = own
    largest, is_better, n = 0.0, False, len(V)
    for step in range(n):
        i = n - 1 - step if backwards else step
        best, choice, current = -np.inf, 0, 0.0
        for k in range(first_choice[i], first_choice[i + 1]):
            total = pays[k]
            for e in range(pointers[k], pointers[k + 1]):
                total += entries[e] * V[others[e]]
            if total > best:
                best, choice = total, k
            if k == chosen[i]:
                current = total
        if choice != chosen[i] and best - current > least:
            chosen[i], is_better = choice, True
        largest, V[i] = max(largest, abs(best - V[i])), best
    return largest, is_better


@compiled
def _evaluate(own, chosen, V, starts, columns, entries, row, marks, heap):
    """Values of the chosen policy, in place on `V [n]`; False, and V as it was, if it does not pay.

    Row i of U, divided by its pivot, is at `starts[i] .. starts[i + 1] - 1` of `columns` and
    `entries`; `row [n]` holds the entries of the present row, `marks` says where, and `heap` the
    columns before i, of which the smallest comes next.
    """
    pointers, others, chances, pays = own
    n, used, work = len(V), 0, 0
    right = np.empty(n)
    for i in range(n):
        marks[i] = n
    for i in range(n):
        k = chosen[i]
        total, pivot, waiting = pays[k], 1.0, 0
        for e in range(pointers[k], pointers[k + 1]):
            j = others[e]
            row[j], marks[j] = -chances[e], i
            if j < i:
                _push(heap, waiting, j)
                waiting += 1
            else:
                columns[used] = j
                used += 1
        while waiting > 0:
            j = _pop(heap, waiting)
            waiting -= 1
            factor = row[j]
            total -= factor * right[j]
            work += starts[j + 1] - starts[j]
            if work > most_work(n):
                return False
            for q in range(starts[j], starts[j + 1]):
                t, part = columns[q], factor * entries[q]
                if t == i:
                    pivot -= part
                elif marks[t] == i:
                    row[t] -= part
                else:
                    row[t], marks[t] = -part, i
                    if t < i:
                        _push(heap, waiting, t)
                        waiting += 1
                    else:
                        columns[used] = t
                        used += 1
        right[i] = total / pivot
        for q in range(starts[i], used):
            entries[q] = row[columns[q]] / pivot
        starts[i + 1] = used
    for step in range(n):
        i = n - 1 - step
        total = right[i]
        for q in range(starts[i], starts[i + 1]):
            total -= entries[q] * V[columns[q]]
        V[i] = total
    return True


@compiled
def _push(heap, count, number):
    """Add a number to a heap of `count`."""
    i = count
    while i > 0 and heap[(i - 1) >> 1] > number:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = number


@compiled
def _pop(heap, count):
    """Take the smallest number from a heap of `count`."""
    smallest, last, i = heap[0], heap[count - 1], 0
    child = 1
    while child < count - 1:
        if child + 1 < count - 1 and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[i] = heap[child]
        i, child = child, 2 * child + 1
    heap[i] = last
    return smallest
