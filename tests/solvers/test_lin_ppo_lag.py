import numpy as np
import pytest

from cmdpax.solvers.lin_ppo_lag import ascend
from cmdpax.solvers.policy_classes import Features, one_hot


def test_the_clipped_surrogates_gradient_agrees_with_finite_differences():
    rng = np.random.default_rng(2)
    features = Features(
        np.repeat(rng.standard_normal((3, 3, 4)), 2, axis=0)
    )  # six states in three groups
    old, worth, clip = rng.standard_normal(features.rank), rng.standard_normal((6, 3)), 0.2
    before = features.probabilities(old)

    def objective(x):
        ratio = features.probabilities(x) / before
        return (
            before * np.minimum(ratio * worth, np.clip(ratio, 1 - clip, 1 + clip) * worth)
        ).sum()

    size = 1e-7
    step = (
        ascend(features, old[None], worth[None], np.array([size]), np.array([clip]), 1)[0] - old
    ) / size
    for i in range(features.rank):
        e = 1e-6 * np.eye(features.rank)[i]
        assert step[i] == pytest.approx(
            (objective(old + e) - objective(old - e)) / 2e-6, rel=1e-4, abs=1e-6
        )


def test_nothing_moves_once_everything_is_clipped():
    features = Features(one_hot(2, 2))
    worth = np.array([[[1.0, -1.0], [1.0, -1.0]]])
    short, long = (
        ascend(features, np.zeros((1, 2)), worth, np.array([5.0]), np.array([0.1]), n)
        for n in (1, 50)
    )
    np.testing.assert_array_equal(short, long)
    assert features.probabilities(long)[0, 0, 0] > 0.55
