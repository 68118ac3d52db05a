"""The forward-KL projection: gradient against finite differences, descent, Newton's minimum, zeros
in the target.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from cmdpax.solvers.policy_classes import Features, one_hot
from cmdpax.solvers.projection import FLOOR, descend, divergence, gradient, newton, surrogate


def problem(seed, S=6, A=3, d=5, zeros=False):
    rng = np.random.default_rng(seed)
    table = rng.standard_normal((S, A, d))
    table /= np.linalg.norm(table, axis=-1).max()  # the paper's normalisation: l is 1-smooth
    target = rng.dirichlet(np.full(A, 0.5), S)
    if zeros:
        target = np.where(target < 0.3, 0.0, target)
        target /= target.sum(1, keepdims=True)
    return Features(table), rng.dirichlet(np.ones(S)), target, rng


def summed(features, visits, target):
    return features.gather_states(visits), features.gather(visits[:, None] * target)


@given(st.integers(0, 10_000))
def test_the_gradient_agrees_with_finite_differences(seed):
    features, visits, target, rng = problem(seed)
    x, (weight, mass), h = (
        rng.standard_normal(features.rank),
        summed(features, visits, target),
        1e-6,
    )
    for i, slope in enumerate(gradient(features, x, weight, mass)):
        e = h * np.eye(features.rank)[i]
        difference = surrogate(features, x + e, weight, mass) - surrogate(
            features, x - e, weight, mass
        )
        assert slope == pytest.approx(difference / (2 * h), abs=1e-8)


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.floats(0.05, 1.0), st.booleans())
def test_divergence_never_rises_for_steps_up_to_one_over_l(seed, size, zeros):
    features, visits, target, rng = problem(seed, zeros=zeros)
    x, before = 3 * rng.standard_normal((1, features.rank)), np.inf
    for _ in range(30):
        after = float(divergence(features, x, visits, target)[0])
        assert 0 <= after <= before + 1e-14
        x, before = descend(features, x, visits[None], target[None], np.array([size]), 1), after


def test_descent_is_the_plain_loop_for_every_member_of_a_batch():
    features, visits, target, rng = problem(3)
    x, sizes = rng.standard_normal((4, features.rank)), np.array([0.1, 1.0, 3.0, 0.01])
    start = x.copy()
    batch = descend(features, x, np.tile(visits, (4, 1)), np.tile(target, (4, 1, 1)), sizes, 20)
    np.testing.assert_array_equal(x, start)  # the caller's array is not touched
    weight, mass = summed(features, visits, target)
    for own, size, found in zip(x, sizes, batch, strict=True):
        for _ in range(20):
            own = own - size * gradient(features, own, weight, mass)
        np.testing.assert_allclose(found, own, atol=1e-12)
    single = descend(features, x[:1], visits[None], target[None], sizes[:1], 20)
    np.testing.assert_array_equal(x, start)
    np.testing.assert_allclose(single[0], batch[0], atol=1e-13)


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.booleans())
def test_newton_finds_the_minimum(seed, zeros):
    features, visits, target, rng = problem(seed, zeros=zeros)
    start = 5 * rng.standard_normal(features.rank)
    found = newton(features, start, visits, target)
    weight, mass = summed(features, visits, (1 - FLOOR) * target + FLOOR / 3)
    other = minimize(
        lambda x: surrogate(features, x, weight, mass),
        np.zeros(features.rank),
        method="BFGS",
        options={"gtol": 1e-9},
    )
    assert surrogate(features, found, weight, mass) <= other.fun + 1e-10


def test_a_target_in_the_class_is_found():
    features, visits, _, rng = problem(1)
    x = rng.standard_normal(features.rank)
    found = newton(features, np.zeros(features.rank), visits, features.probabilities(x))
    np.testing.assert_allclose(features.probabilities(found), features.probabilities(x), atol=1e-5)


def test_zeros_in_the_target_leave_parameters_bounded():
    """Deterministic targets: the infimum of l lies at infinity."""
    features = Features(one_hot(4, 3))
    target = np.eye(3)[[0, 1, 2, 0]]
    visits = np.array([0.5, 0.3, 0.2, 0.0])  # and a state that nobody visits
    for start in (
        np.zeros(features.rank),
        30 * np.random.default_rng(0).standard_normal(features.rank),
    ):
        x = newton(features, start, visits, target)
        assert np.isfinite(x).all() and np.abs(features.logits(x)).max() < 200
        np.testing.assert_allclose(features.probabilities(x)[:3], target[:3], atol=1e-5)
        np.testing.assert_allclose(
            features.probabilities(x)[3], features.probabilities(start)[3], atol=1e-4
        )
        huge = descend(features, start[None], visits[None], target[None], np.array([1e3]), 250)
        assert (
            np.isfinite(huge).all()
            and np.isfinite(divergence(features, huge, visits, target)).all()
        )


def test_divergence_by_hand():
    features = Features(one_hot(2, 2))
    target = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert divergence(
        features, np.zeros(features.rank), np.array([0.25, 0.75]), target
    ) == pytest.approx(0.25 * np.log(2))
