"""A concave utility: a sum of terms, its value and gradient, and what they prove.

A term is two functions, its value and its gradient, of either

- the visits `d [S, A]` of a policy as shares, `d(s,a) = (1 - gamma) E sum_t gamma^t [s_t = s, a_t =
  a]`, which sum to 1; or
- k linear values `V_1 .. V_k`, of functions of the model, each by its name or as an array `[S, A]`.
  Then the gradient is k weights.

The gradient is a reward: to first order a policy improves the utility F by improving the value of
`g = grad F`. Because F is concave, for ANY point m and every policy

    F(policy) <= F(m) + g.(its point - m),    g = grad F(m),

so one plan for the reward g bounds the optimum (`tangent`). The augmented Lagrangian is such a
utility of the values of the constraints (`lagrangian.py`), and Algorithm 1 puts constraints around
any other.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_number

Array = np.ndarray
ROUNDING = 1e-13  # of a value, relative to the size of its terms
QUOTIENT = 1e-5  # step of difference quotients, relative to the size of the values
FLAT = 1e-12  # curvature that is rounding, relative
PAIRS, CONCAVITY = 64, 1e-9  # random pairs that test concavity, and what rounding may amount to


@dataclass(frozen=True, eq=False)
class Term:
    """One concave function of visits `[S, A]`, or of the values `[k]` of `rewards`."""

    value: Callable[[Array], float]
    gradient: Callable[[Array], Array]
    rewards: tuple[Any, ...] | None = None  # k names or arrays [S, A]; None: of visits
    weight: float = 1.0
    recipe: Mapping[str, Any] | None = None  # name and settings of a ready one; None: one's own
    # |F(d) - F(d')| at most this, for |d - d'|_1 and the number of pairs; of a ready term of visits
    modulus: Callable[[float, int], float] | None = None
    # bounds on |gradient| and on its Lipschitz constant, of values in [low, high] or of all visits
    smoothness: Callable[[Array, Array], tuple[Array, Array]] | None = None
    # -F'' of a ready term of visits: of pairs [S, A], and of all visits of a state [S, 1]; 0: none
    curvature: Callable[[Array], tuple[Any, Any]] | None = None

    @property
    def count(self) -> int:
        """Number of values k; 0 for visits."""
        return 0 if self.rewards is None else len(self.rewards)


@dataclass(frozen=True, eq=False)
class Utility:
    """A sum of concave terms, to be maximised; or, said the other way round, minimised."""

    terms: tuple[Term, ...]
    minimise: bool = False  # whether the number that is said is minus the concave one

    @cached_property
    def rewards(self) -> tuple[Any, ...]:
        """The functions whose values the terms are of, one after the other, k in all."""
        return tuple(reward for term in self.terms for reward in term.rewards or ())

    @property
    def is_of_values(self) -> bool:
        """Whether no term is of visits."""
        return all(term.rewards is not None for term in self.terms)

    @property
    def criteria(self) -> tuple[str, ...]:
        """What models take it: visits are shares where there is a discount."""
        return ("discounted", "total", "finite") if self.is_of_values else ("discounted",)

    @property
    def is_ready(self) -> bool:
        """Whether all terms are ready ones, which are concave."""
        return all(term.recipe is not None for term in self.terms)

    @property
    def has_gradient(self) -> bool:
        """Whether methods can climb it: max-min has no gradient."""
        return not any(_is_max_min(term) for term in self.terms)

    @property
    def is_proven(self) -> bool:
        """Whether the value of a policy has an interval that rounding cannot spoil."""
        return all(
            term.recipe is not None and (term.rewards is not None or term.modulus is not None)
            for term in self.terms
        )

    @property
    def has_curvature(self) -> bool:
        """Whether the second derivative is known of all terms of visits."""
        return all(term.curvature is not None for term in self.terms if term.rewards is None)

    @property
    def sign(self) -> float:
        """What the concave value is multiplied by to be the one that is said."""
        return -1.0 if self.minimise else 1.0

    @property
    def name(self) -> str:
        """`entropy`, or `1 * linear + 0.5 * entropy`."""
        names = [str(term.recipe["name"]) if term.recipe else "own" for term in self.terms]
        if len(names) == 1 and self.terms[0].weight == 1:
            return names[0]
        return " + ".join(f"{term.weight:g} * {name}" for term, name in zip(self.terms, names))

    def value(self, values: Array, visits: Array | None = None) -> float:
        """The concave value at values `[k]` and visits `[S, A]`; -inf outside its domain."""
        points = zip(self.terms, self._points(values, visits), strict=True)
        return float(sum(term.weight * _number(term.value(point)) for term, point in points))

    def gradient(self, values: Array, visits: Array | None = None) -> tuple[Array, Array | None]:
        """Its gradients, `[k]` and `[S, A]`, the second None if no term is of visits."""
        slopes: list[Array] = []
        table: Array | None = None
        for term, point in zip(self.terms, self._points(values, visits), strict=True):
            own = term.weight * np.asarray(term.gradient(point), dtype=np.float64)
            if term.rewards is not None:
                slopes.append(own)
            else:
                table = own if table is None else table + own
        return np.concatenate(slopes) if slopes else np.zeros(0), table

    def tangent(self, values: Array, visits: Array | None = None) -> tuple[float, Array, Any]:
        """`offset, g, G` with `F <= offset + g.V + G.d` everywhere, touching F at the point.

        Of max-min, `values` are k prices >= 0 with a positive sum, and `min V <= prices.V / sum`.
        """
        if not self.has_gradient:
            prices = self.terms[0].weight * np.maximum(values, 0) / np.maximum(values, 0).sum()
            return 0.0, prices, None
        slopes, table = self.gradient(values, visits)
        offset = self.value(values, visits) - float((slopes * values).sum())
        if table is not None and visits is not None:
            offset -= float((table * visits).sum())
        return offset, slopes, table

    def curvature(self, values: Array, visits: Array) -> tuple[Any, Any]:
        """`-F''` with respect to visits: of pairs `[S, A]`, and of a state's together `[S, 1]`."""
        pairs: Any = 0.0
        states: Any = 0.0
        for term, point in zip(self.terms, self._points(values, visits), strict=True):
            if term.rewards is None and term.curvature is not None:
                of_pairs, of_states = term.curvature(point)
                pairs, states = pairs + term.weight * of_pairs, states + term.weight * of_states
        return pairs, states

    def root(self, values: Array, visits: Array | None = None) -> Array:
        """R with `R' R = -F''` with respect to values `[q, k]`, q the eigenvalues that count.

        F'' is the difference quotient of the gradient, k evaluations of it.
        """
        k, here = len(values), self.gradient(values, visits)[0]
        bend = np.empty((k, k))
        for j in range(k):
            step = np.zeros(k)
            step[j] = QUOTIENT * max(abs(values[j]), QUOTIENT)
            bend[j] = (here - self.gradient(values + step, visits)[0]) / step[j]
        bend = np.where(np.isfinite(bend), (bend + bend.T) / 2, 0.0)
        sizes, vectors = np.linalg.eigh(bend)
        chosen = sizes > FLAT * max(float(np.abs(sizes).max(initial=0.0)), FLAT)
        return np.sqrt(sizes[chosen])[:, None] * vectors[:, chosen].T

    def size(self, values: Array, visits: Array | None = None) -> float:
        """Sum of the absolute terms of the value and of the tangent at a point."""
        total = 0.0
        for term, point in zip(self.terms, self._points(values, visits), strict=True):
            sizes = np.abs(point * (1.0 if _is_max_min(term) else term.gradient(point)))
            value = abs(_number(term.value(point)))
            total += abs(term.weight) * (value + float(sizes.sum()))
        return total

    def doubt(self, values: Array, visits: Array | None = None) -> float:
        """How far rounding can move the value and the tangent at a point."""
        return ROUNDING * self.size(values, visits)

    def lowest(self, low: Array, high: Array) -> Array:
        """The corner `[k]` of a box of values where the utility is least.

        Ready terms are sums of functions of one value each, or increase in all: one pass finds it.
        """
        corner, least = low.copy(), self._of_values(low)
        for i in range(len(low)):
            other = corner.copy()
            other[i] = high[i]
            if (value := self._of_values(other)) < least:
                corner, least = other, value
        return corner

    def modulus(self, error: float, pairs: int) -> float:
        """How far F can change for `|d - d'|_1 <= error` of `pairs` pairs; infinite if unknown."""
        own = [term for term in self.terms if term.rewards is None]
        if any(term.modulus is None for term in own):
            return math.inf
        return sum(term.weight * term.modulus(error, pairs) for term in own if term.modulus)

    def _of_values(self, values: Array) -> float:
        points = self._split(values)
        terms = [term for term in self.terms if term.rewards is not None]
        return sum(term.weight * _number(term.value(x)) for term, x in zip(terms, points))

    def _split(self, values: Array) -> list[Array]:
        ends = np.cumsum([term.count for term in self.terms if term.rewards is not None])
        return np.split(values, ends[:-1]) if len(ends) else []

    def _points(self, values: Array, visits: Array | None) -> list[Array]:
        """What each term is of."""
        parts = iter(self._split(values))
        return [
            next(parts) if term.rewards is not None else np.asarray(visits) for term in self.terms
        ]

    def __add__(self, other: "Utility") -> "Utility":
        if not isinstance(other, Utility):
            return NotImplemented
        if self.minimise != other.minimise:
            raise InputError("utility: a sum is either maximised or minimised; turn one of them.")
        if not (self.has_gradient and other.has_gradient):
            raise InputError("utility: max_min has no gradient to add; use it alone.")
        return Utility((*self.terms, *other.terms), self.minimise)

    def __rmul__(self, weight: float) -> "Utility":
        check_number("weight of a utility", weight, least=0)
        terms = (replace(term, weight=float(weight) * term.weight) for term in self.terms)
        return Utility(tuple(terms), self.minimise)

    __mul__ = __rmul__

    def __repr__(self) -> str:
        return f"Utility({'minimise ' if self.minimise else ''}{self.name})"


