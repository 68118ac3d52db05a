"""200 random instances across families and m in {1, 3, 8}: every one certified at 1e-6, every
certificate checked.
"""

import numpy as np
import pytest

from cmdpax import CMDP, check, solve
from cmdpax.environments import queue
from instances import instance, with_random_constraints


def draw(seed: int) -> CMDP:
    rng = np.random.default_rng(seed)
    discount, m = float(rng.choice([0.9, 0.99, 0.999])), int(rng.choice([1, 3, 8]))
    size = int(rng.integers(50, 1500))
    if seed % 4 == 0:
        return instance("garnet", size, discount, m, seed, branching=int(rng.integers(1, 8)))
    if seed % 4 == 1:
        return instance("grid", size, discount, m, seed, slip=float(rng.uniform(0, 0.3)))
    if seed % 4 == 2:
        return instance("queue", size, discount, m, seed, arrival=float(rng.uniform(0.1, 0.9)))
    return instance("inventory", min(size, 300), discount, m, seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_200_instances_are_certified(block):
    for seed in range(20 * block, 20 * block + 20):
        model = draw(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)


def test_a_few_of_them_every_time():
    for seed in (0, 1, 2, 3, 5, 10):
        model = draw(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)


@pytest.mark.parametrize("family", ["garnet", "grid", "queue", "inventory"])
@pytest.mark.parametrize("constraints", [1, 3])
def test_every_family_is_feasible_and_of_the_size_asked_for(family, constraints):
    model = instance(family, 100, 0.9, constraints, seed=3)
    assert 90 <= model.states <= 110
    assert (model.discount, model.constraint_count) == (0.9, constraints)
    assert solve(model).status == "certified"


def test_seeds_of_instances_differ_and_repeat():
    first, again, other = (instance("queue", 50, 0.9, 2, seed) for seed in (0, 0, 1))
    assert first.digest == again.digest != other.digest


def test_options_reach_the_builder():
    assert instance("garnet", 50, branching=2).transitions.longest == 2


def test_random_constraints_leave_the_model_its_own():
    model = queue(capacity=20)
    wide = with_random_constraints(model, 4)
    assert wide.constraint_count == 4 and wide.senses == ("<=", ">=", ">=", ">=")
    np.testing.assert_array_equal(wide.constraints[0], model.constraints[0])
    assert (solve(wide).multipliers > 0).any()  # something binds
