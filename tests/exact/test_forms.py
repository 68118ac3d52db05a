"""Forms whose functions are coefficients; what all forms have is tested in `test_standard.py`."""

import numpy as np
import pytest

from models import BLOCK_SHAPE, block_form

S, *_ = BLOCK_SHAPE


@pytest.mark.parametrize("minimise", [False, True])
def test_functions_are_coefficients_in_the_orientation_of_the_form(minimise):
    form, _, functions = block_form(3, minimise=minimise)
    sign = -1.0 if minimise else 1.0
    np.testing.assert_array_equal(form.reward, [sign, 0, 0])
    np.testing.assert_array_equal(form.constraints, [[0, -1, 0]])  # cost <= 1 is -cost >= -1
    np.testing.assert_array_equal(form.thresholds, [-1])
    np.testing.assert_array_equal(form.pseudo_reward(np.array([2.0])), [sign, -2, 0])
    np.testing.assert_array_equal(form.less(form.reward, 0.5), [sign, 0, -0.5])
    low, high = form.span(np.array([0.0, -2.0, 1.0]))
    np.testing.assert_allclose(
        [low, high], [1 - 2 * functions[1].max(), 1 - 2 * functions[1].min()]
    )


def test_a_mixture_chooses_as_its_columns_visit():
    """`sum_k alpha_k nu_k(s) 1[a = a_k(s)]`, normalised; the fallback where nobody goes."""
    form, *_ = block_form(5)
    choices = [np.zeros(S, dtype=int), np.ones(S, dtype=int)]
    visits = [np.array([1.0, 2, 0, 4, 5, 6]), np.array([3.0, 2, 0, 0, 5, 6])]
    shares, fallback = np.array([0.25, 0.75]), np.ones(S, dtype=int)
    table = form.mixed_policy(shares, choices, visits, fallback, 0.0).table()
    np.testing.assert_allclose(table[:, 0], [0.1, 0.25, 0, 1, 0.25, 0.25])
    np.testing.assert_allclose(table.sum(1), 1)
