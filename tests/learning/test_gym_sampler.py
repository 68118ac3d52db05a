import gymnasium
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.gym_sampler import GymSampler


class Line(gymnasium.Env):
    """States 0..3; action 1 moves right, state 3 ends it; reward 1 and cost 2 for every move."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)
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


def test_episodes_of_an_environment_for_sampled_methods():
    sampler = GymSampler(Line(), ["cost<=3"], discount=0.9)
    assert (sampler.states, sampler.actions, sampler.thresholds.tolist()) == (4, 2, [-3.0])
    data = sampler.collect(uniform, 300, np.random.default_rng(0))
    np.testing.assert_array_equal(data.rewards[:, 1], -2.0 * data.actions)
    np.testing.assert_array_equal(data.continues, data.successors != 3)
    assert data.first.sum() == 300 and (data.observations[data.first] == 0).all()
    again = GymSampler(Line(), ["cost<=3"], 0.9).collect(uniform, 300, np.random.default_rng(0))
    np.testing.assert_array_equal(data.actions, again.actions)


def test_a_sampler_turns_each_limit_by_its_own_sense():
    sampler = GymSampler(probes.TwoLimits, ["noise>=0.1", "heat<=0.2"], discount=0.9)
    assert sampler.thresholds.tolist() == [0.1, -0.2] and sampler.states is None

    def policy(observations):
        return np.full((len(observations), 3), 1 / 3)

    data = sampler.collect(policy, 50, np.random.default_rng(0))
    heat, noise = (np.eye(3)[data.actions][:, 1:]).T
    np.testing.assert_array_equal(data.rewards, np.stack([data.actions, noise, -heat], 1))


def test_one_buffer_for_all_observations_does_no_harm():
    class Reused(Line):
        observation_space = gymnasium.spaces.Box(0, 3, (1,))
        buffer = np.zeros(1)

        def reset(self, **_):
            self.buffer[:] = super().reset(**_)[0]
            return self.buffer, {}

        def step(self, action):
            place, *others = super().step(action)
            self.buffer[:] = place
            return self.buffer, *others

    data, same = (
        GymSampler(kind, ["cost<=3"], 0.9).collect(uniform, 50, np.random.default_rng(0))
        for kind in (Reused, Line)
    )
    np.testing.assert_array_equal(data.observations[:, 0], same.observations)
    np.testing.assert_array_equal(data.successors[:, 0], same.successors)


@pytest.mark.parametrize(
    ("cost", "message"),
    [
        ("missing", "reports no cost"),
        (np.nan, "cost 'cost' is nan"),
        ([1.0, 2.0], "limit 'cost<=3' is on a cost that the environment does not have"),
    ],
)
def test_a_cost_that_no_limit_can_be_held_to_is_an_error(cost, message):
    environment = Line()
    environment.cost = cost
    with pytest.raises(InputError, match=message):
        GymSampler(environment, ["cost<=3"], 0.9).collect(uniform, 1, np.random.default_rng(0))


def test_what_a_sampler_refuses():
    with pytest.raises(InputError, match="not discrete"):
        GymSampler(probes.Throttle, ["cost<=3"], 0.9)
    with pytest.raises(InputError, match="discount"):
        GymSampler(Line(), ["cost<=3"], 1.0)
    odd = type(
        "Odd",
        (probes.Bandit,),
        {"step": lambda self, action: (np.ones(1), np.inf, True, False, {"cost": 0.0})},
    )
    with pytest.raises(InputError, match="its reward is inf"):
        GymSampler(odd, ["cost<=3"], 0.9).collect(uniform, 1, np.random.default_rng(0))
    lost = {"step": lambda self, action: (np.full(1, np.nan), 0.0, True, False, {"cost": 0.0})}
    with pytest.raises(InputError, match="'Lost': an observation holds nan"):
        GymSampler(type("Lost", (probes.Bandit,), lost), ["cost<=3"], 0.9).collect(
            uniform, 1, np.random.default_rng(0)
        )
