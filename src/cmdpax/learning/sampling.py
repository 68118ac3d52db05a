"""Simulators for sampled methods: a finite model, or any Gymnasium environment with discrete
actions and `info["cost"]`.

Episodes go on with probability gamma after every step. A visit then counts as much as any other:
the states of all episodes together are distributed like the discounted occupancy `d = (1 - gamma)
nu`, and the plain sum of rewards from a visit to the end of its episode is an unbiased estimate of
the discounted value. No horizon to choose, no truncation bias, no weights.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP

Policy = Callable[[np.ndarray], np.ndarray]  # observations [n, ...] -> probabilities [n, A]


@dataclass(frozen=True)
class Experience:
    """N steps, episode after episode, in their order."""

    observations: np.ndarray  # [N, ...]
    actions: np.ndarray  # [N] int
    rewards: np.ndarray  # [N, 1 + m]: reward, then every constraint reward
    following: np.ndarray  # [N, ...]: the next observation
    continues: np.ndarray  # [N] bool: False where the next state is terminal, worth 0
    first: np.ndarray  # [N] bool: first step of an episode


class Simulator(Protocol):
    """What a sampled method needs to know of a problem, and how it gets data."""

    actions: int
    states: int | None  # number of states where observations are their indices
    thresholds: np.ndarray  # [m]; feasible means V_c >= b
    discount: float

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """Experience of that many episodes."""
        ...


class ModelSimulator:
    """Episodes of a finite model, all at once. Observations are state indices."""

    def __init__(self, model: CMDP) -> None:
        self.model, self.states, self.actions = model, model.states, model.actions
        self.thresholds, self.discount = model.thresholds, model.discount
        self._rewards = np.concatenate([model.reward[None], model.constraints]).transpose(
            1, 2, 0
        )  # [S, A, 1 + m]

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """Experience of that many episodes."""
        table = policy(np.arange(self.states))
        states = rng.choice(self.states, size=episodes, p=self.model.initial)
        running, parts = np.arange(episodes), []
        while running.size:
            actions = _draw(table[states], rng)
            places = _draw(self.model.probabilities[states, actions], rng)
            following = self.model.successors[states, actions, places]
            parts.append((running, states, actions, following))
            goes_on = rng.random(running.size) < self.discount
            running, states = running[goes_on], following[goes_on]
        episode, states, actions, following = (
            np.concatenate(column) for column in zip(*parts, strict=True)
        )
        order = np.argsort(episode, kind="stable")
        episode, states, actions, following = (
            episode[order],
            states[order],
            actions[order],
            following[order],
        )
        first = np.append(True, episode[1:] != episode[:-1])
        rewards = self._rewards[states, actions]
        return Experience(
            states, actions, rewards, following, np.ones(len(states), dtype=bool), first
        )


class GymSimulator:
    """Episodes of a Gymnasium environment. Costs come from `info["cost"]`, a number or one for each
    of the `limits`.

    A discounted cost must stay below its limit; inside cmdpax its negative is a constraint reward
    that stays above the negative limit.
    """

    def __init__(self, environment: Any, limits: Sequence[float] | float, discount: float) -> None:
        self.environment, self.discount = environment, discount
        self.thresholds = -np.atleast_1d(np.asarray(limits, dtype=np.float64))
        space = environment.action_space
        if not hasattr(space, "n"):
            raise InputError(
                f"environment: the action space {space} is not discrete; log-linear policies need a"
                " finite set of actions."
            )
        if not 0 <= discount < 1:
            raise InputError(f"discount is {discount}; it must lie in [0, 1).")
        self.actions, self._first_action = int(space.n), int(getattr(space, "start", 0))
        observed = getattr(environment.observation_space, "n", None)
        self.states = None if observed is None else int(observed)
        self._fresh = True

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """Experience of that many episodes; an episode also ends where the environment ends or
        cuts it.
        """
        rows: list[tuple[Any, ...]] = []
        for _ in range(episodes):
            observation, first, ended = self._reset(rng), True, False
            while not ended:
                action = int(_draw(policy(np.asarray(observation)[None]), rng)[0])
                following, reward, terminated, truncated, info = self.environment.step(
                    action + self._first_action
                )
                rewards = (self._number("reward", reward), *-self._costs(info))
                rows.append((observation, action, rewards, following, not terminated, first))
                ended = terminated or truncated or rng.random() >= self.discount
                observation, first = following, False
        columns = [np.array(column) for column in zip(*rows, strict=True)]
        return Experience(*columns)

    def _reset(self, rng: np.random.Generator) -> Any:
        seed = (
            int(rng.integers(2**31)) if self._fresh else None
        )  # the environment keeps its own generator after the first
        self._fresh = False
        return self.environment.reset(seed=seed)[0]

    def _costs(self, info: dict[str, Any]) -> np.ndarray:
        if "cost" not in info:
            raise InputError(
                "environment: a step gave no info['cost']; wrap the environment so that every step"
                " reports its cost."
            )
        costs = np.atleast_1d(np.asarray(info["cost"], dtype=np.float64))
        if costs.shape != self.thresholds.shape:
            raise InputError(
                f"environment: info['cost'] has shape {costs.shape}, but there are"
                f" {len(self.thresholds)} limits; match them."
            )
        if not np.isfinite(costs).all():
            raise InputError(
                f"environment: info['cost'] is {info['cost']}; every cost must be a finite number."
            )
        return costs

    @staticmethod
    def _number(name: str, value: Any) -> float:
        if not np.isfinite(value):
            raise InputError(f"environment: the {name} is {value}; it must be a finite number.")
        return float(value)


def _draw(probabilities: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """One index for each row of `[n, k]`."""
    cumulative = np.cumsum(probabilities, axis=1)
    return (rng.random((len(cumulative), 1)) * cumulative[:, -1:] >= cumulative).sum(1)
