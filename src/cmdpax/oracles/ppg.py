"""PPG, projected policy gradient: `pi+ = Proj_simplex[pi + eta nu Q]`; the gradient proper, weighted by the occupancy nu."""

from collections.abc import Callable

import numpy as np

from cmdpax.policies.tabular import project_simplex


def step(policy: np.ndarray, quality: np.ndarray, size: np.ndarray, occupancy: Callable[[], np.ndarray]) -> np.ndarray:
    """Policy `[..., S, A]`, Q of the pseudo-reward `[..., S, A]`, step size `[..., 1, 1]`, nu `[..., S]` -> `[..., S, A]`."""
    return project_simplex(policy + size * occupancy()[..., None] * quality)
