from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.checker.bounds import (
    Row,
    best_bounds,
    centred,
    lagrangian_bound,
    mean,
    mixed_bounds,
    policy_bounds,
)
from cmdpax.checker.facts import Facts, visited
from plain import tables, tiny, value

MODEL = tiny()
FACTS = Facts(MODEL, visited(MODEL), None)


def policies():
    """Every deterministic one, as tables `[S, A]`."""
    S, A = MODEL.states, MODEL.actions
    return [np.eye(A)[list(actions)] for actions in product(range(A), repeat=S)]


@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_any_potential_and_meet_for_the_values(seed):
    """Against one linear system for each policy."""
    rng, reward = np.random.default_rng(seed), tables(MODEL)[0]
    values = [MODEL.initial @ value(MODEL, policy, reward) for policy in policies()]
    potential = rng.normal(size=MODEL.states)
    least, most = best_bounds(FACTS, *centred(FACTS, MODEL.reward), potential)
    assert least <= max(values) <= most
    policy = policies()[5 + seed]
    low, high = policy_bounds(FACTS, policy.reshape(-1), MODEL.reward, potential)
    assert low <= values[5 + seed] <= high
    x, sizes, rest = centred(FACTS, MODEL.reward)
    own = value(MODEL, policy, x.reshape(reward.shape))
    low, high = best_bounds(FACTS, x, sizes, rest, own, policy.reshape(-1))
    assert low <= values[5 + seed] <= high and high - low < 1e-12


def test_a_mixture_has_the_mean_of_its_policies():
    shares = [Fraction(1, 4), Fraction(3, 4)]
    low, high = mean([(share, np.ones(1)) for share in shares], [(0.0, 1.0), (4.0, 5.0)])
    assert low <= 3 <= 4 <= high and high - low == pytest.approx(1)
    assert mean([(Fraction(1), np.ones(1))], [(1.0, 2.0)]) == (1.0, 2.0)
    mixture = list(zip(shares, [policies()[0].reshape(-1), policies()[80].reshape(-1)]))
    reward = tables(MODEL)[0]
    exact = 0.25 * value(MODEL, policies()[0], reward) + 0.75 * value(MODEL, policies()[80], reward)
    low, high = mixed_bounds(FACTS, mixture, MODEL.reward, np.zeros((2, MODEL.states)))
    assert low <= MODEL.initial @ exact <= high
    assert mean(mixture, [(0.0, np.inf), (0.0, 1.0)]) == (-np.inf, np.inf)


def test_no_policy_exceeds_the_lagrangian_bound():
    rows, weights = [Row(0, -1.0, -2.0), Row(1, 1.0, 1.0)], np.array([0.5, 2.0])
    bound = lagrangian_bound(FACTS, MODEL.reward, rows, weights, np.zeros(MODEL.states))
    reward, (cost, other) = tables(MODEL)
    x = reward - 0.5 * cost + 2 * other
    exact = [MODEL.initial @ value(MODEL, policy, x) + 0.5 * 2 - 2 * 1 for policy in policies()]
    assert max(exact) <= bound


def test_a_constant_is_worth_itself_and_leaves_no_digits():
    large = 1e6 + np.array([0.0, 1.0])
    for kind, mass in (({"discount": 0.5}, 2), ({"discount": 1.0, "horizon": 3}, 3)):
        model = CMDP(np.ones((1, 2, 1)), [large], np.zeros((0, 1, 2)), [], [1.0], **kind)
        x, sizes, rest = centred(Facts(model, visited(model), None), model.reward)
        assert np.abs(x).max() == sizes.max() == 0.5 and rest == Fraction(1e6 + 0.5) * mass
