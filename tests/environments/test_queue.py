import numpy as np
import pytest

from cmdpax import InputError, check, solve
from cmdpax.environments import queue


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("feasible", [True, False])
def test_solves_without_a_hyperparameter(discount, feasible):
    model = queue(capacity=60, discount=discount, feasible=feasible)
    result = solve(model)
    assert result.status == ("certified" if feasible else "infeasible")
    check(model, result)


def test_energy_is_a_budget_in_the_callers_orientation():
    model = queue(capacity=20)
    assert model.senses == ("<=",)
    result = solve(model)
    value = -(result.margins[0] + model.thresholds[0])  # discounted energy
    assert value == pytest.approx(-model.thresholds[0], rel=1e-5)
    assert "energy" in str(result) and "<=" in str(result)


def test_birth_and_death_probabilities():
    model = queue(capacity=2, arrival=0.4, rates=(0.0, 0.5))
    row = dict(zip(model.successors[1, 1], model.probabilities[1, 1], strict=True))
    assert row == pytest.approx({2: 0.4 * 0.5, 0: 0.6 * 0.5, 1: 0.5})
    np.testing.assert_allclose(model.constraints[0, :, 1], -0.25)


@pytest.mark.parametrize(
    "wrong",
    [{"capacity": 0}, {"arrival": 1.0}, {"rates": ()}, {"rates": (2.0,)}, {"tightness": 1.0}],
)
def test_bad_settings(wrong):
    with pytest.raises(InputError):
        queue(**wrong)
