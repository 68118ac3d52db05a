"""In which order are the states of a model solved, and how are small components?

A strongly connected component is a set of states that all lead to each other under some choices.
Components have an order in which each leads to itself and to earlier ones only, so that values are
computed component by component, from the first to the last, and occupancies from the last to the
first. Most components of real models are one state, which takes one step.

- `find_order`: components by one depth-first search (Tarjan 1972). Inside a large one states take
  the order of the flow, where nearly all transitions follow one; or else the reverse Cuthill-McKee
  one, where that makes transitions much shorter; or else they keep their numbering;
- `solve_small`: linear systems of small components, by dense LU;
- `part`: a large component as a model of its own, once all that it leads to is known; `renumbered`:
  the whole model in that order;
- `inside`, `outside`, `send_outside`: the same for a linear system.

Vectors are in the model's own numbering; only a large component has one of its own. Who solves
again and again renumbers the model once.
"""
# mypy: disable-error-code="no-untyped-def"

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.loops.compiled import Array, compiled, readable
from cmdpax.loops.rows import Block, Matrix, RowArrays, Rows
from cmdpax.loops.systems import eliminate

LARGE = 256  # states of a component from which sparse methods are faster than dense LU
SHORTER = 4  # a new numbering must make transitions so many times shorter on average
SAMPLED = 20_000  # states whose transitions are measured
FEW = 2  # entries of a choice on average up to which a policy is mostly chains
LARGEST = 300_000  # states of a component that is tried by elimination, which no clock interrupts
FLOW = 0.2  # share of transitions against the flow up to which states are put in its order


@dataclass(frozen=True, eq=False)
class Order:
    """States in an order in which each component leads to itself and to earlier ones only."""

    states: Array  # [S] uint32
    starts: Array  # [C + 1] uint32: component c is states[starts[c] : starts[c + 1]]
    leaks: Array  # [C] bool: whether some choice leads out of the component
    flows: Array  # [C] bool: whether nearly all transitions of a large one lead to earlier states
    filled: Array  # [C] bool: whether elimination fills in too much, as expected or as tried
    kept: dict[int, "Part"] = field(default_factory=dict)  # see `part`

    @cached_property
    def place(self) -> Array:
        """`[S]` uint32: where each state stands in the order."""
        place = np.empty_like(self.states)
        place[self.states] = np.arange(len(place), dtype=np.uint32)
        return readable(place)

    @cached_property
    def is_plain(self) -> bool:
        """Whether it is one large component in the model's own numbering: nothing to gain."""
        return len(self.starts) == 2 and bool((np.diff(self.states.astype(np.int64)) == 1).all())

    @cached_property
    def is_ordered(self) -> bool:
        """Whether every large component is in the model's own numbering."""
        groups = (self.members(first, last) for first, last, is_large in self.groups if is_large)
        return all((np.diff(own.astype(np.int64)) > 0).all() for own in groups)

    @cached_property
    def groups(self) -> list[tuple[int, int, bool]]:
        """Ranges of components `(first, last, is_large)`: large ones alone, others in runs."""
        large = np.flatnonzero(np.diff(self.starts.astype(np.int64)) >= LARGE)
        ends = np.stack([large, large + 1], axis=1).ravel().tolist()
        edges = [0, *ends, len(self.starts) - 1]
        ranges = zip(edges[:-1], edges[1:], [False, True] * len(large) + [False], strict=True)
        return [(first, last, is_large) for first, last, is_large in ranges if last > first]

    def members(self, first: int, last: int) -> Array:
        """States of the components `first .. last - 1`."""
        return self.states[self.starts[first] : self.starts[last]]

    def run(self, first: int, last: int) -> tuple[Array, Array]:
        """The states of the components `first .. last - 1`, and where each of them begins."""
        return self.members(first, last), self.starts[first : last + 1] - self.starts[first]


