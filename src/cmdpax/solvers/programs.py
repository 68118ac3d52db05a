"""Four methods that let HiGHS do the work, on a scaled form.

The occupancy linear program, for `d = nu / mass` so that HiGHS' absolute tolerances mean something:

    max_{d >= 0} mass d.r   s.t.   d flows:  d(s') - inflow from d = (1 / mass) rho(s'),
                                   mass d.c_i >= b_i.

- `linear_program`: that program, the exact reference and what everybody uses today;
- `convex_al` (Mueller et al. 2023): the augmented Lagrangian solved exactly by a quadratic program
  over occupancies, then the dual step: as costly as the linear program, once per outer iteration;
- `dantzig_wolfe`: column generation on mixtures of deterministic policies;
- `cutting_plane` (Gladin et al. 2023): cutting planes on the entropy-regularised dual.

No status of HiGHS is trusted: the door re-evaluates and certifies every policy.
"""

from dataclasses import replace
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple, get_args

import highspy
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

from cmdpax import lagrangian
from cmdpax.errors import InputError, NumericalError, check_count, check_number
from cmdpax.exact.standard import StandardForm
from cmdpax.model.result import Row
from cmdpax.solvers.algorithm import Answer
from cmdpax.solvers.certified import Task
from cmdpax.solvers.columns import Corrective, add_column
from cmdpax.solvers.feasibility import slater_slack
from cmdpax.solvers.policy_classes import Array, from_visits, log_or_zero, softmax
from cmdpax.solvers.policy_gradient import soft_action_values

Algorithm = Literal["simplex", "ipm", "hipo"]
ENGINES: dict[str, str] = {"ipm": "ipx"}  # with highspy-extras, what HiGHS calls ipm is HiPO
MAX_COLUMNS = 5000
SOFT_ITERATIONS, SOFT_TOLERANCE = 200, 1e-12


class OccupancyProgram(NamedTuple):
    """`max objective.d`; `matrix @ d` is `inflow` in the first S rows, at least `lower` in m."""

    objective: Array  # [K]
    matrix: sp.csc_array  # [S + m, K]
    inflow: Array  # [S]
    lower: Array  # [m]


def occupancy_program(form: StandardForm) -> OccupancyProgram:
    """The linear program of a form; constraint rows are in the units of the thresholds."""
    m, mass, flow = form.constraint_count, form.criterion.mass, form.criterion.flow(form)
    rows = sp.csr_array(mass * form.constraints)
    matrix = sp.csc_array(sp.vstack([flow, rows]) if m else flow)
    matrix.eliminate_zeros()
    inflow = form.criterion.inflow(form)
    return OccupancyProgram(mass * form.reward, matrix, inflow, form.thresholds)


def linear_program(form: StandardForm, task: Task, *, algorithm: Algorithm = "simplex") -> Answer:
    """Solve the occupancy program with HiGHS' simplex, interior point (ipm) or HiPO."""
    policy, weights, _ = solve_program(form, algorithm, task.seconds_left)
    return Answer(policy, weights)


def solve_program(
    form: StandardForm, algorithm: Algorithm = "simplex", time_limit: float | None = None
) -> tuple[Array, Array, float]:
    """Policy `[K]`, weights `[m]` and objective that HiGHS finds for the form as it stands."""
    if algorithm not in get_args(Algorithm):
        raise InputError(f"algorithm: '{algorithm}' is none of {', '.join(get_args(Algorithm))}.")
    if algorithm == "hipo" and find_spec("highspy_extras") is None:
        # HiGHS would log an error and run simplex instead
        raise InputError(
            "algorithm: 'hipo' needs the package highspy-extras; install it, or use 'ipm'."
        )
    lp = _program(*occupancy_program(form))
    lp.sense_ = highspy.ObjSense.kMaximize
    solver = _solver(
        solver=ENGINES.get(algorithm, algorithm),
        primal_feasibility_tolerance=1e-9,
        dual_feasibility_tolerance=1e-9,
        ipm_optimality_tolerance=1e-10,
        time_limit=highspy.kHighsInf if time_limit is None else float(time_limit),
    )
    solver.passModel(lp)
    solver.run()
    if not solver.getSolution().value_valid and algorithm != "simplex":
        # crossover fails on long queues, whose interior solution is good
        solver.setOptionValue("run_crossover", "off")
        solver.run()
    policy, solution = _policy(form, solver, "linear program"), solver.getSolution()
    duals = np.zeros(form.constraint_count)
    if solution.dual_valid:
        duals = np.array(solution.row_dual)[form.states :]
    return policy, np.maximum(-duals, 0), float(solver.getInfo().objective_function_value)


