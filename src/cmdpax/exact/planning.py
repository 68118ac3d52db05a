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

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.discounted import action_values, state_values, under_policy
from cmdpax.exact.systems import System, fixed_point
from cmdpax.loops import bellman
from cmdpax.model.cmdp import CMDP
from cmdpax.stopping import Stop, never

# an action must be better by this much (relative) before policy iteration switches to it: no
# cycling on ties
SWITCH = 1e-12
ITERATIONS = 1000
FORCING = 0.01  # residual of an inexact evaluation, relative to d; 0.1 diverges on grids
ROUNDING = 1e-13  # of d, relative to the values it is the difference of
# iterations without halving d, after which what rounding in evaluations can explain is accepted
STALL = 10


@dataclass(frozen=True)
class Plan:
    """A deterministic policy, optimal for one reward to the tolerance given; in large models
    `values` and `value` err upwards.
    """

    actions: np.ndarray  # [S] int
    values: np.ndarray  # [S]
    value: float  # at the initial distribution


def plan(
    model: CMDP,
    reward: np.ndarray,
    start: np.ndarray | None = None,
    *,
    values: np.ndarray | None = None,
    tolerance: float = 0.0,
    stop: Stop = never,
) -> Plan:
    """Maximise the value of `reward [S, A]` from the actions `start [S]` (default: greedy), or from
    a guess of its `values [S]`.

    `tolerance` is the absolute error that `value` may have (0: rounding); small models are solved
    exactly in any case. Large ones ask `stop` now and then, and then give what they have: `value`
    is still an upper bound, of a worse policy.
    """
    if model.is_small:
        return _exact(model, reward, start)
    if values is None:
        values = (
            np.zeros(model.states) if start is None else state_values(model, start, reward, FORCING)
        )
    return _inexact(
        model,
        np.broadcast_to(reward, model.reward.shape),
        np.broadcast_to(values, model.states),
        tolerance,
        stop,
    )


def _exact(model: CMDP, reward: np.ndarray, start: np.ndarray | None) -> Plan:
    """Policy iteration."""
    states = np.arange(model.states)
    actions = np.argmax(reward, axis=1) if start is None else start
    for _ in range(ITERATIONS):
        values = state_values(model, actions, reward)
        quality = action_values(model, reward, values)
        best = np.argmax(quality, axis=1)
        gain = quality[states, best] - quality[states, actions]
        threshold = SWITCH * (np.abs(values).max() + np.abs(reward).max())
        if not (switch := gain > threshold).any():
            return Plan(actions, values, float(model.initial @ values))
        actions = np.where(switch, best, actions)
    raise NumericalError(
        f"planning: policy iteration did not settle in {ITERATIONS} sweeps; the model is too"
        " ill-conditioned."
    )


def _inexact(
    model: CMDP, reward: np.ndarray, values: np.ndarray, tolerance: float, stop: Stop
) -> Plan:
    """Policy iteration with inexact evaluation, which tightens whenever d has not fallen."""
    arrays, discount = (model.successors, model.probabilities, reward), model.discount
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
            return Plan(actions, upper, float((model.initial * upper).sum()))
        if high - low > smallest / 2:
            forcing, stalled = forcing / 10, stalled + 1
        else:
            smallest, stalled = high - low, 0
        right = under_policy(reward, actions)
        system = System(
            bellman.policy_rows(model.successors, model.probabilities, actions), discount
        )
        allowed = forcing * (high - low)
        if structured:
            values = system.solve(right, allowed, backed_up, mixes_slowly=True, stop=stop)
        else:
            values, settled = fixed_point(system, right, allowed, backed_up)
            structured = not settled
        if structured:
            bellman.sweep(*arrays, values, discount, True)
            bellman.sweep(*arrays, values, discount, False)
    raise NumericalError(
        f"planning: policy iteration did not settle in {ITERATIONS} sweeps; the model is too"
        " ill-conditioned."
    )
