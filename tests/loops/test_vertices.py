"""The compiled loop of small models: its proofs beside those of `certify`."""

import numpy as np
import pytest

from cmdpax.environments import garnet, queue
from cmdpax.exact.certificate import certify, said_back
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.vertices import certified_vertices


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
