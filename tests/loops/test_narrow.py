"""Plans of models whose transitions are short, against those of the other loops."""

import numpy as np
import pytest

from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import narrow, small
from cmdpax.loops.compiled import readable

MODELS = [garnet(40, seed=1), queue(60), inventory(50), grid_world(6, 6, seed=2, discount=0.9999)]


@pytest.mark.parametrize("model", MODELS)
def test_no_choice_is_better_than_the_best_ones(model):
    form = StandardForm.of(model)
    for start in (None, form.transitions.first_choice[1:] - 1):
        choices, values = narrow.best_choices(form.kernel, form.reward, start)
        expected = small.best_choices(form.kernel, form.reward, start)[1]
        np.testing.assert_allclose(values, expected, rtol=1e-10)
        action_values = form.criterion.action_values(form, form.reward, values)
        np.testing.assert_allclose(action_values[choices], values, rtol=1e-10)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("rough", [0.0, 0.05])
@pytest.mark.parametrize("is_closed", [True, False])
def test_plans_for_both_ends_miss_at_most_their_share_of_the_range(model, rough, is_closed):
    form = StandardForm.of(model)
    rng, count = np.random.default_rng(0), narrow.SIDE + 2  # more than one group
    functions = np.vstack([form.reward[None], rng.random((count - 1, form.choices))])
    both = np.stack([-functions, functions], 1)
    vectors, start = np.empty((count, 2, form.states)), readable(form.initial)
    kind = form.criterion.reach, readable(form.reachable), is_closed, rough
    assert narrow.plan_both(form.kernel, readable(both), start, *kind, vectors)
    for rows, potentials in zip(both, vectors, strict=True):
        truth = [form.criterion.plan(form, row) for row in rows]
        width = truth[0].value + truth[1].value
        attained = []
        for row, values in zip(rows, potentials, strict=True):
            seen = values[form.reachable]
            if is_closed:
                assert abs(seen.max() + seen.min()) <= 1e-9 * np.abs(seen).max()  # centred
            gain = np.maximum.reduceat(
                form.criterion.action_values(form, row, values), form.transitions.first_choice[:-1]
            )
            low = (gain - values)[form.reachable].min()
            attained.append(form.initial @ values + low * form.criterion.mass)
        size = max(abs(truth[0].value), abs(truth[1].value))
        assert sum(attained) >= (1 - rough) * width - 1e-9 * size
        assert sum(attained) <= width + 1e-9 * size


def test_work_is_counted_within_the_envelope():
    n = 30
    rows = StandardForm.of(queue(n - 1)).transitions.rows(0, n)  # one to either side
    assert narrow.envelope_work(rows, 1e9) == 2 * (n - 1)
    assert narrow.envelope_work(rows, 10.0) == 10.0
    full = StandardForm.of(garnet(n, branching=n)).transitions.rows(0, n)
    assert narrow.envelope_work(full, 1e9) > n**3 / 4


def test_a_medium_model_is_narrow_in_its_own_order_alone():
    grid, random = grid_world(20, 20), garnet(400)
    assert StandardForm.of(grid).is_narrow and not StandardForm.of(random).is_narrow
    assert not StandardForm.of(grid_world(5, 5)).is_narrow  # it is small
    assert not StandardForm.of(grid_world(60, 60)).is_narrow
