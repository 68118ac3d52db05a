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
from cmdpax.model.result import Trajectory
from cmdpax.solvers import primal_dual
from cmdpax.solvers.algorithm import Answer, Oracle, Progress, Recorder, augmented_lagrangian
from cmdpax.solvers.certified import Task, solve_certified
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.feasibility import largest_multiplier
from cmdpax.solvers.policy_classes import Features, LogLinear, Tabular
from cmdpax.solvers.policy_gradient import PolicyGradient, StepFunction, npg, ppg, pqa, spma
from cmdpax.solvers.programs import convex_al, cutting_plane, dantzig_wolfe, linear_program

ACCURACY = 1e-2  # of the values of columns, relative to eps


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
    linear: str = ""  # the name of the method's log-linear form
    sensible: Callable[[Mapping[str, Any]], bool] = lambda settings: True  # for these settings

    @property
    def settings(self) -> dict[str, Any]:
        """What can be set, with its default."""
        return {**self.own_settings, **self.budget}

    def check_settings(self, settings: Mapping[str, Any], allowed: Mapping[str, Any]) -> None:
        """Refuse settings that are not among `allowed`, and texts where numbers belong."""
        for name, value in settings.items():
            check_known(f"setting of {self.name}", name, allowed)
            is_rule = name in ("step", "projection_step")
            if isinstance(value, str) and not isinstance(allowed[name], str) and not is_rule:
                raise InputError(f"{name} is '{value}'; it must be a number.")


def of_oracle(oracle: Oracle) -> Method:
    """The row of somebody's own oracle."""
    if not hasattr(oracle, "advance"):
        raise InputError(f"method: {oracle!r} is neither the name of a method nor an Oracle.")
    name = type(oracle).__name__
    solve = partial(_solve_with, lambda task: oracle)
    return Method(name, name, "augmented Lagrangian", "yours", "unknown", solve, AL_SETTINGS)


def _defaults(function: Callable[..., Any]) -> dict[str, Any]:
    """Keyword settings of a function with their defaults."""
    given = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in given
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.default is not parameter.empty
    }


def _solve_with(
    oracle: Callable[[Task], Oracle], form: StandardForm, task: Task, **settings: Any
) -> Answer:
    return solve_certified(form, task, oracle(task), **settings)


def _corrective(task: Task) -> Corrective:
    return Corrective(ACCURACY * task.eps, task.most, task.stop)


def _alm(step: StepFunction, linear: str = "", gradient: bool = False) -> dict[str, Any]:
    """Both forms of an augmented-Lagrangian method with tables."""
    function = step

    def trace(
        form: StandardForm,
        keep: Collection[int] = (),
        *,
        step: Any = 0.1,
        penalty: float = 10.0,
        outer: int = 10,
        inner: int = 100,
        dual_factor: float = 0.5,
    ) -> Trajectory:
        oracle = PolicyGradient(function, _size("step", step), gradient=gradient)
        return _fixed_budget(form, oracle, penalty, outer, inner, dual_factor, keep)

    certified = partial(_solve_with, lambda task: PolicyGradient(function, gradient=gradient))
    return {"trace": trace, "budget": _defaults(trace), "solve": certified, "linear": linear}


def _projected(step: StepFunction) -> dict[str, Any]:
    """The fixed-budget form of an augmented-Lagrangian method with log-linear policies."""
    function = step

    def trace(
        form: StandardForm,
        keep: Collection[int] = (),
        *,
        features: Features,
        step: Any = "backtracking",
        projection_step: Any = "newton",
        projection_steps: int = 250,
        penalty: float = 10.0,
        outer: int = 10,
        inner: int = 100,
        dual_factor: float = 0.5,
    ) -> Trajectory:
        count = check_count("projection_steps", projection_steps)
        policies = LogLinear(features, _size("projection_step", projection_step), count)
        oracle = PolicyGradient(function, _size("step", step), policies)
        return _fixed_budget(form, oracle, penalty, outer, inner, dual_factor, keep)

    return {"trace": trace, "budget": _defaults(trace), "features": True}


def _size(name: str, step: Any) -> Any:
    """A step size, or the name of a rule for one."""
    return step if isinstance(step, str) else check_positive(name, step)


def _fixed_budget(
    form: StandardForm,
    oracle: PolicyGradient,
    penalty: float,
    outer: int,
    inner: int,
    dual_factor: float,
    keep: Collection[int],
) -> Trajectory:
    """Algorithm 1 with fixed numbers of steps, every iterate recorded."""
    penalty = check_positive("penalty", penalty)
    dual_factor = check_positive("dual_factor", dual_factor)
    state, record = oracle.start(form), Recorder(keep)
    multipliers = np.zeros((*state.size.shape, form.constraint_count))

    def add(state: Any, multipliers: np.ndarray) -> None:
        weights = lagrangian.weights(multipliers, penalty, state.margins)
        record.add(state.reward, state.margins, weights, oracle.policy(form, state))

    def observe(progress: Progress) -> bool:
        if not progress.outer_done:
            add(progress.state, progress.multipliers)
        return False

    add(state, multipliers)
    final = augmented_lagrangian(
        form,
        oracle,
        state,
        multipliers=multipliers,
        penalty=penalty,
        outer=check_count("outer", outer),
        inner=check_count("inner", inner),
        dual_factor=dual_factor,
        observe=observe,
    )
    return record.finish(final.multipliers, final.state.policy)


