"""Log-linear policies: features, projections, the natural gradient."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import plain
from cmdpax import InputError
from cmdpax.environments import cliff_world
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_classes import FLOOR, softmax


def _share(form, policy):
    return form.criterion.share(form, form.transitions.by_choice(policy))


def table(seed, S=5, A=3, d=4, binary=False):
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((S, A, d))
    return (array > 0.3).astype(float) + np.eye(A)[:, :d] if binary else array


@given(st.integers(0, 10_000), st.booleans())
def test_coordinates_and_parameters_give_the_same_policy(seed, binary):
    array = table(seed, d=3 if binary else 7, binary=binary)
    features, rng = Features(array), np.random.default_rng(seed + 1)
    theta = rng.standard_normal(features.dimension)
    direct = plain.log_linear(array, theta)
    np.testing.assert_allclose(
        features.probabilities(features.coordinates(theta)), direct, atol=1e-12
    )
    x = rng.standard_normal((2, features.rank))
    for own, policy in zip(features.parameters(x), features.probabilities(x), strict=True):
        np.testing.assert_allclose(policy, plain.log_linear(array, own), atol=1e-12)
    np.testing.assert_allclose(
        np.exp(features.log_probabilities(x)), features.probabilities(x), atol=1e-15
    )


def test_gradient_is_the_transpose_of_logits_and_stays_in_the_class():
    array = table(0)
    features, rng = Features(array), np.random.default_rng(1)
    mass = rng.standard_normal((5, 3))
    mass -= mass.mean(1, keepdims=True)  # rows sum to 0, like every gradient's
    full = np.einsum("sa,sad->d", mass, array)
    np.testing.assert_allclose(
        features.parameters(features.gradient(features.sum_pairs(mass))), full, atol=1e-12
    )


def test_states_with_equal_features_are_one_group_and_sums_are_exact():
    array = np.repeat(table(3, S=2), [3, 2], axis=0)
    array[1] += 5.0  # the same for all actions: no difference to the policy
    features = Features(array)
    assert len(features.group_features) == 2 and len(set(features.groups[:3])) == 1
    mass = np.arange(15.0).reshape(5, 3)
    expected = np.zeros((2, 3))
    for s in range(5):
        expected[features.groups[s]] += mass[s]
    np.testing.assert_array_equal(features.sum_pairs(mass), expected)
    np.testing.assert_array_equal(features.sum_states(mass.sum(1)), expected.sum(1))


def test_covariance_by_hand():
    features = Features(np.array([[[2.0], [0.0]]]))  # one state, two actions that differ by 2
    covariance = features.covariance(np.array([3.0]), np.array([[0.25, 0.75]]))
    assert covariance.item() == pytest.approx(3 * 0.25 * 0.75 * 4)


def test_one_hot_features_reach_every_policy():
    features = Features(one_hot(3, 2))
    assert features.rank == 3 and features.dimension == 6 and len(features.group_features) == 3


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


def test_ragged_features_are_refused():
    with pytest.raises(InputError, match="give numbers as"):
        Features([[[1.0], [2.0]], [[3.0]]])


def test_features_of_another_model_are_refused():
    with pytest.raises(InputError, match="4 states and 2 actions"):
        Features(one_hot(3, 2)).check(4, 2)
    with pytest.raises(InputError, match="does not fit"):
        LogLinear(Features(one_hot(3, 2))).start(StandardForm.of(cliff_world()), ())


def problem(seed, S=6, A=3, d=5, zeros=False):
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((S, A, d))
    array /= np.linalg.norm(array, axis=-1).max()  # the paper's normalisation: l is 1-smooth
    target = rng.dirichlet(np.full(A, 0.5), S)
    if zeros:
        target = np.where(target < 0.3, 0.0, target)
        target /= target.sum(1, keepdims=True)
    return Features(array), rng.dirichlet(np.ones(S)), target, rng


def summed(features, visits, target):
    return features.sum_states(visits), features.sum_pairs(visits[:, None] * target)


@given(st.integers(0, 10_000))
def test_one_projection_step_follows_the_gradient_of_the_cross_entropy(seed):
    features, visits, target, rng = problem(seed)
    x, (weight, mass), h = (
        rng.standard_normal(features.rank),
        summed(features, visits, target),
        1e-6,
    )
    after, policy = LogLinear(features, 1.0, 1).project(x, visits, target)
    np.testing.assert_array_equal(policy, features.probabilities(after))
    for i, slope in enumerate(x - after):
        e = h * np.eye(features.rank)[i]
        above, below = (features.cross_entropy(x + sign * e, weight, mass) for sign in (1, -1))
        assert slope == pytest.approx((above - below) / (2 * h), abs=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.booleans())
def test_divergence_never_rises_for_steps_up_to_one_over_l(seed, size, zeros):
    features, visits, target, rng = problem(seed, zeros=zeros)
    policies = LogLinear(features, size, 1)
    x, before = 3 * rng.standard_normal(features.rank), np.inf
    for _ in range(30):
        after = float(policies.divergence(x, visits, target))
        assert 0 <= after <= before + 1e-14
        x, before = policies.project(x, visits, target)[0], after


def test_projection_steps_are_the_plain_loop_for_every_member_of_a_batch():
    features, visits, target, rng = problem(3)
    x, sizes = rng.standard_normal((4, features.rank)), np.array([0.1, 1.0, 3.0, 0.01])
    start = x.copy()
    batch, _ = LogLinear(features, sizes, 20).project(
        x, np.tile(visits, (4, 1)), np.tile(target, (4, 1, 1))
    )
    np.testing.assert_array_equal(x, start)  # the caller's array is not touched
    weight, mass = summed(features, visits, target)
    for own, size, result in zip(x, sizes, batch, strict=True):
        for _ in range(20):
            policy = softmax(features.logits(own))
            own = own - size * features.gradient(weight[:, None] * policy - mass)
        np.testing.assert_allclose(result, own, atol=1e-12)
    single, _ = LogLinear(features, sizes[0], 20).project(x[0], visits, target)
    np.testing.assert_array_equal(x, start)
    np.testing.assert_allclose(single, batch[0], atol=1e-13)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.booleans())
def test_newton_finds_the_minimum(seed, zeros):
    features, visits, target, rng = problem(seed, zeros=zeros)
    start = 5 * rng.standard_normal(features.rank)
    x, _ = LogLinear(features).project(start, visits, target)
    weight, mass = summed(features, visits, (1 - FLOOR) * target + FLOOR / 3)
    other = minimize(
        lambda x: features.cross_entropy(x, weight, mass),
        np.zeros(features.rank),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert features.cross_entropy(x, weight, mass) <= other.fun + 1e-10


def test_a_target_in_the_class_is_its_own_projection():
    features, visits, _, rng = problem(1)
    policy = features.probabilities(rng.standard_normal(features.rank))
    _, projected = LogLinear(features).project(np.zeros(features.rank), visits, policy)
    np.testing.assert_allclose(projected, policy, atol=1e-5)


def test_zeros_in_the_target_leave_parameters_bounded():
    """Deterministic targets: the infimum of l lies at infinity."""
    features = Features(one_hot(4, 3))
    target = np.eye(3)[[0, 1, 2, 0]]
    visits = np.array([0.5, 0.3, 0.2, 0.0])  # and a state that nobody visits
    for start in (
        np.zeros(features.rank),
        30 * np.random.default_rng(0).standard_normal(features.rank),
    ):
        x, policy = LogLinear(features).project(start, visits, target)
        assert np.isfinite(x).all() and np.abs(features.logits(x)).max() < 200
        np.testing.assert_allclose(policy[:3], target[:3], atol=1e-5)
        np.testing.assert_allclose(policy[3], features.probabilities(start)[3], atol=1e-4)
        steps = LogLinear(features, 1e3, 250)
        huge, _ = steps.project(start, visits, target)
        assert np.isfinite(huge).all() and np.isfinite(steps.divergence(huge, visits, target))


def test_divergence_by_hand():
    policies = LogLinear(Features(one_hot(2, 2)))
    target = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert policies.divergence(np.zeros(2), np.array([0.25, 0.75]), target) == pytest.approx(
        0.25 * np.log(2)
    )


def test_bad_projection_steps_are_refused():
    features = Features(one_hot(3, 2))
    with pytest.raises(InputError, match="projection_step: 'exact' is neither a number nor 'new"):
        LogLinear(features, "exact")
    with pytest.raises(InputError, match="projection_step is -1"):
        LogLinear(features, -1.0)
    with pytest.raises(InputError, match="one configuration at a time"):
        LogLinear(features).project(np.zeros((2, 3)), np.ones((2, 3)) / 3, np.full((2, 3, 2), 0.5))


def test_the_natural_gradient_is_the_shortest_least_squares_fit():
    model, rng = plain.tiny(), np.random.default_rng(0)
    array = rng.standard_normal((4, 3, 3))
    # a redundant feature: many minimisers
    array = np.concatenate([array, array[..., :1] + array[..., 1:2]], -1)
    features, action_values = Features(array), rng.standard_normal((4, 3))
    x = rng.standard_normal(features.rank)
    policy = features.probabilities(x)
    w = LogLinear(features).natural_gradient(
        x, _share(StandardForm.of(model), policy), policy, action_values
    )
    np.testing.assert_allclose(
        features.parameters(w), plain.compatible(model, policy, array, action_values), atol=1e-6
    )


def test_an_action_that_was_nearly_given_up_can_come_back():
    """One of four actions has probability 1e-40: its weight in the regression is far below
    rounding, its direction is not lost.
    """
    model, features = cliff_world(), Features(one_hot(21, 4))
    x = features.coordinates(-92 * np.eye(84)[5])  # state 1, action 1
    policy, action_values = features.probabilities(x), np.zeros((21, 4))
    action_values[1, 1] = 1.0
    w = LogLinear(features).natural_gradient(
        x, _share(StandardForm.of(model), policy), policy, action_values
    )
    direction = features.parameters(w).reshape(21, 4)
    assert direction[1, 1] - direction[1, 0] == pytest.approx(1.0, abs=1e-2)


def test_reverse_kl_finds_the_target_where_the_class_holds_it_and_descends_elsewhere():
    random = np.random.default_rng(0)
    S, A = 4, 3
    target, share = random.dirichlet([1.0] * A, S), random.dirichlet([1.0] * S)
    whole = LogLinear(Features(one_hot(S, A)), "reverse")
    _, policy = whole.project(np.zeros(whole.features.rank), share, target)
    assert policy == pytest.approx(target, abs=1e-5)
    few = LogLinear(Features(random.normal(size=(S, A, 3))), "reverse")
    x, policy = few.project(np.zeros(few.features.rank), share, target)

    def reverse(p):
        return float((share[:, None] * p * np.log(p / target)).sum())

    for _ in range(200):  # a minimum among its neighbours
        near = few.features.probabilities(x + 1e-3 * random.normal(size=x.shape))
        assert reverse(near) >= reverse(policy) - 1e-9
