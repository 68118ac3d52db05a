from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cmdpax import NumericalError, lagrangian
from cmdpax.environments import cliff_world, garnet
from cmdpax.evaluation import evaluate
from cmdpax.oracles.corrective import COLUMNS, Corrective, add_column, first_column, master
from cmdpax.planning import plan
from random_models import cmdps


def mixed_value(alpha, rewards, margins, multipliers, penalty):
    return float(lagrangian.value(alpha @ rewards, alpha @ margins, multipliers, penalty))


@st.composite
def masters(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, m = draw(st.integers(1, 7)), draw(st.integers(0, 3))
    rewards, margins = rng.normal(size=k), rng.normal(size=(k, m)) + draw(st.sampled_from([-1.0, 0.0, 1.0]))
    if draw(st.booleans()) and k > 1:  # a duplicate column: degenerate
        rewards[-1], margins[-1] = rewards[0], margins[0]
    if draw(st.booleans()):  # rewards play no part: phase 1
        rewards = np.zeros(k)
    multipliers = np.maximum(rng.normal(size=m), 0)
    start = rng.dirichlet(np.ones(k)) if draw(st.booleans()) else np.eye(k)[0]
    return rewards, margins, multipliers, draw(st.sampled_from([1e-2, 1.0, 1e2, 1e5])), start


@given(masters())
def test_master_satisfies_the_optimality_conditions(problem):
    """On the simplex: every column's price is at most that of the columns in use, and at most m + 1 are in use."""
    rewards, margins, multipliers, penalty, start = problem
    alpha = master(*problem)
    assert alpha.sum() == pytest.approx(1) and (alpha >= 0).all()
    worth = lagrangian.weights(multipliers, penalty, alpha @ margins)
    price = rewards + margins @ worth
    size = np.abs(rewards).max() + np.abs(margins).max(initial=0) * worth.sum()
    rounding = 1e-15 * penalty * np.abs(margins).max(initial=0) ** 2  # of the margins, as the penalty magnifies it
    assert price.max() - alpha @ price <= 1e-9 * (size + 1e-3) + rounding
    assert (alpha > 0).sum() <= margins.shape[1] + 1
    assert mixed_value(alpha, rewards, margins, multipliers, penalty) >= mixed_value(
        start, rewards, margins, multipliers, penalty
    ) - 1e-9 * (1 + size)


def test_master_against_brute_force():
    """Every support of up to m + 1 columns, each solved by a general-purpose optimiser."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        rewards, margins, multipliers = rng.normal(size=5), rng.normal(size=(5, 2)), rng.random(2)
        best = -np.inf
        for support in combinations(range(5), 3):
            chosen = list(support)

            def loss(logits, chosen=chosen, rewards=rewards, margins=margins, multipliers=multipliers):
                weights = np.exp(logits - logits.max())
                alpha = np.zeros(5)
                alpha[chosen] = weights / weights.sum()
                return -mixed_value(alpha, rewards, margins, multipliers, 2.0)

            best = max(best, *(-minimize(loss, rng.normal(size=3), tol=1e-12).fun for _ in range(3)))
        ours = mixed_value(master(rewards, margins, multipliers, 2.0, np.eye(5)[0]), rewards, margins, multipliers, 2.0)
        assert ours == pytest.approx(best, abs=1e-6)
        assert ours >= best - 1e-9


@given(cmdps(constraints=(1, 3), states=15))
def test_the_mixture_is_one_stationary_policy_with_the_mixed_values(model):
    oracle, multipliers = Corrective(), np.full(model.constraint_count, 0.3)
    columns = oracle.start(model)
    for _ in range(6):
        columns = oracle.advance(model, columns, multipliers, 1.0)
    found = evaluate(model, oracle.policy(model, columns))
    scale = model.reward_scale + np.abs(model.reward).max() / (1 - model.discount)
    assert float(found.reward) == pytest.approx(columns.reward, abs=1e-9 * scale)
    sizes = model.constraint_scales + np.abs(model.constraints).max((1, 2)) / (1 - model.discount)
    assert (np.abs(found.margins - columns.margins) <= 1e-9 * sizes).all()


def test_the_gap_closes_and_bounds_the_truth():
    model, oracle, multipliers = garnet(states=30, constraints=3), Corrective(), np.full(3, 0.1)
    columns, seen = oracle.start(model), []
    for _ in range(40):
        columns = oracle.advance(model, columns, multipliers, 2.0)
        value = float(lagrangian.value(columns.reward, columns.margins, multipliers, 2.0))
        seen.append((value, oracle.subproblem(model, columns, multipliers, 2.0).gap))
    best = seen[-1][0]
    assert seen[-1][1] <= 1e-10
    assert all(best - value <= gap + 1e-10 for value, gap in seen)


def test_columns_are_not_repeated_and_their_number_is_limited():
    model = cliff_world()
    best = plan(model, model.reward)
    columns = first_column(model, best)
    assert len(add_column(model, columns, best).actions) == 1
    rng = np.random.default_rng(0)
    for _ in range(COLUMNS + 30):
        columns = add_column(model, columns, replace(best, actions=rng.integers(0, 4, 21)))
    assert len(columns.actions) <= COLUMNS
    assert columns.mixture[0] == 1  # a column in use is never dropped


def test_no_gap_before_the_first_step():
    model = cliff_world()
    with pytest.raises(NumericalError, match="before the first step"):
        Corrective().subproblem(model, Corrective().start(model), np.zeros(1), 1.0)
