import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning import encoders, formulas
from cmdpax.learning.encoders import Encoder, convolve, default_network, is_image

RANDOM = np.random.default_rng(0)


def parameters(encoder):
    network = formulas.init_network(jax.random.key(0), 0, (encoder.size, 2), 1.0, encoder)
    return network[0]["parameters"]


def test_a_convolution_is_a_sum_over_windows():
    images = RANDOM.normal(size=(2, 8, 11, 3)).astype(np.float32)
    kernel = RANDOM.normal(size=(3, 3, 3, 5)).astype(np.float32)
    ours = convolve(images, kernel)
    assert ours.shape == (2, 3, 5, 5)
    for n, u, v in np.ndindex(2, 3, 5):
        window = images[n, 2 * u : 2 * u + 3, 2 * v : 2 * v + 3]
        expected = np.einsum("ijc,ijcf->f", window, kernel)
        np.testing.assert_allclose(ours[n, u, v], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(convolve(jnp.asarray(images), kernel), ours, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "kernels", "size"),
    [
        ((8, 8, 3), 1, 3 * 3 * 16),
        ((84, 84, 4), 4, 4 * 4 * 64),
        ((4, 84, 84), 4, 4 * 4 * 64),
        ((30, 9), 1, 14 * 4 * 16),
    ],
)
def test_sizes(shape, kernels, size):
    encoder = Encoder("convolutional", shape)
    assert (len(encoder.kernel_shapes), encoder.size) == (kernels, size)
    own = parameters(encoder)
    encoder.check(own)
    flat = RANDOM.normal(size=(3, 1, int(np.prod(shape)))).astype(np.float32)
    assert encoder.features(own, flat).shape == (3, 1, size)
    assert encoder.features(own, flat[:0]).shape == (0, 1, size)
    with pytest.raises(ValueError, match="other shapes"):
        encoder.check(own[::-1])


def test_numpy_jax_and_blocks_agree(monkeypatch):
    encoder = Encoder("convolutional", (10, 9, 2))
    own, flat = parameters(encoder), RANDOM.normal(size=(7, 180)).astype(np.float32)
    ours = encoder.features(own, flat)
    traced = jax.jit(encoder.features)(own, jnp.asarray(flat))
    np.testing.assert_allclose(traced, ours, rtol=1e-4, atol=1e-5)
    monkeypatch.setattr(encoders, "BLOCK", 2)
    np.testing.assert_allclose(encoder.features(own, flat), ours, rtol=1e-4, atol=1e-5)


def test_colours_may_come_first_or_last():
    image = RANDOM.normal(size=(12, 10, 3)).astype(np.float32)
    last, first = Encoder("convolutional", (12, 10, 3)), Encoder("convolutional", (3, 12, 10))
    own = parameters(last)
    other = first.features(own, np.moveaxis(image, 2, 0).reshape(-1))
    np.testing.assert_array_equal(other, last.features(own, image.reshape(-1)))


@pytest.mark.parametrize(
    ("shape", "is_one"),
    [((8, 8, 3), True), ((3, 84, 84), True), ((8, 8), False), ((7, 7, 3), False), ((64,), False)],
)
def test_what_is_an_image(shape, is_one):
    assert is_image(shape) == is_one
    assert default_network(None, shape) == ("convolutional" if is_one else None)
    assert default_network("dense", shape) == "dense"


def test_what_is_none_has_no_convolutions():
    with pytest.raises(InputError, match=r"observations are \[64\], which is no image"):
        Encoder.of("convolutional", (64,))
    assert Encoder.of("dense", (8, 8, 3)) is None
    assert Encoder.of("convolutional", (8, 8)) == Encoder("convolutional", (8, 8))
