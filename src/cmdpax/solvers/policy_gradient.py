"""The first-order oracle: improve a policy on a utility by policy-gradient steps, in any class.

    target = step(pi, Q, eta),      pi+ = projection of the target onto the policy class,

with Q of the pseudo-reward `Gamma = r + w.c`, where w is the gradient of the utility at the current
margins, and r that of the form's objective at the current visits (`exact/objective`), or the reward
itself. The steps are PQA, PPG, NPG and SPMA; tables need no projection, log-linear policies take
the nearest in forward KL. One `advance` is one policy-gradient evaluation, whatever its projection
costs. The step size is
- a number or an array `[...]`; then policies carry that batch shape, and a grid search is one run;
- `"theory"`: `rho_min / L`, with the smoothness constant L of the augmented Lagrangian over tables.
  PQA ascends monotonically, slowly;
- `"backtracking"`: a trial that lowers the utility is undone and halves the step, others grow it.

Fixed points in a class: to first order in eta, NPG and SPMA move the target by `eta pi A`, whose
projection vanishes exactly where the gradient of the utility within the class does. PQA moves it by
`eta (Q - mean Q)`, without the factor pi: where features cannot tell states apart, its fixed points
are other policies than the class's optima.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.standard import Evaluation, StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.log_linear import PolicyClass
from cmdpax.solvers.policy_classes import FLOOR, TABLES, Array, check_step, softmax

# policy and Q [..., S, A], step size [..., 1, 1] -> target [..., S, A]
StepFunction = Callable[[Array, Array, Array], Array]
GROW, SHRINK, LARGEST_STEP, SMALLEST_STEP = 1.5, 0.5, 1e6, 1e-6
ROUNDING = 1e-14


def project_simplex(points: Array) -> Array:
    """Euclidean projection of every `points[..., :]` onto the probability simplex, exact.

    It is `max(x - theta, 0)`, with theta from the sorted entries such that the result sums to 1.
    """
    # shift invariant, and keeps huge steps from losing digits
    points = points - points.max(-1, keepdims=True)
    ordered = -np.sort(-points, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1
    support = (ordered * np.arange(1, points.shape[-1] + 1) > excess).sum(-1, keepdims=True)
    theta = np.take_along_axis(excess, support - 1, axis=-1) / support
    return np.maximum(points - theta, 0)


def pqa(policy: Array, action_values: Array, size: Array) -> Array:
    """PQA, projected Q-ascent: `pi+ = Proj_simplex[pi + eta Q]` in every state."""
    return project_simplex(policy + size * action_values)


def ppg(policy: Array, gradient: Array, size: Array) -> Array:
    """PPG, projected policy gradient: `pi+ = Proj_simplex[pi + eta nu Q]`, given `nu Q`."""
    return project_simplex(policy + size * gradient)


def npg(policy: Array, action_values: Array, size: Array) -> Array:
    """NPG, natural policy gradient (mirror ascent with KL): `pi+ ~ pi exp(eta Q)`."""
    with np.errstate(divide="ignore"):  # log 0 = -inf keeps probability 0, as the formula says
        return softmax(np.log(policy) + size * action_values)


def spma(policy: Array, action_values: Array, size: Array) -> Array:
    """SPMA, softmax policy mirror ascent: `pi+ = pi (1 + eta A)`, which sums to 1 by itself.

    It stays >= 0 only while `eta <= 1 / max(-A)`, so the step size is clipped to that. An action
    whose probability is rounding has no say in it: a clipped step takes the worst action to 0 up to
    rounding, and what is left would hold back every later step.
    """
    advantage = action_values - (policy * action_values).sum(-1, keepdims=True)
    largest_loss = np.where(policy > ROUNDING, -advantage, 0.0).max((-1, -2), keepdims=True)
    largest_step = 1 / np.maximum(largest_loss, np.finfo(float).tiny)
    target = np.maximum(policy * (1 + np.minimum(size, largest_step) * advantage), 0)
    return target / target.sum(-1, keepdims=True)


@dataclass(frozen=True)
class PolicyState:
    """A policy `[..., S, A]`, its evaluation, the step size `[...]`, its class's parameters.

    The accelerated oracle alone remembers earlier steps, and the utility that they are of.
    """

    policy: Array
    evaluation: Evaluation
    size: Array
    parameters: Array
    memory: tuple[tuple[Array, Array], ...] = ()  # logits and advantages [S, A]
    utility: AugmentedLagrangian | None = None

    @property
    def reward(self) -> Array:
        """`[...]`"""
        return self.evaluation.reward

    @property
    def margins(self) -> Array:
        """`[..., m]`"""
        return self.evaluation.margins


@dataclass(frozen=True)
class PolicyGradient:
    """An oracle from a step function and a class of policies; the module docstring has `size`."""

    step: StepFunction
    size: float | Array | Literal["theory", "backtracking"] = "backtracking"
    policies: PolicyClass = TABLES
    gradient: bool = False  # whether the step wants the gradient nu Q (PPG) instead of Q
    check_every: int = 10  # inner steps between two certified gaps, when the caller wants them
    patience: int | None = None

    def __post_init__(self) -> None:
        rules = ("theory", "backtracking") if self.policies.complete else ("backtracking",)
        check_step("step", self.size, rules)
        if self._rule == "backtracking" and self.policies.batch:
            raise InputError(
                "step: 'backtracking' runs one configuration at a time; give numbers to run a"
                " batch."
            )

    @property
    def _rule(self) -> str:
        return self.size if isinstance(self.size, str) else "fixed"

    def start(
        self, form: StandardForm, columns: Any = None, *, policy: Array | None = None
    ) -> PolicyState:
        """The uniform policy, or the class's nearest to `policy [S, A]`, for all step sizes.

        Columns of phase 1 are of no use here.
        """
        size = np.asarray(1.0 if isinstance(self.size, str) else self.size, dtype=np.float64)
        size = np.broadcast_to(size, np.broadcast_shapes(size.shape, self.policies.batch))
        parameters, policy = self.policies.start(form, size.shape, policy)
        evaluation = form.evaluate(form.transitions.by_choice(policy))
        return PolicyState(policy, evaluation, size, parameters)

    def target(self, form: StandardForm, state: PolicyState, utility: AugmentedLagrangian) -> Array:
        """Where the step leads among all policies, `[..., S, A]`."""
        weights = utility.weights(state.margins)
        evaluation = state.evaluation
        direction = weighted_action_values(form.at(evaluation), evaluation, weights)
        if self.gradient:
            visits = form.criterion.visits(form, self.policy(form, state))
            direction = visits[..., None] * direction
        size = theory_step(form, utility) if self._rule == "theory" else state.size
        target = self.step(state.policy, direction, size[..., None, None])
        if not np.isfinite(target).all():
            raise NumericalError(
                "oracle: the step produced numbers that are not finite; use a smaller step size."
            )
        if self._rule == "backtracking" and self.policies.complete:
            # adaptive steps keep probabilities positive: a multiplicative one could never leave 0
            uniform = form.transitions.as_table(form.uniform_policy())
            target = np.maximum(target, FLOOR * uniform)
            target = target / target.sum(-1, keepdims=True)
        return target

    def advance(
        self, form: StandardForm, state: PolicyState, utility: AugmentedLagrangian
    ) -> PolicyState:
        """One step on the utility and its projection; backtracking may undo it."""
        target = self.target(form, state, utility)
        visits = None
        if not self.policies.complete:
            visits = form.criterion.share(form, self.policy(form, state))
        parameters, policy = self.policies.project(state.parameters, visits, target)
        evaluation = form.evaluate(form.transitions.by_choice(policy))
        trial = PolicyState(policy, evaluation, state.size, parameters)
        if self._rule != "backtracking":
            return trial
        before, after = (utility.value(one.reward, one.margins) for one in (state, trial))
        if after >= before - ROUNDING * (1 + abs(before)):
            return replace(trial, size=np.minimum(state.size * GROW, LARGEST_STEP))
        return replace(state, size=np.maximum(state.size * SHRINK, SMALLEST_STEP))

    def gap(
        self, form: StandardForm, state: PolicyState, utility: AugmentedLagrangian
    ) -> CertifiedGap:
        """`max_pi' V_Gamma(pi') - V_Gamma(pi)`, at least the utility's distance to its maximum.

        The maximum is over ALL policies, in the class or not. No batch.
        """
        weights = utility.weights(state.margins)
        evaluation, offset, at = state.evaluation, 0.0, None
        best = form.criterion.plan(form, form.at(evaluation).pseudo_reward(weights))
        if form.objective is not None:
            offset = float(state.reward - evaluation.values[0] @ form.initial)
            at = form.objective.point(form, self.policy(form, state))
        current = float(state.reward - offset + weights @ (state.margins + form.thresholds))
        return CertifiedGap(best.value - current, weights, best, offset, at)

    def candidates(self, form: StandardForm, state: PolicyState) -> list[PolicyState]:
        """The state itself."""
        return [state]

    def policy(self, form: StandardForm, state: PolicyState) -> Array:
        """The state's policy by choice, `[..., K]`."""
        return form.transitions.by_choice(state.policy)


