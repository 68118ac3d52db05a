"""PQA, projected Q-ascent: `pi+ = Proj_simplex[pi + eta Q]` in every state (the paper's equation
for the tabular oracle).
"""

import numpy as np

from cmdpax.solvers.tabular import project_simplex


def step(policy: np.ndarray, quality: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Policy `[..., S, A]`, Q of the pseudo-reward `[..., S, A]`, step size `[..., 1, 1]` -> target
    `[..., S, A]`.
    """
    return project_simplex(policy + size * quality)
