from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from cmdpax import lagrangian
from cmdpax.loops.mixing import master


def mixed_value(alpha, rewards, margins, multipliers, penalty):
    return float(lagrangian.value(alpha @ rewards, alpha @ margins, multipliers, penalty))


@st.composite
def masters(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, m = draw(st.integers(1, 7)), draw(st.integers(0, 3))
    rewards, margins = (
        rng.normal(size=k),
        rng.normal(size=(k, m)) + draw(st.sampled_from([-1.0, 0.0, 1.0])),
    )
    if draw(st.booleans()) and k > 1:  # a duplicate column: degenerate
        rewards[-1], margins[-1] = rewards[0], margins[0]
    if draw(st.booleans()):  # rewards play no part: phase 1
        rewards = np.zeros(k)
    multipliers = np.maximum(rng.normal(size=m), 0)
    start = rng.dirichlet(np.ones(k)) if draw(st.booleans()) else np.eye(k)[0]
    return rewards, margins, multipliers, draw(st.sampled_from([1e-2, 1.0, 1e2, 1e5])), start


@pytest.mark.parametrize("compiled", [False, True])
@given(problem=masters())
def test_it_satisfies_the_optimality_conditions(compiled, problem):
    """On the simplex: every column's price is at most that of the columns in use, and at most m + 1
    are in use.
    """
    rewards, margins, multipliers, penalty, start = problem
    alpha = master(*problem, compiled)
    assert alpha.sum() == pytest.approx(1) and (alpha >= 0).all()
    worth = lagrangian.weights(multipliers, penalty, alpha @ margins)
    price = rewards + margins @ worth
    size = np.abs(rewards).max() + np.abs(margins).max(initial=0) * worth.sum()
    rounding = (
        1e-15 * penalty * np.abs(margins).max(initial=0) ** 2
    )  # of the margins, as the penalty magnifies it
    assert price.max() - alpha @ price <= 1e-9 * (size + 1e-3) + rounding
    assert (alpha > 0).sum() <= margins.shape[1] + 1
    assert mixed_value(alpha, rewards, margins, multipliers, penalty) >= mixed_value(
        start, rewards, margins, multipliers, penalty
    ) - 1e-9 * (1 + size)


def test_it_against_brute_force():
    """Every support of up to m + 1 columns, each solved by a general-purpose optimiser."""
    rng = np.random.default_rng(7)
    for _ in range(5):
        rewards, margins, multipliers = rng.normal(size=5), rng.normal(size=(5, 2)), rng.random(2)
        best = -np.inf
        for support in combinations(range(5), 3):
            chosen = list(support)

            def loss(
                logits, chosen=chosen, rewards=rewards, margins=margins, multipliers=multipliers
            ):
                weights = np.exp(logits - logits.max())
                alpha = np.zeros(5)
                alpha[chosen] = weights / weights.sum()
                return -mixed_value(alpha, rewards, margins, multipliers, 2.0)

            best = max(
                best, *(-minimize(loss, rng.normal(size=3), tol=1e-12).fun for _ in range(3))
            )
        ours = mixed_value(
            master(rewards, margins, multipliers, 2.0, np.eye(5)[0]),
            rewards,
            margins,
            multipliers,
            2.0,
        )
        assert ours == pytest.approx(best, abs=1e-6)
        assert ours >= best - 1e-9


@given(masters())
def test_compiled_or_not_it_finds_the_same_value(problem):
    rewards, margins, multipliers, penalty, _ = problem
    plain, compiled = (
        mixed_value(master(*problem, compiled), rewards, margins, multipliers, penalty)
        for compiled in (False, True)
    )
    assert plain == pytest.approx(compiled, rel=1e-9, abs=1e-9)
