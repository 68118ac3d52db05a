"""ONE table of every method on exact models: name -> how to run it, its paper grid, where it comes
from, what is known about it.

`run(model, "pqa-alm", step=0.1)` runs a method with its paper settings; for the
augmented-Lagrangian methods and no `step` it is the certified solver of `cmdpax.solve` with that
oracle and adaptive steps. `trajectory(model, name, **settings)` is the batched form: settings may
be arrays, and the whole history comes back. With `features` both run the log-linear form of the
method: `ppo-lag` with features is `lin-ppo-lag`, `pqa-alm` is `ppqa-alm`.
"""

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cmdpax.errors import InputError, NumericalError, did_you_mean
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result
from cmdpax.solvers.certified import normalise, phase_one_result, within
from cmdpax.solvers.convex_al import convex_al
from cmdpax.solvers.cutting_plane import cutting_plane
from cmdpax.solvers.dantzig_wolfe import dantzig_wolfe
from cmdpax.solvers.feasibility import decide
from cmdpax.solvers.forms import LINEAR_STEPS, alm, baseline, corrective, parameters, projected
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.policy_gradient import npg, ppg, pqa, spma
from cmdpax.solvers.primal_dual import METHODS
from cmdpax.solvers.programs import linear_program
from cmdpax.solvers.trajectory import Trajectory, to_result
from cmdpax.stopping import Stopper


@dataclass(frozen=True)
class Method:
    """A row of the table."""

    name: str
    title: str
    family: str  # "augmented Lagrangian", "primal-dual", "exact"
    citation: str
    rate: str  # what is proven about the last iterate
    trajectory: Callable[..., Trajectory] | None = (
        None  # fixed budget, batched; takes `budget` as keyword arguments
    )
    budget: Mapping[str, Any] = field(
        default_factory=dict
    )  # settings of the fixed-budget form with their defaults
    solve: Callable[..., Result] | None = None  # certified; settings are its keyword arguments
    grid: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # the paper's search space
    features: bool = False  # whether policies are log-linear: features are needed
    linear: str = ""  # the name of the method's log-linear form
    skip: Callable[[Mapping[str, float]], bool] = lambda settings: (
        False
    )  # points of the grid where the update makes no sense

    def settings(self) -> dict[str, Any]:
        """What can be set, with its default."""
        return {**parameters(self.solve), **self.budget}


