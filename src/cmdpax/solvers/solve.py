"""The door: a CMDP in, a `Result` out, for every method.

    model -> standard form -> phase 1 -> answer of a method -> certificate -> result

Phase 1 decides whether any policy meets the constraints. A method improves policies on the scaled
form, or with a fixed budget in the model's own units, and returns an `Answer`. Only the door
certifies it, on the unscaled form, and says it back in the user's words. `trajectory` is the
theorist's door: a fixed budget, no phase 1, and the whole history.
"""

import sys
import time
from collections.abc import Callable, Collection, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from cmdpax.errors import InputError, NumericalError, check_count, check_number
from cmdpax.exact.bounds import claim, claims, gauge_of_sizes, mixed
from cmdpax.exact.certificate import (
    certify,
    heard_potentials,
    lagrangian_bound,
    said_back,
    scaled_errors,
    with_ray,
)
from cmdpax.exact.planning import Plan
from cmdpax.exact.ranges import Ranges, attained_ranges
from cmdpax.exact.standard import Renumbered, Scaled, StandardForm, form_of, scaled
from cmdpax.exact.systems import ill_conditioned
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP, check_model
from cmdpax.model.result import Callback, Certificate, Mixture, Result, Row, Status, Trajectory
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.solvers.algorithm import Answer, Oracle
from cmdpax.solvers.certified import Task, WarmStart
from cmdpax.solvers.climb import Climb, max_min, objective_of, raised
from cmdpax.solvers.columns import MAX_COLUMNS, Corrective, first_column
from cmdpax.solvers.feasibility import RELAXED, Feasibility, decide_feasibility
from cmdpax.solvers.key_simplex import by_pivots, plans_before_pivots
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.table import (
    ACCURACY,
    DEFAULT,
    KEY,
    Method,
    find_method,
    methods,
    of_oracle,
)
from cmdpax.solvers.vertices import certified_vertices, has_vertex
from cmdpax.stopping import Stopper
from cmdpax.utilities.utility import Utility

