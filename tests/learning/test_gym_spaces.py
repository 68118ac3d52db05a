import gymnasium
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.gym_simulator import GymSimulator
from cmdpax.learning.gym_spaces import random_actions


class Picky(probes.Bandit):
    """Refuses whatever is not in its action space, and counts what it was given."""

    def step(self, action):
        assert self.action_space.contains(action), f"{action!r} is not in {self.action_space}"
        return *super().step(0)[:4], {"cost": 0.0}


@pytest.mark.parametrize(
    "space",
    [
        gymnasium.spaces.Discrete(3, start=-1),
        gymnasium.spaces.Box(0.0, np.inf, (2,)),
        gymnasium.spaces.Box(-np.inf, 1.0, (2,)),
        gymnasium.spaces.Box(-3.0, 5.0, (2, 2)),
        gymnasium.spaces.Box(0, 9, (3,), dtype=np.int64),
        gymnasium.spaces.Box(-np.inf, np.inf, (1,), dtype=np.float64),
        gymnasium.spaces.MultiDiscrete([3, 2], start=[-1, 4]),
        gymnasium.spaces.MultiDiscrete([[3, 2], [2, 5]]),
        gymnasium.spaces.MultiBinary(3),
        gymnasium.spaces.MultiBinary([2, 2]),
    ],
    ids=str,
)
def test_actions_are_of_the_environments_space(space):
    simulator = GymSimulator(type("Own", (Picky,), {"action_space": space}), 4)
    simulator.reset(0)
    random = np.random.default_rng(0)
    for _ in range(20):
        output = random.normal(size=(4, simulator.action_space.size)).astype(np.float32) * 5
        is_box = simulator.action_space.low is not None
        own = output if is_box else simulator.action_space.choose(output)
        simulator.step(simulator.action_space.to_environment(own))
        simulator.step(random_actions(simulator.action_space, random, np.ones_like(output)))


def test_dicts_and_tuples_are_flattened_in_their_order():
    spaces = gymnasium.spaces
    box = spaces.Box(-9, 9, (2,))
    inner = spaces.Tuple((spaces.Discrete(2), box))
    shown = {"z": np.array([1.0, 2.0]), "a": (1, np.array([3.0, 4.0]))}

    class Nested(probes.Bandit):
        observation_space = spaces.Dict({"z": box, "a": inner})

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return dict(reversed(shown.items())), {}

        def step(self, action):
            return shown, *super().step(action)[1:]

    simulator = GymSimulator(Nested)
    first = simulator.reset(0)
    keys = [*simulator.space.spaces]
    expected = {"z": [1, 2], "a": [0, 1, 3, 4]}
    np.testing.assert_array_equal(first, [[*expected[keys[0]], *expected[keys[1]]]])
    np.testing.assert_array_equal(simulator.step(np.array([0])).next_observation, first)


def test_shapes_of_observations():
    box, tree = (
        gymnasium.spaces.Box(0, 1, (2, 3)),
        gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(4), b=probes.Bandit.action_space),
    )

    def made(space):
        return GymSimulator(
            type(
                "Own",
                (probes.Bandit,),
                {"observation_space": space, "reset": lambda self, **_: (space.sample(), {})},
            )
        )

    assert (made(box).observation_size, made(box).observation_shape) == (6, (2, 3))
    assert (made(tree).observation_size, made(tree).observation_shape) == (6, (6,))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"observation_space": gymnasium.spaces.Box(0, 1, (0,))}, "a policy must see something"),
        ({"action_space": gymnasium.spaces.Box(0, 1, (0,))}, "a policy must do something"),
        (
            {"observation_space": gymnasium.spaces.Sequence(gymnasium.spaces.Discrete(2))},
            "cannot be flattened",
        ),
    ],
)
def test_spaces_that_cannot_be_learned_on(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        GymSimulator(type("Odd", (probes.Bandit,), changes))