def weighted_values(evaluation: Evaluation, weights: Array) -> Array:
    """`V_r + w.V_c` in every state, for weights `[..., m]` -> `[..., S]`."""
    values = evaluation.values
    return lagrangian.scalarise(values[..., 0, :], values[..., 1:, :], weights)


def weighted_action_values(form: StandardForm, evaluation: Evaluation, weights: Array) -> Array:
    """`Q_r + w.Q_c` of the evaluated policy, for weights `[..., m]` -> `[..., S, A]`."""
    reward, values = form.pseudo_reward(weights), weighted_values(evaluation, weights)
    return form.transitions.filled(form.criterion.action_values(form, reward, values))


def soft_action_values(
    form: StandardForm, policy: Array, log_policy: Array, weights: Array, temperature: Any
) -> Array:
    """`Q_tau = r + w.c + gamma E V_tau(s')`, V_tau the value of `r + w.c - tau log pi`.

    For a policy and its logarithm `[..., S, A]`, weights `[..., m]`, tau `[...]` -> `[..., S, A]`.
    """
    rows, reward = form.transitions, form.pseudo_reward(weights)
    entropic = rows.filled(reward) - np.asarray(temperature)[..., None, None] * log_policy
    earned = rows.mean_by_choice(policy, entropic)
    acting = rows.by_choice(policy)
    values = form.criterion.values(form, acting, earned[..., None, :])[..., 0, :]
    return rows.filled(form.criterion.action_values(form, reward, values))


