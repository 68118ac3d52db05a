"""Ranges are attained, to five per cent, and never overstated."""

import numpy as np
import pytest
from hypothesis import given

from cmdpax.environments import queue
from cmdpax.exact.bounds import best_bounds, claim
from cmdpax.exact.ranges import FLOOR, ROUGH, Ranges, attained_ranges
from cmdpax.exact.standard import StandardForm
from models import build, cmdps, large_path


def true_ranges(form):
    """Both ends by plans to rounding, `[1 + m, 2]`."""
    ends = [
        [sign * form.criterion.plan(form, sign * row).value for sign in (-1.0, 1.0)]
        for row in (form.reward, *form.constraints)
    ]
    return np.array(ends)


@given(cmdps())
def test_ranges_are_those_of_exact_plans(model):
    form = StandardForm.of(model)
    truth, ranges = true_ranges(form), attained_ranges(form).bounds
    sizes = np.abs(truth).max(1, keepdims=True) + form.reward_scale * 0
    np.testing.assert_allclose(ranges, truth, atol=1e-8 * max(1.0, sizes.max()), rtol=1e-9)


@pytest.mark.parametrize("structure", ["random", "chain", "cycle"])
def test_rough_ranges_lie_within_the_true_ones(structure):
    model = build(structure, 400, 3, 2, 0.99, 1, 2, offset=0.1)
    with large_path():
        form = StandardForm.of(model)
        truth, ranges = true_ranges(form), attained_ranges(form).bounds
    widths = np.diff(truth)[:, 0]
    assert (ranges[:, 0] >= truth[:, 0] - 1e-9).all() and (ranges[:, 1] <= truth[:, 1] + 1e-9).all()
    assert (np.diff(ranges)[:, 0] >= 0.8 * widths).all()


def test_both_sides_of_an_equality_have_one_range():
    model = build("random", 8, 2, 2, 0.9, 3, 1).replace(senses=["=="])
    ranges = attained_ranges(StandardForm.of(model))
    np.testing.assert_array_equal(ranges.bounds[2], -ranges.bounds[1, ::-1])
    np.testing.assert_array_equal(ranges.potentials[2], ranges.potentials[1, ::-1])


def test_tolerances_are_shares_of_ranges_with_a_floor():
    ranges = Ranges(
        np.array([[0.0, 2.0], [5.0, 5.0], [0.0, 1e-9]]),
        np.zeros((3, 2, 1)),
        np.zeros(3),
        np.ones(3),
    )
    own = ranges.tolerances(1e-6, np.array([[-7.0, -7.0], [3.0, 3.0]]))
    np.testing.assert_allclose(own, [2e-6, 7 * FLOOR, 3 * FLOOR])


def test_a_constant_counts_by_its_last_digits():
    ranges = Ranges(np.array([[1e9, 1e9 + 2.0]]), np.zeros((1, 2, 1)), np.array([1e9]), np.ones(1))
    np.testing.assert_allclose(ranges.tolerances(1e-6, np.zeros((0, 2))), [4e-6], rtol=1e-6)


def test_without_time_ranges_are_what_is_known():
    with large_path():
        form = StandardForm.of(queue(capacity=300))
        ranges, truth = attained_ranges(form, stop=lambda: True), true_ranges(form)
    assert (ranges.bounds[:, 0] >= truth[:, 0] - 1e-6).all()
    assert (ranges.bounds[:, 1] <= truth[:, 1] + 1e-6).all()


def test_values_of_a_plan_that_was_made_already_are_an_end_of_the_range():
    with large_path():
        form = StandardForm.of(queue(capacity=300))
        best = form.criterion.plan(form, form.reward, tolerance=1e-9 * form.reward_scale)
        rough, sharp = attained_ranges(form), attained_ranges(form, best=best.values)
        truth = true_ranges(form)
    assert truth[0, 1] - sharp.bounds[0, 1] <= 2e-9 * form.reward_scale
    np.testing.assert_array_equal(sharp.bounds[1], rough.bounds[1])


def test_a_guess_is_where_a_plan_of_the_same_function_ends():
    with large_path(eliminates=False):
        form = StandardForm.of(build("random", 400, 3, 2, 0.99, 1, 2))
        ranges = attained_ranges(form)
        for row, weights in zip((form.reward, *form.constraints), 0.5 * np.eye(3), strict=True):
            own, values = claim(form, 0.5 * row), ranges.guess(form, np.ones(3), weights)
            low, high = best_bounds(form, own, values, form.gauge)
            assert low <= form.criterion.plan(form, 0.5 * row).value <= high
            assert high - low <= 0.5 * ROUGH * form.scales[:, 1].max()
        whole = ranges.guess(form, np.array([4.0, 1.0, 2.0]), np.array([2.0, 0.0, 3.0]))
    parts = ranges.potentials[:, 1]
    np.testing.assert_allclose(whole, parts[0] / 2 + parts[2] * 1.5, rtol=1e-15)
    assert ranges.guess(StandardForm.of(queue(30)), np.ones(3), np.ones(3)) is None


def test_what_the_answer_attains_has_no_width():
    form = StandardForm.of(queue(30).replace(constraints=[], thresholds=[]))
    ranges = Ranges.of_answer(form, (3.0, 3.5))
    assert ranges.bounds.tolist() == [[3.5, 3.0]] and not ranges.potentials.any()
    assert ranges.tolerances(1e-2, np.zeros((0, 2)))[0] == FLOOR * 3.5
