"""The best policy among those that surely end, where others go on for ever and pay for it.

At discount 1, with V = 0 where a run has ended, any V with

    d = x + P V - V <= 0    at every choice

bounds the value of every policy that surely ends, `V_x(pi) <= rho.V`: what is left of V when the
run has ended is 0. No gauge is needed, and none exists. `upper` makes such a V: it plans for a
little more than x, more than rounding can be.

Planning merges end components where x is 0, or as good as: V is one number there, so that `P V - V`
is 0 beyond doubt, and the policy leaves by the best way out. All other cycles cost something. Small
models: policy iteration from a policy that ends; each better one ends too, because a cycle that
costs never looks better. Large ones plan with a discount just below 1, in which every policy has a
value, for `x + (1 - gamma) P V`, V the values so far: a proximal step, whose fixed point is exact.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, cast

import numpy as np

from cmdpax.exact import planning
from cmdpax.exact.endings import Array, end_components, merged, towards, way
from cmdpax.exact.planning import Plan
from cmdpax.loops import bellman
from cmdpax.model.transitions import is_deterministic
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim
    from cmdpax.exact.discounted import Discounted
    from cmdpax.exact.standard import StandardForm

FREE = 1e-12  # a cycle that costs less, as a share of the largest reward, counts as free
LEAK = 1e-3  # what a discount takes away in the expected time
ROUNDS = 30
TRIES, MORE = 10, 4.0  # how often, and how much more than its excess, is added for a bound


def plan(
    form: "StandardForm",
    reward: Array,
    start: Array | None,
    values: Array | None,
    tolerance: float,
    stop: Stop = never,
    free: float = 0.0,
) -> Plan:
    """Maximise the value of `reward [K]` over policies that surely end; see `Discounted.plan`.

    free: what a choice in a cycle may cost and still count as free.
    """
    cycles = form.criterion.cycles
    assert cycles is not None
    free = max(free, FREE * float(np.abs(reward).max(initial=0.0)))
    label, inner = end_components(form.transitions, cycles.inner & (np.abs(reward) <= free))
    if not inner.any():
        first = cycles.start if start is None else start
        return _best(form, reward, first, values, tolerance, stop)
    whole = merged(form.transitions, label, inner)
    rows, owner = whole.rows, whole.rows.state_of
    ends = np.zeros(rows.states, dtype=bool)
    is_empty = np.diff(rows.first_entry) == 0
    ends[owner[is_empty]] = True
    first = towards(rows, ~is_empty, ends)
    first[owner[is_empty]] = np.flatnonzero(is_empty)
    initial = np.bincount(whole.state, weights=form.initial, minlength=rows.states)
    pays = reward[whole.choices]
    small = form.replace(
        transitions=rows, reward=pays, constraints=np.zeros((0, rows.choices)), initial=initial
    )
    alive = np.zeros(rows.states, dtype=bool)
    alive[whole.state[form.alive]] = True
    small.__dict__["alive"] = alive
    best = _best(small, pays, first, None, tolerance, stop)
    exits = whole.choices[best.choices]  # [S']: the choice by which each merged state is left
    exit_of = exits[whole.state]
    at_exit = form.transitions.state_of[exit_of] == np.arange(form.states)
    choices = np.where(at_exit, exit_of, towards(form.transitions, inner, at_exit))
    policy = form.transitions.deterministic(choices)
    policy = cycles.settling(form.transitions, policy, at_exit & cycles.settles[exit_of])
    choices = bellman.greedy(form.transitions.first_choice, policy)[0]
    return Plan(choices, best.values[whole.state], best.value)


def _best(
    form: "StandardForm",
    reward: Array,
    start: Array,
    values: Array | None,
    tolerance: float,
    stop: Stop,
) -> Plan:
    """The plan of a form whose cycles all cost something, from choices `[S]` that end."""
    if form.is_small:
        return planning.exact(form, reward, start)
    criterion = cast("Discounted", form.criterion)
    rows, leak = form.transitions, LEAK / criterion.mass
    leaky = replace(criterion, discount=1 - leak, steps=1 / leak, cycles=None)
    choices, least = start, np.inf
    best: Plan | None = None
    for _ in range(ROUNDS):
        exact = criterion.values(form, choices, reward, tolerance=tolerance / 10, guess=values)
        backed_up = bellman.backup(rows, reward, exact, 1.0)[1]
        gain = float((backed_up - exact)[form.reachable].max(initial=0.0))
        if gain < least:
            error = gain * criterion.mass
            value = float((form.initial * exact).sum()) + error
            best = Plan(choices, exact, value)
        if best is not None and (error <= tolerance or gain > least / 2 or stop()):
            return best
        least, values = min(gain, least), exact
        nearer = reward + leak * bellman.expected(rows, exact)
        loose = max(tolerance, planning.ROUNDING * float(np.abs(exact).max())) / LEAK
        better = planning.plan(leaky, form, nearer, None, exact, loose, stop)
        choices = ending(form, better.choices, choices)
    assert best is not None
    return best


def ending(form: "StandardForm", policy: Array, before: Array) -> Array:
    """The policy `[K]`, or choices `[S]`; where no end can be reached, choices `before [S]`."""
    rows, is_choice = form.transitions, is_deterministic(policy)
    used = rows.deterministic(policy) > 0 if is_choice else policy > 0
    ends = np.zeros(rows.states, dtype=bool)
    ends[rows.state_of[used & (np.diff(rows.first_entry) == 0)]] = True
    reaches = way(rows, used, ends)[0]
    if is_choice:
        return np.where(reaches, policy, before)
    return np.where(rows.by_state(reaches), policy, rows.deterministic(before))


def upper(form: "StandardForm", what: "Claim", choices: Array, tolerance: float) -> Array:
    """A potential `[2 S]` that bounds the value of a claim from above: V, and no gauge.

    choices: `[S]`, near optimal.
    """
    from cmdpax.exact.bounds import excess

    bonus = 0.0
    alive = form.transitions.by_state(form.alive)
    start, values = choices, None
    for _ in range(TRIES):
        reward = what.reward + bonus * alive
        best = plan(form, reward, start, values, tolerance, free=2 * bonus)
        potential = np.append(best.values * form.alive, np.zeros(form.states))
        over = excess(form, what, potential)
        if over <= 0:
            break
        bonus, start, values = MORE * max(over, bonus), best.choices, best.values
    return potential
