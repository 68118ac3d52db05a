from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, CertificateError, check, solve
from cmdpax.checker import bounds as checker
from cmdpax.checker.facts import Facts
from cmdpax.checker.limits import limit_rows
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.exact.certificate import (
    certify,
    lagrangian_bound,
    said_back,
    scaled_errors,
    with_ray,
)
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from models import cmdps
from two_states import every_sense


@given(cmdps(constraints=(1, 4), states=12), st.integers(0, 10**6))
def test_weak_duality_for_any_weights(model, seed):
    """No feasible policy beats D(w), for any w >= 0 and any policy in place of the optimum."""
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    scale = form.reward_scale / form.constraint_scales
    weights = rng.random(model.constraint_count) * scale * rng.choice([0.0, 1.0, 10.0])
    actions = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    policies = model.by_choice(rng.dirichlet(np.ones(model.actions), (6, model.states)))
    certificate, values = certify(
        form, ((1.0, policies[0]),), weights, actions, attained_ranges(form)
    )
    bounds = certificate.margin_bounds + form.thresholds[:, None]
    assert (bounds[:, 0] <= values).all() and (values <= bounds[:, 1]).all()
    for policy in policies[1:]:
        evaluation = form.evaluate(policy)
        if (evaluation.margins >= 0).all():
            assert evaluation.reward <= certificate.dual_bound + 1e-12 * form.reward_scale


@given(cmdps(constraints=(1, 4), states=12), st.integers(0, 10**6))
def test_a_ray_bounds_the_margins_of_every_policy(model, seed):
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    ray, nothing = rng.random(model.constraint_count), np.zeros(model.constraint_count)
    reward = np.tensordot(ray, form.constraints, 1)
    actions = form.criterion.plan(form, reward).choices
    policies = model.by_choice(rng.dirichlet(np.ones(model.actions), (5, model.states)))
    certificate, _ = certify(form, ((1.0, policies[0]),), nothing, actions, attained_ranges(form))
    assert certificate.ray is certificate.ray_bound is certificate.ray_potential is None
    rayed = with_ray(form, certificate, ray, actions)
    size = ray @ form.constraint_scales + ray @ np.abs(form.thresholds)
    for policy in policies:
        assert ray @ form.evaluate(policy).margins <= rayed.ray_bound + 1e-12 * size
    best = form.transitions.deterministic(actions)
    assert rayed.ray_bound <= ray @ form.evaluate(best).margins + 1e-9 * size


def test_gap_and_violation_of_the_uniform_policy():
    model = cliff_world()
    form, weights = StandardForm.of(model), solve(model, "lp").multipliers
    actions = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    ranges = attained_ranges(form)
    certificate, values = certify(form, ((1.0, form.uniform_policy()),), weights, actions, ranges)
    assert certificate.gap == pytest.approx(0.655402 - 0.171924, abs=1e-6)
    assert certificate.violation == pytest.approx(1.094389 - 0.17, abs=1e-6)
    assert values == pytest.approx([-1.094389], abs=1e-6)  # the form's orientation
    errors = (certificate.gap / 10, certificate.violation / 10)
    assert scaled_errors(certificate, np.array([10.0, 10.0])) == pytest.approx(errors)
    assert scaled_errors(certificate, np.zeros(2)) == (np.inf, np.inf)


@pytest.mark.parametrize(("offset", "discount"), [(1e9, 0.99), (-1e9, 0.999), (1e6, 0.9999)])
def test_a_constant_in_the_rewards_costs_few_digits(offset, discount):
    model = deep_sea().replace(discount=discount)
    everywhere = offset / (1 - discount)
    moved = model.replace(
        reward=model.reward + offset,
        constraints=model.constraints - offset,
        thresholds=model.thresholds - everywhere,
    )
    plain, shifted = solve(model), solve(moved)
    check(moved, shifted)
    assert shifted.status == plain.status == "certified"
    allowed = 2e-6 * np.ptp(plain.certificate.ranges[0]) + 1e-10 * abs(everywhere)
    assert shifted.reward - everywhere == pytest.approx(plain.reward, abs=allowed)


