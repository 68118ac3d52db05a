"""Claims about utilities: true ones are verified, and each field that is changed is noticed."""

from dataclasses import replace

import numpy as np
import pytest

from cmdpax import CertificateError, check, solve, utilities
from cmdpax.environments import garnet

MODEL = garnet(states=12, actions=3, constraints=1, seed=3)


def of_values(values):
    return -np.exp(-values).sum()


def slopes(values):
    return np.exp(-values)


OWN = utilities.own(of_values, slopes, ["reward", "c0"])
CLAIMS = [(solve(MODEL, utility=one), one) for one in (utilities.entropy(), OWN)]


def with_utility(result, **changes):
    proof = result.certificate
    return replace(result, certificate=replace(proof, utility=replace(proof.utility, **changes)))


@pytest.mark.parametrize(("result", "utility"), CLAIMS)
def test_a_true_claim_is_verified(result, utility):
    verified = check(MODEL, result)
    assert verified.status == "certified"
    assert ("provided that it is concave" in verified.note) == (utility is OWN)


@pytest.mark.parametrize(("result", "utility"), CLAIMS)
@pytest.mark.parametrize("name", ["policy", "uniform", "values", "at_uniform", "visits"])
def test_a_false_claim_is_refused(name, result, utility):
    own = result.certificate.utility
    if not np.size(getattr(own, name)) or getattr(own, name) is None:
        return  # values are of this one, visits of the other
    changed = getattr(own, name) * 0.9
    with pytest.raises(CertificateError, match="check failed"):
        check(MODEL, with_utility(result, **{name: changed}))


def test_a_function_that_the_model_does_not_have():
    result, _ = CLAIMS[1]
    other = utilities.own(of_values, slopes, ["reward", "c7"])
    with pytest.raises(CertificateError, match="the model has no function 'c7'"):
        check(MODEL, result, other)


def test_a_utility_is_said_and_proven_or_neither():
    result, _ = CLAIMS[0]
    with pytest.raises(CertificateError, match="the result is not of a utility"):
        check(MODEL, solve(MODEL), OWN)
    proof = replace(result.certificate, utility=None)
    with pytest.raises(CertificateError, match="the result is not of a utility"):
        check(MODEL, replace(result, certificate=proof))
