"""The unconstrained optimum of one reward: warm-started policy iteration, with a rigorous bound.

Bellman's optimality operator is `(T V)(s) = max_a r(s,a) + gamma E V(s')`. For ANY vector V
(whatever solver made it), with `d = TV - V` and pi greedy for V,

    rho.TV + gamma/(1-gamma) min d  <=  V^pi(rho)  <=  max_pi' V^pi'(rho)  <=  rho.TV +
    gamma/(1-gamma) max d.

So one backup tells how good V and its greedy policy are, to both sides, and adding a constant to V
changes nothing.

Small models: exact policy iteration. Large ones are planned component by component, each to the end
before those that lead to it: a state alone by one backup, others by policy iteration with sparse
elimination (`loops/settling.py`) unless too much fills in, those by `_Task.improved`. There
evaluation of the greedy policy is inexact (its residual falls to a fraction of the present d, or of
what the tolerance allows) and stops as soon as the two bounds agree to the tolerance. Where
fixed-point evaluation is slow the model is structured (a grid); then Gauss-Seidel sweeps in both
directions carry news across the component before each evaluation. Where nearly all transitions
follow a flow, sweeps in its order come first, for as long as each of them halves d.

The order of components takes as long as half a plan of a random model, which does without: where
it is not known yet and transitions lead far, the whole model is tried first, for as long as
fixed-point steps evaluate it.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.systems import System, finite, fixed_point
from cmdpax.loops import bellman, narrow, rare
from cmdpax.loops.components import Order, part
from cmdpax.loops.rows import Rows
from cmdpax.loops.settling import settle
from cmdpax.loops.small import best_choices
from cmdpax.stopping import Stop

if TYPE_CHECKING:
    from cmdpax.exact.discounted import Discounted
    from cmdpax.exact.standard import StandardForm

ITERATIONS = 1000
LONG = 1e2  # steps of a run beyond which values lose digits
SWEEPS = 100  # in the order of the flow, while each change is at most half of the one before
ROUNDS = 5  # through all components; the first is enough, but for rounding
FORCING = 0.01  # residual of an inexact evaluation, relative to d; 0.1 diverges on grids
SAMPLED, LONG_WAY = 64, 0.1  # states, and share of all: do transitions lead so far on average?
LOOSEST = 0.5  # the same while that share of the choices changes
ROUNDING = 1e-13  # of d, relative to the values it is the difference of
STALL = 10  # iterations without halving d; then what rounding in evaluations explains is accepted


@dataclass(frozen=True)
class Plan:
    """A deterministic policy, optimal for one reward; large models: its values err upwards."""

    choices: np.ndarray  # [S] int, one of its own for every state
    values: np.ndarray  # [S]
    value: float  # at the initial distribution


def plan(
    criterion: "Discounted",
    form: "StandardForm",
    reward: np.ndarray,
    start: np.ndarray | None,
    values: np.ndarray | None,
    tolerance: float,
    stop: Stop,
) -> Plan:
    """Maximise the value of `reward [K]`; parameters as in `Discounted.plan`."""
    if form.is_small:
        return exact(form, reward, start)
    if values is None:
        values = np.zeros(form.states)
        if start is not None:
            values = criterion.values(form, start, reward, tolerance=FORCING)
    rows, values = form.transitions, np.broadcast_to(values, form.states)
    kind = criterion.discount, criterion.reach, criterion.is_closed, tolerance, stop
    task = _Task(rows, np.broadcast_to(reward, form.reward.shape), *kind)
    best = None
    if criterion.is_closed and "order" not in vars(rows) and _lead_far(rows):
        with suppress(NumericalError):
            best = task.improved(values, is_trial=True)
    if best is None:
        best = task.by_components(rows.order, values)
    shift = criterion.reach * best.high
    upper = best.backed_up + (shift if form.criterion.is_closed else shift * form.alive)
    return Plan(best.choices, upper, float((form.initial * upper).sum()))


def _lead_far(rows: Rows) -> bool:
    """Whether transitions lead far in the numbering; of a few first choices."""
    S, (first_choice, first_entry, successors, _) = rows.states, rows.rows(0, rows.states)
    own = np.linspace(0, S - 1, min(S, SAMPLED)).astype(np.int64)
    to = successors[first_entry[first_choice[own]] % len(successors)]  # an empty last choice
    return bool(np.abs(to - own).mean() > LONG_WAY * S)


def exact(form: "StandardForm", reward: np.ndarray, start: np.ndarray | None) -> Plan:
    """Policy iteration from choices `[S]`; where runs are long, with more digits."""
    rows, pays = form.transitions, np.broadcast_to(reward, form.reward.shape)
    if form.is_narrow:
        best = narrow.best_choices(form.kernel, pays, start)
    elif form.criterion.mass > LONG:
        block, discount = rows.rows(0, form.states), form.criterion.discount
        best = rare.best_choices(block, pays, rows.lost, discount, start)
    else:
        best = best_choices(form.kernel, pays, start)
    if best is None:
        raise unsettled()
    choices, values = best[0], finite(best[1])
    return Plan(choices, values, float((form.initial * values).sum()))


@dataclass(frozen=True)
class _Backup:
    """`T V` of a model, or of a part of it, and what its change d says."""

    choices: np.ndarray  # [S], greedy
    backed_up: np.ndarray  # [S]
    low: float  # min d, at most 0 where other states do not change
    high: float  # max d

    @property
    def width(self) -> float:
        """`max d - min d`."""
        return self.high - self.low

    @property
    def size(self) -> float:
        """The largest value."""
        return max(-float(self.backed_up.min()), float(self.backed_up.max()))


@dataclass(frozen=True)
class _Task:
    """Rows of a large model, or of a part of it, and a reward to plan for."""

    rows: Rows
    reward: np.ndarray  # [K]
    discount: float
    reach: float  # what d at one step amounts to in a value: gamma / (1 - gamma), or steps
    closed: bool  # whether no choice leads out of these rows, so that constants may be added
    tolerance: float  # what reach * (max d - min d) may be
    stop: Stop

    def backed_up(self, values: np.ndarray) -> _Backup:
        """`T V` of values `[S]`."""
        choices, backed_up = bellman.backup(self.rows, self.reward, values, self.discount)
        change = backed_up - values
        low, high = float(change.min()), float(change.max())
        if not self.closed:
            low, high = min(low, 0.0), max(high, 0.0)
        return _Backup(choices, backed_up, low, high)

    def is_done(self, result: _Backup, is_stuck: bool) -> bool:
        """Whether a backup proves the tolerance, or rounding is all that is left, or to stop.

        is_stuck: then what rounding in evaluations explains is accepted.
        """
        rounding = ROUNDING * result.size * (1 + self.reach if is_stuck else 1.0)
        is_enough = self.reach * result.width <= max(self.tolerance, self.reach * rounding)
        return is_enough or self.stop()

    def by_components(self, order: Order, values: np.ndarray) -> _Backup:
        """Component by component, until one backup of all states proves the tolerance."""
        rows, reward, discount, reach = self.rows, self.reward, self.discount, self.reach
        error = self.tolerance
        for done in range(ROUNDS + 1):
            if order.is_plain and order.filled[0]:
                break
            if done or values.any() or not discount:  # zeros are no guess
                result = self.backed_up(values)
                if self.is_done(result, done == ROUNDS):
                    return result
            values, component = np.array(values), 0
            allowed = error / (4 * reach) if reach else 0.0
            while True:
                component = settle(rows, order, component, reward, values, discount, allowed)
                if component == len(order.starts) - 1 or order.is_plain or self.stop():
                    break
                own = part(rows, order, component, values)
                states = order.members(component, component + 1)
                task = replace(
                    self,
                    rows=own.rows,
                    reward=reward[own.choices] + discount * own.outside,
                    closed=self.closed and not order.leaks[component],
                    tolerance=error / 2,
                )
                best = task.improved(values[states], bool(order.flows[component]))
                middle = reach * (best.low + best.high) / 2 if task.closed else 0.0
                values[states] = best.backed_up + middle
                component += 1
            values, error = finite(values), error / 10
        return self.improved(values, order.is_plain and bool(order.flows[0]))

    def improved(self, values: np.ndarray, flows: bool = False, is_trial: bool = False) -> _Backup:
        """Policy iteration with inexact evaluation, which tightens unless d has halved.

        While many choices still change, a policy is not worth evaluating well.

        values: a guess `[S]`. flows: whether nearly all transitions lead to earlier states.
        is_trial: give up where fixed-point steps do not evaluate a policy.
        """
        rows, reward, discount = self.rows, self.reward, self.discount
        forcing, smallest, stalled, structured = FORCING, np.inf, 0, flows or not self.closed
        choices, changed = None, 0.0 if values.any() else 1.0
        if flows:
            values = self._swept(values)
        for _ in range(ITERATIONS):
            result = self.backed_up(values)
            width = result.width
            if self.is_done(result, stalled >= STALL):
                return result
            if width > smallest / 2:
                forcing, stalled = forcing / 10, stalled + 1
            else:
                smallest, stalled = width, 0
            if choices is not None:
                changed = float((choices != result.choices).mean())
            choices = result.choices
            share = forcing if structured else max(forcing, min(changed, LOOSEST))
            right = reward[choices]
            allowed = max(share * width, self.tolerance / (4 * self.reach))
            system = System(bellman.policy_rows(rows, choices), discount, closed=self.closed)
            if structured:
                guess = result.backed_up
                values = system.solve(right, allowed, guess, mixes_slowly=True, stop=self.stop)
            else:
                values, settled = fixed_point(system, right, allowed, result.backed_up)
                structured = not settled
                if structured and is_trial:
                    raise unsettled()
            if structured and not flows:
                bellman.sweep(rows, reward, values, discount, True)
                bellman.sweep(rows, reward, values, discount, False)
        raise unsettled()

    def _swept(self, values: np.ndarray) -> np.ndarray:
        """Values `[S]` after sweeps in the order of the flow, while they halve their change."""
        values, before = np.array(values), np.inf
        for _ in range(SWEEPS):
            change = bellman.sweep(self.rows, self.reward, values, self.discount, False)
            if change > before / 2 or change <= self.tolerance / self.reach / 4:
                break
            before = change
        return values


def unsettled() -> NumericalError:
    """Policy iteration that does not end."""
    return NumericalError(
        f"planning: policy iteration did not settle in {ITERATIONS} sweeps; the model is too"
        " ill-conditioned."
    )
