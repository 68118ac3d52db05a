import numpy as np

from cmdpax.solvers import ppg


def test_hand_computed_step():
    policy, gradient = np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([[0.1, 0.0], [0.0, 0.4]])
    np.testing.assert_allclose(
        ppg.step(policy, gradient, np.array(1.0)), [[0.55, 0.45], [0.3, 0.7]]
    )
