"""One solve: what eps means, which certificate was accepted, and what the user is told.

    model  -> form -> units of which eps is the tolerance -> scaled form
    answer -> certificate on the unscaled form -> result in the user's words

`stages` has the ways to an answer; only here is one certified.
"""

import time
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.exact.bounds import gauge_of_sizes, mixed
from cmdpax.exact.certificate import certify, heard_potentials, said_back, scaled_errors
from cmdpax.exact.ranges import Ranges, attained_ranges
from cmdpax.exact.standard import (
    Renumbered,
    Scaled,
    form_of,
    scaled,
)
from cmdpax.exact.systems import ill_conditioned
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, Certificate, Mixture, Result, Row, Status
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.solvers.algorithm import Answer
from cmdpax.solvers.certified import WarmStart
from cmdpax.solvers.table import ACCURACY, DEFAULT, Method, methods
from cmdpax.stopping import Stopper

LOOSE = 1e-2  # accuracy of a certificate, relative to the range, once time is up
REFUSALS, GAIN = 4, 0.9  # certificates in a row that gain less than a tenth before a search ends
Proven = tuple[Mixture, Certificate, np.ndarray]  # policies, their proof, their values [m]


@dataclass
class Attempts:
    """The certificates of one search: the accepted one, and how many in a row gained nothing."""

    accepted: Any = None
    refused: int = 0
    smallest: float = np.inf  # error so far

    def take(self, proven: Any, error: float, eps: float) -> bool:
        """Take in what was proven; True, and it is kept, if its error is at most eps."""
        if error <= eps:
            self.accepted = proven
        self.refused = 0 if error < GAIN * self.smallest else self.refused + 1
        self.smallest = min(self.smallest, error)
        return error <= eps

    def restart(self) -> None:
        """Count from 0 for another search."""
        self.refused, self.smallest = 0, np.inf


@dataclass
class Door:
    """One solve of a model by a method, within limits. What it measures is computed once."""

    model: Any  # CMDP or FunctionCMDP
    eps: float
    method: Method = methods[DEFAULT]
    time_limit: float | None = None
    memory_limit: float | None = None
    callback: Callback | None = None
    warm: WarmStart = field(default_factory=WarmStart)
    may_pivot: bool = False  # whether the key simplex comes first, where it is the faster one
    start: Result | None = None  # of a model that resembles this one
    may_renumber: bool = True  # whether a large form may have states in another order

    def __post_init__(self) -> None:
        self.started, self.stop = time.perf_counter(), Stopper(self.time_limit)
        self.form = form_of(self.model)
        self.method.check_criterion(self.form.kind)
        self.renumbered: Renumbered | None = None
        is_large = self.method.name == DEFAULT and not self.form.is_small
        # the few plans without constraints do not pay for copies of all rows
        is_plain = self.form.criterion.parts == 1 and self.form.constraint_count > 0
        is_large &= self.may_renumber and isinstance(self.model, CMDP)
        if is_large and is_plain and not self.form.transitions.order.is_ordered:
            self.renumbered = self.form.in_order()
            self.form = self.renumbered.form
        self.trace: list[Row] = []
        self.attempts = Attempts()
        self.measured: tuple[Certificate, tuple[float, float]] | None = None  # the latest errors

    @cached_property
    def ranges(self) -> Ranges:
        """What policies can change."""
        if self.warm.ranges is None:
            guesses = self.heard("range_potentials")
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

    @property
    def seconds_left(self) -> float | None:
        """Until the time limit; None without one."""
        end = self.stop.end
        return None if end is None else max(0.0, end - time.perf_counter())

    def heard(self, name: str) -> np.ndarray | None:
        """Potentials `[..., S]` of the start's certificate in the numbering of the form."""
        if self.start is None or self.form.criterion.parts > 1:
            return None
        potentials = getattr(self.start.certificate, name)
        if potentials.shape[-1] != self.form.states:
            return None
        if name == "range_potentials":
            potentials = heard_potentials(self.model, potentials)
        return potentials if self.renumbered is None else self.renumbered.heard(potentials)

    def is_over(self) -> bool:
        """Whether to stop: time is up, or rounding is all that is left."""
        return self.stop() or self.attempts.refused >= REFUSALS

    def record(self, row: Row) -> None:
        """Keep a row of a solver in the user's units, with the time since the beginning."""
        gap, margins, units = row.pop("gap"), row.pop("margins"), self.units
        self.keep(
            {
                **row,
                "gap": gap * units[0],
                "violation": float(violation(margins * units[1:])),
                "scaled_gap": gap,
                "scaled_violation": float(violation(margins)),
                "seconds": time.perf_counter() - self.started,
            }
        )

    def keep(self, row: Row) -> None:
        """Append a row to the trace and show it to the callback."""
        self.trace.append(row)
        if self.callback is not None:
            self.callback(row)

    def errors(self, proof: Certificate) -> tuple[float, float]:
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

    def status(self, proof: Certificate) -> Status:
        """`certified` if both errors are at most eps."""
        return "certified" if max(self.errors(proof)) <= self.eps else "limit"

    def accept(self, answer: Answer) -> bool:
        """Certify an answer; True, and it is kept, if it is certified at eps."""
        if self.attempts.accepted is not None:
            return True
        proven = self.certify(answer)
        return self.attempts.take(proven, max(self.errors(proven[1])), self.eps)

    def certify(self, answer: Answer) -> Proven:
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

    def result(self, answer: Answer) -> Result:
        """The result of an answer on a model that is feasible within the tolerance."""
        proven = self.attempts.accepted or self.certify(answer)
        if self.status(proven[1]) == "limit" and self.sharper is not None:
            # where policies hardly differ, prices are rounding
            free = replace(answer, weights=np.zeros_like(answer.weights), plan=None)
            for door, one in ((self, free), (self.sharper, answer), (self.sharper, free)):
                if door.status(door.certify(one)[1]) == "certified":
                    return door.result(one)
        averaged = None if answer.averaged is None else self._averaged(answer.averaged)
        return self.said(self.status(proven[1]), proven, averaged, answer.points)

    def said(
        self,
        status: Status,
        proven: Proven,
        averaged: Row | None = None,
        points: np.ndarray | None = None,
    ) -> Result:
        """The result, in the user's words."""
        policies, proof, values = proven
        if not np.isfinite(proof.reward_bounds).all():
            raise ill_conditioned()
        if isinstance(self.model, FunctionCMDP):
            self.warm.columns = None  # every vector counts there
        policies = self.form.said_policies(policies)
        limits, (gap, excess) = self.model.limits, self.errors(proof)
        first = limits.first_rows
        if self.renumbered is not None:
            policies = tuple((share, self.renumbered.policy(own)) for share, own in policies)
            proof = self.renumbered.certificate(proof)
        reason = ""
        if status == "limit":
            is_rounding = self.attempts.refused > 0
            reason = "time" if self.stop() else "rounding" if is_rounding else "no progress"
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
    def sharper(self) -> "Door | None":
        """This door with a gauge made for the form, where rounding is in the way of bounds."""
        form = self.form
        if not form.is_small or form.criterion.parts > 1 or form.objective is not None:
            return None
        other = copy(self)
        other.form, other.warm = form.replace(), replace(self.warm, ranges=None)
        other.form.__dict__["gauge"] = gauge_of_sizes(form)
        for name in ("ranges", "tolerances"):
            other.__dict__.pop(name, None)
        other.attempts, other.measured = copy(self.attempts), None
        other.__dict__["sharper"] = None
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
