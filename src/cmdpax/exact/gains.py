"""Planning for the long-run average: inside of end components, and between them.

Inside it is policy iteration: policies are improved by discounted plans for
`x - g + (1 - gamma) P h`, in small models by h itself. Outside, each component is one state with
one more choice, to settle there for the best gain; so every run ends.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from cmdpax.exact.discounted import Discounted
from cmdpax.exact.endings import Array, merged, towards
from cmdpax.exact.settled import LEAK, Settled, leaving
from cmdpax.loops import bellman
from cmdpax.model.transitions import Transitions, entries_of
from cmdpax.stopping import Stop

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

ROUNDS, STALL = 100, 4  # plans, and how many of them without halving what is missing
ROUNDING = 1e-13  # of a gain, relative to the numbers it is the difference of
SWITCH = 1e-13  # share of its terms that a better choice gains


@dataclass(frozen=True, eq=False)
class Inside:
    """The states and choices of all end components, as a model of their own."""

    states: Array  # [n]
    choices: Array  # [k]
    component: Array  # [n], from 0 on
    rows: Transitions

    @staticmethod
    def of(rows: Transitions, label: Array, inner: Array) -> "Inside":
        """Of the components `label [S]` and their choices `inner [K]`."""
        states, choices = np.flatnonzero(label >= 0), np.flatnonzero(inner)
        place = np.cumsum(label >= 0) - 1
        counts = np.bincount(place[rows.state_of[choices]], minlength=len(states))
        lengths = np.diff(rows.first_entry)[choices]
        first_entry, entries = entries_of(rows.first_entry[choices], lengths)
        first = np.append(0, np.cumsum(counts)).astype(np.int32)
        to = place[rows.successors[entries]].astype(np.int32)
        parts = first_entry.astype(np.int32), to, rows.probabilities[entries]
        component = np.unique(label[states], return_inverse=True)[1]
        own = Transitions(first, *parts, int(counts.max()))
        return Inside(states, choices, component, own)

    def plan(
        self, reward: Array, guess: Array | None, tolerance: float, stop: Stop
    ) -> tuple[Array, Array, Array, float]:
        """For a reward `[k]`: h `[2, n]`, gains `[n]`, choices `[n]` of the rows, and an error."""
        from cmdpax.exact.standard import StandardForm

        n, count = len(self.states), int(self.component.max()) + 1
        uniform = np.full(n, 1 / n)
        nothing = np.zeros((0, len(reward))), np.zeros(0)
        criterion = Discounted(1 - LEAK)
        form = StandardForm(self.rows, reward, *nothing, uniform, criterion)
        h, is_small = np.zeros((2, n)), self.rows.is_small
        h[0] = 0.0 if guess is None else guess
        choices = policy = bellman.backup(self.rows, reward, h[0], 1.0)[0]
        widths, largest, stalled = np.full(count, np.inf), np.full(count, -np.inf), 0
        bias, gains = np.zeros((2, n)), np.zeros(n)
        own = np.full(count, -np.inf)  # gains of the present policy
        for done in range(ROUNDS):
            chosen, change = self._improved(reward, h, choices)
            low, high = np.full(count, np.inf), np.full(count, -np.inf)
            np.minimum.at(low, self.component, change)
            np.maximum.at(high, self.component, change)
            middles = ((low + high) / 2)[self.component]
            rounding = ROUNDING * (float(np.abs(h).max()) + float(np.abs(reward).max()))
            is_narrower, is_larger = high - low < widths, own > largest
            gains_much = (high - low < widths / 2) | (own > largest + rounding)
            here = is_narrower[self.component]
            bias, gains = np.where(here, h, bias), np.where(here, middles, gains)
            policy = np.where(is_larger[self.component], choices, policy)
            widths, largest = np.fmin(widths, high - low), np.maximum(largest, own)
            stalled = 0 if gains_much.any() else stalled + 1
            if done and is_small:
                is_done = (chosen == choices).all() or stalled >= STALL + n
            else:
                is_done = done and (
                    widths.max() <= max(tolerance / 2, rounding) or stalled >= STALL
                )
            if is_done or (done and stop()):
                break
            if not is_small:
                pays = reward - self.rows.by_state(middles)
                pays = pays + LEAK * bellman.expected(self.rows, h[0])
                error = max(tolerance, 1e-3 * float(widths.max())) / LEAK
                chosen = criterion.plan(form, pays, chosen, values=h[0], tolerance=error).choices
            choices, own, h = self._evaluated(reward, chosen)
            if not np.isfinite(h).all():  # so long until it returns that nothing can be said
                break
        return bias, gains, policy, float(widths.max())

    def _improved(self, reward: Array, h: Array, choices: Array) -> tuple[Array, Array]:
        """Choices `[n]` that are greedy for h `[2, n]`, and `max x + P h - h`, both `[n]`.

        Where one is as good as the best but for rounding it stays.
        """
        rows = self.rows
        change, size = bellman.differences(rows, reward, np.abs(reward), h[0], tails=h[1])
        chosen, best = bellman.greedy(rows.first_choice, change)
        is_better = best - change[choices] > SWITCH * (size[chosen] + size[choices])
        return np.where(is_better, chosen, choices), best

    def _evaluated(self, reward: Array, choices: Array) -> tuple[Array, Array, Array]:
        """Choices `[n]` that lead to the best class of each component, its gain, and h `[2, n]`."""
        settled = Settled.of(self.rows, choices)
        own = settled.is_settled
        gains, *bias = (one[0] for one in settled.evaluated(reward[choices][None]))
        best = np.full(int(self.component.max()) + 1, -np.inf)
        np.fmax.at(best, self.component[own], gains[own])
        first = np.full(len(best), len(self.rows.first_entry))  # one class of several equals
        is_best = own & (gains == best[self.component])
        np.minimum.at(first, self.component[is_best], settled.label[is_best])
        target = is_best & (settled.label == first[self.component])
        if (target != own).any():
            everywhere = np.ones(self.rows.choices, dtype=bool)
            choices = np.where(target, choices, towards(self.rows, everywhere, target))
            settled = Settled.of(self.rows, choices)
            bias = [one[0] for one in settled.evaluated(reward[choices][None])[1:]]
        return choices, best, np.stack(bias)


@dataclass(frozen=True, eq=False)
class Outside:
    """The model in which each end component is one state, with one more choice, to settle."""

    form: "StandardForm"  # every policy ends
    state: Array  # [S]: its state of each state
    choices: Array  # [K']: the choice that each choice was; -1: settle
    steps: Array  # [S']: the largest expected numbers of steps

    @staticmethod
    def of(form: "StandardForm", label: Array, inner: Array) -> "Outside":
        """Of the components `label [S]` and their choices `inner [K]`."""
        rows, seen = form.transitions, form.reachable
        whole = merged(rows, np.where(seen, label, -1), inner)
        owner, count = whole.rows.state_of, whole.rows.states
        counted = np.zeros(count, dtype=bool)
        counted[whole.state[seen]] = True
        settling = np.unique(whole.state[label >= 0])
        idle = np.setdiff1d(np.arange(count), np.append(owner, settling))
        more = np.append(settling, idle)
        states = np.append(owner, more)
        order = np.argsort(states, kind="stable")
        kept = np.append(counted[owner], np.zeros(len(more), dtype=bool)).astype(float)
        matrix = sp.vstack([whole.rows.matrix, sp.csr_array((len(more), count))])
        matrix = sp.csr_array(sp.diags_array(kept) @ matrix.tocsr())[order]
        matrix.eliminate_zeros()
        first = np.append(0, np.cumsum(np.bincount(states, minlength=count))).astype(np.int32)
        parts = matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
        own = Transitions(first, *parts, int(np.diff(first).max()))
        own.__dict__["longest"] = rows.longest
        initial = np.bincount(whole.state, weights=form.initial, minlength=count)
        nothing = np.zeros((0, own.choices)), np.zeros(0)
        ends = form.replace(
            transitions=own,
            reward=np.zeros(own.choices),
            constraints=nothing[0],
            thresholds=nothing[1],
            initial=initial,
            criterion=Discounted(1.0, 1.0),
        )
        ends.__dict__["alive"] = counted
        if own.is_small:
            ends = ends.replace(criterion=Discounted(1.0, np.inf))  # however long runs are
            moves = leaving(matrix, own.state_of) * own.by_state(counted)
            gauge = ends.criterion.plan(ends, moves).values
        else:
            gauge = Discounted(1.0, 1.0).expected_steps(ends)
            ends = ends.replace(criterion=Discounted(1.0, max(1.0, float(gauge.max()))))
        ends.__dict__["alive"] = counted
        choices = np.append(whole.choices, np.full(len(more), -1))[order]
        return Outside(ends, whole.state, choices, gauge)

    def plan(
        self, form: "StandardForm", gains: Array, choices: Array, inner: Array, tolerance: float
    ) -> tuple[Array, Array, Array]:
        """What each state is worth, `[S]`, expected steps, and the choices `[S]` of all.

        gains: `[S]`, inside of components. choices: `[S]`, there.
        """
        settling = np.zeros(self.form.states)
        settling[self.state] = gains  # one number in each component
        settles = self.choices < 0
        reward = np.where(settles, self.form.transitions.by_state(settling), 0.0)
        best = self.form.criterion.plan(self.form, reward, tolerance=tolerance / 2)
        picked = self.choices[best.choices][self.state]
        rows = form.transitions
        at_exit = (picked >= 0) & (rows.state_of[picked] == np.arange(form.states))
        way_out = towards(rows, inner, at_exit)
        choices = np.where(picked < 0, choices, np.where(at_exit, picked, way_out))
        return best.values[self.state], self.steps[self.state], choices
