"""Concave utilities of where a policy goes: what to maximise instead of a reward.

A utility is a sum of concave terms. A term is two functions, its value and its gradient, of either

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

| utility | F | domain | smooth |
|---|---|---|---|
| `linear(reward)` | `V` | all | yes |
| `entropy(over)` | `-sum d log d`, of states or of pairs | d >= 0 | not at 0 |
| `kl(visits)` | `-sum d log(d / q)` | d >= 0, q > 0 | not at 0 |
| `kl(visits, of="recorded")` | `-sum q log(q / d)` | d > 0 where q > 0 | not at 0 |
| `distance(visits)` | `-sum (d - q)^2` | all | yes |
| `fairness(rewards, alpha)` | `sum log V_i`, or `sum V_i^(1 - alpha) / (1 - alpha)` | V > 0 | no |
| `max_min(rewards)` | `min_i V_i` | all | no gradient: one more variable |
| `soft_limit(reward, most, least)` | `-p/2 excess^2`, or Huber's | all | yes |

`utility + utility` and `number * utility` are utilities. `own(value, gradient)` takes anybody's two
functions. With `minimise=True` the value is convex, and smaller is better.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.errors import NUMBERS, InputError, check_known, check_number

Array = np.ndarray
TINY = 1e-300  # visits below it count as this many: the logarithm of 0 is not a number
ROUNDING = 1e-13  # of a value, relative to the size of its terms
SUMS_TO_1 = 1e-12  # shares that do are taken as they are
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
        """Of the terms of the value and of the tangent at a point, which may cancel."""
        total = 0.0
        for term, point in zip(self.terms, self._points(values, visits), strict=True):
            sizes = np.abs(point * (1.0 if _is_max_min(term) else term.gradient(point)))
            value = abs(_number(term.value(point)))
            total += abs(term.weight) * (value + float(sizes.sum()))
        return total

    def doubt(self, values: Array, visits: Array | None = None) -> float:
        """What rounding can amount to in the value and in the tangent at a point."""
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
        """What `|d - d'|_1 <= error` can change, of `pairs` pairs; infinite where nobody knows."""
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


def linear(reward: Any = "reward", *, minimise: bool = False) -> Utility:
    """`F = V`, the value of a function of the model, by name or `[S, A]`.

    "reward" is the model's reward as it stands; the utility says whether it is minimised.
    """
    sign = -1.0 if minimise else 1.0
    return _of_each(
        (reward,),
        {"name": "linear", "reward": reward, "minimise": minimise},
        lambda v: sign * v,
        lambda v: np.full(v.shape, sign),
        lambda low, high: (np.ones(len(low)), np.zeros(len(low))),
        minimise,
    )


def entropy(over: str = "states") -> Utility:
    """`F = -sum d log d`: visits spread as widely as they can be, over "states" or "pairs"."""
    check_known("entropy over", over, ("states", "pairs"))

    def own(visits: Array) -> Array:
        return visits.sum(-1, keepdims=True) if over == "states" else visits

    def value(visits: Array) -> float:
        d = own(visits)
        return -float((d * _log(d)).sum())

    def gradient(visits: Array) -> Array:
        return np.broadcast_to(-_log(own(visits)) - 1, visits.shape)

    def curvature(visits: Array) -> tuple[Any, Any]:
        inverse = 1 / np.maximum(own(visits), TINY)
        return (0.0, inverse) if over == "states" else (inverse, 0.0)

    recipe = {"name": "entropy", "over": over}
    return _of_visits(value, gradient, recipe, _entropy_modulus, curvature=curvature)


def kl(visits: Any, *, of: str = "policy", minimise: bool = False) -> Utility:
    """`F = -KL(d || q)` to visits `q [S, A]`; with `of="recorded"`, `-KL(q || d)`.

    The first needs q > 0 wherever policies go; the second is the likelihood of what was recorded,
    and is finite wherever a policy visits what was recorded at all.
    """
    q, settings = _shares(visits), {"of": of, "minimise": minimise}
    check_known("kl of", of, ("policy", "recorded"))
    recipe = dict(name="kl", visits=q, **settings)
    if of == "recorded":

        def likelihood(d: Array) -> float:
            return float((q * (_log(d) - _log(q))).sum())

        def curvature(d: Array) -> tuple[Any, Any]:
            return q / np.maximum(d, TINY) ** 2, 0.0

        def slope(d: Array) -> Array:
            return q / np.maximum(d, TINY)

        return _of_visits(likelihood, slope, recipe, None, minimise, curvature=curvature)
    if not (q > 0).all():
        s, a = np.argwhere(q <= 0)[0]
        raise InputError(
            f"kl: visits[{s}, {a}] is 0, where a policy may go; smooth them, or say of='recorded'."
        )
    logs = np.log(q)

    def modulus(error: float, pairs: int) -> float:
        return _entropy_modulus(error, pairs) + error * float(np.abs(logs).max())

    def value(d: Array) -> float:
        return -float((d * (_log(d) - logs)).sum())

    def bend(d: Array) -> tuple[Any, Any]:
        return 1 / np.maximum(d, TINY), 0.0

    def gradient(d: Array) -> Array:
        return logs - _log(d) - 1

    return _of_visits(value, gradient, recipe, modulus, minimise, curvature=bend)


def distance(visits: Any, *, minimise: bool = False) -> Utility:
    """`F = -sum (d - q)^2`, the squared distance to visits `q [S, A]`."""
    q = _shares(visits)
    return _of_visits(
        lambda d: -float(((d - q) ** 2).sum()),
        lambda d: -2 * (d - q),
        {"name": "distance", "visits": q, "minimise": minimise},
        lambda error, pairs: 2 * error * (1 + float(q.max())) + error**2,
        minimise,
        lambda low, high: (np.full(1, 2.0), np.full(1, 2.0)),
        lambda d: (np.full(d.shape, 2.0), 0.0),
    )


def fairness(rewards: Sequence[Any], alpha: float = 1.0) -> Utility:
    """`F = sum_i log V_i`, or `sum_i V_i^(1 - alpha) / (1 - alpha)`: alpha 0 is the plain sum.

    rewards: k functions of the model, by name or `[S, A]`, with V_i > 0. alpha: 1 is proportional
    fairness; the larger, the more the smallest counts.
    """
    check_number("alpha", alpha, least=0)
    power = 1.0 - alpha

    def each(v: Array) -> Array:
        with np.errstate(all="ignore"):
            is_inside = v > 0 if alpha >= 1 else v >= 0
            return np.where(is_inside, np.log(v) if power == 0 else v**power / power, -np.inf)

    def slope(v: Array) -> Array:
        return np.maximum(v, TINY) ** -alpha

    names = _listed("fairness", rewards)
    recipe = {"name": "fairness", "rewards": names, "alpha": float(alpha)}
    return _of_each(names, recipe, each, slope)


def max_min(rewards: Sequence[Any]) -> Utility:
    """`F = min_i V_i` of k functions of the model: `max t` subject to `V_i >= t`."""
    names = _listed("max_min", rewards)
    if len(names) < 2:
        raise InputError("max_min: give at least two rewards.")
    recipe = {"name": "max_min", "rewards": names}

    def refuse(values: Array) -> Array:
        raise InputError("utility: max_min has no gradient; the default method solves it.")

    return Utility((Term(lambda v: float(v.min()), refuse, names, recipe=recipe),))


def soft_limit(
    reward: Any,
    most: float = math.inf,
    least: float = -math.inf,
    *,
    penalty: float = 1.0,
    huber: float = math.inf,
) -> Utility:
    """`F = -p/2 excess^2`, how far `least <= V <= most` is missed; `least = most` is a target.

    huber: beyond this excess F falls by a straight line instead.
    """
    check_number("penalty", penalty, above=0)
    if huber != math.inf:
        check_number("huber", huber, above=0)
    fits = isinstance(most, NUMBERS) and isinstance(least, NUMBERS) and least <= most
    if not fits or (math.isinf(most) and math.isinf(least)):
        raise InputError(f"soft_limit: most is {most} and least is {least}; give one, in order.")

    def excess(v: Array) -> Array:
        return np.maximum(v - most, 0) - np.maximum(least - v, 0)

    def each(v: Array) -> Array:
        far = np.abs(excess(v))
        near = np.minimum(far, huber)
        return -penalty * near * (far - near / 2)

    def slope(v: Array) -> Array:
        return -penalty * np.clip(excess(v), -huber, huber)

    def smoothness(low: Array, high: Array) -> tuple[Array, Array]:
        steepest = np.maximum(np.abs(slope(low)), np.abs(slope(high)))
        return steepest, np.full(len(low), penalty)

    settings = {"most": most, "least": least, "penalty": penalty, "huber": huber}
    return _of_each(
        (reward,), dict(name="soft_limit", reward=reward, **settings), each, slope, smoothness
    )


def own(
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    rewards: Sequence[Any] | None = None,
    *,
    minimise: bool = False,
) -> Utility:
    """A concave function of one's own, by its value and its gradient; convex if it is minimised.

    Both take visits `[S, A]`; or, with k `rewards`, values `[k]`. The value may be -inf outside the
    domain. JAX makes the second: `jax.grad(value)`.
    """
    for what, function in (("value", value), ("gradient", gradient)):
        if not callable(function):
            raise InputError(f"own: its {what} is {function!r}; give two functions of an array.")
    sign, names = -1.0 if minimise else 1.0, None if rewards is None else _listed("own", rewards)

    def concave(x: Array) -> float:
        return sign * float(_real("value", value(x.copy()), ()))

    def slope(x: Array) -> Array:
        return sign * _real("gradient", gradient(x.copy()), x.shape)

    return Utility((Term(concave, slope, names),), minimise)


def recorded_visits(
    states: Any, actions: Any, shape: tuple[int, int], *, smoothing: float = 0.0
) -> Array:
    """Shares of visits `[S, A]` in a log of transitions: state and action of each.

    smoothing: what is added to the count of every pair, so that none is 0.
    """
    check_number("smoothing", smoothing, least=0)
    pairs = [np.asarray(one) for one in (states, actions)]
    if np.shape(shape) != (2,):
        raise InputError(f"log of transitions: its shape is {shape!r}; give (states, actions).")
    if not (pairs[0].shape == pairs[1].shape == (pairs[0].size,) and pairs[0].size):
        raise InputError("log of transitions: give as many states as actions, in two lists.")
    for what, one, count in zip(("states", "actions"), pairs, shape, strict=True):
        if not (np.issubdtype(one.dtype, np.integer) and 0 <= one.min() <= one.max() < count):
            raise InputError(
                f"log of transitions: {what} must be whole numbers from 0 to {count - 1}."
            )
    counts = np.full(shape, float(smoothing))
    np.add.at(counts, tuple(pairs), 1.0)
    return _shares(counts)


READY: dict[str, Callable[..., Utility]] = {
    "linear": linear,
    "entropy": entropy,
    "kl": kl,
    "distance": distance,
    "fairness": fairness,
    "max_min": max_min,
    "soft_limit": soft_limit,
}


def made_again(recipes: Sequence[Mapping[str, Any]], minimise: bool) -> Utility:
    """The sum of ready terms, from the name, weight and settings of each."""
    terms: list[Term] = []
    for recipe in recipes:
        settings = dict(recipe)
        name, weight = str(settings.pop("name", "")), settings.pop("weight", 1.0)
        check_known("utility", name, READY)
        try:
            terms += (float(weight) * READY[name](**settings)).terms
        except TypeError as error:
            raise InputError(f"utility '{name}': {error}.") from None
    if not terms:
        raise InputError("utility: it has no terms.")
    return Utility(tuple(terms), minimise)


def from_text(text: str) -> Utility:
    """`entropy`, `entropy:pairs`, `fairness:user 1,user 2`, `max-min:a,b` or `linear:cost`."""
    name, _, rest = text.partition(":")
    name, words = name.strip().replace("-", "_"), [word.strip() for word in rest.split(",")]
    check_known("utility", name, ("entropy", "fairness", "max_min", "linear"))
    words = [word for word in words if word]
    if name in ("fairness", "max_min"):
        return READY[name](words)
    if len(words) > 1:
        raise InputError(f"utility '{text}': {name} takes one word after the colon.")
    return READY[name](*words)


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


def _real(what: str, number: Any, shape: tuple[int, ...]) -> Array:
    """What somebody's function gave, as numbers of a shape."""
    try:
        array = np.asarray(number, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(number).__name__
        raise InputError(f"utility: its {what} is {kind}; give real numbers.") from None
    if array.shape != shape:
        raise InputError(f"utility: its {what} has shape {array.shape}, expected {shape}.")
    return array


def _listed(what: str, rewards: Any) -> tuple[Any, ...]:
    """Names and arrays as a tuple."""
    if not isinstance(rewards, list | tuple | np.ndarray) or not len(rewards):
        raise InputError(f"{what}: give a list of names or arrays [S, A], one for each reward.")
    return tuple(rewards)


def _of_visits(
    value: Callable[[Array], float],
    gradient: Callable[[Array], Array],
    recipe: Mapping[str, Any],
    modulus: Callable[[float, int], float] | None,
    minimise: bool = False,
    smoothness: Any = None,
    curvature: Any = None,
) -> Utility:
    kind: dict[str, Any] = {"recipe": recipe, "modulus": modulus}
    kind |= {"smoothness": smoothness, "curvature": curvature}
    return Utility((Term(value, gradient, **kind),), minimise)


def _of_each(
    rewards: tuple[Any, ...],
    recipe: Mapping[str, Any],
    each: Callable[[Array], Array],
    slope: Callable[[Array], Array],
    smoothness: Any = None,
    minimise: bool = False,
) -> Utility:
    """A sum of one function of each value."""
    kind: dict[str, Any] = {"recipe": recipe, "smoothness": smoothness}
    return Utility((Term(lambda v: float(each(v).sum()), slope, rewards, **kind),), minimise)


def _entropy_modulus(error: float, pairs: int) -> float:
    """Fannes and Audenaert: `t log(n - 1) + h(t)`, t half the distance in L1."""
    t = error / 2
    if t == 0:
        return 0.0
    if t >= 0.5:
        return math.inf
    return t * math.log(max(pairs, 2)) - t * math.log(t) - (1 - t) * math.log1p(-t)


def _log(visits: Array) -> Array:
    return np.log(np.maximum(visits, TINY))


def _shares(visits: Any) -> Array:
    """Visits `[S, A]` as shares that sum to 1."""
    try:
        array = np.asarray(visits, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 2 or not np.isfinite(array).all() or (array < 0).any() or not array.any():
        raise InputError("visits: give an array [S, A] of numbers >= 0, not all of them 0.")
    total = array.sum()
    return array if abs(total - 1) <= SUMS_TO_1 else array / total
