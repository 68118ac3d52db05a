"""The forward pass of a network of dense layers: in NumPy, and compiled from the same source.

    x = clip((observation - mean) * scale),   h = tanh(W h + b) layer by layer,   output = W h + b

It acts in training, in an evaluation and on a robot: compiled where numba is installed, in NumPy
alone elsewhere, with equal results but for rounding. Each observation is treated by itself, so that
no bit of an output depends on how many there are.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

OBSERVATION_CLIP = 10.0
Array = np.ndarray
Network = tuple[Array, Array, Array, Array]
_TANH_RANGE = np.float32(7.9)


def normalise(observation: Array, mean: Array, scale: Array) -> Array:
    """`clip((observation - mean) * scale)`, what a network sees: `[..., d]` -> float32."""
    return clamp((observation - mean) * scale, OBSERVATION_CLIP).astype(np.float32)


def entries(row: Array) -> Any:
    """Indices to loop over a row with: all at once in NumPy, one after the other if compiled."""
    return (slice(None),)


def clamp(x: Any, most: Any) -> Any:
    """Between -most and most; NaN stays."""
    return np.minimum(np.maximum(x, -most), most)


def clamp_one(x: Any, most: Any) -> Any:
    """`clamp` of a number, for compiled loops: two instructions, where NumPy's rules need five."""
    below = most if x > most else x
    return -most if below < -most else below


def add_product(total: Array, row: Array, matrix: Array) -> None:
    """`total += row matrix`: `[w]`, `[k]`, `[k, w]`."""
    total += row @ matrix


def normalise_one_by_one(observation: Array, mean: Array, scale: Array) -> Array:
    """`normalise` of one observation `[d]`, for compiled loops."""
    seen = np.empty(len(observation), np.float32)
    for k in range(len(observation)):
        seen[k] = clamp((observation[k] - mean[k]) * scale[k], OBSERVATION_CLIP)
    return seen


def four_by_four(total: Array, row: Array, matrix: Array) -> None:
    """`add_product` for compiled loops, which load and store `total` a quarter as often."""
    fours = len(row) // 4 * 4
    for i in range(0, fours, 4):
        a, b, c, d = row[i], row[i + 1], row[i + 2], row[i + 3]
        first, second, third, fourth = matrix[i], matrix[i + 1], matrix[i + 2], matrix[i + 3]
        for j in range(len(total)):
            total[j] += a * first[j] + b * second[j] + c * third[j] + d * fourth[j]
    for i in range(fours, len(row)):
        for j in range(len(total)):
            total[j] += row[i] * matrix[i, j]


def tanh(x: Array) -> None:
    """Hyperbolic tangent of `x [K]` float32, in place, within 4e-7.

    A quotient of polynomials of degree 13 and 6 on [-7.9, 7.9], constant beyond: four times as fast
    as the C library's, because it is vectorised. A loop over the coefficients would not be.
    """
    for k in entries(x):
        value = clamp(x[k], _TANH_RANGE)
        square = value * value
        above = np.float32(-2.76076847e-16) * square + np.float32(2.00018790e-13)
        above = above * square - np.float32(8.60467152e-11)
        above = above * square + np.float32(5.12229709e-8)
        above = above * square + np.float32(1.48572236e-5)
        above = above * square + np.float32(6.37261929e-4)
        above = above * square + np.float32(4.89352456e-3)
        below = np.float32(1.19825839e-6) * square + np.float32(1.18534706e-4)
        below = below * square + np.float32(2.26843463e-3)
        below = below * square + np.float32(4.89352519e-3)
        x[k] = value * above / below


def forward(
    network: Network, observation: Array, noise: Array, normalised: Array, output: Array
) -> None:
    """Fill in what a network sees, `normalised [N, d]`, and says, `output [N, a]`, noise added.

    network: weights `[in, out]` and biases of all layers in turn, flat, float32; their sizes
    `[layers + 1]`; mean and scale `[d]`. observation `[N, d]` float64; noise `[N, a]` float32.
    """
    parameters, sizes, mean, scale = network
    layers = len(sizes) - 1
    for n in range(len(observation)):
        hidden = normalise(observation[n], mean, scale)
        normalised[n] = hidden
        start = 0
        for layer in range(layers):
            width = sizes[layer + 1]
            end = start + sizes[layer] * width
            weight = parameters[start:end].reshape(sizes[layer], width)
            start = end + width
            next_hidden = parameters[end:start].copy()
            add_product(next_hidden, hidden, weight)
            if layer < layers - 1:
                tanh(next_hidden)
            hidden = next_hidden
        for k in entries(hidden):
            output[n, k] = hidden[k] + noise[n, k]


@cache
def fastest_forward() -> Callable[..., None]:
    """`forward`, compiled where numba is installed: fifty times as fast."""
    try:
        from cmdpax.loops.compiled import contracted
    except ImportError:
        return forward
    inline_parts()
    return contracted(forward)


@cache
def inline_parts() -> None:
    """Let compiled loops call the functions that `forward` calls."""
    from cmdpax.loops.compiled import inlined

    inlined(entries, lambda row: range(len(row)))
    inlined(clamp, clamp_one)
    inlined(normalise, normalise_one_by_one)
    inlined(add_product, four_by_four)
    inlined(tanh, tanh)
