import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.checker import discounted
from cmdpax.checker.discounted import quotients
from cmdpax.checker.facts import Facts, visited
from models import uneven


def test_quotients_by_hand():
    """A state that pays 2 for ever is worth 4: V = 3 lacks `(2 - 1.5) / (u - u / 2)` times u."""
    model = CMDP([[[1.0]]], [[2.0]], np.zeros((0, 1, 1)), [], [1.0], 0.5)
    for gauge, quotient in ((None, 1.0), (np.array([2.0]), 0.5)):
        facts = Facts(model, visited(model), gauge)
        for policy in (None, np.ones(1)):
            ends = quotients(facts, model.reward, model.reward, np.array([3.0]), policy)
            assert ends == pytest.approx((quotient, quotient), rel=1e-14)
            assert ends[0] <= quotient <= ends[1]


def test_a_gauge_that_does_not_fall_proves_nothing():
    model = CMDP([[[1.0]]], [[2.0]], np.zeros((0, 1, 1)), [], [1.0], 0.5)
    facts = Facts(model, visited(model), np.zeros(1))
    assert quotients(facts, model.reward, model.reward, np.zeros(1), None) == (-np.inf, np.inf)


@pytest.mark.parametrize("discount", [0.0, 0.9])
@pytest.mark.parametrize("has_gauge", [False, True])
def test_blocks_of_states_say_the_same(has_gauge, discount, monkeypatch):
    model, rng = uneven(40, 3, discount), np.random.default_rng(3)
    facts = Facts(model, visited(model), 1 + rng.random(40) / 99 if has_gauge else None)
    policy = rng.random(model.choices)
    claims = [(model.reward, model.reward, rng.random(40), own) for own in (None, policy)]
    whole = [quotients(facts, *claim) for claim in claims]
    monkeypatch.setattr(discounted, "BLOCK", 7)
    assert [quotients(facts, *claim) for claim in claims] == whole