def _is_max_min(term: Term) -> bool:
    return term.recipe is not None and term.recipe["name"] == "max_min"


def _number(value: Any) -> float:
    """A value as a number; NaN is outside the domain."""
    number = float(value)
    return -math.inf if math.isnan(number) else number


def refuse_not_concave(utility: Utility, values: Array, visits: Array | None) -> None:
    """Refuse a utility of one's own whose gradients at random pairs of points contradict concavity.

    values `[n, k]` and visits `[n, S, A]` are those of n policies; for concave F,
    `F(y) <= F(x) + grad F(x).(y - x)`.
    """
    chosen = np.random.default_rng(0).integers(0, len(values), (PAIRS, 2))
    for i, j in chosen:
        x, y = ((values[one], None if visits is None else visits[one]) for one in (i, j))
        before, after = utility.value(*x), utility.value(*y)
        if i == j or not (math.isfinite(before) and math.isfinite(after)):
            continue
        offset, slopes, table = utility.tangent(*x)
        if not (np.isfinite(slopes).all() and (table is None or np.isfinite(table).all())):
            raise InputError("utility: its gradient is not finite at a policy where its value is.")
        bound = offset + float(slopes @ y[0])
        bound += 0.0 if table is None else float((table * y[1]).sum())
        size = 1 + abs(before) + abs(after) + abs(bound)
        if not after <= bound + CONCAVITY * size:
            raise InputError(
                f"utility: it is not {'convex' if utility.minimise else 'concave'}: between two"
                f" policies it changes by {utility.sign * (after - before):.6g}, its gradient"
                f" allows {utility.sign * (bound - before):.6g}; check both functions."
            )
