"""The door: a CMDP in, a `Result` out, for every method.

    model -> standard form -> phase 1 -> answer of a method -> certificate -> result

Phase 1 decides whether any policy meets the constraints. A method improves policies on the scaled
form, or with a fixed budget in the model's own units, and returns an `Answer`. `stages` has the
order in which answers are looked for. Only `door` certifies one, on the unscaled form, and says it
back in the user's words. Small models have a road of their own (`vertices`), utilities too
(`climb`), and `trajectory` keeps the history of a fixed budget.
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_number
from cmdpax.exact.standard import Scaled
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, Result
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.solvers.algorithm import Oracle
from cmdpax.solvers.certified import WarmStart
from cmdpax.solvers.climb import solve_utility
from cmdpax.solvers.door import Door
from cmdpax.solvers.stages import solved
from cmdpax.solvers.table import DEFAULT, KEY, choose
from cmdpax.solvers.vertices import certified_vertices, has_vertex
from cmdpax.stopping import Stopper
from cmdpax.utilities.utility import Utility


def solve(
    model: CMDP | FunctionCMDP,
    method: str | Oracle | None = None,
    *,
    eps: float = 1e-6,
    features: Any = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callback | None = None,
    utility: Utility | None = None,
    start: Result | None = None,
    **settings: Any,
) -> Result:
    """Solve a constrained MDP to one certified stationary policy.

    method: None leaves nothing to choose; `cmdpax.methods` lists the others, an `Oracle` of one's
    own drives Algorithm 1, and `result.method` says what ran. eps: gap and violations are at most
    this share of what policies can change, `max_pi V - min_pi V`. features: `[S, A, d]`, makes
    policies log-linear; the certificate then still measures against the best of all policies.

    time_limit: seconds; the clock is looked at between evaluations of policies, and the certificate
    of the last one is always finished. Fixed budgets have none. memory_limit: GB of the whole
    process, for the default method on a reward. callback: sees every row of the trace as it comes,
    and those of a fixed budget at its end.

    utility: maximised instead of the reward, one of `cmdpax.utilities`; eps is then a share of
    `F(best bound) - F(uniform policy)`. start: a result of this model, or of one with the same
    states, actions and constraints whose rewards, budgets or chances differ; its prices and
    potentials are where the search begins, and nothing of it is believed. settings: the method's
    own. A method that has a fixed-budget form too runs it when one of that form's settings is
    given.

    An infeasible model is answered with its proof. Stops with status `limit` after the time limit,
    Ctrl-C (a second one ends it at once, with nothing) or when rounding leaves nothing to gain,
    with the best policy so far.
    """
    if isinstance(model, FunctionCMDP):
        _refuse_choices(method, features, utility, settings, memory_limit, start)
        check_limits(eps, callback, time_limit=time_limit)
        return solved(Door(model, eps, time_limit=time_limit, callback=callback), {})
    row, own = choose(model, DEFAULT if method is None else method, features)
    limits = {"time_limit": time_limit, "memory_limit": memory_limit}
    check_limits(eps, callback, **limits)
    row.check_settings(settings, row.settings)
    if memory_limit is not None and (row.name != DEFAULT or utility is not None):
        what = row.name if utility is None else "a utility"
        raise InputError(f"memory_limit: only {DEFAULT} keeps to one; leave it out for {what}.")
    if start is not None:
        if row.name not in (DEFAULT, KEY) or utility is not None:
            raise InputError(f"start: only {DEFAULT} and {KEY} take one, and no utility does.")
        _check_start(model, start)
    settings = {**own, **settings}
    kind: dict[str, Any] = {"eps": eps, "method": row, "callback": callback, **limits}
    if utility is not None:
        result = solve_utility(model, utility, settings, **kind)
        if result is not None:
            return result
        # what no policy can meet has no utility: the answer is that of the model itself
        door = Door(model, eps, time_limit=time_limit)
        return _explained(door, solved(door, {}))
    may_pivot = method is None and not settings and memory_limit is None
    if may_pivot and has_vertex(model):
        result = _solve_small(model, eps, time_limit, callback, start)
        if result is not None:
            return result
    door = Door(model, **kind, may_pivot=may_pivot, start=start)
    return _explained(door, solved(door, settings))


def _solve_small(
    model: CMDP,
    eps: float,
    time_limit: float | None,
    callback: Callback | None,
    start: Result | None,
) -> Result | None:
    """The certified vertex of a small model; None where the door is to be asked.

    It takes less than a second: nobody looks at a clock.
    """
    if time_limit == 0:
        return None
    prices = None if start is None else model.limits.unfold(start.multipliers)
    (result,) = certified_vertices([model], eps, prices)
    if result is not None and callback is not None:
        with Stopper():
            callback(result.trace[0])
    return result


def check_limits(eps: float, callback: Any, **limits: float | None) -> None:
    """Demand a share eps, limits >= 0, and a callback that is a function."""
    check_number("eps", eps, above=0, below=1)
    for name, limit in limits.items():
        if limit is not None:
            check_number(name, limit, least=0)
    if callback is not None and not callable(callback):
        raise InputError("callback: it must be a function that takes a row of the trace.")


def _refuse_choices(*choices: Any) -> None:
    """Refuse whatever a model whose rows are a function does not take."""
    if any(choice is not None and choice != {} for choice in choices):
        raise InputError(
            "solve: a model of rows takes eps, time_limit and callback alone; for methods,"
            " features, utilities, starts and settings build it with"
            " CMDP.from_rows(..., stored=True)."
        )


def _check_start(model: CMDP, start: Any) -> None:
    """Refuse a start that is no result, or one of a model with other states, actions or limits."""
    if not isinstance(start, Result):
        raise InputError(f"start: a Result is needed, not {type(start).__name__}.")
    theirs = (*start.policies[1].shape[1:], len(start.limits))
    own = (*model.policy_shape, model.constraint_count)
    if theirs != own:
        said, needed = (f"policy {one[:-1]}, {one[-1]} constraints" for one in (theirs, own))
        raise InputError(f"start: a result of another model ({said} for {needed}); leave it out.")


def _explained(door: Door, result: Result) -> Result:
    """The result, if infeasible with by how much each limit alone must give way, `[m]`.

    Infinite where that is not enough; NaN where time ran out, or rounding has the last word.
    """
    if result.status != "infeasible":
        return result
    with door.stop:
        needed = _relaxations(door)
    return replace(result, relaxations=needed, seconds=time.perf_counter() - door.started)


def _relaxations(door: Door) -> np.ndarray:
    """How far the best value of each limit's function is from its bound, with the other limits."""
    model, limits = door.model, door.model.limits
    needed = np.full(len(limits), np.nan)
    for i, (low, high) in enumerate(limits.bounds):
        others = np.arange(len(limits)) != i
        relaxed = model.replace(
            reward=model.constraints[i],
            constraints=model.constraints[others],
            thresholds=[tuple(pair) for pair in limits.bounds[others]],
            senses=None,
            minimise=False,
        )
        sides = [side for side in ((low, False), (high, True)) if np.isfinite(side[0])]
        for bound, minimise in sides:
            left = door.seconds_left
            if door.stop() or left == 0:
                return needed
            turned = relaxed.replace(minimise=minimise)
            best = solved(Door(turned, door.eps, time_limit=left), {})
            lack = best.reward - bound if minimise else bound - best.reward
            off = best.certificate.gap if best.scaled_violation <= door.eps else np.inf
            if best.status == "infeasible":
                needed[i] = np.inf
            elif best.status == "certified" or off <= door.eps * lack:  # it is as exact
                needed[i] = np.fmax(needed[i], max(lack, 0.0))
    return needed


def solve_again(model: CMDP, eps: float, warm: WarmStart) -> Result:
    """Solve as by default, from a warm start, which is brought up to date."""
    return solved(Door(model, eps, warm=warm, may_pivot=True), {})


def scaled_form(model: CMDP, eps: float) -> Scaled:
    """The form of a model in units of which eps is the tolerance."""
    return Door(model, eps).scaled