LU = "Lu, Lin, Chen, Vaswani 2026"
DING = "Ding, Wei, Zhang, Ribeiro 2023"
FIVE = (0.01, 0.1, 1.0, 10.0, 100.0)
STEPS = {"step": FIVE, "dual_step": FIVE}
_rows = (
    Method(
        "corrective-alm",
        "Corrective ALM",
        "augmented Lagrangian",
        "cmdpax",
        "O(1/sqrt T) outer; finite",
        solve=corrective,
    ),
    Method(
        "pqa-alm",
        "PQA-ALM",
        "augmented Lagrangian",
        LU,
        "O(eps^-6) evaluations",
        linear="ppqa-alm",
        **alm(pqa),
    ),
    Method("ppg-alm", "PPG-ALM", "augmented Lagrangian", LU, "as PQA", **alm(ppg, gradient=True)),
    Method(
        "npg-alm",
        "NPG-ALM",
        "augmented Lagrangian",
        LU,
        "outer O(1/sqrt T)",
        linear="pnpg-alm",
        **alm(npg),
    ),
    Method(
        "spma-alm",
        "SPMA-ALM",
        "augmented Lagrangian",
        LU,
        "outer O(1/sqrt T)",
        linear="pspma-alm",
        **alm(spma),
    ),
    Method(
        "npg-pd",
        "NPG-PD",
        "primal-dual",
        "Ding, Zhang, Basar, Jovanovic 2020",
        "mixture only, O(1/sqrt T)",
        grid=STEPS,
        linear="lin-npg-pd",
        **baseline(METHODS["npg-pd"]),
    ),
    Method(
        "rpg-pd",
        "RPG-PD",
        "primal-dual",
        DING,
        "O(eps^-6) evaluations, m = 1",
        grid={**STEPS, "temperature": (1e-4, 1e-2, 1e-1)},
        skip=lambda settings: settings["dual_step"] * settings["temperature"] > 1,
        linear="lin-rpg-pd",
        **baseline(METHODS["rpg-pd"]),
    ),
    Method(
        "opg-pd",
        "OPG-PD",
        "primal-dual",
        DING,
        "linear, problem-dependent, m = 1",
        grid=STEPS,
        **baseline(METHODS["opg-pd"]),
    ),
    Method(
        "npg-dd",
        "NPG-DD",
        "dual",
        "Ying, Ding, Lavaei 2022",
        "O(eps^-2) evaluations",
        grid={"temperature": (0.001, 0.01, 0.1, 1.0), "dual_step": (0.001, 0.01, 0.1, 1.0)},
        **baseline(METHODS["npg-dd"]),
    ),
    Method(
        "reload",
        "ReLOAD",
        "primal-dual",
        "Moskovitz, O'Donoghue, Veeriah, Flennerhag, Singh, Zahavy 2023",
        "converges, no rate",
        grid=STEPS,
        linear="lin-reload",
        **baseline(METHODS["reload"]),
    ),
    Method(
        "npg-nrl",
        "NPG-NRL",
        "primal-dual",
        "Mueller, Alatur, Cevher, Ramponi, He 2024",
        "O(eps^-10), finite horizon",
        grid={"step": (0.01, 0.1, 1.0), "temperature": (1e-4, 1e-2, 1e-1)},
        **baseline(METHODS["npg-nrl"]),
    ),
    Method(
        "ppo-lag",
        "PPO-Lag",
        "primal-dual",
        "Ray, Achiam, Amodei 2019",
        "none",
        grid={**STEPS, "clip": (0.1, 0.2, 0.3)},
        linear="lin-ppo-lag",
        **baseline(METHODS["ppo-lag"]),
    ),
    Method(
        "ppqa-alm",
        "PPQA-ALM",
        "augmented Lagrangian",
        LU,
        "O(eps^-6), small bias",
        **projected(pqa),
    ),
    Method("pnpg-alm", "Projected NPG-ALM", "augmented Lagrangian", LU, "none", **projected(npg)),
    Method(
        "pspma-alm",
        "Projected SPMA-ALM",
        "augmented Lagrangian",
        LU,
        "none",
        **projected(spma),
    ),
    Method(
        "lin-npg-pd",
        "Lin-NPG-PD",
        "primal-dual",
        "Ding, Zhang, Basar, Jovanovic 2020",
        "mixture only, plus bias",
        grid={"step": LINEAR_STEPS, "dual_step": LINEAR_STEPS},
        features=True,
        **baseline(METHODS["npg-pd"]),
    ),
    Method(
        "lin-rpg-pd",
        "Lin-RPG-PD",
        "primal-dual",
        DING,
        "O(eps^-6) plus bias, m = 1",
        grid={
            "step": LINEAR_STEPS,
            "dual_step": LINEAR_STEPS,
            "temperature": (0.001, 0.01, 0.1, 1.0),
        },
        skip=lambda settings: settings["dual_step"] * settings["temperature"] > 1,
        features=True,
        **baseline(METHODS["rpg-pd"]),
    ),
    Method(
        "lin-reload",
        "Lin-ReLOAD",
        "primal-dual",
        "Moskovitz, O'Donoghue, Veeriah, Flennerhag, Singh, Zahavy 2023",
        "none",
        grid={"step": (1e-4, 0.01, 0.1, 1.0), "dual_step": FIVE},
        features=True,
        **baseline(METHODS["reload"]),
    ),
    Method(
        "lin-ppo-lag",
        "Lin-PPO-Lag",
        "primal-dual",
        "Ray, Achiam, Amodei 2019",
        "none",
        grid={"step": LINEAR_STEPS, "dual_step": FIVE, "clip": (0.1, 0.2, 0.3)},
        features=True,
        **baseline(METHODS["ppo-lag"], passes=250),
    ),
    Method("lp", "Linear program (HiGHS)", "exact", "Altman 1999", "exact", solve=linear_program),
    Method(
        "dantzig-wolfe",
        "Dantzig-Wolfe",
        "exact",
        "Dantzig, Wolfe 1960",
        "finite",
        solve=dantzig_wolfe,
    ),
    Method(
        "cutting-plane",
        "Cutting plane",
        "exact",
        "Gladin et al. 2023",
        "O(log 1/eps) cuts, regularised",
        solve=cutting_plane,
    ),
    Method(
        "convex-al",
        "AL by convex program",
        "exact",
        "Mueller et al. 2023",
        "finite",
        solve=convex_al,
    ),
)
methods: Mapping[str, Method] = MappingProxyType({row.name: row for row in _rows})


