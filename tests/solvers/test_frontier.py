import signal
from itertools import pairwise

import numpy as np
import pytest

import cmdpax
from cmdpax import InputError, solve
from cmdpax.environments import cliff_world, garnet, queue
from cmdpax.solvers.frontier import find_constraint, frontier, threshold_range


def test_range_of_cliff_world():
    loose, tight = threshold_range(cliff_world(), 0)
    assert tight == pytest.approx(-0.142857, abs=1e-6)
    assert loose <= -0.383286 + 1e-6  # the optima tie; the solver may return any of them


@pytest.mark.parametrize("constraint", [0, 1])
def test_the_curve_is_concave_and_its_slope_is_the_price(constraint):
    model = garnet(states=40, constraints=2)
    curve = frontier(model, constraint, points=12)
    b, v = np.array([p.threshold for p in curve]), np.array([p.reward for p in curve])
    price = np.array([p.multiplier for p in curve])
    slope = np.diff(v) / np.diff(b)
    assert {p.status for p in curve} == {"certified"}
    assert (np.diff(slope) <= 1e-3).all()
    # a concave function lies below its tangents: the chord's slope lies between the prices at its
    # ends
    assert (-slope >= price[:-1] - 1e-3).all() and (-slope <= price[1:] + 1e-3).all()


def test_a_budget_keeps_its_orientation():
    model = queue(capacity=15)
    curve = frontier(model, points=5)
    budgets = [p.threshold for p in curve]
    assert min(budgets) >= 0 and budgets == sorted(budgets, reverse=True)
    assert min(p.multiplier for p in curve[1:]) > 0
    again = solve(model.replace(thresholds=[budgets[2]]))
    assert again.reward == pytest.approx(curve[2].reward, abs=1e-4)


def test_turning_the_model_turns_the_curve():
    """`energy <= b` as `-energy >= -b`, and a reward to be maximised as a cost to be minimised."""
    model = queue(capacity=10)
    turned = model.replace(
        constraints=-model.constraints, senses=">=", thresholds=-model.thresholds
    )
    cost = model.replace(reward=-model.reward, minimise=True)
    for p, q, r in zip(*(frontier(one, points=4) for one in (model, turned, cost)), strict=True):
        assert (q.threshold, q.reward, q.multiplier) == (-p.threshold, p.reward, p.multiplier)
        assert (r.threshold, r.reward, r.multiplier) == (p.threshold, -p.reward, p.multiplier)
        assert p.gap == q.gap == r.gap >= 0 and p.violation == q.violation == r.violation


def test_a_constraint_is_found_by_index_or_name():
    model = queue(capacity=8)
    assert frontier(model, "energy", points=3) == frontier(model, 0, points=3)
    assert find_constraint(garnet(constraints=2), "c1") == 1


def test_the_callback_sees_every_point():
    rows = []
    curve = frontier(queue(capacity=8), points=3, callback=rows.append)
    assert [(row["done"], row["points"]) for row in rows] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert [row["threshold"] for row in rows] == [point.threshold for point in curve]


def test_other_constraints_may_have_any_sense():
    """Three constraints: a budget, a range and a second budget, of which the first is swept."""
    model = garnet(states=30, constraints=3)
    values = solve(model).values
    mixed = model.replace(
        thresholds=[values[0] + 1, (values[1] - 1, values[1] + 1), values[2]],
        senses=["<=", "in", ">="],
    )
    curve = frontier(mixed, 0, points=4)
    budgets = [point.threshold for point in curve]
    assert budgets == sorted(budgets, reverse=True)
    assert {point.status for point in curve} == {"certified"}
    with pytest.raises(InputError, match=r"'c1' is .*<=c1<=.*; a frontier needs .* single bound"):
        frontier(mixed, "c1")


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (garnet(constraints=0), {}, "no constraints"),
        (cliff_world(), {"constraint": 1}, r"constraints 0\.\.0"),
        (cliff_world(), {"constraint": -1}, r"constraint is -1; .* constraints 0\.\.0"),
        (cliff_world(), {"constraint": 0.5}, r"constraint is 0\.5; .* constraints 0\.\.0"),
        (cliff_world(), {"constraint": None}, r"constraint is None; .* constraints 0\.\.0"),
        (cliff_world(), {"eps": 2}, "eps is 2; it must be a number, more than 0"),
        (cliff_world(), {"callback": 3}, "callback: it must be a function"),
        (3, {}, "model: a CMDP is needed, not int"),
        (queue(), {"constraint": "enrgy"}, r"'enrgy' is not one .* did you mean 'energy'\?"),
        (cliff_world(), {"points": 1}, "at least 2"),
        (cliff_world(), {"points": 2.5}, "points is 2.5; it must be a whole number"),
        (garnet(constraints=2, feasible=False), {"constraint": 1}, "infeasible by themselves"),
        (garnet(actions=1), {}, "'c0': it can never bind"),
    ],
)
def test_bad_input(model, options, sentence):
    with pytest.raises(InputError, match=sentence):
        frontier(model, **options)


