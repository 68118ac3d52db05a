import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import lagrangian
from cmdpax.exact.standard import StandardForm
from models import cmdps

numbers = st.floats(-50, 50)
positive = st.floats(1e-3, 1e3)
triples = st.lists(st.tuples(st.floats(0, 50), numbers), min_size=1, max_size=5)


@given(triples, positive)
def test_value_equals_the_papers_min_form(pairs, penalty):
    multiplier, margin = np.array(pairs).T
    printed = (
        penalty
        / 2
        * (-(np.minimum(margin - multiplier / penalty, 0) ** 2) + multiplier**2 / penalty**2)
    )
    ours = lagrangian.value(np.float64(1.5), margin, multiplier, penalty)
    assert ours == pytest.approx(
        1.5 + printed.sum(), rel=1e-9, abs=1e-9 * (1 + penalty * np.abs(margin).max() ** 2)
    )


@given(triples, positive, st.sampled_from([0.1, 0.5, 1.0]))
def test_dual_update_equals_max_form_and_stays_non_negative(pairs, penalty, factor):
    multiplier, margin = np.array(pairs).T
    updated = lagrangian.dual_update(multiplier, penalty, margin, factor)
    closed = np.maximum(multiplier - factor * penalty * margin, (1 - factor) * multiplier)
    np.testing.assert_allclose(
        updated, closed, rtol=1e-9, atol=1e-9 * (1 + penalty * np.abs(margin).max())
    )
    assert (updated >= 0).all()


@given(triples, positive)
def test_paper_slack_form_is_the_dual_update(pairs, penalty):
    multiplier, margin = np.array(pairs).T
    slack = np.maximum(margin - multiplier / penalty, 0)
    np.testing.assert_allclose(
        lagrangian.dual_update(multiplier, penalty, margin),
        np.maximum(multiplier - penalty / 2 * (margin - slack), 0),
        rtol=1e-12,
        atol=1e-12,
    )


@given(triples, positive)
def test_full_factor_is_the_weights(pairs, penalty):
    multiplier, margin = np.array(pairs).T
    size = 1 + penalty * np.abs(margin).max() + multiplier.max()
    np.testing.assert_allclose(
        lagrangian.dual_update(multiplier, penalty, margin, 1.0),
        lagrangian.weights(multiplier, penalty, margin),
        atol=1e-12 * size,
    )


def test_own_factor_larger_than_the_penalty_is_projected():
    assert lagrangian.step_update(np.array([1.0]), 0.1, np.array([50.0]), 0.5) == 0.0
    assert lagrangian.step_update(np.array([1.0]), 0.1, np.array([-2.0]), 0.5) == pytest.approx(2.0)


def test_hand_computed_weights_value_and_violation():
    multiplier, margin = np.array([1.0, 0.0, 2.0]), np.array([-0.5, 1.0, 0.5])
    np.testing.assert_allclose(lagrangian.weights(multiplier, 2.0, margin), [2.0, 0.0, 1.0])
    assert lagrangian.value(np.float64(3.0), margin, multiplier, 2.0) == pytest.approx(
        3 + (1 - 4 + 0 + 4 - 1) / 4
    )
    assert lagrangian.violation(margin) == 0.5
    assert lagrangian.violation(np.array([0.1])) == 0
    assert lagrangian.violation(np.zeros(0)) == 0


def test_scalarise_broadcasts_over_batches():
    rng = np.random.default_rng(0)
    reward, constraints, weights = rng.random(7), rng.random((3, 7)), rng.random((5, 3))
    expected = reward + sum(weights[:, [i]] * constraints[i] for i in range(3))
    np.testing.assert_allclose(lagrangian.scalarise(reward, constraints, weights), expected)
    own = rng.random((5, 3, 7))
    np.testing.assert_allclose(
        lagrangian.scalarise(reward, own, weights),
        reward + np.einsum("bm,bmk->bk", weights, own),
        rtol=1e-13,
    )
    np.testing.assert_array_equal(
        lagrangian.scalarise(reward, np.zeros((0, 7)), np.zeros(0)), reward
    )


@given(triples, positive)
def test_defect_vanishes_only_at_complementarity(pairs, penalty):
    multiplier, margin = np.array(pairs).T
    smallest = np.abs(np.minimum(margin, multiplier / penalty)).max()
    assert lagrangian.defect(multiplier, penalty, margin) == pytest.approx(
        smallest, rel=1e-9, abs=1e-9
    )


@given(cmdps(constraints=(1, 3), states=6, actions=3), st.integers(0, 10**6))
def test_al_gradient_matches_finite_differences(model, seed):
    """`d AL / d pi(a|s) = nu(s) Q_Gamma(s, a)`, along random directions that keep the choices of
    every state a distribution.
    """
    rng = np.random.default_rng(seed)
    form = StandardForm.of(model.replace(discount=min(model.discount, 0.9)))
    criterion, rows = form.criterion, form.transitions
    policy = rng.uniform(0.2, 1, form.choices)
    policy /= rows.sums(policy)[rows.state_of]
    multipliers = rng.random(form.constraint_count) * form.reward_scale / form.constraint_scales
    penalty = form.reward_scale / form.constraint_scales.max() ** 2

    def value(probabilities):
        at = form.evaluate(probabilities)
        return float(lagrangian.value(at.reward, at.margins, multipliers, penalty))

    weights = lagrangian.weights(multipliers, penalty, form.evaluate(policy).margins)
    pseudo = form.pseudo_reward(weights)
    action_values = criterion.action_values(form, pseudo, criterion.values(form, policy, pseudo))
    gradient = criterion.visits(form, policy)[rows.state_of] * action_values
    direction = policy * rng.uniform(-1, 1, policy.shape)
    direction -= policy * rows.sums(direction)[rows.state_of]
    h = 1e-6
    slope = (value(policy + h * direction) - value(policy - h * direction)) / (2 * h)
    size = np.abs(gradient * direction).sum() + np.abs(pseudo).max() * criterion.mass
    # of the large terms that cancel in the AL
    rounding = 1e-15 * (multipliers**2 + weights**2).sum() / (penalty * h)
    assert abs(slope - (gradient * direction).sum()) <= 2e-6 * size + rounding
