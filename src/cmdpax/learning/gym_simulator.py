"""How does somebody's Gymnasium environment become a `Simulator`?

A cost is `info["cost"]`: a number (named `cost`), a mapping of names to numbers, or a vector, whose
names are the environment's attribute `cost_names` if it has one, else `cost0`, `cost1`, ... A step
of six values (Safety-Gymnasium) carries the cost as its third. A missing, infinite or NaN cost, or
one of another length than before, is an error: a limit on a cost that reads zero protects nobody.

Whatever somebody's code raises when it is reset or stepped becomes one sentence that says where.
"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.environment_names import (
    USER_ERRORS,
    as_input_error,
    environment_factory,
    name_of,
)
from cmdpax.learning.gym_spaces import action_space_of, flattened, random_actions, size_of
from cmdpax.learning.robots import TASKS
from cmdpax.learning.simulator import ModelSimulator, Simulator, Transition
from cmdpax.learning.velocity import VelocitySimulator
from cmdpax.model.cmdp import CMDP
from cmdpax.model.limits import can_be_limited

LARGEST_SEEN = 1e100  # of observations, whose squares are added up
LARGEST = 1e15  # of rewards and costs: squares and sums are taken in single precision


def make_simulator(environment: Any, count: int) -> Simulator:
    """`count` copies of an environment.

    environment: a name (velocity task, Gymnasium id, `module:id`, `module:function`), a function
    that makes a Gymnasium environment, such an environment itself (one copy), or a `CMDP`.
    """
    if isinstance(environment, CMDP):
        return ModelSimulator(environment, count)
    if isinstance(environment, str) and environment in TASKS:
        return VelocitySimulator(environment, count)
    return GymSimulator(environment, count)


class GymSimulator:
    """`count` copies of one environment, stepped one after the other; a `Simulator`.

    environment: as for `make_simulator`, but no `CMDP`. `name` is what error messages call it.
    """

    def __init__(self, environment: Any, count: int = 1, name: str | None = None) -> None:
        self.name, self.count = name or name_of(environment), count
        make = environment_factory(environment)
        try:
            self.environments = [make() for _ in range(count)]
        except USER_ERRORS as error:
            raise as_input_error(self.name, "making it", error) from error
        first = self.environments[0]
        if not (hasattr(first, "observation_space") and hasattr(first, "action_space")):
            raise self.wrong(f"{first!r} was made, which is no environment")
        if hasattr(first, "single_observation_space"):
            raise self.wrong(
                "it is a vector of environments; give one copy, of which as many are made as are"
                " needed"
            )
        if len({*map(id, self.environments)}) < count:
            raise self.wrong(
                f"{count} copies are needed, but an environment object is one; give a function that"
                " makes a new one"
            )
        self.space = first.observation_space
        try:
            self.size = self.observation_size = size_of(self.space)
            self.action_space = action_space_of(first.action_space)
        except ValueError as error:
            raise self.wrong(str(error)) from None
        is_array = isinstance(self.space, gymnasium.spaces.Box)
        self.observation_shape: tuple[int, ...] = self.space.shape if is_array else (self.size,)
        self.masks: dict[int, np.ndarray] = {}  # by `id` of a copy: what it may do now
        self.episode_limit = _time_limit(first)
        self.cost_names = self._probe()

    def reset(self, seed: int, first: int = 0) -> np.ndarray:
        """Start all copies anew, `[N, d]`; each gets its own seed."""
        seeds = np.random.SeedSequence(seed).generate_state(first + self.count)[first:].tolist()
        return np.stack([self._reset(env, own) for env, own in zip(self.environments, seeds)])

    def step(self, action: np.ndarray) -> Transition:
        """Advance all copies by `action [N, *shape]` or choices `[N]`; finished ones start anew."""
        rows = [self.step_one(env, chosen) for env, chosen in zip(self.environments, action)]
        successors, *columns = zip(*rows)
        successor = np.array([self.flat(*one) for one in zip(successors, self.environments)])
        reward, cost, terminated, truncated = (np.array(column) for column in columns)
        observation, ended = successor, np.flatnonzero(terminated | truncated)
        if len(ended):
            observation = successor.copy()
            for index in ended:
                observation[index] = self._reset(self.environments[index])
        return Transition(observation, successor, reward, cost, terminated, truncated & ~terminated)

    def reset_one(self, env: Any, seed: int | None = None) -> Any:
        """The first observation of an episode of one copy, as the environment gives it."""
        observation, info = self._begin(env, seed)
        self._keep_mask(env, info)
        return observation

    def _begin(self, env: Any, seed: int | None) -> tuple[Any, Any]:
        try:
            outcome = env.reset(seed=seed)
        except USER_ERRORS as error:
            raise as_input_error(self.name, "its reset", error) from error
        if not (isinstance(outcome, tuple) and len(outcome) == 2):
            raise self.wrong(
                "reset must return two values, an observation and a dict of further information"
            )
        return outcome

    def step_one(self, env: Any, action: Any) -> tuple[Any, float, np.ndarray, bool, bool]:
        """Observation as the environment gives it, reward, costs `[m]`, terminated, truncated."""
        chosen = int(action) if np.ndim(action) == 0 else action
        observation, reward, cost, *ends, info = self._outcome(env, chosen)
        terminated, truncated = map(self._end, ("terminated", "truncated"), ends)
        self._keep_mask(env, info, ended=terminated or truncated)
        return observation, self._reward(reward), self._cost(cost), terminated, truncated

    def flat(self, observation: Any, env: Any) -> np.ndarray:
        """An observation of a copy, as the environment gives it, as a vector `[d]` of finite
        numbers; where actions are masked, the mask follows.
        """
        try:
            flat = flattened(self.space, observation)
        except Exception as error:  # whatever flattening something else raises
            why = f"{type(error).__name__}: {error}"
            raise self.wrong(f"an observation is not of {self.space} ({why})") from None
        if flat.shape != (self.size,):
            raise self.wrong(
                f"an observation has {flat.size} numbers where {self.space} has {self.size}"
            )
        if self.action_space.masked:
            flat = np.concatenate((flat, self.masks[id(env)]))
        return self.finite(flat)

    def finite(self, observation: np.ndarray) -> np.ndarray:
        """The same; a NaN or what is too large is an error here, before a policy acts on it."""
        if observation.dtype.kind == "f":
            fits = np.abs(observation, dtype=np.float64) < LARGEST_SEEN
            if fits.all():
                return observation
            wrong = observation[~fits][0]
            must = f"observations must be finite, and below {LARGEST_SEEN:g}"
            raise self.wrong(f"an observation holds {wrong}; {must}")
        return observation

    def holds(self, observations: np.ndarray) -> bool:
        """Whether flat observations `[N, d]` lie between the bounds of the space."""
        box: Any = gymnasium.spaces.flatten_space(self.space)
        seen = observations[:, : self.size].astype(box.dtype)
        return bool(((seen >= box.low) & (seen <= box.high)).all())

    def wrong(self, what: str) -> InputError:
        """An error that names this environment."""
        return InputError(f"environment '{self.name}': {what}.")

    def _outcome(self, env: Any, action: Any) -> tuple[Any, ...]:
        """Observation, reward, cost, terminated, truncated, info out of either form of a step."""
        try:
            outcome = env.step(action)
        except USER_ERRORS as error:
            raise as_input_error(self.name, "its step", error) from error
        values = len(outcome) if isinstance(outcome, tuple) else 1
        if values == 6:  # Safety-Gymnasium
            return outcome
        if values != 5:
            number = "1 value" if values == 1 else f"{values} values"
            raise self.wrong(f"step returned {number}; 5 (Gymnasium) or 6 are understood")
        observation, reward, terminated, truncated, info = outcome
        if not isinstance(info, Mapping) or "cost" not in info:
            raise InputError(
                f"environment '{self.name}' reports no cost; its step must put one into"
                " info['cost']."
            )
        return observation, reward, info["cost"], terminated, truncated, info

    def _keep_mask(self, env: Any, info: Any, ended: bool = False) -> None:
        """Keep the mask of a copy, `[choices]` of 0 and 1, by `info["action_mask"]`.

        Where an episode has ended none is needed: without one, all choices are allowed.
        """
        space = self.action_space
        if not space.masked:
            if isinstance(info, Mapping) and "action_mask" in info:
                raise self.wrong(
                    "info['action_mask'] is in a step's info, but not in a reset's; give it in both"
                )
            return
        try:
            masks = info["action_mask"]  # of all parts of an action
            parts = masks if isinstance(masks, tuple) else (masks,)
            mask = np.concatenate([np.asarray(one, dtype=np.float64).reshape(-1) for one in parts])
        except (TypeError, ValueError, LookupError):
            mask = np.empty(0)
        is_whole = mask.shape == (space.choices,) and bool(np.isin(mask, (0, 1)).all())
        allows = is_whole and all(part.any() for part in space.split(mask))
        self.masks[id(env)] = mask if allows else np.ones(space.choices)
        if ended:
            return
        if not is_whole:
            raise self.wrong(
                "info['action_mask'] must hold 1 or 0 for each of the"
                f" {space.choices} choices at every reset and step"
            )
        if not allows:
            raise self.wrong("info['action_mask'] allows nothing; at least one choice must be 1")

    def _reset(self, env: Any, seed: int | None = None) -> np.ndarray:
        return self.flat(self.reset_one(env, seed), env)

    def _reward(self, reward: Any) -> float:
        try:
            number = float(np.asarray(reward).item())  # NumPy itself would make a NaN of None
        except USER_ERRORS:
            what = f"reward {reward!r} is not a number"
            raise self.wrong(f"{what}; it must be the second value of a step") from None
        return self._bounded("its reward", number)

    def _bounded(self, what: str, number: float) -> float:
        """The same number; a NaN or one that cannot be squared in single precision is an error."""
        if not abs(number) < LARGEST:
            must = f"rewards and costs must be finite, and below {LARGEST:g}"
            raise self.wrong(f"{what} is {number:g}; {must}")
        return number

    def _end(self, name: str, end: Any) -> bool:
        try:
            return bool(end)
        except USER_ERRORS:  # an array of several, or whatever somebody's object raises
            raise self.wrong(f"{name} is {end!r}; it must be True or False") from None

    def _cost(self, cost: Any) -> np.ndarray:
        names = self._names(cost)
        if isinstance(cost, Mapping) and {*names} == {*self.cost_names}:  # in any order
            named = dict(zip(names, cost.values()))
            names, cost = self.cost_names, {name: named[name] for name in self.cost_names}
        if names != self.cost_names:
            raise InputError(
                f"environment '{self.name}' changed its costs from {list(self.cost_names)} to"
                f" {list(names)}; keep them the same."
            )
        numbers = list(cost.values()) if isinstance(cost, Mapping) else cost
        try:  # NumPy itself would make a NaN of None
            values = [float(one) for one in np.array(numbers).reshape(len(names))]
        except USER_ERRORS:
            raise self._no_cost(cost) from None
        pairs = zip(names, values)
        return np.array([self._bounded(f"cost '{name}'", value) for name, value in pairs])

    def _no_cost(self, cost: Any) -> InputError:
        return self.wrong(f"cost {cost!r} is not a number, a vector or a mapping to numbers")

    def _names(self, cost: Any) -> tuple[str, ...]:
        if isinstance(cost, Mapping):
            return tuple(str(name) for name in cost)
        try:
            shape = np.shape(cost)
        except USER_ERRORS:  # rows of several lengths
            raise self._no_cost(cost) from None
        if shape == ():
            return ("cost",)
        size, first = math.prod(shape), self.environments[0]
        own = getattr(getattr(first, "unwrapped", first), "cost_names", None)
        names = tuple(f"cost{index}" for index in range(size)) if own is None else tuple(own)
        if len(names) != size or isinstance(own, str):
            raise self.wrong(
                f"its cost_names are {own!r}, but a step reports {size} costs; give a list with a"
                " name for each"
            )
        return names

    def _probe(self) -> tuple[str, ...]:
        """One random step, to learn the names of the costs before anything is built on them."""
        env = self.environments[0]
        observation, info = self._begin(env, 0)
        if isinstance(info, Mapping) and "action_mask" in info:
            self._expect_masks()
        self._keep_mask(env, info)
        self.flat(observation, env)
        space = self.action_space
        if space.masked:
            mask = self.masks[id(env)][None]
            action = random_actions(space, np.random.default_rng(0), mask)[0]
        else:
            env.action_space.seed(0)
            action = env.action_space.sample()
        names = self._names(self._outcome(env, int(action) if np.ndim(action) == 0 else action)[2])
        if not names:
            raise self.wrong("its cost is empty; put at least one number into info['cost']")
        if len(set(names)) < len(names):
            raise self.wrong(f"costs {', '.join(names)} have a name twice; a limit names one")
        for name in names:
            if name == "return" or not can_be_limited(name):
                raise self.wrong(
                    f"no limit can name its cost '{name}'; a name holds no <, > or =, nor spaces at"
                    " its ends, and 'return' is the total reward"
                )
        return names

    def _expect_masks(self) -> None:
        """Let observations end with what may be done."""
        if self.action_space.low is not None:
            raise self.wrong(
                "info['action_mask'] is for choices, but its actions are continuous; leave it out"
            )
        self.action_space = replace(self.action_space, masked=True)
        self.observation_size = self.size + self.action_space.choices
        self.observation_shape = (self.observation_size,)


def _time_limit(env: Any) -> int | None:
    """Steps after which an episode is cut, where the environment or a wrapper of it says so."""
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    while limit is None and isinstance(env, gymnasium.Wrapper):
        limit, env = getattr(env, "_max_episode_steps", None), env.env
    return limit
