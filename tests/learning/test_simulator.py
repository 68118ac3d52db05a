import json

import numpy as np
import pytest

import plain
from cmdpax import InputError
from cmdpax.environments import garnet, queue
from cmdpax.exact.standard import StandardForm
from cmdpax.learning.simulator import ActionSpace, ModelSimulator

LOW, HIGH = np.array([-1.0, 0.0, 2.0]), np.array([1.0, 10.0, 3.0])


def test_the_unit_box_is_mapped_onto_the_environments():
    space = ActionSpace(LOW, HIGH)
    assert space.size == 3
    np.testing.assert_array_equal(space.to_environment(-np.ones((4, 3))), np.tile(LOW, (4, 1)))
    np.testing.assert_array_equal(space.to_environment(np.ones(3)), HIGH)
    np.testing.assert_array_equal(space.to_environment(np.zeros(3)), [0.0, 5.0, 2.5])


@pytest.mark.parametrize("clip", [True, False])
def test_what_lies_beyond_the_box_is_clipped_only_if_asked(clip):
    beyond = ActionSpace(LOW, HIGH, clip=clip).to_environment(np.array([3.0, -3.0, 0.0]))
    np.testing.assert_array_equal(beyond, [1.0, 0.0, 2.5] if clip else [3.0, -10.0, 2.5])


def test_actions_of_the_unit_box_itself_are_not_copied():
    action = np.array([0.3, -7.0])
    assert ActionSpace(-np.ones(2), np.ones(2), clip=False).to_environment(action) is action
    np.testing.assert_array_equal(
        ActionSpace(-np.ones(2), np.ones(2)).to_environment(action), [0.3, -1.0]
    )


def test_choices_stay_as_they_are():
    space = ActionSpace(choices=4)
    assert space.size == 4 and (space.to_environment(np.array([0, 3])) == [0, 3]).all()


def test_choices_are_counted_from_the_first():
    assert (ActionSpace(choices=4, start=-1).to_environment(np.array([0, 3])) == [-1, 2]).all()


def test_a_side_without_a_bound_is_open_and_the_other_is_kept():
    space = ActionSpace(np.array([0.0, -np.inf, -np.inf]), np.array([np.inf, 5.0, np.inf]))
    np.testing.assert_array_equal(space.to_environment(-np.ones(3)), [0.0, 3.0, -1.0])
    np.testing.assert_array_equal(space.to_environment(np.full(3, 9.0)), [10.0, 5.0, 9.0])
    np.testing.assert_array_equal(space.to_environment(np.full(3, -9.0)), [0.0, -5.0, -9.0])


def test_actions_have_the_environments_shape_and_type():
    space = ActionSpace(-np.ones(4), np.full(4, 3.0), shape=(2, 2), dtype="int8")
    action = space.to_environment(np.array([[-1.0, 0.0, 0.2, 7.0]] * 3))
    assert action.dtype == np.int8 and action.shape == (3, 2, 2)
    np.testing.assert_array_equal(action[0], [[-1, 1], [1, 3]])  # rounded, not cut off


@pytest.mark.parametrize(
    "space",
    [
        ActionSpace(choices=3, start=2),
        ActionSpace(LOW, HIGH, clip=False),
        ActionSpace(
            np.array([0.0, -np.inf]), np.array([np.inf, 1.5]), shape=(2, 1), dtype="float32"
        ),
    ],
)
def test_a_space_survives_json(space):
    notes = json.loads(json.dumps(space.as_json(), allow_nan=False))
    again = ActionSpace.from_json(notes)
    for name, value in vars(space).items():
        np.testing.assert_array_equal(getattr(again, name), value, err_msg=name)


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
    form = StandardForm.of(model)
    expected = form.criterion.share(form, model.by_choice(policy))[:, None] * policy
    share = np.zeros((4, 3))
    np.add.at(share, (data.observations, data.actions), 1 / count)
    np.testing.assert_allclose(share, expected, atol=0.01)
    choices = 3 * data.observations + data.actions
    np.testing.assert_array_equal(data.rewards[:, 0], model.reward[choices])
    np.testing.assert_array_equal(data.rewards[:, 2], model.constraints[1, choices])
    chances = model.transitions.tensor[data.observations, data.actions, data.successors]
    assert (chances > 0).all()
    inside = ~data.first[1:]
    np.testing.assert_array_equal(
        data.observations[1:][inside], data.successors[:-1][inside]
    )  # an episode is one walk


def test_episode_totals_of_a_simulated_model_are_its_discounted_values():
    """As the user wrote them: costs of `<=` limits are positive."""
    model = queue(capacity=3, discount=0.8)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), 4)
    simulator = ModelSimulator(model, count=500)
    assert (simulator.cost_names, simulator.limits.senses) == (("energy",), ("<=",))
    assert simulator.limits.thresholds == model.thresholds
    rng, observation, totals, sums = np.random.default_rng(1), simulator.reset(2), [], 0.0
    for _ in range(300):
        np.testing.assert_array_equal(observation.sum(1), 1)
        state = observation.argmax(1)
        action = (rng.random((500, 1)) > policy[state].cumsum(1)).sum(1)
        step = simulator.step(action)
        np.testing.assert_array_equal(step.reward, model.reward[4 * state + action])
        np.testing.assert_array_equal(step.cost[:, 0], model.constraints[0, 4 * state + action])
        successor = step.next_observation.argmax(1)
        assert (
            model.transitions.tensor[state, action, successor] > 0
        ).all() and not step.truncated.any()
        goes_on = ~step.terminated
        np.testing.assert_array_equal(step.observation[goes_on], step.next_observation[goes_on])
        assert (step.observation[step.terminated].argmax(1) == 0).all()  # where a queue starts
        sums = sums + np.column_stack([step.reward, step.cost])
        totals.append(sums[step.terminated])
        sums = np.where(step.terminated[:, None], 0.0, sums)
        observation = step.observation
    totals = np.concatenate(totals)
    values = StandardForm.of(model).evaluate(model.by_choice(policy))
    exact = [values.reward, model.thresholds[0] - values.margins[0]]
    error = totals.std(0) / np.sqrt(len(totals))
    assert len(totals) > 20_000 and (np.abs(totals.mean(0) - exact) < 4 * error).all()


def test_a_reset_fixes_what_a_simulated_model_does():
    simulator = ModelSimulator(plain.tiny(), count=3)

    def run(seed):
        steps = [simulator.reset(seed)]
        return steps + [part for _ in range(20) for part in simulator.step(np.array([0, 1, 2]))]

    for one, other in zip(run(4), run(4), strict=True):
        np.testing.assert_array_equal(one, other)
    assert any((one != other).any() for one, other in zip(run(4), run(5), strict=True))


@pytest.mark.parametrize(
    "criterion", [{"discount": None, "criterion": "average"}, {"criterion": "finite", "horizon": 5}]
)
def test_episodes_are_those_of_discounted_models_alone(criterion):
    """Others would never end, or would not end with the horizon."""
    with pytest.raises(InputError, match=f"criterion: '{criterion['criterion']}' cannot be"):
        ModelSimulator(queue(capacity=5).replace(**criterion))


def test_a_model_without_constraints_has_no_costs():
    simulator = ModelSimulator(garnet(states=5, constraints=0), count=2)
    simulator.reset(0)
    assert simulator.cost_names == () and simulator.step(np.zeros(2, int)).cost.shape == (2, 0)
