"""Which quotients prove discounted values, finite horizons, and totals where every run ends?

For `d = x + gamma P V - V` and `g = u - gamma P u > 0` of each choice: the least and the largest
`d / g`. u is 1 unless the certificate has a gauge. Where g may be 0 because a run stays for ever,
`d = 0` counts if V is 0: nothing is left of it at the end.
"""

from typing import Any

import numpy as np

from cmdpax.checker.facts import BLOCK, UNIT, ByBlocks, Facts, longest_row, moved


def quotients(
    facts: Facts, x: np.ndarray, sizes: np.ndarray, v: np.ndarray, policy: np.ndarray | None
) -> tuple[float, float]:
    """The least and the largest d / g of reachable states, under a policy or of best choices."""
    model, gauge = facts.model, facts.gauge
    gamma, least, most = model.discount, np.inf, -np.inf
    rest, longest = 1 - gamma, longest_row(model)
    for first in range(0, model.states, BLOCK):
        last = min(first + BLOCK, model.states)
        rows, (paid, terms_of_x), shares = _block(model, first, last, (x, sizes), policy)
        heads = (rows.first_choice[:-1] - rows.first_choice[0]).astype(np.int64)
        counts = np.diff(rows.first_choice.astype(np.int64))
        here = np.repeat(v[first:last], counts)
        change, absolute = (gamma * sums for sums in moved(rows, first, v))
        d = paid - rest * here + change
        terms = np.full(len(d), UNIT * (2 * longest + 4))
        if shares is not None:
            terms += UNIT * np.repeat(counts, counts)
        error = terms * (terms_of_x + rest * np.abs(here) + absolute)
        if gauge is None:  # rows sum to 1
            g, doubt = np.full(len(d), rest), np.full(len(d), UNIT * rest)
        else:
            scale = np.repeat(gauge[first:last], counts)
            risen, absolute = (gamma * sums for sums in moved(rows, first, gauge))
            g, doubt = rest * scale - risen, terms * (rest * scale + absolute)
        if shares is not None:
            weighted = (shares * array for array in (d, error, g, doubt))
            d, error, g, doubt = (np.add.reduceat(array, heads) for array in weighted)
        where = v[first:last] if policy is not None else here
        is_over = np.full(len(where), True) if gamma < 1 else where == 0
        low, high = _divided(d - error, d + error, g - doubt, g + doubt, is_over)
        if policy is None:
            low, high = np.maximum.reduceat(low, heads), np.maximum.reduceat(high, heads)
        seen = facts.seen[first:last]
        least = min(least, float(low[seen].min(initial=np.inf)))
        most = max(most, float(high[seen].max(initial=-np.inf)))
    return least, most


def _block(
    model: Any, first: int, last: int, numbers: tuple[np.ndarray, ...], policy: np.ndarray | None
) -> tuple[Any, list[np.ndarray], np.ndarray | None]:
    """Rows of states, functions x and sizes of their choices, and what the policy chooses there."""
    if isinstance(model, ByBlocks):
        part = model.piece(first, last)
        x, sizes = numbers
        own = [x[:-1] @ part.rewards + x[-1], sizes[:-1] @ np.abs(part.rewards) + sizes[-1]]
        if policy is None:
            return part.block, own, None
        chosen = policy[first:last].astype(np.float64)
        return part.block, own, (chosen / chosen.sum(-1, keepdims=True)).reshape(-1)
    rows = model.rows(first, last)
    choices = slice(int(rows.first_choice[0]), int(rows.first_choice[-1]))
    shares = None if policy is None else policy[choices]
    return rows, [array[choices] for array in numbers], shares


def _divided(
    least: np.ndarray, most: np.ndarray, less: np.ndarray, more: np.ndarray, is_over: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Bounds on d / g for d in [least, most], g in [less, more]; infinite where g may be 0.

    Where d is 0 the ratio is 0 even if g is too: a run may stay there, if nothing is left of V by
    then (`is_over`: V is 0, or the future is discounted).
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / less, least / more)
        high = np.where(most > 0, most / less, most / more)
    is_proof = less > 0
    is_zero = (least == 0) & (most == 0) & ((is_over & (less >= 0)) | is_proof)
    low = np.where(is_zero, 0.0, np.where(is_proof, low, -np.inf))
    return low, np.where(is_zero, 0.0, np.where(is_proof, high, np.inf))
