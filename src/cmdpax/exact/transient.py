"""The form of a model whose runs end: what would follow an end is left out.

An ended state is one where every choice stays and nothing is paid. If no policy can avoid the ended
states for ever, values are finite at discount 1 too: the kernel K is gamma P without what leads to
an end, and the largest expected number of steps `u = max_pi E steps` has `u - K u >= 1` at every
choice. That gauge (`bounds.py`) is itself the proof that all policies end, and it does not grow as
gamma goes to 1.

Where some policies go on for ever (`endings.py`), only those that surely end count. Choices after
which the end cannot be reached surely are dropped. If a run may stay where nothing is paid, the
states of such cycles get one more choice, to settle there, after which nothing follows.
"""

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.endings import Array, end_components, surely, towards
from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import Transitions, entries_of

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

UNVISITED = 1e-12  # share of visits, or of a choice, that counts as none


def with_ends(model: CMDP, form: "StandardForm") -> "StandardForm":
    """The form of a model, without what follows an end.

    Where every policy ends, rows lack the entries that lead to an end. At discount 1, where some
    policy never ends, the form has the policies that surely do; a model in which a cycle earns, or
    in which no end can be reached, is refused. Below 1 such a model keeps its form.
    """
    ended, seen = ended_states(model), form.reachable
    inner = end_components(model.transitions, form.transitions.by_state(seen & ~ended))[1]
    if inner.any():
        return form if model.discount < 1 else _surely_ending(model, form, ended, inner)
    rows = without_ends(model.transitions, ended | ~seen)
    form = form.replace(transitions=rows, criterion=Discounted(model.discount, 1.0))
    form.__dict__.update(reachable=seen, alive=seen & ~ended)
    gauge = form.gauge
    steps = max(1.0, float(gauge.max(initial=1.0))) if gauge is not None else 1.0
    return form.replace(criterion=Discounted(model.discount, steps, total=_total(model)))


def _total(model: CMDP) -> Fraction | None:
    """`sum_t gamma^t` over the steps of a horizon."""
    gamma = Fraction(model.discount)
    if model.horizon is None:
        return None
    if gamma == 1:
        return Fraction(model.horizon)
    return (1 - gamma**model.horizon) / (1 - gamma)


def _surely_ending(model: CMDP, form: "StandardForm", ended: Array, inner: Array) -> "StandardForm":
    """The form of policies that surely end, where others go on for ever with `inner [K]`."""
    if not ended.any() and not model.may_stay:
        raise InputError(
            f"discount is 1, but {_choice(model, int(np.flatnonzero(inner)[0]))} some policy never"
            " ends, and no state has ended; give goal=, or a discount below 1."
        )
    seen = form.reachable
    rows, cycles, live = ending_rows(model, seen, ended)
    names = [f"constraint {model.constraint_names[i]}" for i in model.limits.rows]
    functions = zip(["the reward", *names], (form.reward, *form.constraints), strict=True)
    for name, row in functions:
        earning = cycles.inner & (row[cycles.origin] > 0)
        for k in cycles.origin[np.flatnonzero(earning)[:1]].tolist():
            raise InputError(
                f"discount is 1, but {_choice(model, k)} a run can go round for ever and better"
                f" {name} each time; give a discount below 1, or no such cycle."
            )
    own = ~cycles.settles & rows.by_state(live & seen & ~ended)
    reward, constraints = (
        np.where(own, array[..., cycles.origin], 0.0) for array in (form.reward, form.constraints)
    )
    criterion = Discounted(1.0, 1.0, cycles)
    form = form.replace(
        transitions=rows, reward=reward, constraints=constraints, criterion=criterion
    )
    form.__dict__["alive"] = form.reachable & live & ~ended
    steps = rows.by_state(form.alive.astype(float))
    form = _in_steps_of(form, cycles.start, steps)
    return _in_steps_of(form, form.criterion.plan(form, -steps).choices, steps)  # the fewest


def _in_steps_of(form: "StandardForm", choices: Array, steps: Array) -> "StandardForm":
    """The form that counts on so many steps at most as choices `[S]` take.

    steps: `[K]`, 1 until a run has ended.
    """
    most = float(form.criterion.values(form, choices, steps).max(initial=1.0))
    return form.replace(criterion=replace(form.criterion, steps=most))


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
    """The choices of a form in which some policies never end."""

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


def ending_rows(model: CMDP, seen: Array, ended: Array) -> tuple[Transitions, Cycles, Array]:
    """Rows of policies that surely end, what is known of them, and states `[S]` that can end.

    seen: `[S]`, states that are reached. ended: `[S]`. The rows of ended states, and of those that
    do not matter, are empty; all others sum to 1.
    """
    rows, owner = model.transitions, model.transitions.state_of
    usable, settled = (seen & ~ended)[owner], np.full(rows.states, -1)
    stays = np.zeros(rows.choices, dtype=bool)
    if model.may_stay:
        settled, stays = end_components(rows, usable & pays_nothing(model))
    live, kept = surely(rows, usable, ended | (settled >= 0))
    for s in np.flatnonzero((model.initial > 0) & ~live)[:1].tolist():
        place = "where nothing is paid" if model.may_stay else "the goal"
        remedy = "mend its choices" if model.may_stay else "mend its choices, give may_stay=True"
        raise InputError(
            f"initial: from {_state(model, s)} no policy surely reaches {place}; {remedy}, or a"
            " discount below 1."
        )
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
    first_entry, entries = entries_of(rows.first_entry[origin], lengths)
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


def _state(model: CMDP, s: int) -> str:
    return f"state '{model.state_names[s]}'" if model.state_names else f"state {s}"


def _choice(model: CMDP, choice: int) -> str:
    """A choice of the model, for an error."""
    rows = model.transitions
    s, a = int(rows.state_of[choice]), int(rows.action_of[choice])
    names = model.action_names
    own = names[s][choice - rows.first_choice[s]] if names and not isinstance(names[0], str) else ""
    own = own or (model.action_labels[a] if names else "")
    action = f"'{own}'" if own else f"{a}"
    return f"from {_state(model, s)}, action {action},"
