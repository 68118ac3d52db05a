"""Are values, margins, the violation and the ray of infeasibility as claimed?

The limits (`<=`, `>=`, `==`, ranges) are rows `sign V >= bound`: one each, or two for `==` and a
range. A ray y >= 0 with `max y.(rows - bounds) < 0` proves that no policy meets all.
"""

from fractions import Fraction
from typing import Any

import numpy as np

from cmdpax.checker.bounds import (
    Mixture,
    Row,
    best_bounds,
    centred,
    lagrangian_bound,
    mean,
    mixed_bounds,
)
from cmdpax.checker.demands import demand
from cmdpax.checker.facts import Facts
from cmdpax.checker.tolerances import as_share


def limit_rows(model: Any) -> list[Row]:
    """The model's limits as rows `sign V >= bound`."""
    rows = []
    for i, (sense, threshold) in enumerate(zip(model.senses, model.thresholds, strict=True)):
        bounds = np.broadcast_to(threshold, 2)
        if sense != "<=":
            rows.append(Row(i, 1.0, float(bounds[0])))
        if sense != ">=":
            rows.append(Row(i, -1.0, -float(bounds[1])))
    return rows


def row_weights(what: str, prices: Any, rows: list[Row], m: int) -> np.ndarray:
    """Prices `[m]` as weights >= 0 of rows: the sign of a price says which of two rows has it."""
    prices = np.asarray(prices, dtype=np.float64)
    demand(prices.shape == (m,) and bool(np.isfinite(prices).all()), f"{what} must be {m} numbers")
    sides = [sum(row.constraint == i for row in rows) for i in range(m)]
    demand(
        all(price >= 0 for price, count in zip(prices, sides, strict=True) if count == 1),
        f"{what} must be >= 0, except those of == and ranges",
    )
    own = (
        (row.sign if sides[row.constraint] == 2 else 1.0, prices[row.constraint]) for row in rows
    )
    return np.array([max(sign * price, 0.0) for sign, price in own])


def check_margins(
    facts: Facts,
    result: Any,
    mixture: Mixture,
    potentials: np.ndarray,
    rows: list[Row],
    tolerances: np.ndarray,
) -> tuple[float, float]:
    """Check values and margins: the largest violation, absolute and as a multiple of tolerance."""
    proof, m = result.certificate, len(facts.model.senses)
    demand(np.shape(proof.margin_bounds) == (m, 2), "the margin bounds must be an [m, 2] array")
    violation, share = 0.0, 0.0
    for i, constraint in enumerate(facts.model.constraints):
        low, high = mixed_bounds(facts, mixture, constraint, potentials[:, 1 + i])
        least, most = proof.margin_bounds[i]
        claimed = float(result.values[i])
        # the middle of wider bounds is good enough
        around = min(float(most - least), float(tolerances[i])) + 1e-12 * (1 + abs(low))
        demand(
            low - around <= claimed <= high + around,
            f"value {i} is claimed as {claimed}, provable is [{low}, {high}]",
        )
        sides = []
        for row in (row for row in rows if row.constraint == i):
            x, sizes, rest = centred(facts, row.sign * constraint)
            less, ends = rest - Fraction(row.bound), []
            for (_, policy), own in zip(mixture, potentials[:, 1 + i], strict=True):
                turned = _turned(own, row.sign, facts.model.states)
                ends.append(best_bounds(facts, x, sizes, less, turned, policy))
            sides.append(mean(mixture, ends))
        low, high = (min(ends) for ends in zip(*sides, strict=True))
        demand(
            least <= low and high <= most,
            f"margin {i} is claimed in [{least}, {most}], provable is [{low}, {high}]",
        )
        demand(
            least <= result.margins[i] <= most,
            f"margin {i}, {result.margins[i]}, lies outside its own bounds",
        )
        violation = max(violation, -least)
        share = max(share, as_share(max(-least, 0.0), tolerances[i]))
    return violation, share


def _turned(potential: Any, sign: float, states: int) -> np.ndarray:
    """A potential times a sign; its gauge, the last of several parts, has none."""
    turned = sign * np.asarray(potential, dtype=np.float64)
    if turned.size > states:
        turned[-states:] *= sign
    return turned


def check_ray(facts: Facts, proof: Any, rows: list[Row]) -> None:
    """No policy meets all rows: `max y.(rows - bounds) < 0`."""
    demand(proof.ray is not None, "status infeasible, but there is no ray to prove it")
    ray = row_weights("the ray", proof.ray, rows, len(facts.model.senses))
    demand(bool(ray.sum() > 0), "the ray must not be all zero")
    nothing = np.zeros_like(facts.model.reward)
    bound = lagrangian_bound(facts, nothing, rows, ray, proof.ray_potential)
    demand(
        bound <= proof.ray_bound,
        f"the ray's bound is claimed as {proof.ray_bound}, provable is {bound}",
    )
    demand(
        proof.ray_bound < 0,
        f"status infeasible, but the ray only proves {proof.ray_bound:.3g} < 0",
    )
