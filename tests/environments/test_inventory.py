import numpy as np
import pytest

from cmdpax.environments import inventory
from cmdpax.environments.inventory import poisson
from cmdpax.errors import InputError
from cmdpax.solvers.certified import solve
from cmdpax.solvers.programs import linear_program


def test_poisson_sums_to_one_and_has_its_mean():
    chances = poisson(5.0)
    assert chances.sum() == pytest.approx(1.0, abs=1e-15)
    assert chances[:3] == pytest.approx(np.exp(-5.0) * np.array([1, 5, 12.5]))
    assert chances @ np.arange(len(chances)) == pytest.approx(5.0, abs=5e-3)  # the tail is folded


def test_one_pair_by_hand():
    model = inventory(
        capacity=3, orders=(0, 2), demand=1.0, margin=2.0, holding=0.5, order_cost=0.25
    )
    chances = poisson(1.0)
    after = 3  # two in stock, two ordered, one of them does not fit
    sales = sum(p * min(d, after) for d, p in enumerate(chances))
    assert model.reward[2, 1] == pytest.approx(2.0 * sales - 0.5 * (after - sales) - 0.25)
    lost = sum(p * max(d - after, 0) for d, p in enumerate(chances))
    assert model.constraints[0, 2, 1] == pytest.approx(-lost)
    assert model.tensor[2, 1] == pytest.approx(
        [1 - chances[:3].sum(), chances[2], chances[1], chances[0]]
    )
    assert model.reward[3, 1] == model.reward[3, 0]  # nothing fits: no order, no charge


@pytest.mark.parametrize("tightness", [0.0, 0.5, 0.95])
def test_solved_like_the_linear_program(tightness):
    model = inventory(capacity=40, tightness=tightness)
    result, reference = solve(model), linear_program(model)
    assert result.status == reference.status == "certified"
    assert result.reward == pytest.approx(reference.reward, abs=1e-5 * model.reward_scale)


def test_the_constraint_costs_profit():
    loose, tight = (
        solve(inventory(capacity=60, tightness=0.1)),
        solve(inventory(capacity=60, tightness=0.9)),
    )
    assert tight.reward < loose.reward
    assert tight.multipliers[0] > loose.multipliers[0] > 0


def test_infeasible_variant():
    assert solve(inventory(capacity=40, feasible=False)).status == "infeasible"


@pytest.mark.parametrize(
    "wrong",
    [
        {"capacity": 0},
        {"orders": ()},
        {"orders": (-1, 2)},
        {"demand": 0.0},
        {"demand": np.nan},
        {"tightness": 1.0},
    ],
)
def test_wrong_input(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        inventory(**wrong)
