"""When does a run end, and what follows if every policy ends?

An ended state is one where every choice stays and nothing is paid. If no policy can avoid the ended
states for ever, values are finite at discount 1 too: the kernel K is gamma P without what leads to
an end, and the largest expected number of steps `u = max_pi E steps` has `u - K u >= 1` at every
choice. That gauge (`bounds.py`) is itself the proof that all policies end, and it does not grow as
gamma goes to 1.

A policy can avoid the end where there is an end component: states and choices that lead nowhere
else. They are what is left when choices that leave their strongly connected component are removed,
again and again.
"""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import Transitions


def ended_states(model: CMDP) -> np.ndarray:
    """`[S]` booleans: states where every choice stays and nothing is paid."""
    rows = model.transitions
    lengths = np.diff(rows.first_entry)
    stays = np.zeros(rows.choices, dtype=bool)
    alone = np.flatnonzero(lengths == 1)
    stays[alone] = rows.successors[rows.first_entry[alone]] == rows.state_of[alone]
    stays &= (model.reward == 0) & (model.constraints == 0).all(0)
    return np.logical_and.reduceat(stays, rows.first_choice[:-1])


def without_ends(rows: Transitions, ended: np.ndarray) -> Transitions:
    """The rows without the entries that lead to ended states `[S]`; those of some are empty."""
    kept = ~ended[rows.successors]
    pointers = np.append(0, np.cumsum(kept))[rows.first_entry].astype(np.int32)
    entries = rows.successors[kept], rows.probabilities[kept]
    cut = Transitions(rows.first_choice, pointers, *entries, rows.actions, rows.labels, rows.missed)
    cut.__dict__["longest"] = rows.longest  # what rows were divided by has so many terms
    return cut


def endless_choice(rows: Transitions, seen: np.ndarray, ended: np.ndarray) -> int | None:
    """A choice with which some policy can go on for ever, or None if all policies end.

    seen: `[S]`, the states that matter. ended: `[S]`.
    """
    lengths, owner = np.diff(rows.first_entry), rows.state_of
    entry_choice = np.repeat(np.arange(rows.choices), lengths)
    goes_on = np.ones(rows.choices, dtype=bool)
    goes_on[entry_choice[ended[rows.successors]]] = False  # it may end
    goes_on &= (seen & ~ended)[owner]
    count = -1
    while count != (count := int(goes_on.sum())) and count:
        used = goes_on[entry_choice]
        links = owner[entry_choice[used]], rows.successors[used]
        graph = sp.coo_array((np.ones(len(links[0]), np.int8), links), shape=(rows.states,) * 2)
        label = connected_components(graph.tocsr(), connection="strong")[1]
        has_choice = np.zeros(rows.states, dtype=bool)
        has_choice[owner[goes_on]] = True
        leaves = label[owner[entry_choice]] != label[rows.successors]
        leaves |= ~has_choice[rows.successors]
        goes_on[entry_choice[leaves]] = False
    return int(np.flatnonzero(goes_on)[0]) if count else None
