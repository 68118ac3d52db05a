import numpy as np

from cmdpax.solvers import spma


def test_hand_computed_step():
    policy, quality = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])  # advantages +-1/2
    np.testing.assert_allclose(spma.step(policy, quality, np.array(0.4)), [[0.6, 0.4]])


def test_step_is_clipped_where_it_would_turn_negative():
    policy, quality = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])
    np.testing.assert_allclose(spma.step(policy, quality, np.array(100.0)), [[1.0, 0.0]])


def test_no_advantage_changes_nothing():
    policy = np.array([[0.2, 0.8]])
    np.testing.assert_allclose(spma.step(policy, np.ones((1, 2)), np.array(5.0)), policy)
