"""Seven primal-dual rivals, each one function on any policy class, and the loop that they share.

A method is a `PrimalDual` row: its update `step(form, iterate, settings) -> Iterate` and its
settings with their defaults. All start at the uniform policy with multipliers 0. One step is one
policy-gradient evaluation. Settings are numbers or arrays `[...]` of one batch shape, which
policies and multipliers carry in front: a grid search is one run. A configuration whose numbers
stop being finite is frozen at its last finite policy and marked; the others go on.

Notation of the docstrings: theta the parameters, `u` the margins, `lambda` the multipliers; the
settings `eta` = step, `eta_d` = dual_step, `tau` = temperature, `lambda_max` = largest_multiplier.
`Q_lambda = Q_r + lambda.Q_c`, and `w(Q)` is the natural gradient for action values Q: for tables Q
itself, so that `theta+ = theta + eta w(Q)` means `pi+ ~ pi exp(eta Q)`; for features the compatible
regression on Q.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cmdpax.exact.standard import Evaluation, StandardForm
from cmdpax.lagrangian import gradient_update
from cmdpax.model.result import Trajectory
from cmdpax.solvers.algorithm import Recorder
from cmdpax.solvers.log_linear import PolicyClass
from cmdpax.solvers.policy_classes import TABLES, Array, Pair, from_visits
from cmdpax.solvers.policy_gradient import (
    pqa,
    soft_action_values,
    weighted_action_values,
    weighted_values,
)

Settings = Mapping[str, Any]
Step = Callable[[StandardForm, "Iterate", Settings], "Iterate"]


@dataclass(frozen=True)
class Iterate:
    """A policy of a class with its evaluation, multipliers, and what else the method remembers."""

    policies: PolicyClass
    parameters: Array  # the class's
    policy: Array  # [..., S, A]
    evaluation: Evaluation
    multipliers: Array  # [..., m]
    finite: Array  # [...] bool: False once a configuration has diverged
    count: int = 0  # steps done
    extra: dict[str, Array] = field(default_factory=dict)  # arrays with the batch in front

    @property
    def margins(self) -> Array:
        """`[..., m]`"""
        return self.evaluation.margins


def start(form: StandardForm, settings: Settings, policies: PolicyClass) -> Iterate:
    """The uniform policy and zero multipliers, in the batch shape of the settings."""
    batch = np.broadcast_shapes(*(np.shape(value) for value in settings.values()))
    parameters, policy = policies.start(form, batch)
    multipliers, finite = np.zeros((*batch, form.constraint_count)), np.ones(batch, dtype=bool)
    evaluation = form.evaluate(form.transitions.by_choice(policy))
    return Iterate(policies, parameters, policy, evaluation, multipliers, finite)


def move(
    form: StandardForm, it: Iterate, point: Pair, multipliers: Array, **extra: Array
) -> Iterate:
    """The next iterate, at a point (parameters, policy) of the class and multipliers `[..., m]`.

    What has diverged keeps its last finite policy and multipliers. `extra` is remembered.
    """
    parameters, policy = point
    finite = it.finite & np.isfinite(policy).all((-1, -2)) & np.isfinite(multipliers).all(-1)
    if not finite.all():
        policy = np.where(finite[..., None, None], policy, it.policy)
        multipliers = np.where(finite[..., None], multipliers, it.multipliers)
    values = form.evaluate(form.transitions.by_choice(policy))
    count, extra = it.count + 1, {**it.extra, **extra}
    return Iterate(it.policies, parameters, policy, values, multipliers, finite, count, extra)


def natural_gradient(form: StandardForm, it: Iterate, action_values: Array) -> Array:
    """`w(Q)` in the shape of the parameters, for action values `[..., S, A]`."""
    visits = None if it.policies.complete else share(form, it)
    return it.policies.natural_gradient(it.parameters, visits, it.policy, action_values)


def share(form: StandardForm, it: Iterate) -> Array:
    """Each state's share of the visits of the iterate, `[..., S]`."""
    return form.criterion.share(form, form.transitions.by_choice(it.policy))


def lagrangian_action_values(form: StandardForm, it: Iterate) -> Array:
    """`Q_lambda` of the iterate, `[..., S, A]`."""
    return weighted_action_values(form, it.evaluation, it.multipliers)


def soft_gradient(form: StandardForm, it: Iterate, temperature: Any) -> Array:
    """`w(Q_tau)`, for `Q_tau` of `soft_action_values` with weights lambda and tau `[...]`."""
    point = it.policy, it.policies.log_policy(it.parameters)
    action_values = soft_action_values(form, *point, it.multipliers, temperature)
    return natural_gradient(form, it, action_values)


def per_constraint(setting: Any) -> Array:
    """A setting `[...]` shaped to multiply margins `[..., m]`."""
    return np.asarray(setting, dtype=np.float64)[..., None]


