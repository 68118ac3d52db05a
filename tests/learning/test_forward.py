from itertools import pairwise

import numpy as np
import pytest

from cmdpax.learning import formulas
from cmdpax.learning.forward import fastest_forward, forward, tanh
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.simulator import ActionSpace


@pytest.mark.parametrize("sizes", [(5, 3), (5, 8, 3), (5, 64, 70, 3)])
def test_the_forward_pass_is_the_same_as_source_compiled_and_in_jax(sizes):
    random = np.random.default_rng(0)
    weights = [random.normal(0, 0.3, shape).astype(np.float32) for shape in pairwise(sizes)]
    biases = [random.normal(size=size).astype(np.float32) for size in sizes[1:]]
    mean, scale, space = random.normal(size=5), random.uniform(0.1, 5, 5), ActionSpace(choices=3)
    policy = NetworkPolicy(weights, biases, None, mean, scale, space, (5,), 0)
    observation, noise = random.normal(0, 4, (7, 5)), random.normal(size=(7, 3)).astype(np.float32)
    outputs = []
    assert fastest_forward() is not forward
    for run in (forward, fastest_forward()):
        normalised, output = np.empty((7, 5), np.float32), np.empty((7, 3), np.float32)
        run(policy.network, observation, noise, normalised, output)
        assert (np.abs(normalised) == 10).any()  # the clip was reached
        np.testing.assert_array_equal(normalised, policy.normalise(observation))
        outputs.append(output)
    layers = [{"weight": weight, "bias": bias} for weight, bias in zip(weights, biases)]
    outputs.append(np.asarray(formulas.apply(layers, normalised)) + noise)
    for output in outputs[1:]:
        np.testing.assert_allclose(output, outputs[0], rtol=0, atol=1e-5)


def test_tanh():
    """Its source, and compiled as the only layer of a network with weights 2 and 1."""
    x = np.linspace(-10, 10, 100_001)
    source, ones = np.float32(2 * x), np.ones(1)
    tanh(source)
    network = (np.array([2, 0, 1, 0], np.float32), np.ones(3, np.int64), 0 * ones, ones)
    noise, compiled = np.zeros((len(x), 1), np.float32), np.empty((len(x), 1), np.float32)
    normalised = np.empty_like(compiled)
    fastest_forward()(network, x[:, None], noise, normalised, compiled)
    for approximate in (source, compiled[:, 0]):
        expected = np.tanh(2 * np.float32(x).astype(np.float64))
        np.testing.assert_allclose(approximate, expected, rtol=0, atol=4e-7)
