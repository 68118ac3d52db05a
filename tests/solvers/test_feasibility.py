import numpy as np
import pytest
from hypothesis import given
from scipy.optimize import linprog

from cmdpax.environments import cliff_world, garnet
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.feasibility import decide, slater_slack
from models import cmdps, large_path


def slack_by_linear_program(model):
    """`max_pi min_i margin_i` as one occupancy program, the independent truth."""
    S, A, m = model.states, model.actions, model.constraint_count
    flow = np.zeros((S, S * A + 1))
    flow[np.repeat(np.arange(S), A), np.arange(S * A)] = 1
    flow[:, : S * A] -= model.discount * model.matrix.toarray().T
    rows = np.hstack([-model.constraints.reshape(m, S * A), np.ones((m, 1))])
    answer = linprog(
        np.append(np.zeros(S * A), -1.0),
        A_ub=rows,
        b_ub=-model.thresholds,
        A_eq=flow,
        b_eq=model.initial,
        bounds=[(0, None)] * (S * A) + [(None, None)],
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.status == 0
    return -answer.fun


@given(cmdps(constraints=(1, 4), states=15))
def test_verdict_agrees_with_the_linear_program(model):
    scaled = normalise(model)
    truth, verdict = slack_by_linear_program(scaled), decide(scaled)
    if truth > 1.1e-7:
        assert verdict.status == "feasible"
        assert (verdict.columns.margins >= 1e-7 - 1e-10).all()
    elif truth < -1.1e-7:
        assert verdict.status == "infeasible"
        assert (
            verdict.ray is not None
            and verdict.ray.sum() == pytest.approx(1)
            and (verdict.ray >= 0).all()
        )
    elif abs(truth) < 0.9e-7:
        assert verdict.status == "marginal"


@pytest.mark.parametrize("accuracy", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize(
    ("slack", "status"),
    [(0.1, "feasible"), (1e-4, "feasible"), (0.0, "marginal"), (-1e-4, "infeasible")],
)
def test_rough_columns_do_not_blur_the_verdict(slack, status, accuracy):
    """Thresholds at a known distance from the best that can be reached; columns that are off by
    more than that.
    """
    model = garnet(states=400, constraints=2, discount=0.95, seed=4)
    model = model.replace(
        thresholds=model.thresholds + slater_slack(model) - slack * model.constraint_scales.min()
    )
    with large_path():
        assert decide(normalise(model), accuracy=accuracy).status == status


@given(cmdps(constraints=(1, 4), states=12))
def test_slater_slack_agrees_with_the_linear_program(model):
    model = model.replace(discount=min(model.discount, 0.99))
    scale = model.constraint_scales.max() + np.abs(model.constraints).max() / (1 - model.discount)
    assert slater_slack(model) == pytest.approx(slack_by_linear_program(model), abs=1e-6 * scale)


def test_slater_slack_closed_forms():
    assert slater_slack(cliff_world()) == pytest.approx(-0.142857 + 0.17, abs=1e-6)
    assert slater_slack(garnet(constraints=0)) == np.inf


def test_an_infeasible_model_gets_its_least_violating_mixture():
    scaled = normalise(cliff_world(threshold=0.3))
    verdict = decide(scaled)
    assert verdict.status == "infeasible"
    assert verdict.columns.margins[0] * 10 == pytest.approx(-0.142857 - 0.3, abs=1e-6)


@pytest.mark.parametrize("slack", [1e-3, -1e-3])
def test_few_columns_reach_the_same_verdict(slack):
    """With room for hardly more columns than a mixture needs, old ones leave; that is not planning
    which repeats itself.
    """
    model = garnet(states=30, constraints=8, seed=3)
    model = model.replace(
        thresholds=model.thresholds + slater_slack(model) - slack * model.constraint_scales.min()
    )
    scaled = normalise(model)
    every, few = decide(scaled), decide(scaled, most=10)
    assert few.status == every.status == ("feasible" if slack > 0 else "infeasible")
    assert len(few.columns.rewards) <= 11 < len(every.columns.rewards)


def test_without_time_there_is_no_verdict():
    scaled = normalise(cliff_world(threshold=0.3))
    verdict = decide(scaled, stop=lambda: True)
    assert verdict.status == "open" and verdict.ray is None and len(verdict.columns.rewards) == 1