def find(name: str) -> Method:
    """The row of a method; an unknown name gets a suggestion."""
    if name not in methods:
        raise InputError(f"method '{name}' is not known; {did_you_mean(name, methods)}")
    return methods[name]


def form(model: CMDP, name: str, features: Any) -> tuple[Method, dict[str, Features]]:
    """The row of a method, its log-linear form if `features` (`[S, A, d]`, or `Features`) are
    given, and what to pass it.
    """
    method = find(name)
    if features is None:
        if method.features:
            raise InputError(
                f"method '{name}' has log-linear policies; give it features, for example --features"
                " tiles:60,4,3."
            )
        return method, {}
    if not (method.features or method.linear):
        known = ", ".join(row.name for row in methods.values() if row.features or row.linear)
        raise InputError(f"method '{name}' takes no features; these do: {known}.")
    features = features if isinstance(features, Features) else Features(features)
    features.check(model.states, model.actions)
    return method if method.features else methods[method.linear], {"features": features}


def trajectory(
    model: CMDP, name: str, features: Any = None, keep: Collection[int] = (), **settings: Any
) -> Trajectory:
    """Fixed-budget run; settings may be arrays of one batch shape. `features [S, A, d]` make the
    policies log-linear.

    The policies of the iterates in `keep` come back with the histories; 0 is the initial one.
    """
    method, given = form(model, name, features)
    if method.trajectory is None:
        raise InputError(f"method '{name}' has no fixed-budget form; use cmdpax.run.")
    _refuse_unknown(method, settings, method.budget)
    return method.trajectory(model, keep, **given, **settings)


def run(model: CMDP, name: str, eps: float = 1e-6, features: Any = None, **settings: Any) -> Result:
    """Run one method on one model and certify what it returns. An infeasible model is answered with
    its proof.

    `settings` are the method's own (`find(name).settings()`). A method with both forms is run as a
    certified solver, unless a setting of its fixed-budget form is given. With `features [S, A, d]`
    policies are log-linear: the certificate then still measures against the best of all policies,
    so that its gap includes what the features cannot express.
    """
    if not isinstance(model, CMDP):
        raise InputError(f"model: a CMDP is needed, not {type(model).__name__}.")
    within("eps", eps, 1.0)
    if settings.get("time_limit") is not None:
        within("time_limit", settings["time_limit"], np.inf, zero=True)
    started = time.perf_counter()
    method, given = form(model, name, features)
    _refuse_unknown(method, settings, method.settings())
    certified = method.solve is not None and set(settings) <= set(parameters(method.solve))
    if certified and method.family == "augmented Lagrangian":  # decides about feasibility by itself
        return replace(method.solve(model, eps, **settings), method=name)  # type: ignore[misc]
    with Stopper(settings.get("time_limit")) as stop:
        verdict = decide(normalise(model), stop=stop)
    if verdict.status in ("infeasible", "open"):
        return replace(phase_one_result(model, verdict, eps, started), method=method.name)
    try:
        if certified:
            result = replace(method.solve(model, eps, **settings), method=method.name)  # type: ignore[misc]
        else:
            done = trajectory(model, method.name, given.get("features"), **settings)
            result = to_result(model, done, method=method.name, eps=eps, started=started)
    except NumericalError:
        if verdict.status != "marginal":
            raise
        # too close for the method's own solver
        return replace(
            phase_one_result(model, verdict, eps, started), method=method.name, status="marginal"
        )
    proven = (
        result.scaled_violation == 0 and result.scaled_gap <= eps
    )  # what is proven to be feasible is not undecided
    return (
        replace(result, status="marginal")
        if verdict.status == "marginal" and not proven
        else result
    )


def _refuse_unknown(method: Method, settings: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if name not in known:
            hint = did_you_mean(name, [key for key in known if key != "report"])
            raise InputError(f"setting '{name}' is not one of {method.name}'s; {hint}")
        if name == "report" and not callable(value):
            raise InputError("report: it must be a function that takes a row of the trace.")
        if (
            isinstance(value, str) and not isinstance(known[name], str) and name != "step"
        ):  # a step may be a rule
            raise InputError(f"{name} is '{value}'; it must be a number.")
