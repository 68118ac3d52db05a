"""What does any vector prove about values? One identity, whatever made the vector.

For a policy with occupancy nu, `K` the kernel that counts (`gamma P`) and any potential V,

    V_x(pi) = rho.V + nu.d,   d = x + K V - V.

A gauge is any u >= 0 with `g = u - K u > 0` at every choice where d may differ from 0. Then
`nu.g = rho.u` for every policy, and

    rho.V + rho.u min d/g  <=  V_x(pi)  <=  rho.V + rho.u max d/g,

the minimum and the maximum over reachable states, d and g under pi; over all choices the right-hand
side bounds the best policy, and the left-hand side, with the better choice of every state, is
attained by some policy. With u = 1 and `K = gamma P` it is the classical bound, `g = 1 - gamma`.

Every bound is widened by what rounding in its own computation can amount to, so it holds for the
real numbers, and for the model whose rows are divided by their exact sums.
"""

import math
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cmdpax.loops import bellman

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

UNIT_ROUNDING = float(np.finfo(float).eps)


class Claim(NamedTuple):
    """A function whose value is bounded: x less a constant, and the value of the constant.

    reward: `[K]`. sizes: `[K]`, what the terms of each reward amount to before they cancel. rest:
    added to the value at the end; exact, because large numbers may cancel there.
    """

    reward: np.ndarray
    sizes: np.ndarray
    rest: Fraction = Fraction(0)


def claim(form: "StandardForm", reward: np.ndarray, threshold: float = 0.0) -> Claim:
    """One reward `[K]`, without the constant that only costs digits, less a threshold."""
    constant, value = form.criterion.constant(form, reward)
    centred = np.where(form.alive_choices, reward - constant, 0.0) if constant else reward
    return Claim(centred, np.abs(centred), value - Fraction(float(threshold)))


def mixed(form: "StandardForm", reward: np.ndarray, weights: np.ndarray) -> Claim:
    """`V + w.(V_c - b)` for V the value of `reward [K]`, and weights `[m]`."""
    total, sizes, rest = claim(form, reward)
    for weight, row, threshold in zip(weights, form.constraints, form.thresholds, strict=True):
        if weight:
            own = claim(form, row, threshold)
            total, sizes = total + weight * own.reward, sizes + abs(weight) * own.sizes
            rest += Fraction(float(weight)) * own.rest
    return Claim(total, (len(weights) + 2) * sizes, rest)


def policy_bounds(
    form: "StandardForm",
    policy: np.ndarray,
    what: Claim,
    potential: np.ndarray,
    gauge: np.ndarray | None = None,
) -> tuple[float, float]:
    """Bounds on the value of a policy `[K]`, or of one choice of each state, `[S]`."""
    if np.issubdtype(policy.dtype, np.integer):
        policy = form.transitions.deterministic(policy)
    return _bounds(form, what, potential, gauge, policy)


def best_bounds(
    form: "StandardForm", what: Claim, potential: np.ndarray, gauge: np.ndarray | None = None
) -> tuple[float, float]:
    """Bounds on the value of the best policy; some policy attains the lower one."""
    return _bounds(form, what, potential, gauge)


def _bounds(
    form: "StandardForm",
    what: Claim,
    potential: np.ndarray,
    gauge: np.ndarray | None,
    policy: np.ndarray | None = None,
) -> tuple[float, float]:
    """`rho.V + rho.u d/g + rest` from the extreme ratios of reachable states, with rounding."""
    rows = form.transitions
    numbers = (
        what.reward,
        what.sizes,
        potential,
        gauge,
        form.criterion.discount,
        rows.longest,
        policy,
    )
    low, high = (side[form.reachable] for side in bellman.ratios(rows, *numbers))
    own = np.flatnonzero(form.initial)
    chances, values = form.initial[own], potential[own]
    weight = 1.0 if gauge is None else float(chances @ gauge[own])
    further = weight * float(low.min()), weight * float(high.max())
    at_start = float(chances @ values)
    count = len(own) + 8 + abs(math.fsum(chances) - 1) / UNIT_ROUNDING  # it counts as a whole
    rounding, rest = count * float(chances @ np.abs(values)), float(what.rest)
    bounds = []
    for sign, more in zip((-1.0, 1.0), further):
        total = at_start + more + rest
        size = rounding + count * abs(more) + abs(rest) + 2 * abs(total)
        bounds.append(total + sign * UNIT_ROUNDING * size if np.isfinite(size) else sign * np.inf)
    return bounds[0], bounds[1]