def theory_step(form: StandardForm, utility: AugmentedLagrangian) -> Array:
    """The theory's step `rho_min / L` `[...]`; at most 1 (a linear utility has L = 0)."""
    smallest = form.initial.min()
    if smallest <= 0:
        state = int(np.argmin(form.initial))
        raise InputError(
            f"step 'theory' needs every state in the initial distribution; initial[{state}] is 0."
        )
    return smallest / np.maximum(smoothness(form, utility), smallest)


def smoothness(form: StandardForm, utility: AugmentedLagrangian) -> Array:
    """Smoothness constant L `[...]` of the augmented Lagrangian in the probabilities of a table.

    The paper's lemma, freed of its assumption that rewards lie in [0, 1]: a value is `span * 2
    gamma A / (1-gamma)^3`-smooth (shifting a reward shifts its value by a constant), a violated
    constraint contributes `w_i <= lambda_i - beta u_i` times that, and beta times its squared
    gradient norm, at most `A span^2 / (1-gamma)^4`.
    """
    curvature, slope = form.criterion.smoothness(form)
    spans = np.ptp(form.constraints, axis=1)
    lowest = form.constraints.min(1) * form.criterion.mass - form.thresholds  # margins
    objective = form.objective
    from_reward = objective.smoothness(form) if objective else curvature * np.ptp(form.reward)
    from_constraints = (curvature * utility.weights(lowest) * spans).sum(-1)
    return from_reward + from_constraints + utility.penalty * slope * (spans**2).sum()
