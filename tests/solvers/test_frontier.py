import signal

import numpy as np
import pytest

from cmdpax import InputError, solve
from cmdpax.environments import cliff_world, garnet, queue
from cmdpax.solvers.frontier import frontier, threshold_range


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
    again = solve(model.replace(thresholds=[-budgets[2]]))
    assert again.reward == pytest.approx(curve[2].reward, abs=1e-4)


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        (garnet(constraints=0), {}, "no constraints"),
        (cliff_world(), {"constraint": 1}, r"constraints 0\.\.0"),
        (cliff_world(), {"points": 1}, "at least 2"),
        (garnet(constraints=2, feasible=False), {"constraint": 1}, "infeasible by themselves"),
        (garnet(actions=1), {}, "never bind"),
    ],
)
def test_bad_input(model, options, sentence):
    with pytest.raises(InputError, match=sentence):
        frontier(model, **options)


def test_an_interrupt_ends_the_curve():
    def interrupt(done, points):
        if done == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="stopping"):
        assert len(frontier(garnet(states=40, constraints=2), 0, points=6, report=interrupt)) == 2


def test_a_coarse_curve_has_exact_ends():
    model = cliff_world()
    assert threshold_range(model, 0, 0.01) == pytest.approx(
        threshold_range(model, 0, 1e-6), abs=1e-4
    )
