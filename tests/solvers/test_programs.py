import highspy
import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax import InputError, check, solve
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers import programs
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.feasibility import decide_feasibility
from cmdpax.solvers.programs import (
    cutting_plane,
    dantzig_wolfe,
    linear_program,
    maximise_al,
    occupancy_program,
    soft_optimum,
    solve_program,
)
from models import cmdps
from solvers.tasks import scaled_form, task_for

OPTIMA = [(cliff_world, 0.655402, 0.171), (deep_sea, 0.392671, 0.203158)]


@pytest.mark.parametrize("algorithm", ["simplex", "ipm"])
@pytest.mark.parametrize(("environment", "optimum", "price"), OPTIMA)
def test_reference_optima(algorithm, environment, optimum, price):
    model = environment()
    result = solve(model, "lp", algorithm=algorithm)
    assert result.status == "certified"
    assert result.reward == pytest.approx(optimum, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(price, abs=1e-5)
    check(model, result)


@settings(max_examples=20)
@given(cmdps(constraints=(0, 0), states=8))
def test_without_constraints_it_is_planning(model):
    form = StandardForm.of(model)
    best = form.criterion.plan(form, form.reward).value
    assert solve(model, "lp").reward == pytest.approx(best, abs=1e-6 * form.reward_scale)


def test_an_infeasible_program_is_not_called_optimal():
    """HiGHS has numbers for it all the same; nothing but the certificate may say what they are."""
    form = scaled_form(garnet(states=10, feasible=False))
    policy, _, _ = solve_program(form)
    assert form.evaluate(policy).margins.min() < -1e-3
    assert solve(garnet(states=10, feasible=False), "lp").status == "infeasible"


def test_unknown_algorithm():
    with pytest.raises(InputError, match="none of simplex, ipm, hipo"):
        solve(cliff_world(), "lp", algorithm="magic")


def test_hipo_without_its_package_is_refused_not_replaced(monkeypatch):
    monkeypatch.setattr(programs, "find_spec", lambda name: None)
    with pytest.raises(InputError, match="highspy-extras"):
        solve_program(scaled_form(cliff_world()), "hipo")


def test_policy_and_objective_agree():
    model = garnet(states=25, constraints=3, discount=0.99)
    form = StandardForm.of(model)
    policy, weights, objective = solve_program(form)
    np.testing.assert_allclose(form.evaluate(policy).reward, objective, rtol=1e-6)
    result = solve(model, "lp")
    np.testing.assert_allclose(result.reward, objective, rtol=1e-6)
    np.testing.assert_allclose(result.multipliers, weights, atol=1e-6)


def test_occupancies_satisfy_the_program():
    """`flow @ d = rho / mass`, and the other rows are the values of the constraints."""
    form = StandardForm.of(garnet(states=12, constraints=2))
    policy = np.random.default_rng(0).dirichlet(np.ones(form.actions), form.states).ravel()
    share = form.transitions.by_state(form.criterion.share(form, policy)) * policy
    program, evaluation = occupancy_program(form), form.evaluate(policy)
    rows = program.matrix @ share
    np.testing.assert_allclose(rows[:12], program.inflow, atol=1e-12)
    np.testing.assert_allclose(rows[12:] - program.lower, evaluation.margins, atol=1e-12)
    assert program.objective @ share == pytest.approx(float(evaluation.reward))


def test_interior_point_means_ipx(monkeypatch):
    """HiGHS runs HiPO for 'ipm' where highspy-extras is installed; a comparison must know which."""
    chosen, set_option = [], highspy.Highs.setOptionValue

    def note(solver, option, setting):
        chosen.extend([setting] if option == "solver" else [])
        return set_option(solver, option, setting)

    monkeypatch.setattr(highspy.Highs, "setOptionValue", note)
    form = scaled_form(cliff_world())
    rewards = [solve_program(form, algorithm)[2] for algorithm in ("simplex", "ipm")]
    assert chosen == ["simplex", "ipx"] and rewards[0] == pytest.approx(rewards[1])


def test_the_linear_program_gets_the_time_that_is_left():
    form = scaled_form(garnet(states=300, constraints=2))
    optimum = solve_program(form)[2]
    answer = linear_program(form, task_for(form, seconds_left=0.0))
    assert abs(float(form.evaluate(answer.policy).reward) - optimum) > 1e-3
    # phase 1 is done at once, since nothing is asked for, and the time is up
    assert solve(garnet(states=300, constraints=0), "lp", time_limit=0.0).status == "limit"


@pytest.mark.parametrize(
    ("model", "optimum"),
    [(cliff_world(), 0.655402), (deep_sea(), 0.392671), (garnet(states=40, constraints=3), None)],
)
def test_the_convex_al_certifies_the_known_optima(model, optimum):
    result = solve(model, "convex-al")
    check(model, result)
    assert result.status == "certified"
    if optimum is not None:
        assert result.reward == pytest.approx(optimum, abs=1e-6)


def test_the_quadratic_program_agrees_with_the_corrective_oracle():
    form = scaled_form(garnet(states=30, constraints=2))
    utility = AugmentedLagrangian(np.array([0.2, 0.4]), 5.0)
    evaluation = form.evaluate(maximise_al(form, utility.multipliers, utility.penalty))
    exact = float(utility.value(evaluation.reward, evaluation.margins))
    oracle = Corrective()
    columns = oracle.start(form)
    for _ in range(100):
        columns = oracle.advance(form, columns, utility)
    ours = float(utility.value(columns.reward, columns.margins))
    assert ours == pytest.approx(exact, abs=1e-7)


@pytest.mark.parametrize("name", ["lp", "convex-al", "dantzig-wolfe", "cutting-plane"])
def test_without_constraints(name):
    result = solve(garnet(states=10, constraints=0), name, eps=1e-4)
    assert result.status == "certified" and result.multipliers.shape == (0,)


@settings(max_examples=40)
@given(cmdps(states=12))
def test_dantzig_wolfe_agrees_with_the_corrective_solver(model):
    form = StandardForm.of(model)
    if decide_feasibility(form.scaled().form).status != "feasible":
        return
    result, ours = solve(model, "dantzig-wolfe"), solve(model)
    check(model, result)
    assert result.status == "certified"
    price = float(ours.multipliers @ form.constraint_scales) / form.reward_scale
    assert result.reward == pytest.approx(ours.reward, abs=3e-6 * form.reward_scale * (1 + price))


def test_dantzig_wolfe_stops_when_asked_and_records_every_iteration():
    form, rows = scaled_form(garnet(states=60, constraints=5)), []
    answer = dantzig_wolfe(form, task_for(form, stop=lambda: True, record=rows.append))
    assert [row["evaluations"] for row in rows] == [1]
    assert rows[0]["gap"] > 1e-6 and rows[0]["margins"].min() > -1e-9
    # its plan is what proves the gap: D(w) at the weights it returns
    bound = answer.plan.value - float(answer.weights @ form.thresholds)
    reward = float(form.evaluate(answer.policy).reward)
    assert bound - reward == pytest.approx(rows[0]["gap"], abs=1e-9)
    dantzig_wolfe(form, task_for(form, record=rows.append))
    assert len(rows) > 3 and rows[-1]["gap"] <= 5e-7


@pytest.mark.parametrize(("environment", "optimum", "price"), OPTIMA)
def test_bisection_finds_the_known_optima(environment, optimum, price):
    model = environment()
    result = solve(model, "cutting-plane")
    check(model, result)
    assert result.reward == pytest.approx(optimum, abs=1e-5)
    assert result.multipliers[0] == pytest.approx(price, abs=3e-4)


def test_several_constraints_reach_the_regularisation_error():
    model = garnet(states=40, constraints=3)
    result = solve(model, "cutting-plane", entropy=1e-4, cuts=150)
    check(model, result)
    assert abs(result.scaled_gap) < 1e-3 and result.scaled_violation < 1e-2


def test_the_regularised_dual_has_the_margins_as_gradient():
    form, w, h = scaled_form(garnet(states=10, constraints=2)), np.array([0.3, 0.2]), 1e-5
    start = np.full((10, form.actions), 1 / form.actions)
    margins = soft_optimum(form, w, 0.01, start)[2]
    for i in range(2):
        step = h * np.eye(2)[i]
        ends = [soft_optimum(form, w + sign * step, 0.01, start)[1] for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * h) == pytest.approx(margins[i], abs=1e-6)


def test_an_inactive_constraint_stops_at_once():
    model = cliff_world(threshold=-5.0)
    result = solve(model, "cutting-plane")
    assert result.multipliers[0] == 0 and result.status == "certified"
    form = scaled_form(model)
    answer = cutting_plane(form, task_for(form), cuts=1)
    np.testing.assert_array_equal(answer.policy, model.by_choice(result.policy))
