import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.feasibility import decide_feasibility, largest_multiplier, slater_slack
from models import cmdps, large_path
from solvers.tasks import scaled_form


def slack_by_linear_program(model, form):
    """`max_pi min_i margin_i` of the model's form, or its scaled one, by one occupancy program.

    The independent truth: transitions and discount are the model's.
    """
    S, A, m = form.states, form.actions, form.constraint_count
    flow = np.zeros((S, S * A + 1))
    flow[np.repeat(np.arange(S), A), np.arange(S * A)] = 1
    flow[:, : S * A] -= model.discount * model.transitions.matrix.toarray().T
    rows = np.hstack([-form.constraints.reshape(m, S * A), np.ones((m, 1))])
    answer = linprog(
        np.append(np.zeros(S * A), -1.0),
        A_ub=rows,
        b_ub=-form.thresholds,
        A_eq=flow,
        b_eq=form.initial,
        bounds=[(0, None)] * (S * A) + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return -answer.fun


def at_slack(model, slack):
    """The model with thresholds at a known distance (scaled) from the best that can be reached."""
    form = StandardForm.of(model)
    shift = slater_slack(form) - slack * form.constraint_scales.min()
    return model.replace(thresholds=model.thresholds + shift)


@given(cmdps(constraints=(1, 4), states=15))
def test_verdict_agrees_with_the_linear_program(model):
    form = scaled_form(model)
    truth, verdict = slack_by_linear_program(model, form), decide_feasibility(form)
    if truth > 1.1e-7:
        assert verdict.status == "feasible"
        assert (verdict.columns.margins >= 1e-7 - 1e-10).all()
    elif truth < -1.1e-7:
        assert verdict.status == "infeasible"
        assert verdict.ray.sum() == pytest.approx(1) and (verdict.ray >= 0).all()
    elif abs(truth) < 0.9e-7:
        assert verdict.status == "marginal"


@pytest.mark.parametrize("accuracy", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("slack", "status"),
    [(0.1, "feasible"), (1e-4, "feasible"), (0.0, "marginal"), (-1e-4, "infeasible")],
)
def test_rough_columns_do_not_blur_the_verdict(slack, status, accuracy):
    """Columns that are off by more than the thresholds are from what can be reached."""
    model = at_slack(garnet(states=400, constraints=2, discount=0.95, seed=4), slack)
    with large_path():
        assert decide_feasibility(scaled_form(model), accuracy=accuracy).status == status


@given(cmdps(constraints=(1, 4), states=12))
def test_slater_slack_agrees_with_the_linear_program(model):
    model = model.replace(discount=min(model.discount, 0.99))
    form = StandardForm.of(model)
    scale = form.constraint_scales.max() + np.abs(form.constraints).max() * form.criterion.mass
    truth = slack_by_linear_program(model, form)
    assert slater_slack(form) == pytest.approx(truth, abs=1e-6 * scale)


def test_slater_slack_and_largest_multiplier_in_closed_form():
    cliff = StandardForm.of(cliff_world())
    assert slater_slack(cliff) == pytest.approx(-0.142857 + 0.17, abs=1e-6)
    assert largest_multiplier(cliff) == pytest.approx(2 * 10 / (-1 / 7 + 0.17), rel=1e-6)
    assert slater_slack(StandardForm.of(garnet(constraints=0))) == np.inf
    assert largest_multiplier(StandardForm.of(garnet(constraints=0))) == 0
    assert largest_multiplier(StandardForm.of(garnet(feasible=False))) == np.inf


def test_an_infeasible_model_gets_its_least_violating_mixture():
    verdict = decide_feasibility(scaled_form(cliff_world(threshold=0.3)))
    assert verdict.status == "infeasible"
    assert verdict.columns.margins[0] * 10 == pytest.approx(-0.142857 - 0.3, abs=1e-6)


@pytest.mark.parametrize("slack", [1e-3, -1e-3])
def test_few_columns_reach_the_same_verdict(slack):
    """With room for hardly more columns than a mixture needs, old ones leave.

    That is not planning which repeats itself.
    """
    form = scaled_form(at_slack(garnet(states=30, constraints=8, seed=3), slack))
    every, few = decide_feasibility(form), decide_feasibility(form, most=10)
    assert few.status == every.status == ("feasible" if slack > 0 else "infeasible")
    assert len(few.columns.rewards) <= 11 < len(every.columns.rewards)


def test_without_time_there_is_no_verdict():
    verdict = decide_feasibility(scaled_form(cliff_world(threshold=0.3)), stop=lambda: True)
    assert verdict.status == "open" and verdict.ray is None and len(verdict.columns.rewards) == 1
