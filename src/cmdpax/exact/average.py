"""Values, visits and bounds when the long-run average counts.

    V_x(pi) = lim (1/T) E sum_{t < T} x(s_t, a_t)

A run ends up in one end component (`endings.py`) and stays there. Inside of it the best average,
its gain G, is the same for every state, and any h proves it: `x + P h - h <= G`. So a model is as
good as one in which each component is one state with one more choice, to settle there for G once;
there every run ends (`transient.py`). A potential has four parts, `[4 S]`: V, what a state can
earn, one number in a component; h, and its further digits; and u, the largest expected number of
moves until the run settles, a gauge for everything before (`bounds.py`).

A policy that settles in one class of states is evaluated between visits to one of them, i: with R
and T the rewards and the steps until then, `g = R(i) / T(i)` and `h = R - g T`. Planning inside of
components is policy iteration, improved by discounted plans for `x - g + (1 - gamma) P h`; in
small models by h itself, as a sum of two vectors: one has too few digits where steps are rare.

A policy that leaves a component with some probability and stays with the rest is not stationary.
Then the answer is a mixture of deterministic policies, drawn once at the start.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.bounds import claims, policy_bounds
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.endings import Array, end_components, merged, towards
from cmdpax.exact.planning import Plan
from cmdpax.exact.systems import Chain, Rare, finite
from cmdpax.loops import bellman, rare
from cmdpax.loops.components import Order
from cmdpax.loops.rows import Matrix
from cmdpax.model.result import Mixture
from cmdpax.model.transitions import Transitions
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim
    from cmdpax.exact.standard import StandardForm

LEAK = 1e-4  # 1 - gamma of discounted plans
ROUNDS, STALL = 100, 4  # plans, and how many of them without halving what is missing
LARGEST_BIAS = 1e8  # h beyond so many rewards costs too many digits
UNVISITED = 1e-12  # share of time that counts as none
SAME = 1e-12  # what a value may be off, as a share of its terms
ROUNDING = 1e-13  # of a gain, relative to the numbers it is the difference of
SWITCH, REFINEMENTS = 1e-13, 3  # share of its terms that a better choice gains; of h in two vectors


@dataclass(frozen=True, eq=False)
class Average:
    """The criterion of one form; `Discounted` has the same functions."""

    label: Array  # [S]: the end component of each state; -1: none
    inner: Array  # [K] booleans: choices inside of one
    inside: "Inside"
    outside: "Outside | None"  # None: all reachable states are in one component
    discount: float = field(default=1.0, init=False)
    steps: float | None = field(default=None, init=False)
    cycles: None = field(default=None, init=False)
    mass: float = field(default=1.0, init=False)
    unit: float = field(default=1.0, init=False)
    is_closed: bool = field(default=True, init=False)
    common: float = field(default=1.0, init=False)  # the value of a constant 1
    parts: int = field(default=4, init=False)

    @staticmethod
    def of(form: "StandardForm") -> "Average":
        """The criterion of a form with whole rows."""
        rows, seen = form.transitions, form.reachable
        label, inner = end_components(rows, rows.by_state(seen))
        inside = Inside.of(rows, label, inner)
        is_one = len(np.unique(label[seen])) == 1 and inner[rows.by_state(seen)].all()
        return Average(label, inner, inside, None if is_one else Outside.of(form, label, inner))

    def scale(self, form: "StandardForm", reward: Array) -> tuple[float, float]:
        """`min x` and `span(x)` over reachable choices (span 1 if it is zero)."""
        return self.scale_of(*form.span(reward))

    def scale_of(self, low: float, high: float) -> tuple[float, float]:
        """The same of a reward between two numbers."""
        return low, high - low or 1.0

    def constant_of(self, low: float, high: float) -> tuple[float, Fraction]:
        """A number that all rewards between two have in common, and its value, the same."""
        middle = low / 2 + high / 2
        return (0.0, Fraction(0)) if abs(middle) <= high - low else (middle, Fraction(middle))

    def gauge(self, form: "StandardForm") -> None:
        """Every potential has its own."""

    def centred(self, form: "StandardForm", values: Array) -> Array:
        """As they are."""
        return values

    def smoothness(self, form: "StandardForm") -> tuple[float, float]:
        """There is none."""
        raise InputError("step: 'theory' is for a discount well below 1; give a number.")

    def flow(self, form: "StandardForm") -> sp.csr_array:
        """Net outflow of choices `[S, K]`, 0 for shares of time; the first row is their sum.

        States that are never reached have no inflow.
        """
        seen = form.reachable
        if len(np.unique(self.label[seen & (self.label >= 0)])) > 1:
            raise InputError(
                "this method takes averages of models with one end component, and this one has"
                " several; the default method takes it."
            )
        rows = form.transitions
        each, shape = np.arange(rows.choices + 1), (rows.choices, rows.states)
        outflow = sp.csr_array((np.ones(rows.choices), rows.state_of, each), shape=shape)
        flow = sp.csr_array((outflow - _mask(rows.by_state(seen)) @ rows.matrix).T).tolil()
        flow[int(np.flatnonzero(seen)[0])] = 1.0
        return flow.tocsr()

    def inflow(self, form: "StandardForm") -> Array:
        """What the rows of the flow sum to, `[S]`."""
        return (np.arange(form.states) == np.flatnonzero(form.reachable)[0]).astype(float)

    def fallback(self, form: "StandardForm", mass: Array) -> Array:
        """Choices `[S]` that lead to where visits `mass [K]` are."""
        rows = form.transitions
        return self._lead(form, rows.sums(np.maximum(mass, 0.0)) > UNVISITED)

    def _lead(self, form: "StandardForm", visited: Array) -> Array:
        rows = form.transitions
        usable = np.where(rows.by_state(self.label >= 0), self.inner, True)
        return towards(rows, usable, visited)

    def action_values(self, form: "StandardForm", reward: Array, values: Array) -> Array:
        """There are none: whoever needs them takes a discount."""
        raise InputError("an average has no action values; the default method takes it.")

    def plan(
        self,
        form: "StandardForm",
        reward: Array,
        start: Array | None = None,
        *,
        values: Array | None = None,
        tolerance: float = 0.0,
        stop: Stop = never,
    ) -> Plan:
        """The best policy for one reward `[K]`; its values are h, and `values` a guess of them."""
        return self._planned(form, reward, values, tolerance, stop)[0]

    def upper(
        self, form: "StandardForm", what: "Claim", choices: Array, tolerance: float = 0.0
    ) -> Array:
        """A potential `[4 S]` that bounds a claim's value from above."""
        return self._planned(form, what.reward, None, tolerance, never)[1]

    def _planned(
        self,
        form: "StandardForm",
        reward: Array,
        guess: Array | None,
        tolerance: float,
        stop: Stop,
    ) -> tuple[Plan, Array]:
        """The plan, and the potential that bounds it."""
        own = self.inside
        choices = form.transitions.first_choice[:-1].copy()
        bias, gains = np.zeros((2, form.states)), np.zeros(form.states)
        values = None if guess is None else guess[own.states]
        h, gain, chosen, worst = own.plan(reward[own.choices], values, tolerance, stop)
        bias[:, own.states], gains[own.states] = h, gain
        choices[own.states] = own.choices[chosen]
        steps = np.zeros(form.states)
        if self.outside is not None:
            gains, steps, choices = self.outside.plan(form, gains, choices, self.inner, tolerance)
        value = float(form.initial @ gains) + worst
        return Plan(choices, bias[0], value), np.concatenate([gains, *bias, steps])

    def visits(
        self,
        form: "StandardForm",
        policy: Array,
        *,
        tolerance: float = 0.0,
        guess: Array | None = None,
    ) -> Array:
        """Long-run shares of time `[S]`, which sum to 1."""
        settled = Settled.of(form.transitions, policy)
        return finite(settled.long_run(settled.visits(form.initial)))

    share = visits

    def potentials(
        self,
        form: "StandardForm",
        policy: Array,
        claims: "Sequence[Claim]",
        tolerance: Array | float = 0.0,
    ) -> Array:
        """What proves k values of a policy, `[k, 4 S]`: its gains, h in two, and its moves."""
        settled, rows = Settled.of(form.transitions, policy), form.transitions
        paid = np.stack([rows.under(policy, one.reward) for one in claims])
        gains, *bias = settled.evaluated(paid)
        steps = np.broadcast_to(settled.steps(), gains.shape)
        own = (np.where(settled.is_settled, part, 0.0) for part in bias)
        return finite(np.hstack([gains, *own, steps]))

    def values(self, form: "StandardForm", policy: Array, rewards: Any, **kind: Any) -> Array:
        """Gains of k rewards `[k, K]` (or one, `[K]`) -> `[k, S]` (or `[S]`)."""
        paid = np.stack([form.transitions.under(policy, row) for row in np.atleast_2d(rewards)])
        gains = finite(Settled.of(form.transitions, policy).evaluated(paid)[0])
        return gains[0] if np.ndim(rewards) == 1 else gains

    def answer(
        self, form: "StandardForm", policy: Array, mixture: Mixture | None = None
    ) -> Mixture:
        """One stationary policy where it has the values of the mixture, or the mixture.

        It has if a run ends up in one class in any case, or if no state where some policy stays is
        one that another passes.
        """
        if mixture is None or len(mixture) == 1:
            return ((1.0, policy if mixture is None else mixture[0][1]),)
        rows, settled = form.transitions, [Settled.of(form.transitions, one) for _, one in mixture]
        stays = np.any([one.chances(form.initial) > 0 for one in settled], axis=0)
        lead = rows.deterministic(self._lead(form, stays))
        one_class = np.where(rows.by_state(stays), policy, lead)
        chain = Settled.of(rows, one_class)
        reached = chain.chances(form.initial) > 0
        is_one = (reached == stays).all() and len(np.unique(chain.label[stays])) == 1
        shares, mass, passes = np.zeros(form.choices), np.zeros(form.choices), np.zeros(form.states)
        for (share, choices), one in zip(mixture, settled, strict=True):
            visits = one.visits(form.initial)
            passing = np.where(one.is_settled, 0.0, visits)
            passes += passing
            shares[choices] += share * one.long_run(visits)
            mass[choices] += share * passing
        if not is_one and (stays & (passes > UNVISITED)).any():
            return mixture
        mass += shares
        total = rows.by_state(rows.sums(mass))
        own = np.where(total > UNVISITED, mass / np.where(total > 0, total, 1.0), lead)
        own = one_class if is_one else own
        if form.is_small:
            is_same = self._has_values(form, own, shares)
        else:
            is_same = not is_one or chain.is_sound(rows.under(own, form.reward))
        return ((1.0, own),) if is_same else mixture

    def _has_values(self, form: "StandardForm", policy: Array, shares: Array) -> bool:
        """Whether a policy `[K]` provably has the values of shares of time `[K]`."""
        functions = claims(form)
        try:
            potentials = self.potentials(form, policy, functions)
        except NumericalError:
            return False
        for what, potential in zip(functions, potentials, strict=True):
            low, high = policy_bounds(form, policy, what._replace(rest=Fraction(0)), potential)
            value, slack = float(shares @ what.reward), SAME * float(shares @ what.sizes)
            if not (np.isfinite([low, high]).all() and low - slack <= value <= high + slack):
                return False
        return True


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
        first_entry = np.append(0, np.cumsum(lengths))
        entries = np.repeat(rows.first_entry[choices] - first_entry[:-1], lengths)
        entries = entries + np.arange(first_entry[-1])
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
            leaving = _leaving(matrix, own.state_of) * own.by_state(counted)
            gauge = ends.criterion.plan(ends, leaving).values
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


