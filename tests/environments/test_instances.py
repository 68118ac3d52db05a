import numpy as np
import pytest

from cmdpax import solve
from cmdpax.environments.instances import instance, with_random_constraints
from cmdpax.environments.queue import queue
from cmdpax.errors import InputError


@pytest.mark.parametrize("family", ["garnet", "grid", "queue", "inventory"])
@pytest.mark.parametrize("constraints", [1, 3])
def test_every_family_is_feasible_and_of_the_size_asked_for(family, constraints):
    model = instance(family, 100, 0.9, constraints, seed=3)
    assert 90 <= model.states <= 110
    assert (model.discount, model.constraint_count) == (0.9, constraints)
    assert solve(model).status == "certified"


def test_seeds_differ_and_repeat():
    first, again, other = (instance("queue", 50, 0.9, 2, seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_random_constraints_leave_the_model_its_own():
    model = queue(capacity=20)
    wide = with_random_constraints(model, 4)
    assert wide.constraint_count == 4
    np.testing.assert_array_equal(wide.constraints[0], model.constraints[0])
    assert (solve(wide).multipliers > 0).any()  # something binds


def test_options_reach_the_builder():
    assert instance("garnet", 50, branching=2).successors.shape[2] == 2


def test_unknown_family():
    with pytest.raises(InputError, match="garnet, grid, queue, inventory"):
        instance("maze", 10)
