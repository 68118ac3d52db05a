import numpy as np
import pytest

from cmdpax import CertificateError
from cmdpax.checker.demands import demand, demand_close, gauge, vector


def test_a_claim_that_does_not_hold_is_refused_in_a_sentence():
    demand(True, "nothing")
    with pytest.raises(CertificateError, match=r"^check failed: it is wrong\.$"):
        demand(False, "it is wrong")


def test_only_the_last_digits_of_a_number_may_differ():
    demand_close("gap", 1.0, 1.0 + 1e-13)
    demand_close("gap", np.inf, np.inf)
    with pytest.raises(CertificateError, match=r"the gap is claimed as 1\.0, it is 1\.1"):
        demand_close("gap", 1.0, 1.1)


def test_vectors_are_finite_and_gauges_not_negative():
    np.testing.assert_array_equal(vector([-1, 2], 2), [-1.0, 2.0])
    np.testing.assert_array_equal(gauge([0, 2], 2), [0.0, 2.0])
    for potential in ([1.0], [1.0, np.nan], [[1.0, 2.0]], None):
        with pytest.raises(CertificateError, match="missing or not finite"):
            vector(potential, 2)
    with pytest.raises(CertificateError, match="negative entries"):
        gauge([-1, 2], 2)
