"""Environments that do to their process what none should, for the tests of the executors."""

import ctypes
import os
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Sound(gymnasium.Env):
    """Five steps of nothing."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.age = 0
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action: np.ndarray) -> tuple:
        self.age += 1
        return np.zeros(1, dtype=np.float32), 1.0, self.age == 5, False, {"cost": 1.0}


class Odd(Sound):
    """The same, but nobody knows whether its episodes end."""

    def step(self, action: np.ndarray) -> tuple:
        observation, reward, _, truncated, info = super().step(action)
        return observation, reward, np.zeros(2, dtype=bool), truncated, info


class Faulty(Sound):
    """The same, but a fault strikes at the third step."""

    def __init__(self, fault: Any) -> None:
        self.fault = fault

    def step(self, action: np.ndarray) -> tuple:
        if self.age == 2:
            self.fault()
        return super().step(action)


def leave_a_helper() -> None:
    """Die; a forked process lives on and keeps every pipe open."""
    child = os.fork()
    if child == 0:
        time.sleep(3600)
    Path(os.environ["HELPERS"], str(child)).touch()
    os._exit(7)


def makers(fault: Any) -> Any:
    """A function that makes a faulty environment."""
    return lambda: Faulty(fault)


sound = Sound
odd = Odd
leaving = makers(lambda: os._exit(3))
exiting = makers(lambda: (_ for _ in ()).throw(SystemExit(3)))
crashing = makers(lambda: ctypes.string_at(0))
closing = makers(lambda: os.closerange(0, 256))
helping = makers(leave_a_helper)
wandering = makers(lambda: os.chdir("/"))
