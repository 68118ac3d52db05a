"""The stages of one solve, in their order; the first that has a result ends it.

no constraints: one plan
a start, or a model for which pivots pay: a short search without phase 1, then pivots
phase 1: whether any policy meets the constraints
the method, on the scaled form, or by a fixed budget in the model's own units
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.bounds import claim, claims
from cmdpax.exact.certificate import certify, with_ray
from cmdpax.exact.planning import Plan
from cmdpax.exact.ranges import Ranges, attained_ranges
from cmdpax.model.result import Result, Row
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.solvers.algorithm import Answer
from cmdpax.solvers.certified import Task
from cmdpax.solvers.columns import MAX_COLUMNS, Corrective, columns_within, first_column
from cmdpax.solvers.door import LOOSE, Door, Proven
from cmdpax.solvers.feasibility import RELAXED, Feasibility, decide_feasibility
from cmdpax.solvers.key_simplex import by_pivots, plans_before_pivots
from cmdpax.solvers.table import ACCURACY, DEFAULT, KEY, find_method

PLANNED = 0.25  # accuracy of the plan without constraints, relative to its tolerance
SHARP = PLANNED / 10  # the same, relative to eps of conceivable values, before the range is known
STARTED, FROM_START = 1e-3, 20  # error of the first plan of a start, and plans before phase 1


def solved(door: Door, settings: Mapping[str, Any]) -> Result:
    """The result of a door with settings of its method."""
    method, stop, warm = door.method, door.stop, door.warm
    most = MAX_COLUMNS
    if door.memory_limit is not None:
        most = columns_within(door.form, door.memory_limit)
    if isinstance(door.model, FunctionCMDP):  # those in use by two mixtures, and a new one
        most = 2 * door.form.constraint_count + 3
    if not door.form.constraint_count and method.name == DEFAULT and not settings:
        with stop:
            return _unconstrained(door)
    solver = certified_solver(door, settings)
    with stop:
        form = door.scaled.form
        plans = 0 if method.name == KEY else None
        plans = plans_before_pivots(form) if door.may_pivot else plans
        ahead = plans or 0
        if door.start is not None and form.constraint_count:
            prices = door.model.limits.unfold(door.start.multipliers)
            warm.multipliers = door.scaled.scaled_weights(prices)
            ahead = FROM_START + form.constraint_count if plans is None else ahead
        if ahead and solver is not None and (result := _ahead(door, solver, most, ahead)):
            return result
        if plans is not None and not stop() and (result := _by_pivots(door)):
            return result
        known, guess = warm.columns_for(form), partial(door.ranges.guess, form, door.units)
        accuracy = ACCURACY * door.eps
        verdict = decide_feasibility(form, door.eps, known, accuracy, most, stop, guess)
        if verdict.status in ("infeasible", "open"):
            return _least_violating(door, verdict)
        if solver is not None:
            return _by_method(door, solver, verdict, most)
    return door.result(by_budget(door, settings))


def certified_solver(door: Door, settings: Mapping[str, Any]) -> Callable[..., Answer] | None:
    """The certified form of the method with its settings; None where a fixed budget is to run."""
    method = door.method
    if method.solve is not None and not settings.keys() - method.own_settings.keys():
        return partial(method.solve, **settings)
    if door.time_limit is not None:
        counts = [one for one in ("outer", "inner", "steps") if one in method.budget]
        raise InputError(
            f"time_limit: {method.name} has a fixed budget; set its {' and '.join(counts)}."
        )
    return None


def _unconstrained(door: Door) -> Result:
    """Without constraints one plan is the answer, and its values prove it.

    Most are as exact as rounding allows. Only where one is not it matters what policies change.
    """
    form = door.form
    best = _planned(door, SHARP * door.eps * form.scales[0, 1], door.heard("dual_potential"))
    policies, proof, values = _of_plan(door, best, None)
    door.warm.ranges = Ranges.of_answer(form, proof.reward_bounds)
    if proof.gap > door.tolerances[0]:
        door.warm.ranges = own = attained_ranges(form, door.stop, best=best.values)
        del door.ranges, door.tolerances
        proof = replace(proof, ranges=own.bounds, range_potentials=own.potentials)
        if proof.gap > door.tolerances[0] or own.narrow or not own.has_least:
            best = _planned(door, PLANNED * float(door.tolerances[0]), best.values)
            policies, proof, values = _of_plan(door, best, own)
    row: Row = {"outer": 1, "evaluations": 1, "gap": door.errors(proof)[0]}
    door.record({**row, "margins": values})
    status = door.status(proof)
    if status == "limit" and door.sharper is not None:
        sharper = _unconstrained(door.sharper)
        if sharper.status == "certified":
            return sharper
    door.attempts.refused = int(status == "limit")  # the plan is the optimum, to rounding
    return door.said(status, (policies, proof, values))


def _planned(door: Door, tolerance: float, guess: np.ndarray | None) -> Plan:
    """A plan of the reward less its constant; guess: values `[S]`."""
    form = door.form
    kind: dict[str, Any] = {"tolerance": tolerance, "stop": door.stop}
    return form.criterion.plan(form, claims(form)[0].reward, values=guess, **kind)


def _of_plan(door: Door, best: Plan, ranges: Ranges | None) -> Proven:
    """The policy of a plan of the reward, whose values prove it."""
    form, criterion = door.form, door.form.criterion
    kind: dict[str, Any] = {}
    if criterion.parts == 1:
        if form.is_small:
            potential = criterion.upper(form, claims(form)[0], best.choices)
        else:
            potential = criterion.centred(form, best.values)
        kind = {"potential": potential, "is_optimal": True}
    policies = criterion.answer(form, best.choices, ((1.0, best.choices),))
    return policies, *certify(form, policies, np.zeros(0), best.choices, ranges, **kind)


def _ahead(door: Door, solver: Callable[..., Answer], most: int, plans: int) -> Result | None:
    """The result of a search of so many plans, without phase 1; None if it ends without.

    It begins at the start's prices, or at 0. A feasible policy is shown by the certificate. Where
    none is, pivots go on from the prices, or phase 1 from the columns.
    """
    form, warm = door.scaled.form, door.warm
    if warm.multipliers is None:
        warm.multipliers = np.zeros(form.constraint_count)
    guess = door.ranges.guess(form, door.units, np.append(1.0, warm.multipliers))
    if (heard := door.heard("dual_potential")) is not None:
        guess = heard / door.units[0]
    reward, accuracy = form.pseudo_reward(warm.multipliers), ACCURACY * door.eps
    kind: dict[str, Any] = {"values": guess, "tolerance": STARTED, "stop": door.stop}
    best = form.criterion.plan(form, reward, **kind)
    columns = first_column(form, best, accuracy, warm.multipliers)

    def is_over() -> bool:
        return door.is_over() or len(door.trace) >= plans

    task = Task(door.eps, columns, most, is_over, None, door.record, door.accept, warm)
    try:
        answer = solver(form, task)
    except NumericalError:  # the other ways may still do
        return None
    if door.attempts.accepted:
        return door.result(answer)
    door.attempts.restart()
    return None


def _by_pivots(door: Door) -> Result | None:
    """The result of the key simplex; None where it ends without one that is certified."""
    form, warm = door.scaled.form, door.warm
    outcome = by_pivots(form, door.eps, warm.multipliers, stop=door.stop)
    answer = outcome.answer
    if outcome.ray is None:
        warm.multipliers = outcome.weights
    if answer is None:
        return None
    assert answer.plan is not None
    bound = answer.plan.value - float(answer.weights @ form.thresholds)
    row: Row = {"outer": 1, "evaluations": outcome.pivots, "gap": bound - outcome.values[0]}
    door.record({**row, "margins": outcome.values[1:]})
    if not door.accept(answer):
        door.attempts.restart()
        return None
    door.method = find_method(KEY)
    return door.result(answer)


def _least_violating(door: Door, verdict: Feasibility) -> Result:
    """The policy of phase 1: the least violating one, with the proof that none is feasible.

    Where rounding (values of 1e9 that differ by 1) spoils the proof the status is `limit`: nothing
    is claimed unproven. Where time ran out there is no verdict, and nothing but the policy's own
    certificate.
    """
    form, columns = door.form, verdict.columns
    policy, choices = Corrective().policy(form, columns), columns.choices[0]
    policies = form.criterion.answer(form, policy, columns.policies)
    potential, accuracy = None, ACCURACY * door.eps
    if verdict.status != "open":  # there is time: the first plan was a loose one
        reward, tolerance = claim(form, form.reward).reward, float(door.tolerances[0])
        choices = form.criterion.plan(form, reward, choices, tolerance=tolerance).choices
    elif not form.is_small and form.criterion.parts == 1:  # none for more than what is known
        accuracy, values = LOOSE, columns.potentials[0]
        if values is not None:
            potential = door.scaled.potential(values)
    no_weights = np.zeros(form.constraint_count)
    kind: dict[str, Any] = {"potential": potential, "tolerances": accuracy * door.scaled.units}
    proof, values = certify(form, policies, no_weights, choices, door.ranges, **kind)
    status = door.status(proof)
    if verdict.ray is not None and verdict.plan is not None:
        limits = door.model.limits
        # of two rows of a limit one is priced: less the other's price it proves the more
        ray = limits.unfold(limits.fold(door.scaled.ray(verdict.ray)))
        rayed = with_ray(form, proof, ray, verdict.plan.choices)
        if rayed.ray_bound is not None and rayed.ray_bound < 0:
            return door.said("infeasible", (policies, rayed, values))
        door.attempts.refused += 1
    if status == "limit" and verdict.status != "open" and door.sharper is not None:
        sharper = _least_violating(door.sharper, verdict)
        if sharper.status != "limit":
            return sharper
    return door.said(status, (policies, proof, values), points=columns.points)


def _by_method(
    door: Door, solver: Callable[..., Answer], verdict: Feasibility, most: int
) -> Result:
    """The result of the method; where it finds nothing at the very edge, a tolerance away."""
    form, columns, share = door.scaled.form, verdict.columns, 1.0
    while True:
        limits = share * door.eps, columns, most, door.is_over, door.seconds_left
        answer = None
        try:
            answer = solver(form, Task(*limits, door.record, door.accept, door.warm))
        except NumericalError:
            if verdict.status != "tight":
                raise
        is_done = door.is_over() or verdict.status != "tight" or share < 1
        if answer is not None and (is_done or door.accept(answer)):
            return door.result(answer)
        if is_done:
            return _least_violating(door, verdict)
        room, share = RELAXED * door.eps, (1 - RELAXED) / 2
        form = form.replace(thresholds=form.thresholds - room)
        shifted = columns.margins_of_columns + room
        columns = replace(columns, margins_of_columns=shifted, last_gap=None)


def by_budget(door: Door, settings: Mapping[str, Any]) -> Answer:
    """The answer of a fixed-budget run, whose weights are in the form's own units."""
    method, model = door.method, door.model
    assert method.trace is not None
    run = method.trace(door.form, (), **settings)
    if run.diverged:
        raise NumericalError(
            f"{method.name}: step {run.diverged} produced numbers that are not finite; use"
            " smaller step sizes."
        )
    sign = -1.0 if model.minimise else 1.0
    histories = zip(run.rewards, model.limits.worst(run.margins), strict=True)
    for k, (reward, margins) in enumerate(histories):
        numbers = {"reward": sign * float(reward), "margins": margins.tolist()}
        door.keep({"evaluations": k, **numbers})
    policy = model.by_choice(run.policy)
    return Answer(policy, run.multipliers, averaged=run.averaged, in_own_units=True)
