"""An environment that is random in its steps too, and what may befall the process it runs in."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np


class Drift(gymnasium.Env):
    """A point that drifts at random; pushing it costs. Episodes end far off, or after 20 steps."""

    observation_space = gymnasium.spaces.Box(-9, 9, (2,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.place, self.age = self.np_random.normal(size=2), 0
        return self.place.copy(), {}

    def step(self, action: np.ndarray) -> tuple:
        self.age += 1
        self.place = self.place + 0.3 * action + 0.1 * self.np_random.normal(size=2)
        far = bool(np.abs(self.place).max() > 3)
        info = {"cost": float(abs(action[0]))}
        return self.place.copy(), -float(np.abs(self.place).sum()), far, self.age == 20, info


class Struck(Drift):
    """The same; its first process but one is struck at the 30th step (the driver's own is spared).

    The folder of the environment variable STRUCK remembers that it happened.
    """

    def __init__(self, strike: Any) -> None:
        self.strike, self.steps = strike, 0

    def step(self, action: np.ndarray) -> tuple:
        self.steps += 1
        if self.steps == 30:
            try:
                Path(os.environ["STRUCK"], "once").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                self.strike()
        return super().step(action)


def killed() -> Struck:
    return Struck(lambda: os.kill(os.getpid(), signal.SIGKILL))


def stopped() -> Struck:
    return Struck(lambda: os.kill(os.getpid(), signal.SIGSTOP))


def sleeping() -> Struck:
    return Struck(lambda: time.sleep(3600))


class Doomed(Drift):
    """Every process dies in it, but for the first step, which only looks at its costs."""

    def step(self, action: np.ndarray) -> tuple:
        if self.age:
            os._exit(7)
        return super().step(action)


class Raising(Drift):
    """Raises at its second step."""

    def step(self, action: np.ndarray) -> tuple:
        if self.age:
            raise RuntimeError("the motor is hot")
        return super().step(action)
