"""Which runs end, and which can go on for ever? Graphs of choices, without numbers.

An end component is a set of states and choices that lead nowhere else, each state to each other:
what is left when choices that leave their strongly connected component are removed, again and
again. A policy goes on for ever only inside of one. `surely` are the states from which some policy
reaches a target with probability 1: those that can reach it, by choices that stay among them.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order, connected_components

from cmdpax.model.transitions import Transitions

Array = np.ndarray


def end_components(rows: Transitions, usable: Array) -> tuple[Array, Array]:
    """The component of each state, `[S]` (-1: none), and the choices inside of one, `[K]`.

    usable: `[K]` booleans, the choices that count.
    """
    owner, entry_choice = rows.state_of, rows.entry_choices
    inner = usable & (np.diff(rows.first_entry) > 0)
    label, count = np.full(rows.states, -1), -1
    while count != (count := int(inner.sum())) and count:
        used = inner[entry_choice]
        links = owner[entry_choice[used]], rows.successors[used]
        label = connected_components(_graph(links, rows.states), connection="strong")[1]
        has_choice = np.zeros(rows.states, dtype=bool)
        has_choice[owner[inner]] = True
        leaves = label[owner[entry_choice]] != label[rows.successors]
        leaves |= ~has_choice[rows.successors]
        inner[entry_choice[leaves]] = False
    has_choice = np.zeros(rows.states, dtype=bool)
    has_choice[owner[inner]] = True
    return np.where(has_choice, label, -1), inner


def surely(rows: Transitions, usable: Array, target: Array) -> tuple[Array, Array]:
    """States `[S]` from which some policy surely reaches `target [S]`, and choices `[K]` for it.

    usable: `[K]` booleans, the choices that count.
    """
    owner, entry_choice = rows.state_of, rows.entry_choices
    live = np.ones(rows.states, dtype=bool)
    while True:
        kept = usable & live[owner]
        kept[entry_choice[~live[rows.successors]]] = False
        reached = way(rows, kept, target)[0]
        if (reached == live).all():
            return live, kept
        live = reached


def towards(rows: Transitions, usable: Array, target: Array) -> Array:
    """One of the `usable [K]` choices for each state, `[S]`, a step nearer to `target [S]`.

    States that cannot reach it, and the target itself, get their first choice.
    """
    nearer = way(rows, usable, target)[1]
    entry_choice = rows.entry_choices
    good = usable[entry_choice] & (rows.successors == nearer[rows.state_of[entry_choice]])
    choices = rows.first_choice[:-1].copy()
    good_choices = entry_choice[good][::-1]  # the first of several stays
    choices[rows.state_of[good_choices]] = good_choices
    return choices


def way(rows: Transitions, usable: Array, target: Array) -> tuple[Array, Array]:
    """States `[S]` that can reach the target, and the next state of each on its way, `[S]`."""
    S, entry_choice = rows.states, rows.entry_choices
    used, first = usable[entry_choice], np.flatnonzero(target)
    heads = np.append(rows.successors[used], np.full(len(first), S))
    tails = np.append(rows.state_of[entry_choice[used]], first)
    graph = _graph((heads, tails), S + 1)
    order, before = breadth_first_order(graph, S)
    reached = np.zeros(S + 1, dtype=bool)
    reached[order] = True
    return reached[:S], np.where(target, -1, before[:S])


class Merged(NamedTuple):
    """Rows whose end components are one state each, and where their parts come from."""

    rows: Transitions
    state: Array  # [S]: the merged state of each state
    choices: Array  # [K']: the choice that each choice was


def merged(rows: Transitions, label: Array, inner: Array) -> Merged:
    """The rows with each component `label [S]` as one state, without the `inner [K]` choices."""
    alone = label < 0
    names = np.where(alone, label.max(initial=-1) + 1 + np.arange(rows.states), label)
    state = np.unique(names, return_inverse=True)[1].astype(np.int32)
    count, kept = int(state.max()) + 1, np.flatnonzero(~inner)
    owner = state[rows.state_of[kept]]
    order = np.argsort(owner, kind="stable")
    choices = kept[order]
    own = rows.matrix[choices]
    matrix = sp.csr_array((own.data, state[own.indices], own.indptr), shape=(len(choices), count))
    matrix.sum_duplicates()
    first = np.append(0, np.cumsum(np.bincount(owner, minlength=count))).astype(np.int32)
    entries = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
    most = int(np.diff(first).max())
    return Merged(Transitions(first, *entries, most), state, choices)


def _graph(links: tuple[Array, Array], size: int) -> sp.csr_array:
    """A graph `[size, size]` of links from the first to the second."""
    return sp.coo_array((np.ones(len(links[0]), np.int8), links), shape=(size, size)).tocsr()
