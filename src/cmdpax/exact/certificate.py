"""Certificates: what is proven about a policy, by dynamic programming, never by trusting a solver.

All proofs are potentials, one vector over states each, from which values are bounded on both sides,
whatever the vector is (`bounds.py`):

- values: bounds on V_0(pi) and every V_i(pi);
- optimality: for any weights `w >= 0`, `V* <= D(w) = max_pi V_0 + w.(V - b)`; so
  `gap <= D(w) - V_0(pi)`;
- infeasibility: a ray `y >= 0` with `max_pi y.(V - b) < 0` rules out every policy;
- ranges: how much policies can change each value at the least (`ranges.py`).

Everything here is in the orientation and the units of the form; `standard.said_back` translates.
"""

from dataclasses import replace
from fractions import Fraction

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
