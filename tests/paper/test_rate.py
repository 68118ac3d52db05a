import numpy as np
import pytest

from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.paper.rate import measure, theorem


def test_the_constants_by_hand():
    # |lambda*| = 1, delta = 0, beta = 8, sigma = 0: B = 1, kappa = 1, C = 4 + 16 = 20
    gap, violation = theorem(1.0, 0.0, 8.0, 0.0, 4)
    np.testing.assert_allclose(violation, 2 / np.sqrt(8) * np.sqrt(20 / np.arange(1, 5)))
    np.testing.assert_allclose(gap, 2 * violation)
    # delta beyond 4 / kappa replaces it: C = 4 + 4 * 9
    np.testing.assert_allclose(theorem(1.0, 9.0, 8.0, 0.0, 1)[1], 2 / np.sqrt(8) * np.sqrt(40))
    # sigma = 3 / pi^2 at beta = 8: B = 1 + sqrt(8), kappa = 1 / B^2
    sigma, kappa = 3 / np.pi**2, 1 / (1 + np.sqrt(8)) ** 2
    noise = 3 * sigma * kappa
    constant = 4 / kappa * (1 + np.sqrt(2 * noise * (noise + 1))) + 16 / kappa
    bound = 2 / np.sqrt(8) * (np.sqrt(constant) + np.sqrt(2 * sigma))
    np.testing.assert_allclose(theorem(1.0, 0.0, 8.0, sigma, 1)[1], bound)
    np.testing.assert_allclose(
        theorem(1.0, 0.0, 8.0, sigma, 1)[0], (2 + np.sqrt(8)) * bound + sigma
    )


@pytest.mark.parametrize(
    "model",
    [cliff_world(), deep_sea(), garnet(states=15, constraints=2)],
    ids=["cliff", "sea", "garnet"],
)
@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_the_last_iterate_keeps_within_the_bound(model, penalty):
    rate = measure(model, penalty, sigma=0.01, outer=60)
    assert len(rate.gaps) == 60
    assert (rate.gaps <= rate.gap_bounds).all() and (rate.violations <= rate.violation_bounds).all()
    # the bound falls as 1 / sqrt(T)
    assert rate.violation_bounds[39] / rate.violation_bounds[9] == pytest.approx(0.5, rel=0.05)
