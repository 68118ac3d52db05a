"""Total rewards where some policies never end."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmdpax import CMDP, InputError, check, solve
from cmdpax.exact.standard import StandardForm
from models import large_path


def cyclic(seed, states=6, constraints=1, cost=1.0, may_stay=False, zeros=0.0):
    """Random moves without a leak: only some choices lead to the goal, and cycles cost."""
    rng = np.random.default_rng(seed)
    S, A = states + 1, 3
    moves = np.zeros((S, A, S))
    for s in range(states):
        for a in range(A):
            to = rng.choice(states if a else S, size=2, replace=False)
            moves[s, a, to] += rng.dirichlet(np.ones(2))
    moves[rng.integers(states), 0] = np.eye(S)[states]
    moves[states] = np.eye(S)[states]
    reward = -cost * rng.uniform(0.1, 1, (S, A))
    rows = -rng.uniform(0, 1, (constraints, S, A)) * (rng.random((constraints, S, A)) < 0.5)
    free = rng.random((S, A)) < zeros
    reward[free], rows[:, free] = 0.0, 0.0
    kind = {"goal": [states], "may_stay": may_stay}
    return CMDP(moves, reward, rows, np.full(constraints, -1.0), 0, 1.0, **kind)


def optimum(model):
    """The linear program over visits of policies that surely end, or None."""
    form = StandardForm.of(model)
    flow = form.criterion.flow(form).toarray()
    seen = form.reachable
    own = form.transitions.by_state(seen)
    answer = linprog(
        -form.reward[own], A_ub=-form.constraints[:, own], b_ub=-form.thresholds,
        A_eq=flow[np.ix_(seen, own)], b_eq=form.initial[seen],
    )  # fmt: skip
    return -answer.fun if answer.status == 0 else None


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.5]), st.booleans())
def test_answers_are_those_of_the_linear_program(seed, may_stay, zeros, is_large):
    model = cyclic(seed, may_stay=may_stay, zeros=zeros)
    with large_path() if is_large else nullcontext():
        try:
            best = optimum(model)
        except InputError as error:
            assert "no policy surely reaches" in str(error)
            return
        result = solve(model)
    check(model, result)
    assert result.status == ("infeasible" if best is None else "certified")
    if best is not None:
        assert result.reward == pytest.approx(best, abs=1e-5 * (1 + abs(best)))
