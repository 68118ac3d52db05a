"""PPG, projected policy gradient: `pi+ = Proj_simplex[pi + eta nu Q]`; the gradient proper,
weighted by the occupancy nu.
"""

import numpy as np

from cmdpax.solvers.tabular import project_simplex


def step(policy: np.ndarray, gradient: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Policy `[..., S, A]`, AL gradient `nu Q` `[..., S, A]`, step size `[..., 1, 1]` -> target
    `[..., S, A]`.
    """
    return project_simplex(policy + size * gradient)
