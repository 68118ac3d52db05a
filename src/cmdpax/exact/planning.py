"""The unconstrained optimum of one reward: warm-started policy iteration, with a rigorous bound.

Bellman's optimality operator is `(T V)(s) = max_a r(s,a) + gamma E V(s')`. For ANY vector V
(whatever solver made it), with `d = TV - V` and pi greedy for V,

    rho.TV + gamma/(1-gamma) min d  <=  V^pi(rho)  <=  max_pi' V^pi'(rho)  <=  rho.TV +
    gamma/(1-gamma) max d.

So one backup tells how good V and its greedy policy are, to both sides, and adding a constant to V
changes nothing.

Small models: exact policy iteration. Large ones: evaluation of the greedy policy is inexact (its
residual falls to a fraction of the present d) and stops as soon as the two bounds agree to the
tolerance. Where fixed-point evaluation is slow the model is structured (grid, queue); then
Gauss-Seidel sweeps in both directions carry news across the model before each evaluation.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.systems import System, fixed_point
from cmdpax.loops import bellman
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.discounted import Discounted
    from cmdpax.exact.standard import StandardForm

SWITCH = 1e-12  # relative gain below which policy iteration keeps an action: no cycling on ties
ITERATIONS = 1000
FORCING = 0.01  # residual of an inexact evaluation, relative to d; 0.1 diverges on grids
ROUNDING = 1e-13  # of d, relative to the values it is the difference of
STALL = 10  # iterations without halving d; then what rounding in evaluations explains is accepted


@dataclass(frozen=True)
class Plan:
    """A deterministic policy, optimal for one reward; large models: its values err upwards."""

    actions: np.ndarray  # [S] int
    values: np.ndarray  # [S]
    value: float  # at the initial distribution


def plan(
    criterion: "Discounted",
    form: "StandardForm",
    reward: np.ndarray,
    start: np.ndarray | None = None,
    *,
    values: np.ndarray | None = None,
    tolerance: float = 0.0,
    stop: Stop = never,
) -> Plan:
    """Maximise the value of `reward [S, A]`.

    start: actions `[S]` to begin with (default: greedy). values: a guess of the values `[S]`, used
    instead by large models. tolerance: the absolute error that `value` may have (0: rounding);
    small models are solved exactly in any case. stop: polled now and then by large models; if it
    returns True they give what they have: `value` is still an upper bound, of a worse policy.
    """
    if form.is_small:
        return _exact(form, criterion, reward, start)
    if values is None:
        values = np.zeros(form.states)
        if start is not None:
            values = criterion.values(form, start, reward, tolerance=FORCING)
    reward = np.broadcast_to(reward, form.reward.shape)
    return _inexact(form, criterion, reward, np.broadcast_to(values, form.states), tolerance, stop)


def under_policy(rewards: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Expected one-step rewards: rewards `[..., S, A]` and a policy -> `[..., S]`."""
    if policy.ndim == 1:
        return rewards[..., np.arange(len(policy)), policy]
    return (rewards * policy).sum(-1)


def _exact(
    form: "StandardForm", criterion: "Discounted", reward: np.ndarray, start: np.ndarray | None
) -> Plan:
    """Policy iteration."""
    states = np.arange(form.states)
    actions = np.argmax(reward, axis=1) if start is None else start
    for _ in range(ITERATIONS):
        values = criterion.values(form, actions, reward)
        action_values = criterion.action_values(form, reward, values)
        best = np.argmax(action_values, axis=1)
        gain = action_values[states, best] - action_values[states, actions]
        threshold = SWITCH * (np.abs(values).max() + np.abs(reward).max())
        if not (switch := gain > threshold).any():
            return Plan(actions, values, float(form.initial @ values))
        actions = np.where(switch, best, actions)
    raise _unsettled()


def _inexact(
    form: "StandardForm",
    criterion: "Discounted",
    reward: np.ndarray,
    values: np.ndarray,
    tolerance: float,
    stop: Stop,
) -> Plan:
    """Policy iteration with inexact evaluation, which tightens whenever d has not fallen."""
    rows, discount = form.transitions, criterion.discount
    arrays = (rows.successors, rows.probabilities, reward)
    reach = discount / (1 - discount)  # what d at one step amounts to in a value
    forcing, smallest, stalled, structured = FORCING, np.inf, 0, False
    for _ in range(ITERATIONS):
        actions, backed_up = bellman.backup(*arrays, values, discount)
        change = backed_up - values
        low, high = float(change.min()), float(change.max())
        rounding = (
            ROUNDING
            * max(-float(backed_up.min()), float(backed_up.max()))
            * (1 + reach if stalled >= STALL else 1.0)
        )
        if reach * (high - low) <= max(tolerance, reach * rounding) or stop():
            upper = backed_up + reach * high
            return Plan(actions, upper, float((form.initial * upper).sum()))
        if high - low > smallest / 2:
            forcing, stalled = forcing / 10, stalled + 1
        else:
            smallest, stalled = high - low, 0
        right = under_policy(reward, actions)
        system = System(bellman.policy_rows(rows.successors, rows.probabilities, actions), discount)
        allowed = forcing * (high - low)
        if structured:
            values = system.solve(right, allowed, backed_up, mixes_slowly=True, stop=stop)
        else:
            values, settled = fixed_point(system, right, allowed, backed_up)
            structured = not settled
        if structured:
            bellman.sweep(*arrays, values, discount, True)
            bellman.sweep(*arrays, values, discount, False)
    raise _unsettled()


def _unsettled() -> NumericalError:
    return NumericalError(
        f"planning: policy iteration did not settle in {ITERATIONS} sweeps; the model is too"
        " ill-conditioned."
    )
