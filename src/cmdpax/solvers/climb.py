"""A utility instead of the reward: another objective, the same forms, methods and words.

    utility -> linear reward at the uniform policy -> the door's ranges, units and phase 1
            -> a method on the form with the objective -> a certificate by concavity -> result

`eps` is a share of `F(best bound) - F(uniform policy)`; constraints keep their own shares. Max-min
has no gradient: it is a linear model with one more state, whose two actions choose t (`raised`).
"""

import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.certificate import certify, said_back, scaled_errors
from cmdpax.exact.objective import Objective, utility_proof
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP
from cmdpax.model.level import with_a_level
from cmdpax.model.result import Certificate, Result, Status
from cmdpax.solvers.accelerated import Accelerated
from cmdpax.solvers.algorithm import Answer, Point
from cmdpax.solvers.certified import Task, solve_certified
from cmdpax.solvers.columns import MAX_COLUMNS, Columns, Corrective, first_column
from cmdpax.solvers.concave_columns import ConcaveColumns
from cmdpax.solvers.door import Attempts, Door
from cmdpax.solvers.feasibility import decide_feasibility
from cmdpax.solvers.interior import interior_point, is_worth_while
from cmdpax.solvers.stages import by_budget, certified_solver, solved
from cmdpax.solvers.table import DEFAULT, Method
from cmdpax.utilities.utility import Utility, refuse_not_concave

ACCURACY = 1e-3  # of a certificate's values, relative to what eps is a share of
REFUSALS = 40  # certificates in a row that gain less than a tenth before a search ends
INNER, OUTER, GROWTH = 60, 2000, 1.2  # of Algorithm 1 around a utility of visits
TRIED = 8  # random policies that test concavity
MANY_STATES = 30_000  # from which on factorising takes longer than climbing without limits
WIDEST = 1e-3  # room that t has beyond what is attained, as a share of it
TIGHTER = 4  # times that max-min is solved, each to a tenth of the tolerance before
Proven = tuple[np.ndarray, Certificate, np.ndarray]  # policy [K], its proof, its values [m]


def solve_utility(
    model: CMDP, utility: Utility, settings: dict[str, Any], method: Method, **kind: Any
) -> Result | None:
    """The result; None if no policy meets the constraints. kind: other fields of a `Door`."""
    linear, objective = objective_of(model, utility)
    method.check_utility(utility)
    # arrays of a utility are in the model's own order
    door = Door(linear, method=method, **kind, may_renumber=False)
    climb = Climb(door, model, objective)
    if utility.has_gradient:
        return climb.solve(settings)
    result, share = None, door.eps
    with door.stop:
        for _ in range(TIGHTER):
            one = Door(raised(model, objective), share, time_limit=door.seconds_left)
            answer = solved(one, {})
            if answer.status == "infeasible":
                break
            result = climb.max_min(answer)
            if result.status == "certified" or door.stop():
                break
            share /= 10
    return result


def objective_of(model: CMDP, utility: Any) -> tuple[CMDP, Objective]:
    """The linear model of a utility at the uniform policy, and its objective."""
    if not isinstance(utility, Utility):
        raise InputError("utility: give one of cmdpax.utilities, as in utilities.entropy().")
    form = StandardForm.of(model)
    if form.kind not in utility.criteria:
        raise InputError(
            f"utility: {utility.name} takes {' and '.join(utility.criteria)} models only, and this"
            f" one is {form.kind}; see the table in docs/criteria.md."
        )
    shape = model.states, model.actions
    for term in utility.terms:
        visits = (term.recipe or {}).get("visits")
        if visits is not None and visits.shape != shape:
            raise InputError(f"utility: its visits have shape {visits.shape}, expected {shape}.")
    own = [_reward(model, reward) for reward in utility.rewards]
    rewards = np.array(own).reshape(-1, model.choices)
    objective = Objective(utility, rewards)
    uniform = form.uniform_policy()
    point = objective.point(form, uniform)
    value = utility.value(*point)
    if not np.isfinite(value):
        raise InputError(
            f"utility: {utility.name} is not finite at the uniform policy, which must lie in its"
            " domain; check the signs of what it is of."
        )
    if not utility.is_ready:
        _refuse_not_concave(objective, form)
    objective = replace(objective, at_uniform=value, size=utility.size(*point))
    if not utility.has_gradient:
        return model, objective
    if not utility.is_of_values:  # some visits are tiny from where the model starts, and F is steep
        even = form.replace(initial=np.full(form.states, 1 / form.states))
        point = point[0], objective.point(even, uniform)[1]
    slope = objective.at(form, point)[1]
    linear = model.replace(reward=slope, minimise=False)
    return linear, objective


