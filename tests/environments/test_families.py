import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plain
from cmdpax import InputError, check, solve
from cmdpax.environments import garnet, inventory, queue
from cmdpax.environments.families import poisson, with_threshold
from cmdpax.exact.standard import StandardForm
from cmdpax.model.transitions import Transitions
from cmdpax.solvers.feasibility import slater_slack
from instances import instance
from models import cmdps


@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([0.9, 0.99]),
)
def test_garnets_are_feasible_or_infeasible_by_construction(
    seed, states, actions, constraints, discount
):
    wanted = {
        "states": states,
        "actions": actions,
        "constraints": constraints,
        "discount": discount,
        "seed": seed,
    }
    impossible = garnet(**wanted, feasible=False)
    result = solve(impossible)
    assert result.status == "infeasible"
    check(impossible, result)
    if actions > 1 and states > 2:  # with one action everything is on the boundary
        assert solve(garnet(**wanted)).status in ("certified", "marginal")


def test_same_seed_same_model():
    assert garnet(seed=4).digest == garnet(seed=4).digest != garnet(seed=5).digest


def test_shapes():
    model = garnet(states=12, actions=3, branching=2, constraints=4)
    assert (model.states, model.actions, model.transitions.longest) == (12, 3, 2)
    assert model.constraints.shape == (4, 36)
    np.testing.assert_allclose(model.transitions.tensor.sum(-1), 1)


@pytest.mark.parametrize("sizes", [(5, 1, 1), (20, 1, 1), (4, 2, 6), (10, 2, 8), (3, 2, 2)])
def test_few_actions_and_many_constraints_are_feasible_too(sizes):
    states, actions, constraints = sizes
    for seed in range(10):
        model = garnet(states=states, actions=actions, constraints=constraints, seed=seed)
        assert slater_slack(StandardForm.of(model)) > 0


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("feasible", [True, False])
def test_queues_are_solved_without_a_hyperparameter(discount, feasible):
    model = queue(capacity=60, discount=discount, feasible=feasible)
    result = solve(model)
    assert result.status == ("certified" if feasible else "infeasible")
    check(model, result)


def test_energy_is_a_budget_in_the_callers_orientation():
    model = queue(capacity=20)
    assert model.senses == ("<=",)
    result = solve(model)
    assert model.constraints.min() == 0 and model.thresholds[0] > 0
    assert result.values[0] == pytest.approx(model.thresholds[0], rel=1e-5)  # discounted energy
    assert "energy" in str(result) and "<=" in str(result)


def test_birth_and_death_probabilities():
    model = queue(capacity=2, arrival=0.4, rates=(0.0, 0.5))
    row = dict(plain.successors(model, 1, 1))
    assert row == pytest.approx({2: 0.4 * 0.5, 0: 0.6 * 0.5, 1: 0.5})
    np.testing.assert_allclose(model.constraints[0, 1 :: model.actions], 0.25)


def test_poisson_sums_to_one_and_has_its_mean():
    chances = poisson(5.0)
    assert chances.sum() == pytest.approx(1.0, abs=1e-15)
    assert chances[:3] == pytest.approx(np.exp(-5.0) * np.array([1, 5, 12.5]))
    assert chances @ np.arange(len(chances)) == pytest.approx(5.0, abs=5e-3)  # the tail is folded


def test_one_pair_of_an_inventory_by_hand():
    model = inventory(
        capacity=3, orders=(0, 2), demand=1.0, margin=2.0, holding=0.5, order_cost=0.25
    )
    chances = poisson(1.0)
    after = 3  # two in stock, two ordered, one of them does not fit
    sales = sum(p * min(d, after) for d, p in enumerate(chances))
    assert model.reward[5] == pytest.approx(2.0 * sales - 0.5 * (after - sales) - 0.25)
    lost = sum(p * max(d - after, 0) for d, p in enumerate(chances))
    assert model.constraints[0, 5] == pytest.approx(lost)
    assert model.transitions.tensor[2, 1] == pytest.approx(
        [1 - chances[:3].sum(), chances[2], chances[1], chances[0]]
    )
    assert model.reward[7] == model.reward[6]  # nothing fits: no order, no charge


