import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.checker.average import quotients
from cmdpax.checker.facts import Facts, visited

# 0 and 1 take turns, and 0 pays 1; from 2 one of two goes there, or stays
ROWS = [[{1: 1.0}], [{0: 1.0}], [{0: 0.5, 2: 0.5}]]
MODEL = CMDP(ROWS, [1.0, 0, 7.0], np.zeros((0, 3)), [], 2, 1.0, criterion="average")
FACTS = Facts(MODEL, visited(MODEL), None)
MEAN, TURN, NONE = np.full(3, 0.5), np.array([0.5, 0.0, 0.0]), np.zeros(3)


@pytest.mark.parametrize("policy", [None, np.ones(3)])
def test_where_the_mean_stays_the_terms_are_those_of_poisson_s_equation(policy):
    """`x + P h - h - V = 0` in the cycle; state 2 passes only if its gauge falls."""
    gauge = np.array([0.0, 0.0, 2.0])
    claim = (MODEL.reward, np.abs(MODEL.reward), MEAN, [TURN, NONE])
    low, high, (below, above) = quotients(FACTS, *claim, gauge, policy)
    assert low == pytest.approx(0, abs=1e-14) and high == pytest.approx(0, abs=1e-14)
    assert below <= 0 <= above and above - below < 1e-13
    _, _, (below, above) = quotients(FACTS, *claim, NONE, policy)  # then 2 counts too
    assert below <= 0 and above > 6


def test_where_the_mean_changes_the_quotient_counts():
    """V falls by `1 / 2` on half the steps of state 2: `(P V - V) / (u - P u) = -0.5 / 1`."""
    gauge, v = np.array([0.0, 0.0, 2.0]), np.array([0.5, 0.5, 1.5])
    claim = (MODEL.reward, np.abs(MODEL.reward), v, [TURN, NONE], gauge)
    low, high, _ = quotients(FACTS, *claim, np.ones(3))
    assert low == pytest.approx(-0.5) and high == 0
    assert 1.5 + 2 * low == pytest.approx(0.5)  # rho.V + rho.u low