def test_an_interrupt_ends_the_curve():
    def interrupt(row):
        if row["done"] == 2:
            signal.raise_signal(signal.SIGINT)

    model = garnet(states=40, constraints=2)
    with pytest.warns(UserWarning, match="stopping"):
        assert len(frontier(model, points=6, callback=interrupt)) == 2


def test_a_coarse_curve_has_exact_ends():
    model = cliff_world()
    coarse, fine = threshold_range(model, 0, 0.01), threshold_range(model, 0, 1e-6)
    assert coarse == pytest.approx(fine, abs=1e-4)


def test_between_two_utilities_one_falls_while_the_other_rises():
    model = cmdpax.environments.garnet(states=10, constraints=1)
    curve = cmdpax.frontier_between(
        model, cmdpax.utilities.linear(), cmdpax.utilities.entropy("pairs"), points=4, eps=1e-4
    )
    assert [point.share for point in curve] == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert all(point.status == "certified" for point in curve)
    first, second = (np.array([getattr(p, name) for p in curve]) for name in ("first", "second"))
    assert (np.diff(first) <= 1e-3).all() and (np.diff(second) >= -1e-3).all()
    assert first[0] == pytest.approx(cmdpax.solve(model).reward, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "constraint"),
    [
        (garnet(states=20, seed=1), 0),
        (garnet(states=15, constraints=3, seed=2), 1),
        (queue(capacity=20), 0),
        (cliff_world(), 0),
    ],
)
def test_between_breakpoints_the_curve_of_the_linear_program_is_a_line(model, constraint):
    curve, rng = frontier(model, constraint), np.random.default_rng(0)
    order = np.argsort([point.threshold for point in curve])
    budgets, rewards = (
        np.array([getattr(p, name) for p in curve])[order] for name in ("threshold", "reward")
    )
    assert {point.status for point in curve} == {"certified"}
    for budget in rng.uniform(budgets[0], budgets[-1], 12):
        entries = list(model.limits.entries)
        entries[constraint] = budget
        optimum = solve(model.replace(thresholds=entries), "lp").reward
        room = 1e-6 * np.ptp(rewards)  # what eps means for either
        assert np.interp(budget, budgets, rewards) == pytest.approx(optimum, abs=room)


def test_a_breakpoint_has_the_slope_before_it_and_the_curve_bends_there():
    curve = frontier(garnet(states=20, seed=1))
    corners = [point for point in curve if point.is_breakpoint]
    for before, here in pairwise(corners):
        slope = (here.reward - before.reward) / (here.threshold - before.threshold)
        assert -slope == pytest.approx(here.multiplier, rel=1e-4)
        assert here.multiplier > before.multiplier
    assert corners[0].multiplier == 0


def test_the_model_s_own_budget_is_a_point():
    model = queue(capacity=20)
    for options in ({}, {"points": 5}):
        own = [p for p in frontier(model, **options) if p.threshold == model.thresholds[0]]
        assert len(own) == 1 and own[0].reward == pytest.approx(solve(model).reward, abs=1e-6)


def test_a_large_curve_has_points_at_equal_distances():
    curve = frontier(garnet(states=450, branching=3), eps=1e-4)
    assert len(curve) == 26 and not any(point.is_breakpoint for point in curve)
