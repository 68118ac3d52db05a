"""A utility on one form: its value and gradient at a policy, and what is proven about both.

The point of a policy is its values `V [k]` of the utility's rewards, and its visits `d [S, A]` as
shares where a term is of visits. The gradient at a point is a reward by choice,

    slope = sum_j g_j r_j + (1 - gamma) G,     g = dF/dV,  G = dF/dd.

Interval of `F(pi)`: the values of a policy lie in a box that potentials prove (`bounds.py`), and
its visits within `|rho - (I - gamma P_pi') nu|_1` of any vector nu, times the modulus of continuity
of F. Bound on the optimum: `F <= offset + V_slope` everywhere, with the tangent at any point, so an
upper bound on the best value of the slope, with constraints by their prices, is one on F.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.bounds import best_bounds, claim, mixed, policy_bounds
from cmdpax.model.result import FLOOR, UtilityProof
from cmdpax.utilities.utility import Utility

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

UNIT_ROUNDING = float(np.finfo(float).eps)
DOUBTS = 2.0  # times the rounding that whoever checks a claim allows for


@dataclass(frozen=True, eq=False)
class Objective:
    """A utility, its rewards `[k, K]`, and the unit in which its value counts."""

    utility: Utility
    rewards: np.ndarray
    unit: float = 1.0
    at_uniform: float = 0.0  # F of the uniform policy, as it stands: what progress is measured from
    size: float = 0.0  # of the terms of F there

    def tolerance(self, bound: float, eps: float) -> float:
        """What a gap may be: a share of what leads from the uniform policy to a bound on F."""
        best, start = bound * self.unit, self.at_uniform
        floor = FLOOR * max(abs(best), abs(start), self.size)
        return max(eps * abs(best - start), floor) / self.unit

    def in_units(self, unit: float) -> "Objective":
        """The same in another unit."""
        return replace(self, unit=self.unit * unit)

    def point(
        self, form: "StandardForm", policy: np.ndarray, tolerance: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Values `[k]` of a policy `[K]` and, where a term is of visits, the visits `[S, A]`."""
        _refuse_batch(policy)
        visits = form.criterion.visits(form, policy, tolerance=tolerance)
        return self.point_of(form, form.transitions.by_state(visits) * policy)

    def point_of(
        self, form: "StandardForm", mass: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """The same of visits by choice `[K]`, which are no shares."""
        # sums, not dot products: they do not depend on the number of BLAS threads
        values = (self.rewards * mass).sum(-1)
        if self.utility.is_of_values:
            return values, None
        return values, form.transitions.as_table(form.criterion.unit * mass)

    def slope(
        self, form: "StandardForm", slopes: np.ndarray, table: np.ndarray | None
    ) -> np.ndarray:
        """Gradients `[k]` and `[S, A]` as one reward `[K]`."""
        reward = slopes @ self.rewards if len(slopes) else np.zeros(form.choices)
        if table is not None:
            own = np.asarray(table).reshape(-1)[form.transitions.cells]
            reward = reward + form.criterion.unit * own
        return reward / self.unit

    def linearised(
        self, form: "StandardForm", policy: np.ndarray
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """The value at a policy `[K]`, its gradient `[K]`, and the visits `[S]`."""
        _refuse_batch(policy)
        visits = form.criterion.visits(form, policy)
        value, slope = self.at(
            form, self.point_of(form, form.transitions.by_state(visits) * policy)
        )
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise InputError(
                f"utility: its value is {value:g} at a policy on the way, where it has no gradient;"
                " it must be finite wherever policies with positive probabilities go."
            )
        return value, slope, visits

    def at(
        self, form: "StandardForm", point: tuple[np.ndarray, np.ndarray | None]
    ) -> tuple[float, np.ndarray]:
        """The value at a point, and its gradient `[K]`."""
        value = self.utility.value(*point) / self.unit
        return value, self.slope(form, *self.utility.gradient(*point))

    def curvature(
        self, form: "StandardForm", point: tuple[np.ndarray, np.ndarray | None]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`-F''` with respect to visits by choice that are no shares, in three parts.

        One number for each choice `[K]`, one for all choices of a state together `[S]`, and rows R
        `[q, K]` with `R'R`, of the terms of values.
        """
        values, visits = point
        assert visits is not None
        pairs, states = self.utility.curvature(values, visits)
        factor = form.criterion.unit**2 / self.unit
        by_choice = np.broadcast_to(pairs, visits.shape).reshape(-1)[form.transitions.cells]
        of_state = np.broadcast_to(states, (len(visits), 1))[:, 0]
        rows = self.utility.root(*point) @ self.rewards / self.unit**0.5
        return factor * by_choice, factor * of_state, rows

    def smoothness(self, form: "StandardForm") -> float:
        """How smooth the utility is as a function of a table of probabilities.

        With `|grad F| <= s` and a Lipschitz constant l of the gradient, the second derivative along
        a unit direction is at most `curvature span(g) + l (slope of what F is of)^2`
        (`Discounted.smoothness`).
        """
        curvature, slope = form.criterion.smoothness(form)
        total, rows = 0.0, iter(self.rewards)
        for term in self.utility.terms:
            if term.smoothness is None:
                raise InputError(
                    "step: 'theory' needs a utility that is smooth everywhere; give a number."
                )
            own = [next(rows) for _ in range(term.count)]
            ends = [np.array([end(row) for row in own]) for end in (np.min, np.max)]
            low, high = (form.criterion.mass * end for end in ends)
            steepest, bend = term.smoothness(low, high)
            spans, unit = high - low, form.criterion.unit
            if own:
                sizes = curvature * steepest * spans * unit + bend * slope * (spans * unit) ** 2
            else:  # a reward in [-s, s], and shares whose change is at most that of 1 and -1
                sizes = curvature * 2 * steepest * unit + bend * slope * (2 * unit) ** 2
            total += term.weight * float(sizes.sum())
        return total / self.unit

    def interval(
        self, form: "StandardForm", policy: np.ndarray, tolerance: float = 0.0
    ) -> tuple[tuple[float, float], tuple[np.ndarray, np.ndarray | None], np.ndarray]:
        """Bounds on F of a policy `[K]`, its point, and what proves them.

        The proof is potentials `[k, S]`, or visits `[1, S]` where a term is of visits (then those
        prove the values too).
        """
        utility = self.utility
        if utility.is_of_values:
            claims = [claim(form, row) for row in self.rewards]
            potentials = form.criterion.potentials(form, policy, claims, tolerance)
            bounds = np.array(
                [
                    policy_bounds(form, policy, *pair, form.gauge)
                    for pair in zip(claims, potentials, strict=True)
                ]
            )
            low, high = bounds.T
            return between(utility, low, high), ((low + high) / 2, None), potentials
        visits = form.criterion.visits(form, policy, tolerance=tolerance)
        mass = form.transitions.by_state(visits) * policy
        point, error = self.point_of(form, mass), residual(form, policy, visits)
        largest = np.abs(self.rewards).max(1, initial=0.0) * form.criterion.mass * error
        low, high = between(utility, point[0] - largest, point[0] + largest, point[1])
        doubt = utility.modulus(error, form.states * form.actions) if utility.is_proven else 0.0
        return (low - doubt, high + doubt), point, visits[None]

    def bound(
        self,
        form: "StandardForm",
        point: tuple[np.ndarray, np.ndarray | None],
        weights: np.ndarray,
        potential: np.ndarray,
    ) -> float:
        """An upper bound on F of every feasible policy.

        point: where the tangent touches. weights: prices `[m]` of the constraints. potential: any
        `[S]`, best the values of the slope and `weights.c`.
        """
        offset, slopes, table = self.utility.tangent(*point)
        slope = replace(self, unit=1.0).slope(form, slopes, table)
        best = best_bounds(form, mixed(form, slope, weights), potential, form.gauge)[1]
        return offset + best + DOUBTS * self.utility.doubt(*point)


def _refuse_batch(policy: np.ndarray) -> None:
    if policy.ndim > 1:
        raise InputError("utility: it takes one configuration at a time; give numbers.")


def between(
    utility: Utility, low: np.ndarray, high: np.ndarray, visits: np.ndarray | None = None
) -> tuple[float, float]:
    """Bounds on F for values between `low [k]` and `high [k]`, at visits `[S, A]`.

    Of a concave function, the least of a box is at a corner, and the most is below any tangent.
    """
    middle = (low + high) / 2
    doubt = DOUBTS * utility.doubt(middle, visits)
    least = utility.value(utility.lowest(low, high), visits) - doubt
    if not utility.has_gradient:
        return least, utility.value(high, visits) + doubt
    slopes = utility.gradient(middle, visits)[0]
    most = utility.value(middle, visits) + float(np.abs(slopes) @ (high - low)) / 2
    return least, most + doubt


def residual(form: "StandardForm", policy: np.ndarray, visits: np.ndarray) -> float:
    """`|rho - (I - gamma P_pi') nu|_1`: what shares of visits can be off by, in all.

    The inverse of the matrix has norm `1 / (1 - gamma)`, which shares are multiplied by.
    """
    mass = form.transitions.by_state(visits) * policy
    off = np.abs(form.criterion.flow(form) @ mass - form.initial)
    terms = form.transitions.longest + form.actions + form.states**0.5 + 8
    return float(off.sum()) + 2 * DOUBTS * UNIT_ROUNDING * terms * float(mass.sum())


def utility_proof(
    objective: Objective,
    form: "StandardForm",
    policy: np.ndarray,
    weights: np.ndarray,
    touching: tuple[np.ndarray, np.ndarray | None] | None = None,
    tolerance: float = 0.0,
) -> tuple[tuple[float, float], float, UtilityProof, np.ndarray]:
    """Bounds on F of a policy `[K]`, a bound on the optimum, what proves them, and a potential.

    weights: prices `[m]` of the constraints. touching: the point of the tangent, values `[k]` (of
    max-min: prices) and visits `[S, A]`; by default the policy's own.
    """
    bounds, point, potentials = objective.interval(form, policy, tolerance)
    at_start, _, start = objective.interval(form, form.uniform_policy(), tolerance)
    touching = point if touching is None else touching
    _, slopes, table = objective.utility.tangent(*touching)
    slope = replace(objective, unit=1.0).slope(form, slopes, table)
    best = form.criterion.plan(form, mixed(form, slope, weights).reward, tolerance=tolerance)
    potential = form.criterion.centred(form, best.values)
    bound = objective.bound(form, touching, weights, potential)
    proof = UtilityProof(*touching, potentials, start, at_start[1])
    return bounds, bound, proof, potential
