"""Chains that mix slowly, numbered at random, with no LU to fall back on."""

import numpy as np
import pytest
import scipy.sparse as sp

from cmdpax.errors import NumericalError
from cmdpax.exact import systems
from cmdpax.exact.systems import System
from cmdpax.loops import systems as loops
from cmdpax.loops.rows import Matrix

HARD = (
    "cycle",
    "corridor",
    "reset",
    "walk",
    "ring",
    "function",
    "permutation",
    "directed grid",
    "jumps",
)


def hard_chain(name: str, states: int, seed: int = 0) -> sp.csr_array:
    """`P [S, S]` of a chain that mixes slowly or not at all, with its states numbered at random."""
    rng = np.random.default_rng(seed)
    own, zero = np.arange(states), np.zeros(states, dtype=int)
    forward, back = (own + 1) % states, (own - 1) % states
    side = int(np.sqrt(states))
    near = own + rng.choice([-side, -1, 1, side], (2, states))
    targets, chances = {
        "cycle": ([forward], [1.0]),
        "corridor": ([np.minimum(own + 1, states - 1)], [1.0]),
        "reset": ([forward, zero], [0.999, 0.001]),
        "walk": ([np.minimum(own + 1, states - 1), np.maximum(own - 1, 0)], [0.5, 0.5]),
        "ring": ([forward, back], [0.5, 0.5]),  # periodic
        "function": ([rng.integers(0, states, states)], [1.0]),
        "permutation": ([rng.permutation(states)], [1.0]),
        "directed grid": (list(np.clip(near, 0, states - 1)), [0.9, 0.1]),
        "jumps": ([forward, rng.integers(0, states, states)], [0.99, 0.01]),
    }[name]
    rows, columns = np.tile(own, len(targets)), np.concatenate(targets)
    names = rng.permutation(states)
    chain = sp.csr_array(
        (np.repeat(chances, states), (names[rows], names[columns])), shape=(states, states)
    )
    chain.sum_duplicates()
    return sp.csr_array(
        (chain.data, chain.indices.astype(np.int32), chain.indptr.astype(np.int32)),
        shape=chain.shape,
    )


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("discount", [0.99, 0.9999, 0.99999])
@pytest.mark.parametrize("name", HARD)
def test_hard_chains_need_no_lu(name, discount, transpose, monkeypatch):
    monkeypatch.setattr(systems, "MAX_LU_STATES", 0)
    system = System(Matrix.of(hard_chain(name, 2000)), discount, transpose)
    right = np.full(2000, 1 / 2000) if transpose else np.random.default_rng(1).random(2000)
    for tolerance in (1e-9 * system.size(right), 0.0):
        solution = system.solve(right, tolerance)
        assert system.size(system.residual(solution, right)) <= max(
            tolerance, 1e-14 * system.size(solution)
        )


def breaks_down(system, factors, right, guess, *_):
    return np.full_like(guess, np.nan)


def test_sweeps_rescue_krylov(monkeypatch):
    """A Krylov method that finds nothing leaves the work to Gauss-Seidel, which converges."""
    monkeypatch.setattr(systems, "MAX_LU_STATES", 0)
    monkeypatch.setattr(loops, "bicgstab", breaks_down)
    system = System(Matrix.of(hard_chain("walk", 500)), 0.99)
    right = np.random.default_rng(1).random(500)
    solution = system.solve(right, 1e-9)
    assert system.size(system.residual(solution, right)) <= 1e-9


def test_gives_up_with_an_error_and_no_vector(monkeypatch):
    monkeypatch.setattr(systems, "MAX_LU_STATES", 0)
    monkeypatch.setattr(systems, "ROUNDS", 1)
    monkeypatch.setattr(loops, "bicgstab", lambda system, factors, right, guess, *_: guess.copy())
    with pytest.raises(NumericalError, match="could not be solved"):
        System(Matrix.of(hard_chain("walk", 500)), 0.9999).solve(
            np.random.default_rng(1).random(500)
        )


@pytest.mark.parametrize("krylov_fails", [False, True])
def test_a_stopped_solve_gives_a_finite_vector(krylov_fails, monkeypatch):
    if krylov_fails:
        monkeypatch.setattr(loops, "bicgstab", breaks_down)
    system = System(Matrix.of(hard_chain("walk", 2000)), 0.99999)
    right = np.random.default_rng(1).random(2000)
    asked = []

    def stop():
        asked.append(1)
        return len(asked) >= 4  # both restarts and some of the flow's rounds

    for enough in (stop, lambda: True):
        assert np.isfinite(system.solve(right, stop=enough)).all()
