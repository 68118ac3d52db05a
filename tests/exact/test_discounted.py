from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import scipy.sparse.linalg as spla
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.environments import cliff_world, queue
from cmdpax.errors import InputError, NumericalError
from cmdpax.exact import systems
from cmdpax.exact.discounted import transition_matrix
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import bellman
from cmdpax.loops import systems as loops
from models import STRUCTURES, build, cmdps, large_path, random_policies, uneven


@pytest.fixture(autouse=True)
def _sparse(request):
    """Most of this is about the path of large models."""
    if "small" in request.fixturenames:
        yield
        return
    with large_path():
        yield


@pytest.fixture
def small():
    """This test is about small models."""


def form_of(*arguments) -> StandardForm:
    return StandardForm.of(build(*arguments))


def rewards_of(form: StandardForm) -> np.ndarray:
    return np.stack([form.reward, *form.constraints])


def truth(form: StandardForm, policy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values `[1 + m, S]` and occupancy `[S]` by dense linear algebra."""
    rows = form.transitions
    chosen = rows.deterministic(policy) if policy.dtype.kind in "iu" else policy
    owner = np.repeat(np.eye(form.states), np.diff(rows.first_choice), axis=0)  # [K, S]
    matrix = owner.T @ (chosen[:, None] * rows.matrix.toarray())
    system = np.eye(form.states) - form.criterion.discount * matrix
    rewards = (rewards_of(form) * chosen) @ owner
    return np.linalg.solve(system, rewards.T).T, np.linalg.solve(system.T, form.initial)


def check(form: StandardForm, policy: np.ndarray) -> None:
    values, visits = truth(form, policy)
    criterion, mass = form.criterion, form.criterion.mass
    scale = mass * np.abs(rewards_of(form)).max()
    allowed = 1e-12 * mass * scale
    for rewards in (rewards_of(form), (form.reward, *form.constraints)):
        np.testing.assert_allclose(criterion.values(form, policy, rewards), values, atol=allowed)
    occupancy = criterion.visits(form, policy)
    assert (occupancy >= 0).all()
    assert np.abs(occupancy - visits).sum() <= 1e-12 * mass**2
    np.testing.assert_array_equal(criterion.share(form, policy), criterion.unit * occupancy)
    evaluation = form.evaluate(policy)
    at_start = values @ form.initial
    assert evaluation.reward == pytest.approx(at_start[0], abs=allowed)
    np.testing.assert_allclose(evaluation.margins, at_start[1:] - form.thresholds, atol=allowed)


@settings(max_examples=80)
@given(cmdps(states=40))
def test_values_and_occupancies_against_dense_algebra(model):
    form = StandardForm.of(model)
    for policy in random_policies(model):
        check(form, policy)


@pytest.mark.parametrize("large", [4, 1000])
@pytest.mark.parametrize("seed", range(20))
def test_uneven_models_component_by_component(seed, large, monkeypatch):
    """Components of four states count as large, or none does."""
    monkeypatch.setattr("cmdpax.loops.components.LARGE", large)
    for discount in (0.9, 0.999):
        model = uneven(60, seed, discount)
        for policy in random_policies(model):
            check(StandardForm.of(model), policy)


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("discount", [0.9, 0.999])
def test_larger_structures(structure, discount):
    policy = np.random.default_rng(0).dirichlet(np.ones(3), 400).ravel()
    check(form_of(structure, 400, 3, 3, discount, 5), policy)


def test_batches_on_small_models_agree_with_single_policies(small):
    """Any leading shape; rewards shared by all policies, or each policy's own."""
    form, rng = StandardForm.of(cliff_world()), np.random.default_rng(0)
    assert form.is_small
    policies = rng.dirichlet(np.ones(4), (2, 3, 21)).reshape(2, 3, 84)
    own = rng.random((2, 3, 2, 84))
    shared, criterion = rewards_of(form), form.criterion
    values = criterion.values(form, policies, own), criterion.values(form, policies, shared)
    visits = criterion.visits(form, policies)
    assert values[0].shape == values[1].shape == (2, 3, 2, 21)
    one = criterion.values(form, policies, form.reward)
    np.testing.assert_array_equal(one, values[1][:, :, 0])
    for place in np.ndindex(2, 3):
        policy = policies[place]
        for batched, rewards in zip(values, (own[place], shared)):
            alone = criterion.values(form, policy, rewards)
            np.testing.assert_allclose(batched[place], alone, atol=1e-13)
        np.testing.assert_allclose(visits[place], criterion.visits(form, policy), atol=1e-13)


def test_a_table_is_no_policy_by_choice():
    form = form_of("random", 300, 2, 2, 0.9, 0)
    for function in (form.evaluate, partial(form.criterion.visits, form)):
        with pytest.raises(InputError, match=r"policy: shape \(300, 2\), expected \[..., 600\];"):
            function(np.full((300, 2), 0.5))


def test_batches_need_a_small_model():
    form = form_of("random", 300, 2, 2, 0.9, 0)
    with pytest.raises(InputError, match="batches"):
        form.criterion.values(form, np.full((3, 600), 0.5), form.reward)


@pytest.mark.parametrize("path", [nullcontext, large_path])
def test_action_values_take_any_leading_shape(path, small):
    model = build("random", 30, 2, 3, 0.9, 0)
    form = StandardForm.of(model)
    values = np.random.default_rng(0).normal(size=(2, 3, 30))
    expected = model.reward + 0.9 * values @ model.transitions.matrix.toarray().T
    with path():
        action_values = form.criterion.action_values(form, form.reward, values)
    np.testing.assert_allclose(action_values, expected, atol=1e-14)


@settings(max_examples=30)
@given(cmdps())
def test_occupancies_satisfy_the_flow(model):
    form = StandardForm.of(model)
    _, policy = random_policies(model)
    pairs = model.transitions.by_state(form.criterion.visits(form, policy)) * policy
    residual = form.criterion.flow(form) @ pairs - form.initial
    assert np.abs(residual).sum() <= 1e-12 * form.criterion.mass


@settings(max_examples=30)
@given(cmdps(states=6, actions=3), st.integers(0, 10**6))
def test_values_are_as_smooth_as_is_said(model, seed):
    """Second differences and slopes of a value of span 1 along a line of tables."""
    form = StandardForm.of(model.replace(discount=min(model.discount, 0.9)))
    rng = np.random.default_rng(seed)
    reward = rng.random(form.reward.shape)
    ends = rng.dirichlet(np.ones(form.actions), (2, form.states)).reshape(2, -1)
    line = np.linspace(*ends, 5)
    at = np.array([form.criterion.values(form, one, reward) @ form.initial for one in line])
    curvature, squared_slope = form.criterion.smoothness(form)
    step = np.linalg.norm(line[1] - line[0])
    assert np.abs(np.diff(at, 2)).max() <= curvature * step**2 + 1e-12
    assert np.abs(np.diff(at)).max() <= np.sqrt(squared_slope) * step + 1e-12


def test_guess_and_tolerance_change_the_work_not_the_answer():
    form = form_of("random", 500, 2, 4, 0.99, 1)
    actions, criterion = form.transitions.first_choice[:-1], form.criterion
    values, visits = truth(form, actions)
    guess = np.random.default_rng(0).normal(size=500)
    loose = criterion.values(form, actions, form.reward, tolerance=1e-4, guess=guess)
    assert abs((loose - values[0]) @ form.initial) <= 1e-4 * np.abs(form.reward).max() * 100
    warm = criterion.visits(form, actions, tolerance=1e-10, guess=visits * 3.0)
    assert np.abs(warm - visits).sum() <= 1e-10 * 100
    with pytest.raises(ValueError):
        criterion.values(form, actions, form.reward, guess=np.zeros(3))


def test_uniform_start_does_not_break_the_occupancy_down():
    """BiCGStab with the uniform right-hand side as its shadow broke down here (SciPy: info -11)."""
    form = form_of("random", 3000, 1, 5, 0.99, 0)
    actions = form.transitions.first_choice[:-1]
    visits = form.criterion.visits(form, actions)
    matrix = transition_matrix(form, actions).matrix
    assert np.abs(form.initial + 0.99 * (matrix.T @ visits) - visits).sum() <= 1e-12
    assert visits.sum() == pytest.approx(100)


def test_zero_reward():
    form = form_of("cycle", 10, 1, 1, 0.99, 0)
    zero, actions = np.zeros(10), form.transitions.first_choice[:-1]
    assert (form.criterion.values(form, actions, zero) == 0).all()


def slow_chain() -> StandardForm:
    """A walk, which mixes slowly, started anywhere: fixed-point steps give up."""
    own, rng = np.arange(1000), np.random.default_rng(0)
    to = np.stack([np.maximum(own - 1, 0), np.minimum(own + 1, 999)], 1)[:, None]
    reward, anywhere = rng.random((1000, 1)), rng.dirichlet(np.ones(1000))
    return StandardForm.of(CMDP((to, np.full(to.shape, 0.5)), reward, [], [], anywhere, 0.9999))


@pytest.mark.parametrize("rubbish", [0.0, 1e3, np.nan])
def test_failing_krylov_is_caught_by_lu(rubbish, monkeypatch):
    calls = []

    def broken(system, factors, right, *_):
        calls.append(1)
        return np.full_like(right, rubbish)

    monkeypatch.setattr(loops, "bicgstab", broken)
    check(slow_chain(), slow_chain().transitions.first_choice[:-1])
    assert calls, "the chain was meant to need the Krylov stage"


def test_failing_everything_raises(monkeypatch):
    class Broken:
        def solve(self, right):
            return np.full_like(right, 7.0)

    monkeypatch.setattr(loops, "bicgstab", lambda system, factors, right, *_: np.zeros_like(right))
    monkeypatch.setattr(systems, "ROUNDS", 1)
    monkeypatch.setattr(spla, "splu", lambda matrix: Broken())
    form = slow_chain()
    actions = form.transitions.first_choice[:-1]
    values = partial(form.criterion.values, rewards=form.reward)
    for attempt in (form.criterion.visits, values):
        with pytest.raises(NumericalError, match="could not be solved"):
            attempt(form, actions)


def test_lu_is_not_tried_on_models_it_could_choke_on(monkeypatch):
    monkeypatch.setattr(systems, "MAX_LU_STATES", 10)
    monkeypatch.setattr(systems, "ROUNDS", 1)
    monkeypatch.setattr(loops, "bicgstab", lambda system, factors, right, *_: np.zeros_like(right))
    form = slow_chain()
    with pytest.raises(NumericalError):
        form.criterion.visits(form, form.transitions.first_choice[:-1])


def test_fixed_point_that_overflows_is_caught(monkeypatch):
    original = loops.relax
    monkeypatch.setattr(
        loops, "relax", lambda *arguments: (original(*arguments)[0], [np.nan], np.nan)
    )
    form = form_of("random", 50, 2, 3, 0.9, 0)
    check(form, form.transitions.first_choice[:-1])


def test_far_states_count_little_in_a_gauge():
    form = StandardForm.of(queue(capacity=20_000))
    steps, gauge = bellman.distances(form.transitions, form.initial), form.gauge
    assert steps.max() == 20_000 and gauge[0] == 1 and gauge.max() == 1e40
    future = form.criterion.discount * bellman.expected(form.transitions, gauge)
    assert (form.transitions.by_state(gauge) > future).all()
    assert StandardForm.of(queue(capacity=50)).gauge is None


def test_a_gauge_does_not_overflow_silently_or_aloud():
    """2,999 steps at discount 1/2: `gamma^(-t/2)` is beyond all floats; a warning is an error."""
    successors = np.minimum(np.arange(3000) + 1, 2999)[:, None, None]
    rows = (successors, np.ones((3000, 1, 1)))
    form = StandardForm.of(CMDP(rows, np.ones((3000, 1)), [], [], 0, 0.5))
    assert form.gauge.max() == 1e40


def test_a_constant_far_from_zero_is_taken_out():
    form = form_of("random", 5, 2, 2, 0.9, 0)
    reward = form.reward + 1e6
    constant, value = form.criterion.constant_of(*form.span(reward))
    assert constant == reward.min() / 2 + reward.max() / 2
    assert float(value) == pytest.approx(constant / form.criterion.unit, rel=1e-15)
    assert form.criterion.constant_of(*form.span(form.reward)) == (0.0, 0)
