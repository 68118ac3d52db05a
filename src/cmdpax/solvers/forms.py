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
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.policy_gradient import FirstOrder, StepFunction
from cmdpax.solvers.projected import Projected
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
        dual_step: float = 0.5,
    ) -> Trajectory:
        size: Any = (
            step if isinstance(step, str) else _positive("step", step)
        )  # "theory" and "backtracking" are rules
        return _fixed_budget(
            model, FirstOrder(function, size, gradient), penalty, outer, inner, dual_step, keep
        )

    return {
        "trajectory": fixed,
        "budget": parameters(fixed),
        "solve": certified_with(lambda: FirstOrder(function, gradient=gradient)),
        "grid": {"step": (0.1, 1.0, 10.0)},
    }


def projected(step: StepFunction) -> dict[str, Any]:
    """An augmented-Lagrangian method with log-linear policies. The paper's form has numbers for
    `step` and `surrogate`.
    """
    function = step

    def fixed(
        model: CMDP,
        keep: Collection[int] = (),
        *,
        features: Features,
        step: Any = "backtracking",
        surrogate: Any = "newton",
        passes: int = 250,
        penalty: float = 10.0,
        outer: int = 10,
        inner: int = 100,
        dual_step: float = 0.5,
    ) -> Trajectory:
        size: Any = step if isinstance(step, str) else _positive("step", step)
        slope: Any = surrogate if isinstance(surrogate, str) else _positive("surrogate", surrogate)
        oracle = Projected(function, features, size, slope, whole("passes", passes))
        return _fixed_budget(model, oracle, penalty, outer, inner, dual_step, keep)

    budget = {name: default for name, default in parameters(fixed).items() if name != "features"}
    return {
        "trajectory": fixed,
        "budget": budget,
        "features": True,
        "grid": {"step": LINEAR_STEPS, "surrogate": LINEAR_STEPS},
    }


def _fixed_budget(
    model: CMDP,
    oracle: FirstOrder | Projected,
    penalty: float,
    outer: int,
    inner: int,
    dual_step: float,
    keep: Collection[int],
) -> Trajectory:
    """Algorithm 1 with fixed numbers of steps, every iterate recorded, the policies of those in
    `keep` too.
    """
    penalty, dual_step = _positive("penalty", penalty), _positive("dual_step", dual_step)
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
        dual_step=dual_step,
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


def baseline(module: Any) -> dict[str, Any]:
    """A baseline from its module: `init`, `step`, and `SETTINGS` with defaults (whole numbers are
    counts).
    """
    budget = {**module.SETTINGS, "steps": 1000}

    def fixed(
        model: CMDP, keep: Collection[int] = (), features: Features | None = None, **given: Any
    ) -> Trajectory:
        checked = {
            name: (whole if isinstance(default, int) else _positive)(name, given.get(name, default))
            for name, default in budget.items()
        }
        steps = checked.pop("steps")
        checked["largest"] = largest_multiplier(model)
        if features is not None:
            checked["features"] = features
        return primal_dual.run(model, module.init, module.step, checked, steps, keep)

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
