"""What pivots keep up to date is what one would compute anew."""

import numpy as np
import pytest

from cmdpax.environments import garnet, grid_world, queue
from cmdpax.exact.standard import StandardForm
from cmdpax.loops import pivots, small
from cmdpax.loops.compiled import readable

MODELS = [garnet(40, constraints=3, seed=1), queue(60), grid_world(6, 6, seed=2)]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("most", [5, 20, 1000])
def test_rank_one_changes_are_those_of_a_new_policy(model, most):
    form = StandardForm.of(model).scaled().form
    S, K, m = form.states, form.choices, form.constraint_count
    basis, factors = pivots.empty_basis(S, K, m, 200), small.empty_factors(S)
    basis.keys[:] = form.criterion.plan(form, form.reward).choices
    basis.kinds[basis.keys] = 1
    rewards = readable(np.vstack([form.reward[None], form.constraints]))
    parts = form.kernel, readable(form.initial), rewards, readable(form.thresholds)
    pivots.refresh(*parts, factors, basis)
    np.minimum(basis.advantages[0], 0.0, out=basis.reduced)
    owner = readable(form.transitions.state_of.astype(np.int64))
    limits = np.array([1e-10, 1e-10 * form.criterion.mass, most])
    why = pivots.pivot(form.kernel, owner, parts[1], factors, basis, limits)
    done = basis.counts[pivots.PIVOTS]
    assert why == pivots.OPTIMAL or (most < 1000 and why == pivots.TROUBLE and done == most)
    policy = form.transitions.deterministic(basis.keys)
    truth = form.evaluate(policy)
    np.testing.assert_allclose(basis.margins, np.append(truth.reward, truth.margins), atol=1e-9)
    actions = form.criterion.action_values(form, rewards, truth.values)
    advantages = actions - form.transitions.by_state(truth.values)
    np.testing.assert_allclose(basis.advantages, advantages, atol=1e-9)
    reduced = advantages[0] + basis.weights @ advantages[1:]
    np.testing.assert_allclose(basis.reduced, reduced, atol=1e-9)
    assert basis.reduced.max() <= 0 and (basis.weights >= 0).all()
    chances = form.criterion.discount * form.transitions.matrix[basis.keys].toarray()
    inverse = np.linalg.inv(np.eye(S) - chances)
    ties = basis.ties[: basis.counts[pivots.TIES]]
    np.testing.assert_allclose(basis.vectors[: len(ties)], inverse[:, ties].T, atol=1e-7)
    assert set(ties) == set(owner[basis.extra[: basis.counts[pivots.TIGHT]]])
