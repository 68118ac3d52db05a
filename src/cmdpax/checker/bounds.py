"""How does a potential prove a value?

For any vectors V and u >= 0, with `d = x + K V - V` and `g = u - K u > 0` (K counts what follows),
a policy's value is `rho.V + nu.d`, and `nu.g = rho.u`: so it lies between `rho.V + rho.u min d/g`
and `rho.V + rho.u max d/g`. A wrong potential only makes that wider. `discounted`, `ending` and
`average` have the quotients of each criterion. Every bound is widened by the rounding of its own
computation, and holds for the model whose rows are divided by their exact sums.
"""

import math
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from cmdpax.checker import average, discounted, ending
from cmdpax.checker.demands import gauge, vector
from cmdpax.checker.facts import UNIT, ByBlocks, Facts, choices

Mixture = list[tuple[Fraction, np.ndarray]]  # probabilities and policies [K]


class Row(NamedTuple):
    """`sign V_c[i] >= bound`: one side of constraint i."""

    constraint: int
    sign: float
    bound: float


def best_bounds(
    facts: Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    rest: Fraction,
    potential: Any,
    policy: np.ndarray | None = None,
) -> tuple[float, float]:
    """A value that some policy attains at least, and one that none exceeds, of `x [K]` plus `rest`.

    sizes: `[K]`, sums of the absolute terms of x, to which rounding is relative. policy: `[K]`; the
    bounds are then those of its own value.
    """
    model, u, shifts, S = facts.model, facts.gauge, (0.0, 0.0), facts.model.states
    if model.criterion == "average":
        v, *h, u = vector(potential, 4 * S).reshape(4, S)
        least, most, shifts = average.quotients(facts, x, sizes, v, h, gauge(u, S), policy)
    elif facts.allowed is not None:
        v, u = vector(potential, 2 * S).reshape(2, S)
        least, most = ending.quotients(facts, x, sizes, v, gauge(u, S), policy)
    else:
        v = vector(potential, S)
        least, most = discounted.quotients(facts, x, sizes, v, policy)
    own = np.flatnonzero(model.initial)
    chances = np.asarray(model.initial)[own]
    at_start = float(chances @ v[own])
    weight = 1.0 if u is None else float(chances @ u[own])
    terms = UNIT * (len(own) + 4) + abs(math.fsum(chances) - 1)
    ends, constant = [], float(rest)
    sides = (-1.0, least, shifts[0]), (1.0, most, shifts[1])
    for sign, ratio, shift in sides:
        further = (weight * ratio if np.isfinite(ratio) else ratio) + shift
        total = at_start + further + constant
        size = terms * (float(chances @ np.abs(v[own])) + abs(further))
        ends.append(total + sign * (size + UNIT * (abs(constant) / 2 + 1.5 * abs(total))))
    return ends[0], ends[1]


def policy_bounds(
    facts: Facts, policy: np.ndarray, x: np.ndarray, potential: Any
) -> tuple[float, float]:
    """Interval that holds the policy's value of `x [K]`, from any potential."""
    return best_bounds(facts, *centred(facts, x), potential, policy)


def mixed_bounds(
    facts: Facts, mixture: Mixture, x: np.ndarray, potentials: np.ndarray
) -> tuple[float, float]:
    """Interval that holds a mixture's value of `x [K]`, from potentials, one for each policy."""
    pairs = zip(mixture, potentials, strict=True)
    return mean(mixture, [policy_bounds(facts, policy, x, own) for (_, policy), own in pairs])


def mean(mixture: Mixture, bounds: list[tuple[float, float]]) -> tuple[float, float]:
    """Bounds on the value of a mixture from those of its policies; exact but for the last digit."""
    if len(bounds) == 1:
        return bounds[0]
    if not np.isfinite(bounds).all():
        return -np.inf, np.inf
    low, high = (
        float(sum(share * Fraction(end) for (share, _), end in zip(mixture, ends, strict=True)))
        for ends in zip(*bounds, strict=True)
    )
    return low - UNIT * abs(low) / 2, high + UNIT * abs(high) / 2


def lagrangian_bound(
    facts: Facts, x: np.ndarray, rows: list[Row], weights: np.ndarray, potential: Any
) -> float:
    """Upper bound on any policy's value of `x + w.(rows - bounds)`; weights `[len(rows)]`."""
    x, sizes, rest = centred(facts, x)
    for row, weight in zip(rows, weights, strict=True):
        if weight:
            own = centred(facts, row.sign * facts.model.constraints[row.constraint])
            x, sizes = x + weight * own[0], sizes + weight * own[1]
            rest += Fraction(float(weight)) * (own[2] - Fraction(row.bound))
    return best_bounds(facts, x, (len(weights) / 2 + 1) * sizes, rest, potential)[1]


def centred(facts: Facts, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, Fraction]:
    """x less the middle of its range, its absolute values, and the value of the middle.

    The value of a constant is known, and its digits would drown the others. x stays as it is where
    the middle is smaller than the range is wide. After the last step of a horizon nothing is paid.
    """
    horizon, gamma = facts.model.horizon, Fraction(facts.model.discount)
    if isinstance(facts.model, ByBlocks):
        low, high = facts.model.span(x)
        middle = low / 2 + high / 2
        middle = middle if abs(middle) > high - low else 0.0
        shifted = np.append(x[:-1], x[-1] - middle)
        return shifted, np.abs(shifted), Fraction(middle) / (1 - gamma)
    alive = np.ones(facts.model.states, dtype=bool)
    if horizon is not None:
        alive[-(facts.model.states // (horizon + 1)) :] = False  # the run has ended
    own = choices(facts.model, alive)
    seen = x[own & choices(facts.model, facts.seen)]
    low, high = float(seen.min(initial=np.inf)), float(seen.max(initial=-np.inf))
    middle = low / 2 + high / 2
    if facts.model.criterion == "total" or not abs(middle) > high - low:
        return x, np.abs(x), Fraction(0)
    if facts.model.criterion == "average":
        total = Fraction(1)
    elif horizon is None:
        total = 1 / (1 - gamma)
    else:
        total = Fraction(horizon) if gamma == 1 else (1 - gamma**horizon) / (1 - gamma)
    shifted = np.where(own, x - middle, 0.0)
    return shifted, np.abs(shifted), Fraction(middle) * total
