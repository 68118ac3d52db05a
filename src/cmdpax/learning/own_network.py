"""Somebody's own network ahead of the dense layers, `network="module:function"`: code of JAX."""

import importlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from cmdpax.errors import InputError, did_you_mean
from cmdpax.learning.encoders import BLOCK, Array, Encoder
from cmdpax.learning.environment_names import USER_ERRORS, beside


class OwnNetwork:
    """Somebody's encoder: `function(shape)` is `init, apply`.

    `init(key)` makes parameters, any tree of arrays; `apply(parameters, observations [N, *shape])`
    is features `[N, f]`.
    """

    def __init__(self, encoder: Encoder) -> None:
        self.name, self.shape = encoder.name, encoder.shape
        function = _imported(encoder.name)
        try:
            self._init, own = function(encoder.shape)
            tree = jax.eval_shape(self._init, jax.random.key(0))
            leaves, structure = jax.tree.flatten(tree)
            rows = jax.ShapeDtypeStruct((3, *encoder.shape), np.float32)
            said = jax.eval_shape(own, tree, rows)
            if len(said.shape) != 2 or said.shape[0] != 3 or not said.shape[1]:
                raise ValueError(f"features are {list(said.shape)} of 3 observations, not [3, f]")
            if any(leaf.dtype != np.float32 for leaf in leaves):
                raise ValueError("its parameters are not all float32")
        except Exception as error:  # whatever somebody's code raises
            why = " ".join(f"{type(error).__name__}: {error}".split())
            raise InputError(
                f"network '{encoder.name}': {why}; it must take the shape of observations, and"
                " return init(key) and apply(parameters, observations [N, *shape]) -> [N, f]."
            ) from None
        self.shapes, self.size = [leaf.shape for leaf in leaves], int(said.shape[1])
        self.apply = lambda parameters, rows: own(jax.tree.unflatten(structure, parameters), rows)
        self._jitted = jax.jit(self.apply)

    @staticmethod
    @cache
    def of(encoder: Encoder) -> "OwnNetwork":
        """That of an encoder, imported once."""
        return OwnNetwork(encoder)

    def init(self, key: Array) -> list[np.ndarray]:
        """Parameters before training."""
        return [np.array(leaf) for leaf in jax.tree.leaves(self._init(key))]

    def in_numpy(self, parameters: Sequence[np.ndarray], rows: np.ndarray) -> np.ndarray:
        """`apply` in blocks whose sizes are powers of two, of which few are compiled."""
        parts = []
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            padded = np.zeros((1 << (len(block) - 1).bit_length(), *self.shape), np.float32)
            padded[: len(block)] = block
            parts.append(np.asarray(self._jitted(list(parameters), padded))[: len(block)])
        return np.concatenate([np.empty((0, self.size), np.float32), *parts])


def _imported(name: str) -> Callable[..., Any]:
    """The function `module:function`."""
    module, _, function = name.partition(":")
    try:
        content = beside(importlib.import_module, module)
    except USER_ERRORS as error:
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"network '{name}': '{module}' cannot be imported ({why}).") from None
    if not callable(getattr(content, function, None)):
        public = [key for key, value in vars(content).items() if callable(value) and key[0] != "_"]
        lacks = f"module '{module}' has no function '{function}'"
        raise InputError(f"network '{name}': {lacks}; {did_you_mean(function, public)}")
    return getattr(content, function)
