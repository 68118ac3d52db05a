"""Tables, and what both classes do alike."""

import numpy as np
import pytest

import plain
from cmdpax import CMDP
from cmdpax.environments import cliff_world
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_classes import Tabular, from_visits, softmax


def test_softmax_is_safe_for_large_logits_and_keeps_zero():
    np.testing.assert_allclose(softmax(np.array([1000.0, 1000.0])), [0.5, 0.5])
    np.testing.assert_array_equal(softmax(np.array([0.0, -np.inf])), [1.0, 0.0])


def test_from_visits():
    rows = [[{0: 1.0}, {1: 1.0}], [{0: 1.0}, {2: 1.0}], [{2: 1.0}, {1: 1.0}], [{0: 1.0}]]
    form = StandardForm.of(CMDP(rows, np.zeros(7), [], [], 0, 0.9))
    mass = np.array([1.0, 3.0, 1e-3, 0.0, 0.0, 0.0, 2.0])
    uniform = form.uniform_policy()
    np.testing.assert_array_equal(uniform, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 1.0])
    np.testing.assert_array_equal(
        from_visits(form, mass, uniform), [0.25, 0.75, 1.0, 0.0, 0.5, 0.5, 1.0]
    )
    np.testing.assert_array_equal(from_visits(form, mass, uniform, 1e-3)[2:4], [0.5, 0.5])


def test_one_step_on_the_clipped_surrogate_follows_its_gradient():
    rng = np.random.default_rng(2)
    # six states in three groups
    features = Features(np.repeat(rng.standard_normal((3, 3, 4)), 2, axis=0))
    old, advantage, clip = rng.standard_normal(features.rank), rng.standard_normal((6, 3)), 0.2
    visits = rng.dirichlet(np.ones(6))

    def surrogate(policy, before):
        ratio = policy / before
        clipped = np.clip(ratio, 1 - clip, 1 + clip)
        return visits @ (before * np.minimum(ratio * advantage, clipped * advantage)).sum(1)

    linear, before = LogLinear(features), features.probabilities(old)
    after = linear.ascend_clipped(old, visits, advantage, clip, 1e-7, 1)
    np.testing.assert_allclose(
        (after - old) / 1e-7,
        plain.slope(lambda x: surrogate(features.probabilities(x), before), old),
        rtol=1e-4,
        atol=1e-6,
    )
    logits = np.log(before)
    after = Tabular().ascend_clipped(logits, visits, advantage, clip, 1e-7, 1)
    np.testing.assert_allclose(
        (after - logits) / 1e-7,
        plain.slope(lambda x: surrogate(plain.normalise(np.exp(x)), before), logits),
        rtol=1e-4,
        atol=1e-6,
    )


def test_nothing_moves_once_everything_is_clipped():
    """One long step takes the ratios beyond the clip; more steps change nothing."""
    visits, advantage = np.full(2, 0.5), np.array([[1.0, -1.0], [1.0, -1.0]])
    features = Features(one_hot(2, 2))
    for policies in (Tabular(), LogLinear(features)):
        start = np.log(np.full((2, 2), 0.5)) if policies.complete else np.zeros(2)
        short, long = (
            policies.ascend_clipped(start, visits, advantage, 0.1, 10.0, n) for n in (1, 50)
        )
        np.testing.assert_array_equal(short, long)
        assert policies.at(long)[1][0, 0] > 0.55
        # against the advantage the same policy is not clipped
        back = policies.ascend_clipped(long, visits, -advantage, 0.1, 1.0, 1)
        assert (policies.at(back)[1] != policies.at(long)[1]).all()


@pytest.mark.parametrize("batch", [(), (2, 3)])
def test_one_hot_features_are_tables(batch):
    """Both classes start, project, ascend and have natural gradients alike, in any batch shape."""
    model, rng = cliff_world(), np.random.default_rng(0)
    tables, linear = Tabular(), LogLinear(Features(one_hot(21, 4)), np.full(batch, 30.0), 2000)
    policy = rng.dirichlet(np.full(4, 3.0), 21)
    for nearest in (policy, None):
        (logs, one), (x, other) = (
            each.start(StandardForm.of(model), batch, nearest) for each in (tables, linear)
        )
        assert logs.shape == one.shape == (*batch, 21, 4) and x.shape == (*batch, 63)
        np.testing.assert_allclose(one, other, atol=3e-5)
        np.testing.assert_allclose(tables.log_policy(logs), linear.log_policy(x), atol=1e-4)
    visits = rng.dirichlet(np.full(21, 10.0), batch)
    target, values = rng.dirichlet(np.full(4, 3.0), (*batch, 21)), rng.standard_normal(one.shape)
    np.testing.assert_array_equal(tables.project(logs, None, target)[1], target)
    np.testing.assert_allclose(linear.project(x, visits, target)[1], target, atol=1e-5)
    direction = linear.features.logits(linear.natural_gradient(x, visits, other, values))
    np.testing.assert_allclose(
        linear.features.to_states(direction), values - values.mean(-1, keepdims=True), atol=1e-4
    )
    assert tables.natural_gradient(logs, None, one, values) is values
    climbed = (
        each.at(each.ascend_clipped(start, visits, values, 0.3, 2.0, 40))[1]
        for each, start in ((tables, logs), (linear, x))
    )
    np.testing.assert_allclose(*climbed, atol=1e-12)
