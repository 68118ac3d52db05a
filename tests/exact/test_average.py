"""Long-run averages, with one end component and with several."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmdpax import (
    CMDP,
    CertificateError,
    InputError,
    check,
    load_model,
    load_policy,
    load_result,
    save_model,
    save_result,
    solve,
)
from cmdpax.environments import queue
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
    """The linear program of all chains: long-run shares x, visits y before; or None."""
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


@given(st.integers(0, 2**32 - 1))
def test_methods_that_plan_agree(seed):
    model = wandering(seed, branching=4)
    ours = solve(model)
    for name in ("lp", "dantzig-wolfe", "convex-al"):
        try:
            other = solve(model, name)
        except InputError as error:
            if "with one end component" not in str(error):
                raise
            continue
        check(model, other)
        assert other.status == ours.status or (name == "convex-al" and other.scaled_gap < 1e-4)
        assert other.reward == pytest.approx(ours.reward, abs=1e-5)


def rooms(limit, is_loop=True):
    """Work for 1, at a cost of 1, or leave and rest; or choose between both at the start."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 1] = moves[2, :, 2] = 1.0
    if is_loop:
        moves[1, 1] = moves[0, 1]
    pays = np.array([[0.0, 0.0], [1.0, 0.0 if is_loop else 1.0], [0.0, 0.0]])
    start = 1 if is_loop else 0
    return CMDP(moves, pays, [pays], [limit], start, criterion="average", senses="<=")


def test_one_policy_is_enough_where_nobody_passes_what_others_stay_in():
    model = rooms(0.25, is_loop=False)
    result = solve(model)
    assert check(model, result).status == "certified" and result.mixture is None
    np.testing.assert_allclose(result.policy[0], [0.25, 0.75], atol=1e-6)


def test_a_run_that_stays_or_leaves_for_ever_is_drawn_at_the_start(tmp_path):
    model = rooms(0.25)
    result = solve(model)
    assert check(model, result).status == "certified" and result.reward == pytest.approx(0.25)
    assert sum(share for share, actions in result.mixture if actions[1] == 0) == pytest.approx(0.25)
    save_result(result, tmp_path / "r.npz")
    save_model(model, tmp_path / "m.json")
    again, same = load_result(tmp_path / "r.npz"), load_model(tmp_path / "m.json")
    assert check(same, again).status == "certified" and same.criterion == "average"
    save_model(model, tmp_path / "m.npz")
    assert load_model(tmp_path / "m.npz").digest == model.digest == same.digest
    actions = [actions for _, actions in result.mixture]
    forged = replace(result, mixture=((0.3, actions[0]), (0.7, actions[1])))
    with pytest.raises(CertificateError):
        check(model, forged)
    policy = load_policy(tmp_path / "r.npz")
    drawn = [int(policy.reset(seed) or policy(1)) for seed in range(200)]
    assert 0.1 < np.mean(np.array(drawn) == 0) < 0.4


def test_periods_and_transient_states_do_not_matter():
    """A ring of n states that pays once a round, after a way in."""
    n = 50
    ring = np.zeros((n + 1, 1, n + 1))
    ring[np.arange(n), 0, np.arange(1, n + 1)] = 1.0
    ring[n, 0, 1] = 1.0
    reward = np.zeros((n + 1, 1))
    reward[n] = 1.0
    reward[0] = 1e6  # paid once, and nothing in the long run
    model = CMDP(ring, reward, np.zeros((0, n + 1, 1)), [], 0, criterion="average")
    result = solve(model)
    assert check(model, result).status == "certified"
    assert result.reward == pytest.approx(1 / n, rel=1e-9)


def test_a_discount_close_to_one_is_nearly_an_average():
    model = wandering(3, branching=4)
    ours = solve(model)
    near = model.replace(criterion=None, discount=1 - 1e-7).replace(
        thresholds=model.thresholds * 1e7
    )
    assert ours.reward == pytest.approx(solve(near).reward * 1e-7, abs=1e-5)


def test_a_queue_serves_for_its_energy():
    """Against the linear program of shares of time."""
    model = queue(60).replace(criterion="average", thresholds=[0.25])
    result = solve(model)
    assert check(model, result).status == "certified" and result.policy is not None
    assert result.reward == pytest.approx(optimum(model.replace(senses=None, constraints=
        -model.constraints, thresholds=[-0.25])), rel=1e-6)  # fmt: skip
    assert result.values[0] == pytest.approx(0.25)


def test_what_an_average_is_not():
    model = rooms(0.25)
    with pytest.raises(InputError, match="an average has no discount"):
        model.replace(discount=0.9, criterion="average")
    assert model.replace(discount=0.9).criterion == "discounted"
    with pytest.raises(InputError, match="criterion: 'mean' is unknown"):
        model.replace(criterion="mean")
    with pytest.raises(InputError, match=r"discount: give it, for example 0\.95"):
        model.replace(criterion=None, discount=None)
    with pytest.raises(InputError, match="'npg-pd' takes discounted and total models only, and th"):
        solve(model, "npg-pd")
    with pytest.raises(InputError, match="with one end component, and this one has several"):
        solve(model, "lp")
