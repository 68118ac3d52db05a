import functools

import gymnasium
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.environments.gym_adapter import GymBatch, check_environment, make_simulator


def test_steps_and_new_starts():
    batch = GymBatch(probes.TwoSteps, 2)
    np.testing.assert_array_equal(batch.reset(0), [[1, 0], [1, 0]])
    step = batch.step(np.array([1, 0]))
    np.testing.assert_array_equal(step.observation, [[0, 1], [0, 0]])
    np.testing.assert_array_equal(step.cost, [[1], [0]])
    step = batch.step(np.array([0, 0]))
    assert step.terminated.all() and not step.truncated.any()
    np.testing.assert_array_equal(step.reward, [1, 0])
    np.testing.assert_array_equal(step.observation, [[1, 0], [1, 0]])  # already the next episode's
    np.testing.assert_array_equal(step.next_observation, np.zeros((2, 2)))  # what truly followed


def test_six_values_vectors_and_mappings_are_costs_too():
    assert GymBatch(probes.SixTuple).cost_names == ("cost",)
    np.testing.assert_array_equal(_first(GymBatch(probes.SixTuple), 1).cost, [[1]])
    assert GymBatch(probes.TwoLimits).cost_names == ("heat", "noise")
    np.testing.assert_array_equal(_first(GymBatch(probes.TwoLimits), 2).cost, [[0, 1]])

    class Mapped(probes.Bandit):
        def step(self, action):
            return *super().step(action)[:4], {"cost": {"a": 1.0, "b": 2.0}}

    assert GymBatch(Mapped).cost_names == ("a", "b")
    np.testing.assert_array_equal(_first(GymBatch(Mapped), 0).cost, [[1, 2]])


def test_box_actions_are_rescaled_and_clipped():
    batch = GymBatch(probes.Throttle)
    np.testing.assert_array_equal(batch.action_space.to_environment(np.array([0.5])), [1.0])
    np.testing.assert_array_equal(batch.action_space.to_environment(np.array([3.0])), [2.0])
    np.testing.assert_array_equal(
        make_simulator("SafetyHopperVelocity-v1", 1).action_space.to_environment(np.array(3.0)), [3.0] * 3
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [("missing", "reports no cost"), ("cost", "cost 'cost' is nan"), ("length", "changed its costs")],
)
def test_a_bad_cost_is_an_error_never_zero(wrong, sentence):
    def run():
        batch = GymBatch(functools.partial(probes.Broken, wrong))
        batch.reset(0)
        for _ in range(10):
            batch.step(np.zeros(1, dtype=np.int64))

    with pytest.raises(InputError, match=sentence):
        run()


def test_unknown_names():
    with pytest.raises(InputError, match="did you mean 'SafetyHopperVelocity-v1'"):
        make_simulator("SafetyHoperVelocity-v1", 1)
    with pytest.raises(InputError, match="cannot be imported"):
        make_simulator("no_such_module:thing", 1)
    with pytest.raises(InputError, match="reports no cost"):
        make_simulator("CartPole-v1", 1)
    assert make_simulator("probes:Corridor", 2).observation_size == 5


def test_check_env():
    assert check_environment("probes:Bandit", steps=50).complaints == ()

    class Endless(probes.Bandit):
        def reset(self, *, seed=None, options=None):
            return np.random.default_rng().normal(size=1), {}

        def step(self, action):
            return np.ones(1), 0.0, False, False, {"cost": 0.0}

    gymnasium.register("Endless-v0", Endless)
    complaints = " ".join(check_environment("Endless-v0", steps=50).complaints)
    assert "no episode ended" in complaints and "zero on every step" in complaints and "same seed" in complaints


def _first(batch, action):
    batch.reset(0)
    return batch.step(np.array([action]))
