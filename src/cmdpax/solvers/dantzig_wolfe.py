"""Dantzig-Wolfe: column generation on the linear program over mixtures of deterministic policies.

    max_alpha  sum_k alpha_k V_r[k]   s.t.   sum_k alpha_k u_i[k] >= 0  for all i,   alpha in the
    simplex.

The master's prices w go into one unconstrained planning problem on `r + w.c`, whose optimum is the
next column, and whose value is the dual bound D(w). It is the corrective augmented Lagrangian
without the proximal term: with one constraint the two tie, with several its prices jump and it
needs more planning calls.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import linprog

from cmdpax.errors import NumericalError
from cmdpax.exact.certificate import certify
from cmdpax.exact.discounted import pseudo_reward
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Result, assemble
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.columns import Corrective, add_column
from cmdpax.solvers.feasibility import decide

COLUMNS = 5000


def dantzig_wolfe(
    model: CMDP,
    eps: float = 1e-6,
    *,
    time_limit: float | None = None,
    report: Callable[[dict[str, Any]], None] | None = None,
) -> Result:
    """Solve a feasible model by column generation, starting from the feasible columns of phase 1."""
    started = time.perf_counter()
    scaled = normalise(model)
    columns = decide(scaled).columns
    bound, weights, actions, trace = (
        np.inf,
        np.zeros(model.constraint_count),
        columns.actions[0],
        [],
    )
    for iteration in range(1, COLUMNS + 1):
        mixture, prices = _master(columns.rewards, columns.margin_rows)
        columns = replace(columns, mixture=mixture)
        best = plan(scaled, pseudo_reward(scaled, prices), actions)
        value = best.value - float(prices @ scaled.thresholds)
        if value < bound:
            bound, weights, actions = value, prices, best.actions
        row = {
            "outer": iteration,
            "evaluations": iteration,
            "gap": bound - columns.reward,
            "violation": float(-columns.margins.min(initial=0.0)),
            "seconds": time.perf_counter() - started,
        }
        trace.append(row)
        if report:
            report(row)
        count = len(columns.rewards)
        if row["gap"] <= eps / 2 or (time_limit is not None and row["seconds"] > time_limit):
            break
        columns = add_column(scaled, columns, best, prices)
        if (
            len(columns.rewards) == count
        ):  # planning repeats a known column: the master is optimal to its own tolerance
            break
    policy = Corrective().policy(scaled, columns)
    prices = weights * model.reward_scale / model.constraint_scales
    certificate = certify(model, policy, prices, actions)
    seconds = time.perf_counter() - started
    return assemble(
        model,
        policy,
        prices,
        certificate,
        method="dantzig-wolfe",
        eps=eps,
        trace=trace,
        seconds=seconds,
    )


def _master(rewards: np.ndarray, margins: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Best feasible mixture `[k]` of columns with rewards `[k]` and margins `[k, m]`, and the
    prices `[m]` of the constraints.
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
        raise NumericalError(
            "dantzig-wolfe: HiGHS found no mixture of the columns"
            f" ({answer.message.split('.')[0]})."
        )
    mixture = np.maximum(answer.x, 0)
    prices = np.maximum(-answer.ineqlin.marginals, 0) if m else np.zeros(0)
    return mixture / mixture.sum(), prices
