"""Which policy is kept: rules by hand, on totals that are set."""

import numpy as np
import pytest

from cmdpax.learning.choice import CANDIDATES, SHARE, best, candidates, choose
from cmdpax.model.limits import Limits

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
