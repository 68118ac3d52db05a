"""SPMA, softmax policy mirror ascent: `pi+ = pi (1 + eta A)` with the advantage A, which sums to 1
by itself.

It stays >= 0 only while `eta <= 1 / max(-A)`, so the step size is clipped to that. An action whose
probability is only rounding has no say in it: a clipped step takes the worst action to 0 up to
rounding, and what is left would hold back every later step.
"""

import numpy as np

ROUNDING = 1e-14


def step(policy: np.ndarray, quality: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Policy `[..., S, A]`, Q of the pseudo-reward `[..., S, A]`, step size `[..., 1, 1]` -> target
    `[..., S, A]`.
    """
    advantage = quality - (policy * quality).sum(-1, keepdims=True)
    worst = np.where(policy > ROUNDING, -advantage, 0.0).max((-1, -2), keepdims=True)
    allowed = 1 / np.maximum(worst, np.finfo(float).tiny)
    target = np.maximum(policy * (1 + np.minimum(size, allowed) * advantage), 0)
    return target / target.sum(-1, keepdims=True)
