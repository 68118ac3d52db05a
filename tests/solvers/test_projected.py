"""Projected oracles: one-hot features give back the tabular method; batches are their members;
projection errors add up.
"""

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.environments.by_name import tiles
from cmdpax.solvers import npg, pqa, spma
from cmdpax.solvers.policy_classes import Features, one_hot
from cmdpax.solvers.policy_gradient import FirstOrder
from cmdpax.solvers.projected import Projected
from cmdpax.solvers.table import trajectory

MULTIPLIERS, PENALTY = np.array([0.1]), 10.0


@pytest.mark.parametrize("step", [pqa.step, npg.step, spma.step])
def test_one_hot_features_give_back_the_tabular_step(step):
    model = cliff_world()
    tabular, linear = FirstOrder(step, 0.1), Projected(step, Features(one_hot(21, 4)), 0.1)
    one, other = tabular.start(model), linear.start(model)
    for _ in range(5):
        one = tabular.advance(model, one, MULTIPLIERS, PENALTY)
        other = linear.advance(model, other, MULTIPLIERS, PENALTY)
        np.testing.assert_allclose(
            other.policy, one.policy, atol=3e-5
        )  # Newton's tolerance, in a probability
    bias, optimiser = linear.errors(
        model, other, linear.advance(model, other, MULTIPLIERS, PENALTY), MULTIPLIERS, PENALTY
    )
    assert 0 <= bias < 1e-7 and 0 <= optimiser < 1e-7


def test_a_batch_is_its_members():
    model, sizes, slopes = deep_sea(), np.array([0.1, 1.0]), np.array([1.0, 0.1])
    features = Features(tiles(25, 2, 40, 4, 1))
    together = trajectory(
        model, "ppqa-alm", features, step=sizes, surrogate=slopes, outer=2, inner=10, passes=20
    )
    for i in range(2):
        alone = trajectory(
            model,
            "ppqa-alm",
            features,
            step=sizes[i],
            surrogate=slopes[i],
            outer=2,
            inner=10,
            passes=20,
        )
        np.testing.assert_allclose(together.rewards[:, i], alone.rewards, atol=1e-12)
        np.testing.assert_allclose(together.policy[i], alone.policy, atol=1e-12)


def test_bias_and_optimisers_error_add_up_to_the_divergence_of_what_was_done():
    model, features = deep_sea(), Features(tiles(25, 2, 40, 4, 1))
    oracle = Projected(pqa.step, features, 1.0, 0.1, passes=5)
    before = oracle.start(model)
    after = oracle.advance(model, before, MULTIPLIERS, PENALTY)
    bias, optimiser = oracle.errors(model, before, after, MULTIPLIERS, PENALTY)
    exact = Projected(pqa.step, features, 1.0)
    assert (
        bias > 1e-3 and optimiser > 1e-6
    )  # four groups cannot express the target, five steps do not find the best of them
    again = exact.errors(
        model, before, exact.advance(model, before, MULTIPLIERS, PENALTY), MULTIPLIERS, PENALTY
    )
    assert again[0] == pytest.approx(bias, abs=1e-9) and again[1] < 1e-9


def test_backtracking_never_lowers_the_augmented_lagrangian():
    from cmdpax import lagrangian

    model = cliff_world()
    oracle = Projected(pqa.step, Features(tiles(21, 4, 60, 4, 3)))
    iterate, last = oracle.start(model), -np.inf
    for _ in range(30):
        iterate = oracle.advance(model, iterate, MULTIPLIERS, PENALTY)
        value = lagrangian.value(iterate.reward, iterate.margins, MULTIPLIERS, PENALTY)
        assert value >= last - 1e-12
        last = value
    assert oracle.subproblem(model, iterate, MULTIPLIERS, PENALTY).gap > 0
    assert oracle.policy(model, iterate).shape == (21, 4)


def test_a_given_policy_is_projected():
    model, features = cliff_world(), Features(one_hot(21, 4))
    policy = np.random.default_rng(0).dirichlet(np.ones(4), 21)
    np.testing.assert_allclose(
        Projected(pqa.step, features).start(model, policy).policy, policy, atol=1e-4
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size": "theory"}, "'theory' is neither"),
        ({"surrogate": "exact"}, "'exact' is neither"),
        ({"size": -1.0}, "positive"),
        ({"size": np.ones(2)}, "one configuration at a time"),
    ],
)
def test_bad_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Projected(pqa.step, Features(one_hot(21, 4)), **settings)


def test_features_of_another_model_are_refused():
    with pytest.raises(InputError, match="does not fit"):
        Projected(pqa.step, Features(one_hot(3, 2))).start(cliff_world())
