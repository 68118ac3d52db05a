"""What identifies a model: a fingerprint of what the user said, labels apart."""

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from cmdpax.model.numbers import hash_array

if TYPE_CHECKING:
    from cmdpax.model.cmdp import CMDP


def digest_of(model: "CMDP") -> str:
    """Of transitions, numbers and limits; how they are stored has no part in it."""
    hasher = model.transitions.hashed.copy()
    for array in (model.reward, model.constraints, model.limits.bounds, model.initial):
        hash_array(hasher, array)
    hasher.update(f"{model.senses} {model.minimise} {model.discount!r}".encode())
    hasher.update(b" may stay" * model.may_stay + b" average" * (model.criterion == "average"))
    if model.horizon is not None:
        hasher.update(f"horizon {model.horizon}".encode())
    return hasher.hexdigest()


def digest_of_0_1(model: "CMDP") -> str:
    """As version 0.1 made it: of rows padded to `[S, A, B]`, and of constraints as `>=`.

    Pairs that did not exist were copies of the state's first choice.
    """
    rows = model.transitions
    padded = np.zeros((2, rows.choices, rows.longest))
    choice = rows.entry_choices
    places = np.arange(len(rows.successors)) - rows.first_entry[choice]
    padded[0, choice, places], padded[1, choice, places] = rows.successors, rows.probabilities
    successors, chances = (np.moveaxis(rows.filled(part.T), 0, -1) for part in padded)
    turned = rows.filled(model.limits.turn(model.constraints, axis=0))
    hasher = sha256()
    numbers = rows.filled(model.reward), turned, model.limits.row_thresholds, model.initial
    for array in (successors.astype(np.int32), chances, *numbers):
        hash_array(hasher, array)
    mask = model.available
    hasher.update((b"" if mask is None else mask.tobytes()) + repr(model.discount).encode())
    return hasher.hexdigest()
