"""Finite environments, all exact models. `finite` maps a command-line name to its builder."""

from collections.abc import Callable, Mapping

from cmdpax.environments.cliff_world import cliff_world
from cmdpax.environments.deep_sea import deep_sea
from cmdpax.environments.garnet import garnet
from cmdpax.environments.grid_world import grid_world
from cmdpax.environments.inventory import inventory
from cmdpax.environments.queue import queue
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
