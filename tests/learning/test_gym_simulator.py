import functools

import gymnasium
import numpy as np
import pytest

import plain
import probes
from cmdpax import InputError
from cmdpax.learning.environment_check import check_environment
from cmdpax.learning.gym_simulator import GymSimulator, make_simulator
from cmdpax.learning.portable import load_policy
from cmdpax.learning.simulator import ModelSimulator
from cmdpax.learning.training import train
from cmdpax.learning.velocity import VelocitySimulator


def test_steps_and_new_starts():
    simulator = GymSimulator(probes.TwoSteps, 2)
    np.testing.assert_array_equal(simulator.reset(0), [[1, 0], [1, 0]])
    step = simulator.step(np.array([1, 0]))
    np.testing.assert_array_equal(step.observation, [[0, 1], [0, 0]])
    np.testing.assert_array_equal(step.cost, [[1], [0]])
    step = simulator.step(np.array([0, 0]))
    assert step.terminated.all() and not step.truncated.any()
    np.testing.assert_array_equal(step.reward, [1, 0])
    np.testing.assert_array_equal(step.observation, [[1, 0], [1, 0]])  # already the next episode's
    np.testing.assert_array_equal(step.next_observation, np.zeros((2, 2)))  # what truly followed


def test_six_values_vectors_and_mappings_are_costs_too():
    assert GymSimulator(probes.SixTuple).cost_names == ("cost",)
    np.testing.assert_array_equal(_first(GymSimulator(probes.SixTuple), 1).cost, [[1]])
    assert GymSimulator(probes.TwoLimits).cost_names == ("heat", "noise")
    np.testing.assert_array_equal(_first(GymSimulator(probes.TwoLimits), 2).cost, [[0, 1]])

    class Mapped(probes.Bandit):
        def step(self, action):
            return *super().step(action)[:4], {"cost": {"a": 1.0, "b": 2.0}}

    assert GymSimulator(Mapped).cost_names == ("a", "b")
    np.testing.assert_array_equal(_first(GymSimulator(Mapped), 0).cost, [[1, 2]])


def test_costs_are_known_by_their_names_in_any_order():
    class Turned(probes.Bandit):
        turn = False

        def step(self, action):
            costs = {"a": 1.0, "b": 2.0}
            self.turn = not self.turn
            costs = costs if self.turn else dict(reversed(costs.items()))
            return *super().step(action)[:4], {"cost": costs}

    simulator = GymSimulator(Turned)
    for _ in range(2):
        np.testing.assert_array_equal(_first(simulator, 0).cost, [[1, 2]])


@pytest.mark.parametrize("names", [("heat",), "ab"])
def test_names_of_costs_are_one_for_each(names):
    class Named(probes.TwoLimits):
        cost_names = names

    with pytest.raises(InputError, match="but a step reports 2 costs; give a list with a name for"):
        GymSimulator(Named)


def test_pictures_are_not_cut_to_whole_numbers():
    """Numbers in [0, 1] where the space has bytes would all be 0."""

    class Camera(probes.Bandit):
        picture = np.ones((8, 8, 3))
        observation_space = gymnasium.spaces.Dict(
            {"camera": gymnasium.spaces.Box(0, 255, (8, 8, 3), np.uint8)}
        )

        def reset(self, *, seed=None, options=None):
            return {"camera": self.picture}, super().reset(seed=seed)[1]

        def step(self, action):
            return {"camera": self.picture}, *super().step(action)[1:]

    with pytest.raises(InputError, match="it holds float64, not uint8"):
        GymSimulator(Camera)
    Camera.picture = np.ones((8, 8, 3), np.int64)  # whole, at least
    assert GymSimulator(Camera).reset(0).sum() == 192


def test_observations_can_be_squared():
    with pytest.raises(InputError, match=r"holds 1e\+300; observations .* below 1e\+100"):
        GymSimulator(probes.Bandit).finite(np.array([0.0, 1e300]))


def test_box_actions_are_rescaled_and_clipped():
    simulator = GymSimulator(probes.Throttle)
    np.testing.assert_array_equal(simulator.action_space.to_environment(np.array([0.5])), [1.0])
    np.testing.assert_array_equal(simulator.action_space.to_environment(np.array([3.0])), [2.0])
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
        simulator = GymSimulator(functools.partial(probes.Broken, wrong))
        simulator.reset(0)
        for _ in range(10):
            simulator.step(np.zeros(1, dtype=np.int64))

    with pytest.raises(InputError, match=sentence):
        run()


