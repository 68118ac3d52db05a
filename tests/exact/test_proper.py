"""Total rewards where some policies never end."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from cmdpax import CMDP, CertificateError, InputError, check, load_result, save_result, solve
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


def answer_or_none(model, method=None):
    """None where the goal is out of reach."""
    try:
        return solve(model, method)
    except InputError as error:
        if "no policy surely reaches" not in str(error):
            raise
        return None


@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from([0.0, 0.5]), st.booleans())
def test_answers_are_those_of_the_linear_program(seed, may_stay, zeros, is_large):
    model = cyclic(seed, may_stay=may_stay, zeros=zeros)
    with large_path() if is_large else nullcontext():
        result = answer_or_none(model)
        best = None if result is None else optimum(model)
    if result is None:
        return
    check(model, result)
    assert result.status == ("infeasible" if best is None else "certified")
    if best is not None:
        assert result.reward == pytest.approx(best, abs=1e-5 * (1 + abs(best)))


@given(st.integers(0, 2**32 - 1), st.booleans())
@example(400, False)  # HiGHS misses rows of the quadratic program, and calls it an error
def test_methods_that_plan_agree(seed, may_stay):
    model = cyclic(seed, may_stay=may_stay, zeros=0.3)
    ours = answer_or_none(model)
    for name in ("lp", "dantzig-wolfe", "convex-al") if ours is not None else ():
        other = solve(model, name)
        check(model, other)
        assert other.status == ours.status or (name == "convex-al" and other.scaled_gap < 1e-4)
        assert other.reward == pytest.approx(ours.reward, abs=1e-5 * (1 + abs(ours.reward)))
    with pytest.raises(InputError, match="'pqa-alm' takes discounted and total models only"):
        solve(shop(), "pqa-alm")


def shop(**kind):
    """Wait for nothing, or buy: worth 1, which costs 1."""
    moves = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    pays = [[0.0, 1.0], [0.0, 0.0]]
    names = {"state_names": ["shop", "home"], "action_names": ["wait", "buy"]}
    return CMDP(moves, pays, [pays], [0.5], 0, 1.0, goal="home", senses="<=", **names, **kind)


def test_a_run_that_may_stay_or_leave_is_drawn_at_the_start(tmp_path):
    result = solve(shop(may_stay=True))
    assert check(shop(may_stay=True), result).status == "certified"
    assert result.reward == pytest.approx(0.5) and result.policy is None
    shares = {int(actions[0]): share for share, actions in result.mixture}
    assert shares == pytest.approx({0: 0.5, 1: 0.5})
    assert "a draw of 2 deterministic ones at the start of a run: 0.5, 0.5" in str(result)
    save_result(result, tmp_path / "r.npz")
    again = load_result(tmp_path / "r.npz")
    assert check(shop(may_stay=True), again).status == "certified"
    assert again.mixture[0][0] == result.mixture[0][0]
    shares, (stay, buy) = (0.4, 0.6), (np.array([0, 0]), np.array([1, 0]))
    forged = replace(result, mixture=tuple(zip(shares, (stay, buy))))
    with pytest.raises(CertificateError):
        check(shop(may_stay=True), forged)
    with pytest.raises(CertificateError, match="fingerprints differ"):
        check(shop(), result)


def test_without_leave_to_stay_the_goal_must_be_reached():
    result = solve(shop())
    assert result.status == "infeasible" and result.mixture is None
    check(shop(), result)
    assert solve(shop().replace(thresholds=[1.0])).reward == pytest.approx(1.0)


def test_what_has_no_value_is_refused_by_name():
    earning = shop().replace(reward=[[0.1, 1.0], [0.0, 0.0]])
    with pytest.raises(
        InputError, match="'shop', action 'wait', a run can go round for ever and bet"
    ):
        solve(earning)
    with pytest.raises(InputError, match=r"'wait', a run can .* better constraint c0 each time"):
        solve(shop().replace(constraints=[[[-0.1, 1.0], [0.0, 0.0]]]))
    trap = [[[0.5, 0.0, 0.5]], [[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]]
    lost = CMDP(trap, -np.ones((3, 1)), np.zeros((0, 3, 1)), [], 0, 1.0, goal=[1])
    with pytest.raises(InputError, match="from state 0 no policy surely reaches the goal"):
        solve(lost)


def test_choices_after_which_the_goal_is_out_of_reach_are_dropped_and_counted():
    moves = [[[0.0, 0.5, 0.5], [0.5, 0.5, 0.0]], [[0.0, 1.0, 0.0]] * 2, [[0.0, 0.0, 1.0]] * 2]
    model = CMDP(moves, -np.ones((3, 2)), np.zeros((0, 3, 2)), [], 0, 1.0, goal=[1])
    result = solve(model)
    check(model, result)
    assert result.reward == pytest.approx(-2.0) and result.policy[0, 1] == 1
    assert result.notes == ("1 choice dropped: the end cannot be reached surely any more.",)
    risky = replace(result, policy=np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(CertificateError, match="never reach the end"):
        check(model, risky)


def test_a_cycle_that_only_costs_what_has_no_price_is_left():
    """Waiting costs c alone, and c binds nothing: its price is 0, and waiting is free."""
    moves = [[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0]] * 2]
    reward, cost = [[0.0, -1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]
    model = CMDP(moves, reward, [cost], [5.0], 0, 1.0, goal=[1], senses="<=")
    result = solve(model)
    assert check(model, result).status == "certified"
    assert result.reward == pytest.approx(-1.0)


def grid(n, limit):
    """Walk from one corner to the other; the road through the middle is fast, and has a toll."""
    x, y = np.divmod(np.arange(n * n), n)
    road, here, successors, chances = np.abs(x - y) < n // 4, np.arange(n * n), [], []
    for dx, dy in ((1, 0), (0, 1), (-1, 0), (0, -1)):
        there = np.clip(x + dx, 0, n - 1) * n + np.clip(y + dy, 0, n - 1)
        successors.append(np.stack([there, here], 1))
        ahead = np.where(road, 0.9, 0.5)
        chances.append(np.stack([ahead, 1 - ahead], 1))
    toll = np.repeat(road[:, None], 4, 1).astype(float)
    rows, goal = (np.stack(successors, 1), np.stack(chances, 1)), [n * n - 1]
    parts = rows, np.ones((n * n, 4)), [toll], [limit], 0, 1.0
    return CMDP(*parts, senses="<=", goal=goal, minimise=True)


@pytest.mark.parametrize("n", [40, pytest.param(320, marks=pytest.mark.slow)])
def test_a_way_across_a_grid_leaves_the_road_where_the_toll_is_too_high(n):
    free = solve(grid(n, 10.0 * n))
    assert free.status == "certified"
    assert free.reward == pytest.approx(2 * (n - 1) / 0.9)
    model = grid(n, n)
    result = solve(model)
    assert check(model, result).status == "certified"
    assert result.values[0] == pytest.approx(n)
    # what is walked off the road takes 2 steps instead of 1 / 0.9
    slow = 2 * (n - 1) - 0.9 * n
    assert result.reward == pytest.approx(n + 2 * slow, rel=1e-6)