@pytest.mark.parametrize("tightness", [0.0, 0.5, 0.95])
def test_an_inventory_is_solved_like_the_linear_program(tightness):
    model = inventory(capacity=40, tightness=tightness)
    result, reference = solve(model), solve(model, "lp")
    assert result.status == reference.status == "certified"
    scale = StandardForm.of(model).reward_scale
    assert result.reward == pytest.approx(reference.reward, abs=1e-5 * scale)


def test_the_constraint_costs_profit():
    loose, tight = (solve(inventory(capacity=60, tightness=share)) for share in (0.1, 0.9))
    assert tight.reward < loose.reward
    assert tight.multipliers[0] > loose.multipliers[0] > 0


def test_infeasible_inventory():
    assert solve(inventory(capacity=40, feasible=False)).status == "infeasible"


@pytest.mark.parametrize(
    ("build", "wrong", "message"),
    [
        (garnet, {"states": 0}, "states"),
        (garnet, {"branching": 0}, "branching"),
        (garnet, {"constraints": 0, "feasible": False}, "at least one constraint"),
        (garnet, {"tightness": 1.0}, "tightness"),
        (queue, {"capacity": 0}, "capacity"),
        (queue, {"arrival": 1.0}, "arrival"),
        (queue, {"rates": ()}, "rate"),
        (queue, {"rates": (2.0,)}, "rate"),
        (queue, {"tightness": 1.0}, "tightness"),
        (inventory, {"capacity": 0}, "capacity"),
        (inventory, {"orders": ()}, "orders"),
        (inventory, {"orders": (-1, 2)}, "orders"),
        (inventory, {"demand": 0.0}, "demand"),
        (inventory, {"demand": np.nan}, "demand"),
        (inventory, {"tightness": 1.0}, "tightness"),
    ],
)
def test_bad_settings(build, wrong, message):
    with pytest.raises(InputError, match=message):
        build(**wrong)


@given(cmdps(constraints=(1, 1)), st.floats(0, 1))
def test_every_threshold_between_the_ends_can_be_met(model, tightness):
    threshold = with_threshold(model, tightness, feasible=True).thresholds
    ends = [with_threshold(model, end, feasible=True).thresholds[0] for end in (0.0, 1.0)]
    assert ends[0] <= ends[1] + 1e-9
    assert threshold[0] == pytest.approx(ends[0] + tightness * (ends[1] - ends[0]))
    scale = StandardForm.of(model).constraint_scales[0]
    unbound = model.replace(reward=model.constraints[0], thresholds=[-1e6 * scale])
    highest = solve(unbound, "lp").reward
    assert ends[1] == pytest.approx(highest, abs=1e-7 * scale)  # the constraint's own optimum
    beyond = with_threshold(model, tightness, feasible=False).thresholds[0]
    assert beyond == pytest.approx(highest + 0.01 * scale, abs=1e-7 * scale)


@given(cmdps(constraints=(1, 1)))
def test_a_tighter_threshold_costs_reward(model):
    rewards = [
        solve(with_threshold(model, tightness, feasible=True), "lp").reward
        for tightness in (0.0, 0.5, 0.9)
    ]
    assert (np.diff(rewards) <= 1e-7 * StandardForm.of(model).reward_scale).all()


def test_a_budget_lies_where_the_turned_constraint_has_its_threshold():
    model = queue(capacity=20)
    turned = model.replace(constraints=-model.constraints, senses=">=", thresholds=[0.0])
    for feasible in (True, False):
        budget, threshold = (
            with_threshold(one, 0.5, feasible).thresholds[0] for one in (model, turned)
        )
        assert budget == -threshold and (budget > 0) == feasible


@pytest.mark.parametrize("count", [1, 8])
def test_how_a_model_is_solved_does_not_say_which_model_it_is(count, monkeypatch):
    made = instance("grid", 400, constraints=count, seed=1)
    assert StandardForm.of(made).is_narrow
    monkeypatch.setattr(Transitions, "is_narrow", False)
    again = instance("grid", 400, constraints=count, seed=1)
    assert np.array_equal(made.thresholds, again.thresholds)
