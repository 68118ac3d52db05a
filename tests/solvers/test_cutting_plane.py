import numpy as np
import pytest

from cmdpax import check
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.cutting_plane import cutting_plane, soft_optimum


@pytest.mark.parametrize(
    ("environment", "optimum", "price"),
    [(cliff_world, 0.655402, 0.171), (deep_sea, 0.392671, 0.203158)],
)
def test_bisection_finds_the_known_optima(environment, optimum, price):
    model = environment()
    result = cutting_plane(model)
    check(model, result)
    assert result.reward == pytest.approx(optimum, abs=1e-5)
    assert result.multipliers[0] == pytest.approx(price, abs=3e-4)


def test_several_constraints_reach_the_regularisation_error():
    model = garnet(states=40, constraints=3)
    result = cutting_plane(model, entropy=1e-4, cuts=150)
    check(model, result)
    assert abs(result.scaled_gap) < 1e-3 and result.scaled_violation < 1e-2


def test_the_regularised_dual_has_the_margins_as_gradient():
    model, w, h = normalise(garnet(states=10, constraints=2)), np.array([0.3, 0.2]), 1e-5
    start = model.uniform_policy()
    margins = soft_optimum(model, w, 0.01, start)[2]
    for i in range(2):
        step = h * np.eye(2)[i]
        slope = (
            soft_optimum(model, w + step, 0.01, start)[1]
            - soft_optimum(model, w - step, 0.01, start)[1]
        ) / (2 * h)
        assert slope == pytest.approx(margins[i], abs=1e-6)


def test_an_inactive_constraint_stops_at_once():
    result = cutting_plane(cliff_world(threshold=-5.0))
    assert result.multipliers[0] == 0 and result.status == "certified"
