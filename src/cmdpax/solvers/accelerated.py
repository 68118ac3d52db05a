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

from cmdpax.exact.standard import Evaluation, StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.policy_classes import Array, log_softmax
from cmdpax.solvers.policy_gradient import (
    GROW,
    ROUNDING,
    SHRINK,
    PolicyGradient,
    npg,
    weighted_action_values,
)

MEMORY = 20  # steps that are extrapolated from
LOWEST = -60.0  # log-probability: an action that is given up can come back
RANK = 1e-10  # of the least-squares problem, relative
PLAIN = PolicyGradient(npg)
SMALLEST_STEP = 1e-12


@dataclass(frozen=True)
class AcceleratedState:
    """A policy `[S, A]` with its evaluation, its logits, and the steps that led to it."""

    policy: Array
    evaluation: Evaluation
    parameters: Array  # [S, A], log-probabilities
    size: float | None = None  # eta; None: before the first step
    history: tuple[tuple[Array, Array], ...] = ()  # logits and advantages [S, A] of earlier steps
    utility: AugmentedLagrangian | None = None  # that the history is of

    @property
    def reward(self) -> Array:
        """`[]`"""
        return self.evaluation.reward

    @property
    def margins(self) -> Array:
        """`[m]`"""
        return self.evaluation.margins


@dataclass(frozen=True)
class Accelerated:
    """The oracle."""

    check_every: int = 10
    patience: int | None = 3000

    def start(self, form: StandardForm, columns: Any = None) -> AcceleratedState:
        """The uniform policy."""
        state = PLAIN.start(form)
        logits = np.maximum(state.parameters, LOWEST)
        return AcceleratedState(state.policy, state.evaluation, logits)

    def advance(
        self, form: StandardForm, state: AcceleratedState, utility: AugmentedLagrangian
    ) -> AcceleratedState:
        """One trial; it is undone if it lowers the utility."""
        if state.utility is not utility:
            state = replace(state, history=(), utility=utility)
        evaluation, weights = state.evaluation, utility.weights(state.margins)
        action_values = weighted_action_values(form.at(evaluation), evaluation, weights)
        advantages = action_values - (state.policy * action_values).sum(-1, keepdims=True)
        size = state.size
        if size is None:
            size = 1 / max(float(np.abs(advantages).max()), np.finfo(float).tiny)
        history = (*state.history, (state.parameters, advantages))[-MEMORY:]
        step = size * advantages
        if len(history) > 1:
            step = step - self._correction(form, state, history, size)
        logits = np.maximum(log_softmax(state.parameters + step), LOWEST)
        policy = np.exp(log_softmax(logits))
        trial = form.evaluate(form.transitions.by_choice(policy))
        before = utility.value(state.reward, state.margins)
        after = utility.value(trial.reward, trial.margins)
        if after >= before - ROUNDING * (1 + abs(before)):
            grown = size * GROW if len(history) == 1 else size
            return AcceleratedState(policy, trial, logits, grown, history, utility)
        if len(history) > 1:
            return replace(state, size=size, history=())
        return replace(state, size=max(size * SHRINK, SMALLEST_STEP), history=())

    def _correction(
        self, form: StandardForm, state: AcceleratedState, history: Any, size: float
    ) -> Array:
        """`sum_j c_j (dtheta_j + eta dA_j)`, `[S, A]`."""
        visits = state.evaluation.visits
        if visits is None:
            visits = form.criterion.visits(form, self.policy(form, state))
        norm = np.sqrt(visits[:, None] * state.policy)
        logits, advantages = (np.stack(column) for column in zip(*history))
        moved, changed = np.diff(logits, axis=0), np.diff(advantages, axis=0)
        sides = (changed * norm).reshape(len(moved), -1).T, (advantages[-1] * norm).reshape(-1)
        shares = np.linalg.lstsq(*sides, rcond=RANK)[0]
        return np.tensordot(shares, moved + size * changed, 1)

    def gap(
        self, form: StandardForm, state: AcceleratedState, utility: AugmentedLagrangian
    ) -> CertifiedGap:
        """As that of any policy gradient."""
        return PLAIN.gap(form, state, utility)  # type: ignore[arg-type]

    def candidates(self, form: StandardForm, state: AcceleratedState) -> list[AcceleratedState]:
        """The state itself."""
        return [state]

    def policy(self, form: StandardForm, state: AcceleratedState) -> Array:
        """The state's policy by choice, `[K]`."""
        return form.transitions.by_choice(state.policy)
