"""The unconstrained optimum of one reward: warm-started policy iteration, with a rigorous bound.

Bellman's optimality operator is `(T V)(s) = max_a r(s,a) + gamma E V(s')`. For ANY vector V (whatever solver made it),

    max_pi V^pi(rho)  <=  rho.TV + gamma / (1 - gamma) * max_s (TV - V)(s),

so a bound from an approximate V is as valid as one from an exact one, only wider.
"""

from dataclasses import dataclass

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.evaluation import action_values, state_values
from cmdpax.model import CMDP

SWITCH = 1e-12  # an action must be better by this much (relative) before policy iteration switches to it: no cycling on ties
ITERATIONS = 1000


@dataclass(frozen=True)
class Plan:
    """An optimal deterministic policy of one reward."""

    actions: np.ndarray  # [S] int
    values: np.ndarray  # [S]
    value: float  # at the initial distribution


def plan(model: CMDP, reward: np.ndarray, start: np.ndarray | None = None) -> Plan:
    """Maximise the value of `reward [S, A]` by policy iteration from the actions `start [S]` (default: greedy)."""
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
    raise NumericalError(f"planning: policy iteration did not settle in {ITERATIONS} sweeps; the model is too ill-conditioned.")