def per_parameter(it: Iterate, setting: Any) -> Array:
    """A setting `[...]` shaped to multiply the parameters of an iterate."""
    axes = range(it.finite.ndim, it.parameters.ndim)
    return np.asarray(setting, dtype=np.float64)[(..., *(None for _ in axes))]


def descend(settings: Settings, multipliers: Any, margins: Any, largest: Any = np.inf) -> Any:
    """`clip(lambda - eta_d u, 0, largest)` for margins `[..., m]` and a cap `[...]`."""
    eta_d = per_constraint(settings["dual_step"])
    return gradient_update(multipliers, margins, eta_d, per_constraint(largest))


def npg_pd(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """NPG-PD (Ding et al. 2020): natural gradient on the Lagrangian, simultaneously in both.

        theta+ = theta + eta w(Q_lambda),     lambda+ = clip(lambda - eta_d u, 0, lambda_max)

    Its guarantee is for the mixture of all iterates; the last iterate oscillates.
    """
    direction = natural_gradient(form, it, lagrangian_action_values(form, it))
    parameters = it.parameters + per_parameter(it, settings["step"]) * direction
    largest = settings["largest_multiplier"]
    multipliers = descend(settings, it.multipliers, it.margins, largest)
    return move(form, it, it.policies.at(parameters), multipliers)


def rpg_pd(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """RPG-PD (Ding et al. 2023): NPG-PD with entropy for the policy, a quadratic for multipliers.

        theta+  = (1 - eta tau) theta + eta w(Q_tau),
        lambda+ = clip((1 - eta_d tau) lambda - eta_d u, 0, lambda_max)

    with `Q_tau` of `soft_action_values`; a pair's own entropy term, `-tau log pi`, is the shrinking
    of theta. The last iterate converges, to the regularised saddle point: tau buys stability and
    costs accuracy. The theory is for one constraint and a simplex cut off at its boundary; the
    update takes any number, and the whole simplex. It needs `eta tau <= 1` and `eta_d tau <= 1`:
    beyond, the powers alternate and grow.
    """
    eta, eta_d, tau = settings["step"], settings["dual_step"], settings["temperature"]
    direction = soft_gradient(form, it, tau)
    kept = (1 - per_parameter(it, eta * tau)) * it.parameters
    shrunk = (1 - per_constraint(eta_d * tau)) * it.multipliers
    multipliers = descend(settings, shrunk, it.margins, settings["largest_multiplier"])
    parameters = kept + per_parameter(it, eta) * direction
    return move(form, it, it.policies.at(parameters), multipliers)


def npg_nrl(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """NPG-NRL (Mueller et al. 2024): RPG-PD with one step size for both players, `eta_d = eta`.

    Its theory (no regret, finite horizon, O(eps^-10)) covers any number of constraints. The
    temperature that its steps can bear leaves a bias: it settles away from the optimum.
    """
    return rpg_pd(form, it, {**settings, "dual_step": settings["step"]})


def reload(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """ReLOAD (Moskovitz et al. 2023): optimistic mirror steps for both players.

        theta+  = theta + eta (2 w_k - w_{k-1}),             w_k = w(Q_lambda) of iterate k,
        lambda+ = max(lambda - eta_d (2 u_k - u_{k-1}), 0)

    In the first step the past counts as the present. The last iterate converges, at no known rate.
    The theory is for occupancy measures; this is the update in policies (Algorithm 6 for features),
    for any number of constraints.
    """
    direction = natural_gradient(form, it, lagrangian_action_values(form, it))
    ahead = 2 * direction - it.extra.get("direction", direction)
    margins_ahead = 2 * it.margins - it.extra.get("margins", it.margins)
    point = it.policies.at(it.parameters + per_parameter(it, settings["step"]) * ahead)
    multipliers = descend(settings, it.multipliers, margins_ahead)
    return move(form, it, point, multipliers, direction=direction, margins=it.margins)


def opg_pd(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """OPG-PD (Ding et al. 2023), tables only: optimistic projected gradient, auxiliary pair `^`.

        pi^+ = Proj[pi^ + eta Q_lambda],     lambda^+ = clip(lambda^ - eta_d u, 0, lambda_max),
        pi+  = Proj[pi^+ + eta Q_lambda],    lambda+  = clip(lambda^+ - eta_d u, 0, lambda_max),

    with the same Q_lambda and u. The last iterate converges linearly, at a rate that depends on the
    problem. The theory is for one constraint and `eta = eta_d`; the update takes any number of
    constraints and two step sizes.
    """
    ascent, eta = lagrangian_action_values(form, it), per_parameter(it, settings["step"])
    policy = pqa(it.extra.get("auxiliary_policy", it.policy), ascent, eta)
    point = it.policies.project(it.parameters, None, pqa(policy, ascent, eta))
    past, largest = it.extra.get("auxiliary", it.multipliers), settings["largest_multiplier"]
    auxiliary = descend(settings, past, it.margins, largest)
    multipliers = descend(settings, auxiliary, it.margins, largest)
    return move(form, it, point, multipliers, auxiliary_policy=policy, auxiliary=auxiliary)


def npg_dd(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """NPG-DD (Ying et al. 2022): accelerated descent on the dual of the regularised problem.

        inner, K times:   theta+ = w(Q_tau) / tau         (regularised NPG with its largest step)
        outer t = 1, 2..: lambda+ = max(y - eta_d u, 0),
                          y+ = max(lambda+ + t / (t + 3) (lambda+ - lambda), 0)

    `Q_tau` is for the weights y: the iterate's `multipliers` are y, lambda is in `extra`, 0 at
    first; u are the margins of the new policy. The policy is warm-started. The last iterate
    converges to the regularised optimum, for any number of constraints.
    """
    tau = settings["temperature"]
    point = it.policies.at(soft_gradient(form, it, tau) / per_parameter(it, tau))
    improved = move(form, it, point, it.multipliers)
    t, inside = divmod(improved.count, settings["inner"])
    if inside:
        return improved
    multipliers = descend(settings, improved.multipliers, improved.margins)
    change = multipliers - it.extra.get("multipliers", 0.0)
    ahead = (multipliers + t / (t + 3) * change).clip(0)
    return replace(improved, multipliers=ahead, extra={"multipliers": multipliers})


def ppo_lag(form: StandardForm, it: Iterate, settings: Settings) -> Iterate:
    """PPO-Lag (Ray et al. 2019) with exact advantages: a clipped surrogate for the policy.

        policy, every step:   theta+ = n gradient steps of size eta, from theta, on PPO's surrogate
                              (`ascend_clipped` in `policy_classes.py`), n = passes,
        dual, every K steps:  lambda+ = max(lambda - eta_d u, 0),     K = inner,

    with the advantage of Q_lambda, and u the margins of the new policy. A heuristic: nothing is
    proven about any iterate.
    """
    values = weighted_values(it.evaluation, it.multipliers)
    advantage = lagrangian_action_values(form, it) - values[..., None]
    clip, eta, passes = (settings[name] for name in ("clip", "step", "passes"))
    visits = share(form, it)
    parameters = it.policies.ascend_clipped(it.parameters, visits, advantage, clip, eta, passes)
    improved = move(form, it, it.policies.at(parameters), it.multipliers)
    if improved.count % settings["inner"]:
        return improved
    multipliers = descend(settings, improved.multipliers, improved.margins)
    return replace(improved, multipliers=multipliers)


@dataclass(frozen=True)
class PrimalDual:
    """A method: its update, and what can be set, with defaults (whole numbers are counts)."""

    step: Step
    settings: Settings


STEPS = {"step": 1.0, "dual_step": 1.0}
METHODS: Mapping[str, PrimalDual] = {
    "npg-pd": PrimalDual(npg_pd, STEPS),
    "rpg-pd": PrimalDual(rpg_pd, {**STEPS, "temperature": 0.01}),
    "opg-pd": PrimalDual(opg_pd, STEPS),
    "npg-dd": PrimalDual(npg_dd, {"dual_step": 0.1, "temperature": 0.01, "inner": 10}),
    "npg-nrl": PrimalDual(npg_nrl, {"step": 0.1, "temperature": 0.01}),
    "reload": PrimalDual(reload, STEPS),
    "ppo-lag": PrimalDual(ppo_lag, {**STEPS, "clip": 0.2, "passes": 10, "inner": 100}),
}


def run(
    form: StandardForm,
    method: PrimalDual,
    settings: Settings,
    steps: int,
    keep: Collection[int] = (),
    policies: PolicyClass = TABLES,
) -> Trajectory:
    """Do `steps` steps and record every iterate; `settings` change the method's own.

    Without a batch the mixture of all iterates but the last is recorded too. `keep` numbers the
    iterates whose policies are kept.
    """
    settings, record = {**method.settings, **settings}, Recorder(keep)
    it = start(form, settings, policies)
    rows, single, mass = form.transitions, it.finite.ndim == 0, np.zeros(form.choices)
    # diverged configurations are masked, and reported by the trajectory
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(steps + 1):
            lost = np.where(it.finite, 0.0, np.nan)
            weights, margins = (array + lost[..., None] for array in (it.multipliers, it.margins))
            record.add(it.evaluation.reward + lost, margins, weights, it.policy)
            if k == steps:
                break
            if single:
                policy = rows.by_choice(it.policy)
                visits = form.criterion.visits(form, policy)
                mass += rows.by_state(visits) * policy / steps
            it = method.step(form, it, settings)
    mixture = None
    if single:
        mixture = rows.as_table(from_visits(form, mass, form.uniform_policy()))
    return record.finish(it.multipliers, it.policy, mixture)
