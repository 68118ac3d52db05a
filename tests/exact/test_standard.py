"""The one problem: how it is made of a model, scaled and translated back; and its criteria."""

from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.checker import bounds as checker
from cmdpax.checker.facts import Facts, visited
from cmdpax.checker.policies import checked_policy
from cmdpax.exact.bounds import best_bounds, claim, policy_bounds
from cmdpax.exact.certificate import certify, lagrangian_bound
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.exact.transient import ended_states
from models import build, cmdps, uneven
from two_states import every_sense


# ---- how a form is made
def test_at_most_is_negated_and_two_sides_make_two_rows():
    form = StandardForm.of(every_sense(minimise=True))
    np.testing.assert_array_equal(form.reward, [-1, -2, 0, -3])
    factors = np.array([-1.0, 2, 3, -3, 4, -4])
    np.testing.assert_array_equal(form.constraints, np.outer(factors, [1, 0, 0, 1]))
    np.testing.assert_array_equal(form.thresholds, [-2, 1, 5, -5, 6, -7])
    assert form.constraint_count == 6 and form.criterion == Discounted(0.9)
    for array in (form.reward, form.constraints, form.thresholds):
        assert not np.signbit(array[array == 0]).any()  # one form for one number


def test_what_needs_no_turning_is_the_model_s_own():
    model = every_sense(
        senses=">=", thresholds=[2.0, 1, 5, 6], available=[[True, False], [True, True]]
    )
    form = StandardForm.of(model)
    assert form.reward is model.reward and form.constraints is model.constraints
    assert form.transitions is model.transitions and form.initial is model.initial
    np.testing.assert_array_equal(form.uniform_policy(), [1.0, 0.5, 0.5])


def test_reachable_and_scales():
    """0 -> 1 -> 1; state 2 is never seen, and its rewards do not count."""
    dense = np.zeros((3, 1, 3))
    dense[0, 0, 1] = dense[1, 0, 1] = dense[2, 0, 0] = 1.0
    rows = [[[0.0], [-4.0], [9.0]], [[5.0], [5.0], [0.0]]]
    model = CMDP(dense, [[1.0], [3.0], [100.0]], rows, [0.0, 0.0], [1, 0, 0], 0.5)
    form = StandardForm.of(model)
    np.testing.assert_array_equal(form.reachable, [True, True, False])
    assert form.reward_scale == pytest.approx(2.0 / 0.5)
    np.testing.assert_allclose(form.constraint_scales, [4.0 / 0.5, 1.0 / 0.5])  # span 0 counts as 1


def test_replace_shares_what_was_found_about_reachable_states():
    form = StandardForm.of(build("unreachable", 9, 2, 2, 0.9, 0))
    reachable = form.reachable
    assert form.replace(reward=form.reward + 1).reachable is reachable
    assert form.replace(initial=np.eye(9)[8]).reachable.sum() > reachable.sum()


