"""Any Gymnasium environment with a cost as a batch of simulators; also Safety-Gymnasium's 6-tuple.

A cost is `info["cost"]`: a number (named `cost`), a mapping of names to numbers, or a vector, whose
names are the environment's attribute `cost_names` if it has one, else `cost0`, `cost1`, ... A step
of six values carries the cost as its third. A missing, infinite or NaN cost, or one of another
length than before, is an error: a limit on a cost that reads zero protects nobody.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.named import FAULTS, blame, factory
from cmdpax.learning.simulator import ActionSpace, Simulator, Transition
from cmdpax.learning.velocity import TASKS, VelocityBatch
from cmdpax.model.limits import can_be_limited


def make_simulator(name: str, count: int) -> Simulator:
    """`count` copies of the environment that a user names: a velocity task, a Gymnasium id, or
    `module:function`.
    """
    return VelocityBatch(name, count) if name in TASKS else GymBatch(factory(name), count, name)


class GymBatch:
    """`count` copies of one environment, stepped one after the other; a `Simulator`."""

    def __init__(self, make: Callable[[], Any], count: int = 1, name: str = "environment") -> None:
        self.name, self.count = name, count
        try:
            self.environments = [make() for _ in range(count)]
        except FAULTS as error:
            raise blame(name, "making it", error) from error
        if not hasattr(self.environments[0], "observation_space"):
            raise InputError(
                f"environment '{name}': {self.environments[0]!r} was made, which is no environment."
            )
        self.space = self.environments[0].observation_space
        self.observation_size = self._size()
        is_array = isinstance(self.space, gymnasium.spaces.Box)
        self.observation_shape: tuple[int, ...] = (
            self.space.shape if is_array else (self.observation_size,)
        )
        self.action_space = self._actions(self.environments[0].action_space)
        self.episode_limit: int | None = getattr(
            getattr(self.environments[0], "spec", None), "max_episode_steps", None
        )
        self.cost_names = self._probe()

    def reset(self, seed: int) -> np.ndarray:
        """Start all copies anew, `[N, d]`; each gets its own seed."""
        seeds = np.random.SeedSequence(seed).generate_state(self.count)
        return np.stack([self._reset(env, int(own)) for env, own in zip(self.environments, seeds)])

    def step(self, action: np.ndarray) -> Transition:
        """Advance all copies by `action [N, *shape]` or choices `[N]`; finished ones start anew."""
        rows = [self._step(env, chosen) for env, chosen in zip(self.environments, action)]
        successor, reward, cost, terminated, truncated = (np.array(column) for column in zip(*rows))
        observation = successor
        ended = np.flatnonzero(terminated | truncated)
        if len(ended):
            observation = successor.copy()
            for index in ended:
                observation[index] = self._reset(self.environments[index])
        return Transition(observation, successor, reward, cost, terminated, truncated & ~terminated)

    def _reset(self, env: Any, seed: int | None = None) -> np.ndarray:
        try:
            outcome = env.reset(seed=seed)
        except FAULTS as error:
            raise blame(self.name, "its reset", error) from error
        if not (isinstance(outcome, tuple) and len(outcome) == 2):
            raise self._wrong(
                "reset must return two values, an observation and a dict of further information"
            )
        return self._observation(outcome[0])

    def _step(
        self, env: Any, action: np.ndarray
    ) -> tuple[np.ndarray, float, np.ndarray, bool, bool]:
        try:
            outcome = env.step(int(action) if self.action_space.low is None else action)
        except FAULTS as error:
            raise blame(self.name, "its step", error) from error
        observation, reward, cost, terminated, truncated = self._five(outcome)
        return (
            self._observation(observation),
            self._reward(reward),
            self._cost(cost),
            bool(terminated),
            bool(truncated),
        )

    def _five(self, outcome: Any) -> tuple[Any, ...]:
        """Observation, reward, cost, terminated, truncated out of either form of a step."""
        values = len(outcome) if isinstance(outcome, tuple) else 1
        if values == 6:  # Safety-Gymnasium
            return outcome[:5]
        if values != 5:
            raise self._wrong(
                f"step returned {values} value{'s' * (values > 1)}; 5 (Gymnasium) or 6 are"
                " understood"
            )
        observation, reward, terminated, truncated, info = outcome
        if not isinstance(info, Mapping) or "cost" not in info:
            raise InputError(
                f"environment '{self.name}' reports no cost; its step must put one into"
                " info['cost']."
            )
        return observation, reward, info["cost"], terminated, truncated

    def _reward(self, reward: Any) -> float:
        try:
            return float(np.asarray(reward).item())  # NumPy itself would make a NaN of None
        except (TypeError, ValueError):
            raise self._wrong(f"reward {reward!r} is not a number") from None

    def _wrong(self, what: str) -> InputError:
        return InputError(f"environment '{self.name}': {what}.")

    def _cost(self, cost: Any) -> np.ndarray:
        names = self._names(cost)
        if names != self.cost_names:
            raise InputError(
                f"environment '{self.name}' changed its costs from {list(self.cost_names)} to"
                f" {list(names)}; keep them the same."
            )
        try:
            given = np.array(list(cost.values()) if isinstance(cost, Mapping) else cost).reshape(
                len(names)
            )
            values = np.array(
                [float(one) for one in given]
            )  # NumPy itself would make a NaN of None
        except (TypeError, ValueError):
            raise self._wrong(
                f"cost {cost!r} is not a number, a vector or a mapping to numbers"
            ) from None
        for name, value in zip(names, values):
            if not np.isfinite(value):
                raise self._wrong(f"cost '{name}' is {value}; costs must be finite")
        return values

    def _names(self, cost: Any) -> tuple[str, ...]:
        if isinstance(cost, Mapping):
            return tuple(str(name) for name in cost)
        if np.ndim(cost) == 0:
            return ("cost",)
        given = getattr(self.environments[0].unwrapped, "cost_names", None)
        names = (
            tuple(given)
            if given is not None
            else tuple(f"cost{index}" for index in range(np.size(cost)))
        )
        if len(names) != np.size(cost):
            raise InputError(
                f"environment '{self.name}' names {len(names)} costs but reports {np.size(cost)}."
            )
        return names

    def _size(self) -> int:
        try:
            size = int(gymnasium.spaces.flatdim(self.space))
        except (NotImplementedError, ValueError):
            raise self._wrong(
                f"observations are {self.space}, which cannot be flattened to a vector"
            ) from None
        if size < 1:
            raise self._wrong(
                f"observations are {self.space}, which holds nothing; a policy must see something"
            )
        return size

    def _observation(self, observation: Any) -> np.ndarray:
        try:
            flat = np.asarray(gymnasium.spaces.flatten(self.space, observation), dtype=np.float64)
        except Exception as error:  # whatever flattening something else raises
            raise self._wrong(
                f"an observation is not of {self.space} ({type(error).__name__}: {error})"
            ) from None
        if flat.shape != (self.observation_size,):
            raise self._wrong(
                f"an observation has {flat.size} numbers where {self.space} has"
                f" {self.observation_size}"
            )
        return flat

    def _actions(self, space: Any) -> ActionSpace:
        if isinstance(space, gymnasium.spaces.Discrete):
            return ActionSpace(choices=int(space.n), start=int(space.start))
        if not isinstance(space, gymnasium.spaces.Box):
            raise self._wrong(f"actions are {space}; Box and Discrete are understood")
        low, high = (
            space.low.reshape(-1).astype(np.float64),
            space.high.reshape(-1).astype(np.float64),
        )
        if not len(low):
            raise self._wrong(
                f"actions are {space}, which holds nothing; a policy must do something"
            )
        return ActionSpace(low, high, shape=space.shape, dtype=space.dtype.name)

    def _probe(self) -> tuple[str, ...]:
        """One random step, to learn the names of the costs before anything is built on them."""
        env = self.environments[0]
        self._reset(env, 0)
        env.action_space.seed(0)
        try:
            outcome = env.step(env.action_space.sample())
        except FAULTS as error:
            raise blame(self.name, "its step", error) from error
        names = self._names(self._five(outcome)[2])
        if not names:
            raise self._wrong("its cost is empty; put at least one number into info['cost']")
        for name in names:
            if not can_be_limited(name):
                raise self._wrong(
                    f"no limit can name its cost '{name}'; a name holds no <, > or =, nor spaces at"
                    " its ends"
                )
        return names


@dataclass(frozen=True)
class EnvironmentReport:
    """What `check_environment` saw."""

    name: str
    observation_size: int
    actions: str
    cost_names: tuple[str, ...]
    steps: int
    episodes: int
    longest: int  # steps of an episode, seen or allowed
    mean_return: float
    mean_costs: tuple[float, ...]
    complaints: tuple[str, ...]


def check_environment(name: str, steps: int = 2000, seed: int = 0) -> EnvironmentReport:
    """Run random actions, and tell what is wrong for training. What cannot work at all is an
    `InputError`.
    """
    if steps < 1 or seed < 0:
        raise InputError(
            f"steps is {steps} and seed is {seed}; there must be at least one step, and a seed is"
            " not negative."
        )
    simulator, random = make_simulator(name, 1), np.random.default_rng(seed)
    space = simulator.action_space
    first, complaints = simulator.reset(seed), []
    if (simulator.reset(seed) != first).any():
        complaints.append(
            "the same seed gives another first observation, so runs are not reproducible"
        )
    totals, lengths, finished = np.zeros(1 + len(simulator.cost_names)), 0, []
    seen = np.zeros(1 + len(simulator.cost_names), dtype=bool)
    for _ in range(steps):
        chosen = (
            random.integers(space.choices, size=1)
            if space.low is None
            else random.uniform(-1, 1, (1, space.size))
        )
        step = simulator.step(space.to_environment(chosen))
        if not (np.isfinite(step.next_observation).all() and np.isfinite(step.reward).all()):
            raise InputError(f"environment '{name}': an observation or a reward is not finite.")
        now = np.concatenate((step.reward, step.cost[0]))
        totals, lengths, seen = totals + now, lengths + 1, seen | (now != 0)
        if step.terminated[0] or step.truncated[0]:
            finished.append((lengths, totals))
            totals, lengths = np.zeros_like(totals), 0
    if not finished:
        complaints.append(
            f"no episode ended within {steps} steps; limits are on episode totals, so give it a"
            " time limit"
        )
        finished.append((lengths, totals))
    complaints += [
        f"cost '{cost}' was zero on every step"
        for cost, used in zip(simulator.cost_names, seen[1:])
        if not used
    ]
    means = np.mean([total for _, total in finished], axis=0)
    kind = f"{space.choices} choices" if space.low is None else f"{space.size} continuous"
    return EnvironmentReport(
        name,
        simulator.observation_size,
        kind,
        simulator.cost_names,
        steps,
        len(finished),
        max(simulator.episode_limit or 0, *(length for length, _ in finished)),
        float(means[0]),
        tuple(float(mean) for mean in means[1:]),
        tuple(complaints),
    )
