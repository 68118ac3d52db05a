import json

import numpy as np
import pytest

from cmdpax.learning.simulator import ActionSpace

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
    found = space.to_environment(np.array([[-1.0, 0.0, 0.2, 7.0]] * 3))
    assert found.dtype == np.int8 and found.shape == (3, 2, 2)
    np.testing.assert_array_equal(found[0], [[-1, 1], [1, 3]])  # rounded, not cut off


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
