"""When does a run end, and what follows where it must?

An ended state is one where every choice stays and nothing is paid. If no policy can avoid the ended
states for ever, values are finite at discount 1 too: the kernel K is gamma P without what leads to
an end, and the largest expected number of steps `u = max_pi E steps` has `u - K u >= 1` at every
choice. That gauge (`bounds.py`) is itself the proof that all policies end, and it does not grow as
gamma goes to 1.

Where some policies go on for ever (`endings.py`), only those that surely end are looked at. Choices
after which the end cannot be reached surely are dropped. If a run may stay where nothing is paid,
the states of such cycles get one more choice, to settle there, after which nothing follows.
"""

from dataclasses import dataclass

import numpy as np

from cmdpax.exact.endings import Array, end_components, surely, towards
from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import Transitions

UNVISITED = 1e-12  # share of visits, or of a choice, that counts as none


def ended_states(model: CMDP) -> Array:
    """`[S]` booleans: states where every choice stays and nothing is paid."""
    rows = model.transitions
    lengths = np.diff(rows.first_entry)
    stays = np.zeros(rows.choices, dtype=bool)
    alone = np.flatnonzero(lengths == 1)
    stays[alone] = rows.successors[rows.first_entry[alone]] == rows.state_of[alone]
    stays &= pays_nothing(model)
    return np.logical_and.reduceat(stays, rows.first_choice[:-1])


def pays_nothing(model: CMDP) -> Array:
    """`[K]` booleans: choices where the reward and all constraints are 0."""
    return (model.reward == 0) & (model.constraints == 0).all(0)


def without_ends(rows: Transitions, ended: Array) -> Transitions:
    """The rows without the entries that lead to ended states `[S]`; those of some are empty."""
    kept = ~ended[rows.successors]
    pointers = np.append(0, np.cumsum(kept))[rows.first_entry].astype(np.int32)
    entries = rows.successors[kept], rows.probabilities[kept]
    cut = Transitions(rows.first_choice, pointers, *entries, rows.actions, rows.labels, rows.missed)
    cut.__dict__["longest"] = rows.longest  # what rows were divided by has so many terms
    gone = np.where(kept, 0.0, rows.probabilities)
    cut.__dict__["lost"] = np.add.reduceat(gone, rows.first_entry[:-1])
    return cut


@dataclass(frozen=True, eq=False)
class Cycles:
    """What is known of a form in which some policies never end."""

    inner: Array  # [K] booleans: choices inside of end components
    start: Array  # [S], choices that surely lead to an end
    settled: Array  # [S]: the component in which a run may settle; -1: none
    origin: Array  # [K]: the model's choice, one that stays for a settling one
    settles: Array  # [K] booleans: choices to settle
    stays: Array  # [K] booleans: choices inside of a component in which a run may settle
    dropped: int  # choices of the model that are left out
    count: int  # choices of the model

    def said(self, policy: Array) -> Array:
        """A policy `[K]` as one over the choices of the model."""
        return np.bincount(self.origin, weights=policy, minlength=self.count)

    def settling(self, rows: Transitions, policy: Array, states: Array) -> Array:
        """The policy `[K]`, but settling in the whole components of `states [S]`."""
        labels = self.settled[states & (self.settled >= 0)]
        own = np.isin(self.settled, labels) & (self.settled >= 0)
        return np.where(rows.by_state(own), self.settles.astype(float), policy)

    def stationary(self, rows: Transitions, policy: Array, visits: Array) -> tuple[Array, bool]:
        """A policy `[K]` that settles in a component everywhere or nowhere, and if it is the same.

        visits: `[S]`, those of the policy. A stationary policy of the model cannot settle with some
        probability and leave with the rest; what settles by half or more then settles.
        """
        where = self.settled >= 0
        if not where.any():
            return policy, True
        chances, label = rows.sums(policy * self.settles), self.settled[where]
        count = int(label.max()) + 1
        counted = np.where(visits > UNVISITED * visits.sum(), visits, 0.0)[where]
        all_visits, settling = (
            np.bincount(label, weights=own, minlength=count)
            for own in (counted, counted * chances[where])
        )
        halves = (counted > 0) & (np.abs(chances[where] - 0.5) < 0.5 - UNVISITED)
        mixed = np.bincount(label, weights=halves, minlength=count) > 0
        mixed |= (settling > UNVISITED * all_visits) & (settling < (1 - UNVISITED) * all_visits)
        settled = settling >= all_visits / 2
        goes = np.zeros(rows.states, dtype=bool)
        goes[where] = ~settled[label]
        stays = np.zeros(rows.states, dtype=bool)
        stays[where] = settled[label]
        inner = np.where(self.stays, 1.0, 0.0)
        inner /= np.maximum(rows.by_state(rows.sums(inner)), 1.0)
        leaving = np.where(self.settles, 0.0, policy + rows.by_state(chances) * inner)
        policy = np.where(rows.by_state(goes), leaving, policy)
        policy = np.where(rows.by_state(stays), self.settles.astype(float), policy)
        return policy, not mixed.any()


