"""What a sum of terms says of itself: corners, curvature, names; and what is not concave."""

import numpy as np
import pytest

from cmdpax import utilities
from cmdpax.errors import InputError
from cmdpax.utilities.utility import refuse_not_concave

RANDOM = np.random.default_rng(0)
VISITS = RANDOM.dirichlet([1.0] * 6).reshape(3, 2)


def test_the_least_of_a_box_is_at_the_corner_that_is_said():
    utility = utilities.fairness(["a", "b"]) + utilities.soft_limit("c", most=0.3)
    low, high = np.array([0.2, 0.3, 0.1]), np.array([0.5, 0.4, 0.8])
    corner = utility.value(utility.lowest(low, high))
    for _ in range(200):
        assert utility.value(RANDOM.uniform(low, high)) >= corner


def test_a_number_stands_on_either_side():
    both = [2.0 * utilities.entropy(), utilities.entropy() * 2.0]
    values = [utility.value(np.zeros(0), VISITS) for utility in both]
    assert values[0] == values[1] == 2 * utilities.entropy().value(np.zeros(0), VISITS)


def test_the_root_is_that_of_the_curvature_of_values():
    utility = utilities.fairness(["a", "b"], alpha=2.0) + utilities.linear("a")
    root = utility.root(np.array([2.0, 3.0, 1.0]))
    assert root.T @ root == pytest.approx(np.diag([2 / 8, 2 / 27, 0.0]), rel=1e-3, abs=1e-9)


def test_a_sum_says_what_it_is_of():
    utility = utilities.fairness(["a", "b"]) + 0.5 * utilities.entropy()
    assert utility.name == "1 * fairness + 0.5 * entropy" and utility.rewards == ("a", "b")
    assert not utility.is_of_values and utility.is_ready and utility.has_gradient
    own = utilities.own(lambda v: float(v.sum()), np.ones_like, ["a"])
    assert own.is_of_values and not own.is_ready and not own.is_proven and own.name == "own"
    assert repr(utilities.kl(VISITS, minimise=True)) == "Utility(minimise kl)"


def test_the_tangent_of_max_min_is_by_prices():
    offset, prices, table = utilities.max_min(["a", "b"]).tangent(np.array([1.0, 3.0]))
    assert offset == 0 and table is None
    np.testing.assert_array_equal(prices, [0.25, 0.75])


def test_what_bends_the_wrong_way_is_refused():
    values = RANDOM.random((9, 1))
    convex = utilities.own(lambda v: float((v**2).sum()), lambda v: 2 * v, ["a"])
    with pytest.raises(InputError, match="it is not concave: between two policies it changes by"):
        refuse_not_concave(convex, values, None)
    refuse_not_concave(
        utilities.own(lambda v: -float((v**2).sum()), lambda v: -2 * v, ["a"]), values, None
    )
