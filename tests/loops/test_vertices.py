"""The compiled loop of small models: its arithmetic, and proofs beside those of `certify`."""

from fractions import Fraction

import numpy as np
import pytest

from cmdpax.environments import garnet, queue
from cmdpax.exact.certificate import certify, said_back
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.stack import is_plain, stacked
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.vertices import two_product, two_sum
from cmdpax.solvers.vertices import certified_vertices


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


def models():
    small = garnet(states=15, constraints=2, seed=3)
    return {
        "plain": small,
        "offset": small.replace(
            reward=small.reward + 1e6,
            constraints=small.constraints - 1e4,
            thresholds=small.thresholds - 1e4 / (1 - small.discount),
        ),
        "minimised": small.replace(reward=-small.reward, minimise=True),
        "upper": queue(capacity=30),
        "ranges": small.replace(thresholds=[(5.0, 9.0), 5.0]),
        "equality": small.replace(thresholds=[6.0, 5.0], senses=["==", ">="]),
        "none": small.replace(constraints=[], thresholds=[]),
        "myopic": small.replace(discount=0.0, thresholds=[0.1, 0.1]),
    }


@pytest.mark.parametrize("name", models())
def test_proofs_are_those_of_the_form(name):
    """The same policy and prices, certified by the rooms above."""
    model = models()[name]
    (result,) = certified_vertices([model], 1e-6)
    form, proof, limits = StandardForm.of(model), result.certificate, model.limits
    weights, policy = limits.unfold(proof.weights), model.by_choice(result.policy)
    choices = form.criterion.plan(form, form.pseudo_reward(weights)).choices
    own, values = certify(form, ((1.0, policy),), weights, choices, attained_ranges(form))
    own = said_back(model, own)
    width = float(np.ptp(own.ranges[0]))
    for one, other in zip(proof.reward_bounds, own.reward_bounds, strict=True):
        assert one == pytest.approx(other, rel=1e-12, abs=1e-12 * width)
    assert proof.dual_bound == pytest.approx(own.dual_bound, rel=1e-12, abs=1e-9 * width)
    assert proof.margin_bounds == pytest.approx(own.margin_bounds, rel=1e-9, abs=1e-7)
    own_values = limits.signs[limits.first_rows] * values[limits.first_rows]
    assert result.values == pytest.approx(own_values, rel=1e-12, abs=1e-9)
    tight = -proof.margin_bounds[:, 0]
    assert (tight <= 1e-9 * (1 + np.abs(own_values))).all()
    # an attained range is never wider than what policies can change
    assert (proof.ranges[:, 1] - proof.ranges[:, 0] <= np.ptp(own.ranges, 1) * 1.06).all()


def test_a_stack_of_several_is_padded():
    alike = [garnet(states=8, branching=1 + seed % 3, seed=seed) for seed in range(4)]
    counts = [len(model.transitions.successors) for model in alike]
    rows = stacked(alike).rows
    assert rows.successors.shape == rows.probabilities.shape == (4, max(counts))
    for n, (model, count) in enumerate(zip(alike, counts, strict=True)):
        assert (rows.probabilities[n, :count] == model.transitions.probabilities).all()
        assert not rows.probabilities[n, count:].any()


def test_what_is_plain():
    model = garnet(states=9)
    assert is_plain(model) and is_plain(model.replace(constraints=[], thresholds=[]))
    assert not is_plain(model.replace(discount=0.9999))
