import numpy as np
import pytest

from cmdpax import InputError, solve
from cmdpax.environments import cliff_world
from cmdpax.exact.discounted import evaluate
from cmdpax.exact.planning import plan


def test_reference_numbers():
    model = cliff_world()
    assert plan(model, model.reward).value == pytest.approx(0.670621, abs=1e-6)
    assert plan(model, model.constraints[0]).value == pytest.approx(-0.142857, abs=1e-6)
    uniform = evaluate(model, model.uniform_policy())
    assert uniform.reward == pytest.approx(0.171924, abs=1e-6)
    assert uniform.margins[0] + model.thresholds[0] == pytest.approx(-1.094389, abs=1e-6)


def test_best_constraint_value_among_reward_optima():
    """The unconstrained optima tie; -.383286 is the largest V_c among them: demanding more costs
    reward.
    """
    best = 0.6706213761904
    assert solve(cliff_world(threshold=-0.383286)).reward == pytest.approx(best, abs=1e-6)
    assert solve(cliff_world(threshold=-0.3832)).reward < best - 1e-6


def test_constrained_optimum():
    result = solve(cliff_world())
    assert result.status == "certified"
    assert result.reward == pytest.approx(0.655402, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(0.171, abs=1e-6)
    np.testing.assert_allclose(result.policy[2], [0, 0.6333, 0, 0.3667], atol=1e-4)


def test_layout():
    model = cliff_world()
    to = model.successors[:, :, 0]
    assert (to[4] == 20).all() and (to[20] == 20).all()
    assert list(to[7]) == [6, 8, 2, 12]
    assert list(to[0]) == [0, 1, 0, 5]
    assert list(to[19]) == [18, 19, 14, 19]
    assert model.reward.sum() == 4 and (model.constraints[0, 1:4] == -1).all()


def test_reset_variant_makes_the_constraint_inactive():
    result = solve(cliff_world(chasm="reset"))
    assert result.margins[0] > 1e-3 and result.multipliers[0] == pytest.approx(0, abs=1e-9)
    with pytest.raises(InputError, match="neither 'walk' nor 'reset'"):
        cliff_world(chasm="swim")
