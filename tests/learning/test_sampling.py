"""Simulators: visits are distributed like the discounted occupancy, and bad environments are
refused.
"""

import gymnasium as gym
import numpy as np
import pytest

import plain
from cmdpax import InputError
from cmdpax.exact.discounted import occupancy
from cmdpax.learning.sampling import GymSimulator, ModelSimulator


class Line(gym.Env):
    """States 0..3; action 1 moves right, state 3 ends it; reward 1 and cost 2 for every move."""

    observation_space = gym.spaces.Discrete(4)
    action_space = gym.spaces.Discrete(2)
    cost: object = None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place += action
        cost = 2.0 * action if self.cost is None else self.cost
        return (
            self.place,
            float(action),
            self.place == 3,
            False,
            {} if cost == "missing" else {"cost": cost},
        )


def uniform(observations):
    return np.full((len(observations), 2), 0.5)


def test_visits_are_distributed_like_the_occupancy_and_transitions_like_the_model():
    model = plain.tiny()
    policy = np.random.default_rng(0).dirichlet(np.ones(3), 4)
    data = ModelSimulator(model).collect(
        lambda states: policy[states], 20_000, np.random.default_rng(1)
    )
    count = len(data.actions)
    assert data.first.sum() == 20_000 and count == pytest.approx(
        20_000 / (1 - model.discount), rel=0.03
    )
    expected = (1 - model.discount) * occupancy(model, policy)[:, None] * policy
    found = np.zeros((4, 3))
    np.add.at(found, (data.observations, data.actions), 1 / count)
    np.testing.assert_allclose(found, expected, atol=0.01)
    np.testing.assert_array_equal(data.rewards[:, 0], model.reward[data.observations, data.actions])
    np.testing.assert_array_equal(
        data.rewards[:, 2], model.constraints[1, data.observations, data.actions]
    )
    chances = model.tensor[data.observations, data.actions, data.following]
    assert (chances > 0).all()
    inside = ~data.first[1:]
    np.testing.assert_array_equal(
        data.observations[1:][inside], data.following[:-1][inside]
    )  # an episode is one walk


def test_a_gymnasium_environment_with_costs():
    simulator = GymSimulator(Line(), limits=3.0, discount=0.9)
    assert (
        simulator.states == 4 and simulator.actions == 2 and simulator.thresholds.tolist() == [-3.0]
    )
    data = simulator.collect(uniform, 300, np.random.default_rng(0))
    np.testing.assert_array_equal(data.rewards[:, 1], -2.0 * data.actions)
    np.testing.assert_array_equal(data.continues, data.following != 3)
    assert data.first.sum() == 300 and (data.observations[data.first] == 0).all()
    again = GymSimulator(Line(), 3.0, 0.9).collect(uniform, 300, np.random.default_rng(0))
    np.testing.assert_array_equal(data.actions, again.actions)


@pytest.mark.parametrize(
    ("cost", "message"),
    [("missing", "no info\\['cost'\\]"), (np.nan, "finite"), ([1.0, 2.0], "1 limits")],
)
def test_a_cost_that_is_missing_or_wrong_is_an_error(cost, message):
    environment = Line()
    environment.cost = cost
    with pytest.raises(InputError, match=message):
        GymSimulator(environment, 3.0, 0.9).collect(uniform, 1, np.random.default_rng(0))


def test_continuous_actions_are_refused():
    environment = Line()
    environment.action_space = gym.spaces.Box(-1, 1)
    with pytest.raises(InputError, match="not discrete"):
        GymSimulator(environment, 3.0, 0.9)
    with pytest.raises(InputError, match="discount"):
        GymSimulator(Line(), 3.0, 1.0)
