"""How does a Gymnasium environment give whole episodes, for sampled methods?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.gym_simulator import GymSimulator
from cmdpax.learning.simulator import Experience, Policy, draw
from cmdpax.model.limits import Limits


class GymSampler:
    """Episodes of one Gymnasium environment with discrete actions; a `Sampler`.

    environment: as for `GymSimulator`; limits: on discounted costs, as in `["cost<=25"]`; discount:
    gamma in [0, 1). Observations are as the environment gives them.
    """

    minimise = False

    def __init__(self, environment: Any, limits: Sequence[str], discount: float) -> None:
        if not 0 <= discount < 1:
            raise InputError(f"discount is {discount}; it must lie in [0, 1).")
        self.simulator, self.limits = GymSimulator(environment), Limits.parse(limits)
        space = self.simulator.action_space
        if space.low is not None or isinstance(space.start, tuple):
            raise self.simulator.wrong(
                "its actions are not discrete; log-linear policies need a finite set of actions"
            )
        self.actions, self.discount, self._first_action = space.choices, discount, space.start
        self.thresholds = self.limits.row_thresholds
        self._columns = self.limits.columns(self.simulator.cost_names)
        states = getattr(self.simulator.space, "n", None)
        self.states: int | None = None if states is None else int(states)
        self._is_seeded = False

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """The steps of that many episodes; they end also where the environment ends them."""
        env, rows = self.simulator.environments[0], []
        for _ in range(episodes):
            # the environment keeps its own generator after the first seed
            seed = None if self._is_seeded else int(rng.integers(2**31))
            self._is_seeded, first, ended = True, True, False
            observation = self.simulator.finite(np.array(self.simulator.reset_one(env, seed)))
            while not ended:
                action = int(draw(policy(observation[None]), rng)[0])
                outcome = self.simulator.step_one(env, action + self._first_action)
                successor, reward, cost, terminated, truncated = outcome
                successor = self.simulator.finite(np.array(successor))
                rewards = (reward, *self.limits.turn(cost[self._columns]))
                rows.append((observation, action, rewards, successor, not terminated, first))
                ended = terminated or truncated or rng.random() >= self.discount
                observation, first = successor, False
        return Experience(*(np.array(column) for column in zip(*rows, strict=True)))
