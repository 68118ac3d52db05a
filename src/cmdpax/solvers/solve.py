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
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from cmdpax.errors import InputError, NumericalError, check_count, check_number
from cmdpax.exact.certificate import certify, lagrangian_bound, scaled_errors, with_ray
from cmdpax.exact.standard import Scaled, StandardForm, said_back
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, Certificate, Result, Row, Status, Trajectory
from cmdpax.solvers.algorithm import Answer, Oracle
from cmdpax.solvers.certified import Task, WarmStart
from cmdpax.solvers.columns import MAX_COLUMNS, Corrective
from cmdpax.solvers.feasibility import BAND, Feasibility, decide_feasibility
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.table import Method, find_method, methods, of_oracle
from cmdpax.stopping import Stopper

ACCURACY = 1e-2  # of values, relative to eps
PLANNED = 0.25  # the same of a plan that is the answer
DEFAULT = "corrective-alm"
Proven = tuple[np.ndarray, Certificate, np.ndarray]  # a policy [K], its proof, its values [m]


def solve(
    model: CMDP,
    method: str | Oracle | None = None,
    *,
    eps: float = 1e-6,
    features: Any = None,
    time_limit: float | None = None,
    memory_limit: float | None = None,
    callback: Callback | None = None,
    **settings: Any,
) -> Result:
    """Solve a constrained MDP to one certified stationary policy.

    method: None leaves nothing to choose; `cmdpax.methods` lists the others, an `Oracle` of one's
    own drives Algorithm 1, and `result.method` says what ran. eps: bounds gap and violation on the
    scale of possible values, `span / (1 - gamma)`. features: `[S, A, d]`, makes policies
    log-linear; the certificate then still measures against the best of all policies. time_limit:
    seconds; the clock is looked at between evaluations of policies, and the certificate of the last
    one is always finished. Fixed budgets have none. memory_limit: GB of the whole process, for the
    default method. callback: sees every row of the trace as it comes, and those of a fixed budget
    at its end. settings: the method's own. A method that has a fixed-budget form too runs it when
    one of that form's settings is given.

    An infeasible model is answered with its proof. Stops with status `limit` after the time limit,
    Ctrl-C (a second one ends it at once, with nothing) or when rounding leaves nothing to gain,
    with the best policy so far.
    """
    row, own = choose(model, DEFAULT if method is None else method, features)
    check_number("eps", eps, above=0, below=1)
    row.check_settings(settings, row.settings)
    if memory_limit is not None and row.name != DEFAULT:
        raise InputError(f"memory_limit: only {DEFAULT} keeps to one; leave it out for {row.name}.")
    return _Door(model, row, eps, time_limit, memory_limit, callback).solve({**own, **settings})


def solve_again(model: CMDP, eps: float, warm: WarmStart) -> Result:
    """Solve as by default, from a warm start, which is brought up to date."""
    return _Door(model, find_method(DEFAULT), eps, warm=warm).solve({})


def trajectory(
    model: CMDP, method: str, *, features: Any = None, keep: Collection[int] = (), **settings: Any
) -> Trajectory:
    """Run a method for a fixed budget and keep what every policy-gradient evaluation led to.

    features: `[S, A, d]`, makes policies log-linear. keep: numbers of the iterates whose policies
    come back too; 0 is the initial one. settings: the method's own; arrays of one batch shape run
    all their combinations at once.
    """
    row, own = choose(model, method, features)
    if row.trace is None:
        raise InputError(f"method '{row.name}' has no fixed-budget form; use cmdpax.solve.")
    row.check_settings(settings, row.budget)
    run = row.trace(StandardForm.of(model), keep, **own, **settings)
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
    if not isinstance(model, CMDP):
        raise InputError(f"model: a CMDP is needed, not {type(model).__name__}.")
    row = find_method(method) if isinstance(method, str) else of_oracle(method)
    if features is None:
        if row.features:
            raise InputError(
                f"method '{row.name}' has log-linear policies; give it features, for example"
                " --features tiles:60,4,3."
            )
        return row, {}
    if not (row.features or row.linear):
        names = ", ".join(one.name for one in methods.values() if one.features or one.linear)
        raise InputError(f"method '{row.name}' takes no features; these do: {names}.")
    features = features if isinstance(features, Features) else Features(features)
    features.check(model.states, model.actions)
    return row if row.features else methods[row.linear], {"features": features}


