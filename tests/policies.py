"""Policies of random arrays, one for every kind of action space and every kind of table."""

from itertools import pairwise

import numpy as np

from cmdpax.learning.encoders import Encoder
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.portable import TablePolicy
from cmdpax.learning.simulator import ActionSpace

SPACES = {
    "box": ActionSpace(np.array([-2.0, 1.0]), np.array([2.0, 4.0]), dtype="float32"),
    "box of a shape": ActionSpace(np.zeros(4), np.full(4, 9.0), shape=(2, 2)),
    "open box": ActionSpace(np.array([-np.inf, 0, -np.inf]), np.array([0, np.inf, np.inf])),
    "box of whole numbers": ActionSpace(np.array([-10.0]), np.array([5.0]), dtype="int64"),
    "box as it is": ActionSpace(-np.ones(3), np.ones(3), clip=False),
    "discrete": ActionSpace(choices=5, start=-1),
    "masked": ActionSpace(choices=5, start=2, masked=True),
    "several": ActionSpace(choices=9, parts=(3, 4, 2), start=(0, 1, 7), shape=(3,), dtype="int64"),
    "binary": ActionSpace(
        choices=8, parts=(2, 2, 2, 2), start=(0, 0, 0, 0), shape=(2, 2), dtype="int8", masked=True
    ),
}
TABLES = {"one": ((), 3, 4), "horizon": ((), 5, 3, 4), "mixture": ((2,), 3, 4)}
TABLES |= {"mixture of horizons": ((2,), 5, 3, 4)}


IMAGES = {"colours last": (12, 20, 3), "colours first": (3, 12, 20), "grey": (9, 11)}


def network(
    name: str,
    shape: tuple[int, ...] = (2, 6),
    hidden: tuple[int, ...] = (64, 64),
    encoder: Encoder | None = None,
):
    """With observations far from 0, of all sizes."""
    space, random = SPACES[name], np.random.default_rng(0)
    size, encoded = int(np.prod(shape)), []
    if encoder is not None:
        for kernel in encoder.kernel_shapes:
            spread = 1 / np.sqrt(np.prod(kernel[:-1]))
            encoded.append(random.normal(0, spread, kernel).astype(np.float32))
            encoded.append(random.normal(0, 0.1, kernel[-1]).astype(np.float32))
    sizes = (size if encoder is None else encoder.size, *hidden, space.size)
    weights = [random.normal(0, 1 / np.sqrt(s[0]), s).astype(np.float32) for s in pairwise(sizes)]
    biases = [random.normal(0, 0.1, size).astype(np.float32) for size in sizes[1:]]
    log_std = None if space.low is None else np.full(space.size, -0.9, np.float32)
    mean, scale = random.normal(0, 100, size), random.uniform(0.1, 5, size)
    if space.masked:
        mean[-space.choices :], scale[-space.choices :] = 0, 1
    normaliser = (mean, scale)
    return NetworkPolicy(weights, biases, log_std, *normaliser, space, shape, 7, encoder, encoded)


def convolutional(name: str, space: str = "box"):
    """A policy that sees images."""
    return network(space, IMAGES[name], encoder=Encoder("convolutional", IMAGES[name]))


def observations(policy: NetworkPolicy, count: int) -> np.ndarray:
    """Such as it was made for, some of them beyond the clip, `[count, *shape]`."""
    random = np.random.default_rng(1)
    flat = random.normal(0, 4, (count, len(policy.mean))) / policy.scale + policy.mean
    if policy.action_space.masked:
        mask = random.integers(0, 2, (count, policy.action_space.choices))
        mask[:, ::2] |= 1 - mask[:, 1::2] if mask.shape[1] % 2 == 0 else 1
        flat[:, -mask.shape[1] :] = mask
    return flat.reshape(count, *policy.observation_shape)


def table(name: str) -> TablePolicy:
    """Some of its probabilities are 0."""
    mixture, *shape = TABLES[name]
    random = np.random.default_rng(2)
    chances = random.uniform(size=(*mixture, *shape)) * random.integers(0, 2, (*mixture, *shape))
    chances[..., 0] += 0.1
    chances /= chances.sum(-1, keepdims=True)
    return TablePolicy.of(chances, np.array([0.3, 0.7]) if mixture else None)
