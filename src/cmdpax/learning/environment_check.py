"""Is an environment fit for training, and which limits might be set on its costs?

It is tried as in training: reset by a seed and stepped from episode to episode, by a `Simulator`,
which refuses what cannot work. What works, but makes training worse, is a complaint.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.errors import check_count
from cmdpax.learning.encoders import is_image
from cmdpax.learning.environment_names import name_of
from cmdpax.learning.gym_simulator import GymSimulator, make_simulator
from cmdpax.learning.gym_spaces import random_actions
from cmdpax.learning.simulator import ActionSpace, Simulator, Transition

REPEATED = 100  # steps that are made twice, to see whether they are the same
DIGITS = 2  # of a suggested limit


@dataclass(frozen=True)
class EnvironmentReport:
    """What `check_environment` saw; costs and their limits are of whole episodes."""

    name: str
    observation_size: int
    actions: str
    cost_names: tuple[str, ...]
    steps: int
    episodes: int
    longest: int  # steps of an episode, seen or allowed
    mean_return: float
    mean_costs: tuple[float, ...]
    cost_ranges: tuple[tuple[float, float], ...]  # of nine episodes in ten
    suggested_limits: tuple[str, ...]
    complaints: tuple[str, ...]


def check_environment(environment: Any, steps: int = 2000, seed: int = 0) -> EnvironmentReport:
    """Run random actions, and say what is wrong for training; what cannot work is an `InputError`.

    environment: as for `make_simulator`.
    """
    check_count("steps", steps)
    check_count("seed", seed, least=0)
    simulator = make_simulator(environment, 1)
    name, space, costs = name_of(environment), simulator.action_space, simulator.cost_names
    complaints = _repeatability(simulator, min(steps, REPEATED), seed)
    shape = getattr(getattr(simulator, "space", None), "shape", None) or ()
    if is_image(shape, least_axes=2) and not is_image(simulator.observation_shape):
        remedy = "if they are images, --network convolutional"
        remedy = "shrink them, or show what matters" if space.masked else remedy
        complaints.append(
            f"of observations {list(shape)} a network of plain layers sees"
            f" {simulator.observation_size} numbers in a row; {remedy}"
        )
    rows, ends, is_inside = [], [], True
    for step in walk(simulator, steps, seed):
        is_inside &= not isinstance(simulator, GymSimulator) or simulator.holds(step.observation)
        rows.append(np.concatenate((step.reward, step.cost[0])))
        ends.append(bool(step.terminated[0] or step.truncated[0]))
    paid, last = np.array(rows), np.flatnonzero(ends) + 1
    if not len(last):
        complaints.append(
            f"no episode ended within {steps} steps; limits are on episode totals, so give it a"
            " time limit"
        )
        last = np.array([steps])
    if not is_inside:
        complaints.append(
            "an observation lies beyond the bounds of observation_space; training takes it as it is"
        )
    totals = np.array([part.sum(0) for part in np.split(paid, last)[: len(last)]])
    complaints += [
        f"cost '{cost}' was zero on every step"
        for cost, used in zip(costs, paid[:, 1:].T.tolist())
        if not any(used)
    ]
    longest = max(simulator.episode_limit or 0, int(np.diff(last, prepend=0).max()))
    mean_return, *mean_costs = totals.mean(0).tolist()
    low, high = np.percentile(totals[:, 1:], (5, 95), axis=0).tolist()
    limits = [suggested(one, mean * longest) for one, mean in zip(costs, paid[:, 1:].mean(0))]
    return EnvironmentReport(
        name,
        simulator.observation_size,
        described(space),
        costs,
        steps,
        len(last),
        longest,
        mean_return,
        tuple(mean_costs),
        tuple(zip(low, high)),
        tuple(limits),
        tuple(complaints),
    )


def walk(simulator: Simulator, steps: int, seed: int) -> Iterator[Transition]:
    """Random steps of one copy, all fixed by the seed."""
    random, space = np.random.default_rng(seed), simulator.action_space
    observation = simulator.reset(seed)
    for _ in range(steps):
        mask = observation[:, -space.choices :] if space.masked else np.ones((1, space.choices))
        step = simulator.step(random_actions(space, random, mask))
        observation = step.observation
        yield step


def suggested(cost: str, total: float) -> str:
    """A limit that half of what random actions cost in a whole episode would keep; 1 if nothing."""
    limit = total - abs(total) / 2 if total else 1.0
    return f"{cost}<={float(f'{limit:.{DIGITS}g}'):g}"


def described(space: ActionSpace) -> str:
    """Actions in words."""
    words = f"{space.choices} choices" if space.low is None else f"{space.size} continuous actions"
    if space.parts is not None:
        words = f"{len(space.parts)} actions with {', '.join(map(str, space.parts))} choices"
    mask = f" ({space.choices} of the observations are their mask)"
    return words + mask if space.masked else words


def _repeatability(simulator: Simulator, steps: int, seed: int) -> list[str]:
    """What of a seed's steps is not the same twice."""
    first = simulator.reset(seed)
    if (simulator.reset(seed) != first).any():
        return ["the same seed gives another first observation, so runs are not reproducible"]
    once, again = (
        [[*map(np.copy, step)] for step in walk(simulator, steps, seed)] for _ in range(2)
    )
    for age, (one, other) in enumerate(zip(once, again)):
        if not all(np.array_equal(*pair) for pair in zip(one, other)):
            return [
                f"the same seed and actions give another step {age}, so runs, resumed ones and"
                " those of workers are not reproducible; draw from self.np_random alone"
            ]
    return []
