"""How large are rewards, costs and values in this run? Running scales, so that nothing has units.

An update moves an episode's cost i by about `reach_i = gain T size_i`: T the steps of an episode,
`size_i = sqrt(mean A_ci^2)`, and gain the mean of ratio times standardised advantage that an update
achieves (it is at most `sqrt(2 KL)`, and far less where advantages are noise). A violation of that
size is to weigh as much as the reward, so penalties and dual steps are so many of

    unit_i = size_r / (size_i reach_i)                           reward per cost^2

Multiply the reward or a cost by any factor: weights change by just what leaves `A_r + w.A_c` the
same but for its scale.

Critics learn in units of their own as well: targets minus a running centre, over `size / OUTPUTS`.
"""

import json
import os
from typing import NamedTuple

import numpy as np

Array = np.ndarray
X = {"slow": 0.03, "fast": 0.2, "reward_outputs": 25.0, "cost_outputs": 5.0, "centre": 0.1}
X |= json.loads(os.environ.get("CMDPAX_X", "{}"))
SLOW, FAST = X["slow"], X["fast"]  # share of a batch in a running mean


class Scales(NamedTuple):
    """Running means over batches; row 0 is the reward's, the others are those of the limits."""

    batches: Array  # how many, scalar
    slow: Array  # [1 + M]: mean |A_r|, then mean A_c^2
    fast: Array  # the same over fewer batches
    centre: Array  # [1 + M], mean of the critics' targets
    square: Array  # [1 + M], their squared deviation from their batch's mean
    length: Array  # steps of an episode, scalar
    gain: Array  # scalar
    variance: Array  # [M] of episode totals
    error: Array  # [M], squared standard error of the filtered margins

    @staticmethod
    def empty(rows: int) -> "Scales":
        """Before the first batch."""
        none = np.zeros(1 + rows)
        return Scales(np.zeros(()), none, none, none, none, np.zeros(()), np.full((), 0.1), none[1:], none[1:])

    def add(self, advantages: Array, targets: Array, length: float) -> "Scales":
        """With those of a batch, `[1 + M, K]` and `[K, 1 + M]`, and its mean steps of an episode.

        The first batch gives way to the second: without critics its advantages are returns.
        """
        size = np.square(np.asarray(advantages, np.float64)).mean(1)
        size[0] = abs(np.asarray(advantages[0], np.float64)).mean()
        mean = np.asarray(targets, np.float64).mean(0)
        least = 1 / max(1.0, float(self.batches))
        slow, fast, centre = (max(share, least) for share in (SLOW, FAST, X["centre"]))
        return self._replace(
            batches=self.batches + 1,
            slow=self.slow + slow * (size - self.slow),
            fast=self.fast + fast * (size - self.fast),
            square=self.square + slow * (np.asarray(targets, np.float64).var(0) - self.square),
            centre=self.centre + centre * (mean - self.centre),
            length=self.length + slow * (length - self.length),
        )

    def add_gain(self, gain: float) -> "Scales":
        """With what an update achieved."""
        share = max(SLOW, 1 / float(self.batches))
        return self._replace(gain=self.gain + share * (max(gain, X.get("least_gain", 1e-3)) - self.gain))

    def add_totals(self, totals: Array, mean: Array) -> "Scales":
        """With the totals `[M, E]` of episodes around their `mean [M]`."""
        share = max(min(1.0, totals.shape[1] / 100), 1 / max(1.0, float(self.batches)))
        square = np.square(totals - mean[:, None]).mean(1)
        return self._replace(variance=self.variance + share * (square - self.variance))

    @property
    def reach(self) -> Array:
        """By how much an update can move an episode's cost, `[M]`."""
        return self.gain * self.length * self.size[1:]

    @property
    def size(self) -> Array:
        """How large advantages are, `[1 + M]`.

        The reward's changes slowly. A cost that appears counts at once, and one that vanishes
        is remembered: else its penalty would explode.
        """
        costs = np.sqrt(np.maximum(self.slow, self.fast)[1:])
        return np.concatenate((self.slow[:1], costs))

    @property
    def output_unit(self) -> Array:
        """What one unit of a critic network's output stands for, `[1 + M]`."""
        outputs = np.full(len(self.centre), X["cost_outputs"])
        outputs[0] = X["reward_outputs"]
        return np.where(self.square > 0, np.sqrt(self.square) / outputs, 1.0)

    @property
    def units(self) -> Array:
        """Unit of penalties and dual steps, `[M]`; 0 while a cost does not vary at all."""
        reward = self.size[0] if self.size[0] > 0 else self.size[1:]
        product = self.size[1:] * np.maximum(self.reach, X.get("noise", 4.0) * np.sqrt(self.error))
        return np.where(product > 0, reward / np.where(product > 0, product, 1.0), 0.0)

    @property
    def balance(self) -> Array:
        """The weight at which a constraint's advantages are as large as the reward's, `[M]`."""
        cost = self.size[1:]
        return np.where(cost > 0, self.size[0] / np.where(cost > 0, cost, 1.0), np.inf)
