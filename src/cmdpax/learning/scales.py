"""How large are rewards, costs and values in this run? Running scales: with them nothing has units.

    size_r = mean |A_r|,   size_i = sqrt(mean A_i^2)          of the advantages of reward and cost i
    reach_i = gain T size_i                                   how far one update moves a cost
    price_i = max(size_r / size_i, multiplier_i)              reward per cost
    unit_i = price_i / max(reach_i, NOISE error_i)            reward per cost^2

T are the steps of an episode, gain is how far an update moves values (`formulas.gain`; at most
`sqrt(2 KL)`, far less where advantages are noise), error_i is the standard error of the estimated
cost. Penalties and dual steps are so many units: a violation that one update can mend, or that the
estimate can tell from none, weighs as much as the reward. A larger one counts no more, or a policy
that starts far beyond a limit would keep it before it has learned anything else. The price of a
rare cost may be many times the ratio of the sizes; from there on it is the multiplier, which then
moves in proportion to itself. If the reward or a cost is multiplied by any factor, `A_r + w.A_c`
changes by a factor alone.

Critics learn targets less a centre, over their running deviation: a network's output is 25 (reward)
or 5 (costs) for one deviation of its targets. The centre is the level of values
(`formulas.level_shift`).
"""

from typing import NamedTuple

import numpy as np

Array = np.ndarray
SLOW, FAST = 0.03, 0.2  # share of a batch in running means
NOISE = 2.0  # so many standard errors tell a violation from none
REWARD_OUTPUTS, COST_OUTPUTS = 25.0, 5.0  # of a network, for one deviation of its targets
FIRST_GAIN = 0.1  # before there was an update


class Scales(NamedTuple):
    """Running means over batches; row 0 is the reward's, the others are those of the limits."""

    batches: Array  # how many, scalar
    slow: Array  # [1 + M]: mean |A_r|, then mean A_i^2
    fast: Array  # [1 + M], over fewer batches
    centre: Array  # [1 + M], level of values
    square: Array  # [1 + M], their variance within a batch
    steps: Array  # of an episode, scalar
    gain: Array  # of an update, scalar

    @staticmethod
    def empty(rows: int) -> "Scales":
        """Before the first batch."""
        none, zero = np.zeros(1 + rows), np.zeros(())
        return Scales(zero, none, none, none, none, zero, np.full((), FIRST_GAIN))

    def add(self, advantages: Array, targets: Array, steps: float) -> "Scales":
        """With a batch's advantages `[1 + M, K]`, targets `[K, 1 + M]` and steps of an episode.

        Plain averages at first. The second batch replaces the first: without trained critics
        its advantages are returns.
        """
        sizes = np.square(advantages, dtype=np.float64).mean(1)
        sizes[0] = abs(advantages[0]).mean(dtype=np.float64)
        least = 1 / max(1.0, float(self.batches))
        slow, fast = (max(share, least) for share in (SLOW, FAST))
        square = targets.var(0, dtype=np.float64)
        return self._replace(
            batches=self.batches + 1,
            slow=self.slow + slow * (sizes - self.slow),
            fast=self.fast + fast * (sizes - self.fast),
            square=self.square + slow * (square - self.square),
            steps=self.steps + slow * (steps - self.steps),
        )

    def add_gain(self, gain: float) -> "Scales":
        """With what an update achieved."""
        share = max(SLOW, 1 / float(self.batches))
        return self._replace(gain=self.gain + share * (max(gain, 0.0) - self.gain))

    def plain(self) -> "Scales":
        """The same, but critics learn values as they are: centre 0, unit 1."""
        centre = np.zeros_like(self.centre)
        return self._replace(centre=centre, square=np.square(_outputs(len(centre))))

    @property
    def size(self) -> Array:
        """How large advantages are, `[1 + M]`.

        The reward's changes slowly: mean absolute values, which falls hardly move. A cost that
        appears counts at once, and one that vanishes is remembered, or its penalty would explode.
        """
        return np.concatenate((self.slow[:1], np.sqrt(np.maximum(self.slow, self.fast)[1:])))

    @property
    def output_unit(self) -> Array:
        """What one unit of a critic network's output stands for, `[1 + M]`.

        0 while targets do not vary: then the centre is the value, whatever the network says.
        """
        return np.sqrt(self.square) / _outputs(len(self.square))

    @property
    def reach(self) -> Array:
        """By how much an update can move an episode's cost, `[M]`."""
        return self.gain * self.steps * self.size[1:]

    @property
    def balance(self) -> Array:
        """The weight that makes a constraint's advantages as large as the reward's, `[M]`.

        A reward that does not vary counts as one that varies by 1. 0 while a cost does not vary.
        """
        reward, costs = self.size[0], self.size[1:]
        return ratio(reward if reward > 0 else 1.0, costs)

    def resolution(self, error: Array) -> Array:
        """What an update can mend, or the estimate of error `[M]` can tell from nothing, `[M]`."""
        return np.maximum(self.reach, NOISE * error)

    def price(self, multiplier: Array) -> Array:
        """What a cost seems to be worth, `[M]`: its balance, or a larger multiplier."""
        return np.maximum(self.balance, multiplier)

    def units(self, error: Array, multiplier: Array) -> Array:
        """Units of penalties and dual steps, `[M]`; `error [M]` is that of the estimated costs."""
        return ratio(self.price(multiplier), self.resolution(error))


def ratio(above: Array | float, below: Array) -> Array:
    """`above / below`, and 0 where there is nothing to divide by."""
    return np.where(below > 0, above / np.where(below > 0, below, 1.0), 0.0)


def _outputs(rows: int) -> Array:
    """Outputs of the critics for one deviation of their targets, `[1 + M]`."""
    return np.array([REWARD_OUTPUTS, *[COST_OUTPUTS] * (rows - 1)])
