"""What stands ahead of a network's dense layers: convolutions for images, or somebody's own code.

    features = encoder(observation),   output = dense layers(features)

A policy and its critics have an encoder each. Its parameters are a list of arrays. Convolutions are
one formula for arrays of NumPy, which act, and of JAX, which learn; reading and acting need NumPy
alone. Somebody's own encoder, `module:function`, is code of JAX.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from cmdpax.errors import InputError

Array = Any  # NumPy's or JAX's
CONVOLUTIONAL, DENSE = "convolutional", "dense"
SMALLEST_IMAGE = 8  # points of each side
SIDE, STRIDE = 3, 2  # of every kernel
FIRST_FILTERS, MOST_FILTERS = 16, 64
BLOCK = 256  # observations at once


@dataclass(frozen=True)
class Encoder:
    """Which features of an observation of this shape the dense layers see."""

    name: str  # convolutional, or module:function
    shape: tuple[int, ...]

    @staticmethod
    def of(network: str | None, shape: tuple[int, ...]) -> "Encoder | None":
        """That of a setting `network`; None: there are dense layers alone."""
        if network is None or network == DENSE:
            return None
        if network == CONVOLUTIONAL and not is_image(shape, least_axes=2):
            raise InputError(
                f"network {network}: observations are {list(shape)}, which is no image of"
                f" {SMALLEST_IMAGE} x {SMALLEST_IMAGE} points or more; leave it out."
            )
        return Encoder(network, shape)

    @staticmethod
    def from_json(notes: Any) -> "Encoder | None":
        """What `as_json` wrote."""
        if notes is None:
            return None
        name, shape = notes["name"], notes["shape"]
        is_whole = isinstance(name, str) and isinstance(shape, list) and bool(shape)
        if not is_whole or not all(type(side) is int and side > 0 for side in shape):
            raise ValueError("its encoder is described by something else")
        return Encoder(name, tuple(shape))

    def as_json(self) -> dict[str, Any]:
        """Name and shape."""
        return {"name": self.name, "shape": list(self.shape)}

    @property
    def is_custom(self) -> bool:
        """Whether it is somebody's code, which must be imported."""
        return self.name != CONVOLUTIONAL

    @property
    def size(self) -> int:
        """How many features."""
        if self.is_custom:
            return self._own.size
        height, width, filters = _sides(self.shape)[-1]
        return height * width * filters

    @property
    def kernel_shapes(self) -> list[tuple[int, ...]]:
        """`[height, width, in, out]` of every convolution."""
        filters = [colours for *_, colours in _sides(self.shape)]
        return [(SIDE, SIDE, *pair) for pair in pairwise(filters)]

    def check(self, parameters: Sequence[np.ndarray]) -> None:
        """Refuse arrays of other shapes."""
        if self.is_custom:
            shapes = self._own.shapes
        else:
            shapes = [one for shape in self.kernel_shapes for one in (shape, shape[-1:])]
        if [np.shape(part) for part in parameters] != shapes:
            raise ValueError("its encoder has arrays of other shapes")

    def features(self, parameters: Sequence[Array], observation: Array) -> Array:
        """`[..., d] -> [..., f]`, d being as many as `shape` holds."""
        rows = observation.reshape(-1, *self.shape)
        if not isinstance(rows, np.ndarray):
            said = self._features(parameters, rows)
        elif self.is_custom:
            said = self._own.in_numpy(parameters, rows)
        else:
            blocks = [rows[start : start + BLOCK] for start in range(0, max(len(rows), 1), BLOCK)]
            said = np.concatenate([self._features(parameters, block) for block in blocks])
        return said.reshape(*observation.shape[:-1], self.size)

    @property
    def _own(self) -> Any:
        """Somebody's code, loaded where it is needed: with JAX."""
        from cmdpax.learning.own_network import OwnNetwork

        return OwnNetwork.of(self)

    def init_own(self, key: Array) -> list[np.ndarray]:
        """Parameters of somebody's encoder before training."""
        return self._own.init(key)

    def _features(self, parameters: Sequence[Array], rows: Array) -> Array:
        if self.is_custom:
            return self._own.apply(parameters, rows)
        return convolutions(parameters, colours_last(rows))


def is_image(shape: tuple[int, ...], least_axes: int = 3) -> bool:
    """Whether observations are pictures: two sides of 8 points or more, and colours."""
    return least_axes <= len(shape) <= 3 and sorted(shape)[-2] >= SMALLEST_IMAGE


def default_network(network: str | None, shape: tuple[int, ...]) -> str | None:
    """The setting `network`; None becomes convolutional where observations are images."""
    return CONVOLUTIONAL if network is None and is_image(shape) else network


def has_colours_first(shape: tuple[int, ...]) -> bool:
    """Whether an image is `[colours, height, width]`, not `[height, width, colours]`."""
    return len(shape) == 3 and shape[0] < shape[2]


def colours_last(images: Array) -> Array:
    """`[N, height, width, colours]` of images in any order, also without colours."""
    if images.ndim == 3:
        return images[..., None]
    if has_colours_first(images.shape[1:]):
        return images.__array_namespace__().moveaxis(images, 1, 3)
    return images


def convolutions(parameters: Sequence[Array], images: Array) -> Array:
    """`h = max(conv h + bias, 0)` layer by layer, flat: `[N, H, W, C] -> [N, f]`.

    parameters: kernel `[SIDE, SIDE, in, out]` and bias `[out]` of all layers in turn.
    """
    for kernel, bias in zip(parameters[::2], parameters[1::2]):
        images = images.__array_namespace__().maximum(convolve(images, kernel) + bias, 0)
    return images.reshape(len(images), math.prod(images.shape[1:]))


def convolve(images: Array, kernel: Array) -> Array:
    """`y[n, u, v] = sum_ij x[n, 2 u + i, 2 v + j] K[i, j]`, `[N, H, W, C] -> [N, H', W', out]`.

    The windows of all points side by side, times the kernel: one product.
    """
    height, width = (_side(side) for side in images.shape[1:3])
    windows = [
        images[:, i : i + STRIDE * height - 1 : STRIDE, j : j + STRIDE * width - 1 : STRIDE]
        for i in range(SIDE)
        for j in range(SIDE)
    ]
    wide = images.__array_namespace__().concatenate(windows, -1)
    return wide @ kernel.reshape(-1, kernel.shape[-1])


def _side(side: int) -> int:
    """Length of an image's side after a convolution."""
    return (side - SIDE) // STRIDE + 1


def _sides(shape: tuple[int, ...]) -> list[tuple[int, int, int]]:
    """Height, width and colours of an image, and after every convolution."""
    one = (*shape, 1) if len(shape) == 2 else shape
    height, width, colours = (*one[1:], one[0]) if has_colours_first(one) else one
    sides, filters = [(height, width, colours)], FIRST_FILTERS
    while min(height, width) >= SMALLEST_IMAGE:
        height, width = _side(height), _side(width)
        sides.append((height, width, filters))
        filters = min(2 * filters, MOST_FILTERS)
    return sides


def refuse_untrusted(encoder: Encoder | None, trust: bool, where: Any) -> None:
    """Refuse to import code because a file names it."""
    if encoder is not None and encoder.is_custom and not trust:
        module = encoder.name.partition(":")[0]
        raise InputError(
            f"{where} names the network '{encoder.name}', which would import the module '{module}';"
            " say that you trust it (trust=True, --trust). No policy.npz and no policy.onnx holds"
            " code: take the run folder along."
        )
