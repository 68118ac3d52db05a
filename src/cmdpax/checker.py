"""An independent checker: verifies a result from the model alone, and shares no code with the
solvers.

Everything is recomputed from the successor lists with plain NumPy. The potentials in the
certificate are not believed; their Bellman residuals are what counts, so that wrong ones only make
the provable bounds wider than the claimed ones, which is then an error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.errors import CertificateError, InputError

UNIT = float(np.finfo(float).eps)
MARGINAL_BAND = 1e-7
SUM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Verified:
    """What the checker could prove by itself."""

    status: str
    eps: float
    reward_bounds: tuple[float, float]
    dual_bound: float
    gap: float
    violation: float

    def __str__(self) -> str:
        low, high = self.reward_bounds
        return (
            f"verified: {self.status} at eps {self.eps:g}; reward in [{low:.12g}, {high:.12g}],"
            f" optimum <= {self.dual_bound:.12g}, gap <= {self.gap:.3g}, violation <="
            f" {self.violation:.3g}"
        )


def check(model: Any, result: Any) -> Verified:
    """Verify every claim of `result` about `model`; raises `CertificateError` with one sentence if
    one is false.

    What comes back says what was proven: status, eps, bounds on the reward, the dual bound, gap and
    violation.
    """
    if (
        not hasattr(model, "successors")
        or not hasattr(result, "certificate")
        or not hasattr(result.certificate, "weights")
    ):
        raise InputError("check: give it a CMDP and a Result, in this order.")
    try:
        return _verify(model, result)
    except (TypeError, ValueError, IndexError) as error:  # what cannot be read is not proven
        raise CertificateError(
            f"check failed: a field of the result has the wrong type or shape ({error})."
        ) from None


def _verify(model: Any, result: Any) -> Verified:
    proof = result.certificate
    _demand(
        result.digest == model.digest,
        "the result belongs to another model: the fingerprints differ",
    )
    policy = np.asarray(result.policy, dtype=np.float64)
    _demand(
        policy.shape == model.reward.shape,
        f"the policy has shape {policy.shape}, the model needs {model.reward.shape}",
    )
    _demand(
        bool(np.isfinite(policy).all() and (policy >= 0).all()),
        "the policy has entries that are not probabilities",
    )
    off = float(np.abs(policy.sum(1) - 1).max())
    _demand(off <= SUM_TOLERANCE, f"the policy's probabilities miss a sum of 1 by {off:.3g}")
    policy = policy / policy.sum(
        1, keepdims=True
    )  # a missing 1e-9 would count for 1e-9 / (1 - gamma)
    if model.available is not None:
        _demand(
            not policy[~model.available].any(),
            "the policy chooses an action that is not available in its state",
        )
    m = len(model.thresholds)
    weights = np.asarray(proof.weights, dtype=np.float64)
    _demand(
        weights.shape == (m,) and bool((weights >= 0).all()),
        "the dual weights must be m numbers >= 0",
    )
    _demand(
        np.array_equal(result.multipliers, weights),
        "the multipliers are not the dual weights of the certificate",
    )
    _demand(
        np.array_equal(result.thresholds, model.thresholds), "the thresholds are not the model's"
    )
    _demand(
        tuple(result.senses) == tuple(model.senses),
        "the senses of the constraints are not the model's",
    )
    names = tuple(result.constraint_names)
    _demand(
        len(names) == m and names == (model.constraint_names or names),
        "the names of the constraints are not the model's",
    )
    seen = _visited(model)

    low, high = _policy_bounds(model, policy, model.reward, proof.value_potentials[0], seen)
    claimed_low, claimed_high = proof.reward_bounds
    _demand(
        claimed_low <= low and high <= claimed_high,
        f"the reward is claimed in {proof.reward_bounds}, provable is [{low}, {high}]",
    )
    _demand(
        claimed_low <= result.reward <= claimed_high,
        f"the reward {result.reward} lies outside its own bounds",
    )

    violation, scaled_violation = 0.0, 0.0
    _demand(np.shape(proof.margin_bounds) == (m, 2), "the margin bounds must be an [m, 2] array")
    for i in range(m):
        low_i, high_i = _policy_bounds(
            model, policy, model.constraints[i], proof.value_potentials[1 + i], seen
        )
        least, most = proof.margin_bounds[i]
        claimed, size = float(result.values[i]), _scale(model.constraints[i][seen], model.discount)
        around = min(float(most - least), 1e-6 * size) + 1e-12 * (
            1 + abs(low_i)
        )  # the middle of wider bounds is good enough
        _demand(
            low_i - around <= claimed <= high_i + around,
            f"value {i} is claimed as {claimed}, provable is [{low_i}, {high_i}]",
        )
        low_i, high_i = low_i - model.thresholds[i], high_i - model.thresholds[i]
        _demand(
            least <= low_i and high_i <= most,
            f"margin {i} is claimed in [{least}, {most}], provable is [{low_i}, {high_i}]",
        )
        _demand(
            least <= result.margins[i] <= most,
            f"margin {i}, {result.margins[i]}, lies outside its own bounds",
        )
        violation = max(violation, -least)
        scaled_violation = max(scaled_violation, -least / size)

    bound = _lagrangian_bound(model, model.reward, weights, proof.dual_potential, seen)
    _demand(
        bound <= proof.dual_bound,
        f"the dual bound is claimed as {proof.dual_bound}, provable is {bound}",
    )
    gap = proof.dual_bound - claimed_low
    scaled_gap = gap / _scale(model.reward[seen], model.discount)
    _close("gap", proof.gap, gap)
    _close("violation", proof.violation, violation)
    _close("scaled gap", result.scaled_gap, scaled_gap)
    _close("scaled violation", result.scaled_violation, scaled_violation)
    _check_status(model, result, scaled_gap, scaled_violation, seen)
    return Verified(
        result.status, result.eps, proof.reward_bounds, proof.dual_bound, gap, violation
    )


def _check_status(model: Any, result: Any, gap: float, violation: float, seen: np.ndarray) -> None:
    if result.status == "certified":
        _demand(
            0 < result.eps < np.inf and gap <= result.eps,
            f"status certified, but the scaled gap {gap:.3g} exceeds eps {result.eps:g}",
        )
        _demand(
            violation <= result.eps,
            f"status certified, but the scaled violation {violation:.3g} exceeds eps"
            f" {result.eps:g}",
        )
    elif result.status in ("infeasible", "marginal"):
        proof = result.certificate
        if result.status == "marginal" and proof.ray is None:
            return
        _demand(proof.ray is not None, "status infeasible, but there is no ray to prove it")
        ray = np.asarray(proof.ray, dtype=np.float64)
        usable = (
            ray.shape == model.thresholds.shape
            and (ray >= 0).all()
            and ray.sum() > 0
            and np.isfinite(ray).all()
        )
        _demand(bool(usable), "the ray must be m numbers >= 0, not all zero")
        bound = _lagrangian_bound(
            model, np.zeros_like(model.reward), ray, proof.ray_potential, seen
        )
        _demand(
            bound <= proof.ray_bound,
            f"the ray's bound is claimed as {proof.ray_bound}, provable is {bound}",
        )
        size = sum(
            y * _scale(c[seen], model.discount) for y, c in zip(ray, model.constraints, strict=True)
        )
        if result.status == "infeasible":
            _demand(
                proof.ray_bound < 0,
                f"status infeasible, but the ray only proves {proof.ray_bound:.3g} < 0",
            )
        else:
            _demand(
                proof.ray_bound <= 2 * MARGINAL_BAND * size,
                "status marginal, but the ray does not show it",
            )
    else:
        _demand(result.status == "limit", f"the status {result.status!r} is not known")


def _policy_bounds(
    model: Any, policy: np.ndarray, reward: np.ndarray, potential: Any, seen: np.ndarray
) -> tuple[float, float]:
    """Interval that holds the policy's value of `reward`, from the residual of any potential."""
    v = _vector(potential, len(policy))
    residual = sum(policy[:, a] * _backup(model, reward, v, a) for a in range(policy.shape[1])) - v
    at_start, widen = float(model.initial @ v), _allowance(model, reward, v, seen)
    horizon = 1 / (1 - model.discount)
    return (
        at_start + horizon * float(residual[seen].min()) - widen,
        at_start + horizon * float(residual[seen].max()) + widen,
    )


