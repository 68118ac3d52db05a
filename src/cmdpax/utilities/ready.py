"""Ready utilities, one's own, and those that a recipe or a text names."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cmdpax.errors import NUMBERS, InputError, check_known, check_number
from cmdpax.utilities.utility import Array, Term, Utility

TINY = 1e-300  # visits below it count as this many: the logarithm of 0 is not a number
SUMS_TO_1 = 1e-12  # shares that do are taken as they are


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
    counts = np.asarray(shape)
    if counts.shape != (2,) or counts.dtype.kind not in "iu" or (counts < 1).any():
        raise InputError(f"log of transitions: its shape is {shape!r}; give (states, actions).")
    if not (pairs[0].shape == pairs[1].shape == (pairs[0].size,) and pairs[0].size):
        raise InputError("log of transitions: give as many states as actions, in two lists.")
    for what, one, count in zip(("states", "actions"), pairs, shape, strict=True):
        if not (np.issubdtype(one.dtype, np.integer) and 0 <= one.min() <= one.max() < count):
            raise InputError(
                f"log of transitions: {what} must be whole numbers from 0 to {count - 1}."
            )
    visits = np.full(shape, float(smoothing))
    np.add.at(visits, tuple(pairs), 1.0)
    return _shares(visits)


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
