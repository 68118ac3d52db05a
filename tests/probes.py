"""Tiny environments with known answers, for the adapter's and the learner's tests."""

from typing import Any

import gymnasium
import numpy as np


class Bandit(gymnasium.Env):
    """One step, two arms: arm 1 pays 1 and costs 1, arm 0 neither.

    With `cost <= 0.3` the best policy pulls arm 1 with probability 0.3, and one more unit of budget
    is worth one: multiplier 1.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: int) -> tuple:
        return np.ones(1, dtype=np.float32), float(action), True, False, {"cost": float(action)}


class Meter(gymnasium.Env):
    """Ten steps, each of which pays one and costs one; spaces as large as Hopper's."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (11,))
    action_space = gymnasium.spaces.Box(-1, 1, (3,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.age = 0
        return np.zeros(11, dtype=np.float32), {}

    def step(self, action: np.ndarray) -> tuple:
        self.age += 1
        return np.zeros(11, dtype=np.float32), 1.0, self.age == 10, False, {"cost": 1.0}


class Throttle(gymnasium.Env):
    """One step, one continuous action a in [-2, 2] (the policy's unit is twice as long): reward
    `-(a - 1)^2`, cost `a`.

    With `cost <= 0.5` the best mean is 0.5, the multiplier `2 (1 - 0.5) = 1`; without a limit the
    best mean is 1.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Box(-2, 2, (1,))

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: np.ndarray) -> tuple:
        a = float(action[0])
        return np.ones(1, dtype=np.float32), -((a - 1) ** 2), True, False, {"cost": a}


class TwoSteps(gymnasium.Env):
    """Choose, then be paid: the first choice costs at once, its reward comes one step later. Same
    answer as `Bandit`.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.choice: int | None = None
        return np.array([1, 0], dtype=np.float32), {}

    def step(self, action: int) -> tuple:
        if self.choice is None:
            self.choice = int(action)
            return (
                np.array([0, self.choice], dtype=np.float32),
                0.0,
                False,
                False,
                {"cost": float(action)},
            )
        return np.zeros(2, dtype=np.float32), float(self.choice), True, False, {"cost": 0.0}


class Corridor(gymnasium.Env):
    """Four cells to cross; in each, run (reward -0.25, cost 1) or walk (reward -0.5, no cost).

    Running everywhere gives -1 at cost 4, walking everywhere -2 at cost 0: a unit of cost buys a
    quarter of reward. With `cost <= 1` one cell in four may be run on average: return -1.75,
    multiplier 0.25.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (5,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple:
        self.cell += 1
        return (
            self._observe(),
            -0.25 if action else -0.5,
            self.cell == 4,
            False,
            {"cost": float(action)},
        )

    def _observe(self) -> np.ndarray:
        return np.eye(5, dtype=np.float32)[self.cell]


class TwoLimits(gymnasium.Env):
    """One step, three arms paying 0, 1, 2; arm 1 costs (1, 0), arm 2 costs (0, 1).

    With both costs at most 0.25 the best policy is (0.5, 0.25, 0.25): return 0.75, multipliers 1
    and 2.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(3)
    cost_names = ("heat", "noise")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: int) -> tuple:
        return (
            np.ones(1, dtype=np.float32),
            float(action),
            True,
            False,
            {"cost": np.eye(3)[action][1:]},
        )


class SixTuple(Bandit):
    """Safety-Gymnasium's form of a step."""

    def step(self, action: int) -> tuple:
        observation, reward, terminated, truncated, info = super().step(action)
        return observation, reward, info.pop("cost"), terminated, truncated, info


class Broken(gymnasium.Env):
    """Ten steps; from the fifth on, one thing is wrong."""

    observation_space = gymnasium.spaces.Box(-1, 1, (1,))
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, wrong: str) -> None:
        self.wrong = wrong

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.time = 0
        return np.ones(1, dtype=np.float32), {}

    def step(self, action: int) -> tuple:
        self.time += 1
        late = self.time >= 5
        info: dict[str, Any] = {"cost": 1.0}
        if self.wrong == "missing":
            info = {}
        elif late and self.wrong == "cost":
            info = {"cost": float("nan")}
        elif self.wrong == "length":
            info = {"cost": np.ones(3 if late else 2)}
        observation = np.full(
            1, np.nan if late and self.wrong == "observation" else 1.0, dtype=np.float32
        )
        reward = float("nan") if late and self.wrong == "reward" else 1.0
        return observation, reward, False, self.time == 10, info


class Mill(gymnasium.Env):
    """Five steps of a random load; speeds 0, 1, 2 pay by the load, heat up and make noise.

    `factors`: what reward, heat and noise are multiplied by, as if counted in other units.
    """

    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(3)
    cost_names = ("heat", "noise")

    def __init__(self, factors: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> None:
        self.factors = factors

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.age = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple:
        reward, heat, noise = self.factors
        pay, info = reward * action * self.load, {"heat": heat * action}
        info["noise"] = noise * (0.25 + self.load) * (action == 2)
        self.age += 1
        return self._observe(), pay, self.age == 5, False, {"cost": list(info.values())}

    def _observe(self) -> np.ndarray:
        self.load = float(self.np_random.uniform())
        return np.array([self.load, self.age / 5], dtype=np.float32)