def convex_al(
    form: StandardForm,
    task: Task,
    *,
    penalty: float = 100.0,
    outer: int = 20,
    dual_factor: float = 1.0,
) -> Answer:
    """Algorithm 1 with exact subproblems; `penalty` is in the units of the scaled form.

    max_d  mass d.r - sum_i v_i^2 / (2 beta),   v_i >= lambda_i - beta (mass d.c_i - b_i),  v_i >= 0
    """
    check_number("penalty", penalty, above=0)
    check_number("dual_factor", dual_factor, above=0, below=2)
    outer = check_count("outer", outer)
    multipliers, policy = np.zeros(form.constraint_count), form.uniform_policy()
    for _ in range(outer):
        policy = maximise_al(form, multipliers, penalty)
        margins = form.evaluate(policy).margins
        moved = lagrangian.dual_update(multipliers, penalty, margins, dual_factor)
        is_settled = np.abs(moved - multipliers).max(initial=0.0) <= 0.01 * task.eps
        multipliers = moved
        if is_settled or task.stop():
            break
    return Answer(policy, multipliers)


def maximise_al(form: StandardForm, multipliers: Array, penalty: float) -> Array:
    """The policy `[K]` that maximises the AL exactly, by HiGHS' quadratic solver."""
    S, K, m = form.states, form.choices, form.constraint_count
    program = occupancy_program(form)
    # variables d and v; the constraint rows become v_i / beta + V_i >= lambda_i / beta + b_i
    slack = sp.csc_array((S, 0))
    if m:
        slack = sp.vstack([sp.csc_array((S, m)), sp.eye_array(m) / penalty])
    objective = np.append(-program.objective, np.zeros(m))
    matrix = sp.csc_array(sp.hstack([program.matrix, slack]))
    lower = multipliers / penalty + program.lower
    hessian = highspy.HighsHessian()
    hessian.dim_ = K + m
    hessian.format_ = highspy.HessianFormat.kTriangular
    hessian.start_ = np.append(np.zeros(K, np.int32), np.arange(m + 1, dtype=np.int32))
    hessian.index_ = np.arange(K, K + m, dtype=np.int32)
    hessian.value_ = np.full(m, 1 / penalty)
    model = highspy.HighsModel()
    model.lp_, model.hessian_ = _program(objective, matrix, program.inflow, lower), hessian
    solver = _solver()
    solver.passModel(model)
    solver.run()
    return _policy(form, solver, "quadratic program", "; another penalty may help")


def _program(
    objective: Array, matrix: sp.csc_array, inflow: Array, lower: Array
) -> highspy.HighsLp:
    """A linear program in variables >= 0: rows equal to `inflow [S]`, then at least `lower [m]`."""
    lp = highspy.HighsLp()
    lp.num_row_, lp.num_col_ = matrix.shape
    lp.col_cost_ = objective
    lp.col_lower_ = np.zeros(lp.num_col_)
    lp.col_upper_ = np.full(lp.num_col_, highspy.kHighsInf)
    lp.row_lower_ = np.append(inflow, lower)
    lp.row_upper_ = np.append(inflow, np.full(len(lower), highspy.kHighsInf))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_ = matrix.indptr, matrix.indices
    lp.a_matrix_.value_ = matrix.data
    return lp


def _solver(**options: Any) -> highspy.Highs:
    """HiGHS, silent and on one thread, with further options."""
    solver = highspy.Highs()
    for option, setting in {"output_flag": False, "threads": 1, **options}.items():
        solver.setOptionValue(option, setting)
    return solver


def _policy(form: StandardForm, solver: highspy.Highs, name: str, advice: str = "") -> Array:
    """The policy `[K]` of the occupancy that HiGHS found; it may be slightly negative.

    A quadratic program's point that misses a row by 1e-5 is a "solve error", and good enough.
    """
    solution, status = solver.getSolution(), solver.getModelStatus()
    mass = np.array(solution.col_value)[: form.choices]
    is_rough = status == highspy.HighsModelStatus.kSolveError and np.isfinite(mass).all()
    if not solution.value_valid and not (is_rough and mass.any()):
        said = solver.modelStatusToString(status)
        raise NumericalError(f"{name}: HiGHS ended with '{said}' and no solution{advice}.")
    best, mass = form.criterion.fallback(form, mass), np.maximum(mass, 0)
    return from_visits(form, mass, form.transitions.deterministic(best))


def dantzig_wolfe(form: StandardForm, task: Task) -> Answer:
    """Column generation on the linear program over mixtures, from the columns of phase 1.

    max_alpha  sum_k alpha_k V_0[k]   s.t.   sum_k alpha_k u_i[k] >= 0,   alpha in the simplex

    The program's prices w go into one planning problem on `r + w.c`, whose optimum is the next
    column and whose value is the dual bound D(w). It is the corrective AL without the proximal
    term: with one constraint the two tie, with several its prices jump and it needs more plans.
    """
    columns, bound, weights = task.columns, np.inf, np.zeros(form.constraint_count)
    dual_plan = None
    for iteration in range(1, MAX_COLUMNS + 1):
        mixture, prices = _best_feasible(columns.rewards, columns.margins_of_columns)
        columns = replace(columns, mixture=mixture)
        start = columns.choices[0] if dual_plan is None else dual_plan.choices
        best = form.criterion.plan(form, form.pseudo_reward(prices), start)
        value = best.value - float(prices @ form.thresholds)
        if value < bound:
            bound, weights, dual_plan = value, prices, best
        gap = bound - columns.reward
        row: Row = {"outer": iteration, "evaluations": iteration, "gap": gap}
        task.record({**row, "margins": columns.margins})
        if gap <= task.eps / 2 or task.stop():
            break
        known, columns = columns, add_column(form, columns, best, prices)
        if columns is known:  # nothing new: optimal to HiGHS' own tolerance
            break
    policy = Corrective().policy(form, columns)
    more: dict[str, Any] = {"points": columns.points, "mixture": columns.policies}
    return Answer(policy, weights, dual_plan, **more)