def _table(name: str, **defaults: Any) -> dict[str, Any]:
    """The fixed-budget form of a primal-dual method; whole numbers in its settings are counts."""
    method = primal_dual.METHODS[name]
    budget = {**method.settings, **defaults, "steps": 1000}

    def trace(
        form: StandardForm,
        keep: Collection[int] = (),
        features: Features | None = None,
        **given: Any,
    ) -> Trajectory:
        settings = {
            key: (check_count if isinstance(default, int) else check_positive)(
                key, given.get(key, default)
            )
            for key, default in budget.items()
        }
        steps = settings.pop("steps")
        settings["largest_multiplier"] = largest_multiplier(form)
        policies = Tabular() if features is None else LogLinear(features)
        return primal_dual.run(form, method, settings, steps, keep, policies)

    row: dict[str, Any] = {"trace": trace, "budget": budget, "linear": LINEAR.get(name, "")}
    return {**row, "sensible": _shrinks} if name == "rpg-pd" else row


def _linear(name: str, **defaults: Any) -> dict[str, Any]:
    """The same with log-linear policies."""
    return {**_table(name, **defaults), "linear": "", "features": True}


def _shrinks(settings: Mapping[str, Any]) -> bool:
    """Whether `(1 - eta_d tau) lambda` keeps its sign: the regularised dual update needs it."""
    return bool(np.all(np.asarray(settings["dual_step"]) * settings["temperature"] <= 1))


def _program(solve: Callable[..., Answer]) -> dict[str, Any]:
    return {"solve": solve, "own_settings": _defaults(solve)}


AL_SETTINGS = _defaults(solve_certified)
AL, PD = "augmented Lagrangian", "primal-dual"
LU = "Lu, Lin, Chen, Vaswani 2026"
DING_2020, DING = "Ding, Zhang, Basar, Jovanovic 2020", "Ding, Wei, Zhang, Ribeiro 2023"
MOSKOVITZ = "Moskovitz, O'Donoghue, Veeriah, Flennerhag, Singh, Zahavy 2023"
MUELLER, RAY = "Mueller, Alatur, Cevher, Ramponi, He 2024", "Ray, Achiam, Amodei 2019"
OUTER, FINITE_HORIZON = "outer O(1/sqrt T)", "O(eps^-10), finite horizon"
_default: dict[str, Any] = {"solve": partial(_solve_with, _corrective), "own_settings": AL_SETTINGS}
LINEAR = {name: f"lin-{name}" for name in ("npg-pd", "rpg-pd", "reload", "ppo-lag")}
_long = {"passes": 250, "inner": 100}  # of PPO-Lag with features
_rows = (
    Method(
        "corrective-alm", "Corrective ALM", AL, "cmdpax", "O(1/sqrt T) outer; finite", **_default
    ),
    Method("pqa-alm", "PQA-ALM", AL, LU, "O(eps^-6) evaluations", **_alm(pqa, "ppqa-alm")),
    Method("ppg-alm", "PPG-ALM", AL, LU, "as PQA", **_alm(ppg, gradient=True)),
    Method("npg-alm", "NPG-ALM", AL, LU, OUTER, **_alm(npg, "pnpg-alm")),
    Method("spma-alm", "SPMA-ALM", AL, LU, OUTER, **_alm(spma, "pspma-alm")),
    Method("npg-pd", "NPG-PD", PD, DING_2020, "mixture only, O(1/sqrt T)", **_table("npg-pd")),
    Method("rpg-pd", "RPG-PD", PD, DING, "O(eps^-6) evaluations, m = 1", **_table("rpg-pd")),
    Method("opg-pd", "OPG-PD", PD, DING, "linear, problem-dependent, m = 1", **_table("opg-pd")),
    Method(
        "npg-dd",
        "NPG-DD",
        "dual",
        "Ying, Ding, Lavaei 2022",
        "O(eps^-2) evaluations",
        **_table("npg-dd"),
    ),
    Method("reload", "ReLOAD", PD, MOSKOVITZ, "converges, no rate", **_table("reload")),
    Method("npg-nrl", "NPG-NRL", PD, MUELLER, FINITE_HORIZON, **_table("npg-nrl")),
    Method("ppo-lag", "PPO-Lag", PD, RAY, "none", **_table("ppo-lag")),
    Method("ppqa-alm", "PPQA-ALM", AL, LU, "O(eps^-6), small bias", **_projected(pqa)),
    Method("pnpg-alm", "Projected NPG-ALM", AL, LU, "none", **_projected(npg)),
    Method("pspma-alm", "Projected SPMA-ALM", AL, LU, "none", **_projected(spma)),
    Method(
        "lin-npg-pd", "Lin-NPG-PD", PD, DING_2020, "mixture only, plus bias", **_linear("npg-pd")
    ),
    Method("lin-rpg-pd", "Lin-RPG-PD", PD, DING, "O(eps^-6) plus bias, m = 1", **_linear("rpg-pd")),
    Method("lin-reload", "Lin-ReLOAD", PD, MOSKOVITZ, "none", **_linear("reload")),
    Method("lin-ppo-lag", "Lin-PPO-Lag", PD, RAY, "none", **_linear("ppo-lag", **_long)),
    Method(
        "lp", "Linear program (HiGHS)", "exact", "Altman 1999", "exact", **_program(linear_program)
    ),
    Method(
        "dantzig-wolfe",
        "Dantzig-Wolfe",
        "exact",
        "Dantzig, Wolfe 1960",
        "finite",
        **_program(dantzig_wolfe),
    ),
    Method(
        "cutting-plane",
        "Cutting plane",
        "exact",
        "Gladin et al. 2023",
        "O(log 1/eps) cuts, regularised",
        **_program(cutting_plane),
    ),
    Method(
        "convex-al",
        "AL by convex program",
        "exact",
        "Mueller et al. 2023",
        "finite",
        **_program(convex_al),
    ),
)
methods: Mapping[str, Method] = MappingProxyType({row.name: row for row in _rows})


def find_method(name: str) -> Method:
    """The row of a method; an unknown name gets a suggestion."""
    check_known("method", name, methods)
    return methods[name]