def test_one_state_and_one_action_are_certified_whatever_they_pay():
    for reward in (0.0, 1.0, -1e6, 1e8):
        model = CMDP(np.ones((1, 1, 1)), [[reward]], np.zeros((0, 1, 1)), [], [1.0], 0.99)
        result = solve(model)
        assert result.status == "certified" and result.reward == pytest.approx(100 * reward)
        check(model, result)


@given(st.integers(0, 2**32 - 1), st.floats(0, 9))
def test_what_cancels_leaves_its_rounding(seed, digits):
    """Constraints that are large and opposite, thresholds just met: in exact arithmetic the bounds
    hold, the checker's too.
    """
    rng, discount, size = np.random.default_rng(seed), 0.99, 10.0**digits
    constraints = rng.random((2, 1, 2)) + np.array([size, -size])[:, None, None]
    mass = 1 / (1 - Fraction(discount))
    met = [Fraction(float(c[0, 0])) * mass for c in constraints]
    thresholds = [
        float(one) if Fraction(float(one)) <= one else float(np.nextafter(float(one), -np.inf))
        for one in met
    ]
    model = CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], constraints, thresholds, [1.0], discount)
    form, rows = StandardForm.of(model), limit_rows(model)
    for ray in (np.full(2, rng.random()), rng.random(2)):
        exact = max(
            sum(
                Fraction(float(y)) * (Fraction(float(c[0, a])) * mass - Fraction(b))
                for y, c, b in zip(ray, constraints, thresholds)
            )
            for a in range(2)
        )
        nothing, potential = np.zeros(2), np.zeros(1)
        ours = lagrangian_bound(form, nothing, ray, potential)
        facts = Facts(model, np.array([True]), None)
        theirs = checker.lagrangian_bound(facts, nothing, rows, ray, potential)
        assert exact <= theirs <= ours


@pytest.mark.parametrize("threshold", [1000.3, -1e9 / 7, 0.1])
def test_margins_lie_within_their_bounds_in_rational_numbers(threshold):
    """The difference to a large threshold is rounded by more than the value itself."""
    model = CMDP([[[1.0]]], [[1.0]], [[[0.1]]], [threshold], [1.0], 0.0)
    result = solve(model)
    low, high = map(Fraction, result.certificate.margin_bounds[0])
    assert low <= Fraction(0.1) - Fraction(threshold) <= high
    check(model, result)
    rounded = np.full((1, 2), 0.1 - threshold)
    if threshold != 0.1:
        claim = replace(result.certificate, margin_bounds=rounded)
        with pytest.raises(CertificateError, match="margin 0"):
            check(model, replace(result, certificate=claim))


def test_a_certificate_is_said_in_the_model_s_words():
    model = every_sense(minimise=True)
    form = StandardForm.of(model)
    policy, weights = form.uniform_policy(), np.array([1.0, 0.0, 2.0, 0.0, 0.0, 3.0])
    actions = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    certificate, _ = certify(form, ((1.0, policy),), weights, actions, attained_ranges(form))
    proof = with_ray(form, certificate, weights, actions)
    said = said_back(model, proof)
    assert said.minimise
    assert said.reward_bounds == (-proof.reward_bounds[1], -proof.reward_bounds[0])
    assert said.dual_bound == -proof.dual_bound and said.gap == proof.gap
    np.testing.assert_array_equal(said.weights, [1, 0, 2, -3])
    np.testing.assert_array_equal(said.ray, [1, 0, 2, -3])
    assert said.ray_bound == proof.ray_bound
    np.testing.assert_array_equal(said.ray_potential, proof.ray_potential)
    rows = proof.margin_bounds
    worst = [rows[0], rows[1], np.minimum(rows[2], rows[3]), np.minimum(rows[4], rows[5])]
    np.testing.assert_array_equal(said.margin_bounds, worst)
    assert said.violation == proof.violation
    signs = np.array([-1.0, -1.0, 1.0, 1.0, 1.0])[:, None]
    np.testing.assert_array_equal(
        said.value_potentials, signs * proof.value_potentials[[0, 1, 2, 3, 5]]
    )
    middle = model.limits.margins(
        np.array([form.criterion.values(form, policy, c) @ form.initial for c in model.constraints])
    )
    assert ((said.margin_bounds[:, 0] <= middle) & (middle <= said.margin_bounds[:, 1])).all()
