import numpy as np
import pytest

from cmdpax.environments.simulator import ActionSpace

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
    np.testing.assert_array_equal(ActionSpace(-np.ones(2), np.ones(2)).to_environment(action), [0.3, -1.0])


def test_choices_stay_as_they_are():
    space = ActionSpace(choices=4)
    assert space.size == 4 and (space.to_environment(np.array([0, 3])) == [0, 3]).all()
