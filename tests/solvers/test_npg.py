import numpy as np

from cmdpax.solvers import npg


def test_hand_computed_step():
    policy, quality = np.array([[0.25, 0.75]]), np.array([[np.log(3.0), 0.0]])
    np.testing.assert_allclose(npg.step(policy, quality, np.array(1.0)), [[0.5, 0.5]])


def test_zero_stays_zero_and_large_steps_stay_finite():
    policy, quality = np.array([[0.0, 0.4, 0.6]]), np.array([[1e6, 1.0, 0.0]])
    stepped = npg.step(policy, quality, np.array(1e5))
    np.testing.assert_array_equal(stepped, [[0.0, 1.0, 0.0]])