def _optimum_bound(model: Any, reward: np.ndarray, potential: Any, seen: np.ndarray) -> float:
    """Upper bound on any policy's value of `reward`, from the residual of any potential."""
    v = _vector(potential, len(reward))
    best = _backup(model, reward, v, 0)
    for a in range(1, reward.shape[1]):
        np.maximum(best, _backup(model, reward, v, a), out=best)
    rise = float((best - v)[seen].max())
    return (
        float(model.initial @ best)
        + model.discount / (1 - model.discount) * rise
        + _allowance(model, reward, v, seen)
    )


def _lagrangian_bound(
    model: Any, reward: np.ndarray, weights: np.ndarray, potential: Any, seen: np.ndarray
) -> float:
    """Upper bound on any policy's `V + w.(V_c - b)`, V that of `reward`; rounding in `r + w.c`
    counts by its terms.
    """
    combined, size = reward.copy(), float(np.abs(reward[seen]).max())
    for w, c in zip(weights, model.constraints, strict=True):
        combined += w * c
        size += w * float(np.abs(c[seen]).max())
    best, price = (
        _optimum_bound(model, combined, potential, seen),
        float(weights @ model.thresholds),
    )
    size = size / (1 - model.discount) + float(weights @ np.abs(model.thresholds)) + abs(best)
    return best - price + UNIT * (len(weights) + 2) * size


def _backup(model: Any, reward: np.ndarray, v: np.ndarray, a: int) -> np.ndarray:
    return reward[:, a] + model.discount * (
        model.probabilities[:, a, :] * v[model.successors[:, a, :]]
    ).sum(-1)


def _allowance(model: Any, reward: np.ndarray, v: np.ndarray, seen: np.ndarray) -> float:
    """Rounding in sums of B products, carried over the horizon, and in the mean over the initial
    distribution.
    """
    size = float(np.abs(v[seen]).max())
    largest = float(np.abs(reward[seen]).max()) + size
    return UNIT * (
        (model.successors.shape[2] + reward.shape[1] + 2) * largest / (1 - model.discount)
        + len(v) * size
    )


def _visited(model: Any) -> np.ndarray:
    """States that can be reached: the only ones that matter."""
    seen = np.asarray(model.initial) > 0
    fresh = np.flatnonzero(seen)
    while fresh.size:
        to = model.successors[fresh][model.probabilities[fresh] > 0]
        fresh = np.unique(to[~seen[to]])
        seen[fresh] = True
    return seen


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


def _close(name: str, claimed: float, found: float) -> None:
    _demand(
        abs(claimed - found) <= 1e-12 * (1 + abs(found)),
        f"the {name} is claimed as {claimed}, it is {found}",
    )


def _demand(holds: bool, sentence: str) -> None:
    if not holds:
        raise CertificateError(f"check failed: {sentence}.")
