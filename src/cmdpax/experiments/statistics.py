"""Statistics over seeds: what may be said from a handful of runs.

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

LEVEL = 0.95
RESAMPLES = 2_000


class Interval(NamedTuple):
    """An estimate with its confidence interval; a single number has none, which is shown as NaN."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} [{self.low:.4g}, {self.high:.4g}]"


class Tails(NamedTuple):
    """Mean and upper tail of costs; large is bad."""

    mean: float
    worst: float
    p90: float
    p95: float


def mean_interval(values: Sequence[float] | np.ndarray, level: float = LEVEL) -> Interval:
    """Mean of `values [n]` with Student's interval."""
    values = _scores(values).ravel()
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, np.nan, np.nan)
    half = float(
        stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    )
    return Interval(mean, mean - half, mean + half)


def interquartile_mean(scores: Sequence[float] | np.ndarray) -> float:
    """Mean of all scores `[seeds, tasks]` together without the lowest and the highest quarter, each
    rounded down.
    """
    ordered = np.sort(_scores(scores), axis=None)
    cut = len(ordered) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def bootstrap_interval(
    scores: np.ndarray,
    statistic: Callable[[np.ndarray], float] = interquartile_mean,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """A statistic of `scores [seeds, tasks]` with its stratified percentile-bootstrap interval."""
    scores = _table(scores)
    random = np.random.default_rng(seed)
    drawn = [statistic(_resample(scores, random)) for _ in range(resamples)]
    low, high = np.percentile(drawn, [50 * (1 - level), 50 * (1 + level)])
    return Interval(statistic(scores), float(low), float(high))


def probability_of_improvement(ours: np.ndarray, theirs: np.ndarray) -> float:
    """P(a run of `ours` scores above one of `theirs`) on a random task; `[seeds, tasks]` each,
    numbers of seeds may differ.
    """
    ours, theirs = _table(ours), _table(theirs)
    if ours.shape[1] != theirs.shape[1]:
        raise InputError(
            f"scores of {ours.shape[1]} and of {theirs.shape[1]} tasks cannot be compared; give the"
            " same tasks."
        )
    above = ours[:, None, :] > theirs[None, :, :]
    equal = ours[:, None, :] == theirs[None, :, :]
    return float((above + 0.5 * equal).mean())


def improvement_interval(
    ours: np.ndarray,
    theirs: np.ndarray,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Interval:
    """The probability of improvement, `[seeds, tasks]` each, with its stratified bootstrap
    interval; both are resampled.
    """
    ours, theirs = _table(ours), _table(theirs)
    random = np.random.default_rng(seed)
    drawn = [
        probability_of_improvement(_resample(ours, random), _resample(theirs, random))
        for _ in range(resamples)
    ]
    low, high = np.percentile(drawn, [50 * (1 - level), 50 * (1 + level)])
    return Interval(probability_of_improvement(ours, theirs), float(low), float(high))


def tails(values: Sequence[float] | np.ndarray) -> Tails:
    """Mean, worst, P90 and P95 of `values [n]`."""
    values = _scores(values)
    return Tails(
        float(values.mean()),
        float(values.max()),
        *(float(p) for p in np.percentile(values, [90, 95])),
    )


def tails_over_seeds(episodes: Sequence[Sequence[float]]) -> Tails:
    """Tails of the seed means; `episodes[seed]` are the values of that seed's episodes."""
    return tails([float(np.mean(one)) for one in episodes])


def tails_over_episodes(episodes: Sequence[Sequence[float]]) -> Tails:
    """Tails of all episodes together: what one deployment may meet."""
    return tails(np.concatenate([np.asarray(one, dtype=np.float64) for one in episodes]))


def _resample(scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Seeds drawn with replacement, for every task on its own."""
    return np.take_along_axis(scores, random.integers(0, len(scores), scores.shape), axis=0)


def _scores(values: Sequence[float] | np.ndarray) -> np.ndarray:
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise InputError("there are no scores to summarise; give at least one.")
    return array


def _table(scores: np.ndarray) -> np.ndarray:
    array = _scores(scores)
    return array[:, None] if array.ndim == 1 else array
