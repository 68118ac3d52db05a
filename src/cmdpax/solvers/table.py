"""ONE table of every method on exact models: how it runs, what can be set, what is known about it.

A row has up to two forms. `solve(form, task, **settings)` works on a scaled form and returns an
answer for the door to certify. `trace(form, keep, **settings)` runs a fixed budget in the model's
own units, with the paper's defaults; its settings may be arrays of one batch shape.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError, check_count, check_known, check_positive
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP, check_model
from cmdpax.model.result import Trajectory
from cmdpax.solvers import primal_dual
from cmdpax.solvers.algorithm import Answer, Oracle, Progress, Recorder, augmented_lagrangian
from cmdpax.solvers.certified import Task, solve_certified
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.feasibility import largest_multiplier
from cmdpax.solvers.key_simplex import by_pivots
from cmdpax.solvers.log_linear import Features, LogLinear
from cmdpax.solvers.policy_classes import Tabular
from cmdpax.solvers.policy_gradient import PolicyGradient, StepFunction, npg, ppg, pqa, spma
from cmdpax.solvers.programs import convex_al, cutting_plane, dantzig_wolfe, linear_program
from cmdpax.utilities.utility import Utility

ACCURACY = 1e-2  # of values, relative to eps
DEFAULT, KEY = "corrective-alm", "key-simplex"


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    name: str
    title: str
    family: str  # "augmented Lagrangian", "primal-dual", "dual", "exact"
    source: str
    proven: str  # about the last iterate
    solve: Callable[..., Answer] | None = None  # certified
    own_settings: Mapping[str, Any] = field(default_factory=dict)  # of `solve`, with defaults
    trace: Callable[..., Trajectory] | None = None  # fixed budget, batched
    budget: Mapping[str, Any] = field(default_factory=dict)  # settings of `trace`, with defaults
    features: bool = False  # whether policies are log-linear: features are needed
    plans: bool = False  # whether it plans and mixes, so that every criterion will do
    linear: str = ""  # the name of the method's log-linear form
    sensible: Callable[[Mapping[str, Any]], bool] = lambda settings: True  # for these settings

    @property
    def settings(self) -> dict[str, Any]:
        """What can be set, with its default."""
        return {**self.own_settings, **self.budget}

    @property
    def criteria(self) -> tuple[str, ...]:
        """What a method takes: log-linear policies are discounted by nature.

        A gradient of a value needs a value, which policies that never end have not. Methods that
        only plan, mix and certify take a finite horizon.
        """
        if self.features:
            return ("discounted",)
        own = ("total with cycles", "average") if self.plans else ()
        return ("discounted", "total", *own, *(() if self.trace else ("finite",)))

    def check_criterion(self, criterion: str) -> None:
        """Refuse a criterion that the method does not take."""
        if criterion not in self.criteria:
            *others, last = self.criteria
            taken = f"{', '.join(others)} and {last}" if others else last
            raise InputError(
                f"method '{self.name}' takes {taken} models only, and this one is {criterion}; the"
                " default method takes it."
            )

    @property
    def takes_utilities(self) -> bool:
        """Whether a utility may take the place of the reward: oracles that follow a gradient."""
        return self.family == AL and self.source != "yours"

    def check_utility(self, utility: Utility) -> None:
        """Refuse a utility that the method cannot climb."""
        if not self.takes_utilities:
            names = ", ".join(row.name for row in methods.values() if row.takes_utilities)
            raise InputError(f"method '{self.name}' takes no utility; these do: {names}.")
        if not utility.has_gradient and self.name != _rows[0].name:
            raise InputError("utility: max_min has no gradient; leave the method out.")

    def check_settings(self, settings: Mapping[str, Any], allowed: Mapping[str, Any]) -> None:
        """Refuse settings that are not among `allowed`, and texts where numbers belong."""
        for name, value in settings.items():
            check_known(f"setting of {self.name}", name, allowed)
            is_rule = name in ("step", "projection_step")
            if isinstance(value, str) and not isinstance(allowed[name], str) and not is_rule:
                raise InputError(f"{name} is '{value}'; it must be a number.")


def of_oracle(oracle: Oracle) -> Method:
    """The row of somebody's own oracle."""
    if isinstance(oracle, type) or not hasattr(oracle, "advance"):
        sentence = "is neither the name of a method nor an Oracle; an accuracy is eps=."
        raise InputError(f"method: {oracle!r} {sentence}")
    name = type(oracle).__name__
    solve = partial(_solve_with, lambda task: oracle)
    return Method(name, name, "augmented Lagrangian", "yours", "unknown", solve, AL_SETTINGS)


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword settings of a function with their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    }


def _solve_with(
    oracle: Callable[[Task], Oracle], form: StandardForm, task: Task, **settings: Any
) -> Answer:
    return solve_certified(form, task, oracle(task), **settings)


def _alm(step: StepFunction, linear: str = "", gradient: bool = False) -> dict[str, Any]:
    """Both forms of an augmented-Lagrangian method with tables."""
    certified = partial(_solve_with, lambda task: PolicyGradient(step, gradient=gradient))
    return {**_by_steps(step, {"step": 0.1}, gradient), "solve": certified, "linear": linear}


