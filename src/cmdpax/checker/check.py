"""Is this claim about this model true? The door of the checker.

It recomputes everything from the model's own rows and words, with plain NumPy. The potentials in
the certificate are not believed: wrong ones only make the provable bounds wider than the claimed
ones, which is then an error.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.checker.bounds import lagrangian_bound, mixed_bounds
from cmdpax.checker.demands import demand, demand_close, gauge
from cmdpax.checker.ending import ending
from cmdpax.checker.facts import ByBlocks, Facts, choices, visited
from cmdpax.checker.limits import check_margins, check_ray, limit_rows, row_weights
from cmdpax.checker.policies import checked_mixture
from cmdpax.checker.tolerances import as_share, check_ranges
from cmdpax.checker.utility import utility_bounds
from cmdpax.errors import CertificateError, InputError


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
    note: str = ""  # of a utility: what is taken for granted

    def __str__(self) -> str:
        low, high = self.reward_bounds
        side = ">=" if self.minimise else "<="
        optimum = f" optimum {side} {self.dual_bound:.12g}, gap <= {self.gap:.3g},"
        return (
            f"verified: {self.status} at eps {self.eps:g}; reward in [{low:.12g}, {high:.12g}],"
            f"{'' if self.status == 'infeasible' else optimum} violation <= {self.violation:.3g}"
            f"{self.note}"
        )


def check(model: Any, result: Any, utility: Any = None) -> Verified:
    """Verify every claim of `result` about `model`; raises `CertificateError` if one is false.

    utility: that of a result from a file, where it is one's own: no file holds functions.

    The error is one sentence. What comes back says what was proven: status, eps, bounds on the
    reward, the dual bound, gap and violation.
    """
    proof = getattr(result, "certificate", None)
    is_model = hasattr(model, "first_choice") or hasattr(model, "pieces")
    if not is_model or not hasattr(proof, "weights"):
        raise InputError("check: give it a CMDP and a Result, in this order.")
    try:
        return _verify(ByBlocks(model) if hasattr(model, "pieces") else model, result, utility)
    except (AttributeError, TypeError, ValueError, IndexError) as error:
        raise CertificateError(  # what cannot be read is not proven
            f"check failed: a field of the result has the wrong type or shape ({error})."
        ) from None


def _verify(model: Any, result: Any, utility: Any) -> Verified:
    proof, m = result.certificate, len(model.senses)
    is_own = model.matches(result.digest)
    demand(is_own, "the result belongs to another model: the fingerprints differ")
    mixture = checked_mixture(model, result)
    for name in ("senses", "thresholds", "constraint_names"):
        is_own = np.array_equal(getattr(result, name), getattr(model, name))
        demand(is_own, f"the {name.replace('_', ' ')} are not the model's")
    utility = _checked_utility(result, utility)
    minimise = model.minimise if utility is None else utility.minimise
    is_own = result.minimise == minimise == proof.minimise
    demand(is_own, "whether the reward is minimised is not as in the model")
    demand(0 < result.eps < 1, f"eps is {result.eps}, which is no share")
    rows, sign = limit_rows(model), -1.0 if minimise else 1.0
    weights = row_weights("the dual weights", proof.weights, rows, m)
    is_price = np.array_equal(result.multipliers, proof.weights)
    demand(is_price, "the multipliers are not the dual weights of the certificate")
    ranges = np.asarray(proof.ranges, dtype=np.float64)
    demand(
        ranges.shape == (1 + m, 2) and bool(np.isfinite(ranges).all()),
        "the result has no attained ranges, of which eps is a share; solve the model again",
    )

    facts = _facts(model, proof, [policy for _, policy in mixture])
    potentials = np.reshape(proof.value_potentials, (len(mixture), 1 + m, -1))
    policy = mixture[0][1]
    if utility is None:
        what, of_utility = "reward", None
        low, high = mixed_bounds(facts, mixture, model.reward, potentials[:, 0])
        bound = lagrangian_bound(facts, sign * model.reward, rows, weights, proof.dual_potential)
    else:
        demand(len(mixture) == 1, "a utility is that of one policy, not of a mixture")
        what, claim = "utility", (utility, policy, rows, weights)
        low, high, bound, of_utility = utility_bounds(facts, result, *claim)
    least, most = proof.reward_bounds
    demand(
        least <= low and high <= most,
        f"the {what} is claimed in {proof.reward_bounds}, provable is [{low}, {high}]",
    )
    is_between = least <= result.reward <= most
    demand(is_between, f"the {what} {result.reward} lies outside its own bounds")
    demand(
        bound <= sign * proof.dual_bound,
        f"the dual bound is claimed as {proof.dual_bound}, provable is {sign * bound}",
    )
    tolerances = check_ranges(facts, result, policy, of_utility)
    violation, share = check_margins(facts, result, mixture, potentials, rows, tolerances[1:])
    gap = most - proof.dual_bound if minimise else proof.dual_bound - least
    shares = as_share(gap, tolerances[0]) * result.eps, share * result.eps
    demand_close("gap", proof.gap, gap)
    demand_close("violation", proof.violation, violation)
    demand_close("scaled gap", result.scaled_gap, shares[0])
    demand_close("scaled violation", result.scaled_violation, shares[1])
    _check_status(result, *shares)
    if result.status == "infeasible":
        check_ray(facts, proof, rows)
    proven = (proof.reward_bounds, proof.dual_bound, gap, violation, minimise, _note(utility))
    return Verified(result.status, result.eps, *proven)


def _checked_utility(result: Any, utility: Any) -> Any:
    """The utility that the result is of, or None."""
    utility = getattr(result, "utility", None) if utility is None else utility
    has_proof = getattr(result.certificate, "utility", None) is not None
    demand(
        has_proof == (utility is not None),
        "the result is of a utility of one's own, which no file holds; give check(..., utility=...)"
        if has_proof
        else "the result is not of a utility",
    )
    return utility


def _note(utility: Any) -> str:
    """What a utility takes for granted."""
    if utility is None:
        return ""
    note = "" if utility.is_proven else "; numerical: the utility has no modulus of continuity"
    return note + ("" if utility.is_ready else ", and provided that it is concave")


def _facts(model: Any, proof: Any, policies: list[np.ndarray]) -> Facts:
    """The states that count, and how much: by the kind of gauge that the certificate has."""
    seen, S = visited(model), model.states
    if model.criterion == "average" or np.shape(proof.dual_potential) != (2 * S,):
        return Facts(model, seen, None if proof.gauge is None else gauge(proof.gauge, S))
    demand(model.discount == 1, "gauges of single policies are for discount 1")
    facts = ending(model, seen)
    assert facts.allowed is not None
    for policy in policies:
        used = (policy > 0) & choices(model, facts.seen)
        demand(bool(facts.allowed[used].all()), "a policy may never reach the end")
    return facts


def _check_status(result: Any, gap: float, violation: float) -> None:
    """`certified`: both errors within eps. The other words claim nothing of them."""
    demand(
        result.status in ("certified", "limit", "infeasible"),
        f"the status {result.status!r} is unknown",
    )
    for name, error in (("gap", gap), ("violation", violation)):
        demand(
            result.status != "certified" or error <= result.eps,
            f"status certified, but the scaled {name} {error:.3g} exceeds eps {result.eps:g}",
        )
