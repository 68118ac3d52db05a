from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, check, checker, solve
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.exact.certificate import certify, lagrangian_bound, optimum_bound, value_bounds
from cmdpax.exact.discounted import evaluate, pseudo_reward, stacked_rewards
from cmdpax.exact.planning import plan
from cmdpax.solvers.programs import linear_program
from models import cmdps


@given(cmdps(), st.integers(0, 10**6), st.sampled_from([0.0, 1e-9, 1e-3, 1.0]))
def test_value_bounds_hold_for_any_potential(model, seed, noise):
    """A wrong potential widens the bounds; it can never move the truth out of them."""
    rng = np.random.default_rng(seed)
    policy = rng.dirichlet(np.ones(model.actions), model.states)
    truth = evaluate(model, policy)
    potentials = truth.values * (1 + noise * rng.normal(size=truth.values.shape))
    bounds = value_bounds(model, policy, potentials)
    values = truth.values @ model.initial
    size = np.abs(stacked_rewards(model)).max((1, 2)) / (1 - model.discount)
    assert (bounds[:, 0] <= values + 1e-13 * size).all() and (
        values - 1e-13 * size <= bounds[:, 1]
    ).all()
    if noise == 0:
        assert (bounds[:, 1] - bounds[:, 0] <= 1e-9 * size + 1e-12).all()


@given(cmdps(), st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 1.0]))
def test_optimum_bound_holds_for_any_potential(model, seed, noise):
    best = plan(model, model.reward)
    rng = np.random.default_rng(seed)
    bound = optimum_bound(model, model.reward, best.values + noise * rng.normal(size=model.states))
    size = np.abs(model.reward).max() / (1 - model.discount)
    assert bound >= best.value - 1e-13 * size
    if noise == 0:
        assert bound <= best.value + 1e-9 * size + 1e-12


@given(cmdps(constraints=(1, 4), states=12), st.integers(0, 10**6))
def test_weak_duality_for_any_weights(model, seed):
    """No feasible policy beats D(w), whatever w >= 0 and whatever policy stands in for the optimum."""
    rng = np.random.default_rng(seed)
    weights = (
        rng.random(model.constraint_count)
        * model.reward_scale
        / model.constraint_scales
        * rng.choice([0.0, 1.0, 10.0])
    )
    actions = plan(model, pseudo_reward(model, weights)).actions
    certificate = certify(
        model, rng.dirichlet(np.ones(model.actions), model.states), weights, actions
    )
    for _ in range(5):
        policy = rng.dirichlet(np.ones(model.actions), model.states)
        found = evaluate(model, policy)
        if (found.margins >= 0).all():
            assert found.reward <= certificate.dual_bound + 1e-12 * model.reward_scale


def test_gap_and_violation_of_the_uniform_policy():
    model = cliff_world()
    best = linear_program(model)
    actions = plan(model, pseudo_reward(model, best.multipliers)).actions
    certificate = certify(model, model.uniform_policy(), best.multipliers, actions)
    assert certificate.gap == pytest.approx(0.655402 - 0.171924, abs=1e-6)
    assert certificate.violation == pytest.approx(1.094389 - 0.17, abs=1e-6)
    assert certificate.scaled(model) == pytest.approx(
        (certificate.gap / 10, certificate.violation / 10)
    )


@pytest.mark.parametrize(("offset", "discount"), [(1e6, 0.99), (-1e6, 0.999), (1e3, 0.9999)])
def test_a_constant_in_the_rewards_costs_few_digits(offset, discount):
    model = deep_sea().replace(discount=discount)
    moved = model.replace(
        reward=model.reward + offset,
        constraints=model.constraints - offset,
        thresholds=model.thresholds - offset / (1 - discount),
    )
    plain, shifted = solve(model), solve(moved)
    check(moved, shifted)
    assert shifted.status == plain.status == "certified"
    assert shifted.reward - offset / (1 - discount) == pytest.approx(
        plain.reward, abs=2e-6 * model.reward_scale
    )


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
    horizon = 1 / (1 - Fraction(discount))
    met = [Fraction(float(c[0, 0])) * horizon for c in constraints]
    thresholds = [
        float(one) if Fraction(float(one)) <= one else float(np.nextafter(float(one), -np.inf))
        for one in met
    ]
    model = CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], constraints, thresholds, [1.0], discount)
    for ray in (np.full(2, rng.random()), rng.random(2)):
        exact = max(
            sum(
                Fraction(float(y)) * (Fraction(float(c[0, a])) * horizon - Fraction(b))
                for y, c, b in zip(ray, constraints, thresholds)
            )
            for a in range(2)
        )
        nothing, potential = np.zeros((1, 2)), np.zeros(1)
        ours = lagrangian_bound(model, nothing, ray, potential)
        theirs = checker._lagrangian_bound(model, nothing, ray, potential, np.array([True]))
        assert exact <= theirs <= ours
