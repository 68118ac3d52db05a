import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax.environments import cliff_world
from cmdpax.loops import systems
from cmdpax.loops.bellman import policy_rows
from cmdpax.loops.rows import Matrix
from cmdpax.loops.systems import batch_occupancies, batch_values
from models import STRUCTURES, build, cmdps, dense_transitions, random_policies, uneven


@settings(max_examples=60)
@given(cmdps(states=40))
def test_fixed_point_steps_by_hand(model):
    """Every step, its size and the last middle against dense products; steps end at the target."""
    start = np.random.default_rng(3).normal(size=model.states)
    for policy in random_policies(model):
        rows = policy_rows(model.transitions, policy)
        dense = dense_transitions(model, policy)
        for right, operator, transpose in (
            (model.reward[model.first_choice[:-1]], dense, False),
            (model.initial, dense.T, True),
        ):
            vector, sizes, middle = start, [], 0.0
            for _ in range(4):
                change = right + model.discount * operator @ vector - vector
                vector = vector + change
                width = (change.max() - change.min()) / 2
                sizes.append(np.abs(change).sum() if transpose else width)
                middle = 0.0 if transpose else (change.max() + change.min()) / 2
            moved, own_sizes, own_middle = systems.relax(
                rows, right, model.discount, start, 4, 0.0, transpose
            )
            done = len(own_sizes)
            assert done == 4 or own_sizes[-1] == 0
            np.testing.assert_allclose(own_sizes, sizes[:done], atol=1e-12)
            if done == 4:
                np.testing.assert_allclose(moved, vector, atol=1e-12)
                assert own_middle == pytest.approx(middle, abs=1e-12)
            target = sizes[1] * 1.0001 + 1e-12  # the second change is below it, if not the first
            _, ended, _ = systems.relax(rows, right, model.discount, start, 4, target, transpose)
            assert len(ended) == (1 if sizes[0] <= target else 2)


@settings(max_examples=60)
@given(cmdps(states=40))
def test_systems_are_canonical(model):
    for policy in random_policies(model):
        rows = policy_rows(model.transitions, policy)
        for transpose in (False, True):
            system = systems.system_rows(rows, model.discount, transpose).matrix
            dense = dense_transitions(model, policy)
            expected = np.eye(model.states) - model.discount * (dense.T if transpose else dense)
            np.testing.assert_allclose(system.toarray(), expected, atol=1e-15)
            assert system.has_canonical_format
            assert system.nnz >= model.states and (system.diagonal() > 0).all()


def test_incomplete_factors_are_exact_for_a_chain():
    model = build("chain", 200, 2, 3, 0.99, 0)
    right = np.random.default_rng(0).normal(size=200)
    rows = policy_rows(model.transitions, model.first_choice[:-1])
    system = systems.system_rows(rows, 0.99, False)
    factors = systems.incomplete_factors(system)
    solution = systems.bicgstab(system, factors, right, np.zeros(200), 1e-10, 1, False)
    exact = np.linalg.solve(system.matrix.toarray(), right)
    np.testing.assert_allclose(solution, exact, rtol=1e-10)


def test_a_breakdown_is_no_error_where_only_its_parts_are_machine_code(monkeypatch):
    """Machine code returns Python's numbers, whose division by 0 raises."""
    dot = systems._dot.py_func
    monkeypatch.setattr(systems, "_dot", lambda left, right: float(dot(left, right)))
    sizes, solution = np.array([1.0, 2.0, 4.0]), np.ones(3)
    system = Matrix.of(sp.csr_array(np.diag(sizes)))
    arrays = *system.parts, systems.incomplete_factors(system), sizes, solution
    systems._bicgstab.py_func(*arrays, 0.0, 5, True)  # its residual is 0
    np.testing.assert_array_equal(solution, 1.0)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_incomplete_factors_keep_the_pattern_and_positive_pivots(structure):
    model = build(structure, 60, 2, 3, 0.999, 7)
    rows = policy_rows(model.transitions, random_policies(model)[1])
    system = systems.system_rows(rows, 0.999, False)
    factors, matrix = systems.incomplete_factors(system), system.matrix
    assert np.isfinite(factors).all()
    factored = sp.csr_array((factors, matrix.indices, matrix.indptr), shape=matrix.shape)
    assert (factored.diagonal() > 0).all()


@pytest.mark.parametrize(("jump", "against"), [(0.0, 0), (0.01, 1)])
def test_flow_order_puts_the_likely_successor_first(jump, against):
    """On a corridor all of them, on a cycle with rare jumps all but one."""
    rng, states = np.random.default_rng(0), 300
    names, ends = rng.permutation(states), states - 1 if jump == 0 else 0
    likely = sp.coo_array(
        (np.full(states, 1 - jump), (names, names[np.append(np.arange(1, states), ends)])),
        shape=(states, states),
    )
    random = sp.coo_array((np.full(states, jump), (names, rng.integers(0, states, states))))
    order = systems.flow_order(Matrix.of(sp.csr_array(likely + random if jump else likely)))
    assert sorted(order) == list(range(states))
    place = np.argsort(order)
    assert (place[likely.col] > place[likely.row]).sum() == against


def test_gauss_seidel_by_hand():
    system = sp.csr_array(np.array([[2.0, -1.0], [-0.5, 1.0]]))
    solution = np.zeros(2)
    systems.gauss_seidel(Matrix.of(system), np.array([2.0, 1.0]), solution, 1)
    # forwards: x0 = 1, x1 = 1.5; backwards: x1 = 1.5, x0 = 1.75
    np.testing.assert_allclose(solution, [1.75, 1.5])


@settings(max_examples=50)
@given(st.one_of(cmdps(), st.builds(uneven, st.integers(1, 30), st.integers(0, 999))))
def test_batches_against_dense_solves(model):
    """Shared rewards, and rewards of every policy's own."""
    rng = np.random.default_rng(0)
    arrays = model.rows(0, model.states), model.discount
    batch = np.stack([random_policies(model, seed)[1] for seed in range(3)])
    visits = batch_occupancies(*arrays, batch, model.initial)
    shared = np.concatenate([model.reward[None], model.constraints])[None]
    own, mass = rng.random((3, 2, model.choices)), 1 / (1 - model.discount)
    for rewards in (shared, own):
        values = batch_values(*arrays, batch, rewards)
        for n, policy in enumerate(batch):
            system = np.eye(model.states) - model.discount * dense_transitions(model, policy)
            right = model.transitions.sums(rewards[n % len(rewards)] * policy)
            exact = np.linalg.solve(system, right.T).T
            atol = 1e-14 * mass * (1 + np.abs(exact).max())
            np.testing.assert_allclose(values[n], exact, rtol=0, atol=atol)
            expected = np.linalg.solve(system.T, model.initial)
            np.testing.assert_allclose(visits[n], expected, rtol=0, atol=1e-14 * mass**2)


def test_a_policy_that_is_not_finite_spoils_only_itself():
    model = cliff_world()
    batch = np.stack([model.transitions.uniform_policy(), np.full(84, np.nan)])
    arrays = model.rows(0, model.states), model.discount
    values = batch_values(*arrays, batch, model.reward[None, None])
    assert np.isfinite(values[0]).all() and np.isnan(values[1]).any()