def find_order(rows: Rows) -> Order:
    """The components of a model, and the numbering within large ones."""
    S, (first_choice, first_entry, successors, _) = rows.states, rows.rows(0, rows.states)
    pointers = readable(first_entry[first_choice])  # the union of all choices, as a sparse matrix
    states, starts = np.empty(S, dtype=np.uint32), np.zeros(S + 1, dtype=np.uint32)
    finish, *work = (np.zeros(S, dtype=np.uint32) for _ in range(6))
    leaks, leaves = (np.zeros(S, dtype=np.bool_) for _ in range(2))
    count = _search(pointers, successors, states, starts, leaks, finish, leaves, *work)
    starts, leaks, place = starts[: count + 1].copy(), leaks[:count].copy(), np.empty_like(states)
    flows, filled = np.zeros(count, dtype=np.bool_), np.zeros(count, dtype=np.bool_)
    for c in np.flatnonzero(np.diff(starts) >= LARGE):
        own = states[starts[c] : starts[c + 1]]
        n, numbers = len(own), np.arange(len(own), dtype=np.uint32)
        place[own] = numbers
        within = pointers, successors, readable(own), readable(place)
        if _backward(*within, readable(finish)) <= FLOW:
            flows[c] = True
            own[:] = own[np.argsort(finish[own])]
            length = 0.0
        else:
            own.sort()
            place[own] = numbers
            own[:], length = _shorter(pointers, successors, own, place)
            entries, choices = (int((p[own + 1] - p[own]).sum()) for p in (pointers, first_choice))
            length = 0.0 if entries <= FEW * choices else length
        filled[c] = n > LARGEST or n * length**2 > most_work(n)  # as with so many columns in a row
    return Order(readable(states), readable(starts), readable(leaks), readable(flows), filled)


@compiled
def _search(
    pointers, successors, states, starts, leaks, finish, leaves, index, low, edge, path, stack
):
    """Tarjan's search; the number of components. All arrays `[S]` come as zeros.

    `finish` numbers states as the search leaves them: most lead to those that it has left before.
    `leaves` says which lead to a component that was complete before their own.
    """
    S = len(states)
    done = np.uint32(0xFFFFFFFF)  # index of a state whose component is complete
    seen = placed = count = waiting = left = 0
    for root in range(S):
        depth = 0
        if index[root] == 0:
            path[0], depth = root, 1
        while depth > 0:
            s = path[depth - 1]
            if index[s] == 0:
                seen += 1
                index[s] = low[s] = seen
                edge[s] = pointers[s]
                stack[waiting] = s
                waiting += 1
            lowest, is_deeper = low[s], False
            for e in range(edge[s], pointers[s + 1]):
                t = successors[e]
                if index[t] == 0:
                    edge[s], path[depth] = e, t  # the same entry once more, when t is complete
                    depth += 1
                    is_deeper = True
                    break
                if index[t] == done:
                    leaves[s] = True
                else:
                    lowest = min(lowest, low[t])
            low[s] = lowest
            if is_deeper:
                continue
            depth -= 1
            finish[s] = left
            left += 1
            if lowest == index[s]:
                t = s + 1
                while t != s:
                    waiting -= 1
                    t = stack[waiting]
                    index[t] = done
                    leaks[count] |= leaves[t]
                    states[placed] = t
                    placed += 1
                count += 1
                starts[count] = placed
    return count


@compiled
def _backward(pointers, successors, states, place, finish):
    """Share of the transitions within that lead to a state which is left later."""
    back, count = 0, 1
    for i in range(len(states)):
        s = states[i]
        for e in range(pointers[s], pointers[s + 1]):
            t = successors[e]
            if t != s and place[t] < len(states) and states[place[t]] == t:
                back += finish[t] > finish[s]
                count += 1
    return back / count


@compiled
def most_work(n):
    """Multiplications of an elimination in a component of n states that pays."""
    return (1 << 20) + 32 * n