def test_kinds_of_environments():
    """A name, a function, a class, an object or a finite model."""
    for environment in ("probes:Bandit", probes.Bandit, functools.partial(probes.Meter)):
        simulator = make_simulator(environment, 2)
        assert isinstance(simulator, GymSimulator) and simulator.reset(0).shape[0] == 2
    assert isinstance(make_simulator("SafetyHopperVelocity-v1", 1), VelocitySimulator)
    assert isinstance(make_simulator(plain.tiny(), 5), ModelSimulator)
    environment = gymnasium.wrappers.TimeLimit(probes.Bandit(), 7)
    simulator = make_simulator(environment, 1)
    assert simulator.environments == [environment] and simulator.episode_limit == 7
    assert make_simulator(gymnasium.wrappers.OrderEnforcing(environment), 1).episode_limit == 7
    with pytest.raises(InputError, match=r"'TimeLimit': 2 copies are needed, .* give a function"):
        make_simulator(environment, 2)
    with pytest.raises(InputError, match="2 copies are needed, but an environment object is one"):
        make_simulator(lambda: environment, 2)
    with pytest.raises(InputError, match="environment: 3 is no name"):
        make_simulator(3, 1)


def _first(simulator, action):
    simulator.reset(0)
    return simulator.step(np.array([action]))


class Doors(probes.Bandit):
    """Of two dials some positions are locked; which ones, every state says."""

    action_space = gymnasium.spaces.MultiDiscrete([3, 2])

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        self.age = 0
        return observation, {**info, **self.lock()}

    def lock(self):
        self.allowed = np.ones(3, np.int8), np.array([1, 0], np.int8)
        self.allowed[0][self.np_random.integers(3)] = 0
        return {"action_mask": self.allowed}

    def step(self, action):
        assert all(mask[chosen] for mask, chosen in zip(self.allowed, action)), "locked"
        self.age += 1
        reward = float(action[0] == 2)
        return np.zeros(1), reward, self.age == 4, False, {"cost": 0.1, **self.lock()}


def test_what_is_masked_is_never_done(tmp_path):
    """Neither at random nor by a policy in training; the policy sees the mask."""
    simulator = GymSimulator(Doors, 2)
    assert simulator.action_space.masked and simulator.observation_size == 1 + 5
    seen = simulator.reset(0)
    np.testing.assert_array_equal(seen[:, 4:], [[1, 0], [1, 0]])
    assert (seen[:, 1:4].sum(1) == 2).all()
    words = "2 actions with 3, 2 choices (5 of the observations are their mask)"
    assert check_environment(Doors, steps=50).actions == words
    settings = {"samples": 4_000, "batch": 400, "rollout_steps": 200, "learning_rate": 1e-2}
    run = train(Doors, folder=tmp_path / "run", limits=["cost<=25"], **settings)
    first, last = run.metrics[0]["return"], run.metrics[-1]["return"]
    assert first < 1.8 and last > 2.3  # at random 4/3, at best 4 times 2/3
    again = load_policy(tmp_path / "run")
    np.testing.assert_array_equal(again(np.array([0, 1, 1, 0, 1, 0]))[1], 0)
    assert again(np.array([0.0, 1, 0, 1, 1, 0]), deterministic=True).tolist() == [2, 0]


@pytest.mark.parametrize(
    ("mask", "sentence"),
    [
        ([1, 0], "must hold 1 or 0 for each of the 3 choices at every reset and step"),
        ([1, 2, 0], "must hold 1 or 0 for each of the 3 choices"),
        ([0, 0, 0], "allows nothing; at least one choice must be 1"),
        ("open", "must hold 1 or 0"),
    ],
)
def test_masks_that_cannot_be(mask, sentence):
    class Masked(probes.Bandit):
        action_space = gymnasium.spaces.Discrete(3)

        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"action_mask": mask}

    with pytest.raises(InputError, match=sentence):
        GymSimulator(Masked)


def test_a_mask_that_only_steps_say_is_refused():
    """Nobody may take what an environment forbids for allowed because no reset spoke of it."""

    class Late(probes.Bandit):
        def step(self, action):
            *outcome, info = super().step(action)
            return *outcome, {**info, "action_mask": [1, 0]}

    with pytest.raises(InputError, match="is in a step's info, but not in a reset's"):
        GymSimulator(Late).step(np.array([0]))


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (("heat", "heat"), "costs heat, heat have a name twice; a limit names one"),
        (("heat", "return"), "cost 'return'; .*'return' is the total reward"),
    ],
)
def test_costs_that_cannot_be_told_apart(names, sentence):
    class Two(probes.Bandit):
        cost_names = names

        def step(self, action):
            return *super().step(action)[:4], {"cost": [1.0, 2.0]}

    with pytest.raises(InputError, match=sentence):
        GymSimulator(Two)


