"""Constrained Deep Sea Treasure: sink one row a step; the treasure lies to the right, past two
mines.

4S  9  14  19  24
3   8  13  18  23          state s = 5x + y, S = 25, A = 2, every start equally likely
2   7  12M 17  22          actions left, right (x clipped), y falls by one; the bottom row absorbs
1   6  11  16M 21          reward +1 for entering 20, otherwise -0.02 for going right
0   5  10  15  20$         constraint reward -2 for entering a mine (12, 16), which does not stop
you
"""

from collections.abc import Sequence

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.model.transitions import refuse_huge


def deep_sea(
    discount: float = 0.9,
    threshold: float = -0.1,
    mines: Sequence[int] = (12, 16),
    size: int = 5,
    mine_cost: float = 2.0,
) -> CMDP:
    """The paper's Deep Sea Treasure (S=25, A=2, m=1); `size` scales the square, `mines` are state
    indices.
    """
    if size < 2:
        raise InputError(f"size is {size}; the sea needs at least two columns.")
    refuse_huge((size * size, 2, 1))
    states, treasure = size * size, size * (size - 1)
    if any(not 0 <= mine < states for mine in mines):
        raise InputError(f"mines: {list(mines)} are not all states 0..{states - 1}.")
    successors = np.zeros((states, 2, 1), dtype=np.int32)
    reward, cost = np.zeros((states, 2)), np.zeros((1, states, 2))
    for s in range(states):
        x, y = divmod(s, size)
        if y == 0:
            successors[s] = s
            continue
        for a, dx in enumerate((-1, 1)):
            following = size * min(max(x + dx, 0), size - 1) + y - 1
            successors[s, a, 0] = following
            reward[s, a] = 1.0 if following == treasure else -0.02 * (dx > 0)
            cost[0, s, a] = -mine_cost if following in mines else 0.0
    return CMDP(
        (successors, np.ones_like(successors, dtype=np.float64)),
        reward,
        cost,
        [threshold],
        np.full(states, 1 / states),
        discount,
        state_names=[f"({s // size},{s % size})" for s in range(states)],
        action_names=("left", "right"),
        constraint_names=("mines",),
        grid=Grid(
            tuple((float(s // size), float(s % size)) for s in range(states)),
            ((-1.0, -1.0), (1.0, -1.0)),
            hazards=tuple(mines),
            goals=(treasure,),
            absorbing=tuple(range(0, states, size)),
        ),
    )
