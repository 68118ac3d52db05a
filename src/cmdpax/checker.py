"""Is this claim about this model true? An independent checker that shares no code with solvers.

It turns the model's own words (`<=`, `>=`, `==`, ranges, minimise) into rows `V >= b` by itself and
recomputes everything from the rows, block by block, with plain NumPy. The potentials in the
certificate are not believed; their Bellman residuals are what counts, so that wrong ones only make
the provable bounds wider than the claimed ones, which is then an error.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from cmdpax.errors import CertificateError, InputError

UNIT = float(np.finfo(float).eps)
MARGINAL_BAND = 1e-7
SUM_TOLERANCE = 1e-9
BLOCK = 1 << 16  # states that are looked at together


@dataclass(frozen=True)
class Verified:
    """What the checker could prove by itself."""

    status: str
    eps: float
    reward_bounds: tuple[float, float]
    dual_bound: float
    gap: float
    violation: float
    minimise: bool = False

    def __str__(self) -> str:
        low, high = self.reward_bounds
        side = ">=" if self.minimise else "<="
        return (
            f"verified: {self.status} at eps {self.eps:g}; reward in [{low:.12g}, {high:.12g}],"
            f" optimum {side} {self.dual_bound:.12g}, gap <= {self.gap:.3g}, violation <="
            f" {self.violation:.3g}"
        )


class _Row(NamedTuple):
    """`sign V_c[i] >= bound`: one side of constraint i."""

    constraint: int
    sign: float
    bound: float


def check(model: Any, result: Any) -> Verified:
    """Verify every claim of `result` about `model`; raises `CertificateError` if one is false.

    The error is one sentence. What comes back says what was proven: status, eps, bounds on the
    reward, the dual bound, gap and violation.
    """
    proof = getattr(result, "certificate", None)
    if not hasattr(model, "first_choice") or not hasattr(proof, "weights"):
        raise InputError("check: give it a CMDP and a Result, in this order.")
    try:
        return _verify(model, result)
    except (
        AttributeError,
        TypeError,
        ValueError,
        IndexError,
    ) as error:  # what cannot be read is not proven
        raise CertificateError(
            f"check failed: a field of the result has the wrong type or shape ({error})."
        ) from None


def _verify(model: Any, result: Any) -> Verified:
    proof, m = result.certificate, len(model.senses)
    is_own = model.matches(result.digest)
    _demand(is_own, "the result belongs to another model: the fingerprints differ")
    policy = _checked_policy(model, result.policy)
    for name in ("senses", "thresholds", "constraint_names"):
        is_own = np.array_equal(getattr(result, name), getattr(model, name))
        _demand(is_own, f"the {name.replace('_', ' ')} are not the model's")
    is_own = result.minimise == model.minimise == proof.minimise
    _demand(is_own, "whether the reward is minimised is not as in the model")
    rows, seen, sign = _rows(model), _visited(model), -1.0 if model.minimise else 1.0
    weights = _row_weights("the dual weights", proof.weights, rows, m)
    is_price = np.array_equal(result.multipliers, proof.weights)
    _demand(is_price, "the multipliers are not the dual weights of the certificate")

    low, high = _policy_bounds(model, policy, model.reward, proof.value_potentials[0], seen)
    least, most = proof.reward_bounds
    _demand(
        least <= low and high <= most,
        f"the reward is claimed in {proof.reward_bounds}, provable is [{low}, {high}]",
    )
    is_between = least <= result.reward <= most
    _demand(is_between, f"the reward {result.reward} lies outside its own bounds")
    violation, scaled_violation = _check_margins(model, result, policy, rows, seen)
    bound = _lagrangian_bound(model, sign, rows, weights, proof.dual_potential, seen)
    _demand(
        bound <= sign * proof.dual_bound,
        f"the dual bound is claimed as {proof.dual_bound}, provable is {sign * bound}",
    )
    gap = most - proof.dual_bound if model.minimise else proof.dual_bound - least
    scaled_gap = gap / _scale(model.reward[_choices(model, seen)], model.discount)
    _close("gap", proof.gap, gap)
    _close("violation", proof.violation, violation)
    _close("scaled gap", result.scaled_gap, scaled_gap)
    _close("scaled violation", result.scaled_violation, scaled_violation)
    _check_status(model, result, scaled_gap, scaled_violation, rows, seen)
    proven = (proof.reward_bounds, proof.dual_bound, gap, violation, model.minimise)
    return Verified(result.status, result.eps, *proven)


def _checked_policy(model: Any, policy: Any) -> np.ndarray:
    """The policy `[S, A]`, whose rows sum to 1, by choice, `[K]`."""
    policy, shape = np.asarray(policy, dtype=np.float64), (model.states, model.actions)
    _demand(
        policy.shape == shape,
        f"the policy has shape {policy.shape}, the model needs {shape}",
    )
    _demand(
        bool(np.isfinite(policy).all() and (policy >= 0).all()),
        "the policy has entries that are not probabilities",
    )
    off = float(np.abs(policy.sum(1) - 1).max())
    _demand(off <= SUM_TOLERANCE, f"the policy's probabilities miss a sum of 1 by {off:.3g}")
    exists = model.available if model.available is not None else np.ones(shape, dtype=bool)
    _demand(
        not policy[~exists].any(),
        "the policy chooses an action that is not available in its state",
    )
    # a missing 1e-9 would count for 1e-9 / (1 - gamma)
    return (policy / policy.sum(1, keepdims=True))[exists]


def _rows(model: Any) -> list[_Row]:
    """The model's constraints as rows `sign V >= bound`: one, or two for `==` and a range."""
    rows = []
    for i, (sense, threshold) in enumerate(zip(model.senses, model.thresholds, strict=True)):
        bounds = np.broadcast_to(threshold, 2)
        if sense != "<=":
            rows.append(_Row(i, 1.0, float(bounds[0])))
        if sense != ">=":
            rows.append(_Row(i, -1.0, -float(bounds[1])))
    return rows


