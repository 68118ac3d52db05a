"""What random steps say about an environment, and which limits they suggest."""

import gymnasium
import numpy as np
import pytest

import plain
import probes
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


@pytest.mark.parametrize(
    ("total", "limit"), [(20, "x<=10"), (-20, "x<=-30"), (0, "x<=1"), (0.012349, "x<=0.0062")]
)
def test_a_limit_is_a_round_number(total, limit):
    assert suggested("x", total) == limit


def test_images_are_not_taken_without_a_word():
    class Camera(probes.Bandit):
        observation_space = gymnasium.spaces.Box(0, 255, (16, 16, 3), np.uint8)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return np.zeros((16, 16, 3), np.uint8), {}

        def step(self, action):
            return np.zeros((16, 16, 3), np.uint8), *super().step(action)[1:]

    complaints = check_environment(Camera, steps=20).complaints
    assert "observations are images [16, 16, 3]" in complaints[0]