def _reward(model: CMDP, reward: Any) -> np.ndarray:
    """A function of the model by choice, `[K]`, by its name or its array."""
    if not isinstance(reward, str):
        by_choice = model.replace(reward=reward).reward
        if np.ndim(reward) != 1 and (np.ndim(reward) > 2 or model.horizon is not None):
            raise InputError(
                f"utility: an array has shape {np.shape(reward)}; give names, or numbers by choice,"
                f" [{model.choices}]."
            )
        return by_choice
    if reward == "reward":
        return model.reward
    if reward not in model.constraint_names:
        names = ", ".join(("reward", *model.constraint_names))
        raise InputError(f"utility: the model has no function '{reward}'; it has {names}.")
    return model.constraints[model.constraint_names.index(reward)]


def _refuse_not_concave(objective: Objective, form: StandardForm) -> None:
    """Refuse functions that are not concave at random policies."""
    random, points, utility = np.random.default_rng(0), [], objective.utility
    for _ in range(TRIED):
        mass = random.exponential(size=form.choices) ** 2
        policy = mass / form.transitions.by_state(form.transitions.sums(mass))
        points.append(objective.point(form, policy))
    values = np.array([one[0] for one in points])
    visits = None if utility.is_of_values else np.array([one[1] for one in points])
    refuse_not_concave(utility, values, visits)


