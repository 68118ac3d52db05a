import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning.encoders import Encoder
from learning import pictures
from learning.test_encoders import parameters

RANDOM = np.random.default_rng(0)


def test_somebodys_own():
    encoder = Encoder("learning.pictures:pooled", (12, 12, 3))
    own = parameters(encoder)
    assert [part.shape for part in own] == [(), (36, 9)] and encoder.size == 9
    flat = RANDOM.normal(size=(5, 432)).astype(np.float32)
    _, apply = pictures.pooled((12, 12, 3))
    expected = apply({"level": own[0], "rows": own[1]}, flat.reshape(-1, 12, 12, 3))
    np.testing.assert_allclose(encoder.features(own, flat), expected, rtol=1e-4, atol=1e-5)
    traced = jax.jit(encoder.features)(own, jnp.asarray(flat))
    np.testing.assert_allclose(traced, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("nowhere_at_all:net", "'nowhere_at_all' cannot be imported"),
        ("learning.pictures:poled", "did you mean 'pooled'"),
        ("learning.pictures:wrong", r"features are \[3, 12, 12, 3\]"),
        ("learning.pictures:make", "it must take the shape of observations"),
    ],
)
def test_what_is_no_network_gets_one_sentence(name, sentence):
    with pytest.raises(InputError, match=sentence):
        _ = Encoder(name, (12, 12, 3)).size
