from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from cmdpax import CMDP, CertificateError
from cmdpax.checker.policies import checked_mixture, checked_policy

MODEL = CMDP([[{0: 1.0}, {1: 1.0}], [{1: 1.0}]], [0.0, 1.0, 2.0], np.zeros((0, 3)), [], 0, 0.5)


def test_a_policy_is_turned_into_shares_of_choices():
    shares = checked_policy(MODEL, [[0.25, 0.75 + 1e-10], [1.0, 0.0]])
    np.testing.assert_allclose(shares, [0.25, 0.75, 1.0], atol=1e-10)
    assert shares[:2].sum() == 1
    steps = MODEL.replace(discount=1.0, horizon=2)
    tables = np.array([[[0.5, 0.5], [1.0, 0.0]]] * 2)
    assert checked_policy(steps, tables).shape == (steps.choices,)


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        ([[1.0, 0.0]], "has shape"),
        ([[1.5, -0.5], [1.0, 0.0]], "not probabilities"),
        ([[np.nan, 1.0], [1.0, 0.0]], "not probabilities"),
        ([[0.5, 0.4], [1.0, 0.0]], "miss a sum of 1 by 0.1"),
        ([[0.5, 0.5], [0.0, 1.0]], "an action that is not available"),
    ],
)
def test_what_is_no_policy_is_refused(policy, sentence):
    with pytest.raises(CertificateError, match=sentence):
        checked_policy(MODEL, policy)


def mixed(*pairs, policy=None):
    return SimpleNamespace(policy=policy, mixture=pairs)


def test_a_mixture_is_shares_of_policies_by_choice():
    (one, first), (other, second) = checked_mixture(MODEL, mixed((0.25, [0, 0]), (0.75, [1, 0])))
    assert (one, other) == (Fraction(1, 4), Fraction(3, 4))
    np.testing.assert_array_equal([first, second], [[1, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        (mixed((1.0, [0, 0]), policy=np.ones((2, 2))), "no policy beside it"),
        (mixed((1.0, [0])), "no action for each state"),
        (mixed((1.0, [0.0, 1.0])), "no action for each state"),
        (mixed((1.0, [2, 0])), "an action that there is not"),
        (mixed((1.0, [0, 1])), "an action that is not available"),
        (mixed((0.0, [0, 0]), (1.0, [0, 0])), "a probability of the mixture is none"),
        (mixed((0.5, [0, 0]), (0.4, [1, 0])), "miss a sum of 1"),
    ],
)
def test_what_is_no_mixture_is_refused(claim, sentence):
    with pytest.raises(CertificateError, match=sentence):
        checked_mixture(MODEL, claim)