@dataclass
class _Door:
    """One solve: its limits, its trace, and the certificate that was accepted."""

    model: CMDP
    method: Method
    eps: float
    time_limit: float | None = None
    memory_limit: float | None = None
    callback: Callback | None = None
    warm: WarmStart = field(default_factory=WarmStart)

    def __post_init__(self) -> None:
        for name in ("time_limit", "memory_limit"):
            if (limit := getattr(self, name)) is not None:
                check_number(name, limit, least=0)
        if self.callback is not None and not callable(self.callback):
            raise InputError("callback: it must be a function that takes a row of the trace.")
        self.started, self.stop = time.perf_counter(), Stopper(self.time_limit)
        self.form = StandardForm.of(self.model)
        self.trace: list[Row] = []
        self.accepted: Proven | None = None

    @cached_property
    def scaled(self) -> Scaled:
        """The form with values in [0, 1]."""
        return self.form.scaled()

    def solve(self, settings: Mapping[str, Any]) -> Result:
        """Phase 1, the method, the certificate."""
        most, accuracy = MAX_COLUMNS, ACCURACY * self.eps
        if self.memory_limit is not None:
            most = columns_within(self.form, self.memory_limit)
        method, stop, warm = self.method, self.stop, self.warm
        if not self.form.constraint_count and method.name == DEFAULT and not settings:
            with stop:
                return self._unconstrained()
        form = self.scaled.form
        solver = None if settings.keys() - method.own_settings.keys() else method.solve
        if solver is None and self.time_limit is not None:
            counts = [one for one in ("outer", "inner", "steps") if one in method.budget]
            raise InputError(
                f"time_limit: {method.name} has a fixed budget; set its {' and '.join(counts)}."
            )
        with stop:
            verdict = decide_feasibility(form, warm.columns_for(form), accuracy, most, stop)
            if verdict.status in ("infeasible", "open"):
                return self._phase_one(verdict)
            if solver is not None:
                left = None if stop.end is None else max(0.0, stop.end - time.perf_counter())
                limits = self.eps, verdict.columns, most, stop, left
                task = Task(*limits, self._record, self._accept, warm)
                return self._answered(partial(solver, form, task, **settings), verdict)
        return self._answered(partial(self._trace, settings), verdict)

    def _unconstrained(self) -> Result:
        """Without constraints one plan is the answer, and its values prove it."""
        form = self.form
        tolerance = PLANNED * self.eps * form.reward_scale
        best = form.criterion.plan(form, form.reward, tolerance=tolerance, stop=self.stop)
        nothing, values = np.zeros(0), form.criterion.centred(form, best.values)
        kind: dict[str, Any] = {"potential": values, "is_optimal": True}
        proof, values = certify(form, best.choices, nothing, best.choices, **kind)
        gap = proof.gap / form.reward_scale
        self._record({"outer": 1, "evaluations": 1, "gap": gap, "margins": nothing})
        status: Status = "certified" if gap <= self.eps else "limit"
        return self._said(status, (form.transitions.deterministic(best.choices), proof, values))

    def _answered(self, answer: Callable[[], Answer], verdict: Feasibility) -> Result:
        """The result of the method, or of phase 1 where its own solver fails at the very edge."""
        try:
            return self._result(answer(), verdict)
        except NumericalError:
            if verdict.status != "marginal":
                raise
            return self._phase_one(verdict)

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
        gap, margins = row.pop("gap"), row.pop("margins")
        self._keep(
            {
                **row,
                "gap": gap * self.form.reward_scale,
                "violation": float(violation(margins * self.form.constraint_scales)),
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

    def _accept(self, answer: Answer) -> bool:
        """Certify an answer; True, and it is kept, if it is certified at eps."""
        proven = self._certify(answer)
        is_certified = max(scaled_errors(self.form, proven[1])) <= self.eps
        self.accepted = proven if is_certified else self.accepted
        return is_certified

    def _certify(self, answer: Answer) -> Proven:
        """An answer with its certificate, on the unscaled form."""
        form, policy, plan = self.form, answer.policy, answer.plan
        weights = answer.weights if answer.in_own_units else self.scaled.weights(answer.weights)
        if plan is None:
            choices = form.criterion.plan(form, form.pseudo_reward(weights)).choices
            return policy, *certify(form, policy, weights, choices)
        # who runs out of time gets a looser certificate
        accuracy = self.eps if self.stop() else ACCURACY * self.eps
        known = None if form.is_small else self.scaled.potential(plan.values)
        proof = certify(form, policy, weights, plan.choices, potential=known, accuracy=accuracy)
        return policy, *proof

    def _result(self, answer: Answer, verdict: Feasibility) -> Result:
        """The result of an answer on a model that is feasible, or marginally so."""
        policy, proof, values = self.accepted or self._certify(answer)
        gap, excess = scaled_errors(self.form, proof)
        # a limit is called a limit; and what is proven to be feasible is not undecided
        is_proven = excess == 0 and gap <= self.eps
        is_cut_short = self.stop() and max(gap, excess) > self.eps
        status: Status = "certified" if max(gap, excess) <= self.eps else "limit"
        if verdict.status == "marginal" and not is_proven and not is_cut_short:
            status, proof = "marginal", self._with_ray(proof, verdict)
        averaged = None if answer.averaged is None else self._averaged(answer.averaged)
        return self._said(status, (policy, proof, values), averaged)

    def _phase_one(self, verdict: Feasibility) -> Result:
        """The policy of phase 1: the least violating one, with the proof that none is feasible.

        Where rounding (values of 1e9 that differ by 1) spoils the proof the status is `marginal`:
        nothing is claimed unproven. Where time ran out there is no verdict, and nothing but the
        policy's own certificate.
        """
        form, columns = self.form, verdict.columns
        policy, choices = Corrective().policy(form, columns), columns.choices[0]
        potential, accuracy = None, 0.0
        if verdict.status != "open":  # there is time: the first plan was a loose one
            tolerance = ACCURACY * self.eps * form.reward_scale
            choices = form.criterion.plan(form, form.reward, choices, tolerance=tolerance).choices
        elif not form.is_small:  # there is none for more than what is known
            accuracy, values = self.eps, columns.potentials[0]
            potential = None if values is None else self.scaled.potential(values)
        no_weights = np.zeros(form.constraint_count)
        proof, values = certify(
            form, policy, no_weights, choices, potential=potential, accuracy=accuracy
        )
        proof = self._with_ray(proof, verdict)
        is_proven = proof.ray_bound is not None and proof.ray_bound < 0
        is_certified = max(scaled_errors(self.form, proof)) <= self.eps
        status: Status = "certified" if is_certified else "limit"
        if verdict.status != "open":
            status = "infeasible" if verdict.status == "infeasible" and is_proven else "marginal"
        return self._said(status, (policy, proof, values))

    def _with_ray(self, proof: Certificate, verdict: Feasibility) -> Certificate:
        """Add the ray of phase 1 in the form's own units, if it still shows anything."""
        if verdict.ray is None or verdict.plan is None:
            return proof
        ray = self.scaled.ray(verdict.ray)  # it sums to 1 on the scale of [0, 1]
        rayed = with_ray(self.form, proof, ray, verdict.plan.choices)
        return rayed if rayed.ray_bound is not None and rayed.ray_bound <= 1.5 * BAND else proof

    def _said(self, status: Status, proven: Proven, averaged: Row | None = None) -> Result:
        """The result, in the user's words."""
        policy, proof, values = proven
        limits, (gap, excess) = self.model.limits, scaled_errors(self.form, proof)
        first = limits.first_rows
        return Result.of(
            self.model,
            policy,
            said_back(self.model, proof),
            status=status,
            method=self.method.name,
            eps=self.eps,
            values=limits.signs[first] * values[first] + 0.0,
            scaled_gap=gap,
            scaled_violation=excess,
            trace=self.trace,
            seconds=time.perf_counter() - self.started,
            averaged=averaged,
        )

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
