from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from cmdpax import InputError, NumericalError, solve
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.columns import MAX_COLUMNS, Corrective, add_column, first_column
from cmdpax.solvers.feasibility import decide_feasibility
from models import cmdps


@given(cmdps(constraints=(1, 3), states=15))
def test_the_mixture_is_one_stationary_policy_with_the_mixed_values(model):
    form = StandardForm.of(model)
    oracle, utility = Corrective(), AugmentedLagrangian(np.full(form.constraint_count, 0.3), 1.0)
    columns = oracle.start(form)
    for _ in range(6):
        columns = oracle.advance(form, columns, utility)
    evaluation, mass = form.evaluate(oracle.policy(form, columns)), form.criterion.mass
    size = form.reward_scale + np.abs(form.reward).max() * mass
    assert float(evaluation.reward) == pytest.approx(columns.reward, abs=1e-9 * size)
    sizes = form.constraint_scales + np.abs(form.constraints).max(1) * mass
    assert (np.abs(evaluation.margins - columns.margins) <= 1e-9 * sizes).all()


def test_the_gap_closes_and_bounds_the_truth():
    form = StandardForm.of(garnet(states=30, constraints=3))
    oracle, utility = Corrective(), AugmentedLagrangian(np.full(3, 0.1), 2.0)
    columns, seen = oracle.start(form), []
    for _ in range(40):
        columns = oracle.advance(form, columns, utility)
        value = float(utility.value(columns.reward, columns.margins))
        seen.append((value, oracle.gap(form, columns, utility).gap))
    best = seen[-1][0]
    assert seen[-1][1] <= 1e-10
    assert all(best - value <= gap + 1e-10 for value, gap in seen)


def test_the_second_candidate_is_as_feasible_as_the_columns_allow():
    form, oracle = StandardForm.of(cliff_world()).scaled().form, Corrective()
    columns = oracle.start(form, decide_feasibility(form).columns)
    for _ in range(5):
        columns = oracle.advance(form, columns, AugmentedLagrangian(np.zeros(1), 0.1))
    mixed, feasible = oracle.candidates(form, columns)
    assert mixed is columns and mixed.margins[0] < -1e-3
    assert feasible.margins[0] >= -1e-5 and feasible.reward < mixed.reward


def test_columns_are_not_repeated_and_their_number_is_limited():
    form = StandardForm.of(cliff_world())
    best = form.criterion.plan(form, form.reward)
    columns = first_column(form, best)
    assert len(add_column(form, columns, best).choices) == 1
    rng = np.random.default_rng(0)
    for _ in range(MAX_COLUMNS + 30):
        columns = add_column(
            form, columns, replace(best, choices=4 * np.arange(21) + rng.integers(0, 4, 21))
        )
    assert len(columns.choices) <= MAX_COLUMNS
    assert columns.mixture[0] == 1  # a column in use is never dropped


def test_known_columns_are_where_to_start():
    form = StandardForm.of(cliff_world())
    columns = first_column(form, form.criterion.plan(form, form.constraints[0]))
    assert Corrective().start(form, columns) is columns


def test_no_gap_before_the_first_step():
    form = StandardForm.of(cliff_world())
    utility = AugmentedLagrangian(np.zeros(1), 1.0)
    with pytest.raises(NumericalError, match="before the first step"):
        Corrective().gap(form, Corrective().start(form), utility)


def test_a_memory_limit_bounds_the_columns_and_not_the_answer():
    model = garnet(states=60, constraints=6)
    assert solve(model, memory_limit=64).status == "certified"  # GB
    with pytest.raises(InputError, match=r"0.001 GB are too few; this model needs at least"):
        solve(model, memory_limit=0.001)
