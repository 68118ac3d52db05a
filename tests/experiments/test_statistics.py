"""Closed forms, published formulas, and coverage that was promised."""

import numpy as np
import pytest
from scipy import stats

from cmdpax import InputError
from cmdpax.experiments.statistics import (
    bootstrap_interval,
    improvement_interval,
    interquartile_mean,
    mean_interval,
    probability_of_improvement,
    tails,
    tails_over_episodes,
    tails_over_seeds,
)


def test_the_mean_interval_is_students():
    """Five numbers by hand: mean 3, s = sqrt(2.5), t(0.975, 4) = 2.776445."""
    value, low, high = mean_interval([1, 2, 3, 4, 5])
    assert value == 3
    assert high - value == pytest.approx(2.7764451052 * np.sqrt(2.5 / 5))
    assert value - low == pytest.approx(high - value)
    assert (low, high) == pytest.approx(stats.t.interval(0.95, 4, loc=3, scale=np.sqrt(2.5 / 5)))


def test_one_seed_has_no_interval():
    value, low, high = mean_interval([7.0])
    assert value == 7 and np.isnan(low) and np.isnan(high)


def test_an_interval_is_shown_as_what_it_adds_and_takes_away():
    assert mean_interval([1, 2, 3, 4, 5]).plus_minus(".1f", ".3g") == "3.0 +- 1.96"
    assert mean_interval([7.0]).plus_minus(".3g", ".3g") == "7"


def test_the_mean_interval_covers_as_promised():
    random = np.random.default_rng(0)
    covered = [
        low <= 2 <= high
        for _, low, high in (mean_interval(random.normal(2, 3, 5)) for _ in range(4000))
    ]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.012)


@pytest.mark.parametrize("shape", [(4,), (5,), (10, 3), (7, 6), (1,), (2, 1), (3,)])
def test_the_interquartile_mean_is_the_trimmed_mean_of_all_scores(shape):
    """Agarwal et al.: scipy's trim_mean with 25% cut at each end, over all seeds and tasks."""
    scores = np.random.default_rng(1).normal(size=shape)
    assert interquartile_mean(scores) == pytest.approx(stats.trim_mean(scores, 0.25, axis=None))


def test_the_interquartile_mean_ignores_the_outer_quarters():
    assert interquartile_mean([-1e9, 1, 3, 1e9]) == 2


def test_probability_of_improvement_is_mann_whitney_over_pairs():
    random = np.random.default_rng(2)
    ours, theirs = random.integers(0, 5, (6, 3)), random.integers(0, 5, (4, 3))  # with ties
    expected = np.mean(
        [stats.mannwhitneyu(ours[:, k], theirs[:, k]).statistic / 24 for k in range(3)]
    )
    assert probability_of_improvement(ours, theirs) == pytest.approx(expected)
    assert probability_of_improvement(ours, theirs) + probability_of_improvement(
        theirs, ours
    ) == pytest.approx(1)
    assert probability_of_improvement(ours, ours) == pytest.approx(0.5)


def test_probability_of_improvement_of_normals():
    """Closed form: P(X > Y) = Phi((a - b) / sqrt(2)) for unit normals."""
    random = np.random.default_rng(3)
    ours, theirs = random.normal(1, 1, (2000, 1)), random.normal(0, 1, (2000, 1))
    assert probability_of_improvement(ours, theirs) == pytest.approx(
        stats.norm.cdf(1 / np.sqrt(2)), abs=0.02
    )
    value, low, high = improvement_interval(ours[:50], theirs[:40], resamples=500)
    assert low <= value <= high and low >= 0 and high <= 1


def test_the_bootstrap_of_a_mean_has_its_closed_form():
    """With the mean as statistic, the resampled deviation is `sqrt(sum_k var_k / n) / K`: strata
    are kept apart.
    """
    scores = np.random.default_rng(4).normal(size=(40, 3)) * [1, 5, 20] + [0, 100, 1000]
    value, low, high = bootstrap_interval(scores, lambda drawn: float(drawn.mean()), resamples=4000)
    deviation = np.sqrt((scores.var(axis=0) / 40).sum()) / 3
    assert value == pytest.approx(scores.mean())
    assert (high - low) / 2 == pytest.approx(1.96 * deviation, rel=0.08)


def test_the_bootstrap_is_reproducible_and_around_the_estimate():
    scores = np.random.default_rng(5).normal(size=(10, 2))
    one = bootstrap_interval(scores, resamples=200)
    assert one == bootstrap_interval(scores, resamples=200)
    assert one.low <= one.value <= one.high


def test_tails_are_linear_percentiles():
    """The order statistics 0..10: P90 is 9, P95 halfway between 9 and 10."""
    assert tails(np.arange(11.0)) == (5, 10, 9, 9.5)


def test_the_papers_table_is_over_seed_means():
    """Five seed means whose worst two are 68.6 and 1.2: P90 and P95 lie 60% and 80% of the way
    between them.
    """
    means = [-15.0, -12.0, -9.0, 1.2, 68.6]
    seen = tails_over_seeds([[mean - 1, mean + 1] for mean in means])
    assert (seen.worst, seen.p90, seen.p95) == pytest.approx(
        (68.6, 1.2 + 0.6 * 67.4, 1.2 + 0.8 * 67.4)
    )
    # printed in the paper for CPO on HalfCheetah
    assert (seen.p90, seen.p95) == pytest.approx((41.64, 55.12))
    worst = tails_over_episodes([[mean - 1, mean + 1] for mean in means]).worst
    assert worst == pytest.approx(69.6)


def test_what_cannot_be_summarised():
    with pytest.raises(InputError, match="no scores"):
        mean_interval([])
    with pytest.raises(InputError, match="same tasks"):
        probability_of_improvement(np.zeros((3, 2)), np.zeros((3, 4)))
