"""The forms a method is run in: a fixed budget with the paper's settings, batched, or the certified
solver.

Each function here gives the parts of a row of `cmdpax.methods` that say how the method is run:
`trajectory` and `budget` (settings of the fixed-budget form with their defaults), `solve`, and the
paper's grid where a whole family shares it.
"""

import inspect
from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result
from cmdpax.solvers import primal_dual
from cmdpax.solvers.algorithm import Oracle, augmented_lagrangian
from cmdpax.solvers.certified import solve, whole
from cmdpax.solvers.feasibility import slater_slack
from cmdpax.solvers.policy_classes import TABLES, Features, LogLinear
from cmdpax.solvers.policy_gradient import PolicyGradient, StepFunction
from cmdpax.solvers.trajectory import Recorder, Trajectory

LINEAR_STEPS = (1e-4, 1e-3, 0.1, 1.0, 10.0)


def parameters(function: Callable[..., Any] | None) -> dict[str, Any]:
    """Keyword parameters of a method's function with their defaults."""
    if function is None:
        return {}
    given = inspect.signature(function).parameters.values()
    return {
        parameter.name: parameter.default
        for parameter in given
        if parameter.kind is parameter.KEYWORD_ONLY
    }


def alm(step: StepFunction, gradient: bool = False) -> dict[str, Any]:
    """Both modes of an augmented-Lagrangian method with a first-order oracle."""
    function = step

    def fixed(
        model: CMDP,
        keep: Collection[int] = (),
        *,
        step: Any = 0.1,
        penalty: float = 10.0,
        outer: int = 10,
        inner: int = 100,
        dual_factor: float = 0.5,
    ) -> Trajectory:
        size: Any = (
            step if isinstance(step, str) else _positive("step", step)
        )  # "theory" and "backtracking" are rules
        oracle = PolicyGradient(function, size, gradient=gradient)
        return _fixed_budget(model, oracle, penalty, outer, inner, dual_factor, keep)

    return {
        "trajectory": fixed,
        "budget": parameters(fixed),
        "solve": certified_with(lambda: PolicyGradient(function, gradient=gradient)),
        "grid": {"step": (0.1, 1.0, 10.0)},
    }


def projected(step: StepFunction) -> dict[str, Any]:
    """An augmented-Lagrangian method with log-linear policies. The paper's form has numbers for
    `step` and `projection_step`.
    """
    function = step

    def fixed(
        model: CMDP,
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
        size: Any = step if isinstance(step, str) else _positive("step", step)
        if not isinstance(projection_step, str):
            projection_step = _positive("projection_step", projection_step)
        count = whole("projection_steps", projection_steps)
        oracle = PolicyGradient(function, size, LogLinear(features, projection_step, count))
        return _fixed_budget(model, oracle, penalty, outer, inner, dual_factor, keep)

    budget = {name: default for name, default in parameters(fixed).items() if name != "features"}
    return {
        "trajectory": fixed,
        "budget": budget,
        "features": True,
        "grid": {"step": LINEAR_STEPS, "projection_step": LINEAR_STEPS},
    }


def _fixed_budget(
    model: CMDP,
    oracle: PolicyGradient,
    penalty: float,
    outer: int,
    inner: int,
    dual_factor: float,
    keep: Collection[int],
) -> Trajectory:
    """Algorithm 1 with fixed numbers of steps, every iterate recorded, the policies of those in
    `keep` too.
    """
    penalty, dual_factor = _positive("penalty", penalty), _positive("dual_factor", dual_factor)
    state, record = oracle.start(model), Recorder(keep)
    multipliers = np.zeros((*state.size.shape, model.constraint_count))

    def add(state: Any, multipliers: np.ndarray) -> None:
        weights = lagrangian.weights(multipliers, penalty, state.margins)
        record.add(state.reward, state.margins, weights, oracle.policy(model, state))

    def observe(progress: Any) -> bool:
        if not progress.outer_done:
            add(progress.state, progress.multipliers)
        return False

    add(state, multipliers)
    final = augmented_lagrangian(
        model,
        oracle,
        state,
        multipliers=multipliers,
        penalty=penalty,
        outer=whole("outer", outer),
        inner=whole("inner", inner),
        dual_factor=dual_factor,
        observe=observe,
    )
    return record.finish(final.multipliers, final.state.policy)


def certified_with(oracle: Callable[[], Oracle]) -> Callable[..., Result]:
    """The certified solver with an oracle."""

    def certified(
        model: CMDP,
        eps: float = 1e-6,
        *,
        time_limit: float | None = None,
        report: Callable[[dict[str, Any]], None] | None = None,
    ) -> Result:
        return solve(model, eps, oracle=oracle(), time_limit=time_limit, report=report)

    return certified


def corrective(
    model: CMDP,
    eps: float = 1e-6,
    *,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """The default solver."""
    return solve(model, eps, time_limit=time_limit, memory_limit=memory_limit, report=report)


def baseline(method: primal_dual.PrimalDual, **defaults: Any) -> dict[str, Any]:
    """A primal-dual method with its defaults, some of them changed."""
    budget = {**method.settings, **defaults, "steps": 1000}

    def fixed(
        model: CMDP, keep: Collection[int] = (), features: Features | None = None, **given: Any
    ) -> Trajectory:
        checked = {
            name: (whole if isinstance(default, int) else _positive)(name, given.get(name, default))
            for name, default in budget.items()
        }
        steps = checked.pop("steps")
        checked["largest_multiplier"] = largest_multiplier(model)
        policies = TABLES if features is None else LogLinear(features)
        return primal_dual.run(model, method, checked, steps, keep, policies)

    return {"trajectory": fixed, "budget": budget}


def largest_multiplier(model: CMDP) -> float:
    """`lambda_max = 2 span(r) / ((1 - gamma) zeta)` with the joint Slater slack zeta: an upper
    bound on optimal multipliers.
    """
    slack = slater_slack(model)
    return 2 * model.reward_scale / slack if slack > 0 else np.inf


def _positive(field: str, value: Any) -> Any:
    array = np.asarray(value, dtype=np.float64)
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise InputError(f"{field} is {value}; it must be positive and finite.")
    return array if array.ndim else float(array)
