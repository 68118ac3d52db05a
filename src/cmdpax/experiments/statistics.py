"""What may be said from a handful of seeds?

- mean with a 95% interval by Student's t: `mean +- t(0.975, n - 1) s / sqrt(n)`;
- interquartile mean (Agarwal et al. 2021): the mean of the middle half of all scores, a quarter cut
  off at each end;
- its interval by a stratified bootstrap: seeds are drawn with replacement within every task, never
  across tasks;
- probability of improvement: the chance that a run of X beats a run of Y on a random task:
  Mann-Whitney's U over the number of pairs, ties counting one half, averaged over tasks;
- tails: P90, P95 and worst, percentiles with linear interpolation, over seed means (as the paper's
  table) or over all episodes.

Scores are arrays `[n]` of one task, or `[seeds, tasks]`. Nothing is normalised here.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from cmdpax.errors import InputError

Scores = Sequence[float] | np.ndarray
LEVEL = 0.95  # of every interval
RESAMPLES = 2_000


class Interval(NamedTuple):
    """An estimate with its confidence interval; a single number has none, which is shown as NaN."""

    value: float
    low: float
    high: float

    def plus_minus(self, digits: str, half_digits: str) -> str:
        """As in `3.5 +- 0.2`, both numbers in the formats given; a single number by itself."""
        half = "" if np.isnan(self.low) else f" +- {self.high - self.value:{half_digits}}"
        return f"{self.value:{digits}}{half}"


class Tails(NamedTuple):
    """Mean and upper tail of costs; large is bad."""

    mean: float
    worst: float
    p90: float
    p95: float


def mean_interval(values: Scores) -> Interval:
    """Mean of `values [n]` with Student's interval."""
    values = _scores(values).ravel()
    mean, n = float(values.mean()), len(values)
    if n < 2:
        return Interval(mean, np.nan, np.nan)
    half = float(stdtrit(n - 1, (1 + LEVEL) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - half, mean + half)


def interquartile_mean(scores: Scores) -> float:
    """Mean of all scores `[seeds, tasks]` but the lowest and highest quarter, both rounded down."""
    ordered = np.sort(_scores(scores), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(
    scores: np.ndarray,
    statistic: Callable[[np.ndarray], float] = interquartile_mean,
    resamples: int = RESAMPLES,
) -> Interval:
    """A statistic of `scores [seeds, tasks]` with its stratified percentile-bootstrap interval."""
    scores, random = _table(scores), np.random.default_rng(0)
    drawn = [statistic(_resample(scores, random)) for _ in range(resamples)]
    return _percentiles(statistic(scores), drawn)


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """P(a run of `ours` scores above one of `theirs`) on a random task.

    Both are `[seeds, tasks]`; their numbers of seeds may differ.
    """
    ours, theirs = _table(ours), _table(theirs)
    if ours.shape[1] != theirs.shape[1]:
        both = f"{ours.shape[1]} and of {theirs.shape[1]} tasks"
        raise InputError(f"scores of {both} cannot be compared; give the same tasks.")
    ours, theirs = ours[:, None, :], theirs[None, :, :]
    return float(((ours > theirs) + 0.5 * (ours == theirs)).mean())


def improvement_interval(
    ours: np.ndarray, theirs: np.ndarray, resamples: int = RESAMPLES
) -> Interval:
    """The probability of improvement with its stratified bootstrap interval; both are resampled."""
    ours, theirs, random = _table(ours), _table(theirs), np.random.default_rng(0)
    drawn = [
        probability_of_improvement(_resample(ours, random), _resample(theirs, random))
        for _ in range(resamples)
    ]
    return _percentiles(probability_of_improvement(ours, theirs), drawn)


def tails(values: Scores) -> Tails:
    """Mean, worst, P90 and P95 of `values [n]`."""
    values = _scores(values)
    p90, p95 = np.percentile(values, [90, 95])
    return Tails(float(values.mean()), float(values.max()), float(p90), float(p95))


def tails_over_seeds(episodes: Sequence[Sequence[float]]) -> Tails:
    """Tails of the seed means; `episodes[seed]` are the values of that seed's episodes."""
    return tails([float(np.mean(one)) for one in episodes])


def tails_over_episodes(episodes: Sequence[Sequence[float]]) -> Tails:
    """Tails of all episodes together: what one deployment may meet."""
    return tails(np.concatenate([np.asarray(one, dtype=np.float64) for one in episodes]))


def _percentiles(value: float, drawn: Sequence[float]) -> Interval:
    low, high = np.percentile(drawn, [50 * (1 - LEVEL), 50 * (1 + LEVEL)])
    return Interval(value, float(low), float(high))


def _resample(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Seeds drawn with replacement, for every task on its own."""
    return np.take_along_axis(scores, random.integers(0, len(scores), scores.shape), axis=0)


def _scores(values: Scores) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise InputError("there are no scores to summarise; give at least one.")
    return array


def _table(scores: np.ndarray) -> np.ndarray:
    array = _scores(scores)
    return array[:, None] if array.ndim == 1 else array
