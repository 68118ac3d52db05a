"""The theorist's door: a fixed budget, no phase 1, and the whole history."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_count
from cmdpax.exact.certificate import lagrangian_bound
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP, check_model
from cmdpax.model.result import Trajectory
from cmdpax.solvers.climb import objective_of
from cmdpax.solvers.table import choose
from cmdpax.utilities.utility import Utility


def trajectory(
    model: CMDP,
    method: str,
    *,
    features: Any = None,
    keep: Collection[int] = (),
    utility: Utility | None = None,
    **settings: Any,
) -> Trajectory:
    """Run a method for a fixed budget and keep what every policy-gradient evaluation led to.

    features: `[S, A, d]`, makes policies log-linear. keep: numbers of the iterates whose policies
    come back too; 0 is the initial one. utility: as in `solve`; rewards are then its concave value.
    settings: the method's own; as arrays of one batch shape they are as many runs, done at once. Of
    augmented-Lagrangian methods only step sizes may be arrays.
    """
    row, own = choose(model, method, features)
    if row.trace is None:
        raise InputError(f"method '{row.name}' has no fixed-budget form; use cmdpax.solve.")
    row.check_settings(settings, row.budget)
    if not isinstance(keep, Collection):
        raise InputError(f"keep is {keep!r}; give numbers of iterates, as in keep=(0, 10).")
    keep = [check_count("keep", k, least=0) for k in keep]
    form = StandardForm.of(model)
    if utility is not None:
        model, objective = objective_of(model, utility)
        row.check_utility(utility)
        form = StandardForm.of(model).replace(objective=objective)
    row.check_criterion(form.kind)
    run = row.trace(form, keep, **own, **settings)
    limits, kept = model.limits, run.policies
    return replace(
        run,
        policy=model.as_table(model.by_choice(run.policy)),
        policies=None if kept is None else model.as_table(model.by_choice(kept)),
        rewards=-run.rewards if model.minimise else run.rewards,
        margins=limits.worst(run.margins),
        weights=limits.fold(run.weights),
        multipliers=limits.fold(run.multipliers),
    )


def certified_gaps(model: CMDP, run: Trajectory, every: int = 1) -> np.ndarray:
    """Gap of every `every`-th iterate of an unbatched run, proven -> `[1 + N // every]`.

    `D(w) = max_pi V_0 + w.(V - b)` bounds the optimum for any w >= 0; iterate k is measured against
    the smallest bound that the weights seen up to k give. It may be negative where the iterate
    violates a constraint.
    """
    check_model(model)
    if not isinstance(run, Trajectory):
        raise InputError(f"run: a Trajectory is needed, not {type(run).__name__}.")
    if run.rewards.ndim > 1:
        raise InputError("run: it is a batch of runs; give one of them, as in run.one(0).")
    if (*run.policy.shape, run.weights.shape[-1]) != (*model.policy_shape, len(model.limits)):
        raise InputError("run: it is of another model; give the one that it was run on.")
    every = check_count("every", every)
    form, bound, choices, gaps = StandardForm.of(model), np.inf, None, []
    sign = -1.0 if model.minimise else 1.0
    for reward, folded in zip(run.rewards[::every], run.weights[::every], strict=True):
        weights = model.limits.unfold(folded)
        best = form.criterion.plan(form, form.pseudo_reward(weights), choices)
        choices = best.choices
        bound = min(bound, lagrangian_bound(form, form.reward, weights, best.values))
        gaps.append(bound - sign * float(reward))
    return np.array(gaps)
