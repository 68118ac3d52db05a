"""Certificates: what is proven about a policy, by dynamic programming, never by trusting a solver.

All proofs are potentials, one vector over states each, from which values are bounded on both sides,
whatever the vector is (`bounds.py`):

- values: bounds on V_0(pi) and every V_i(pi);
- optimality: for any weights `w >= 0`, `V* <= D(w) = max_pi V_0 + w.(V - b)`; so
  `gap <= D(w) - V_0(pi)`;
- infeasibility: a ray `y >= 0` with `max_pi y.(V - b) < 0` rules out every policy;
- ranges: how much policies can change each value at the least (`ranges.py`).

Everything is in the orientation and the units of the form; `said_back` turns it into the model's.
"""

from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from cmdpax.exact.bounds import (
    Claim,
    best_bounds,
    claims,
    extremes,
    mean_bounds,
    mixed,
    policy_bounds,
    widened,
)
from cmdpax.exact.ranges import Ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Certificate, Mixture


def certify(
    form: StandardForm,
    policies: Mixture,
    weights: np.ndarray,
    choices: np.ndarray,
    ranges: Ranges | None,
    *,
    potential: np.ndarray | None = None,
    tolerances: np.ndarray | float = 0.0,
    is_optimal: bool = False,
) -> tuple[Certificate, np.ndarray]:
    """Certify a policy `[K]` or a mixture; also its values `[m]`, the middles of their bounds.

    policies: pairs of a probability and a policy, one of which is drawn at the start. weights: the
    dual ones, `[m]`. choices: `[S]`, (near) optimal for `r + w.c`. potential: `[S]`, values of
    those choices, which saves evaluating them. tolerances: how wide the bounds may be in large
    models, `[1 + m]`. ranges: None, of a form without constraints: nobody asks what policies can
    change. is_optimal: whether the policy is those choices, of a form without constraints, so that
    one potential proves all. The bounds hold in any case.
    """
    own, gauge = claims(form), form.gauge
    rests = [one.rest for one in own]
    room = [rest - Fraction(b) if rest else -b for rest, b in zip(rests[1:], form.thresholds)]
    values_and_margins = np.array([rests, [rests[0], *room]], dtype=float)
    shares, all_bounds, vectors = [], [], []
    for share, policy in policies:
        if is_optimal and potential is not None:
            potentials = potential[None]
        else:
            potentials = form.criterion.potentials(form, policy, own, tolerances)
        ends = extremes(form, own, potentials, gauge, policy)
        shares.append(share)
        vectors.append(potentials)
        all_bounds.append(widened(form, ends, potentials, values_and_margins).reshape(-1, 2))
    bounds, margins = mean_bounds(shares, all_bounds).reshape(2, -1, 2)
    ranges = Ranges.of_answer(form, bounds[0]) if ranges is None else ranges
    sizes, size_potentials = _sizes(form, policies[0][1], own, ranges)
    what = mixed(form, form.reward, weights)
    if potential is None:
        potential = form.criterion.upper(form, what, choices, float(np.min(tolerances)))
    certificate = Certificate(
        reward_bounds=(float(bounds[0, 0]), float(bounds[0, 1])),
        margin_bounds=margins[1:],
        dual_bound=best_bounds(form, what, potential, gauge)[1],
        weights=weights,
        value_potentials=np.concatenate(vectors) if len(vectors) > 1 else vectors[0],
        dual_potential=potential,
        ranges=ranges.and_answer(bounds[0]).bounds,
        range_potentials=ranges.potentials,
        sizes=sizes,
        size_potentials=size_potentials,
        gauge=gauge,
    )
    return certificate, bounds[1:].mean(1)


