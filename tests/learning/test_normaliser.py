import numpy as np

from cmdpax.learning.normaliser import absorb, empty


def test_running_statistics_equal_those_of_everything():
    random = np.random.default_rng(0)
    parts = [random.normal(3, 2, size=(size, 4)) for size in (5, 1, 200)]
    seen = empty(4)
    for part in parts:
        seen = absorb(seen, part)
    together = np.concatenate(parts)
    np.testing.assert_allclose(seen.mean, together.mean(0))
    np.testing.assert_allclose(1 / seen.scale, together.std(0), rtol=1e-6)
    assert (empty(4).scale == 1).all()
