"""Plans, values and visits block by block, against dense linear algebra on the same rows."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.exact.bounds import Claim
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.forms import BlockForm

S, A, B, DISCOUNT = 6, 2, 3, 0.8


def form_of(seed: int, **kind: object) -> tuple[BlockForm, np.ndarray, np.ndarray]:
    """A random form, its transitions `[S, A, S]`, and reward, cost and 1, `[3, S, A]`."""
    rng = np.random.default_rng(seed)
    successors, chances = rng.integers(0, S, (S, A, B)), rng.dirichlet(np.ones(B), (S, A))
    reward, cost = rng.normal(size=(2, S, A))

    def rows(first, last):
        here = slice(first, last)
        return successors[here], chances[here], reward[here], cost[None, here]

    chosen = {"initial": {0: 0.25, 3: 0.75}, "thresholds": [1.0], "senses": "<=", **kind}
    model = CMDP.from_rows(rows, states=S, discount=DISCOUNT, **chosen)
    tensor = np.zeros((S, A, S))
    for s, a, b in product(range(S), range(A), range(B)):
        tensor[s, a, successors[s, a, b]] += chances[s, a, b]
    criterion = Discounted(DISCOUNT)
    return BlockForm.of(model, criterion), tensor, np.stack([reward, cost, np.ones((S, A))])


def values_of(tensor: np.ndarray, pays: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """`(I - gamma P)^-1 r` of actions `[S]`."""
    each = np.arange(S)
    return np.linalg.solve(np.eye(S) - DISCOUNT * tensor[each, actions], pays[each, actions])


@given(st.integers(0, 2**32 - 1))
def test_a_plan_is_the_best_of_all_policies(seed):
    form, tensor, functions = form_of(seed)
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
    form, tensor, functions = form_of(seed)
    actions = np.random.default_rng(seed).integers(0, A, S)
    claims = [Claim(row, np.abs(row)) for row in np.eye(3)[:2]]
    vectors = form.criterion.potentials(form, actions, claims)
    for vector, pays in zip(vectors, functions, strict=False):
        exact = values_of(tensor, pays, actions)
        middle = (exact.min() + exact.max()) / 2
        np.testing.assert_allclose(vector, exact - middle, atol=1e-10)
    visits = form.criterion.visits(form, actions)
    chain = tensor[np.arange(S), actions]
    exact = np.linalg.solve(np.eye(S) - DISCOUNT * chain.T, form.initial)
    np.testing.assert_allclose(visits, exact, atol=1e-12)
    guess = form.criterion.visits(form, actions, guess=exact + 0.1)
    np.testing.assert_allclose(guess, exact, atol=1e-12)
    value, (cost,) = form.returns(actions, visits)
    each = np.arange(S)
    np.testing.assert_allclose(value, exact @ functions[0, each, actions], atol=1e-11)
    np.testing.assert_allclose(cost, -exact @ functions[1, each, actions], atol=1e-11)


@pytest.mark.parametrize("minimise", [False, True])
def test_functions_are_coefficients_in_the_orientation_of_the_form(minimise):
    form, _, functions = form_of(3, minimise=minimise)
    sign = -1.0 if minimise else 1.0
    np.testing.assert_array_equal(form.reward, [sign, 0, 0])
    np.testing.assert_array_equal(form.constraints, [[0, -1, 0]])  # cost <= 1 is -cost >= -1
    np.testing.assert_array_equal(form.thresholds, [-1])
    np.testing.assert_array_equal(form.pseudo_reward(np.array([2.0])), [sign, -2, 0])
    np.testing.assert_array_equal(form.less(form.reward, 0.5), [sign, 0, -0.5])
    low, high = form.span(np.array([0.0, -2.0, 1.0]))
    np.testing.assert_allclose(
        [low, high], [1 - 2 * functions[1].max(), 1 - 2 * functions[1].min()]
    )


def test_a_mixture_chooses_as_its_columns_visit():
    """`sum_k alpha_k nu_k(s) 1[a = a_k(s)]`, normalised; the fallback where nobody goes."""
    form, *_ = form_of(5)
    choices = [np.zeros(S, dtype=int), np.ones(S, dtype=int)]
    visits = [np.array([1.0, 2, 0, 4, 5, 6]), np.array([3.0, 2, 0, 0, 5, 6])]
    shares, fallback = np.array([0.25, 0.75]), np.ones(S, dtype=int)
    table = form.mixed_policy(shares, choices, visits, fallback, 0.0).table()
    np.testing.assert_allclose(table[:, 0], [0.1, 0.25, 0, 1, 0.25, 0.25])
    np.testing.assert_allclose(table.sum(1), 1)
