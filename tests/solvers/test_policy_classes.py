"""Features: the class in its own coordinates reaches the same policies, with the same gradients, as
the features themselves.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import InputError
from cmdpax.solvers.policy_classes import Features, one_hot


def table(seed, S=5, A=3, d=4, binary=False):
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((S, A, d))
    return (array > 0.3).astype(float) + np.eye(A)[:, :d] if binary else array


def softmax(logits):
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


@given(st.integers(0, 10_000), st.booleans())
def test_coordinates_and_parameters_give_the_same_policy(seed, binary):
    array = table(seed, d=3 if binary else 7, binary=binary)
    features, rng = Features(array), np.random.default_rng(seed + 1)
    theta = rng.standard_normal(features.dimension)
    direct = softmax(array @ theta)
    np.testing.assert_allclose(
        features.probabilities(features.coordinates(theta)), direct, atol=1e-12
    )
    x = rng.standard_normal((2, features.rank))
    np.testing.assert_allclose(
        features.probabilities(x),
        softmax(np.einsum("sad,bd->bsa", array, features.parameters(x))),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        np.exp(features.log_probabilities(x)), features.probabilities(x), atol=1e-15
    )


def test_pull_is_the_transpose_of_logits_and_stays_in_the_class():
    array = table(0)
    features, rng = Features(array), np.random.default_rng(1)
    mass = rng.standard_normal((5, 3))
    mass -= mass.mean(1, keepdims=True)  # rows sum to 0, like every gradient's
    full = np.einsum("sa,sad->d", mass, array)
    np.testing.assert_allclose(
        features.parameters(features.pull(features.gather(mass))), full, atol=1e-12
    )


def test_states_with_equal_features_are_one_group_and_sums_are_exact():
    array = np.repeat(table(3, S=2), [3, 2], axis=0)
    array[1] += 5.0  # the same for all actions: no difference to the policy
    features = Features(array)
    assert len(features.design) == 2 and len(set(features.groups[:3])) == 1
    mass = np.arange(15.0).reshape(5, 3)
    expected = np.zeros((2, 3))
    for s in range(5):
        expected[features.groups[s]] += mass[s]
    np.testing.assert_array_equal(features.gather(mass), expected)
    np.testing.assert_array_equal(features.gather_states(mass.sum(1)), expected.sum(1))


def test_covariance_by_hand():
    features = Features(np.array([[[2.0], [0.0]]]))  # one state, two actions that differ by 2
    covariance = features.covariance(np.array([3.0]), np.array([[0.25, 0.75]]))
    assert covariance.item() == pytest.approx(3 * 0.25 * 0.75 * 4)


def test_one_hot_features_reach_every_policy():
    features = Features(one_hot(3, 2))
    assert features.rank == 3 and features.dimension == 6 and len(features.design) == 3


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.ones((3, 2)), "shape"),
        (np.zeros((3, 2, 4)), "all are 0"),
        (np.full((3, 2, 4), np.nan), "finite"),
        (np.ones((3, 2, 4)), "same for all its actions"),
        (np.array([[["a"]]]), "numbers"),
        (np.ones((0, 2, 4)), "shape"),
    ],
)
def test_bad_features_are_refused(array, message):
    with pytest.raises(InputError, match=message):
        Features(array)


def test_features_of_another_model_are_refused():
    with pytest.raises(InputError, match="4 states and 2 actions"):
        Features(one_hot(3, 2)).check(4, 2)
