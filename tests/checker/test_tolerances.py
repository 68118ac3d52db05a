from types import SimpleNamespace

import numpy as np
import pytest

from cmdpax import CMDP, CertificateError
from cmdpax.checker.facts import Facts, visited
from cmdpax.checker.tolerances import as_share, check_ranges

# one state, whose two choices pay 0 or 1 for ever, and 3 or 5 of a cost
MODEL = CMDP(np.ones((1, 2, 1)), [[0.0, 1.0]], [[[3.0, 5.0]]], [8.0], [1.0], 0.5, senses="<=")
FACTS, POLICY = Facts(MODEL, visited(MODEL), None), np.array([1.0, 0.0])


def result(eps=1e-2, **changes):
    proof = {
        "ranges": np.array([[0.1, 1.9], [6.1, 9.9]]),
        "range_potentials": np.zeros((2, 2, 1)),
        "reward_bounds": (0.0, 0.0),
        "sizes": None,
    }
    # -V of what is turned: at most 0 - 3 * 2, at least 5 * 2
    proof["range_potentials"][:, :, 0] = [[0.0, 2.0], [-6.0, 10.0]]
    return SimpleNamespace(eps=eps, certificate=SimpleNamespace(**(proof | changes)))


def test_errors_are_multiples_of_their_tolerances():
    assert as_share(0.0, 0.0) == 0 and as_share(1.0, 4.0) == 0.25
    assert as_share(1e-9, 0.0) == np.inf and as_share(-1e-9, 0.0) == -np.inf


def test_a_tolerance_is_a_share_of_the_range():
    np.testing.assert_allclose(check_ranges(FACTS, result(), POLICY, None), [0.018, 0.038])


def test_at_least_rounding_is_tolerated():
    """`1e-10` of the largest number, where the range allows less: of 1.9, and of 9.9 less 8."""
    own = check_ranges(FACTS, result(eps=1e-15), POLICY, None)
    assert 1e-10 * 1.9 <= own[0] <= 1e-10 * 2 and 1e-10 * 1.9 <= own[1] <= 1e-10 * 10


def test_a_utility_brings_its_own():
    np.testing.assert_allclose(check_ranges(FACTS, result(), POLICY, 0.5), [0.5, 0.038])


@pytest.mark.parametrize("end", [(0, 1, 2.5), (1, 0, 5.5), (1, 1, 10.5)])
def test_a_range_that_no_policy_attains_is_refused(end):
    i, side, claimed = end
    false = result()
    false.certificate.ranges[i, side] = claimed
    with pytest.raises(CertificateError, match=f"value {i} is claimed to attain {claimed}"):
        check_ranges(FACTS, false, POLICY, None)


def test_the_answer_s_own_value_is_attained():
    """Its bounds are proven elsewhere, so that an end beside them needs no other proof."""
    own, other = result(reward_bounds=(-0.4, -0.3)), result()
    own.certificate.ranges[0] = other.certificate.ranges[0] = (-0.3, 1.9)
    np.testing.assert_allclose(check_ranges(FACTS, own, POLICY, None), [0.022, 0.038])
    with pytest.raises(CertificateError, match=r"value 0 is claimed to attain -0\.3"):
        check_ranges(FACTS, other, POLICY, None)


def test_a_size_is_that_of_some_value():
    """`|x|` of the policy's choices less the middle adds up to at most 0.5 * 2."""
    sizes = {"size_potentials": np.array([[1.0], [2.0]])}
    true = result(eps=1e-15, sizes=np.array([0.0, 0.0]), **sizes)
    check_ranges(FACTS, true, POLICY, None)
    with pytest.raises(CertificateError, match="size 0 is claimed as 100"):
        check_ranges(FACTS, result(sizes=np.array([100.0, 0.0]), **sizes), POLICY, None)
