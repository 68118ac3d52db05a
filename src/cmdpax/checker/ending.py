"""Which quotients prove the total of policies that surely end, where others need not?

The end is where every choice stays and nothing is paid; or, if a run may stay, any choices that pay
nothing and lead only to states that have such a choice too. With `d = x + P V - V` and
`g = u - P u >= 0`, each potential with a gauge of its own, a value is `rho.V + nu.d` and
`nu.g <= rho.u`; where g is 0, `d <= 0` is enough for an upper bound: nothing is left of V at the
end.
"""

from typing import Any

import numpy as np

from cmdpax.checker.demands import demand
from cmdpax.checker.facts import UNIT, Facts, longest_row, moved, stretches, visited


def ending(model: Any, seen: np.ndarray) -> Facts:
    """Which choices policies that surely end can use, and which states they then reach."""
    rows, S = model.rows(0, model.states), model.states
    owner = np.repeat(np.arange(S), np.diff(rows.first_choice.astype(np.int64)))
    lengths = np.diff(rows.first_entry.astype(np.int64))
    entry, to = np.repeat(np.arange(len(owner)), lengths), rows.successors.astype(np.int64)
    free = (model.reward == 0) & (model.constraints == 0).all(0)
    if model.may_stay:
        stays, count = free & seen[owner], -1
        while count != (count := int(stays.sum())):
            has = np.zeros(S, dtype=bool)
            has[owner[stays]] = True
            stays[entry[~has[to]]] = False
    else:
        stays = free.copy()
        stays[entry[to != owner[entry]]] = False
        stays &= np.logical_and.reduceat(stays, rows.first_choice[:-1].astype(np.int64))[owner]
    target = np.zeros(S, dtype=bool)
    target[owner[stays]] = True
    order = np.argsort(to, kind="stable")
    starts = np.searchsorted(to[order], np.arange(S + 1))
    live = seen.copy()
    while True:
        allowed = live[owner]
        allowed[entry[~live[to]]] = False
        reached = target & live
        fresh = np.flatnonzero(reached)
        while fresh.size:
            back = entry[order[stretches(starts, fresh)]]
            before = owner[back[allowed[back]]]
            fresh = np.unique(before[~reached[before]])
            reached[fresh] = True
        if (reached == live).all():
            break
        live = reached
    own = np.asarray(model.initial) > 0
    demand(bool(live[own].all()), "no policy surely ends, from some initial state")
    return Facts(model, visited(model, allowed), None, allowed, stays)


def quotients(
    facts: Facts,
    x: np.ndarray,
    sizes: np.ndarray,
    v: np.ndarray,
    u: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[float, float]:
    """The least and the largest d / g of reachable states, by choices that are allowed.

    Differences of V count: where nothing of V changes they are 0 exactly, whatever V is.
    """
    model, ends, allowed = facts.model, facts.ends, facts.allowed
    assert ends is not None and allowed is not None
    rows, heads = model.rows(0, model.states), model.first_choice[:-1].astype(np.int64)
    counts = np.diff(model.first_choice.astype(np.int64))
    (change, size), (loss, scale) = moved(rows, 0, v), moved(rows, 0, u)
    d, size, g = x + change, sizes + size, -loss
    terms, may_end = UNIT * (2 * longest_row(model) + 6), ends & allowed
    if policy is not None:
        size, scale = (np.add.reduceat(policy * own, heads) for own in (size, scale))
        d, g = (np.add.reduceat(policy * own, heads) for own in (d, g))
        more = terms + 2 * UNIT * counts
        error, doubt = more * size, more * scale
        ends = np.logical_and.reduceat(ends | (policy == 0), heads) & (v == 0)
    else:
        error, doubt = terms * size, terms * scale
        ends = ends & np.repeat(v == 0, counts)
    least, most, is_proof = d - error, d + error, g > doubt
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(least < 0, least / (g - doubt), least / (g + doubt))
        high = np.where(most > 0, most / (g - doubt), most / (g + doubt))
    is_zero = ends & (least == 0) & (most == 0) & (g >= doubt)
    low = np.where(is_proof, low, np.where(is_zero, 0.0, -np.inf))
    falls = (most <= 0) & (g == 0) & (doubt == 0)
    high = np.where(is_proof, high, np.where(falls, 0.0, np.inf))
    if policy is None:
        stuck = np.logical_or.reduceat(may_end, heads) & (v < 0)  # who stays keeps V for ever
        low[~allowed] = high[~allowed] = -np.inf
        low, high = np.maximum.reduceat(low, heads), np.maximum.reduceat(high, heads)
        with np.errstate(divide="ignore", invalid="ignore"):
            high = np.where(stuck, np.maximum(high, np.where(u > 0, -v / u, np.inf)), high)
    return float(low[facts.seen].min()), float(high[facts.seen].max())
