import numpy as np
import pytest

from cmdpax import InputError, solve
from cmdpax.environments import deep_sea
from cmdpax.exact.discounted import evaluate
from cmdpax.exact.planning import plan
from cmdpax.solvers.policy_classes import from_actions


def test_reference_numbers():
    model = deep_sea()
    best = plan(model, model.reward)
    assert best.value == pytest.approx(0.4496, abs=1e-6)
    found = evaluate(model, from_actions(best.actions, 2))
    assert found.margins[0] + model.thresholds[0] == pytest.approx(-0.8744, abs=1e-6)
    assert plan(model, model.constraints[0]).value == pytest.approx(0, abs=1e-12)
    uniform = evaluate(model, model.uniform_policy())
    assert uniform.reward == pytest.approx(0.122213, abs=1e-6)
    assert uniform.margins[0] + model.thresholds[0] == pytest.approx(-0.3688, abs=1e-6)


def test_constrained_optimum():
    result = solve(deep_sea())
    assert result.status == "certified"
    assert result.reward == pytest.approx(0.392671, abs=1e-6)
    assert result.multipliers[0] == pytest.approx(0.203158, abs=1e-6)
    np.testing.assert_allclose(result.policy[8], [0.868, 0.132], atol=1e-3)


def test_layout():
    model = deep_sea()
    to = model.successors[:, :, 0]
    assert list(to[8]) == [2, 12] and list(to[3]) == [2, 7] and list(to[24]) == [18, 23]
    assert all((to[s] == s).all() for s in (0, 5, 10, 15, 20))
    assert model.reward[16, 1] == 1 and model.reward[21, 1] == 1 and model.reward[8, 1] == -0.02
    assert {tuple(pair) for pair in np.argwhere(model.constraints[0] == -2)} == {
        (8, 1),
        (18, 0),
        (12, 1),
        (22, 0),
    }


def test_size_and_mines_are_parameters():
    assert deep_sea(size=8, mines=(20,)).states == 64
    with pytest.raises(InputError, match="mines"):
        deep_sea(mines=(99,))
    with pytest.raises(InputError, match="size"):
        deep_sea(size=1)