def test_only_choices_can_be_masked():
    class Masked(probes.Throttle):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=seed)[0], {"action_mask": [1]}

    with pytest.raises(InputError, match="is for choices, but its actions are continuous"):
        GymSimulator(Masked)


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
        (outcome(reward=None), "must be the second value of a step"),
        (outcome(reward=np.nan), "its reward is nan; rewards and costs must be finite"),
        (outcome(reward=-1e300), r"its reward is -1e\+300; rewards .* must be .* below 1e\+15"),
        (outcome(info={"cost": 1e30}), r"cost 'cost' is 1e\+30; .* below 1e\+15"),
        (outcome(observation=np.ones(3)), r"an observation is not of Box.*its shape is \[3\], not"),
        (outcome(observation=np.ones((1, 1))), r"its shape is \[1, 1\], not \[1\]"),
        (outcome(observation=np.ones(1, complex)), "it holds complex128, not float32"),
        (outcome(observation=["a"]), "it holds <U1, not float32"),
        (outcome(observation={"a": 1}), "an observation is not of Box"),
        (outcome(observation=np.full(1, np.nan)), "an observation holds nan; .* must be finite"),
        (outcome(observation=np.full(1, -np.inf)), "an observation holds -inf"),
        (outcome(reward=10**400), "reward 10+ is not a number"),
        (outcome(info={"cost": 10**400}), "cost 10+ is not a number"),
        (outcome(info={"cost": [[1.0], [1.0, 2.0]]}), "is not a number, a vector or a mapping"),
        (
            outcome(terminated=np.array([True, False])),
            r"terminated is array\(\[ True, False\]\); it must be True or False",
        ),
        (outcome(truncated=np.array([True, False])), "truncated is array.* True or False"),
        (None, "step returned 1 value; 5"),
        (outcome()[:4], "step returned 4 values; 5"),
    ],
)
def test_what_a_step_must_not_return(result, sentence):
    def run():
        simulator = GymSimulator(
            type("Odd", (probes.Bandit,), {"step": lambda self, action: result})
        )
        simulator.reset(0)
        simulator.step(np.zeros(1, dtype=np.int64))

    with pytest.raises(InputError, match=sentence):
        run()


def test_an_end_of_one_number_in_an_array_is_that_number():
    step = outcome(terminated=np.array([True]), truncated=np.bool_(False))
    simulator = GymSimulator(type("Odd", (probes.Bandit,), {"step": lambda self, action: step}))
    assert _first(simulator, 0).terminated == [True]


def test_a_first_observation_that_is_not_finite_is_named_before_a_policy_sees_it():
    """With its NaN the policy would make an action, and the cost of that would be blamed."""
    lost = {"reset": lambda self, **_: (np.full(1, np.nan), {})}
    with pytest.raises(InputError, match="'Lost': an observation holds nan"):
        GymSimulator(type("Lost", (probes.Bandit,), lost))


def test_of_a_vector_of_environments_one_copy_is_wanted():
    def vector():
        return gymnasium.vector.SyncVectorEnv([probes.Bandit] * 3)

    for environment, count in ((vector, 1), (vector, 2), (vector(), 1), (vector(), 2)):
        with pytest.raises(InputError, match="a vector of environments; give one copy"):
            make_simulator(environment, count)


def test_a_reset_of_the_old_form_is_said_to_be():
    with pytest.raises(InputError, match="reset must return two values"):
        GymSimulator(type("Old", (probes.Bandit,), {"reset": lambda self, **_: np.ones(1)}))


def test_a_reward_of_one_number_in_an_array_is_that_number():
    simulator = GymSimulator(
        type(
            "Odd", (probes.Bandit,), {"step": lambda self, action: outcome(reward=np.full(1, 3.0))}
        )
    )
    assert _first(simulator, 0).reward == [3.0]


def test_an_environment_need_not_inherit_from_gymnasium():
    class Plain:
        observation_space, action_space = (
            probes.Bandit.observation_space,
            probes.Bandit.action_space,
        )
        costs = np.array([1.0, 2.0])

        def reset(self, seed=None):
            return np.ones(1, np.float32), {}

        def step(self, action):
            return np.ones(1, np.float32), 0.0, True, False, {"cost": self.costs}

    assert GymSimulator(Plain).cost_names == ("cost0", "cost1")
    Plain.cost_names = ("heat", "noise")
    assert GymSimulator(Plain).cost_names == ("heat", "noise")
    del Plain.action_space
    with pytest.raises(InputError, match="was made, which is no environment"):
        GymSimulator(Plain)
