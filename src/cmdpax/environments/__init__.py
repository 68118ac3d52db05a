"""Finite environments, all exact models. `finite` maps a command-line name to its builder."""

from collections.abc import Callable, Mapping

from cmdpax.environments.families import garnet, inventory, queue
from cmdpax.environments.grids import cliff_world, deep_sea, grid_world
from cmdpax.model.cmdp import CMDP

finite: Mapping[str, Callable[..., CMDP]] = {
    "cliff-world": cliff_world,
    "deep-sea": deep_sea,
    "garnet": garnet,
    "grid-world": grid_world,
    "inventory": inventory,
    "queue": queue,
}

__all__ = ["cliff_world", "deep_sea", "finite", "garnet", "grid_world", "inventory", "queue"]
