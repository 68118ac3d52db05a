"""Certificates: what is proven about a policy, by dynamic programming, never by trusting a solver.

All proofs are potentials, one vector over states each, from which the criterion bounds values on
both sides, whatever the vector is:

- values: bounds on V_0(pi) and every V_i(pi);
- optimality: for any weights `w >= 0`, `V* <= D(w) = max_pi V_0 + w.(V - b)`; so
  `gap <= D(w) - V_0(pi)`;
- infeasibility: a ray `y >= 0` with `max_pi y.(V - b) < 0` rules out every policy.

Everything here is in the orientation and the units of the form; `standard.said_back` translates.
"""

from dataclasses import replace

import numpy as np

from cmdpax.exact.standard import StandardForm
from cmdpax.model.result import Certificate


def certify(
    form: StandardForm,
    policy: np.ndarray,
    weights: np.ndarray,
    choices: np.ndarray,
    *,
    potential: np.ndarray | None = None,
    accuracy: float = 0.0,
    is_optimal: bool = False,
) -> tuple[Certificate, np.ndarray]:
    """Certify a policy `[K]`; also its values `[m]`, the middles of their bounds.

    weights: the dual ones, `[m]`. choices: `[S]`, (near) optimal for `r + w.c`. potential: `[S]`,
    known values of those choices, which saves evaluating them. accuracy: how wide the bounds may be
    in large models, as a share of the range of possible values. is_optimal: whether the policy is
    those choices, of a form without constraints, so that one potential proves all. The bounds hold
    in any case.
    """
    rewards, criterion = (form.reward, *form.constraints), form.criterion
    if is_optimal and potential is not None:
        potentials = potential[None]
    else:
        potentials = criterion.potentials(form, policy, rewards, accuracy)
    pairs = zip(rewards, potentials, strict=True)
    bounds = np.array([criterion.value_bounds(form, policy, *pair) for pair in pairs])
    if potential is None:
        potential = criterion.potentials(form, choices, (form.pseudo_reward(weights),))[0]
    certificate = Certificate(
        reward_bounds=(float(bounds[0, 0]), float(bounds[0, 1])),
        margin_bounds=_outward(bounds[1:] - form.thresholds[:, None]),
        dual_bound=lagrangian_bound(form, form.reward, weights, potential),
        weights=weights,
        value_potentials=potentials,
        dual_potential=potential,
    )
    return certificate, bounds[1:].mean(1)


def _outward(bounds: np.ndarray) -> np.ndarray:
    """Pairs `[m, 2]` wider by a unit in the last place: differences are rounded, unless 0."""
    return np.where(bounds == 0, bounds, np.nextafter(bounds, (-np.inf, np.inf)))


def with_ray(
    form: StandardForm, certificate: Certificate, ray: np.ndarray, choices: np.ndarray
) -> Certificate:
    """The certificate with a ray `[m]` and its bound; `choices [S]` are optimal for `ray.c`."""
    reward = np.tensordot(ray, form.constraints, 1)
    potential = form.criterion.potentials(form, choices, (reward,))[0]
    bound = lagrangian_bound(form, np.zeros_like(reward), ray, potential)
    return replace(certificate, ray=ray, ray_bound=bound, ray_potential=potential)


def scaled_errors(form: StandardForm, certificate: Certificate) -> tuple[float, float]:
    """Gap and violation over the widths of possible values: what `eps` is compared with."""
    violations = np.maximum(-certificate.margin_bounds[:, 0], 0) / form.constraint_scales
    return certificate.gap / form.reward_scale, float(violations.max(initial=0.0))


def lagrangian_bound(
    form: StandardForm, reward: np.ndarray, weights: np.ndarray, potential: np.ndarray
) -> float:
    """Upper bound on `max_pi V + w.(V_c - b)`, V the value of `reward [K]`.

    weights: `[m]`. potential: any vector `[S]`. With the form's reward it bounds the optimum; with
    reward 0 and a ray for weights, a negative one rules out every policy. Large terms of `r + w.c`
    may cancel, in the sum but not in its rounding, which counts by their sizes.
    """
    pseudo_reward = reward + np.tensordot(weights, form.constraints, 1)
    best = form.criterion.optimum_bound(form, pseudo_reward, potential)
    price = float(weights @ form.thresholds)
    rows = (reward, *form.constraints)
    largest = np.array([np.abs(row[form.reachable_choices]).max() for row in rows])
    terms = (largest[0] + weights @ largest[1:]) / form.criterion.unit
    terms = terms + weights @ np.abs(form.thresholds) + abs(best)
    return best - price + float(2 * (len(weights) + 2) * np.finfo(float).eps * terms)
