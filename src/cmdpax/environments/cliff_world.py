"""Constrained Cliff World: walk to the goal; the shortest way leads through the chasm.

4G  9  14  19
3C  8  13  18          state s = 5x + y, S = 21, A = 4, every start equally likely
2C  7  12  17          actions down, up, left, right; off the grid = stay
1C  6  11  16          reward 1 in the goal, then the terminal state 20
0S  5  10  15          constraint reward -1 in the chasm (1, 2, 3)
"""

from typing import Literal

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP, Grid

MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))
CHASM, GOAL, TERMINAL, START = (1, 2, 3), 4, 20, 0


def cliff_world(
    discount: float = 0.9, threshold: float = -0.17, chasm: Literal["walk", "reset"] = "walk"
) -> CMDP:
    """The paper's Cliff World (S=21, A=4, m=1).

    `chasm="walk"`: chasm cells move like any other. `"reset"`: they lead back to the start, as in
    the textbook's unconstrained Cliff World (the paper's constraint is then inactive).
    """
    if chasm not in ("walk", "reset"):
        raise InputError(f"chasm: '{chasm}' is neither 'walk' nor 'reset'.")
    successors = np.zeros((21, 4, 1), dtype=np.int32)
    for x in range(4):
        for y in range(5):
            for a, (dx, dy) in enumerate(MOVES):
                to_x, to_y = x + dx, y + dy
                inside = 0 <= to_x < 4 and 0 <= to_y < 5
                successors[5 * x + y, a, 0] = 5 * to_x + to_y if inside else 5 * x + y
    if chasm == "reset":
        successors[list(CHASM)] = START
    successors[[GOAL, TERMINAL]] = TERMINAL
    reward, cost = np.zeros((21, 4)), np.zeros((1, 21, 4))
    reward[GOAL] = 1.0
    cost[0, list(CHASM)] = -1.0
    cells = (*((float(s // 5), float(s % 5)) for s in range(20)), (4.0, 0.0))
    return CMDP(
        (successors, np.ones_like(successors, dtype=np.float64)),
        reward,
        cost,
        [threshold],
        np.full(21, 1 / 21),
        discount,
        state_names=[*(f"({s // 5},{s % 5})" for s in range(20)), "terminal"],
        action_names=("down", "up", "left", "right"),
        constraint_names=("chasm",),
        grid=Grid(
            cells,
            tuple((float(x), float(y)) for x, y in MOVES),
            hazards=CHASM,
            goals=(GOAL,),
            absorbing=(TERMINAL,),
        ),
    )
