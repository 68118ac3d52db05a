"""The long run of one policy, against chains whose gains, h and shares are known by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.exact.settled import Settled
from models import uneven

P = np.array(  # 0 leads to {1, 2} with 1/4 and to {3} with 3/4, after two moves on average
    [[0.5, 0.125, 0, 0.375], [0, 0.5, 0.5, 0], [0, 1, 0, 0], [0, 0, 0, 1]]
)


def chain_of(moves: np.ndarray) -> Settled:
    """The chain of a model with one choice in every state."""
    from cmdpax import CMDP

    n = len(moves)
    model = CMDP(moves[:, None], np.zeros((n, 1)), [], [], 0, 0.9)
    return Settled.of(model.transitions, np.arange(n))


def test_classes_and_the_way_there():
    chain = chain_of(P)
    np.testing.assert_array_equal(chain.is_settled, [False, True, True, True])
    assert chain.label[1] == chain.label[2] != chain.label[3]
    start = np.array([1.0, 0, 0, 0])
    np.testing.assert_allclose(chain.visits(start), [2, 0.25, 0, 0.75], atol=1e-15)
    np.testing.assert_allclose(chain.chances(start), [0, 0.25, 0.25, 0.75], atol=1e-15)
    shares = chain.long_run(chain.visits(start))
    np.testing.assert_allclose(shares, [0, 0.25 * 2 / 3, 0.25 / 3, 0.75], atol=1e-15)
    np.testing.assert_allclose(chain.steps(), [1, 0, 0, 0], atol=1e-15)  # moves to other states


def test_gains_by_hand():
    """1 is paid in state 1, where a run is two thirds of its time, and 5 in state 3."""
    gains, *_ = chain_of(P).evaluated(np.array([[0.0, 1, 0, 5]]))
    np.testing.assert_allclose(gains[0], [0.25 * 2 / 3 + 0.75 * 5, 2 / 3, 2 / 3, 5], rtol=1e-14)


@given(st.integers(0, 2**32 - 1))
def test_h_solves_the_equation_of_the_average(seed):
    """`x + P h = g + h` in one class."""
    rng = np.random.default_rng(seed)
    moves, paid = rng.dirichlet(np.ones(5), 5), rng.normal(size=(2, 5))
    gains, h, tails = chain_of(moves).evaluated(paid)
    left = paid + (h + tails) @ moves.T - h - tails - gains
    np.testing.assert_allclose(left, 0, atol=1e-12)
    values, vectors = np.linalg.eig(moves.T)
    stationary = np.real(vectors[:, np.argmax(np.real(values))])
    stationary /= stationary.sum()
    np.testing.assert_allclose(gains[:, 0], paid @ stationary, atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_small_and_large_chains_agree(seed):
    """Dense elimination with guarded digits, and sparse solves."""
    model = uneven(8, seed)
    policy = model.transitions.uniform_policy()
    small = Settled.of(model.transitions, policy)
    large = Settled(small.order, small.matrix, small.label, small.is_settled, False)
    paid = np.random.default_rng(seed).normal(size=(2, 8))
    np.testing.assert_allclose(large.evaluated(paid)[0], small.evaluated(paid)[0], atol=1e-9)
    np.testing.assert_allclose(
        large.long_run(model.initial), small.long_run(model.initial), atol=1e-9
    )
