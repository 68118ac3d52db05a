"""One more variable: a level t that k values of a model must reach, as a model of its own."""

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.reading import RowLists


def with_a_level(model: CMDP, rewards: np.ndarray, low: float, high: float) -> CMDP:
    """`max t` subject to the model's limits and `V_j >= t`, for rewards `[k, K]`, t in [low, high].

    It has one more state, the last one, where every run begins. Its two actions pay the least and
    the largest t and lead to the initial distribution; a policy that mixes them chooses t. Old
    rewards are divided by the discount, so that their values stay what they were.
    """
    if model.discount == 0:
        raise InputError("max_min: at discount 0 nothing follows; give a discount above 0.")
    rows, starts, ends = model.transitions, np.flatnonzero(model.initial), np.array([low, high])
    lengths = np.append(np.diff(rows.first_entry), [len(starts)] * 2)
    entries = RowLists(
        np.append(0, np.cumsum(lengths)),
        np.concatenate([rows.successors, starts, starts]),
        np.concatenate([rows.probabilities, *[model.initial[starts]] * 2]),
    )
    old = [np.append(row / model.discount, [0.0, 0.0]) for row in model.constraints]
    new = [np.append(row / model.discount, -ends) for row in rewards]
    bounds = [*map(tuple, model.limits.bounds), *[(0.0, np.inf)] * len(new)]
    return CMDP(
        entries,
        np.append(np.zeros(rows.choices), ends),
        np.array([*old, *new]),
        bounds,
        model.states,
        model.discount,
        first_choice=np.append(rows.first_choice, rows.choices + 2),
    )
