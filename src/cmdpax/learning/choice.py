"""Which policy of a run is kept: the last, or an earlier one where the last exceeds a limit.

A run may swing around its limits to the end. Once it is over, single policies play batches of their
own, one for ten updates at most, in five parts; a part ends with its hundredth episode.

    1. The last policy plays a part. If its means keep the limits, it is kept, and judged by the
       other parts, too, up to a hundred episodes.
    2. Else earlier ones, evenly spaced over the last third of the updates, play a part each, as
       many as leave one part over. Of all whose means keep the limits the one with the largest mean
       return is kept; if there is none, that with the smallest excess of its worst limit, counted
       in deviations of an episode's total among all that were played: in no unit.
    3. It was chosen for what it did by chance, too: the rest, up to a hundred episodes, judges it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from cmdpax.learning.margins import EPISODES, Verdict, judge
from cmdpax.model.limits import Limits

Array = np.ndarray
CANDIDATES, PARTS = 10, 5
SHARE = 10  # updates for each batch of judging


@dataclass(frozen=True)
class Choice:
    """The policy that is kept, by the update that made it."""

    update: int
    verdict: Verdict  # on this policy alone
    exceeded: tuple[str, ...]  # limits beyond which the mean of the last policy was
    batches: int  # that judging took


def candidates(updates: int) -> list[int]:
    """The updates whose policies are set aside, before the last; none where none is judged."""
    if updates < SHARE:
        return []
    shares = 2 / 3 + np.arange(1, CANDIDATES + 1) / (3 * CANDIDATES)
    return sorted({round(updates * share) for share in shares.tolist()} - {updates})


def choose(
    updates: int, earlier: Iterable[int], limits: Limits, play: Callable[[int, int], Array]
) -> Choice | None:
    """The choice among the last policy and `earlier` ones; None where no batch may be spent.

    earlier: looked at only if the last policy does not do.
    play: the k-th batch of a policy, by its update and k = 1, 2, ...: returns and costs of its
    episodes, `[E, 1 + m]`, in the user's orientation.
    """
    left = updates // SHARE
    if not left or not len(limits):
        return None
    seen, most = dict[int, list[Array]](), max(1, left // PARTS)

    def part(update: int, most: int, enough: int = EPISODES) -> Array:
        """At most so many further batches of a policy, or enough episodes."""
        batches = seen.setdefault(update, [])
        first = len(batches)
        while len(batches) < first + most and sum(map(len, batches[first:])) < enough:
            batches.append(play(update, len(batches) + 1))
        return np.concatenate(batches[first:])

    def spent() -> int:
        return sum(map(len, seen.values()))

    totals = part(updates, most)
    size, means = spent(), rooms(totals, limits).mean(0)
    beyond = limits.worst(means) < 0
    if not beyond.any():
        if len(totals) < EPISODES and left > size:
            further = part(updates, left - size, EPISODES - len(totals))
            totals = np.concatenate((totals, further))
        return Choice(updates, judge(limits, totals[:, 1:]), (), spent())
    exceeded = tuple(name for name, is_beyond in zip(limits.names, beyond) if is_beyond)
    others = list(earlier)
    count = min(left // size - 2, len(others))
    if count < 1:
        return Choice(updates, judge(limits, totals[:, 1:]), exceeded, size)
    places = np.unique(np.linspace(0, len(others) - 1, count).round().astype(int))
    played = {updates: totals}
    for i in places:  # episodes of others may be longer: one batch is left for the verdict
        if room := min(most, left - spent() - 1):
            played[others[i]] = part(others[i], room)
    chosen = best(played, limits)
    totals = part(chosen, left - spent())
    return Choice(chosen, judge(limits, totals[:, 1:]), exceeded, spent())


def best(played: dict[int, Array], limits: Limits) -> int:
    """The update whose policy did best, of totals `[E, 1 + m]` for each."""
    room = {update: rooms(totals, limits) for update, totals in played.items()}
    deviation = np.concatenate(list(room.values())).std(0)
    unit = np.where(deviation > 0, deviation, 1.0)

    def rank(update: int) -> tuple[float, float]:
        worst = (room[update].mean(0) / unit).min()
        return min(float(worst), 0.0), float(played[update][:, 0].mean())

    return max(played, key=rank)


def rooms(totals: Array, limits: Limits) -> Array:
    """Room that episodes `[E, 1 + m]` leave for each row of the limits, `[E, M]`."""
    return limits.turn(totals[:, 1:]) - limits.row_thresholds