def _shorter(
    pointers: Array, successors: Array, states: Array, place: Array
) -> tuple[Array, float]:
    """The states `[n]` of a component as they are, or in reverse Cuthill-McKee order.

    Also the mean distance of transitions then. place: `[S]`, where each of them stands now. A
    numbering can only be narrow if a breadth-first search has narrow levels: random models are
    recognised by the first few.
    """
    n = len(states)
    step = max(1, n // SAMPLED)
    length = _mean_length(pointers, successors, readable(states), readable(place), step)
    if not length > SHORTER or length * SHORTER < n**0.5:
        return states, length
    seen, frontier = np.zeros(len(place), dtype=np.bool_), np.empty(n, dtype=np.uint32)
    arrays = pointers, successors, readable(states), readable(place), seen, frontier
    if not _has_narrow_levels(*arrays, length / SHORTER):
        return states, length
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    starts, links = np.zeros(n + 1, dtype=np.int32), np.empty(len(successors), dtype=np.int32)
    within = pointers, successors, readable(states), readable(place)
    used = _links(*within, np.full(n, -1, dtype=np.int64), starts, links)
    graph = sp.csr_matrix((np.ones(used, dtype=np.int8), links[:used], starts), shape=(n, n))
    order = reverse_cuthill_mckee(graph, symmetric_mode=False)
    moved = np.empty(len(place), dtype=np.uint32)
    moved[states[order]] = np.arange(n, dtype=np.uint32)
    shorter = _mean_length(pointers, successors, readable(states[order]), readable(moved), step)
    return (states[order], shorter) if shorter * SHORTER <= length else (states, length)


@compiled
def _links(pointers, successors, states, place, last_seen, starts, links):
    """The other states within that each leads to, every one once, by their places; how many."""
    used = 0
    for i in range(len(states)):
        last_seen[i] = i  # a state that may stay at an end of a line is still an end
        for e in range(pointers[states[i]], pointers[states[i] + 1]):
            t = successors[e]
            j = place[t]
            if j < len(states) and states[j] == t and last_seen[j] != i:
                last_seen[j], links[used] = i, j
                used += 1
        starts[i + 1] = used
    return used


@compiled
def _mean_length(pointers, successors, states, place, step):
    """Mean distance in the numbering of transitions within, over every `step`-th state."""
    total, count = 0.0, 0
    for i in range(0, len(states), step):
        for e in range(pointers[states[i]], pointers[states[i] + 1]):
            t = successors[e]
            position = place[t]
            if position < len(states) and states[position] == t:
                total += abs(np.int64(position) - np.int64(i))
                count += 1
    return total / max(count, 1)


@compiled
def _has_narrow_levels(pointers, successors, states, place, seen, frontier, limit):
    """Whether no level of a search from the first state has more than `limit` states."""
    frontier[0], seen[states[0]] = states[0], True
    read, count = 0, 1
    while read < count:
        end = count
        if end - read > limit:
            return False
        while read < end:
            s = frontier[read]
            read += 1
            for e in range(pointers[s], pointers[s + 1]):
                t = successors[e]
                if not seen[t] and place[t] < len(states) and states[place[t]] == t:
                    seen[t] = True
                    frontier[count] = t
                    count += 1
    return True


def solve_small(
    matrix: Matrix, states: Array, starts: Array, discount: float, vectors: Array, transpose: bool
) -> None:
    """Solve `x = b + discount P x` for small components one after another, in place.

    Component c is `states[starts[c] : starts[c + 1]]`; matrix `[S, S]` holds P. At these states
    `vectors [k, S]` hold b, and x at the end; at earlier ones they hold x already. With `transpose`
    it is `x = b + discount x P`: the last component comes first, and what each sends to earlier
    ones is added to their b.
    """
    largest = int(np.diff(starts).max(initial=1))
    place = np.full(vectors.shape[1], -1, dtype=np.int32)
    work = place, np.empty((largest, largest)), np.empty((len(vectors), largest))
    lists = readable(states), readable(starts)
    _solve_small(*lists, matrix.parts, discount, vectors, transpose, *work)


@compiled
def _solve_small(states, starts, matrix, discount, vectors, transpose, place, system, right):
    pointers, columns, entries = matrix
    count = len(starts) - 1
    for step in range(count):
        c = count - 1 - step if transpose else step
        first, size = starts[c], starts[c + 1] - starts[c]
        for i in range(size):
            place[states[first + i]] = i
            for j in range(size):
                system[i, j] = 0.0
            system[i, i] = 1.0
        for i in range(size):
            s = states[first + i]
            for n in range(len(vectors)):
                right[n, i] = vectors[n, s]
            for e in range(pointers[s], pointers[s + 1]):
                t, chance = columns[e], discount * entries[e]
                if place[t] < 0:
                    if not transpose:
                        for n in range(len(vectors)):
                            right[n, i] += chance * vectors[n, t]
                elif transpose:
                    system[place[t], i] -= chance
                else:
                    system[i, place[t]] -= chance
        if size == 1:
            for n in range(len(vectors)):
                right[n, 0] /= system[0, 0]
        else:
            eliminate(system[:size, :size], right[:, :size])
        for i in range(size):
            s = states[first + i]
            for n in range(len(vectors)):
                vectors[n, s] = right[n, i]
            if transpose:
                for e in range(pointers[s], pointers[s + 1]):
                    if place[columns[e]] < 0:
                        for n in range(len(vectors)):
                            vectors[n, columns[e]] += discount * entries[e] * right[n, i]
        for i in range(size):
            place[states[first + i]] = -1


class Part(NamedTuple):
    """A component as a model of n states in its own order."""

    rows: RowArrays
    choices: Array  # [k] intp: its choices, as the whole model numbers them
    outside: Array  # [k]: E[V(s'); s' outside] of each


def part(rows: Rows, order: Order, component: int, values: Array) -> Part:
    """A large component, while what is outside stays at `values [S]`.

    That of one which leads nowhere else is kept for the next time.
    """
    if component in order.kept:
        return order.kept[component]
    states, first = order.members(component, component + 1), int(order.starts[component])
    made = _part(rows, states, order.place, first, values)
    if not order.leaks[component]:
        order.kept[component] = made
    return made


def renumbered(rows: Rows, order: Order) -> tuple[Part, Order]:
    """The whole model with its states numbered in their order, and that order."""
    states = readable(np.arange(rows.states, dtype=np.uint32))
    own = Order(states, order.starts, order.leaks, order.flows, order.filled)
    return _part(rows, order.states, order.place, 0, np.zeros(rows.states)), own


def _part(rows: Rows, states: Array, place: Array, first: int, values: Array) -> Part:
    """Some states, whose places begin at `first`, while others stay at `values [S]`."""
    block, n = rows.rows(0, rows.states), len(states)
    first_choice = np.zeros(n + 1, dtype=np.uint32)
    np.cumsum(block.first_choice[states + 1] - block.first_choice[states], out=first_choice[1:])
    K = int(first_choice[-1])
    starts, ends = (block.first_entry[block.first_choice[s]] for s in (states, states + 1))
    room = int((ends - starts).sum())
    pointers, choices = np.zeros(K + 1, dtype=np.uint32), np.empty(K, dtype=np.intp)
    successors, chances, outside = np.empty(room, dtype=np.uint32), np.empty(room), np.empty(K)
    within = readable(states), place, first, readable(values)
    used = fill_part(block, *within, pointers, successors, chances, choices, outside)
    entries = readable(successors[:used]), readable(chances[:used])
    own = RowArrays(Block(readable(first_choice), readable(pointers), *entries))
    return Part(own, choices, outside)


@compiled
def fill_part(rows, states, place, first, values, pointers, others, chances, choices, outside):
    """The loop of `part`; how many entries it has."""
    first_choice, first_entry, successors, probabilities = rows
    used, j, last = 0, 0, first + len(states)
    for i in range(len(states)):
        for k in range(first_choice[states[i]], first_choice[states[i] + 1]):
            total = 0.0
            for e in range(first_entry[k], first_entry[k + 1]):
                position = place[successors[e]]
                if first <= position < last:
                    others[used], chances[used] = position - first, probabilities[e]
                    used += 1
                else:
                    total += probabilities[e] * values[successors[e]]
            choices[j], outside[j] = k, total
            j += 1
            pointers[j] = used
    return used


def inside(matrix: Matrix, which: Array, place: Array, first: int) -> Matrix:
    """Rows `which [n]` of a matrix, within a component only, `[n, n]`.

    The n states of the component have the places `first .. first + n - 1` in `place [S]`, and in
    the result the numbers `0 .. n - 1`.
    """
    room = int((matrix.pointers[which + 1] - matrix.pointers[which]).sum())
    starts, others = np.zeros(len(which) + 1, np.uint32), np.empty(room, np.uint32)
    chances = np.empty(room)
    used = _inside(readable(which), place, first, matrix.parts, starts, others, chances)
    return Matrix(readable(starts), readable(others[:used]), readable(chances[:used]))


@compiled
def _inside(which, place, first, matrix, starts, others, chances):
    pointers, columns, entries = matrix
    used, last = 0, first + len(which)
    for i in range(len(which)):
        for e in range(pointers[which[i]], pointers[which[i] + 1]):
            position = place[columns[e]]
            if first <= position < last:
                others[used], chances[used] = position - first, entries[e]
                used += 1
        starts[i + 1] = used
    return used


def outside(matrix: Matrix, which: Array, place: Array, first: int, values: Array) -> Array:
    """`sum_t P(s, t) V(t)` over the t outside the component of `inside`, `[n]`; V `[S]`."""
    totals = np.zeros(len(which))
    _outside(readable(which), place, first, matrix.parts, readable(values), totals, False)
    return totals


def send_outside(
    matrix: Matrix, which: Array, place: Array, first: int, mass: Array, vector: Array
) -> None:
    """Add `sum_s mass(s) P(s, t)` to `vector [S]` at the t outside; mass `[n]`."""
    _outside(readable(which), place, first, matrix.parts, readable(mass), vector, True)


@compiled
def _outside(which, place, first, matrix, source, target, transpose):
    pointers, columns, entries = matrix
    last = first + len(which)
    for i in range(len(which)):
        for e in range(pointers[which[i]], pointers[which[i] + 1]):
            t = columns[e]
            if not first <= place[t] < last:
                if transpose:
                    target[t] += entries[e] * source[i]
                else:
                    target[i] += entries[e] * source[t]
