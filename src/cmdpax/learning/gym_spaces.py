"""How do Gymnasium's spaces become vectors of numbers, and a policy's `ActionSpace`?

What they cannot become is a `ValueError` that says why.
"""

from typing import Any

import gymnasium
import numpy as np

from cmdpax.learning.simulator import ActionSpace

KINDS = "buifc"  # of arrays, from narrow to wide


def size_of(space: Any) -> int:
    """Numbers of an observation as a vector."""
    what = f"observations are {space}, which"
    try:
        size = int(gymnasium.spaces.flatdim(space))
    except (NotImplementedError, ValueError):
        raise ValueError(f"{what} cannot be flattened to a vector") from None
    if size < 1:
        raise ValueError(f"{what} holds nothing; a policy must see something")
    return size


def flattened(space: Any, observation: Any) -> np.ndarray:
    """An observation as a vector `[d]`."""
    _refuse_other_arrays(space, observation)
    return np.asarray(gymnasium.spaces.flatten(space, observation), dtype=np.float64)


def _refuse_other_arrays(space: Any, seen: Any) -> None:
    """Refuse what flattening would take silently: another shape, or fractions cut off."""
    if isinstance(space, gymnasium.spaces.Dict | gymnasium.spaces.Tuple):
        parts = space.items() if isinstance(space, gymnasium.spaces.Dict) else enumerate(space)
        for name, part in parts:
            _refuse_other_arrays(part, seen[name])
    elif isinstance(space, gymnasium.spaces.Box):
        array = np.asarray(seen)
        if array.shape != space.shape:
            raise ValueError(f"its shape is {list(array.shape)}, not {list(space.shape)}")
        widest = max(KINDS.find(space.dtype.kind), KINDS.find("i"))
        if not 0 <= KINDS.find(array.dtype.kind) <= widest:
            raise ValueError(f"it holds {array.dtype}, not {space.dtype}")


def action_space_of(space: Any) -> ActionSpace:
    """What a policy must know of an environment's actions."""
    if isinstance(space, gymnasium.spaces.Discrete):
        return ActionSpace(choices=int(space.n), start=int(space.start))
    what = f"actions are {space}"
    if isinstance(space, gymnasium.spaces.MultiDiscrete | gymnasium.spaces.MultiBinary):
        several = np.full(space.shape, getattr(space, "nvec", 2)).reshape(-1).tolist()
        starts = np.broadcast_to(getattr(space, "start", 0), space.shape).reshape(-1).tolist()
        if not several:
            raise ValueError(f"{what}, which holds nothing; a policy must do something")
        sizes = {"choices": sum(several), "parts": tuple(several), "start": tuple(starts)}
        return ActionSpace(**sizes, shape=space.shape, dtype=space.dtype.name)
    if not isinstance(space, gymnasium.spaces.Box):
        raise ValueError(
            f"{what}; Box, Discrete, MultiDiscrete and MultiBinary are understood: wrap it in a"
            " gymnasium.ActionWrapper"
        )
    low, high = (side.reshape(-1).astype(np.float64) for side in (space.low, space.high))
    if not len(low):
        raise ValueError(f"{what}, which holds nothing; a policy must do something")
    return ActionSpace(low, high, shape=space.shape, dtype=space.dtype.name)


def random_actions(space: ActionSpace, random: np.random.Generator, mask: Any = None) -> np.ndarray:
    """Actions as environments take them, uniform, one for each row of `mask [N, choices]`."""
    if space.low is not None:
        return space.to_environment(random.uniform(-1, 1, (len(mask), space.size)))
    chances = np.where(mask, random.random(np.shape(mask)), -1.0)  # all equal in rank
    return space.to_environment(space.choose(chances))
