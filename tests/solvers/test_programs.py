import highspy
import numpy as np
import pytest
from hypothesis import given, settings

from cmdpax import InputError, check
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.solvers.programs import linear_program, solve_lp
from models import cmdps


@pytest.mark.parametrize("algorithm", ["simplex", "ipm"])
@pytest.mark.parametrize(
    ("environment", "optimum", "price"),
    [(cliff_world, 0.655402, 0.171), (deep_sea, 0.392671, 0.203158)],
)
def test_reference_optima(algorithm, environment, optimum, price):
    model = environment()
    result = linear_program(model, algorithm=algorithm)
    assert result.status == "certified"
    assert result.reward == pytest.approx(optimum, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(price, abs=1e-5)
    check(model, result)


@settings(max_examples=20)
@given(cmdps(constraints=(0, 0), states=8))
def test_without_constraints_it_is_planning(model):
    from cmdpax.exact.planning import plan

    assert linear_program(model).reward == pytest.approx(
        plan(model, model.reward).value, abs=1e-6 * model.reward_scale
    )


def test_an_infeasible_program_is_not_called_optimal():
    answer = solve_lp(garnet(states=10, feasible=False))
    assert answer.status != "Optimal"


def test_unknown_algorithm():
    with pytest.raises(InputError, match="none of simplex, ipm, hipo"):
        solve_lp(cliff_world(), "magic")


def test_hipo_without_its_package_is_refused_not_replaced(monkeypatch):
    monkeypatch.setattr("cmdpax.solvers.programs.find_spec", lambda name: None)
    with pytest.raises(InputError, match="highspy-extras"):
        solve_lp(cliff_world(), "hipo")


def test_policy_and_objective_agree():
    model = garnet(states=25, constraints=3, discount=0.99)
    answer = solve_lp(model)
    result = linear_program(model)
    np.testing.assert_allclose(result.reward, answer.reward, rtol=1e-6)


def test_interior_point_means_ipx(monkeypatch):
    """HiGHS runs HiPO for 'ipm' where highspy-extras is installed; a comparison must know which of
    the two it measured.
    """
    chosen, set_option = [], highspy.Highs.setOptionValue

    def note(solver, option, setting):
        chosen.extend([setting] if option == "solver" else [])
        return set_option(solver, option, setting)

    monkeypatch.setattr(highspy.Highs, "setOptionValue", note)
    rewards = [solve_lp(cliff_world(), algorithm).reward for algorithm in ("simplex", "ipm")]
    assert chosen == ["simplex", "ipx"] and rewards[0] == pytest.approx(rewards[1])
