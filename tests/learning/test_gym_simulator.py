import functools

import gymnasium
import numpy as np
import pytest

import probes
from cmdpax import InputError
from cmdpax.learning.gym_simulator import GymBatch, check_environment, make_simulator


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
        make_simulator("SafetyHopperVelocity-v1", 1).action_space.to_environment(np.array(3.0)),
        [3.0] * 3,
    )


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ("missing", "reports no cost"),
        ("cost", "cost 'cost' is nan"),
        ("length", "changed its costs"),
    ],
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
    assert (
        "no episode ended" in complaints
        and "zero on every step" in complaints
        and "same seed" in complaints
    )


def _first(batch, action):
    batch.reset(0)
    return batch.step(np.array([action]))


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
    ],
    ids=str,
)
def test_actions_are_of_the_environments_space(space):
    batch = GymBatch(type("Own", (Picky,), {"action_space": space}), 4)
    batch.reset(0)
    random = np.random.default_rng(0)
    for _ in range(20):
        if batch.action_space.low is None:
            own = random.integers(batch.action_space.choices, size=4)
        else:
            own = random.normal(size=(4, batch.action_space.size)).astype(np.float32) * 5
        batch.step(batch.action_space.to_environment(own))


def test_shapes_of_observations():
    box, tree = (
        gymnasium.spaces.Box(0, 1, (2, 3)),
        gymnasium.spaces.Dict(a=gymnasium.spaces.Discrete(4), b=probes.Bandit.action_space),
    )

    def made(space):
        return GymBatch(
            type(
                "Own",
                (probes.Bandit,),
                {"observation_space": space, "reset": lambda self, **_: (space.sample(), {})},
            )
        )

    assert (made(box).observation_size, made(box).observation_shape) == (6, (2, 3))
    assert (made(tree).observation_size, made(tree).observation_shape) == (6, (6,))


def outcome(**changes):
    """A step of `Bandit` with something else in it."""
    parts = {
        "observation": np.ones(1),
        "reward": 0.0,
        "terminated": True,
        "truncated": False,
        "info": {"cost": 0.0},
        **changes,
    }
    return tuple(parts.values())


@pytest.mark.parametrize(
    ("result", "sentence"),
    [
        (outcome(info=None), "reports no cost"),
        (outcome(info={"cost": {}}), "its cost is empty"),
        (outcome(info={"cost": []}), "its cost is empty"),
        (
            outcome(info={"cost": {"heat": np.ones(2)}}),
            "is not a number, a vector or a mapping to numbers",
        ),
        (outcome(info={"cost": "much"}), "cost 'much' is not a number"),
        (outcome(info={"cost": None}), "cost None is not a number"),
        (
            outcome(info={"cost": {"a": 1.0, "b": None}}),
            "is not a number, a vector or a mapping to numbers",
        ),
        (outcome(info={"cost": {"a<=b": 1.0}}), "no limit can name its cost 'a<=b'"),
        (outcome(info={"cost": {"": 1.0}}), "no limit can name its cost ''"),
        (outcome(reward=np.ones(2)), r"reward array\(\[1., 1.\]\) is not a number"),
        (outcome(reward=None), "reward None is not a number"),
        (outcome(observation=np.ones(3)), "an observation has 3 numbers where Box.* has 1"),
        (outcome(observation={"a": 1}), "an observation is not of Box"),
        (None, "step returned 1 value; 5"),
        (outcome()[:4], "step returned 4 values; 5"),
    ],
)
def test_what_a_step_must_not_return(result, sentence):
    def run():
        batch = GymBatch(type("Odd", (probes.Bandit,), {"step": lambda self, action: result}))
        batch.reset(0)
        batch.step(np.zeros(1, dtype=np.int64))

    with pytest.raises(InputError, match=sentence):
        run()


def test_a_reset_of_the_old_form_is_said_to_be():
    with pytest.raises(InputError, match="reset must return two values"):
        GymBatch(type("Old", (probes.Bandit,), {"reset": lambda self, **_: np.ones(1)}))


def test_a_reward_of_one_number_in_an_array_is_that_number():
    batch = GymBatch(
        type(
            "Odd", (probes.Bandit,), {"step": lambda self, action: outcome(reward=np.full(1, 3.0))}
        )
    )
    assert _first(batch, 0).reward == [3.0]


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
        GymBatch(type("Odd", (probes.Bandit,), changes))
