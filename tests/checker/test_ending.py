import numpy as np
import pytest

from cmdpax import CMDP, CertificateError, check, solve
from cmdpax.checker.ending import ending, quotients
from cmdpax.checker.facts import visited

# wait for 1 a step, or pay 3 and be at the goal; state 2 is never left
ROWS = [[{0: 1.0}, {1: 1.0}, {2: 1.0}], [{1: 1.0}], [{2: 1.0}]]
COSTS = [1.0, 3.0, 0.5, 0.0, 1.0]


def model(**changes):
    kind = {"transitions": ROWS, "reward": COSTS, "constraints": np.zeros((0, 5))}
    kind |= {"thresholds": [], "initial": 0, "discount": 1.0, "goal": [1], "minimise": True}
    return CMDP(**(kind | changes))


def test_choices_of_policies_that_surely_end():
    """Waiting is among them, if it is left for good one day; the trap is not."""
    facts = ending(model(), visited(model()))
    np.testing.assert_array_equal(facts.seen, [True, True, False])
    np.testing.assert_array_equal(facts.allowed, [True, True, False, True, False])
    np.testing.assert_array_equal(facts.ends, [False, False, False, True, False])


def test_no_policy_surely_ends_from_a_trap():
    trapped = model()
    object.__setattr__(trapped, "initial", np.array([0.0, 0.0, 1.0]))
    with pytest.raises(CertificateError, match="no policy surely ends"):
        ending(trapped, visited(trapped))


def test_quotients_by_hand():
    """To pay 3 at once costs 3: `d = -1` where V = 2 would have it cost 2, and `g = u = 1`."""
    own = model()
    facts = ending(own, visited(own))
    v, u = np.array([-2.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    pays = np.array([0.0, 1.0, 0.0, 1.0, 1.0])
    low, high = quotients(facts, -own.reward, own.reward, v, u, pays)
    assert low == pytest.approx(-1, rel=1e-14) and low <= -1
    assert high == 0  # at the goal nothing changes
    waits = np.array([1.0, 0.0, 0.0, 1.0, 1.0])
    assert quotients(facts, -own.reward, own.reward, v, u, waits)[0] == -np.inf
    # no policy is better than V = -2: to wait costs, and needs no gauge
    assert quotients(facts, -own.reward, own.reward, v, u, None)[1] == 0
    # but V = -4 is too low by 1
    most = quotients(facts, -own.reward, own.reward, 2 * v, u, None)[1]
    assert most >= 1


def test_the_solver_s_claims_are_true():
    result = solve(model())
    assert result.reward == pytest.approx(3) and check(model(), result).status == "certified"
