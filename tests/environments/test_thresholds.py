import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import solve
from cmdpax.environments import queue
from cmdpax.environments.thresholds import with_threshold
from cmdpax.exact.standard import StandardForm
from cmdpax.model.transitions import Transitions
from instances import instance
from models import cmdps


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
