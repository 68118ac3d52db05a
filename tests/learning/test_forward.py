from itertools import pairwise

import numpy as np
import pytest

from cmdpax.learning.forward import actor, tanh
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.simulator import ActionSpace


@pytest.mark.parametrize("sizes", [(5, 3), (5, 8, 3), (5, 64, 70, 3)])
def test_compiled_forward_pass_equals_numpys(sizes):
    random = np.random.default_rng(0)
    weights = [random.normal(0, 0.3, shape).astype(np.float32) for shape in pairwise(sizes)]
    biases = [random.normal(size=size).astype(np.float32) for size in sizes[1:]]
    space = ActionSpace(-np.ones(3), np.ones(3))
    policy = NetworkPolicy(
        weights,
        biases,
        np.zeros(3, np.float32),
        random.normal(size=5),
        random.uniform(0.1, 5, 5),
        space,
        (5,),
        0,
    )
    observation, noise = random.normal(0, 4, (7, 5)), random.normal(size=(7, 3)).astype(np.float32)
    normalised, output = np.empty((7, 5), np.float32), np.empty((7, 3), np.float32)
    actor(policy)(observation, noise, normalised, output)
    assert (np.abs(normalised) == 10).any()  # the clip was reached
    np.testing.assert_array_equal(normalised, policy.normalise(observation))
    np.testing.assert_allclose(output, policy.sample(normalised, noise), rtol=0, atol=1e-5)


def test_tanh():
    x = np.linspace(-20, 20, 100_001, dtype=np.float32)
    found = x.copy()
    tanh(found)
    np.testing.assert_allclose(found, np.tanh(x.astype(np.float64)), rtol=0, atol=3e-7)
