"""Elimination without subtraction against rational numbers, with steps as rare as 1e-200."""

import numpy as np
import pytest
from flint import fmpq, fmpq_mat

from cmdpax import CMDP
from cmdpax.loops import rare
from rational import Rational, rational, real


def chain(seed: int, S: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Moves `[S, S]` of any size, and what is lost, `[S]`."""
    rng = np.random.default_rng(seed)
    moves = 10.0 ** rng.uniform(-60, 0, (S, S)) * (rng.random((S, S)) < 0.8)
    return moves, 10.0 ** rng.uniform(-200, 0, S)


def exact(moves: np.ndarray, lost: np.ndarray) -> fmpq_mat:
    """`I - K`: what leaves a state on the diagonal, less where it goes."""
    S = len(moves)
    matrix = fmpq_mat(S, S)
    for s in range(S):
        others = [t for t in range(S) if t != s]
        for t in others:
            matrix[s, t] = -rational(moves[s, t])
        matrix[s, s] = sum((rational(moves[s, t]) for t in others), rational(lost[s]))
    return matrix


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("transpose", [False, True])
def test_every_number_of_a_solution_has_its_digits(seed, transpose):
    moves, lost = chain(seed)
    right = np.random.default_rng(seed).random((2, len(lost)))
    matrix = exact(moves, lost)
    matrix = matrix.transpose() if transpose else matrix
    ours = rare.solved(rare.factors_of(moves, lost), right, transpose)
    for x, b in zip(ours, right):
        best = matrix.solve(fmpq_mat(len(b), 1, [rational(y) for y in b]))
        np.testing.assert_allclose(x, [real(y) for y in best.entries()], rtol=1e-14)


@pytest.mark.parametrize("seed", range(20))
def test_shares_of_time_have_their_digits(seed):
    moves = chain(seed)[0] + 1e-80
    shares = rare.stationary(moves)
    matrix = exact(moves, np.zeros(len(moves))).transpose()
    for t in range(len(moves)):
        matrix[0, t] = fmpq(1)
    best = matrix.solve(fmpq_mat(len(moves), 1, [fmpq(1)] + [fmpq(0)] * (len(moves) - 1)))
    np.testing.assert_allclose(shares, [real(y) for y in best.entries()], rtol=1e-14)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("discount", [0.99, 1 - 1e-9])
def test_the_best_policy_is_that_of_rational_numbers(seed, discount):
    rng = np.random.default_rng(seed)
    P, reward = rng.dirichlet(np.ones(4), (4, 3)), rng.normal(size=(4, 3))
    model = CMDP(P, reward, [], [], initial=0, discount=discount)
    rows = model.transitions.rows(0, 4)
    choices, values = rare.best_choices(rows, model.reward, None, discount, None)
    best = real(Rational(model).best([rational(x) for x in model.reward]))
    assert values[0] == pytest.approx(best, rel=1e-12)
    assert (choices // 3 == np.arange(4)).all()
