"""Margins: the filter against its formula and against brute force, aims, verdicts and choices."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from cmdpax.learning.margins import (
    CANDIDATES,
    DRIFT,
    EPISODES,
    SHARE,
    Margins,
    best,
    candidates,
    choose,
    in_users_orientation,
    judge,
)
from cmdpax.learning.scales import SLOW
from cmdpax.model.limits import Limits


def test_the_filter_by_hand():
    first, second = np.array([[1.0, 3.0]]), np.array([[10.0, 20.0, 30.0]])
    one = Margins.empty(1).add(first, np.array([5.0]))
    assert one.mean == 2 and one.variance == 2 and one.error == 1  # variance of a mean of two
    two = one.add(second, np.array([5.0]))
    variance = 2 + SLOW * (100 - 2)  # three episodes are 3% of a hundred
    prior, noise = 1 + (DRIFT * 5) ** 2, variance / 3
    share = prior / (prior + noise)
    assert two.mean == pytest.approx(2 + share * (20 - 2))
    assert two.error == pytest.approx((1 - share) * prior)
    np.testing.assert_array_equal(two.last[-5:, 0], [1, 3, 10, 20, 30])
    assert np.isnan(two.last[:-5]).all()


def test_the_latest_batch_alone_if_asked():
    margins = Margins.empty(1).add(np.array([[1.0, 3.0]]), np.ones(1))
    assert margins.add(np.array([[8.0, 10.0]]), np.ones(1), latest=True).mean == 9


def test_episodes_without_noise_are_believed():
    margins = Margins.empty(1).add(np.array([[4.0, 4.0]]), np.ones(1))
    assert margins.add(np.array([[5.0]]), np.ones(1)).mean > 4
    still = margins.add(np.array([[0.0, 2.0]]), np.zeros(1))  # nothing could have moved it
    assert still.mean == 1 and still.error == still.variance / 2
    calm = Margins.empty(1).add(np.array([[4.0]]), np.ones(1))
    assert calm.variance == 0 and calm.error == 0


def test_a_still_mean_is_estimated_far_better_than_by_a_batch():
    """A hundred batches of four episodes of a policy that does not move."""
    random, margins, errors = np.random.default_rng(0), Margins.empty(1), []
    for _ in range(100):
        margins = margins.add(random.normal(7.0, 3.0, (1, 4)), np.array([0.1]))
        errors.append(float(margins.mean[0]) - 7.0)
    late = np.array(errors[50:])
    assert abs(late).max() < 1.0  # a batch's own mean has a deviation of 1.5
    assert np.sqrt(margins.error[0]) < 0.3


def test_a_moving_mean_is_followed():
    random, margins = np.random.default_rng(0), Margins.empty(1)
    for step in range(100):
        margins = margins.add(random.normal(float(step), 1.0, (1, 4)), np.array([5.0]))
    assert abs(float(margins.mean[0]) - 99) < 1.5


def test_a_drift_is_no_noise():
    """One episode a batch: the mean drifts by 3 an update, the noise has variance 4."""
    noise = np.random.default_rng(0).normal(0, 2, 400)
    margins, rows = Margins.empty(1), []
    for number, one in enumerate(noise):
        margins = margins.add(np.array([[3.0 * number + one]]), np.array([3.0 / DRIFT]))
        rows.append(margins.variance[0])
    # neighbours differ by noise of twice the variance, and by the drift
    np.testing.assert_allclose(np.mean(rows[50:]), 4 + 9 / 2, rtol=0.2)
    early = Margins.empty(1)
    for one in noise[:12]:
        early = early.add(np.array([[one]]), np.zeros(1))
    assert 1.0 < early.variance[0] < 10.0  # of the right size from the start


def test_aims():
    limits = Limits.parse(["cost<=20", "heat>=10", "2<=noise<=3", "stock==4"])
    variance = np.full(len(limits.rows), 4.0)  # 1.645 * 2 / 10
    margins = Margins.empty(len(limits.rows))._replace(variance=variance, steady=variance)
    width = 0.329
    expected = [-20 + width, 10 + width, 2 + width, -3 + width, 4, -4]
    np.testing.assert_allclose(margins.aims(limits, None), expected)
    np.testing.assert_allclose(margins.aims(limits, 0.2), [-16, 12, 2.4, -2.5, 4, -4])
    np.testing.assert_array_equal(margins.aims(limits, 0.0), limits.row_thresholds)


def test_the_reserve_is_given_up_while_a_limit_is_exceeded_and_taken_back():
    limits = Limits.parse(["cost<=20", "heat>=10"])
    margins = Margins.empty(2)._replace(variance=np.full(2, 4.0), steady=np.full(2, 4.0))

    def held(mean, updates):
        nonlocal margins
        for _ in range(updates):
            margins = margins._replace(mean=np.array(mean)).hold(limits)
        return margins.held

    whole = margins.aims(limits, None)
    assert held([-19.0, 11.0], 3) == 1  # kept, with or without room for the reserve
    assert held([-19.0, 9.9], 5) == pytest.approx(0.75)  # one of them is exceeded
    room = limits.row_thresholds
    np.testing.assert_allclose(margins.aims(limits, None), room + 0.75 * (whole - room))
    np.testing.assert_array_equal(margins.aims(limits, 0.2), [-16, 12])  # a user's own stays
    assert held([-21.0, 11.0], 30) == 0
    np.testing.assert_array_equal(margins.aims(limits, None), room)
    assert held([-20.0, 10.0], 30) == 1


def test_of_a_policy_that_just_meets_its_aim_a_hundred_episodes_keep_the_limit():
    limits, random, kept = Limits.parse(["cost<=25"]), np.random.default_rng(1), 0
    variance = np.array([100.0])
    margins = Margins.empty(1)._replace(variance=variance, steady=variance)
    aim = -margins.aims(limits, None)[0]
    for _ in range(2000):
        kept += random.normal(aim, 10.0, EPISODES).mean() <= 25
    assert 0.93 < kept / 2000 < 0.97


@pytest.mark.parametrize("scales", [[50.0] * 5 + [5.0] * 30, [5.0] * 30 + [50.0] * 3])
def test_a_policy_far_beyond_a_limit_does_not_set_the_reserve(scales):
    """One that starts far away, or strays, varies more than one that meets the limit."""
    limits, random, reach = Limits.parse(["cost<=25"]), np.random.default_rng(0), np.full(1, 50.0)
    margins, reserves = Margins.empty(1), []
    for scale in scales:
        margins = margins.add(-random.exponential(scale, (1, 80)), reach)
        reserves.append(float(margins.aims(limits, None)[0] + 25))
    own, far = 1.645 * 5 / 10, 1.645 * 50 / 10
    assert reserves[0] > 0.7 * scales[0] / 5 * own  # the first batch's own
    assert 0.5 * own < reserves[20] < 1.6 * own  # 80 episodes of a hundred are new in every batch
    assert reserves[-1] < 0.4 * far


@pytest.mark.parametrize(
    ("mean", "word"), [(20.0, "kept"), (25.1, "undecided"), (30.0, "exceeded")]
)
def test_verdicts_are_those_of_a_t_test(mean, word):
    totals = np.random.default_rng(3).normal(mean, 5.0, (30, 1))
    verdict = judge(Limits.parse(["cost<=25"]), totals)
    test = ttest_1samp(totals[:, 0], 25.0, alternative="greater")
    assert verdict.word == word and verdict.episodes == 30
    assert verdict.confidence["cost"] == pytest.approx(test.pvalue)
    assert verdict.mean["cost"] == pytest.approx(totals.mean())
    assert str(verdict).startswith(f"{word}: cost") and "cost<=25" in str(verdict)


def test_verdicts_on_several_limits_and_ranges():
    limits = Limits.parse(["cost<=25", "up>=3", "1<=heat<=2"])
    random = np.random.default_rng(0)
    totals = np.stack([random.normal(m, 0.1, 20) for m in (20, 5, 1.5)], -1)
    assert judge(limits, totals).word == "kept"
    assert judge(limits, totals + np.array([0, 0, 1])).word == "exceeded"
    assert judge(limits, totals - np.array([0, 5, 0])).word == "exceeded"
    assert judge(limits, totals + np.array([0, 0, 0.5])).word == "undecided"


def test_one_episode_decides_nothing_and_equal_ones_decide_all():
    limits = Limits.parse(["cost<=25"])
    assert judge(limits, np.array([[1.0]])).word == "undecided"
    assert judge(limits, np.full((2, 1), 25.0)).word == "kept"
    assert judge(limits, np.full((2, 1), 26.0)).word == "exceeded"


def test_a_training_says_which_limit_it_never_kept():
    limits = Limits.parse(["cost<=2", "up>=1"])
    margins = Margins.empty(2)
    for cost in (9.0, 6.0, 7.0):
        margins = margins.add(np.array([[-cost, -cost - 0.2], [3.0, 3.1]]), np.full(2, 9.0))
    assert margins.verdict(limits).word == "exceeded"
    (sentence,) = margins.out_of_reach(limits)
    assert sentence.startswith("cost<=2 was not kept") and "6." in sentence
    assert Margins.empty(2).verdict(limits) is None
    assert Margins.empty(0).verdict(Limits.parse([])) is None


def test_rows_in_the_users_orientation():
    limits = Limits.parse(["cost<=20", "2<=noise<=3"])
    np.testing.assert_array_equal(in_users_orientation(limits, [-4.0, 2.5, -2.5]), [4.0, 2.5])


LIMITS = Limits.parse(["cost<=10"])


class Player:
    """Batches of `size` episodes whose costs are +-1 around `means[update]`, returns likewise."""

    def __init__(self, means, size=100, sizes=None):
        self.means, self.size, self.sizes, self.played = means, size, sizes or {}, []

    def __call__(self, update, number):
        self.played.append((update, number))
        reward, cost = self.means[update]
        noise = np.resize([-1.0, 1.0], self.sizes.get(update, self.size))
        return np.stack((reward + noise, cost + noise), axis=-1)


def test_ten_policies_of_the_last_third_the_last_among_them():
    assert candidates(600) == [420, 440, 460, 480, 500, 520, 540, 560, 580]
    assert len(candidates(600)) == CANDIDATES - 1 and candidates(SHARE - 1) == []
    for updates in range(SHARE, 100):
        marks = candidates(updates)
        assert marks == sorted(set(marks)) and marks[0] / updates >= 2 / 3 and marks[-1] < updates


def test_a_last_policy_whose_means_keep_the_limits_is_kept():
    """It plays on to a hundred episodes; nobody else plays."""
    play = Player({600: (0.0, 10.0)}, size=2)
    choice = choose(600, iter(()), LIMITS, play)
    assert (choice.update, choice.exceeded, choice.batches) == (600, (), 50)
    assert choice.verdict.word == "undecided" and choice.verdict.episodes == 100
    assert play.played == [(600, number) for number in range(1, 51)]


def test_the_largest_return_within_the_limits_is_kept_and_judged_anew():
    """60 updates pay for six batches: the last policy's, four candidates', one for the verdict."""
    means = dict.fromkeys(candidates(60), (9.0, 20.0))
    means |= {42: (1.0, 5.0), 48: (3.0, 9.0), 52: (5.0, 11.0), 60: (9.0, 20.0)}
    play = Player(means)
    choice = choose(60, candidates(60), LIMITS, play)
    assert play.played == [*((update, 1) for update in (60, 42, 48, 52, 58)), (48, 2)]
    assert (choice.update, choice.exceeded, choice.batches) == (48, ("cost",), 6)
    assert choice.verdict.word == "kept" and choice.verdict.episodes == 100


@pytest.mark.parametrize("updates", [75, 100, 500, 5000])
@pytest.mark.parametrize("size", [1, 2, 10])
def test_a_batch_is_left_for_the_verdict_where_the_last_episodes_are_the_shortest(updates, size):
    """The last policy plays its hundred episodes in one batch, others take as many as they may."""
    means = dict.fromkeys([*candidates(updates), updates], (0.0, 20.0))
    play = Player(means, size, sizes={updates: 100})
    choice = choose(updates, candidates(updates), LIMITS, play)
    assert choice.verdict.episodes >= 1 and choice.exceeded == ("cost",)
    assert choice.batches == len(play.played) <= updates // SHARE


@pytest.mark.parametrize("factor", [1.0, 1e6, 1e-6])
@pytest.mark.parametrize("bound", [10.0, 0.0, -10.0])
def test_the_smallest_excess_has_no_unit(factor, bound):
    """Beyond both limits: deviations decide, also where a limit is 0, and whatever is counted."""
    limits = Limits.parse([f"heat<={bound * factor!r}", "noise>=1"])
    random = np.random.default_rng(0)

    def totals(heat, noise):
        costs = random.normal([heat, noise], [2.0, 0.1], (50, 2)) * [factor, 1.0]
        return np.column_stack((np.full(50, heat), costs))

    played = {1: totals(bound + 4, 0.9), 2: totals(bound + 1, 0.8), 3: totals(bound + 1, 0.95)}
    assert best(played, limits) == 3


@pytest.mark.parametrize("updates", [1, 9, 10, 20, 29, 30, 50, 75, 100, 1000, 5000])
@pytest.mark.parametrize("size", [1, 2, 30, 100, 1000])
@pytest.mark.parametrize("cost", [5.0, 10.0, 20.0])
def test_judging_takes_a_tenth_of_the_batches_at_most(updates, size, cost):
    play = Player(dict.fromkeys([*candidates(updates), updates], (0.0, cost)), size)
    choice = choose(updates, candidates(updates), LIMITS, play)
    assert len(play.played) == len(set(play.played)) <= updates // SHARE
    assert (choice is None) == (updates < SHARE) and (choice is None or choice.batches)
    if choice:
        assert choice.batches == len(play.played)
        assert choice.update == updates or cost > 10


def test_without_limits_there_is_no_choice():
    assert choose(1000, [], Limits.parse([]), Player({})) is None
