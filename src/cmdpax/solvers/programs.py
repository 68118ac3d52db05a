"""The occupancy linear program with HiGHS: the exact reference, and what everybody uses today.

    max_{mu >= 0} mu.r   s.t.   sum_a mu(s',a) - gamma sum_{s,a} P(s'|s,a) mu(s,a) = rho(s')  for
    all s',   mu.c_i >= b_i.

It is posed for the normalised model and for `d = (1 - gamma) mu`, so that HiGHS' absolute
tolerances mean something. Its status is never trusted: policy and multipliers are recovered,
re-evaluated and certified like anybody else's.
"""

import time
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal, get_args

import highspy
import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.certificate import certify
from cmdpax.exact.discounted import pseudo_reward
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, assemble
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.policy_classes import from_actions, from_visits

Algorithm = Literal["simplex", "ipm", "hipo"]
ENGINES: dict[str, str] = {
    "ipm": "ipx"
}  # where highspy-extras is installed, what HiGHS calls ipm is HiPO


@dataclass(frozen=True)
class LinearProgram:
    """What HiGHS says, in the units of the model it was given. Not to be trusted before it is
    certified.
    """

    status: str
    policy: np.ndarray  # [S, A]
    multipliers: np.ndarray  # [m]
    reward: float


@dataclass(frozen=True)
class OccupancyProgram:
    """`max objective.d  s.t.  matrix @ d` equals `inflow` in the first S rows and is at least
    `lower` in the last m, `d >= 0`.
    """

    objective: np.ndarray  # [S*A]
    matrix: sp.csc_array  # [S + m, S*A]
    inflow: np.ndarray  # [S]
    lower: np.ndarray  # [m]


def occupancy_program(model: CMDP) -> OccupancyProgram:
    """The linear program of a model for `d = (1 - gamma) mu`; constraint rows are in the units of
    the thresholds.
    """
    S, A, m = model.states, model.actions, model.constraint_count
    horizon = 1 / (1 - model.discount)
    outflow = sp.csr_array(
        (np.ones(S * A), np.repeat(np.arange(S), A), np.arange(S * A + 1)), shape=(S * A, S)
    )
    flow = (outflow - model.discount * model.matrix).T
    rows = sp.csr_array(horizon * model.constraints.reshape(m, S * A))
    matrix = sp.csc_array(sp.vstack([flow, rows]) if m else flow)
    matrix.eliminate_zeros()
    return OccupancyProgram(
        horizon * model.reward.ravel(),
        matrix,
        (1 - model.discount) * model.initial,
        model.thresholds,
    )


def solve_lp(
    model: CMDP, algorithm: Algorithm = "simplex", time_limit: float | None = None
) -> LinearProgram:
    """Solve the occupancy program of `model` as it stands."""
    if algorithm not in get_args(Algorithm):
        raise InputError(f"algorithm: '{algorithm}' is none of {', '.join(get_args(Algorithm))}.")
    if (
        algorithm == "hipo" and find_spec("highspy_extras") is None
    ):  # HiGHS would log an error and run simplex instead
        raise InputError(
            "algorithm: 'hipo' needs the package highspy-extras; install it, or use 'ipm'."
        )
    S, A, m = model.states, model.actions, model.constraint_count
    program = occupancy_program(model)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = S * A, S + m
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = program.objective
    lp.col_lower_, lp.col_upper_ = np.zeros(S * A), np.full(S * A, highspy.kHighsInf)
    lp.row_lower_ = np.concatenate([program.inflow, program.lower])
    lp.row_upper_ = np.concatenate([program.inflow, np.full(m, highspy.kHighsInf)])
    matrix = program.matrix
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = (
        matrix.indptr,
        matrix.indices,
        matrix.data,
    )
    solver = highspy.Highs()
    options: dict[str, bool | int | float | str] = {
        "output_flag": False,
        "solver": ENGINES.get(algorithm, algorithm),
        "threads": 1,
        "primal_feasibility_tolerance": 1e-9,
        "dual_feasibility_tolerance": 1e-9,
        "ipm_optimality_tolerance": 1e-10,
    }
    for option, setting in options.items():
        solver.setOptionValue(option, setting)
    if time_limit is not None:
        solver.setOptionValue("time_limit", float(time_limit))
    solver.passModel(lp)
    solver.run()
    solution = solver.getSolution()
    if (
        not solution.value_valid and algorithm != "simplex"
    ):  # crossover fails on long queues, whose interior solution is good
        solver.setOptionValue("run_crossover", "off")
        solver.run()
        solution = solver.getSolution()
    if not solution.value_valid:
        raise NumericalError(
            "linear program: HiGHS ended with"
            f" '{solver.modelStatusToString(solver.getModelStatus())}' and no solution."
        )
    policy = policy_of(model, np.array(solution.col_value).reshape(S, A))
    duals = np.array(solution.row_dual)[S:] if solution.dual_valid else np.zeros(m)
    multipliers = np.maximum(-duals, 0)
    return LinearProgram(
        solver.modelStatusToString(solver.getModelStatus()),
        policy,
        multipliers,
        float(solver.getInfo().objective_function_value),
    )


def policy_of(model: CMDP, mass: np.ndarray) -> np.ndarray:
    """The policy `[S, A]` of an occupancy `[S, A]` that may be slightly negative; greedy where it
    is zero.
    """
    greedy = from_actions(np.argmax(model.reward, axis=1), model.actions)
    return from_visits(np.maximum(mass, 0), greedy)


def linear_program(
    model: CMDP,
    eps: float = 1e-6,
    *,
    algorithm: Algorithm = "simplex",
    time_limit: float | None = None,
) -> Result:
    """Solve by linear programming; the policy is re-evaluated and certified by us. `limit` if that
    does not reach eps.
    """
    started = time.perf_counter()
    answer = solve_lp(normalise(model), algorithm, time_limit)
    seconds = time.perf_counter() - started
    multipliers = answer.multipliers * model.reward_scale / model.constraint_scales
    best = plan(model, pseudo_reward(model, multipliers))
    certificate = certify(model, answer.policy, multipliers, best.actions)
    return assemble(
        model,
        answer.policy,
        multipliers,
        certificate,
        method=f"lp ({algorithm})",
        eps=eps,
        seconds=seconds,
    )