@given(cmdps(), st.integers(0, 10**6))
def test_pseudo_rewards_are_sums(model, seed):
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    weights = rng.random((3, form.constraint_count))
    expected = [form.reward + sum(w * c for w, c in zip(row, form.constraints)) for row in weights]
    np.testing.assert_allclose(form.pseudo_reward(weights), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(form.pseudo_reward(weights[0]), form.pseudo_reward(weights)[0])


# ---- scaled, and back
@given(cmdps(), st.integers(0, 10**6))
def test_scaled_values_are_shares_of_their_widths_and_translate_back(model, seed):
    """Values by constant and width, weights and rays by widths: one Lagrangian, one optimum.

    A constant is the middle of rewards far from 0, and 0 else; then values are within 1.5 widths.
    """
    form, rng = StandardForm.of(model), np.random.default_rng(seed)
    scaled = form.scaled()
    policy = model.by_choice(rng.dirichlet(np.ones(form.actions), form.states))
    own, inner = form.evaluate(policy), scaled.form.evaluate(policy)
    at_start = inner.values @ form.initial
    assert (np.abs(at_start) <= 1.5 + 1e-9).all()
    constants = np.array([float(value) for _, value in form.constants])
    np.testing.assert_allclose(
        at_start * form.scales[:, 1] + constants, own.values @ form.initial, rtol=1e-9, atol=1e-9
    )
    rounding = 1e-9 * (1 + np.abs(form.thresholds) / form.constraint_scales)
    margins = own.margins / form.constraint_scales
    np.testing.assert_allclose(inner.margins, margins, atol=rounding.max(initial=1e-9))
    weights = rng.random(form.constraint_count)
    back = scaled.weights(weights)
    np.testing.assert_allclose(scaled.scaled_weights(back), weights, rtol=1e-12)
    np.testing.assert_allclose(back @ own.margins / form.reward_scale, weights @ margins, rtol=1e-9)
    np.testing.assert_allclose(scaled.ray(weights) @ own.margins, weights @ margins, rtol=1e-9)


def test_a_scaled_potential_proves_the_unscaled_bound():
    form = StandardForm.of(build("random", 40, 3, 3, 0.9, 1, 2, offset=0.0))
    scaled, weights = form.scaled(), np.array([0.3, 0.2])
    inner = scaled.form
    best = inner.criterion.plan(inner, inner.pseudo_reward(weights))
    own = scaled.weights(weights)
    bound = lagrangian_bound(form, form.reward, own, scaled.potential(best.values))
    plan = form.criterion.plan(form, form.pseudo_reward(own))
    assert bound == pytest.approx(plan.value - own @ form.thresholds, rel=1e-9)


def test_unreachable_states_are_clipped():
    form = StandardForm.of(build("unreachable", 9, 2, 2, 0.9, 0))
    reward = np.where(form.reachable_choices, form.reward, 1e9)
    inner = form.replace(reward=reward).scaled().form
    assert np.ptp(inner.reward) <= form.criterion.unit * (1 + 1e-12)


# ---- a law of every criterion: whatever the potential, the bounds hold in exact arithmetic
def rational_rows(array: np.ndarray) -> np.ndarray:
    """Rows `[..., n]` as the exact distributions that they stand for."""
    exact = np.vectorize(Fraction, otypes=[object])(array)
    return exact / exact.sum(-1, keepdims=True)


def discounted_value(form: StandardForm, chances: np.ndarray, reward: np.ndarray) -> Fraction:
    """`rho (I - gamma P)^-1 x` in rational arithmetic, for `P_pi [S, S]` and `x [S]`."""
    S, discount = len(chances), Fraction(form.criterion.discount)
    table = np.full((S, S + 1), Fraction(0))
    table[:, :S], table[:, S] = np.eye(S, dtype=int) - discount * chances, reward
    for s in range(S):  # diagonally dominant: no pivot is 0
        table[s] /= table[s, s]
        for other in range(S):
            if other != s:
                table[other] -= table[other, s] * table[s]
    return (rational_rows(form.initial) * table[:, S]).sum()


EXACT_VALUE = {Discounted: discounted_value}  # one for each criterion
numbers = st.floats(-1, 1)


@st.composite
def tiny_forms(draw):
    """A form of at most three states and two actions, a policy, and a potential of any size."""
    S, A = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    transitions = rng.integers(0, S, (S, A, 2)), rng.dirichlet([1, 1], (S, A))
    size = 10.0 ** draw(st.integers(-6, 9))
    reward = size * rng.normal(size=(S, A)) + draw(st.sampled_from([0.0, 1.0, 1e6]))
    discount = draw(st.sampled_from([0.0, 0.3, 0.9, 0.999, 1 - 1e-6]))
    initial = np.eye(S)[0] if draw(st.booleans()) else rng.dirichlet(np.ones(S))
    model = CMDP(transitions, reward, np.zeros((0, S, A)), [], initial, discount)
    if draw(st.booleans()):  # the same with a leak to an end, also without a discount
        model = _with_end(model, rng, draw(st.sampled_from([discount, 1 - 1e-9, 1.0])))
        S += 1
    potential = np.array(draw(st.lists(numbers, min_size=S, max_size=S)))
    if model.discount == 1:
        potential[-1] = 0.0
    potential = potential * 10.0 ** draw(st.integers(-9, 12))
    if draw(st.booleans()):  # nearly right ones are the delicate ones
        form = StandardForm.of(model)
        potential = form.criterion.plan(form, form.reward).values * (1 + 1e-15 * potential)
    gauge = rng.random(S) if draw(st.booleans()) else None  # any one, good or useless
    form = StandardForm.of(model)
    if not form.criterion.is_closed:
        gauge = form.gauge * (1 + 0.1 * rng.random(S)) if draw(st.booleans()) else form.gauge
    policy = rng.dirichlet(np.ones(A), S)
    if model.choices < S * A:  # the end has one choice
        policy[-1] = np.eye(A)[0]
    return model, policy, potential, gauge


def _with_end(model, rng, discount):
    """The model with one more state, which every choice leads to with some chance."""
    S, A = model.states, model.actions
    chances = np.zeros((S + 1, A, S + 1))
    leak = rng.choice([1e-6, 0.01, 0.5, 1.0], (S, A, 1))
    chances[:S, :, :S] = model.transitions.matrix.toarray().reshape(S, A, S) * (1 - leak)
    chances[:S, :, S:] = leak
    chances[S, :, S] = 1.0
    reward = np.vstack([model.reward.reshape(S, A), np.zeros((1, A))])
    initial = np.append(model.initial, 0.0)
    return CMDP(chances, reward, np.zeros((0, S + 1, A)), [], initial, discount, goal=[S])


@pytest.mark.parametrize("criterion", EXACT_VALUE)
@settings(max_examples=400)
@given(tiny_forms())
def test_bounds_hold_for_any_vector_in_rational_arithmetic(criterion, drawn):
    model, policy, potential, gauge = drawn
    form, rows = StandardForm.of(model), model.transitions
    S, A = model.states, model.actions
    tensor = np.full((S, A, S), Fraction(0))
    for k, (i, j) in enumerate(pairwise(rows.first_entry)):
        own = rational_rows(rows.probabilities[i:j])
        tensor.reshape(S * A, S)[rows.cells[k], rows.successors[i:j]] = own
    tensor[-1] *= model.discount < 1 or not ended_states(model)[-1]  # nothing follows an end
    reward = np.vectorize(Fraction, otypes=[object])(rows.as_table(model.reward))

    def value(probabilities: np.ndarray) -> Fraction:
        chances = (probabilities[:, :, None] * tensor).sum(1)
        return EXACT_VALUE[criterion](form, chances, (probabilities * reward).sum(1))

    facts = Facts(model, visited(model), gauge)
    exact, what = value(rational_rows(policy)), claim(form, form.reward)
    low, high = policy_bounds(form, model.by_choice(policy), what, potential, gauge)
    assert low <= exact <= high
    normalised = checked_policy(model, policy)
    less, more = checker.policy_bounds(facts, normalised, model.reward, potential)
    assert low <= less <= exact <= more <= high
    free = [range(n) for n in np.diff(model.first_choice)]
    choices = (np.eye(A, dtype=int)[list(actions)] for actions in product(*free))
    best = max(value(choice) for choice in choices)
    low, high = best_bounds(form, what, potential, gauge)
    assert low <= best <= high
    less, more = checker.best_bounds(facts, *checker.centred(facts, model.reward), potential)
    assert low <= less <= best <= more <= high


@pytest.mark.parametrize("seed", range(3))
def test_a_form_in_order_is_the_same_problem(seed):
    """Values, certificates and policies said back are those of the form it was made of."""
    model = uneven(400, seed, 0.99).replace(thresholds=[0.0])
    form = StandardForm.of(model)
    other = form.in_order()
    rows = other.form.transitions
    assert (np.diff(rows.order.states.astype(int)) == 1).all()
    np.testing.assert_array_equal(rows.order.starts, form.transitions.order.starts)
    pairs = (rows.first_entry[k : k + 2] for k in range(rows.choices))
    assert all((np.diff(rows.successors[i:j]) > 0).all() for i, j in pairs)
    policy = np.random.default_rng(seed).random(form.choices)
    policy /= other.form.transitions.by_state(other.form.transitions.sums(policy))
    own, mirror = form.evaluate(other.policy(policy)), other.form.evaluate(policy)
    np.testing.assert_allclose(own.values, mirror.values[:, other.place], rtol=1e-9, atol=1e-9)
    ranges = attained_ranges(other.form)
    plan = other.form.criterion.plan(other.form, other.form.reward)
    proof, _ = certify(other.form, ((1.0, policy),), np.zeros(1), plan.choices, ranges)
    said = other.certificate(proof)
    what, bounds = claim(form, form.reward), proof.reward_bounds
    again = policy_bounds(form, other.policy(policy), what, said.value_potentials[0], said.gauge)
    assert again == pytest.approx(bounds, rel=1e-12)
    assert best_bounds(form, what, said.dual_potential, said.gauge)[1] == pytest.approx(
        proof.dual_bound, rel=1e-12
    )