def _projected(step: StepFunction) -> dict[str, Any]:
    """The fixed-budget form of an augmented-Lagrangian method with log-linear policies."""
    own = {"step": "backtracking", "projection_step": "newton", "projection_steps": 250}
    return {**_by_steps(step, own), "features": True}


def _by_steps(step: StepFunction, own: Mapping[str, Any], gradient: bool = False) -> dict[str, Any]:
    """A fixed budget; `own` has the step size, and for features what `LogLinear` takes."""
    budget = {**own, **AL_BUDGET}

    def trace(
        form: StandardForm,
        keep: Collection[int] = (),
        features: Features | None = None,
        **chosen: Any,
    ) -> Trajectory:
        settings = _checked(budget, chosen, RULES)
        size, *projection = (settings.pop(name) for name in own)
        policies = Tabular() if features is None else LogLinear(features, *projection)
        return _fixed_budget(form, PolicyGradient(step, size, policies, gradient), keep, settings)

    return {"trace": trace, "budget": budget}


def _checked(
    budget: Mapping[str, Any], chosen: Mapping[str, Any], rules: Collection[str] = ()
) -> dict[str, Any]:
    """The settings of a budget: counts where the default is one, otherwise positive numbers.

    Those in `rules` may be the name of a rule instead, which is checked by who knows it. Where
    there are such, they alone may be arrays.
    """
    settings = {**budget, **chosen}
    for name, value in settings.items():
        if not (name in rules and isinstance(value, str)):
            check = check_count if isinstance(budget[name], int) else check_positive
            settings[name] = check(name, value)
            if rules and name not in rules and np.ndim(value):
                raise InputError(f"{name} is {value}; it must be one number.")
    try:
        np.broadcast_shapes(*map(np.shape, settings.values()))
    except ValueError:
        raise InputError(f"{', '.join(chosen)}: arrays must be of one batch shape.") from None
    return settings


def _fixed_budget(
    form: StandardForm, oracle: PolicyGradient, keep: Collection[int], settings: Mapping[str, Any]
) -> Trajectory:
    """Algorithm 1 with the settings of `AL_BUDGET`, every iterate recorded."""
    state, record, penalty = oracle.start(form), Recorder(keep), settings["penalty"]
    multipliers = np.zeros((*state.size.shape, form.constraint_count))

    def observe(progress: Progress) -> bool:
        if not progress.outer_done:
            margins = progress.state.margins
            weights = lagrangian.weights(progress.multipliers, penalty, margins)
            record.add(progress.state.reward, margins, weights, progress.state.policy)
        return False

    observe(Progress(state, multipliers, penalty, 0, 0, None, False))
    final = augmented_lagrangian(
        form, oracle, state, multipliers=multipliers, observe=observe, **settings
    )
    return record.finish(final.multipliers, final.state.policy)


def _primal_dual(
    name: str, title: str, source: str, proven: str, family: str = "primal-dual", **defaults: Any
) -> Method:
    """The row of a primal-dual method, by a fixed budget; `lin-` means log-linear policies."""
    own = name.removeprefix("lin-")
    method = primal_dual.METHODS[own]
    budget = {**method.settings, **defaults, "steps": 1000}

    def trace(
        form: StandardForm,
        keep: Collection[int] = (),
        features: Features | None = None,
        **chosen: Any,
    ) -> Trajectory:
        settings = _checked(budget, chosen)
        steps, settings["largest_multiplier"] = settings.pop("steps"), largest_multiplier(form)
        policies = Tabular() if features is None else LogLinear(features)
        return primal_dual.run(form, method, settings, steps, keep, policies)

    row: dict[str, Any] = {"sensible": _shrinks} if own == "rpg-pd" else {}
    row |= {"trace": trace, "budget": budget, "features": name != own}
    return Method(name, title, family, source, proven, linear=LINEAR.get(name, ""), **row)


def _shrinks(settings: Mapping[str, Any]) -> bool:
    """Whether `(1 - eta_d tau) lambda` keeps its sign: the regularised dual update needs it."""
    return bool(np.all(np.asarray(settings["dual_step"]) * settings["temperature"] <= 1))


def _pivots(form: StandardForm, task: Task) -> Answer:
    """The key simplex; in trouble, or where its answer is refused, the corrective oracle."""
    outcome = by_pivots(form, task.eps, task.warm.multipliers, stop=task.stop)
    if outcome.answer is not None and task.accept(outcome.answer):
        return outcome.answer
    return _columns(form, task)


def _exact(name: str, title: str, source: str, proven: str, solve: Callable[..., Answer]) -> Method:
    """The row of a mathematical program."""
    plans = name != "cutting-plane"  # its policies are soft
    return Method(name, title, "exact", source, proven, solve, _defaults(solve), plans=plans)


