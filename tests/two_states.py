"""Two states, two actions, one constraint: a model small enough to check by hand."""

from typing import Any

import numpy as np

from cmdpax import CMDP

DENSE = np.array([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.25, 0.75]]])
COST = np.array([[1.0, 0.0], [0.0, 1.0]])
GOOD: dict[str, Any] = {
    "transitions": DENSE,
    "reward": [[1.0, 2.0], [0.0, 3.0]],
    "constraints": [COST],
    "thresholds": [2.0],
    "initial": [1.0, 0.0],
    "discount": 0.9,
}
MASK = [[False, True], [True, True]]


def build(**changes: Any) -> CMDP:
    return CMDP(**{**GOOD, **changes})


def every_sense(**changes: Any) -> CMDP:
    """The model with four limits of different senses, on multiples of its cost."""
    limits = {
        "constraints": [COST, 2 * COST, 3 * COST, 4 * COST],
        "thresholds": [2.0, 1.0, 5.0, (6.0, 7.0)],
        "senses": ["<=", ">=", "==", "in"],
    }
    return build(**{**limits, **changes})
