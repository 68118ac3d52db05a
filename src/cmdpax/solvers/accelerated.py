"""The accelerated oracle: natural policy gradient with Anderson's extrapolation, nothing to choose.

    theta+ = theta + eta A - sum_j c_j (dtheta_j + eta dA_j),     c = argmin |A - sum_j c_j dA_j|,

over the last steps, with `theta` the logits of a table, A the advantages of the pseudo-reward (the
natural gradient), and the norm that of visits. Near the optimum A is nearly linear in theta, and
the step solves for its root among the directions seen. A trial that lowers the utility is undone:
an extrapolated one clears the memory, a plain one halves eta.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.policy_classes import Array, log_softmax
from cmdpax.solvers.policy_gradient import (
    GROW,
    ROUNDING,
    SHRINK,
    PolicyGradient,
    PolicyState,
    npg,
    weighted_action_values,
)

MEMORY = 20  # steps that are extrapolated from
LOWEST = -60.0  # log-probability: an action that is given up can come back
RANK = 1e-10  # of the least-squares problem, relative
PLAIN = PolicyGradient(npg)
SMALLEST_STEP = 1e-12


@dataclass(frozen=True)
class Accelerated:
    """The oracle. Its states are those of `policy_gradient`, with a memory of steps."""

    check_every: int = 10
    patience: int | None = 3000

    def start(self, form: StandardForm, columns: Any = None) -> PolicyState:
        """The uniform policy."""
        state = PLAIN.start(form)
        return replace(state, parameters=np.maximum(state.parameters, LOWEST))

    def advance(
        self, form: StandardForm, state: PolicyState, utility: AugmentedLagrangian
    ) -> PolicyState:
        """One trial; it is undone if it lowers the utility."""
        evaluation, weights = state.evaluation, utility.weights(state.margins)
        action_values = weighted_action_values(form.at(evaluation), evaluation, weights)
        advantages = action_values - (state.policy * action_values).sum(-1, keepdims=True)
        size: Any = state.size
        if state.utility is None:  # the first step of all
            size = 1 / max(float(np.abs(advantages).max()), np.finfo(float).tiny)
        earlier = state.memory if state.utility is utility else ()
        memory = (*earlier, (state.parameters, advantages))[-MEMORY:]
        step = size * advantages
        if len(memory) > 1:
            step = step - self._correction(form, state, memory, size)
        logits = np.maximum(log_softmax(state.parameters + step), LOWEST)
        policy = np.exp(log_softmax(logits))
        trial = form.evaluate(form.transitions.by_choice(policy))
        before = utility.value(state.reward, state.margins)
        after = utility.value(trial.reward, trial.margins)
        if after >= before - ROUNDING * (1 + abs(before)):
            grown = size * GROW if len(memory) == 1 else size
            return PolicyState(policy, trial, grown, logits, memory, utility)
        if len(memory) == 1:
            size = max(size * SHRINK, SMALLEST_STEP)
        return replace(state, size=size, memory=(), utility=utility)

    def _correction(
        self, form: StandardForm, state: PolicyState, memory: Any, size: float
    ) -> Array:
        """`sum_j c_j (dtheta_j + eta dA_j)`, `[S, A]`."""
        visits = state.evaluation.visits
        if visits is None:
            visits = form.criterion.visits(form, self.policy(form, state))
        norm = np.sqrt(visits[:, None] * state.policy)
        logits, advantages = (np.stack(column) for column in zip(*memory))
        moved, changed = np.diff(logits, axis=0), np.diff(advantages, axis=0)
        sides = (changed * norm).reshape(len(moved), -1).T, (advantages[-1] * norm).reshape(-1)
        shares = np.linalg.lstsq(*sides, rcond=RANK)[0]
        return np.tensordot(shares, moved + size * changed, 1)

    def gap(
        self, form: StandardForm, state: PolicyState, utility: AugmentedLagrangian
    ) -> CertifiedGap:
        """As that of any policy gradient."""
        return PLAIN.gap(form, state, utility)

    def candidates(self, form: StandardForm, state: PolicyState) -> list[PolicyState]:
        """The state itself."""
        return [state]

    def policy(self, form: StandardForm, state: PolicyState) -> Array:
        """The state's policy by choice, `[K]`."""
        return PLAIN.policy(form, state)
