"""Which quotients prove a long-run average?

Choices where V or u changes are used `rho.u` times in all, weighted by `g = u - P u > 0`, so that V
changes by that many quotients `(P V - V) / g`. Afterwards a run only uses others, where V stays the
same, and the average of x is V, but for what `x + P h - h - V` is: h is bounded, and averages to
nothing. h is the sum of two vectors: one number has too few digits where some steps are rare.
"""

import numpy as np

from cmdpax.checker.facts import UNIT, Facts, longest_row, moved


def quotients(
    facts: Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    v: np.ndarray,
    h: list[np.ndarray],
    u: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[float, float, tuple[float, float]]:
    """Ends of `(P V - V) / g` of choices that change V or u, and of `x + P h - h - V` of others."""
    model = facts.model
    rows, heads = model.rows(0, model.states), model.first_choice[:-1].astype(np.int64)
    here = np.repeat(v, np.diff(model.first_choice))
    (change, size), (loss, scale) = moved(rows, 0, v), moved(rows, 0, u)
    paid, paid_size = moved(rows, 0, *h)
    paid, paid_size, g = x + paid - here, sizes + paid_size + np.abs(here), -loss
    terms = np.full(len(x), UNIT * (2 * longest_row(model) + 6))
    if policy is not None:
        numbers = (change, size, g, scale, paid, paid_size)
        sums = (np.add.reduceat(policy * own, heads) for own in numbers)
        change, size, g, scale, paid, paid_size = sums
        terms = terms[0] + 2 * UNIT * np.diff(model.first_choice.astype(np.int64))
    stays, doubt = (size == 0) & (scale == 0), terms * scale
    passes = g > doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(passes, np.minimum(change - terms * size, 0) / (g - doubt), -np.inf)
        high = np.where(passes, np.maximum(change + terms * size, 0) / (g - doubt), np.inf)
    below, above = paid - terms * paid_size, paid + terms * paid_size
    high, above = np.where(stays, 0.0, high), np.where(stays, above, -np.inf)
    if policy is None:
        low, below = np.where(stays, -np.inf, low), np.where(stays, below, -np.inf)
        low, below, high, above = (
            np.maximum.reduceat(side, heads) for side in (low, below, high, above)
        )
        stays = u == 0
    low, below = np.where(stays, 0.0, low), np.where(stays, below, np.inf)
    least, most, below, above = (side[facts.seen] for side in (low, high, below, above))
    shifts = float(below.min()), float(above.max())
    return float(least.min()), float(most.max()), shifts