def _row_weights(what: str, prices: Any, rows: list[_Row], m: int) -> np.ndarray:
    """Prices of m constraints as weights >= 0 of rows; a signed one is that of one of two rows."""
    prices = np.asarray(prices, dtype=np.float64)
    _demand(prices.shape == (m,) and bool(np.isfinite(prices).all()), f"{what} must be {m} numbers")
    sides = [sum(row.constraint == i for row in rows) for i in range(m)]
    _demand(
        all(price >= 0 for price, count in zip(prices, sides, strict=True) if count == 1),
        f"{what} must be >= 0, except those of == and ranges",
    )
    own = (
        (row.sign if sides[row.constraint] == 2 else 1.0, prices[row.constraint]) for row in rows
    )
    return np.array([max(sign * price, 0.0) for sign, price in own])


def _check_margins(
    model: Any, result: Any, policy: np.ndarray, rows: list[_Row], seen: np.ndarray
) -> tuple[float, float]:
    """Values and margins of every constraint; the largest violation, plain and scaled."""
    proof, m = result.certificate, len(model.senses)
    _demand(np.shape(proof.margin_bounds) == (m, 2), "the margin bounds must be an [m, 2] array")
    violation, scaled_violation = 0.0, 0.0
    for i, constraint in enumerate(model.constraints):
        potential = proof.value_potentials[1 + i]
        low, high = _policy_bounds(model, policy, constraint, potential, seen)
        least, most = proof.margin_bounds[i]
        claimed, size = (
            float(result.values[i]),
            _scale(constraint[_choices(model, seen)], model.discount),
        )
        # the middle of wider bounds is good enough
        around = min(float(most - least), 1e-6 * size) + 1e-12 * (1 + abs(low))
        _demand(
            low - around <= claimed <= high + around,
            f"value {i} is claimed as {claimed}, provable is [{low}, {high}]",
        )
        own = [row for row in rows if row.constraint == i]
        low, high = (
            min((low if row.sign > 0 else -high) - row.bound for row in own),
            min((high if row.sign > 0 else -low) - row.bound for row in own),
        )
        # a difference is rounded by less than a unit in the last place, and not at all if it is 0
        low, high = low and np.nextafter(low, -np.inf), high and np.nextafter(high, np.inf)
        _demand(
            least <= low and high <= most,
            f"margin {i} is claimed in [{least}, {most}], provable is [{low}, {high}]",
        )
        _demand(
            least <= result.margins[i] <= most,
            f"margin {i}, {result.margins[i]}, lies outside its own bounds",
        )
        violation = max(violation, -least)
        scaled_violation = max(scaled_violation, -least / size)
    return violation, scaled_violation


def _check_status(
    model: Any, result: Any, gap: float, violation: float, rows: list[_Row], seen: np.ndarray
) -> None:
    eps, proof = result.eps, result.certificate
    if result.status == "certified":
        for name, error in (("gap", gap), ("violation", violation)):
            _demand(
                0 < eps < np.inf and error <= eps,
                f"status certified, but the scaled {name} {error:.3g} exceeds eps {eps:g}",
            )
        return
    if result.status == "limit" or (result.status == "marginal" and proof.ray is None):
        return
    _demand(result.status in ("infeasible", "marginal"), f"the status {result.status!r} is unknown")
    _demand(proof.ray is not None, "status infeasible, but there is no ray to prove it")
    ray = _row_weights("the ray", proof.ray, rows, len(model.senses))
    _demand(bool(ray.sum() > 0), "the ray must not be all zero")
    bound = _lagrangian_bound(model, 0.0, rows, ray, proof.ray_potential, seen)
    _demand(
        bound <= proof.ray_bound,
        f"the ray's bound is claimed as {proof.ray_bound}, provable is {bound}",
    )
    if result.status == "infeasible":
        _demand(
            proof.ray_bound < 0,
            f"status infeasible, but the ray only proves {proof.ray_bound:.3g} < 0",
        )
        return
    own = _choices(model, seen)
    scales = [_scale(model.constraints[row.constraint][own], model.discount) for row in rows]
    size = float(ray @ np.array(scales))
    _demand(
        proof.ray_bound <= 2 * MARGINAL_BAND * size,
        "status marginal, but the ray does not show it",
    )


