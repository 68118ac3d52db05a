import numpy as np
import pytest

from cmdpax import InputError, check, solve
from cmdpax.environments import grid_world


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("feasible", [True, False])
def test_solves_without_a_hyperparameter(discount, feasible):
    model = grid_world(width=15, height=12, discount=discount, feasible=feasible)
    result = solve(model)
    assert result.status == ("certified" if feasible else "infeasible")
    check(model, result)


def test_moves_and_slips():
    model = grid_world(width=3, height=3, slip=0.2)
    row = dict(zip(model.successors[4, 1], model.probabilities[4, 1], strict=True))
    assert row == pytest.approx({5: 0.8, 1: 0.1, 7: 0.1})  # up; slides left and right
    np.testing.assert_allclose(model.tensor[8:, :, 9], 1)  # goal and end lead to the end


@pytest.mark.parametrize(
    "wrong", [{"width": 1}, {"slip": 1.0}, {"hazards": -0.1}, {"tightness": 1.0}]
)
def test_bad_settings(wrong):
    with pytest.raises(InputError):
        grid_world(**wrong)
