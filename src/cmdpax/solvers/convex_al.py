"""The augmented Lagrangian solved exactly by a convex program over occupancies (Mueller et al.
2023), then the dual step.

    max_{mu in K}  mu.r - sum_i v_i^2 / (2 beta),   v_i >= lambda_i - beta (mu.c_i - b_i),  v_i >=
    0;     lambda+ = v.

The subproblem is a quadratic program with S*A + m variables and S + m rows, handed to HiGHS in
full: exact, and as costly as the linear program itself, once per outer iteration.
"""

import time

import highspy
import numpy as np
import scipy.sparse as sp

from cmdpax import lagrangian
from cmdpax.errors import NumericalError
from cmdpax.exact.certificate import certify
from cmdpax.exact.discounted import evaluate, pseudo_reward
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, assemble
from cmdpax.solvers.certified import normalise, whole, within
from cmdpax.solvers.programs import occupancy_program, policy_of


def convex_al(
    model: CMDP,
    eps: float = 1e-6,
    *,
    penalty: float = 10.0,
    outer: int = 20,
    dual_step: float = 1.0,
    time_limit: float | None = None,
) -> Result:
    """Outer augmented-Lagrangian loop with exact subproblems; `penalty` is on the normalised scale."""
    within("penalty", penalty, np.inf)
    within("dual_step", dual_step, 2.0)
    outer = whole("outer", outer)
    started = time.perf_counter()
    scaled = normalise(model)
    multipliers = np.zeros(model.constraint_count)
    policy = scaled.uniform_policy()
    for _ in range(outer):
        policy = subproblem(scaled, multipliers, penalty)
        margins = evaluate(scaled, policy).margins
        moved = lagrangian.dual_update(multipliers, penalty, margins, dual_step)
        settled = np.abs(moved - multipliers).max(initial=0.0) <= 0.01 * eps
        multipliers = moved
        if settled or (time_limit is not None and time.perf_counter() - started > time_limit):
            break
    prices = multipliers * model.reward_scale / model.constraint_scales
    certificate = certify(model, policy, prices, plan(model, pseudo_reward(model, prices)).actions)
    return assemble(
        model,
        policy,
        prices,
        certificate,
        method="convex-al",
        eps=eps,
        seconds=time.perf_counter() - started,
    )


def subproblem(model: CMDP, multipliers: np.ndarray, penalty: float) -> np.ndarray:
    """The policy `[S, A]` that maximises the AL exactly, by HiGHS' quadratic solver."""
    S, A, m = model.states, model.actions, model.constraint_count
    program = occupancy_program(model)
    # variables d = (1 - gamma) mu and v; the constraint rows become v_i / beta + V_c[i] >= lambda_i
    # / beta + b_i
    slack = (
        sp.vstack([sp.csc_array((S, m)), sp.eye_array(m) / penalty]) if m else sp.csc_array((S, 0))
    )
    matrix = sp.csc_array(sp.hstack([program.matrix, slack]))
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = S * A + m, S + m
    lp.col_cost_ = np.append(-program.objective, np.zeros(m))
    lp.col_lower_, lp.col_upper_ = np.zeros(S * A + m), np.full(S * A + m, highspy.kHighsInf)
    lp.row_lower_ = np.append(program.inflow, multipliers / penalty + program.lower)
    lp.row_upper_ = np.append(program.inflow, np.full(m, highspy.kHighsInf))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = (
        matrix.indptr,
        matrix.indices,
        matrix.data,
    )
    hessian = highspy.HighsHessian()
    hessian.dim_ = S * A + m
    hessian.format_ = highspy.HessianFormat.kTriangular
    hessian.start_ = np.append(np.zeros(S * A, dtype=np.int32), np.arange(m + 1, dtype=np.int32))
    hessian.index_ = np.arange(S * A, S * A + m, dtype=np.int32)
    hessian.value_ = np.full(m, 1 / penalty)
    whole = highspy.HighsModel()
    whole.lp_, whole.hessian_ = lp, hessian
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(whole)
    solver.run()
    solution = solver.getSolution()
    if not solution.value_valid:
        status = solver.modelStatusToString(solver.getModelStatus())
        raise NumericalError(
            f"quadratic program: HiGHS ended with '{status}' and no solution; another penalty may"
            " help."
        )
    return policy_of(model, np.array(solution.col_value)[: S * A].reshape(S, A))
