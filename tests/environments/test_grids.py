import numpy as np
import pytest

import plain
from cmdpax import InputError, check, solve
from cmdpax.environments import cliff_world, deep_sea, grid_world
from cmdpax.exact.standard import StandardForm


def best_value(form, reward):
    return form.criterion.plan(form, reward).value


@pytest.mark.parametrize(
    ("build", "best", "safest", "uniform"),
    [
        (cliff_world, 0.670621, -0.142857, (0.171924, -1.094389)),
        (deep_sea, 0.4496, 0.0, (0.122213, -0.3688)),
    ],
)
def test_reference_numbers(build, best, safest, uniform):
    form = StandardForm.of(build())
    assert best_value(form, form.reward) == pytest.approx(best, abs=1e-6)
    assert best_value(form, form.constraints[0]) == pytest.approx(safest, abs=1e-6)
    values = form.evaluate(form.uniform_policy())
    assert values.reward == pytest.approx(uniform[0], abs=1e-6)
    assert values.margins[0] + form.thresholds[0] == pytest.approx(uniform[1], abs=1e-6)


def test_what_the_treasure_costs():
    form = StandardForm.of(deep_sea())
    best = form.criterion.plan(form, form.reward)
    values = form.evaluate(form.transitions.deterministic(best.choices))
    assert values.margins[0] + form.thresholds[0] == pytest.approx(-0.8744, abs=1e-6)
    assert best_value(form, form.constraints[0]) == pytest.approx(0, abs=1e-12)


def test_best_constraint_value_among_reward_optima():
    """The unconstrained optima tie; -.383286 is the largest V_c among them: more costs reward."""
    best = 0.6706213761904
    assert solve(cliff_world(threshold=-0.383286)).reward == pytest.approx(best, abs=1e-6)
    assert solve(cliff_world(threshold=-0.3832)).reward < best - 1e-6


@pytest.mark.parametrize(
    ("build", "reward", "multiplier", "state", "policy", "accuracy"),
    [
        (cliff_world, 0.655402, 0.171, 2, [0, 0.6333, 0, 0.3667], 1e-4),
        (deep_sea, 0.392671, 0.203158, 8, [0.868, 0.132], 1e-3),
    ],
)
def test_constrained_optimum(build, reward, multiplier, state, policy, accuracy):
    result = solve(build())
    assert result.status == "certified"
    assert result.reward == pytest.approx(reward, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(multiplier, abs=1e-6)
    np.testing.assert_allclose(result.policy[state], policy, atol=accuracy)


def test_layout_of_the_cliff():
    model = cliff_world()
    to = model.transitions.successors.reshape(model.states, model.actions)
    assert (to[4] == 20).all() and (to[20] == 20).all()
    assert list(to[7]) == [6, 8, 2, 12]
    assert list(to[0]) == [0, 1, 0, 5]
    assert list(to[19]) == [18, 19, 14, 19]
    assert model.reward.sum() == 4 and (model.constraints[0, 4:16] == -1).all()


def test_reset_variant_makes_the_constraint_inactive():
    result = solve(cliff_world(chasm="reset"))
    assert result.margins[0] > 1e-3 and result.multipliers[0] == pytest.approx(0, abs=1e-9)
    with pytest.raises(InputError, match="neither 'walk' nor 'reset'"):
        cliff_world(chasm="swim")


def test_layout_of_the_sea():
    model = deep_sea()
    to = model.transitions.successors.reshape(model.states, model.actions)
    assert list(to[8]) == [2, 12] and list(to[3]) == [2, 7] and list(to[24]) == [18, 23]
    assert all((to[s] == s).all() for s in (0, 5, 10, 15, 20))
    reward = model.as_table(model.reward)
    assert reward[16, 1] == 1 and reward[21, 1] == 1 and reward[8, 1] == -0.02
    mined = np.argwhere(model.as_table(model.constraints)[0] == -2).tolist()
    assert mined == [[8, 1], [12, 1], [18, 0], [22, 0]]


def test_size_and_mines_are_parameters():
    assert deep_sea(size=8, mines=(20,)).states == 64
    with pytest.raises(InputError, match="mines"):
        deep_sea(mines=(99,))
    with pytest.raises(InputError, match="size"):
        deep_sea(size=1)


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("feasible", [True, False])
def test_grid_worlds_are_solved_without_a_hyperparameter(discount, feasible):
    model = grid_world(width=15, height=12, discount=discount, feasible=feasible)
    result = solve(model)
    assert result.status == ("certified" if feasible else "infeasible")
    check(model, result)


def test_moves_and_slips():
    model = grid_world(width=3, height=3, slip=0.2)
    row = dict(plain.successors(model, 4, 1))
    assert row == pytest.approx({5: 0.8, 1: 0.1, 7: 0.1})  # up; slides left and right
    np.testing.assert_allclose(model.transitions.tensor[8:, :, 9], 1)  # the goal leads to the end


@pytest.mark.parametrize(
    "wrong", [{"width": 1}, {"slip": 1.0}, {"hazards": -0.1}, {"tightness": 1.0}, {"seed": -1}]
)
def test_bad_settings_of_a_grid_world(wrong):
    with pytest.raises(InputError):
        grid_world(**wrong)
