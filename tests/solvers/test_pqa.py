import numpy as np

from cmdpax.solvers import pqa


def test_hand_computed_step():
    policy, quality = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    np.testing.assert_allclose(pqa.step(policy, quality, np.array(0.2)), [[0.6, 0.4]])
    np.testing.assert_allclose(pqa.step(policy, quality, np.array(10.0)), [[1.0, 0.0]])


def test_constant_q_changes_nothing():
    policy = np.array([[0.2, 0.3, 0.5]])
    np.testing.assert_allclose(
        pqa.step(policy, np.full((1, 3), 7.0), np.array(2.0)), policy, atol=1e-15
    )
