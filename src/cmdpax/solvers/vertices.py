"""Small models from rows to certified results, by the key simplex in one compiled call.

What `StandardForm`, `Ranges`, `by_pivots` and `certify` do one after another for any model, with
the same formulas, for plain models of at most `ALONE` states. Whatever is not certified there, as a
model without a feasible policy, is for the door.
"""

import time
from collections.abc import Sequence

import numpy as np

from cmdpax.exact.discounted import FAR
from cmdpax.exact.ranges import EXACT, ROUGH
from cmdpax.exact.stack import is_plain, stacked
from cmdpax.loops import vertices
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import DIGITS, FLOOR, TINIEST, Certificate, Result
from cmdpax.solvers.key_simplex import ALONE, LOWERED, MISSED, SWAPS
from cmdpax.solvers.table import ACCURACY, DEFAULT, KEY

MOST, ROWS = 5000, 100  # pivots and rows: nobody looks at a clock meanwhile


def has_vertex(model: CMDP) -> bool:
    """Whether the compiled loop is for such models."""
    return model.states <= ALONE and model.limits.row_count <= ROWS and is_plain(model)


def certified_vertices(
    models: Sequence[CMDP], eps: float, prices: np.ndarray | None = None
) -> list[Result | None]:
    """A certified result for each of n models of one shape, or None.

    Each starts from the prices and the keys of the one before, the first from prices `[m]`.
    """
    started = time.perf_counter()
    answers = _answers(models, eps, prices)
    seconds = (time.perf_counter() - started) / len(models)
    certified = answers.are_certified.tolist()
    return [
        _result(model, answers, n, eps, seconds) if certified[n] else None
        for n, model in enumerate(models)
    ]


def _answers(models: Sequence[CMDP], eps: float, prices: np.ndarray | None) -> vertices.Answers:
    """The arrays of all certificates."""
    n, m, K, S = len(models), len(models[0].limits), models[0].choices, models[0].states
    M = models[0].limits.row_count
    rough = 0.0 if S <= EXACT else ROUGH
    accuracy = eps, MISSED, LOWERED, ACCURACY, MOST, SWAPS, FLOOR, DIGITS, TINIEST, rough, FAR
    answers = vertices.Answers(
        np.empty(n, bool),
        np.empty((n, K)),
        np.empty((n, m)),
        np.empty((n, 1 + m, 2)),
        np.empty((n, m, 2)),
        np.empty(n),
        np.empty((n, 1 + m, S)),
        np.empty((n, S)),
        np.empty((n, 1 + m, 2)),
        np.empty((n, 1 + m, 2, S)),
        np.empty((n, 1 + max(M, K - S), 1 + M)),
        np.empty((n, 8)),
    )
    own = np.zeros(M) if prices is None else np.array(prices)
    vertices.certify_all(stacked(models), own, vertices.Shares(*accuracy), answers)
    return answers


def _result(model: CMDP, answers: vertices.Answers, n: int, eps: float, seconds: float) -> Result:
    """The result of model n."""
    steps, *errors, gap, violation, count = answers.numbers[n].tolist()
    bounds, has_limits = answers.bounds[n], len(model.limits) > 0
    low, high = bounds[0].tolist()
    proof = Certificate(
        reward_bounds=(low, high),
        margin_bounds=answers.margins[n],
        dual_bound=float(answers.dual_bounds[n]),
        weights=answers.weights[n],
        value_potentials=answers.potentials[n],
        dual_potential=answers.dual_potentials[n],
        ranges=answers.ranges[n],
        range_potentials=answers.range_potentials[n],
        minimise=model.minimise,
    )
    row = {
        "outer": 1,
        "evaluations": int(steps) if has_limits else 1,
        "gap": errors[2],
        "violation": errors[3],
        "scaled_gap": errors[0],
        "scaled_violation": errors[1],
        "seconds": seconds,
    }
    return Result.of(
        model,
        ((1.0, answers.policies[n]),),
        proof,
        status="certified",
        method=KEY if has_limits else DEFAULT,
        eps=eps,
        values=bounds[1:].sum(1) / 2,
        scaled_gap=gap,
        scaled_violation=violation,
        trace=[row],
        seconds=seconds,
        points=answers.points[n, : int(count)] if has_limits else None,
        notes=model.notes,
    )