@dataclass
class Climb:
    """One solve of a utility: a door on its linear model, and the user's model."""

    door: Door
    model: CMDP
    objective: Objective
    attempts: Attempts = field(default_factory=Attempts)

    def solve(self, settings: dict[str, Any]) -> Result | None:
        """The result of a utility with a gradient; None as in `solve_utility`."""
        door = self.door
        door.form = door.form.replace(objective=self.objective)
        solver, stop, form = certified_solver(door, settings), door.stop, door.scaled.form
        if door.method.name == DEFAULT:
            solver = partial(self._by_default, **settings)
        with stop:
            if solver is None:
                return self._said(self._certify(by_budget(door, settings)))
            linear, accuracy = form.replace(objective=None), 1e-2 * door.eps
            if form.constraint_count:
                verdict = decide_feasibility(linear, door.eps, None, accuracy, stop=stop)
                if verdict.status == "infeasible":
                    return None
                columns = verdict.columns
                if verdict.status == "open":
                    return self._said(self._certify(self._least_violating(columns)))
            else:
                columns = first_column(linear, form.criterion.plan(linear, linear.reward))
            limits = door.eps, columns, MAX_COLUMNS, self._is_over, None
            answer = solver(form, Task(*limits, door.record, self._accept, door.warm))
            return self._said(self.attempts.accepted or self._certify(answer))

    def _least_violating(self, columns: Columns) -> Answer:
        """The policy of phase 1 when time is up; where F is not finite there, the uniform one."""
        form = self.door.form
        policy = Corrective().policy(form, columns)
        if not np.isfinite(self.objective.utility.value(*self.objective.point(form, policy))):
            policy = form.uniform_policy()
        return Answer(policy, np.zeros(form.constraint_count))

    def _by_default(self, form: StandardForm, task: Task, **settings: Any) -> Answer:
        """Columns for a utility of a few values, an interior point for one of visits.

        Where there is no second derivative, systems are large, or rounding ends the path:
        accelerated policy gradient.
        """
        utility = self.objective.utility
        if utility.is_of_values:
            self._named("corrective-columns")
            columns = ConcaveColumns(1e-2 * task.eps, stop=task.stop)
            return solve_certified(form, task, columns, **settings)
        # without limits, and where F is continuous, a large model is climbed sooner
        is_easy = form.states > MANY_STATES and not form.constraint_count and utility.is_proven
        can_factorise = utility.has_curvature and not settings and is_worth_while(form)
        if can_factorise and not is_easy:
            self._named("interior-point")
            try:
                return interior_point(form, task)
            except NumericalError:
                self.attempts.restart()
        self._named("accelerated-npg")
        # a stiff penalty slows the oracle more than a rough multiplier does
        few = {"inner": INNER, "outer": OUTER} if form.constraint_count else {}
        return solve_certified(form, task, Accelerated(), GROWTH, **{**few, **settings})

    def _named(self, name: str) -> None:
        """Say which method ran."""
        self.door.method = replace(self.door.method, name=name)

    def _is_over(self) -> bool:
        return self.door.stop() or self.attempts.refused >= REFUSALS

    def _accept(self, answer: Answer) -> bool:
        """Certify an answer; True, and it is kept, if it is certified at eps."""
        if self.attempts.accepted is not None:
            return True
        proven = self._certify(answer)
        return self.attempts.take(proven, max(self._errors(proven[1])), self.door.eps)

    def _certify(self, answer: Answer) -> Proven:
        """An answer with its certificate, on the unscaled form."""
        scaled = self.door.scaled
        weights = answer.weights if answer.in_own_units else scaled.weights(answer.weights)
        return self._certified(answer.policy, weights, answer.at)

    def _certified(
        self, policy: np.ndarray, weights: np.ndarray, touching: Point | None = None
    ) -> Proven:
        """A policy `[K]` with its certificate on the unscaled form.

        weights: prices `[m]` of the constraints. touching: the point of the tangent.
        """
        door, objective = self.door, self.objective
        form = door.form.replace(objective=None)
        tolerance = 0.0 if form.is_small else ACCURACY * door.eps * float(door.scaled.units[0])
        if tolerance and objective.utility.has_gradient:
            # F can tolerate less than its linear reward does
            point = objective.point(form, policy, tolerance) if touching is None else touching
            rise = objective.tolerance(objective.utility.value(*point), door.eps)
            tolerance = min(tolerance, ACCURACY * rise)
        numbers = objective, form, policy, weights, touching, tolerance
        bounds, bound, own, potential = utility_proof(*numbers)
        flat, wide = np.zeros(form.states), 1e-2 * door.eps * door.scaled.units
        choices = form.transitions.first_choice[:-1]
        proof, values = certify(
            form, ((1.0, policy),), weights, choices, door.ranges, potential=flat, tolerances=wide
        )
        ranges = proof.ranges.copy()
        ranges[0] = own.at_uniform, bound
        proof = replace(
            proof,
            reward_bounds=bounds,
            dual_bound=bound,
            dual_potential=potential,
            ranges=ranges,
            utility=own,
        )
        return policy, proof, values

    def _errors(self, proof: Certificate) -> tuple[float, float]:
        """Gap and violation in the units of which eps is the tolerance."""
        door, sizes = self.door, 0.0 if proof.sizes is None else proof.sizes
        tolerances = door.ranges.tolerances(door.eps, door.model.limits.compared, sizes)
        at_uniform, bound = proof.ranges[0]
        own = replace(self.objective, at_uniform=at_uniform, unit=1.0)
        tolerances[0] = own.tolerance(bound, door.eps)
        return scaled_errors(proof, tolerances / door.eps)

    def _said(self, proven: Proven) -> Result:
        """The result in the user's words."""
        door, utility, (policy, proof, values) = self.door, self.objective.utility, proven
        shares = self._errors(proof)
        status: Status = "certified" if max(shares) <= door.eps else "limit"
        limits, spoken = self.model.limits, self.model.replace(minimise=utility.minimise)
        back, first = said_back(spoken, proof), limits.first_rows
        if utility.minimise and back.utility is not None:
            back = replace(back, utility=replace(back.utility, at_uniform=-back.utility.at_uniform))
        reason = "" if status == "certified" else "time" if door.stop() else "no progress"
        result = Result.of(
            spoken,
            ((1.0, policy),),
            back,
            status=status,
            reason=reason,
            method=door.method.name,
            eps=door.eps,
            values=limits.signs[first] * values[first] + 0.0,
            scaled_gap=shares[0],
            scaled_violation=shares[1],
            trace=door.trace,
            seconds=time.perf_counter() - door.started,
        )
        return replace(result, fingerprint=self.model, utility=utility)

    def max_min(self, answer: Result) -> Result:
        """The result of max-min, from that of the raised model."""
        model, m = self.model, self.model.constraint_count
        assert answer.policy is not None
        policy = answer.policy[: model.states]
        # the raised model has no labels: actions of a state are 0, 1, ...
        counts = np.diff(model.transitions.first_choice)
        by_choice = policy[np.arange(policy.shape[1]) < counts[:, None]]
        sums = model.transitions.by_state(model.transitions.sums(by_choice))
        weights = model.limits.unfold(answer.multipliers[:m])
        prices = np.maximum(answer.multipliers[m:], 0)
        if not prices.sum() > 0:
            prices = np.ones(len(prices))
        total = prices.sum()
        proven = self._certified(by_choice / sums, weights / total, (prices / total, None))
        return self._said(proven)


def raised(model: CMDP, objective: Objective) -> CMDP:
    """`max t` subject to `V_j >= t`, as a linear model: t lies where some policy has it."""
    form = StandardForm.of(model)
    ends = np.array([[_end(form, sign * row) for sign in (-1.0, 1.0)] for row in objective.rewards])
    low, high = -float(ends[:, 0].max()), float(ends[:, 1].min())
    room = WIDEST * max(high - low, abs(high), abs(low), 1e-300)
    return with_a_level(model, objective.rewards, low - room, high + room)


def _end(form: StandardForm, reward: np.ndarray) -> float:
    return form.criterion.plan(form, reward).value