def _policy_bounds(
    model: Any, policy: np.ndarray, reward: np.ndarray, potential: Any, seen: np.ndarray
) -> tuple[float, float]:
    """Interval that holds the policy's value of `reward`, from the residual of any potential."""
    v = _vector(potential, model.states)
    weighted = policy * _action_values(model, reward, v)
    residual = np.add.reduceat(weighted, model.first_choice[:-1]) - v
    at_start, widen = float(model.initial @ v), _allowance(model, reward, v, seen)
    mass = 1 / (1 - model.discount)
    low, high = mass * float(residual[seen].min()), mass * float(residual[seen].max())
    return at_start + low - widen, at_start + high + widen


def _optimum_bound(model: Any, reward: np.ndarray, potential: Any, seen: np.ndarray) -> float:
    """Upper bound on any policy's value of `reward`, from the residual of any potential."""
    v = _vector(potential, model.states)
    best = np.maximum.reduceat(_action_values(model, reward, v), model.first_choice[:-1])
    rise = model.discount / (1 - model.discount) * float((best - v)[seen].max())
    return float(model.initial @ best) + rise + _allowance(model, reward, v, seen)


def _lagrangian_bound(
    model: Any,
    sign: float,
    rows: list[_Row],
    weights: np.ndarray,
    potential: Any,
    seen: np.ndarray,
) -> float:
    """Upper bound on any policy's `sign V_r + w.(rows - bounds)`; rounding counts by the terms."""
    combined = sign * model.reward
    own = _choices(model, seen)
    size = abs(sign) * float(np.abs(model.reward[own]).max())
    for row, weight in zip(rows, weights, strict=True):
        constraint = model.constraints[row.constraint]
        combined = combined + weight * row.sign * constraint
        size += weight * float(np.abs(constraint[own]).max())
    bounds = np.array([row.bound for row in rows])
    best, price = _optimum_bound(model, combined, potential, seen), float(weights @ bounds)
    size = size / (1 - model.discount) + float(weights @ np.abs(bounds)) + abs(best)
    return best - price + UNIT * (len(weights) + 2) * size


def _action_values(model: Any, reward: np.ndarray, v: np.ndarray) -> np.ndarray:
    """`r + gamma P v` of every choice, `[K]`."""
    values = np.empty(len(reward))
    for first in range(0, model.states, BLOCK):
        rows = model.rows(first, min(first + BLOCK, model.states))
        starts = (rows.first_entry - rows.first_entry[0]).astype(np.int64)
        next_values = np.add.reduceat(rows.probabilities * v[rows.successors], starts[:-1])
        own = slice(int(rows.first_choice[0]), int(rows.first_choice[-1]))
        values[own] = reward[own] + model.discount * next_values
    return values


def _allowance(model: Any, reward: np.ndarray, v: np.ndarray, seen: np.ndarray) -> float:
    """Rounding in sums of B products, over all time, and in the mean over initial states."""
    size = float(np.abs(v[seen]).max())
    largest = float(np.abs(reward[_choices(model, seen)]).max()) + size
    longest = int(np.diff(model.rows(0, model.states).first_entry.astype(np.int64)).max())
    terms = longest + model.actions + 2
    return UNIT * (terms * largest / (1 - model.discount) + len(v) * size)


def _visited(model: Any) -> np.ndarray:
    """States that can be reached: the only ones that matter."""
    seen = np.asarray(model.initial) > 0
    rows = model.rows(0, model.states)
    pointers = rows.first_entry[rows.first_choice].astype(np.int64)  # of all entries of a state
    fresh = np.flatnonzero(seen)
    while fresh.size:
        counts = pointers[fresh + 1] - pointers[fresh]
        shifts = np.repeat(pointers[fresh] - np.append(0, np.cumsum(counts[:-1])), counts)
        to = rows.successors[np.arange(counts.sum()) + shifts]
        fresh = np.unique(to[~seen[to]])
        seen[fresh] = True
    return seen


def _choices(model: Any, seen: np.ndarray) -> np.ndarray:
    """Which choices, `[K]`, are those of marked states `[S]`."""
    return np.repeat(seen, np.diff(model.first_choice))


def _scale(values: np.ndarray, discount: float) -> float:
    span = float(values.max() - values.min())
    return (span if span > 0 else 1.0) / (1 - discount)


def _vector(potential: Any, size: int) -> np.ndarray:
    v = np.asarray(potential, dtype=np.float64)
    _demand(
        v.shape == (size,) and bool(np.isfinite(v).all()),
        "a potential of the certificate is missing or not finite",
    )
    return v


def _close(name: str, claimed: float, true: float) -> None:
    is_close = abs(claimed - true) <= 1e-12 * (1 + abs(true))
    _demand(is_close, f"the {name} is claimed as {claimed}, it is {true}")


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise CertificateError(f"check failed: {sentence}.")
