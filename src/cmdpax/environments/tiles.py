"""Tile coding of the state index: binary features `[S, A, d]`, as in the paper's log-linear
experiments.

N tilings of the index, each shifted against the one before by 1/N of a tile: `q = floor(N s size /
S)`, and tiling i has the key `(i, (q + i) // N, a)`. Keys take the d slots in the order of first
use (over states, actions, tilings); once all are taken, a new key shares the slot
`crc32("i,tile,a") mod d`. Entries are set to 1, not added. It amounts to state aggregation.
"""

import zlib

import numpy as np

from cmdpax.errors import InputError


def tiles(states: int, actions: int, dimension: int, tilings: int, size: int) -> np.ndarray:
    """Features `[S, A, dimension]` of zeros and ones."""
    for name, number in (("dimension", dimension), ("tilings", tilings), ("size", size)):
        if number < 1:
            raise InputError(f"tiles: {name} is {number}; it must be a whole number of at least 1.")
    features = np.zeros((states, actions, dimension))
    slots: dict[tuple[int, int, int], int] = {}
    for s in range(states):
        place = tilings * s * size // states
        for a in range(actions):
            for i in range(tilings):
                key = (i, (place + i) // tilings, a)
                if key not in slots and len(slots) < dimension:
                    slots[key] = len(slots)
                features[s, a, slots.get(key, zlib.crc32(b"%d,%d,%d" % key) % dimension)] = 1.0
    return features
