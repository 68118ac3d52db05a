"""Limits as rows, and margins; what the ray proves is in `test_check.py`, by false claims."""

from types import SimpleNamespace

import numpy as np
import pytest

from cmdpax import CMDP, CertificateError
from cmdpax.checker.bounds import Row
from cmdpax.checker.facts import Facts, visited
from cmdpax.checker.limits import check_margins, check_ray, limit_rows, row_weights

MODEL = CMDP(
    [[[1.0]]],
    [[1.0]],
    np.ones((4, 1, 1)),
    [3.0, 1.0, 2.0, (1.0, 4.0)],
    [1.0],
    0.5,
    senses=["<=", ">=", "==", "in"],
)
FACTS, ROWS = Facts(MODEL, visited(MODEL), None), limit_rows(MODEL)


def test_limits_are_rows_that_ask_for_at_least():
    assert [
        *(Row(0, -1.0, -3.0), Row(1, 1.0, 1.0), Row(2, 1.0, 2.0), Row(2, -1.0, -2.0)),
        *(Row(3, 1.0, 1.0), Row(3, -1.0, -4.0)),
    ] == ROWS


def test_a_signed_price_is_that_of_one_of_two_rows():
    weights = row_weights("the prices", [5.0, 6.0, -7.0, 8.0], ROWS, 4)
    np.testing.assert_array_equal(weights, [5, 6, 0, 7, 8, 0])
    for prices, sentence in (
        ([-1.0, 0, 0, 0], "the prices must be >= 0, except those of == and ranges"),
        ([1.0, 0, 0], "the prices must be 4 numbers"),
        ([np.nan, 0, 0, 0], "the prices must be 4 numbers"),
    ):
        with pytest.raises(CertificateError, match=sentence):
            row_weights("the prices", prices, ROWS, 4)


def test_margins_by_hand():
    """The one policy is worth 2 everywhere: room 1, 1, 0 and 1; a claim of less is a violation."""
    tolerances, potentials = np.full(4, 0.1), np.zeros((1, 5, 1))
    room = np.array([1.0, 1.0, 0.0, 1.0])

    def checked(values=2.0, margins=room, bounds=(-0.25, 0.25)):
        proof = SimpleNamespace(margin_bounds=room[:, None] + np.array(bounds))
        result = SimpleNamespace(certificate=proof, values=np.full(4, values), margins=margins)
        policies = [(1, np.ones(1))]
        return check_margins(FACTS, result, policies, potentials, ROWS, tolerances)

    assert checked() == (0.25, 2.5)
    for claim, sentence in (
        ({"values": 2.2}, r"value 0 is claimed as 2.2, provable is \["),
        ({"margins": room + 1}, "margin 0, 2.0, lies outside its own bounds"),
        ({"bounds": (0.1, 0.25)}, "margin 0 is claimed in"),
        ({"bounds": (-0.25, -0.1)}, "margin 0 is claimed in"),
    ):
        with pytest.raises(CertificateError, match=sentence):
            checked(**claim)


def test_a_ray_proves_that_no_policy_meets_the_limits():
    """`V <= 3` and `V >= 1` hold at 2; `V >= 4` instead cannot, by 4 - 2."""
    proof = SimpleNamespace(
        ray=np.array([0.0, 1.0, 0.0, 0.0]), ray_potential=np.zeros(1), ray_bound=-1.9
    )
    with pytest.raises(CertificateError, match=r"bound is claimed as -1\.9, provable is 1"):
        check_ray(FACTS, proof, ROWS)
    harder = [row if row.constraint != 1 else Row(1, 1.0, 4.0) for row in ROWS]
    check_ray(FACTS, proof, harder)
