"""Plans, values and visits block by block, against dense linear algebra on the same rows."""

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.exact.bounds import Claim
from models import BLOCK_SHAPE, block_form

S, A, _ = BLOCK_SHAPE


def values_of(tensor: np.ndarray, pays: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """`(I - gamma P)^-1 r` of actions `[S]`."""
    each = np.arange(S)
    return np.linalg.solve(np.eye(S) - 0.8 * tensor[each, actions], pays[each, actions])


@given(st.integers(0, 2**32 - 1))
def test_a_plan_is_the_best_of_all_policies(seed):
    form, tensor, functions = block_form(seed)
    mixed = np.array([1.0, -0.7, 0.3])
    pays = np.tensordot(mixed, functions, 1)
    policies = [np.array(actions) for actions in product(range(A), repeat=S)]
    best = max(form.initial @ values_of(tensor, pays, actions) for actions in policies)
    plan = form.criterion.plan(form, mixed)
    assert plan.value >= best - 1e-9
    np.testing.assert_allclose(plan.value, best, rtol=1e-9, atol=1e-9)
    own = form.initial @ values_of(tensor, pays, plan.choices)
    np.testing.assert_allclose(own, best, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_values_and_visits_are_those_of_linear_systems(seed):
    form, tensor, functions = block_form(seed)
    actions = np.random.default_rng(seed).integers(0, A, S)
    claims = [Claim(row, np.abs(row)) for row in np.eye(3)[:2]]
    vectors = form.criterion.potentials(form, actions, claims)
    for vector, pays in zip(vectors, functions, strict=False):
        exact = values_of(tensor, pays, actions)
        middle = (exact.min() + exact.max()) / 2
        np.testing.assert_allclose(vector, exact - middle, atol=1e-10)
    visits = form.criterion.visits(form, actions)
    chain = tensor[np.arange(S), actions]
    exact = np.linalg.solve(np.eye(S) - 0.8 * chain.T, form.initial)
    np.testing.assert_allclose(visits, exact, atol=1e-12)
    guess = form.criterion.visits(form, actions, guess=exact + 0.1)
    np.testing.assert_allclose(guess, exact, atol=1e-12)
    value, (cost,) = form.returns(actions, visits)
    each = np.arange(S)
    np.testing.assert_allclose(value, exact @ functions[0, each, actions], atol=1e-11)
    np.testing.assert_allclose(cost, -exact @ functions[1, each, actions], atol=1e-11)
