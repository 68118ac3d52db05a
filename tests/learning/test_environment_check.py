"""What random steps say about an environment, and which limits they suggest."""

from typing import ClassVar

import gymnasium
import numpy as np
import pytest

import plain
import probes
from cmdpax import InputError
from cmdpax.learning.environment_check import check_environment, suggested


def test_every_kind_can_be_checked():
    assert check_environment(probes.Corridor, steps=20).name == "Corridor"
    assert check_environment(probes.Corridor(), steps=20).name == "Corridor"
    report = check_environment(plain.tiny(), steps=50)
    assert (report.name, report.actions, report.cost_names) == ("CMDP", "3 choices", ("c0", "c1"))


def test_check_env():
    assert check_environment("probes:Bandit", steps=50).complaints == ()

    class Endless(probes.Bandit):
        def reset(self, *, seed=None, options=None):
            return np.random.default_rng().normal(size=1), {}

        def step(self, action):
            return np.ones(1), 0.0, False, False, {"cost": 0.0}

    gymnasium.register("Endless-v0", Endless)
    complaints = " ".join(check_environment("Endless-v0", steps=50).complaints)
    assert (
        "no episode ended" in complaints
        and "zero on every step" in complaints
        and "same seed" in complaints
    )


class Factory(probes.Bandit):
    """Ten steps; heat costs 2 a step, noise nothing ever, and smoke what is drawn."""

    def __init__(self, draw=None):
        self.draw = draw

    def reset(self, *, seed=None, options=None):
        self.age = 0
        return super().reset(seed=seed)

    def step(self, action):
        self.age += 1
        smoke = (self.draw or self.np_random.random)()
        costs = {"heat": 2.0, "noise": 0.0, "smoke": smoke}
        return np.zeros(1), 0.0, False, self.age == 10, {"cost": costs}


def test_every_cost_gets_a_limit_from_what_random_actions_cost():
    report = check_environment(Factory, steps=200)
    assert report.suggested_limits[:2] == ("heat<=10", "noise<=1")
    smoke = float(report.suggested_limits[2].removeprefix("smoke<="))
    assert smoke == pytest.approx(report.mean_costs[2] / 2, rel=0.05)
    assert report.cost_ranges[0] == (20, 20) and report.episodes == 20
    low, high = report.cost_ranges[2]
    assert low < report.mean_costs[2] < high
    assert report.complaints == ("cost 'noise' was zero on every step",)


def test_steps_that_a_seed_does_not_fix_are_noticed():
    report = check_environment(lambda: Factory(np.random.default_rng().random), steps=50)
    assert "the same seed and actions give another step 0" in report.complaints[0]


def test_observations_beyond_their_bounds_are_said():
    class Beyond(Factory):
        def step(self, action):
            return np.full(1, 1e3), *super().step(action)[1:]

    (complaint,) = (c for c in check_environment(Beyond, steps=50).complaints if "noise" not in c)
    assert "lies beyond the bounds of observation_space" in complaint


@pytest.mark.parametrize(("steps", "seed", "word"), [(0, 0, "steps is 0"), (9, -1, "seed is -1")])
def test_numbers_that_cannot_be(steps, seed, word):
    with pytest.raises(InputError, match=f"{word}; it must be"):
        check_environment(Factory, steps, seed)


@pytest.mark.parametrize(
    ("total", "limit"), [(20, "x<=10"), (-20, "x<=-30"), (0, "x<=1"), (0.012349, "x<=0.0062")]
)
def test_a_limit_is_a_round_number(total, limit):
    assert suggested("x", total) == limit


@pytest.mark.parametrize(
    ("shape", "is_masked", "complaint"),
    [
        ((16, 16, 3), False, ""),
        ((16, 16), False, "of observations [16, 16] a network of plain layers sees 256 numbers"),
        ((16, 16), False, "if they are images, --network convolutional"),
        ((16, 16, 3), True, "shrink them, or show what matters"),
    ],
)
def test_images_are_not_flattened_without_a_word(shape, is_masked, complaint):
    class Camera(probes.Bandit):
        observation_space = gymnasium.spaces.Box(0, 255, shape, np.uint8)
        info: ClassVar = {"action_mask": np.ones(2)} if is_masked else {}

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros(shape, np.uint8), self.info

        def step(self, action):
            _, *rest, info = super().step(action)
            return np.zeros(shape, np.uint8), *rest, {**info, **self.info}

    complaints = check_environment(Camera, steps=20).complaints
    assert any(complaint in one for one in complaints) if complaint else not complaints
