"""Which small models go to the compiled loop, and what comes back: certified results, or none."""

import numpy as np
import pytest

from cmdpax import CMDP, check
from cmdpax.environments import garnet, queue
from cmdpax.solvers import vertices
from cmdpax.solvers.key_simplex import ALONE
from cmdpax.solvers.vertices import certified_vertices, has_vertex

SMALL = garnet(states=12, constraints=2, seed=3)


def test_which_models_have_a_vertex():
    assert has_vertex(SMALL) and has_vertex(SMALL.replace(constraints=[], thresholds=[]))
    assert not has_vertex(queue(capacity=ALONE))  # one state too many
    assert not has_vertex(SMALL.replace(discount=None, criterion="average"))
    row = SMALL.constraints[:1]
    for count in (vertices.ROWS, vertices.ROWS + 1):
        kind = {"constraints": np.repeat(row, count, 0), "thresholds": np.full(count, 1.0)}
        model = SMALL.replace(**kind, senses=None, constraint_names=None)
        assert has_vertex(model) == (count == vertices.ROWS)


def stack() -> list[CMDP]:
    """Four models of one shape, the second without a feasible policy."""
    alike = [garnet(states=12, constraints=2, seed=seed) for seed in range(4)]
    alike[1] = alike[1].replace(thresholds=[1e3, 1e3])
    return alike


def test_each_of_a_stack_is_certified_or_left_to_the_door():
    alike = stack()
    results = certified_vertices(alike, 1e-6)
    assert [result is None for result in results] == [False, True, False, False]
    for model, result in zip(alike, results, strict=True):
        if result is None:
            continue
        check(model, result)
        (alone,) = certified_vertices([model], 1e-6)
        assert result.status == alone.status == "certified"
        width = float(np.ptp(result.certificate.ranges[0]))
        assert result.reward == pytest.approx(alone.reward, abs=2e-6 * width)


def test_prices_of_an_optimum_need_no_more_pivots():
    (first,) = certified_vertices([SMALL], 1e-6)
    prices = SMALL.limits.signs * first.multipliers
    (again,) = certified_vertices([SMALL], 1e-6, np.abs(prices))
    assert 0 < first.trace[0]["evaluations"] >= again.trace[0]["evaluations"]
    assert again.reward == pytest.approx(first.reward, rel=1e-9)


def test_without_limits_the_plan_is_the_answer():
    (result,) = certified_vertices([SMALL.replace(constraints=[], thresholds=[])], 1e-6)
    assert result.status == "certified" and result.trace[0]["evaluations"] == 1
    assert set(np.unique(result.policy)) == {0.0, 1.0}
