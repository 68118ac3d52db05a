"""Dense systems and plans of small models, against LAPACK and plain policy iteration."""

import numpy as np
import pytest

from cmdpax.environments import garnet, grid_world, queue
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import small
from cmdpax.loops.compiled import readable

MODELS = [garnet(40, seed=1), queue(60), grid_world(6, 6, seed=2)]


def dense(form, policy):
    """`gamma P_pi`, `[S, S]`."""
    P = form.transitions.matrix.toarray()
    weighted = policy[:, None] * P
    return form.criterion.discount * np.add.reduceat(weighted, form.transitions.first_choice[:-1])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("transpose", [False, True])
def test_systems_are_solved_as_by_lapack(model, transpose):
    form = StandardForm.of(model)
    rng = np.random.default_rng(0)
    right, policy = rng.random((3, form.states)), rng.random(form.choices)
    policy /= form.transitions.by_state(form.transitions.sums(policy))
    choices = form.transitions.first_choice[1:] - 1
    for acting, mean in ((policy, policy), (choices, form.transitions.deterministic(choices))):
        system = np.eye(form.states) - dense(form, mean)
        system = system.T if transpose else system
        solved = small.solve_dense(form.kernel, acting, right, transpose)
        np.testing.assert_allclose(solved, np.linalg.solve(system, right.T).T, rtol=1e-9)


def test_factors_near_the_diagonal_are_those_of_whole_rows():
    form = StandardForm.of(queue(60))
    keys, S = form.transitions.first_choice[:-1].astype(np.int64), form.states
    right = np.arange(float(S))
    solved = []
    for reach in (None, 1):
        factors, vector, columns = small.empty_factors(S, reach), right.copy(), right[:, None] + 0
        small.factorise(form.kernel, keys, factors)
        small.substitute(factors, vector)
        small.substitute_all(factors, columns)
        np.testing.assert_array_equal(columns[:, 0], vector)
        solved.append(vector)
    assert factors.numbers.shape == (S, 3)
    np.testing.assert_array_equal(*solved)


@pytest.mark.parametrize("model", MODELS)
def test_no_choice_is_better_than_the_best_ones(model):
    form = StandardForm.of(model)
    for start in (None, form.transitions.first_choice[1:] - 1):
        choices, values = small.best_choices(form.kernel, form.reward, start)
        own = form.transitions.deterministic(choices)
        exact = np.linalg.solve(np.eye(form.states) - dense(form, own), form.reward[choices])
        np.testing.assert_allclose(values, exact, rtol=1e-9)
        action_values = form.criterion.action_values(form, form.reward, values)
        better = np.maximum.reduceat(action_values, form.transitions.first_choice[:-1]) - values
        assert better.max() <= 1e-9 * np.abs(values).max()


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rough", [0.0, 0.05])
def test_plans_for_both_ends_miss_at_most_their_share_of_the_range(model, rough):
    form = StandardForm.of(model)
    both = np.stack([-form.reward, form.reward])[None]
    vectors, kind = np.empty((1, 2, form.states)), (form.criterion.reach, readable(form.reachable))
    start = readable(form.initial)
    assert small.plan_both(form.kernel, readable(both), start, *kind, True, rough, vectors)
    truth = [form.criterion.plan(form, row) for row in both[0]]
    width = truth[0].value + truth[1].value
    for row, values, best in zip(both[0], vectors[0], truth):
        seen = values[form.reachable]
        assert abs(seen.max() + seen.min()) <= 1e-9 * np.abs(seen).max()  # centred
        gain = np.maximum.reduceat(
            form.criterion.action_values(form, row, values), form.transitions.first_choice[:-1]
        )
        change = gain - values
        attained = form.initial @ values + change.min() * form.criterion.mass
        assert best.value - attained <= (rough + 1e-9) * width + 1e-9