@dataclass(frozen=True, eq=False)
class Settled:
    """The chain of one policy: where it settles, and how it gets there."""

    order: Order
    matrix: Matrix  # P_pi [S, S]
    label: Array  # [S]: the recurrent class of each state; -1: none
    is_settled: Array  # [S] booleans
    is_small: bool

    @staticmethod
    def of(rows: Transitions, policy: Array) -> "Settled":
        """The chain of a policy `[K]`, or of choices `[S]`."""
        matrix = bellman.policy_rows(rows, policy)
        links = matrix.matrix.tocoo()
        label = connected_components(links.tocsr(), connection="strong")[1]
        leaves = np.zeros(int(label.max()) + 1, dtype=bool)
        row, column = links.coords
        crossing = label[row] != label[column]
        leaves[label[row[crossing]]] = True
        label = np.where(leaves[label], -1, label)
        return Settled(rows.order, matrix, label, label >= 0, rows.is_small)

    def visits(self, initial: Array) -> Array:
        """Expected visits `[S]` from `initial [S]` until a class is entered, its entry included."""
        visits = self._leading().solve(initial[None])[0] if self._leads else initial
        return np.maximum(visits, 0.0)

    def chances(self, initial: Array) -> Array:
        """The chance `[S]` that a run from `initial [S]` ends up in the class of each state."""
        own, entered = self.is_settled, self.visits(initial)
        masses = np.bincount(self.label[own], weights=entered[own], minlength=len(own))
        return np.where(own, masses[self.label], 0.0)

    @property
    def _leads(self) -> bool:
        return not bool(self.is_settled.all())

    def _leading(self, transpose: bool = True) -> "Chain | Rare":
        """`I - P` without what follows a class."""
        rows, own = self.matrix.matrix, self.is_settled
        if self.is_small:
            return Rare(rows.toarray() * ~own[:, None], own.astype(float), transpose)
        return self._cut(sp.csr_array(_mask(~own) @ rows), transpose)

    @cached_property
    def returns(self) -> Array:
        """`[S]` booleans: one state of each class, where a run often is."""
        if self.is_small:
            usual = self._shares
        else:
            chain = Chain(self.matrix, 1 - LEAK, self.order, True, True)
            usual = np.maximum(chain.solve(np.full((1, len(self.label)), LEAK), 1e-3)[0], 0.0)
        order = np.lexsort((usual, self.label))
        last = np.append(self.label[order][1:] != self.label[order][:-1], True)
        chosen = order[last & (self.label[order] >= 0)]
        return np.isin(np.arange(len(self.label)), chosen)

    @cached_property
    def _shares(self) -> Array:
        """Shares of the time of a class `[S]`, of a small chain."""
        shares, moves = np.zeros(len(self.label)), self.matrix.matrix.toarray()
        for one in np.unique(self.label[self.is_settled]):
            own = np.flatnonzero(self.label == one)
            shares[own] = rare.stationary(moves[np.ix_(own, own)])
        return shares

    def _cycle(self, transpose: bool) -> "Chain | Rare":
        """`I - P` without what leads back to those states."""
        if self.is_small:
            moves = self.matrix.matrix.toarray()
            return Rare(moves * ~self.returns, moves[:, self.returns].sum(1), transpose)
        return self._cut(sp.csr_array(self.matrix.matrix @ _mask(~self.returns)), transpose)

    def _cut(self, rows: sp.csr_array, transpose: bool) -> Chain:
        rows.eliminate_zeros()
        return Chain(Matrix.of(rows), 1.0, self.order, transpose, False)

    def long_run(self, entered: Array) -> Array:
        """Shares of time `[S]` for classes that are entered with `entered [S]`."""
        own, size = self.is_settled, len(self.label)
        if self.is_small:
            visits = self._shares
        else:
            visits = np.maximum(self._cycle(True).solve(self.returns[None].astype(float))[0], 0.0)
        all_visits, masses = (
            np.bincount(self.label[own], weights=one[own], minlength=size)
            for one in (visits, entered)
        )
        shares = masses / np.where(all_visits > 0, all_visits, 1.0)
        return np.where(own, visits * shares[self.label], 0.0)

    def evaluated(self, paid: Array) -> tuple[Array, Array, Array]:
        """Gains, h and its further digits, of rewards `[k, S]`, all `[k, S]`.

        A gain is one number in each class, and what is expected of it before. h is that of states
        that lead to one class only.
        """
        own = self.is_settled
        if self.is_small:
            return self._evaluated_with_digits(paid)
        *sums, steps = self._cycle(False).solve(np.vstack([paid, np.ones((1, len(own)))]))
        at, size = np.flatnonzero(self.returns), len(self.label)
        ends, one_each = np.zeros((len(paid), size)), np.zeros((len(paid), size))
        for row, total, end in zip(range(len(paid)), sums, ends):
            one_each[row, self.label[at]] = total[at] / steps[at]
            end[own] = one_each[row, self.label[own]]
        gains = np.where(own, ends, self._leading(False).solve(ends)) if self._leads else ends
        with np.errstate(invalid="ignore", over="ignore"):  # steps beyond all numbers
            bias = np.where(self.returns, 0.0, np.stack(sums) - gains * steps)
        return gains, bias, np.zeros_like(bias)

    def _evaluated_with_digits(self, paid: Array) -> tuple[Array, Array, Array]:
        """The same of a small chain: h is refined until rounding of `x + P h - h` is all."""
        own, moves, gains = self.is_settled, self.matrix.matrix.toarray(), np.zeros_like(paid)
        for one in np.unique(self.label[own]):
            inside = self.label == one
            gains[:, inside] = (self._shares * paid)[:, inside].sum(1, keepdims=True)
        if self._leads:
            gains = np.where(own, gains, self._leading(False).solve(gains))
        cycle, bias, tails = self._cycle(False), np.zeros_like(paid), np.zeros_like(paid)
        with np.errstate(invalid="ignore", over="ignore"):  # steps beyond all numbers
            for _ in range(1 + REFINEMENTS):
                steps = bias[:, None, :] - bias[..., None]  # [k, S, S]
                steps = steps + (tails[:, None, :] - tails[..., None])
                left = paid - gains + (moves * steps).sum(-1)
                added = tails + np.where(self.returns, 0.0, cycle.solve(left))
                total = bias + added
                bias, tails = total, added - (total - bias)
        return gains, bias, tails

    def is_sound(self, paid: Array) -> bool:
        """Whether h of a reward `[S]` leaves digits: else it takes for ever to cross the class."""
        bias = self.evaluated(paid[None])[1][0][self.is_settled]
        most = LARGEST_BIAS * max(float(np.abs(paid).max()), np.finfo(float).tiny)
        return bool(np.isfinite(bias).all() and np.abs(bias).max() <= most)

    def steps(self) -> Array:
        """Expected moves to other states until a class is entered, `[S]`."""
        own = np.arange(len(self.label))
        leads = _leaving(self.matrix.matrix, own) * ~self.is_settled
        return self._leading(False).solve(leads[None])[0] if self._leads else leads


def _leaving(rows: sp.csr_array, owner: Array) -> Array:
    """The chance `[n]` that each of the rows `[n, S]` leads to a state other than its owner."""
    entries = rows.tocoo()
    row, column = entries.coords
    away = owner[row] != column
    return np.bincount(row[away], weights=entries.data[away], minlength=rows.shape[0])


def _mask(kept: Array) -> sp.dia_array:
    """A diagonal matrix that keeps rows or columns."""
    return sp.diags_array(kept.astype(float))
