"""How do objectives that end at different times become one model with one goal?

An objective counts until the run first enters the states that close it: `R [F done]` pays until
`done`, `P [a U b]` pays 1 for entering b and closes in b and where a is false. What an objective
pays then depends on the past, so the state remembers it: one bit for each set of states that closes
something, 1 once the run has entered the set. A set that is never left needs no bit.

    pays(s, bits, a) = x(s, a) while the bit is 0, and 0 afterwards

The goal is where nothing is paid any more, whatever is done; what lies beyond it is dropped.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from cmdpax.model.numbers import refuse_huge
from cmdpax.model.reading import RowLists
from cmdpax.model.transitions import Array, entries_of


class Objective(NamedTuple):
    """What is counted: what choices pay, or (paid is None) the chance of entering `wins`."""

    closes: Array  # [S] booleans: entering one of these states ends the count
    paid: Array | None = None  # [K]
    wins: Array | None = None  # [S] booleans


@dataclass(frozen=True)
class Graph:
    """Rows by choice, as in `Transitions`, and where its states and choices come from."""

    first_choice: Array  # [S + 1]
    first_entry: Array  # [K + 1]
    successors: Array  # [e]
    probabilities: Array  # [e]
    initial: Array  # [S] probabilities
    state_origin: Array  # [S]
    choice_origin: Array  # [K]

    @staticmethod
    def of(
        first_choice: Array, first_entry: Array, successors: Array, chances: Array, initial: Array
    ) -> "Graph":
        """A graph that comes from itself."""
        origins = np.arange(len(first_choice) - 1), np.arange(len(first_entry) - 1)
        return Graph(first_choice, first_entry, successors, chances, initial, *origins)

    @property
    def states(self) -> int:
        """Number of states S."""
        return len(self.first_choice) - 1

    @property
    def choice_states(self) -> Array:
        """`[K]`: the state of each choice."""
        return np.repeat(np.arange(self.states), np.diff(self.first_choice))

    @property
    def entry_states(self) -> Array:
        """`[e]`: the state that each entry leads from."""
        return np.repeat(self.choice_states, np.diff(self.first_entry))

    def sums(self, entries: Array) -> Array:
        """Sums over the entries of each choice, `[e] -> [K]`."""
        return np.add.reduceat(entries, self.first_entry[:-1])

    def is_left(self, states: Array) -> bool:
        """Whether some choice leads out of a set `[S]` of states."""
        return bool((states[self.entry_states] & ~states[self.successors]).any())

    def reached(self, start: Array, backwards: bool = False) -> Array:
        """`[S]` booleans: states that are reached from `start [S]`, or lead to it."""
        S, ends = self.states, (self.entry_states, self.successors)
        heads, tails = ends[::-1] if backwards else ends
        first = np.flatnonzero(start)
        rows = np.append(heads, np.full(len(first), S)), np.append(tails, first)
        graph = sp.csr_array((np.ones(len(rows[0]), dtype=np.int8), rows), shape=(S + 1, S + 1))
        seen = np.zeros(S + 1, dtype=bool)
        seen[breadth_first_order(graph, S, return_predecessors=False)] = True
        return seen[:S]

    def restricted(self, kept: Array, ended: Array) -> "Graph":
        """The states `kept [S]` alone, without the choices of those that have `ended [S]`."""
        chosen = np.flatnonzero((kept & ~ended)[self.choice_states])
        lengths = np.diff(self.first_entry)[chosen]
        first_entry, entries = entries_of(self.first_entry[chosen], lengths)
        counts = np.where(ended, 0, np.diff(self.first_choice))[kept]
        return Graph(
            np.append(0, np.cumsum(counts)),
            first_entry,
            (np.cumsum(kept) - 1)[self.successors[entries]],
            self.probabilities[entries],
            self.initial[kept],
            self.state_origin[kept],
            self.choice_origin[chosen],
        )

    def with_bit(self, closes: Array) -> tuple["Graph", Array]:
        """The product with one bit, and its states `[2 S]` where the bit is 1.

        State s has the copies s (the bit is 0) and S + s (it is 1); entering `closes [S]` sets it.
        """
        S, K, e = self.states, len(self.first_entry) - 1, len(self.successors)
        refuse_huge((2, e))
        after = self.successors + S
        graph = Graph(
            np.append(self.first_choice, self.first_choice[1:] + K),
            np.append(self.first_entry, self.first_entry[1:] + e),
            np.append(np.where(closes[self.successors], after, self.successors), after),
            np.tile(self.probabilities, 2),
            np.append(np.where(closes, 0, self.initial), np.where(closes, self.initial, 0)),
            np.tile(self.state_origin, 2),
            np.tile(self.choice_origin, 2),
        )
        return graph, np.arange(2 * S) >= S


@dataclass(frozen=True)
class Product:
    """A graph in which every objective pays by choice, and ends in goals."""

    graph: Graph
    numbers: Array  # [n, K]
    goal: Array  # [S] booleans, states without choices
    closed: Array  # [n, S] booleans: where each objective has ended
    bits: int  # that were added


def product(graph: Graph, objectives: Sequence[Objective], end: int | None = None) -> Product:
    """The product with the bits that n objectives need, cut where nothing is paid any more.

    end: the objective that must have ended in a goal, if there is one; elsewhere a run may be
    stuck, and is no goal.
    """
    sets = {one.closes.tobytes(): one.closes for one in objectives}
    closed, bits = dict[bytes, Array](), 0
    base = graph
    for key, closes in sets.items():
        closed[key] = own = closes[graph.state_origin]
        if base.is_left(closes):
            graph, own = graph.with_bit(own)
            closed = {name: np.tile(mask, 2) for name, mask in closed.items()} | {key: own}
            kept = graph.reached(graph.initial > 0)
            graph = graph.restricted(kept, np.zeros_like(kept))
            closed = {name: mask[kept] for name, mask in closed.items()}
            bits += 1
    numbers = np.array([_paid(graph, one, closed[one.closes.tobytes()]) for one in objectives])
    ended = np.array([closed[one.closes.tobytes()] for one in objectives])
    pays = np.zeros(graph.states, dtype=bool)
    pays[graph.choice_states[(numbers != 0).any(0)]] = True
    goal = ~graph.reached(pays, backwards=True) if end is None else ended[end]
    first = graph.restricted(np.ones_like(goal), goal)
    kept = first.reached(first.initial > 0)
    live = (kept & ~goal)[graph.choice_states]
    whole = first.restricted(kept, np.zeros_like(kept))
    return Product(whole, numbers[:, live], goal[kept], ended[:, kept], bits)


def _paid(graph: Graph, objective: Objective, closed: Array) -> Array:
    """What every choice of the product pays to an objective, `[K]`."""
    if objective.paid is not None:
        numbers = objective.paid[graph.choice_origin]
    else:
        assert objective.wins is not None
        wins = objective.wins[graph.state_origin[graph.successors]]
        numbers = graph.sums(np.where(wins, graph.probabilities, 0.0))
    return np.where(closed[graph.choice_states], 0.0, numbers)


def row_fields(result: Product) -> dict[str, Any]:
    """The rows of a product as arguments of `CMDP`."""
    graph = result.graph
    lists = RowLists(graph.first_entry, graph.successors, graph.probabilities)
    fields = {"transitions": lists, "first_choice": graph.first_choice, "initial": graph.initial}
    return fields | ({"goal": result.goal} if result.goal.any() else {})


def numbered(labels: Iterable[str]) -> list[str]:
    """Labels in which the second of two equal ones is `label#2`."""
    seen = Counter[str]()
    unique = []
    for label in labels:
        seen[label] += 1
        unique.append(label if seen[label] == 1 else f"{label}#{seen[label]}")
    return unique
