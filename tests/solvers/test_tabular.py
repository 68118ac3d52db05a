import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from cmdpax.solvers.tabular import from_actions, project_simplex, softmax

points = arrays(
    np.float64, st.tuples(st.integers(1, 4), st.integers(1, 6)), elements=st.floats(-1e3, 1e3)
)


@given(points)
def test_projection_meets_its_optimality_conditions(x):
    """The nearest point of the simplex: a distribution p with `x - p` constant on the support and
    smaller off it.
    """
    p = project_simplex(x)
    np.testing.assert_allclose(p.sum(-1), 1, atol=1e-12)
    assert (p >= 0).all()
    for row, probability in zip(x, p, strict=True):
        dual = (row - probability)[probability > 0]
        assert np.ptp(dual) <= 1e-9 * (1 + np.abs(row).max())
        assert (row[probability == 0] <= dual.max() + 1e-9 * (1 + np.abs(row).max())).all()


@given(points)
def test_projection_is_nearest_among_random_distributions(x):
    p = project_simplex(x)
    rng = np.random.default_rng(0)
    for _ in range(20):
        other = rng.dirichlet(np.ones(x.shape[-1]), x.shape[0])
        assert (((x - p) ** 2).sum(-1) <= ((x - other) ** 2).sum(-1) * (1 + 1e-9) + 1e-9).all()


def test_projection_hand_computed():
    np.testing.assert_allclose(project_simplex(np.array([0.5, 1.5])), [0.0, 1.0])
    np.testing.assert_allclose(project_simplex(np.array([0.6, 0.8])), [0.4, 0.6])
    np.testing.assert_allclose(project_simplex(np.array([1e300, 0.0])), [1.0, 0.0])


def test_softmax_is_safe_for_large_logits_and_keeps_zero():
    np.testing.assert_allclose(softmax(np.array([1000.0, 1000.0])), [0.5, 0.5])
    np.testing.assert_array_equal(softmax(np.array([0.0, -np.inf])), [1.0, 0.0])


def test_from_actions():
    np.testing.assert_array_equal(from_actions(np.array([1, 0]), 2), [[0, 1], [1, 0]])
