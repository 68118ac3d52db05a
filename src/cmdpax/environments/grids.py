"""Worlds of cells: the paper's Cliff World and Deep Sea, and a grid of any size with hazards."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from cmdpax.environments.families import check_tightness, with_threshold
from cmdpax.errors import InputError
from cmdpax.model.arguments import Grid
from cmdpax.model.cmdp import CMDP
from cmdpax.model.numbers import refuse_huge

MOVES = ((0, -1), (0, 1), (-1, 0), (1, 0))
MOVE_NAMES = ("down", "up", "left", "right")
SIDES = ((2, 3), (2, 3), (0, 1), (0, 1))  # where a move may slide to
DRAWABLE_CELLS = 2_500


def cliff_world(
    discount: float = 0.9, threshold: float = -0.17, chasm: Literal["walk", "reset"] = "walk"
) -> CMDP:
    """The paper's Constrained Cliff World: the shortest way to the goal leads through the chasm.

    ::

        4G  9  14  19
        3C  8  13  18       state s = 5x + y, S = 21, A = 4, every start equally likely
        2C  7  12  17       actions down, up, left, right; off the grid = stay
        1C  6  11  16       reward 1 in the goal, then the terminal state 20
        0S  5  10  15       constraint reward -1 in the chasm (1, 2, 3)

    `chasm="walk"`: chasm cells move like any other. `"reset"`: they lead back to the start, as in
    the textbook's unconstrained Cliff World (the paper's constraint is then inactive).
    """
    if chasm not in ("walk", "reset"):
        raise InputError(f"chasm: '{chasm}' is neither 'walk' nor 'reset'.")
    start, pit, goal, terminal = 0, (1, 2, 3), 4, 20
    successors = np.empty((21, 4, 1), dtype=np.int32)
    successors[:20, :, 0] = _neighbours(4, 5)
    if chasm == "reset":
        successors[list(pit)] = start
    successors[[goal, terminal]] = terminal
    reward, cost = np.zeros((21, 4)), np.zeros((1, 21, 4))
    reward[goal] = 1.0
    cost[0, list(pit)] = -1.0
    rows, initial = (successors, np.ones(successors.shape)), np.full(21, 1 / 21)
    cells = [*(f"({s // 5},{s % 5})" for s in range(20)), "terminal"]
    grid = _grid(4, 5, hazards=pit, goals=(goal,), absorbing=(terminal,))
    numbers = (rows, reward, cost, [threshold], initial, discount)
    return CMDP(
        *numbers, state_names=cells, action_names=MOVE_NAMES, constraint_names=["chasm"], grid=grid
    )


def deep_sea(
    discount: float = 0.9,
    threshold: float = -0.1,
    mines: Sequence[int] = (12, 16),
    size: int = 5,
    mine_cost: float = 2.0,
) -> CMDP:
    """The paper's Constrained Deep Sea Treasure: the treasure lies to the right, past two mines.

    ::

        4S  9  14  19  24
        3   8  13  18  23       state s = 5x + y, S = 25, A = 2, every start equally likely
        2   7  12M 17  22       actions left, right (x clipped), y falls by one; y = 0 absorbs
        1   6  11  16M 21       reward +1 for entering 20, otherwise -0.02 for going right
        0   5  10  15  20$      constraint reward -2 for entering a mine, which does not stop you

    `size` scales the square; `mines` are state indices.
    """
    if size < 2:
        raise InputError(f"size is {size}; the sea needs at least two columns.")
    refuse_huge((size * size, 2, 1))
    states, treasure = size * size, size * (size - 1)
    if any(not 0 <= mine < states for mine in mines):
        raise InputError(f"mines: {list(mines)} are not all states 0..{states - 1}.")
    x, y = np.divmod(np.arange(states)[:, None], size)
    entered = size * np.clip(x + np.array([-1, 1]), 0, size - 1) + y - 1  # [S, 2], above the bottom
    reward = np.where(entered == treasure, 1.0, -0.02 * np.arange(2))
    cost = np.where(np.isin(entered, mines), -mine_cost, 0.0)
    successors = np.where(y > 0, entered, np.arange(states)[:, None]).astype(np.int32)[:, :, None]
    cells, bottom = [divmod(s, size) for s in range(states)], tuple(range(0, states, size))
    places, falls = tuple((float(i), float(j)) for i, j in cells), ((-1.0, -1.0), (1.0, -1.0))
    return CMDP(
        (successors, np.ones(successors.shape)),
        np.where(y > 0, reward, 0.0),
        np.where(y > 0, cost, 0.0)[None],
        [threshold],
        np.full(states, 1 / states),
        discount,
        state_names=[f"({i},{j})" for i, j in cells],
        action_names=["left", "right"],
        constraint_names=["mines"],
        grid=Grid(places, falls, tuple(mines), (treasure,), bottom),
    )


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
    """A grid with hazards: reach the far corner, `hazard visits <= limit`.

    `width * height` cells `s = height x + y` and one absorbing state; 1e6 cells take seconds. Moves
    succeed with probability `1 - slip`, otherwise the agent slides to one of the two sides. The
    goal pays 1 and leads to the absorbing state. `hazards` is the share of hazardous cells. Start
    is uniform over the left column. The limit lies between the visits of the safest policy and
    those of the fastest (`tightness` 1 and 0); with `feasible=False` it lies below the safest.
    """
    if min(width, height) < 2:
        raise InputError(f"grid world: {width} x {height} cells; both sides must be at least 2.")
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be at least 0.")
    if not (0 <= slip < 1 and 0 <= hazards < 1):
        raise InputError("grid world: slip and hazards must be at least 0 and below 1.")
    check_tightness(tightness)
    refuse_huge((width * height, 4, 3))
    cells = end = width * height
    goal, target = cells - 1, _neighbours(width, height)
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
    initial = np.where(np.arange(cells + 1) < height, 1 / height, 0.0)
    grid = None
    if cells <= DRAWABLE_CELLS:
        marked = tuple(np.flatnonzero(is_hazard).tolist())
        grid = _grid(width, height, hazards=marked, goals=(goal,), absorbing=(end,))
    numbers = ((successors, probabilities), reward, cost, [0.0], initial, discount)
    visits = ["hazard visits"]
    model = CMDP(*numbers, senses="<=", action_names=MOVE_NAMES, constraint_names=visits, grid=grid)
    return with_threshold(model, tightness, feasible)


def _neighbours(width: int, height: int) -> np.ndarray:
    """Cells that the four moves lead to, `[cells, 4]` int32; off the grid = stay."""
    x, y = np.divmod(np.arange(width * height), height)
    dx, dy = np.array(MOVES).T[:, :, None]
    moved = np.clip(x + dx, 0, width - 1) * height + np.clip(y + dy, 0, height - 1)
    return moved.T.astype(np.int32)


def _grid(width: int, height: int, **marked: tuple[int, ...]) -> Grid:
    """Drawing instructions: the cells, the absorbing state beside them, and marked states."""
    cells = [(float(x), float(y)) for x in range(width) for y in range(height)]
    moves = tuple((float(dx), float(dy)) for dx, dy in MOVES)
    return Grid((*cells, (float(width), 0.0)), moves, **marked)
