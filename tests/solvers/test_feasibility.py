import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from cmdpax import CMDP
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.ranges import attained_ranges
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
    elif truth < -5.1e-7:
        assert verdict.status == "infeasible"
        assert verdict.ray.sum() == pytest.approx(1) and (verdict.ray >= 0).all()
    elif -4.9e-7 < truth < 0.9e-7:
        assert verdict.status == "tight"


@pytest.mark.parametrize("eps", [1e-8, 1e-6, 1e-4])
@pytest.mark.parametrize(
    ("slack", "status"),
    [(0.1, "feasible"), (1e-3, "feasible"), (0.0, "tight"), (-1e-3, "infeasible")],
)
def test_rough_columns_do_not_blur_the_verdict(slack, status, eps):
    """Columns that are off by a hundredth of the tolerance."""
    model = at_slack(garnet(states=400, constraints=2, discount=0.95, seed=4), slack)
    with large_path():
        verdict = decide_feasibility(scaled_form(model), eps, accuracy=0.01 * eps)
    assert verdict.status == status


def test_one_constraint_that_nobody_meets_is_proven_in_a_few_plans():
    """Constraint 0 alone misses by a little under every policy (X6: 731 to 1,376 plans once)."""
    S, seed = 300, 3
    rng, s = np.random.default_rng(seed), np.arange(S)
    ahead, back = np.minimum(s + 1, S - 1), np.maximum(s - 1, 0)
    successors = np.stack([np.stack([ahead, back], 1), np.stack([back, ahead], 1)], 1)
    chances = np.broadcast_to([0.99, 0.01], (S, 2, 2))
    reward = np.zeros((S, 2))
    reward[-1], reward[:, 1] = 1.0, reward[:, 1] + 0.001
    rows = rng.normal(size=(3, S, 2))
    rows[0] = np.where(s[:, None] > S // 2, -rng.random((S, 2)), 0.0)
    model = CMDP((successors, chances), reward, rows, np.zeros(3), 0, 0.9999)
    form = StandardForm.of(model)
    achieved = form.evaluate(model.by_choice(rng.dirichlet(np.full(2, 0.3), S))).margins
    achieved[0] = 0.0
    model = model.replace(thresholds=achieved + 0.002 * form.constraint_scales)
    with large_path():
        verdict = decide_feasibility(scaled_form(model), accuracy=1e-8)
    assert verdict.status == "infeasible" and len(verdict.columns.rewards) <= 40


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
    form = StandardForm.of(cliff_world(threshold=0.3))
    unit = np.ptp(attained_ranges(form).bounds[1])
    assert verdict.columns.margins[0] * unit == pytest.approx(-0.142857 - 0.3, abs=1e-6)


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
