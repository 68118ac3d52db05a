"""Arithmetic that loses nothing; whole proofs are compared in `test_vertices.py`."""

from fractions import Fraction

import numpy as np
import pytest

from cmdpax.loops.proofs import UNIT, roundings, two_product, two_sum


def test_sums_and_products_lose_nothing():
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, b = (rng.normal(size=2) * 10.0 ** rng.uniform(-30, 30, 2)).tolist()
        total, rest = two_sum(a, b)
        assert Fraction(total) + Fraction(rest) == Fraction(a) + Fraction(b)
        product, rest = two_product(a, b)
        assert Fraction(product) + Fraction(rest) == Fraction(a) * Fraction(b)
    assert np.isnan(two_product(1e-200, 1e-100)[1])  # what is lost there is not a number
    assert two_product(0.0, 1e-300) == (0.0, 0.0)


@pytest.mark.parametrize("chances", [[0.5, 0.0, 0.5], [0.1] * 10, [1 - 1e-9, 2e-9]])
def test_sums_over_initial_states_are_rounded_once_for_each(chances):
    """And once more for every unit of rounding by which chances miss 1."""
    miss = abs(sum(map(Fraction, chances)) - 1)
    expected = 9 + np.count_nonzero(chances) + float(miss) / UNIT
    assert roundings(np.array(chances)) == pytest.approx(expected, rel=1e-12)
