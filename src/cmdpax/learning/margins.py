"""How much room do the limits leave, as far as episodes tell: estimate, aim, verdict and choice.

Estimate. Episodes are noise around a mean that moves with the policy. A Kalman filter weighs both:

    prior = error^2 + (DRIFT reach)^2,   share = prior / (prior + variance / E)
    mean <- mean + share (mean of the batch's E totals - mean),   error^2 <- (1 - share) prior

A few episodes of a policy that hardly moves change the estimate little; many replace it. A weight
that followed every batch would be largest just when there was much cost by chance: `E[w c] = E[w]
E[c] + penalty Var(c)` makes the policy shun whatever varies.

Aim. `b + held 1.645 sqrt(variance / 100)`: with `held = 1`, of a policy that just meets it, the
mean of a hundred episodes keeps the limit with probability 95%. Of two variances, over the last
hundred episodes or over more batches, the smaller: far beyond a limit a policy varies more than
where it meets it. Aims may be out of reach together where limits are not; then multipliers would
grow without end. So while any limit is exceeded the reserve is given up by and by, `held` -> 0,
and taken back while all are kept.

Verdict. By Student's t of at least two episodes, the confidence that the mean keeps a limit: `kept`
from 95% on, `exceeded` below 5%, else `undecided`.

Choice. A run may swing around its limits to the end. Once it is over, single policies play batches
of their own, one for ten updates at most, in five parts; a part ends with its hundredth episode.

    1. The last policy plays a part. If its means keep the limits, it is kept, and judged by the
       other parts, too, up to a hundred episodes.
    2. Else earlier policies play a part each: evenly spaced over the last third of the updates, and
       as many as leave one part over. Of those whose means keep the limits the one with the largest
       mean return is kept. If there is none, it is the one whose worst limit has the smallest
       excess, in standard deviations of an episode's total over all episodes played.
    3. It may have been chosen by chance: the part left over, up to a hundred episodes, judges it.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import stdtr

from cmdpax.learning.scales import SLOW
from cmdpax.model.limits import Limits

Array = np.ndarray
DRIFT = 0.2  # of the reach: costs drift less than an update could move them
EPISODES = 100  # of an evaluation that is to keep the limits, and of a verdict of training
CONFIDENCE, DEVIATIONS = 0.95, 1.645
PACE = 0.05  # of the reserve, given up or taken back in an update
CANDIDATES, PARTS = 10, 5
SHARE = 10  # updates for each batch of judging


@dataclass(frozen=True)
class Verdict:
    """Whether the mean of episodes keeps the limits, and with what confidence."""

    word: Literal["kept", "exceeded", "undecided"]
    confidence: dict[str, float]  # that the mean keeps the limit, by the limit's name
    mean: dict[str, float]
    limits: tuple[str, ...]  # as written
    episodes: int

    def __str__(self) -> str:
        parts = [
            f"{name} {self.mean[name]:.4g} ({limit}: {100 * self.confidence[name]:.0f}%)"
            for name, limit in zip(self.mean, self.limits)
        ]
        return f"{self.word}: {', '.join(parts)} over {self.episodes} episodes"


def rooms(limits: Limits, totals: Array) -> Array:
    """Room for each row of the limits, `[E, M]`, that episode totals `[E, m]` leave."""
    return limits.turn(totals) - limits.row_thresholds


def judge(limits: Limits, totals: Array) -> Verdict:
    """The verdict on episode totals `[E, m]` of the limited costs, in the user's orientation."""
    count, room = len(totals), rooms(limits, totals)
    mean, deviation = room.mean(0), room.std(0, ddof=1) if count > 1 else np.zeros(room.shape[1])
    certain = np.where(mean >= 0, 1.0, 0.0)
    error = deviation / np.sqrt(count)
    uncertain = stdtr(max(count - 1, 1), mean / np.where(error > 0, error, 1.0))
    rows = np.where(error > 0, uncertain, certain if count > 1 else 0.5)
    confidence = limits.worst(rows)
    word: Literal["kept", "exceeded", "undecided"] = "undecided"
    if (confidence <= 1 - CONFIDENCE).any():
        word = "exceeded"
    elif (confidence >= CONFIDENCE).all():
        word = "kept"
    names = limits.names
    return Verdict(
        word,
        dict(zip(names, confidence.tolist())),
        dict(zip(names, totals.mean(0).tolist())),
        limits.texts,
        count,
    )