def ending_rows(model: CMDP, seen: Array, ended: Array) -> tuple[Transitions, Cycles, Array] | int:
    """Rows of policies that surely end, what is known of them, and states `[S]` that can end.

    Or the index of an initial state from which the end cannot be surely reached.
    seen: `[S]`, states that are reached. ended: `[S]`. The rows of ended states, and of those that
    do not matter, are empty; all others sum to 1.
    """
    rows, owner = model.transitions, model.transitions.state_of
    usable, settled = (seen & ~ended)[owner], np.full(rows.states, -1)
    stays = np.zeros(rows.choices, dtype=bool)
    if model.may_stay:
        settled, stays = end_components(rows, usable & pays_nothing(model))
    live, kept = surely(rows, usable, ended | (settled >= 0))
    lost = np.flatnonzero((model.initial > 0) & ~live)
    if lost.size:
        return int(lost[0])
    dropped = int((usable & live[owner] & ~kept).sum())
    has_choice = np.zeros(rows.states, dtype=bool)
    has_choice[owner[kept]] = True
    idle = rows.first_choice[:-1][~has_choice]  # one choice of each, with nothing behind it
    chosen = np.flatnonzero(kept)
    settling = np.flatnonzero(settled >= 0)
    stay_choice = np.zeros(rows.states, dtype=np.int64)
    stay_choice[owner[stays][::-1]] = np.flatnonzero(stays)[::-1]
    origin = np.concatenate([chosen, idle, stay_choice[settling]])
    is_empty = np.arange(len(origin)) >= len(chosen)
    settles = np.arange(len(origin)) >= len(chosen) + len(idle)
    states = np.concatenate([owner[chosen], owner[idle], settling])
    order = np.lexsort((settles, states))
    origin, is_empty, settles, states = (a[order] for a in (origin, is_empty, settles, states))
    lengths = np.where(is_empty, 0, np.diff(rows.first_entry)[origin])
    first_entry = np.append(0, np.cumsum(lengths))
    places = np.repeat(rows.first_entry[origin] - first_entry[:-1], lengths)
    entries = places + np.arange(first_entry[-1])
    first_choice = np.append(0, np.cumsum(np.bincount(states, minlength=rows.states)))
    pointers = first_choice.astype(np.int32), first_entry.astype(np.int32)
    labels = np.where(settles, rows.actions, rows.action_of[origin]).astype(np.int32)
    parts = rows.successors[entries], rows.probabilities[entries]
    own = Transitions(*pointers, *parts, rows.actions + bool(settling.size), labels, rows.missed)
    own.__dict__["longest"] = rows.longest
    inner = end_components(own, ~is_empty)[1]
    staying = stays[origin] & ~is_empty
    target = ended | (settled >= 0)
    start = towards(own, ~is_empty, target)
    start[states[settles]] = np.flatnonzero(settles)
    return own, Cycles(inner, start, settled, origin, settles, staying, dropped, rows.choices), live
