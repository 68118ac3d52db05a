import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax.environments import cliff_world
from cmdpax.exact import discounted as evaluation
from cmdpax.exact.discounted import (
    occupancy,
    solve_linear,
    stacked_rewards,
    state_values,
    transition_matrix,
    under_policy,
)
from random_models import cmdps

small = pytest.importorskip("cmdpax.loops.small")


@settings(max_examples=50)
@given(cmdps())
def test_compiled_and_dense_agree(model):
    policies = np.random.default_rng(0).dirichlet(np.ones(model.actions), (3, model.states))
    rewards = stacked_rewards(model)
    matrix, horizon = transition_matrix(model, policies), 1 / (1 - model.discount)
    dense = solve_linear(matrix, model.discount, under_policy(rewards, policies[:, None]))
    found = small.values(
        model.successors, model.probabilities, model.discount, policies, rewards[None]
    )
    size = 1 + np.abs(dense).max()
    np.testing.assert_allclose(found, dense, rtol=0, atol=1e-14 * horizon * size)
    start = np.broadcast_to(model.initial, (3, 1, model.states))
    visits = solve_linear(matrix, model.discount, start, transpose=True)[:, 0]
    np.testing.assert_allclose(occupancy(model, policies), visits, rtol=0, atol=1e-14 * horizon**2)


def test_every_policy_may_have_rewards_of_its_own():
    model = cliff_world()
    rng = np.random.default_rng(0)
    policies, rewards = rng.dirichlet(np.ones(4), (2, 3, 21)), rng.random((2, 3, 2, 21, 4))
    found = state_values(model, policies, rewards)
    assert found.shape == (2, 3, 2, 21)
    np.testing.assert_allclose(
        found[1, 2], state_values(model, policies[1, 2], rewards[1, 2]), atol=1e-13
    )


def test_a_policy_that_is_not_finite_spoils_only_itself():
    model = cliff_world()
    policies = np.stack([model.uniform_policy(), np.full((21, 4), np.nan)])
    found = small.values(
        model.successors,
        model.probabilities,
        model.discount,
        policies,
        stacked_rewards(model)[None],
    )
    assert np.isfinite(found[0]).all() and np.isnan(found[1]).any()


def test_without_numba_the_numbers_are_the_same(monkeypatch):
    model = cliff_world()
    policies = np.random.default_rng(0).dirichlet(np.ones(4), (5, 21))
    compiled = state_values(model, policies, stacked_rewards(model)), occupancy(model, policies)
    monkeypatch.setattr(evaluation, "_small", lambda: None)
    np.testing.assert_allclose(
        state_values(model, policies, stacked_rewards(model)), compiled[0], atol=1e-13
    )
    np.testing.assert_allclose(occupancy(model, policies), compiled[1], atol=1e-13)
