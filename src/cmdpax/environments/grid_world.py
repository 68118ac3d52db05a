"""A grid world of any size with hazards: reach the goal in the far corner, keep the discounted
visits to hazards under a limit.

Moves succeed with probability `1 - slip`, otherwise the agent slides to one of the two sides. The
goal pays 1 and leads to an absorbing state. Built by array operations: 1e6 cells take seconds.
"""

import numpy as np

from cmdpax.environments.thresholds import with_threshold
from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP, Grid
from cmdpax.model.transitions import refuse_huge

MOVES = np.array([(0, -1), (0, 1), (-1, 0), (1, 0)])
SIDES = np.array([(2, 3), (2, 3), (0, 1), (0, 1)])
DRAWABLE = 2_500  # cells up to which a drawing makes sense


def grid_world(
    width: int = 20,
    height: int = 20,
    hazards: float = 0.2,
    slip: float = 0.1,
    discount: float = 0.99,
    seed: int = 0,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """Grid of `width * height` cells plus one absorbing state; one constraint, `hazard visits <=
    limit`.

    The limit lies between the visits of the safest policy and those of the fastest (`tightness` 1
    and 0); with `feasible=False` it lies below the safest. Start is uniform over the cells of the
    left column.
    """
    if min(width, height) < 2:
        raise InputError(f"grid world: {width} x {height} cells; both sides must be at least 2.")
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be at least 0.")
    if not (0 <= slip < 1 and 0 <= hazards < 1 and 0 <= tightness < 1):
        raise InputError("grid world: slip, hazards and tightness must be at least 0 and below 1.")
    refuse_huge((width * height, 4, 3))
    cells, end = width * height, width * height
    x, y = np.divmod(np.arange(cells), height)
    goal = cells - 1
    target = np.stack(
        [
            np.clip(x + dx, 0, width - 1) * height + np.clip(y + dy, 0, height - 1)
            for dx, dy in MOVES
        ],
        axis=1,
    ).astype(np.int32)
    successors = np.full((cells + 1, 4, 3), end, dtype=np.int32)
    successors[:cells, :, 0] = target
    successors[:cells, :, 1:] = target[:, SIDES]
    successors[goal] = end
    probabilities = np.broadcast_to([1 - slip, slip / 2, slip / 2], successors.shape).copy()
    is_hazard = np.random.default_rng(seed).random(cells) < hazards
    is_hazard[[0, goal]] = False
    reward, cost = np.zeros((cells + 1, 4)), np.zeros((1, cells + 1, 4))
    reward[goal] = 1.0
    cost[0, :cells] = is_hazard[:, None]
    initial = np.zeros(cells + 1)
    initial[:height] = 1 / height
    marked = tuple(int(s) for s in np.nonzero(is_hazard)[0])
    grid = Grid(
        (
            *zip(x.astype(float).tolist(), y.astype(float).tolist(), strict=True),
            (float(width), 0.0),
        ),
        tuple((float(dx), float(dy)) for dx, dy in MOVES),
        hazards=marked,
        goals=(goal,),
        absorbing=(end,),
    )
    model = CMDP(
        (successors, probabilities),
        reward,
        cost,
        [0.0],
        initial,
        discount,
        senses="<=",
        action_names=("down", "up", "left", "right"),
        constraint_names=("hazard visits",),
        grid=grid if cells <= DRAWABLE else None,
    )
    return with_threshold(model, tightness, feasible)
