from itertools import chain, combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import lagrangian
from cmdpax.loops import compiled, mixing
from cmdpax.loops.mixing import best_mixture


def mixed_value(alpha, rewards, margins, multipliers, penalty):
    return float(lagrangian.value(alpha @ rewards, alpha @ margins, multipliers, penalty))


def size_of(alpha, rewards, margins, multipliers, penalty):
    """What the terms of the objective's gradient amount to, and rounding in the margins."""
    largest = np.abs(margins).max(0, initial=0)
    weights = lagrangian.weights(multipliers, penalty, alpha @ margins)
    return np.abs(rewards).max() + largest @ weights + 1e-6 * penalty * (largest**2).sum()


@st.composite
def problems(draw, columns=30, constraints=6, penalties=(1e-3, 1e-2, 1.0, 1e2, 1e4, 1e6)):
    """Rewards, margins, multipliers, a penalty and a start: also degenerate ones."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k, m = draw(st.integers(1, columns)), draw(st.integers(0, constraints))
    rewards = rng.normal(size=k)
    margins = rng.normal(size=(k, m)) + draw(st.sampled_from([-1.0, 0.0, 1.0]))
    kind = draw(
        st.sampled_from(["any", "duplicates", "mixtures", "near", "one row", "binary", "no reward"])
    )
    others = rng.integers(0, max(k // 2, 1), k)
    if kind == "duplicates":
        rewards, margins = rewards[others], margins[others]
    elif kind == "mixtures":  # of the first half
        shares = rng.dirichlet(np.ones(max(k // 2, 1)), k)
        rewards, margins = shares @ rewards[: shares.shape[1]], shares @ margins[: shares.shape[1]]
    elif kind == "near":
        rewards, margins = rewards[others], margins[others] + 1e-9 * rng.normal(size=(k, m))
    elif kind == "one row" and m:
        margins = margins[:, :1] * rng.normal(size=m)
    elif kind == "binary":
        rewards, margins = np.round(rewards), np.round(margins)
    elif kind == "no reward":  # phase 1
        rewards = np.zeros(k)
    multipliers = np.maximum(rng.normal(size=m), 0)
    start = rng.dirichlet(np.ones(k)) if draw(st.booleans()) else np.eye(k)[0]
    return rewards, margins, multipliers, draw(st.sampled_from(penalties)), start


@settings(max_examples=300)
@given(problems())
def test_it_satisfies_the_optimality_conditions(problem):
    """No column rises faster than those in use, and at most m + 1 are in use."""
    rewards, margins, multipliers, penalty, start = problem
    alpha = best_mixture(*problem)
    assert alpha.sum() == pytest.approx(1) and (alpha >= 0).all()
    assert (alpha > 0).sum() <= margins.shape[1] + 1
    slopes = rewards + margins @ lagrangian.weights(multipliers, penalty, alpha @ margins)
    size = size_of(alpha, *problem[:4])
    assert slopes.max() - alpha @ slopes <= 1e-9 * (size + 1e-3)
    assert mixed_value(alpha, *problem[:4]) >= mixed_value(start, *problem[:4]) - 1e-9 * (1 + size)


def best_by_enumeration(rewards, margins, multipliers, penalty):
    """The best value over all supports of at most m + 1 columns and all sets of active constraints.

    For each of them the optimality conditions are a linear system.
    """
    k, m = margins.shape
    best = -np.inf
    supports = chain.from_iterable(combinations(range(k), size) for size in range(1, m + 2))
    for support, active in product(supports, product([False, True], repeat=m)):
        columns, rows = list(support), np.array(active, dtype=bool)
        own = margins[np.ix_(columns, rows)]
        system = np.ones((len(columns) + 1, len(columns) + 1))
        system[:-1, :-1], system[-1, -1] = own @ own.T, 0.0
        right = np.append((rewards[columns] + own @ multipliers[rows]) / penalty, 1.0)
        shares = np.linalg.lstsq(system, right)[0][:-1]
        if (shares >= -1e-9).all() and shares.sum() == pytest.approx(1):
            alpha = np.zeros(k)
            alpha[columns] = np.maximum(shares, 0)
            value = mixed_value(alpha / alpha.sum(), rewards, margins, multipliers, penalty)
            best = max(best, value)
    return best


@settings(max_examples=100)
@given(problems(columns=6, constraints=3, penalties=(1e-2, 1.0, 1e2, 1e4)))
def test_it_against_enumeration(problem):
    alpha = best_mixture(*problem)
    ours, best = mixed_value(alpha, *problem[:4]), best_by_enumeration(*problem[:4])
    assert ours == pytest.approx(best, rel=1e-9, abs=1e-9 * size_of(alpha, *problem[:4]))


def test_small_effects_count_beside_a_large_one():
    """Singular values against the largest would take the slack of constraint 0 for dependent."""
    problem = np.array([0.0, -1.0]), np.array([[-1.0, 3.0], [0.0, 1e8]]), np.zeros(2), 10.0
    alpha = best_mixture(*problem, np.array([1.0, 0.0]))
    np.testing.assert_allclose(alpha, [0.1, 0.9])  # -alpha_1 - 5 (1 - alpha_1)^2
    assert mixed_value(alpha, *problem) == pytest.approx(best_by_enumeration(*problem))


def test_every_kind_of_array_is_compiled_once(monkeypatch):
    monkeypatch.setattr(compiled, "PATIENCE", 0.0)
    rng = np.random.default_rng(0)
    rewards, margins, multipliers = rng.random(5), rng.random((5, 2)), rng.random(2)
    multipliers.setflags(write=False)
    expected = best_mixture(rewards, margins, multipliers, 1, np.eye(5)[0])
    for shape in (np.asfortranarray, np.ascontiguousarray, lambda rows: np.repeat(rows, 2, 0)[::2]):
        alpha = best_mixture(rewards, shape(margins), multipliers.copy(), 1.0, np.eye(5)[0])
        np.testing.assert_array_equal(alpha, expected)
    assert len(mixing._minimise.signatures) == 1
