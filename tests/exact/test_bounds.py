"""Whatever the vector, the bounds hold; good vectors make them tight."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax.environments import queue
from cmdpax.exact.bounds import best_bounds, claim, mixed, policy_bounds
from cmdpax.exact.standard import StandardForm
from models import build, cmdps, large_path


@pytest.fixture(params=[True, False], ids=["small", "large"])
def small(request):
    if request.param:
        yield
    else:
        with large_path():
            yield


def test_unreachable_states_do_not_count():
    """Numbers in a state that is never reached change nothing."""
    form = StandardForm.of(build("unreachable", 30, 2, 2, 0.9, 0))
    assert not form.reachable.all()
    huge = np.where(form.reachable_choices, form.reward, 1e90)
    policy = np.full(60, 0.5)
    what = claim(form, huge)
    potential = form.criterion.potentials(form, policy, (what,))[0]
    plain = form.criterion.values(form, policy, form.reward)
    low, high = policy_bounds(form, policy, what, potential)
    assert low <= plain @ form.initial <= high and high - low <= 1e-12 * form.reward_scale


def test_a_potential_that_is_no_number_proves_nothing(small):
    """Wherever it is: a NaN is neither the least nor the largest of anything."""
    form = StandardForm.of(queue(capacity=9))
    what, policy = claim(form, form.reward), form.uniform_policy()
    for number in (np.nan, np.inf):
        potential = np.where(np.arange(form.states) == 5, number, 0.0)
        assert best_bounds(form, what, potential)[1] == np.inf
        assert policy_bounds(form, policy, what, potential) == (-np.inf, np.inf)


@given(cmdps(), st.integers(0, 10**6), st.sampled_from([0.0, 1e-9, 1e-3, 1.0]))
def test_value_bounds_hold_for_any_potential(small, model, seed, noise):
    """A wrong potential widens the bounds; it can never move the truth out of them."""
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    policy = model.by_choice(rng.dirichlet(np.ones(model.actions), model.states))
    evaluation = form.evaluate(policy)
    rewards = (form.reward, *form.constraints)
    for reward, values in zip(rewards, evaluation.values, strict=True):
        what = claim(form, reward)
        potential = values - float(what.rest)
        potential = potential * (1 + noise * rng.normal(size=potential.shape))
        low, high = policy_bounds(form, policy, what, potential, form.gauge)
        size = np.abs(reward).max() * form.criterion.mass
        assert low <= values @ form.initial + 1e-12 * size
        assert values @ form.initial - 1e-12 * size <= high
        if noise == 0:
            assert high - low <= 1e-9 * size + 1e-12


@given(cmdps(), st.integers(0, 10**6), st.sampled_from([0.0, 1e-3, 1.0]))
def test_bounds_on_the_best_value_hold_for_any_potential(small, model, seed, noise):
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    what = claim(form, form.reward)
    best = form.criterion.plan(form, what.reward)
    potential, value = (
        best.values + noise * rng.normal(size=model.states),
        best.value + float(what.rest),
    )
    low, high = best_bounds(form, what, potential, form.gauge)
    size = np.abs(model.reward).max() * form.criterion.mass
    assert low - 1e-12 * size <= value <= high + 1e-13 * size
    if noise == 0:
        assert high - low <= 1e-9 * size + 1e-12


def test_a_mixture_of_functions_counts_thresholds_and_constants():
    form = StandardForm.of(build("random", 6, 2, 2, 0.9, 0, 2, offset=0.1))
    moved = form.replace(constraints=form.constraints + 1e6, thresholds=form.thresholds + 1e7)
    weights = np.array([0.5, 2.0])
    for one in (form, moved):
        what = mixed(one, one.reward, weights)
        best = one.criterion.plan(one, what.reward)
        exact = form.criterion.plan(form, form.pseudo_reward(weights)).value
        low, high = best_bounds(one, what, best.values)
        assert (low + high) / 2 == pytest.approx(exact - weights @ form.thresholds, abs=1e-6)


def test_the_gauge_keeps_the_rounding_of_far_states_out():
    """The values of a long queue are huge where nobody comes."""
    model = queue(capacity=20_000)
    form = StandardForm.of(model)
    what = claim(form, form.reward)
    potential = form.criterion.potentials(form, form.uniform_policy(), (what,))[0]
    with_gauge = np.diff(policy_bounds(form, form.uniform_policy(), what, potential, form.gauge))
    without = np.diff(policy_bounds(form, form.uniform_policy(), what, potential))
    assert with_gauge < without / 3 and without < 1e-10  # differences of values are small too
