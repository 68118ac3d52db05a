from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given

from cmdpax import NumericalError
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.discounted import evaluate
from cmdpax.exact.planning import plan
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.columns import COLUMNS, Corrective, add_column, first_column
from models import cmdps


@given(cmdps(constraints=(1, 3), states=15))
def test_the_mixture_is_one_stationary_policy_with_the_mixed_values(model):
    oracle, utility = Corrective(), AugmentedLagrangian(np.full(model.constraint_count, 0.3), 1.0)
    columns = oracle.start(model)
    for _ in range(6):
        columns = oracle.advance(model, columns, utility)
    found = evaluate(model, oracle.policy(model, columns))
    scale = model.reward_scale + np.abs(model.reward).max() / (1 - model.discount)
    assert float(found.reward) == pytest.approx(columns.reward, abs=1e-9 * scale)
    sizes = model.constraint_scales + np.abs(model.constraints).max((1, 2)) / (1 - model.discount)
    assert (np.abs(found.margins - columns.margins) <= 1e-9 * sizes).all()


def test_the_gap_closes_and_bounds_the_truth():
    model, oracle = garnet(states=30, constraints=3), Corrective()
    utility = AugmentedLagrangian(np.full(3, 0.1), 2.0)
    columns, seen = oracle.start(model), []
    for _ in range(40):
        columns = oracle.advance(model, columns, utility)
        value = float(utility.value(columns.reward, columns.margins))
        seen.append((value, oracle.gap(model, columns, utility).gap))
    best = seen[-1][0]
    assert seen[-1][1] <= 1e-10
    assert all(best - value <= gap + 1e-10 for value, gap in seen)


def test_columns_are_not_repeated_and_their_number_is_limited():
    model = cliff_world()
    best = plan(model, model.reward)
    columns = first_column(model, best)
    assert len(add_column(model, columns, best).actions) == 1
    rng = np.random.default_rng(0)
    for _ in range(COLUMNS + 30):
        columns = add_column(model, columns, replace(best, actions=rng.integers(0, 4, 21)))
    assert len(columns.actions) <= COLUMNS
    assert columns.mixture[0] == 1  # a column in use is never dropped


def test_no_gap_before_the_first_step():
    model, utility = cliff_world(), AugmentedLagrangian(np.zeros(1), 1.0)
    with pytest.raises(NumericalError, match="before the first step"):
        Corrective().gap(model, Corrective().start(model), utility)