PLANNED = 0.25  # the same of a plan that is the answer
SHARP = PLANNED / 10  # the same of a share of all possible values, before the range is known
LOOSE = 1e-2  # accuracy of a certificate, relative to the range, once time is up
REFUSALS, GAIN = 4, 0.9  # certificates in a row that gain less than a tenth before a search ends
STARTED, FROM_START = 1e-3, 20  # error of the first plan of a start, and plans before phase 1
TIGHTER = 4  # times that max-min is solved, each to a tenth of the tolerance before
Proven = tuple[Mixture, Certificate, np.ndarray]  # policies, their proof, their values [m]


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
    process, for the default method. callback: sees every row of the trace as it comes, and those of
    a fixed budget at its end. utility: maximised instead of the reward, one of `cmdpax.utilities`;
    eps is then a share of `F(best bound) - F(uniform policy)`. start: a result of this model, or of
    one with the same states, actions and constraints whose rewards, budgets or chances differ; its
    prices and potentials are where the search begins, and nothing of it is believed. settings: the
    method's own. A method that has a fixed-budget form too runs it when one of that form's settings
    is given.

    An infeasible model is answered with its proof. Stops with status `limit` after the time limit,
    Ctrl-C (a second one ends it at once, with nothing) or when rounding leaves nothing to gain,
    with the best policy so far.
    """
    if isinstance(model, FunctionCMDP):
        _refuse_choices(method, features, utility, settings, memory_limit, start)
        check_number("eps", eps, above=0, below=1)
        door = _Door(model, find_method(DEFAULT), eps, time_limit, callback=callback)
        return door.solve({})
    row, own = choose(model, DEFAULT if method is None else method, features)
    check_number("eps", eps, above=0, below=1)
    row.check_settings(settings, row.settings)
    if memory_limit is not None and row.name != DEFAULT:
        raise InputError(f"memory_limit: only {DEFAULT} keeps to one; leave it out for {row.name}.")
    limits = row, eps, time_limit, memory_limit, callback
    if start is not None:
        if row.name not in (DEFAULT, KEY) or utility is not None:
            raise InputError(f"start: only {DEFAULT} and {KEY} take one, and no utility does.")
        check_start(model, start)
    if utility is not None:
        return _solve_utility(model, utility, limits, {**own, **settings})
    may_pivot = method is None and not settings and memory_limit is None
    if may_pivot and has_vertex(model):
        result = _solve_small(model, eps, time_limit, callback, start)
        if result is not None:
            return result
    return _Door(model, *limits, may_pivot=may_pivot, start=start).solve({**own, **settings})


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
    _check_limits(callback, time_limit=time_limit)
    if time_limit == 0:
        return None
    prices = None if start is None else model.limits.unfold(start.multipliers)
    (result,) = certified_vertices([model], eps, prices)
    if result is not None and callback is not None:
        with Stopper():
            callback(result.trace[0])
    return result


def _check_limits(callback: Any, **limits: float | None) -> None:
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


def _solve_utility(
    model: CMDP, utility: Utility, limits: tuple[Any, ...], settings: dict[str, Any]
) -> Result:
    """The same of a utility, through the door of its linear model at the uniform policy."""
    row, eps = limits[:2]
    linear, objective = objective_of(model, utility)
    row.check_utility(utility)
    door = _Door(linear, *limits)
    result: Result | None = None
    if utility.has_gradient:
        result = Climb(door, model, objective).solve(settings, row.name == DEFAULT)
    else:
        share = eps
        for _ in range(TIGHTER):
            raised_answer = _Door(raised(model, objective), row, share).solve({})
            if raised_answer.status == "infeasible":
                break
            result = max_min(door, model, objective, raised_answer)
            if result.status == "certified":
                break
            share /= 10
    # what no policy can meet has no utility: the answer is that of the model itself
    return _Door(model, find_method(DEFAULT), eps).solve({}) if result is None else result


def check_start(model: CMDP, start: Any) -> None:
    """Refuse a start that is no result, or one of a model with other states, actions or limits."""
    if not isinstance(start, Result):
        raise InputError(f"start: a Result is needed, not {type(start).__name__}.")
    theirs = (*start.policies[1].shape[1:], len(start.limits))
    own = (*model.policy_shape, model.constraint_count)
    if theirs != own:
        said, needed = (f"policy {one[:-1]}, {one[-1]} constraints" for one in (theirs, own))
        raise InputError(f"start: a result of another model ({said} for {needed}); leave it out.")


def solve_again(model: CMDP, eps: float, warm: WarmStart) -> Result:
    """Solve as by default, from a warm start, which is brought up to date."""
    return _Door(model, find_method(DEFAULT), eps, warm=warm, may_pivot=True).solve({})


def scaled_form(model: CMDP, eps: float) -> Scaled:
    """The form of a model in units of which eps is the tolerance."""
    return _Door(model, find_method(DEFAULT), eps).scaled


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
    settings: the method's own; arrays of one batch shape run
    all their combinations at once.
    """
    row, own = choose(model, method, features)
    if row.trace is None:
        raise InputError(f"method '{row.name}' has no fixed-budget form; use cmdpax.solve.")
    row.check_settings(settings, row.budget)
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
    if run.rewards.ndim > 1:
        raise InputError("run: it is a batch of runs; give one of them, as in run.one(0).")
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


def choose(model: CMDP, method: Any, features: Any) -> tuple[Method, dict[str, Any]]:
    """The row of a method, its log-linear form if there are features, and what to pass it."""
    check_model(model)
    row = find_method(method) if isinstance(method, str) else of_oracle(method)
    if features is None:
        if row.features:
            raise InputError(
                f"method '{row.name}' has log-linear policies; give it features, for example"
                " --features tiles:60,4,3."
            )
        row.check_criterion(model.criterion)
        return row, {}
    if not (row.features or row.linear):
        names = ", ".join(one.name for one in methods.values() if one.features or one.linear)
        raise InputError(f"method '{row.name}' takes no features; these do: {names}.")
    row = row if row.features else methods[row.linear]
    row.check_criterion(model.criterion)
    features = features if isinstance(features, Features) else Features(features)
    features.check(model.states, model.actions)
    return row, {"features": features}


