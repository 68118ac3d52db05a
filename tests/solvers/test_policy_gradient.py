"""The first-order oracle: its four steps by hand, its step-size rules, and both policy classes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cmdpax import InputError, NumericalError
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.environments.by_name import tiles
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_gradient import (
    PolicyGradient,
    npg,
    ppg,
    pqa,
    project_simplex,
    smoothness,
    spma,
    theory_step,
)
from cmdpax.solvers.trajectory import trajectory
from models import cmdps

STEPS = {"pqa": pqa, "ppg": ppg, "npg": npg, "spma": spma}
points = arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-1e3, 1e3)
)
UTILITY = AugmentedLagrangian(np.array([0.1]), 10.0)


def _share(form, policy):
    return form.criterion.share(form, form.transitions.by_choice(policy))


def oracle(name, size="backtracking", **settings):
    return PolicyGradient(STEPS[name], size, gradient=name == "ppg", **settings)


def al(state, utility):
    return utility.value(state.reward, state.margins)


@given(points)
def test_projection_meets_its_optimality_conditions(x):
    """The nearest point p of the simplex: `x - p` is constant on the support and smaller off it."""
    p = project_simplex(x)
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
    assert (p >= 0).all()
    for row, probability in zip(x, p, strict=True):
        dual = (row - probability)[probability > 0]
        assert np.ptp(dual) <= 1e-9 * (1 + np.abs(row).max())
        assert (row[probability == 0] <= dual.max() + 1e-9 * (1 + np.abs(row).max())).all()


@given(points)
def test_projection_is_nearest_among_random_distributions(x):
    p = project_simplex(x)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = rng.dirichlet(np.ones(x.shape[-1]), x.shape[0])
        assert (((x - p) ** 2).sum(-1) <= ((x - other) ** 2).sum(-1) * (1 + 1e-9) + 1e-9).all()


def test_projection_hand_computed():
    np.testing.assert_allclose(project_simplex(np.array([0.5, 1.5])), [0.0, 1.0])
    np.testing.assert_allclose(project_simplex(np.array([0.6, 0.8])), [0.4, 0.6])
    np.testing.assert_allclose(project_simplex(np.array([1e300, 0.0])), [1.0, 0.0])


# --- the steps


@pytest.mark.parametrize(
    ("step", "policy", "direction", "size", "expected"),
    [
        (pqa, [[0.5, 0.5]], [[1.0, 0.0]], 0.2, [[0.6, 0.4]]),
        (pqa, [[0.5, 0.5]], [[1.0, 0.0]], 10.0, [[1.0, 0.0]]),
        (pqa, [[0.2, 0.3, 0.5]], [[7.0, 7.0, 7.0]], 2.0, [[0.2, 0.3, 0.5]]),
        (ppg, [[0.5, 0.5], [0.5, 0.5]], [[0.1, 0.0], [0.0, 0.4]], 1.0, [[0.55, 0.45], [0.3, 0.7]]),
        (npg, [[0.25, 0.75]], [[np.log(3.0), 0.0]], 1.0, [[0.5, 0.5]]),
        # zero stays zero, and large steps stay finite
        (npg, [[0.0, 0.4, 0.6]], [[1e6, 1.0, 0.0]], 1e5, [[0.0, 1.0, 0.0]]),
        # advantages +-1/2; clipped where it would turn negative; no advantage changes nothing
        (spma, [[0.5, 0.5]], [[1.0, 0.0]], 0.4, [[0.6, 0.4]]),
        (spma, [[0.5, 0.5]], [[1.0, 0.0]], 100.0, [[1.0, 0.0]]),
        (spma, [[0.2, 0.8]], [[1.0, 1.0]], 5.0, [[0.2, 0.8]]),
    ],
)
def test_hand_computed_steps(step, policy, direction, size, expected):
    stepped = step(np.array(policy), np.array(direction), np.array(size))
    np.testing.assert_allclose(stepped, expected, atol=1e-15)


# --- tables


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("environment", [cliff_world, deep_sea])
def test_backtracking_closes_the_certified_gap_monotonically(name, environment):
    model, improve = environment(), oracle(name)
    state = improve.start(StandardForm.of(model))
    values = [al(state, UTILITY)]
    for _ in range(300):
        state = improve.advance(StandardForm.of(model), state, UTILITY)
        values.append(al(state, UTILITY))
    assert (np.diff(values) >= -1e-12).all()
    assert improve.gap(StandardForm.of(model), state, UTILITY).gap <= 2e-3


@settings(max_examples=25)
@given(cmdps(constraints=(1, 3), states=5, actions=3), st.integers(0, 10**6))
def test_pqa_is_monotone_at_the_theory_step(model, seed):
    rng = np.random.default_rng(seed)
    model = model.replace(
        initial=rng.dirichlet(np.full(model.states, 3.0)) * 0.5 + 0.5 / model.states
    )
    utility = AugmentedLagrangian(rng.random(model.constraint_count), 2.0)
    improve = oracle("pqa", "theory")
    state = improve.start(
        StandardForm.of(model), rng.dirichlet(np.ones(model.actions), model.states)
    )
    for _ in range(5):
        after = improve.advance(StandardForm.of(model), state, utility)
        # rounding: margins are differences of values of the size of the horizon, and the AL weighs
        # them by w
        weights = utility.weights(state.margins)
        values = np.abs(model.constraints).max(1) / (1 - model.discount)
        size = np.abs(model.reward).max() / (1 - model.discount) + float(
            weights @ (values + np.abs(model.thresholds))
        )
        assert al(after, utility) >= al(state, utility) - 1e-13 * size
        state = after


@settings(max_examples=25)
@given(cmdps(constraints=(1, 2), states=4, actions=3), st.integers(0, 10**6))
def test_smoothness_bounds_the_second_difference(model, seed):
    """|G(x+d) - 2 G(x) + G(x-d)| <= L |d|^2 for the constant L."""
    rng = np.random.default_rng(seed)
    model = model.replace(discount=min(model.discount, 0.9))
    utility = AugmentedLagrangian(rng.random(model.constraint_count), 3.0)
    policy = rng.dirichlet(np.full(model.actions, 3.0), model.states)
    direction = policy * rng.uniform(-1, 1, policy.shape)
    direction = 0.3 * (direction - policy * direction.sum(1, keepdims=True))
    values = [
        al(
            oracle("pqa", 0.1).start(StandardForm.of(model), policy=policy + sign * direction),
            utility,
        )
        for sign in (-1, 0, 1)
    ]
    bound = smoothness(StandardForm.of(model), utility) * (direction**2).sum()
    assert abs(values[0] - 2 * values[1] + values[2]) <= bound + 1e-9 * (1 + np.abs(values).max())


def test_theory_step_of_cliff_world():
    """Of the order of 6e-8, usable as a check of the theory and not as a method.

    The paper's constant bounds the squared gradient norm by A^2 / (1-gamma), which is too small (it
    is at most A / (1-gamma)^4); with the right one the step is 4.3e-8.
    """
    utility = AugmentedLagrangian(np.zeros(1), 10.0)
    assert theory_step(StandardForm.of(cliff_world()), utility) == pytest.approx(4.27e-8, rel=0.01)


def test_the_certified_gap_is_an_upper_bound():
    """No policy that longer optimisation finds beats the bound."""
    model = garnet(states=20, constraints=2, seed=3)
    utility, improve = AugmentedLagrangian(np.array([0.2, 0.1]), 1.0), oracle("pqa")
    early = improve.start(StandardForm.of(model))
    bound = improve.gap(StandardForm.of(model), early, utility).gap
    late = early
    for _ in range(200):
        late = improve.advance(StandardForm.of(model), late, utility)
    assert al(late, utility) - al(early, utility) <= bound + 1e-12
    assert improve.gap(StandardForm.of(model), late, utility).gap < bound


def test_batched_and_single_runs_agree():
    model, sizes = cliff_world(), np.array([0.1, 1.0, 10.0])
    together, singles = oracle("pqa", sizes), [oracle("pqa", size) for size in sizes]
    batch, states = (
        together.start(StandardForm.of(model)),
        [single.start(StandardForm.of(model)) for single in singles],
    )
    multipliers = np.array([[0.1], [0.2], [0.3]])
    for _ in range(20):
        batch = together.advance(
            StandardForm.of(model), batch, AugmentedLagrangian(multipliers, 10.0)
        )
        states = [
            one.advance(StandardForm.of(model), state, AugmentedLagrangian(row, 10.0))
            for one, state, row in zip(singles, states, multipliers, strict=True)
        ]
    for i, state in enumerate(states):
        np.testing.assert_allclose(batch.policy[i], state.policy, atol=1e-12)


@pytest.mark.parametrize("size", [0.0, -1.0, np.nan, np.inf, "fast"])
def test_bad_step_sizes_are_refused(size):
    with pytest.raises(InputError, match="step"):
        oracle("pqa", size)


def test_theory_step_needs_every_state_in_the_start():
    model = garnet(states=5)
    model = model.replace(initial=np.eye(5)[0])
    improve = oracle("pqa", "theory")
    with pytest.raises(InputError, match=r"initial\[1\] is 0"):
        improve.advance(StandardForm.of(model), improve.start(StandardForm.of(model)), UTILITY)


def test_non_finite_steps_stop_loudly():
    model = cliff_world()
    improve = PolicyGradient(lambda policy, action_values, size: policy * np.nan, 0.1)
    with pytest.raises(NumericalError, match="not finite"):
        improve.advance(StandardForm.of(model), improve.start(StandardForm.of(model)), UTILITY)


# --- log-linear policies


@pytest.mark.parametrize("size", [0.1, "backtracking"])
@pytest.mark.parametrize("name", STEPS)
def test_one_hot_features_give_back_the_tabular_step(name, size):
    model, policies = cliff_world(), LogLinear(Features(one_hot(21, 4)))
    tabular, linear = oracle(name, size), oracle(name, size, policies=policies)
    one, other = tabular.start(StandardForm.of(model)), linear.start(StandardForm.of(model))
    for _ in range(5):
        one = tabular.advance(StandardForm.of(model), one, UTILITY)
        before, other = other, linear.advance(StandardForm.of(model), other, UTILITY)
        # Newton's tolerance, in a probability
        np.testing.assert_allclose(other.policy, one.policy, atol=3e-5)
    bias, optimiser = policies.projection_errors(
        other.parameters,
        _share(StandardForm.of(model), before.policy),
        linear.target(StandardForm.of(model), before, UTILITY),
    )
    assert 0 <= bias < 1e-7 and 0 <= optimiser < 1e-7


def test_a_batch_is_its_members():
    model, sizes, slopes = deep_sea(), np.array([0.1, 1.0]), np.array([1.0, 0.1])
    features = Features(tiles(25, 2, 40, 4, 1))
    budget = {"outer": 2, "inner": 10, "projection_steps": 20}
    together = trajectory(
        model, "ppqa-alm", features=features, step=sizes, projection_step=slopes, **budget
    )
    for i in range(2):
        alone = trajectory(
            model, "ppqa-alm", features=features, step=sizes[i], projection_step=slopes[i], **budget
        )
        np.testing.assert_allclose(together.rewards[:, i], alone.rewards, atol=1e-12)
        np.testing.assert_allclose(together.policy[i], alone.policy, atol=1e-12)


def test_bias_and_optimisers_error_add_up_to_the_divergence_of_what_was_done():
    model, features = deep_sea(), Features(tiles(25, 2, 40, 4, 1))
    errors = []
    for policies in (LogLinear(features, 0.1, 5), LogLinear(features)):
        improve = oracle("pqa", 1.0, policies=policies)
        before = improve.start(StandardForm.of(model))
        visits, target = (
            _share(StandardForm.of(model), before.policy),
            improve.target(StandardForm.of(model), before, UTILITY),
        )
        after = improve.advance(StandardForm.of(model), before, UTILITY)
        errors.append(policies.projection_errors(after.parameters, visits, target))
        assert sum(errors[-1]) == pytest.approx(
            float(policies.divergence(after.parameters, visits, target)), abs=1e-9
        )
    (bias, optimiser), again = errors
    # four groups cannot express the target, five steps do not find the best of them
    assert bias > 1e-3 and optimiser > 1e-6
    assert again[0] == pytest.approx(bias, abs=1e-9) and again[1] < 1e-9


def test_backtracking_never_lowers_the_augmented_lagrangian_of_a_class():
    model = cliff_world()
    improve = oracle("pqa", policies=LogLinear(Features(tiles(21, 4, 60, 4, 3))))
    state, last = improve.start(StandardForm.of(model)), -np.inf
    for _ in range(30):
        state = improve.advance(StandardForm.of(model), state, UTILITY)
        assert al(state, UTILITY) >= last - 1e-12
        last = al(state, UTILITY)
    assert improve.gap(StandardForm.of(model), state, UTILITY).gap > 0
    assert improve.policy(StandardForm.of(model), state).shape == (84,)


def test_a_given_policy_is_projected():
    model, policies = cliff_world(), LogLinear(Features(one_hot(21, 4)))
    policy = np.random.default_rng(0).dirichlet(np.ones(4), 21)
    state = oracle("pqa", policies=policies).start(StandardForm.of(model), policy=policy)
    np.testing.assert_allclose(state.policy, policy, atol=1e-4)


def test_what_a_class_cannot_do_is_refused():
    model, features = cliff_world(), Features(one_hot(21, 4))
    with pytest.raises(InputError, match="'theory' is neither"):
        oracle("pqa", "theory", policies=LogLinear(features))
    with pytest.raises(InputError, match="one configuration at a time"):
        oracle("pqa", policies=LogLinear(features, np.ones(2)))
    batched = oracle("pqa", np.ones(2), policies=LogLinear(features))
    with pytest.raises(InputError, match="one configuration at a time"):
        batched.advance(StandardForm.of(model), batched.start(StandardForm.of(model)), UTILITY)
    with pytest.raises(InputError, match="does not fit"):
        oracle("pqa", policies=LogLinear(Features(one_hot(3, 2)))).start(StandardForm.of(model))