AL_SETTINGS, RULES = _defaults(solve_certified), ("step", "projection_step")
AL_BUDGET = {"penalty": 10.0, "outer": 10, "inner": 100, "dual_factor": 0.5}
LINEAR = {name: f"lin-{name}" for name in ("npg-pd", "rpg-pd", "reload", "ppo-lag")}
AL, LU = "augmented Lagrangian", "Lu, Lin, Chen, Vaswani 2026"
DING_2020, DING = "Ding, Zhang, Basar, Jovanovic 2020", "Ding, Wei, Zhang, Ribeiro 2023"
MOSKOVITZ = "Moskovitz, O'Donoghue, Veeriah, Flennerhag, Singh, Zahavy 2023"
MUELLER, RAY = "Mueller, Alatur, Cevher, Ramponi, He 2024", "Ray, Achiam, Amodei 2019"
YING, GLADIN = "Ying, Ding, Lavaei 2022", "Gladin et al. 2023"
OUTER, FINITE = "outer O(1/sqrt T)", "O(1/sqrt T) outer; finite"
REGULARISED = "O(log 1/eps) cuts, regularised"
_columns = partial(_solve_with, lambda task: Corrective(ACCURACY * task.eps, task.most, task.stop))
_rows = (
    Method(
        *(DEFAULT, "Corrective ALM", AL, "cmdpax", FINITE, _columns, AL_SETTINGS),
        plans=True,
    ),
    Method("pqa-alm", "PQA-ALM", AL, LU, "O(eps^-6) evaluations", **_alm(pqa, "ppqa-alm")),
    Method("ppg-alm", "PPG-ALM", AL, LU, "as PQA", **_alm(ppg, gradient=True)),
    Method("npg-alm", "NPG-ALM", AL, LU, OUTER, **_alm(npg, "pnpg-alm")),
    Method("spma-alm", "SPMA-ALM", AL, LU, OUTER, **_alm(spma, "pspma-alm")),
    _primal_dual("npg-pd", "NPG-PD", DING_2020, "mixture only, O(1/sqrt T)"),
    _primal_dual("rpg-pd", "RPG-PD", DING, "O(eps^-6) evaluations, m = 1"),
    _primal_dual("opg-pd", "OPG-PD", DING, "linear, problem-dependent, m = 1"),
    _primal_dual("npg-dd", "NPG-DD", YING, "O(eps^-2) evaluations", "dual"),
    _primal_dual("reload", "ReLOAD", MOSKOVITZ, "converges, no rate"),
    _primal_dual("npg-nrl", "NPG-NRL", MUELLER, "O(eps^-10), finite horizon"),
    _primal_dual("ppo-lag", "PPO-Lag", RAY, "none"),
    Method("ppqa-alm", "PPQA-ALM", AL, LU, "O(eps^-6), small bias", **_projected(pqa)),
    Method("pnpg-alm", "Projected NPG-ALM", AL, LU, "none", **_projected(npg)),
    Method("pspma-alm", "Projected SPMA-ALM", AL, LU, "none", **_projected(spma)),
    _primal_dual("lin-npg-pd", "Lin-NPG-PD", DING_2020, "mixture only, plus bias"),
    _primal_dual("lin-rpg-pd", "Lin-RPG-PD", DING, "O(eps^-6) plus bias, m = 1"),
    _primal_dual("lin-reload", "Lin-ReLOAD", MOSKOVITZ, "none"),
    _primal_dual("lin-ppo-lag", "Lin-PPO-Lag", RAY, "none", passes=250),
    Method(KEY, "Key dual simplex", "exact", "cmdpax", "exact", _pivots),
    _exact("lp", "Linear program (HiGHS)", "Altman 1999", "exact", linear_program),
    _exact("dantzig-wolfe", "Dantzig-Wolfe", "Dantzig, Wolfe 1960", "finite", dantzig_wolfe),
    _exact("cutting-plane", "Cutting plane", GLADIN, REGULARISED, cutting_plane),
    _exact("convex-al", "AL by convex program", "Mueller et al. 2023", "finite", convex_al),
)
methods: Mapping[str, Method] = MappingProxyType({row.name: row for row in _rows})


def find_method(name: str) -> Method:
    """The row of a method; an unknown name gets a suggestion."""
    check_known("method", name, methods)
    return methods[name]


def choose(model: CMDP, method: Any, features: Any) -> tuple[Method, dict[str, Any]]:
    """The row of a method, its log-linear form if there are features, and what to pass it."""
    check_model(model)
    row = find_method(method) if isinstance(method, str) else of_oracle(method)
    if features is None:
        if row.features:
            raise InputError(
                f"method '{row.name}' has log-linear policies; give it features, for example"
                " --features tiles:60,4,3."
            )
        row.check_criterion(model.criterion)
        return row, {}
    if not (row.features or row.linear):
        names = ", ".join(one.name for one in methods.values() if one.features or one.linear)
        raise InputError(f"method '{row.name}' takes no features; these do: {names}.")
    row = row if row.features else methods[row.linear]
    row.check_criterion(model.criterion)
    features = features if isinstance(features, Features) else Features(features)
    features.check(model.states, model.actions)
    return row, {"features": features}
