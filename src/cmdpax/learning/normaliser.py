"""Running mean and variance of observations, frozen while a batch is collected and learned from.

Statistics change only between batches, so that the policy that acted and the policy that is
improved see the same numbers.
"""

from typing import NamedTuple

import numpy as np


class Statistics(NamedTuple):
    """Count, mean `[d]` and sum of squared deviations `[d]`."""

    total: np.ndarray  # how many, scalar
    mean: np.ndarray
    squares: np.ndarray

    @property
    def scale(self) -> np.ndarray:
        """One over the standard deviation, `[d]`; one before anything was seen."""
        if self.total < 2:
            return np.ones_like(self.mean)
        return 1 / np.sqrt(self.squares / self.total + 1e-8)


def empty(size: int) -> Statistics:
    """Nothing seen yet: observations pass unchanged."""
    return Statistics(np.zeros(()), np.zeros(size), np.zeros(size))


def absorb(seen: Statistics, observations: np.ndarray) -> Statistics:
    """Statistics of everything seen and `observations [K, d]` together (Chan's parallel formula)."""
    count, mean = len(observations), observations.mean(0)
    squares = np.square(observations - mean).sum(0)
    together, apart = seen.total + count, mean - seen.mean
    return Statistics(
        np.asarray(together),
        seen.mean + apart * count / together,
        seen.squares + squares + np.square(apart) * seen.total * count / together,
    )
