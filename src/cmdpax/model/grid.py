"""How is a model drawn whose states are cells?"""

from dataclasses import dataclass

from cmdpax.errors import InputError


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cells, directions of actions, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states with nothing left to choose: no arrow is drawn there


def checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    """Drawing instructions that fit S states and A actions."""
    if grid is None:
        return None
    if not isinstance(grid, Grid):
        raise InputError("grid: it must be a cmdpax.Grid.")
    marked = grid.hazards + grid.goals + grid.absorbing
    cells, moves = len(grid.cells), len(grid.moves)
    if (cells, moves) != (S, A) or any(not 0 <= s < S for s in marked):
        own = f"{cells} cells and {moves} moves"
        raise InputError(f"grid: it describes {own}; the model has {S} and {A}.")
    return grid