@dataclass
class _Door:
    """One solve: its limits, its trace, and the certificate that was accepted."""

    model: Any  # CMDP or FunctionCMDP
    method: Method
    eps: float
    time_limit: float | None = None
    memory_limit: float | None = None
    callback: Callback | None = None
    warm: WarmStart = field(default_factory=WarmStart)
    explains: bool = True  # whether an infeasible model is told what would make it feasible
    may_pivot: bool = False  # whether the key simplex comes first, where it is the faster one
    start: Result | None = None  # of a model that resembles this one

    def __post_init__(self) -> None:
        _check_limits(self.callback, time_limit=self.time_limit, memory_limit=self.memory_limit)
        self.started, self.stop = time.perf_counter(), Stopper(self.time_limit)
        self.form = form_of(self.model)
        self.explains &= isinstance(self.model, CMDP)
        self.method.check_criterion(self.form.kind)
        self.renumbered: Renumbered | None = None
        is_large = self.method.name == DEFAULT and not self.form.is_small
        # the few plans without constraints do not pay for copies of all rows
        is_plain = self.form.criterion.parts == 1 and self.form.constraint_count > 0
        is_large &= isinstance(self.model, CMDP)
        if is_large and is_plain and not self.form.transitions.order.is_ordered:
            self.renumbered = self.form.in_order()
            self.form = self.renumbered.form
        self.trace: list[Row] = []
        self.accepted: Proven | None = None
        self.measured: tuple[Certificate, tuple[float, float]] | None = None  # the latest errors
        self.refused, self.smallest = 0, np.inf  # certificates in a row that gained nothing

    @cached_property
    def ranges(self) -> Ranges:
        """What policies can change."""
        if self.warm.ranges is None:
            guesses = self._heard("range_potentials")
            self.warm.ranges = attained_ranges(self.form, self.stop, guesses)
        return self.warm.ranges

    @cached_property
    def tolerances(self) -> np.ndarray:
        """What gap and violations may be, `[1 + m]`."""
        return self.ranges.tolerances(self.eps, self.model.limits.compared)

    @cached_property
    def units(self) -> np.ndarray:
        """Of which eps is the tolerance, `[1 + m]`."""
        if self.warm.units is None:
            units = self.tolerances / self.eps
            self.warm.units = np.where(units > 0, units, 1.0)
        return self.warm.units

    @cached_property
    def scaled(self) -> Scaled:
        """The form in these units."""
        return scaled(self.form, self.units)

    def solve(self, settings: Mapping[str, Any]) -> Result:
        """Phase 1, the method, the certificate."""
        most, accuracy = MAX_COLUMNS, ACCURACY * self.eps
        if self.memory_limit is not None:
            most = columns_within(self.form, self.memory_limit)
        if isinstance(self.model, FunctionCMDP):  # those in use by two mixtures, and a new one
            most = 2 * self.form.constraint_count + 3
        method, stop, warm = self.method, self.stop, self.warm
        if not self.form.constraint_count and method.name == DEFAULT and not settings:
            with stop:
                return self._unconstrained()
        solver = None if settings.keys() - method.own_settings.keys() else method.solve
        if solver is None and self.time_limit is not None:
            counts = [one for one in ("outer", "inner", "steps") if one in method.budget]
            raise InputError(
                f"time_limit: {method.name} has a fixed budget; set its {' and '.join(counts)}."
            )
        with stop:
            form = self.scaled.form
            plans = 0 if method.name == KEY else None
            plans = plans_before_pivots(form) if self.may_pivot else plans
            ahead = plans or 0
            if self.start is not None and form.constraint_count:
                prices = self.model.limits.unfold(self.start.multipliers)
                warm.multipliers = self.scaled.scaled_weights(prices)
                ahead = FROM_START + form.constraint_count if plans is None else ahead
            if ahead and solver is not None:
                result = self._ahead(partial(solver, **settings), most, ahead)
                if result is not None:
                    return result
            if plans is not None and not stop() and (result := self._by_pivots()) is not None:
                return result
            known, guess = warm.columns_for(form), partial(self.ranges.guess, form, self.units)
            verdict = decide_feasibility(form, self.eps, known, accuracy, most, stop, guess)
            if verdict.status in ("infeasible", "open"):
                return self._phase_one(verdict)
            if solver is not None:
                return self._solved(partial(solver, **settings), verdict, most)
        return self._result(self._trace(settings))

    def _unconstrained(self) -> Result:
        """Without constraints one plan is the answer, and its values prove it.

        Most are as exact as rounding allows. Only where one is not it matters what policies change.
        """
        form = self.form
        best = self._planned(SHARP * self.eps * form.scales[0, 1], self._heard("dual_potential"))
        policies, proof, values = self._of_plan(best, None)
        self.warm.ranges = Ranges.of_answer(form, proof.reward_bounds)
        if proof.gap > self.tolerances[0]:
            self.warm.ranges = own = attained_ranges(form, self.stop, best=best.values)
            del self.ranges, self.tolerances
            proof = replace(proof, ranges=own.bounds, range_potentials=own.potentials)
            if proof.gap > self.tolerances[0] or own.narrow or not own.has_least:
                best = self._planned(PLANNED * float(self.tolerances[0]), best.values)
                policies, proof, values = self._of_plan(best, own)
        row: Row = {"outer": 1, "evaluations": 1, "gap": self._errors(proof)[0]}
        self._record({**row, "margins": values})
        status = self._status(proof)
        if status == "limit" and self._sharper is not None:
            sharper = self._sharper._unconstrained()
            if sharper.status == "certified":
                return sharper
        self.refused = int(status == "limit")  # the plan is the optimum, to rounding
        return self._said(status, (policies, proof, values))

    def _planned(self, tolerance: float, guess: np.ndarray | None) -> Plan:
        """A plan of the reward less its constant; guess: values `[S]`."""
        form = self.form
        kind: dict[str, Any] = {"tolerance": tolerance, "stop": self.stop}
        return form.criterion.plan(form, claims(form)[0].reward, values=guess, **kind)

    def _of_plan(self, best: Plan, ranges: Ranges | None) -> Proven:
        """The policy of a plan of the reward, whose values prove it."""
        form, criterion = self.form, self.form.criterion
        kind: dict[str, Any] = {}
        if criterion.parts == 1:
            if form.is_small:
                potential = criterion.upper(form, claims(form)[0], best.choices)
            else:
                potential = criterion.centred(form, best.values)
            kind = {"potential": potential, "is_optimal": True}
        policies = criterion.answer(form, best.choices, ((1.0, best.choices),))
        return policies, *certify(form, policies, np.zeros(0), best.choices, ranges, **kind)

    def _by_pivots(self) -> Result | None:
        """The result of the key simplex; None where it ends without one that is certified."""
        form, warm = self.scaled.form, self.warm
        outcome = by_pivots(form, self.eps, warm.multipliers, stop=self.stop)
        answer = outcome.answer
        if outcome.ray is None:
            warm.multipliers = outcome.weights
        if answer is None:
            return None
        assert answer.plan is not None
        bound = answer.plan.value - float(answer.weights @ form.thresholds)
        row: Row = {"outer": 1, "evaluations": outcome.pivots, "gap": bound - outcome.values[0]}
        self._record({**row, "margins": outcome.values[1:]})
        if not self._accept(answer):
            self.refused, self.smallest = 0, np.inf
            return None
        self.method = find_method(KEY)
        return self._result(answer)

    def _heard(self, name: str) -> np.ndarray | None:
        """Potentials `[..., S]` of the start's certificate in the numbering of the form."""
        if self.start is None or self.form.criterion.parts > 1:
            return None
        potentials = getattr(self.start.certificate, name)
        if potentials.shape[-1] != self.form.states:
            return None
        if name == "range_potentials":
            potentials = heard_potentials(self.model, potentials)
        return potentials if self.renumbered is None else self.renumbered.heard(potentials)

    def _ahead(self, solver: Callable[..., Answer], most: int, plans: int) -> Result | None:
        """The result of a search of so many plans, without phase 1; None if it ends without.

        It begins at the start's prices, or at 0. A feasible policy is shown by the certificate.
        Where none is, pivots go on from the prices, or phase 1 from the columns.
        """
        form, warm = self.scaled.form, self.warm
        if warm.multipliers is None:
            warm.multipliers = np.zeros(form.constraint_count)
        guess = self.ranges.guess(form, self.units, np.append(1.0, warm.multipliers))
        if (heard := self._heard("dual_potential")) is not None:
            guess = heard / self.units[0]
        reward, accuracy = form.pseudo_reward(warm.multipliers), ACCURACY * self.eps
        kind: dict[str, Any] = {"values": guess, "tolerance": STARTED, "stop": self.stop}
        best = form.criterion.plan(form, reward, **kind)
        columns = first_column(form, best, accuracy, warm.multipliers)
        is_over = lambda: self._is_over() or len(self.trace) >= plans  # noqa: E731
        limits = self.eps, columns, most, is_over, None
        try:
            answer = solver(form, Task(*limits, self._record, self._accept, warm))
        except NumericalError:  # the other ways may still do
            return None
        if self.accepted:
            return self._result(answer)
        self.refused, self.smallest = 0, np.inf
        return None

    def _solved(self, solver: Callable[..., Answer], verdict: Feasibility, most: int) -> Result:
        """The result of the method; where it finds nothing at the very edge, a tolerance away."""
        form, columns, share = self.scaled.form, verdict.columns, 1.0
        while True:
            end = self.stop.end
            left = None if end is None else max(0.0, end - time.perf_counter())
            limits = share * self.eps, columns, most, self._is_over, left
            task = Task(*limits, self._record, self._accept, self.warm)
            answer = None
            try:
                answer = solver(form, task)
            except NumericalError:
                if verdict.status != "tight":
                    raise
            is_done = self._is_over() or verdict.status != "tight" or share < 1
            if answer is not None and (is_done or self._accept(answer)):
                return self._result(answer)
            if is_done:
                return self._phase_one(verdict)
            room, share = RELAXED * self.eps, (1 - RELAXED) / 2
            form = form.replace(thresholds=form.thresholds - room)
            shifted = columns.margins_of_columns + room
            columns = replace(columns, margins_of_columns=shifted, last_gap=None)

    def _is_over(self) -> bool:
        """Whether to stop: time is up, or rounding is all that is left."""
        return self.stop() or self.refused >= REFUSALS

    def _trace(self, settings: Mapping[str, Any]) -> Answer:
        """The answer of a fixed-budget run, whose weights are in the form's own units."""
        assert self.method.trace is not None
        run = self.method.trace(self.form, (), **settings)
        if run.diverged:
            raise NumericalError(
                f"{self.method.name}: step {run.diverged} produced numbers that are not finite; use"
                " smaller step sizes."
            )
        sign = -1.0 if self.model.minimise else 1.0
        histories = zip(run.rewards, self.model.limits.worst(run.margins), strict=True)
        for k, (reward, margins) in enumerate(histories):
            numbers = {"reward": sign * float(reward), "margins": margins.tolist()}
            self._keep({"evaluations": k, **numbers})
        policy = self.model.by_choice(run.policy)
        return Answer(policy, run.multipliers, averaged=run.averaged, in_own_units=True)

    def _record(self, row: Row) -> None:
        """Keep a row of a solver in the user's units, with the time since the beginning."""
        gap, margins, units = row.pop("gap"), row.pop("margins"), self.units
        self._keep(
            {
                **row,
                "gap": gap * units[0],
                "violation": float(violation(margins * units[1:])),
                "scaled_gap": gap,
                "scaled_violation": float(violation(margins)),
                "seconds": time.perf_counter() - self.started,
            }
        )

    def _keep(self, row: Row) -> None:
        """Append a row to the trace and show it to the callback."""
        self.trace.append(row)
        if self.callback is not None:
            self.callback(row)

    def _errors(self, proof: Certificate) -> tuple[float, float]:
        """Gap and violation in the units of which eps is the tolerance."""
        if self.measured is not None and self.measured[0] is proof:
            return self.measured[1]
        tolerances, has_least = self.tolerances, self.ranges.has_least
        if proof.sizes is not None or not has_least:
            sizes = 0.0 if proof.sizes is None else proof.sizes
            ranges = replace(self.ranges, bounds=proof.ranges)
            tolerances = ranges.tolerances(self.eps, self.model.limits.compared, sizes)
        errors = scaled_errors(proof, tolerances / self.eps)
        self.measured = proof, errors
        return errors

    def _status(self, proof: Certificate) -> Status:
        return "certified" if max(self._errors(proof)) <= self.eps else "limit"

    def _accept(self, answer: Answer) -> bool:
        """Certify an answer; True, and it is kept, if it is certified at eps."""
        if self.accepted is not None:
            return True
        proven = self._certify(answer)
        error = max(self._errors(proven[1]))
        if error <= self.eps:
            self.accepted = proven
        self.refused = 0 if error < GAIN * self.smallest else self.refused + 1
        self.smallest = min(self.smallest, error)
        return error <= self.eps

    def _certify(self, answer: Answer) -> Proven:
        """An answer with its certificate, on the unscaled form."""
        form, plan = self.form, answer.plan
        policies = form.criterion.answer(form, answer.policy, answer.mixture)
        if not self.tolerances[0]:  # nothing is earned, and no room is worth anything
            answer, plan = replace(answer, weights=np.zeros(form.constraint_count)), None
        weights = answer.weights if answer.in_own_units else self.scaled.weights(answer.weights)
        if plan is None:
            reward = mixed(form, form.reward, weights).reward
            choices = form.criterion.plan(form, reward).choices
            return policies, *certify(form, policies, weights, choices, self.ranges)
        # who runs out of time gets a looser certificate
        accuracy = LOOSE if self.stop() else ACCURACY * self.eps
        potential = None
        if not form.is_small and form.criterion.parts == 1:
            potential = self.scaled.potential(plan.values)
            potential = form.criterion.centred(form, potential)
        kind: dict[str, Any] = {"potential": potential, "tolerances": accuracy * self.scaled.units}
        return policies, *certify(form, policies, weights, plan.choices, self.ranges, **kind)

    def _result(self, answer: Answer) -> Result:
        """The result of an answer on a model that is feasible within the tolerance."""
        proven = self.accepted or self._certify(answer)
        if self._status(proven[1]) == "limit" and self._sharper is not None:
            # where policies hardly differ, prices are rounding
            free = replace(answer, weights=np.zeros_like(answer.weights), plan=None)
            for door, one in ((self, free), (self._sharper, answer), (self._sharper, free)):
                if door._status(door._certify(one)[1]) == "certified":
                    return door._result(one)
        averaged = None if answer.averaged is None else self._averaged(answer.averaged)
        return self._said(self._status(proven[1]), proven, averaged, answer.points)

    def _phase_one(self, verdict: Feasibility) -> Result:
        """The policy of phase 1: the least violating one, with the proof that none is feasible.

        Where rounding (values of 1e9 that differ by 1) spoils the proof the status is `limit`:
        nothing is claimed unproven. Where time ran out there is no verdict, and nothing but the
        policy's own certificate.
        """
        form, columns = self.form, verdict.columns
        policy, choices = Corrective().policy(form, columns), columns.choices[0]
        policies = form.criterion.answer(form, policy, columns.policies)
        potential, accuracy = None, ACCURACY * self.eps
        if verdict.status != "open":  # there is time: the first plan was a loose one
            reward, tolerance = claim(form, form.reward).reward, float(self.tolerances[0])
            choices = form.criterion.plan(form, reward, choices, tolerance=tolerance).choices
        elif not form.is_small and form.criterion.parts == 1:  # none for more than what is known
            accuracy, values = LOOSE, columns.potentials[0]
            if values is not None:
                potential = self.scaled.potential(values)
        no_weights = np.zeros(form.constraint_count)
        kind: dict[str, Any] = {"potential": potential, "tolerances": accuracy * self.scaled.units}
        proof, values = certify(form, policies, no_weights, choices, self.ranges, **kind)
        status, relaxations = self._status(proof), None
        if verdict.ray is not None and verdict.plan is not None:
            limits = self.model.limits
            # of two rows of a limit one is priced: less the other's price it proves the more
            ray = limits.unfold(limits.fold(self.scaled.ray(verdict.ray)))
            rayed = with_ray(form, proof, ray, verdict.plan.choices)
            if rayed.ray_bound is not None and rayed.ray_bound < 0:
                status, proof = "infeasible", rayed
                relaxations = self._relaxations() if self.explains else None
            else:
                self.refused += 1
        if status == "limit" and verdict.status != "open" and self._sharper is not None:
            sharper = self._sharper._phase_one(verdict)
            if sharper.status != "limit":
                return sharper
        points = columns.points if status != "infeasible" else None
        return self._said(status, (policies, proof, values), points=points, relaxations=relaxations)

    def _relaxations(self) -> np.ndarray:
        """By how much each limit alone must give way for the model to be feasible, `[m]`.

        Infinite where that is not enough; NaN where time ran out, or rounding has the last word.
        """
        model, limits = self.model, self.model.limits
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
                end = self.stop.end
                left = None if end is None else end - time.perf_counter()
                if self.stop() or (left is not None and left <= 0):
                    return needed
                turned, default = relaxed.replace(minimise=minimise), find_method(DEFAULT)
                best = _Door(turned, default, self.eps, left, explains=False).solve({})
                lack = best.reward - bound if minimise else bound - best.reward
                off = best.certificate.gap if best.scaled_violation <= self.eps else np.inf
                if best.status == "infeasible":
                    needed[i] = np.inf
                elif best.status == "certified" or off <= self.eps * lack:  # it is as exact
                    needed[i] = np.fmax(needed[i], max(lack, 0.0))
        return needed

    def _said(
        self,
        status: Status,
        proven: Proven,
        averaged: Row | None = None,
        points: np.ndarray | None = None,
        relaxations: np.ndarray | None = None,
    ) -> Result:
        """The result, in the user's words."""
        policies, proof, values = proven
        if not np.isfinite(proof.reward_bounds).all():
            raise ill_conditioned()
        if isinstance(self.model, FunctionCMDP):
            self.warm.columns = None  # every vector counts there
        policies = self.form.said_policies(policies)
        limits, (gap, excess) = self.model.limits, self._errors(proof)
        first = limits.first_rows
        if self.renumbered is not None:
            policies = tuple((share, self.renumbered.policy(own)) for share, own in policies)
            proof = self.renumbered.certificate(proof)
        reason = ""
        if status == "limit":
            reason = "time" if self.stop() else "rounding" if self.refused else "no progress"
        return Result.of(
            self.model,
            policies,
            said_back(self.model, proof),
            status=status,
            reason=reason,
            method=self.method.name,
            eps=self.eps,
            values=limits.signs[first] * values[first] + 0.0,
            scaled_gap=gap,
            scaled_violation=excess,
            trace=self.trace,
            seconds=time.perf_counter() - self.started,
            averaged=averaged,
            points=None if points is None else self._said_points(points),
            relaxations=relaxations,
            notes=(*self.model.notes, *self.form.notes),
        )

    def _said_points(self, points: np.ndarray) -> np.ndarray:
        """Reward and margins of policies `[k, 1 + M]` in the user's words, less what may be off.

        Those of rows, not of limits: both sides of an equality have a price of their own.
        """
        off = ACCURACY * self.eps * self.scaled.units
        rewards = points[:, 0] * self.scaled.units[0] - off[0] + self.scaled.offset
        return np.column_stack([rewards, points[:, 1:] * self.scaled.units[1:] - off[1:]])

    @cached_property
    def _sharper(self) -> "_Door | None":
        """This door with a gauge made for the form, where rounding is in the way of bounds."""
        form = self.form
        if not form.is_small or form.criterion.parts > 1 or form.objective is not None:
            return None
        other = copy(self)
        other.form, other.warm = form.replace(), replace(self.warm, ranges=None)
        other.form.__dict__["gauge"] = gauge_of_sizes(form)
        for name in ("ranges", "tolerances"):
            other.__dict__.pop(name, None)
        other.measured, other.__dict__["_sharper"] = None, None
        return other

    def _averaged(self, policy: np.ndarray) -> Row:
        """The policy of the average occupancy, evaluated, and what keeping all iterates takes."""
        evaluation = self.form.evaluate(self.model.by_choice(policy))
        count = len(self.trace) - 1
        reward = float(evaluation.reward)
        return {
            "reward": -reward if self.model.minimise else reward,
            "margins": self.model.limits.worst(evaluation.margins).tolist(),
            "policy": policy.tolist(),
            "policies": count,
            "numbers": count * self.model.states * self.model.actions,
        }


def columns_within(form: StandardForm, memory_limit: float) -> int:
    """How many columns fit into `memory_limit` GB beside what the process and one plan need."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        raise InputError(
            "memory limit: Windows does not tell how much memory is in use; leave the limit out."
        ) from None
    column = 20.0 * form.states  # actions, occupancy and potential
    # vectors and one policy's transitions
    working = 80.0 * form.states + 24.0 * form.transitions.longest * form.states
    held = getrusage(RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)
    room = int((1e9 * memory_limit - held - working) / column)
    least = 2 * form.constraint_count + 4  # those in use by two mixtures, and a few to choose from
    if room < least:
        needed = held + working + least * column
        raise InputError(
            f"memory limit: {memory_limit:.3g} GB are too few; this model needs at least"
            f" {needed / 1e9:.3g} GB."
        )
    return min(room, MAX_COLUMNS)
