"""NPG, natural policy gradient (mirror ascent with KL): `pi+ ~ pi exp(eta Q)` in every state."""

import numpy as np

from cmdpax.solvers.tabular import softmax


def step(policy: np.ndarray, quality: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Policy `[..., S, A]`, Q of the pseudo-reward `[..., S, A]`, step size `[..., 1, 1]` -> target
    `[..., S, A]`.
    """
    with np.errstate(
        divide="ignore"
    ):  # log 0 = -inf keeps an action at probability 0, as the formula says
        return softmax(np.log(policy) + size * quality)
