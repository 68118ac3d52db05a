import numpy as np
import pytest

import plain
from cmdpax import InputError, NumericalError, solve
from cmdpax.environments import deep_sea
from cmdpax.environments.by_name import tiles
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.class_optimum import class_optimum, value_and_gradient
from cmdpax.solvers.log_linear import Features, one_hot


def test_the_gradient_agrees_with_finite_differences():
    model, rng = plain.tiny(), np.random.default_rng(0)
    features = Features(rng.standard_normal((4, 3, 5)))
    x, utility = rng.standard_normal(features.rank), AugmentedLagrangian(np.array([0.4, 0.0]), 3.0)
    _, gradient = value_and_gradient(StandardForm.of(model), features, x, utility)
    np.testing.assert_allclose(
        gradient,
        plain.slope(
            lambda x: value_and_gradient(StandardForm.of(model), features, x, utility)[0], x
        ),
        atol=1e-6,
    )


def test_a_class_of_all_policies_has_the_optimum():
    model = plain.tiny()
    best = class_optimum(StandardForm.of(model), Features(one_hot(4, 3)), starts=8)
    assert best.reward == pytest.approx(solve(model, eps=1e-10).reward, abs=1e-5)
    assert best.margins.min() >= -1e-7 and 1 <= best.hits <= 8


def test_deep_sea_with_four_groups_of_states():
    model = deep_sea()
    features = Features(tiles(25, 2, 40, 4, 1))
    best = class_optimum(StandardForm.of(model), features, starts=8)
    assert solve(model).reward - best.reward == pytest.approx(0.0302, abs=1e-3)
    assert (
        class_optimum(StandardForm.of(model), features, starts=8).reward == best.reward
    )  # one seed, one answer


def test_a_class_without_a_feasible_policy_is_said_to_have_none():
    model = deep_sea()
    with pytest.raises(NumericalError, match="none of 2 starts"):
        class_optimum(
            StandardForm.of(model.replace(thresholds=[1.0])),
            Features(tiles(25, 2, 40, 4, 1)),
            starts=2,
        )
    with pytest.raises(InputError, match="at least 1"):
        class_optimum(StandardForm.of(model), Features(tiles(25, 2, 40, 4, 1)), starts=0)