def _sizes(
    form: StandardForm, policy: np.ndarray, functions: list[Claim], ranges: Ranges
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Values of |x| under a policy, `[1 + m]`, and their potentials, where ranges are narrow."""
    if not ranges.narrow:
        return None, None
    sizes, potentials = np.zeros(len(functions)), np.zeros((len(functions), form.states))
    for i in ranges.narrow:
        own = Claim(functions[i].sizes, functions[i].sizes)
        potentials[i] = form.criterion.potentials(form, policy, (own,))[0]
        sizes[i] = max(policy_bounds(form, policy, own, potentials[i], form.gauge)[0], 0.0)
    return sizes, potentials


def with_ray(
    form: StandardForm, certificate: Certificate, ray: np.ndarray, choices: np.ndarray
) -> Certificate:
    """The certificate with a ray `[m]` and its bound; `choices [S]` are optimal for `ray.c`."""
    what = mixed(form, np.zeros(form.choices), ray)
    potential = form.criterion.upper(form, what, choices)
    bound = best_bounds(form, what, potential, form.gauge)[1]
    return replace(certificate, ray=ray, ray_bound=bound, ray_potential=potential)


def scaled_errors(certificate: Certificate, units: np.ndarray) -> tuple[float, float]:
    """Gap and largest violation in units `[1 + m]`; of a unit of 0 only 0 is a finite multiple."""
    gap, worst = certificate.gap, 0.0
    for low, unit in zip(certificate.margin_bounds[:, 0].tolist(), units[1:].tolist()):
        worst = max(worst, -low / unit if unit else np.inf) if low < 0 else worst
    return gap / float(units[0]) if units[0] else (np.copysign(np.inf, gap) if gap else 0.0), worst


def lagrangian_bound(
    form: StandardForm, reward: np.ndarray, weights: np.ndarray, potential: np.ndarray
) -> float:
    """Upper bound on `max_pi V + w.(V_c - b)`, V the value of `reward [K]`.

    weights: `[m]`. potential: any vector `[S]`. With the form's reward it bounds the optimum; with
    reward 0 and a ray for weights, a negative one rules out every policy.
    """
    return best_bounds(form, mixed(form, reward, weights), potential, form.gauge)[1]


def said_back(model: CMDP, proof: Certificate) -> Certificate:
    """A certificate of the model's form in the model's own orientation; exact.

    A ray prices one row of a constraint at the most (`Limits.unfold`).
    """
    limits, sign = model.limits, -1.0 if model.minimise else 1.0
    if limits.are_rows and not model.minimise:
        return proof
    first, low, high = limits.first_rows, *proof.reward_bounds
    signs = np.append(sign, limits.signs[first])
    chosen: Any = slice(None) if len(first) == len(limits.rows) else np.append(0, 1 + first)
    sizes, size_potentials = proof.sizes, proof.size_potentials
    return replace(
        proof,
        reward_bounds=(-high + 0.0, -low + 0.0) if model.minimise else (low, high),
        margin_bounds=limits.worst(proof.margin_bounds.T).T,
        dual_bound=sign * proof.dual_bound + 0.0,
        weights=limits.fold(proof.weights),
        ray=None if proof.ray is None else limits.fold(proof.ray),
        value_potentials=_said_values(
            proof.value_potentials, 1 + len(limits.rows), chosen, signs, model.states
        ),
        ranges=_said_ranges(proof.ranges, chosen, signs),
        range_potentials=_said_potentials(proof.range_potentials, chosen, signs),
        sizes=None if sizes is None else sizes[chosen],
        size_potentials=None if size_potentials is None else size_potentials[chosen],
        minimise=model.minimise,
    )


def _said_values(
    potentials: np.ndarray, count: int, chosen: Any, signs: np.ndarray, S: int
) -> np.ndarray:
    """Potentials `[k count, n S]` of rows as those of the user's functions, `[k (1 + m), n S]`.

    A gauge, the last of several parts, has no sign.
    """
    own = potentials.reshape(-1, count, potentials.shape[-1])[:, chosen]
    if potentials.shape[-1] == S:
        own = own * signs[:, None]
        own += 0.0
        return own.reshape(-1, S)
    own = own.copy()
    own[..., :-S] *= signs[:, None]
    own[..., :-S] += 0.0
    return own.reshape(-1, potentials.shape[-1])


def _said_ranges(ranges: np.ndarray, chosen: Any, signs: np.ndarray) -> np.ndarray:
    """Ranges `[1 + M, 2]` of rows as those of the user's functions `[1 + m, 2]`."""
    own = ranges[chosen]
    return np.where(signs[:, None] > 0, own, -own[:, ::-1]) + 0.0


def _said_potentials(potentials: np.ndarray, chosen: Any, signs: np.ndarray) -> np.ndarray:
    """Potentials `[1 + M, 2, S]` of -x and x as those of the user's functions."""
    own = np.array(potentials[chosen])
    own[signs < 0] = own[signs < 0, ::-1]
    return own


def heard_potentials(model: CMDP, potentials: np.ndarray) -> np.ndarray:
    """Potentials `[1 + m, 2, S]` of the user's functions as those of the form's rows."""
    limits, sign = model.limits, -1.0 if model.minimise else 1.0
    return _said_potentials(
        potentials, np.append(0, 1 + limits.rows), np.append(sign, limits.signs)
    )
