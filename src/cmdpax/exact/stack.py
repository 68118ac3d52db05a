"""Small discounted models of one shape as arrays with a leading axis, for `loops/vertices.py`."""

from collections.abc import Sequence

import numpy as np

from cmdpax.exact.standard import SHORT
from cmdpax.loops.compiled import readable
from cmdpax.loops.rows import Block
from cmdpax.loops.vertices import Models
from cmdpax.model.cmdp import CMDP


def is_plain(model: CMDP) -> bool:
    """Whether a model may be in a stack: discounted, and no run ends."""
    is_discounted = model.criterion == "discounted" and 1 - model.discount >= SHORT
    return is_discounted and model.horizon is None and model.transitions.lost is None


def stacked(models: Sequence[CMDP]) -> Models:
    """n plain models with S states, K choices and m limits each."""
    signs = [-1.0 if model.minimise else 1.0 for model in models]
    return Models(
        _rows([model.transitions.rows(0, model.states) for model in models]),
        _side_by_side([model.initial for model in models]),
        np.array([model.discount for model in models]),
        np.array(signs),
        _side_by_side([model.reward for model in models]),
        _side_by_side([model.constraints for model in models]),
        _side_by_side([model.limits.bounds for model in models]),
    )


def _rows(blocks: Sequence[Block]) -> Block:
    """Rows of all models; entries are padded to the longest."""
    counts = [len(block.successors) for block in blocks]
    padded = []
    for block, count in zip(blocks, counts, strict=True):
        missing = max(counts) - count
        entries: tuple[np.ndarray, ...] = block.successors, block.probabilities
        if missing:
            entries = tuple(np.append(part, np.zeros(missing, part.dtype)) for part in entries)
        padded.append((block.first_choice, block.first_entry, *entries))
    return Block(*(_side_by_side(parts) for parts in zip(*padded, strict=True)))


def _side_by_side(arrays: Sequence[np.ndarray]) -> np.ndarray:
    """`[n, ...]`, read-only; of one array no copy."""
    return readable(arrays[0][None] if len(arrays) == 1 else np.stack(arrays))
