"""Long-run averages, with one end component and with several."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmdpax import CMDP, CertificateError, InputError, check, load_result, save_result, solve
from models import large_path


def wandering(seed, states=6, actions=3, constraints=1, branching=2, offset=0.0):
    """Random moves to few states: often several end components, and states that are left."""
    rng = np.random.default_rng(seed)
    moves = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            to = rng.choice(states, size=branching, replace=False)
            moves[s, a, to] = rng.dirichlet(np.ones(branching))
    if rng.random() < 0.7:  # walls
        moves[:2, :, 2:] = 0.0
        moves[:2, :, 0] += 0.1
        moves[-2:, :, :-2] = 0.0
        moves[-2:, :, -1] += 0.1
        moves /= moves.sum(-1, keepdims=True)
    reward = rng.normal(size=(states, actions)) + offset
    rows = rng.normal(size=(constraints, states, actions))
    start = rng.dirichlet(np.ones(states))
    limits = rng.normal(size=constraints) * 0.3
    return CMDP(moves, reward, rows, limits, start, criterion="average")


def optimum(model):
    """The linear program of all chains: long-run shares x, and visits y before; None: infeasible."""
    rows, K, S = model.transitions, model.choices, model.states
    own = np.eye(S)[rows.state_of].T  # [S, K]
    flow = own - rows.matrix.toarray().T
    nothing = np.zeros((S, K))
    m = model.constraint_count
    answer = linprog(
        np.append(-model.reward, np.zeros(K)),
        A_ub=np.hstack([-model.constraints, np.zeros((m, K))]) if m else None,
        b_ub=-model.thresholds if m else None,
        A_eq=np.vstack([np.hstack([flow, nothing]), np.hstack([own, flow])]),
        b_eq=np.append(np.zeros(S), model.initial),
    )  # fmt: skip
    return -answer.fun if answer.status == 0 else None


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_answers_are_those_of_the_linear_program(seed, is_large):
    model = wandering(seed)
    with large_path() if is_large else nullcontext():
        result = solve(model)
    check(model, result)
    best = optimum(model)
    assert result.status == ("infeasible" if best is None else "certified")
    if best is not None:
        assert result.reward == pytest.approx(best, abs=1e-5)