class Margins(NamedTuple):
    """What episodes said so far about the rows of the limits, `V >= b`."""

    mean: Array  # [M], estimate of V
    error: Array  # [M], its squared standard error
    variance: Array  # [M], of an episode's total, over the last hundred or so
    steady: Array  # [M], the same over more batches
    best: Array  # [M], largest estimate so far
    last: Array  # [EPISODES, M], totals of the last episodes, oldest first; NaN before there were
    held: Array  # share of the reserve that is aimed at, scalar

    @staticmethod
    def empty(rows: int) -> "Margins":
        """Before the first batch."""
        zero, none = np.zeros(rows), np.full(rows, -np.inf)
        last = np.full((EPISODES, rows), np.nan)
        return Margins(zero, zero, zero, zero, none, last, np.ones(()))

    def add(self, totals: Array, reach: Array, latest: bool = False) -> "Margins":
        """With episode totals `[M, E]` of a batch; `latest` forgets all others.

        reach `[M]`: by how much the last update can have moved the mean.
        """
        count, batch, is_first = totals.shape[1], totals.mean(1), bool(np.isneginf(self.best).all())
        seen = np.isfinite(self.last[:, :1]).sum()
        square = totals.var(1, ddof=1) if count > 1 else np.zeros_like(batch)
        slow = 1.0 if is_first else SLOW
        if count == 1 and not is_first:  # neighbours differ by noise, and hardly by drift
            square, slow = np.square(batch - self.last[-1]) / 2, max(SLOW, 1 / seen)
        variance = self.variance + max(slow, min(1.0, count / EPISODES)) * (square - self.variance)
        prior, noise = self.error + (DRIFT * reach) ** 2, variance / count
        certain = (noise == 0) | (prior == 0) | is_first | latest
        share = np.where(certain, 1.0, prior / np.where(prior + noise > 0, prior + noise, 1.0))
        mean = self.mean + share * (batch - self.mean)
        return Margins(
            mean,
            np.where(certain, noise, (1 - share) * prior),
            variance,
            self.steady + slow * (square - self.steady),
            np.maximum(self.best, mean),
            np.concatenate((self.last, totals.T))[-EPISODES:],
            self.held,
        )

    def hold(self, limits: Limits) -> "Margins":
        """A step towards the whole reserve where all limits are kept, else away from it."""
        is_kept = bool((self.mean >= limits.row_thresholds).all())
        return self._replace(held=(self.held + (PACE if is_kept else -PACE)).clip(0.0, 1.0))

    def aims(self, limits: Limits, reserve: float | None) -> Array:
        """What training aims at, `[M]`: the limits with a reserve, of a range at most its middle.

        reserve: a share of every limit; None: so much that a hundred episodes keep it.
        """
        width = (reserve or 0.0) * abs(limits.row_thresholds)
        if reserve is None:
            variance = np.minimum(self.variance, self.steady)
            width = self.held * DEVIATIONS * np.sqrt(variance / EPISODES)
        half = (limits.bounds[:, 1] - limits.bounds[:, 0])[limits.rows] / 2
        return limits.row_thresholds + np.minimum(width, half)

    def verdict(self, limits: Limits) -> Verdict | None:
        """By the last episodes of a training; None without limits, or if no episode ended."""
        rows = self.last[~np.isnan(self.last).any(1)]
        if not len(limits) or not len(rows):
            return None
        return judge(limits, in_users_orientation(limits, rows))

    def out_of_reach(self, limits: Limits) -> tuple[str, ...]:
        """A sentence for each limit that no estimate kept."""
        best = in_users_orientation(limits, self.best)
        never = limits.worst(self.best - limits.row_thresholds) < 0
        return tuple(
            f"{text} was not kept at any time; the best estimate was {value:.4g}: give a limit"
            " that can be met, or more samples."
            for text, value, is_never in zip(limits.texts, best, never)
            if is_never
        )


def in_users_orientation(limits: Limits, rows: Array | Sequence[float]) -> Array:
    """Values of rows `[..., M]` as those of the limits `[..., m]`."""
    return (limits.signs * np.asarray(rows) + 0.0)[..., limits.first_rows]


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

    earlier: read only if the last policy exceeds a limit.
    play: the k-th batch of a policy, by its update and k = 1, 2, ...: returns and costs of its
    episodes, `[E, 1 + m]`, in the user's orientation.
    """
    left = updates // SHARE
    if not left or not len(limits):
        return None
    seen, most = dict[int, list[Array]](), max(1, left // PARTS)

    def part(update: int, most: int, enough: int = EPISODES) -> Array:
        """Further batches of a policy: at most so many, fewer if they have enough episodes."""
        batches = seen.setdefault(update, [])
        first = len(batches)
        while len(batches) < first + most and sum(map(len, batches[first:])) < enough:
            batches.append(play(update, len(batches) + 1))
        return np.concatenate(batches[first:])

    def spent() -> int:
        return sum(map(len, seen.values()))

    totals = part(updates, most)
    size, means = spent(), rooms(limits, totals[:, 1:]).mean(0)
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
    room = {update: rooms(limits, totals[:, 1:]) for update, totals in played.items()}
    deviation = np.concatenate(list(room.values())).std(0)
    unit = np.where(deviation > 0, deviation, 1.0)

    def rank(update: int) -> tuple[float, float]:
        worst = (room[update].mean(0) / unit).min()
        return min(float(worst), 0.0), float(played[update][:, 0].mean())

    return max(played, key=rank)