def _best_feasible(rewards: Array, margins: Array) -> tuple[Array, Array]:
    """Best feasible mixture `[k]` of columns, and the prices `[m]` of the constraints.

    rewards: `[k]`. margins: `[k, m]`.
    """
    k, m = margins.shape
    answer = linprog(
        -rewards,
        A_ub=-margins.T if m else None,
        b_ub=np.zeros(m) if m else None,
        A_eq=np.ones((1, k)),
        b_eq=[1.0],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if answer.x is None:
        message = answer.message.split(".")[0]
        raise NumericalError(f"dantzig-wolfe: HiGHS found no mixture of the columns ({message}).")
    mixture = np.maximum(answer.x, 0)
    prices = np.maximum(-answer.ineqlin.marginals, 0) if m else np.zeros(0)
    return mixture / mixture.sum(), prices


def cutting_plane(
    form: StandardForm, task: Task, *, entropy: float = 1e-5, cuts: int = 100
) -> Answer:
    """Cutting planes on the entropy-regularised dual; `entropy` is tau on the scale of [0, 1].

    With entropy of weight tau the Lagrangian has one optimal policy `pi_w ~ exp(Q_w / tau)` for
    every w, and the dual `D_tau(w) = max_pi V_0 + tau H + w.(V - b)` is smooth and convex with
    gradient `u(pi_w)`. One constraint: bisection on the sign of the margin. Several: Kelley's
    cutting planes in the box `[0, lambda_max]^m`. The last policy is returned; its error is of
    order tau log A mass, so it stays above the unregularised methods however long it runs.
    """
    check_number("entropy", entropy, above=0)
    cuts, m = check_count("cuts", cuts), form.constraint_count
    slack = slater_slack(form)
    largest = 2 / slack if slack > 1e-9 else 1e9
    low, high = np.zeros(m), np.full(m, largest)
    planes: list[tuple[float, Array]] = []  # D_tau(w) >= value + gradient.w
    weights, policy = np.zeros(m), form.transitions.as_table(form.uniform_policy())
    for _ in range(cuts):
        policy, value, margins = soft_optimum(form, weights, entropy, policy)
        if m == 0 or task.stop():
            break
        if m == 1:  # the dual's slope is the margin: a violated constraint wants a larger weight
            low, high = (weights, high) if margins[0] < 0 else (low, weights)
            if weights[0] == 0 and margins[0] >= 0:
                break
            proposal = (low + high) / 2
        else:
            planes.append((value - float(margins @ weights), margins))
            proposal = _kelley(planes, largest)
        if np.abs(proposal - weights).max() <= 1e-13 * (1 + np.abs(weights).max()):
            break
        weights = proposal
    return Answer(form.transitions.by_choice(policy), weights)


def soft_optimum(
    form: StandardForm, weights: Array, entropy: float, start: Array
) -> tuple[Array, float, Array]:
    """The entropy-regularised optimum of `r + w.c`: policy `[S, A]`, D_tau(w), margins `[m]`.

    Soft policy iteration `pi = softmax(Q_tau / tau)`, which converges like Newton's method.
    """
    policy = start
    for _ in range(SOFT_ITERATIONS):
        action_values = soft_action_values(form, policy, log_or_zero(policy), weights, entropy)
        before, policy = policy, softmax(action_values / entropy)
        if np.abs(policy - before).max() <= SOFT_TOLERANCE:
            break
    rows = form.transitions
    entropic = rows.filled(form.pseudo_reward(weights)) - entropy * log_or_zero(policy)
    earned = rows.mean_by_choice(policy, entropic)
    stacked = np.concatenate([earned[None], form.constraints])
    at_start = form.criterion.values(form, rows.by_choice(policy), stacked) @ form.initial
    value = float(at_start[0] - weights @ form.thresholds)
    return policy, value, at_start[1:] - form.thresholds


def _kelley(planes: list[tuple[float, Array]], largest: float) -> Array:
    """Minimiser `[m]` of the piecewise-linear model of the dual in the box."""
    gradients = np.array([gradient for _, gradient in planes])
    m = gradients.shape[1]
    answer = linprog(
        np.append(np.zeros(m), 1.0),
        A_ub=np.hstack([gradients, -np.ones((len(planes), 1))]),
        b_ub=[-value for value, _ in planes],
        bounds=[(0, largest)] * m + [(None, None)],
    )
    return np.maximum(answer.x[:m], 0)
