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
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from cmdpax.loops import bellman, small
from cmdpax.loops.compiled import readable

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
    centred = reward - constant if constant else reward
    return Claim(
        centred, np.abs(centred), value - Fraction(float(threshold)) if threshold else value
    )


def claims(form: "StandardForm") -> list[Claim]:
    """Those of the form's own functions, `[1 + m]`; a small form keeps them."""
    rows, kept = (form.reward, *form.constraints), form.__dict__.get("claims")
    own: list[Claim] = [claim(form, row) for row in rows] if kept is None else kept
    if form.is_small:
        form.__dict__["claims"] = own
    return own


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
    ends = extremes(form, [what], potential[None], gauge, policy)
    low, high = widened(form, ends, potential[None], gauge, [what.rest])[0]
    return float(low), float(high)


def best_bounds(
    form: "StandardForm", what: Claim, potential: np.ndarray, gauge: np.ndarray | None = None
) -> tuple[float, float]:
    """Bounds on the value of the best policy; some policy attains the lower one."""
    ends = extremes(form, [what], potential[None], gauge)
    low, high = widened(form, ends, potential[None], gauge, [what.rest])[0]
    return float(low), float(high)


def extremes(
    form: "StandardForm",
    what: Sequence[Claim],
    potentials: np.ndarray,
    gauge: np.ndarray | None,
    policy: np.ndarray | None = None,
) -> np.ndarray:
    """`min d/g` and `max d/g` over reachable states, rounded outwards, for n claims: `[n, 2]`.

    potentials: `[n, S]`. policy: `[K]` or `[S]`; None: the better choice of every state.
    """
    rows, discount = form.transitions, form.criterion.discount
    if policy is not None and np.issubdtype(policy.dtype, np.integer):
        policy = rows.deterministic(policy)
    ends = np.empty((len(what), 2))
    if form.is_small:
        nothing = np.empty(0)
        arrays = [
            readable(np.stack([one.reward for one in what])),
            readable(np.stack([one.sizes for one in what])),
            readable(potentials),
            *(readable(nothing if array is None else array) for array in (gauge, policy)),
        ]
        kind = discount, bellman.ratio_rounding(rows.longest), readable(form.reachable)
        small.extremes(rows.rows(0, form.states), *arrays, *kind, ends)
        return ends
    for pair, (reward, sizes, _), potential in zip(ends, what, potentials, strict=True):
        numbers = reward, sizes, potential, gauge, discount, rows.longest, policy
        low, high = (side[form.reachable] for side in bellman.ratios(rows, *numbers))
        pair[:] = low.min(), high.max()
    return ends


def widened(
    form: "StandardForm",
    ends: np.ndarray,
    potentials: np.ndarray,
    gauge: np.ndarray | None,
    rests: Sequence[Fraction],
) -> np.ndarray:
    """`rho.V + rho.u d/g + rest` from n extreme ratios `[n, 2]`, with rounding, `[n, 2]`."""
    own = np.flatnonzero(form.initial)
    chances, values = form.initial[own], potentials[:, own]
    weight = 1.0 if gauge is None else float(chances @ gauge[own])
    count = len(own) + 8 + abs(math.fsum(chances) - 1) / UNIT_ROUNDING  # it counts as a whole
    at_start = (values * chances).sum(1)[:, None]
    rounding = count * (np.abs(values) * chances).sum(1)[:, None]
    rest, further = np.array([float(one) for one in rests])[:, None], weight * ends
    total = at_start + further + rest
    size = rounding + count * np.abs(further) + np.abs(rest) + 2 * np.abs(total)
    outwards = np.array([-1.0, 1.0])
    with np.errstate(invalid="ignore"):
        return np.where(
            np.isfinite(size), total + outwards * UNIT_ROUNDING * size, outwards * np.inf
        )
