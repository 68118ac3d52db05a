"""Log-linear policies: `pi_theta(a|s) ~ exp(phi(s,a).theta)`, with features phi `[S, A, d]`.

Only differences between the actions of a state matter, so a class of policies is smaller than its
features look. `Features` keeps it in its own coordinates, once and for all:
- states with the same (centred) features are one group: tile coding is state aggregation, n groups
  instead of S states;
- the centred features have rank r, the dimension of the class. With V `[d, r]` an orthonormal basis
  of their row space, `theta = V x` reaches every policy. Gradients lie in that space, hence
  gradient steps on x and on theta, minimum-norm solutions in x and in theta, are the same: nothing
  is changed but the size of the arrays.

Parameters are therefore coordinates `x [..., r]`; `parameters(x)` gives theta `[..., d]`. A weight
on states, `[..., S]`, or a mass on pairs, `[..., S, A]`, is summed over groups by `gather`, which
is exact because policies do not differ within one.
"""

from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.solvers.tabular import log_softmax, softmax

ROUND = 12  # digits, relative to the largest feature, to which features of one group agree
RANK = 1e-10  # singular values below this share of the largest are rounding


class Features:
    """Features `[S, A, d]` and the log-linear policies that they span.

    `groups [S]` is each state's group, `design [n, A, r]` the features of a group in the class's
    own coordinates, centred over actions.
    """

    def __init__(self, table: Any) -> None:
        array = np.asarray(table)
        if array.ndim != 3 or array.dtype.kind not in "biuf" or 0 in array.shape:
            raise InputError(
                f"features: the array has shape {array.shape}; give numbers as [states, actions,"
                " dimension]."
            )
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            s, a, j = np.argwhere(~np.isfinite(array))[0]
            raise InputError(
                f"features[{s}, {a}, {j}] is {array[s, a, j]}; every feature must be a finite"
                " number."
            )
        if not array.any():
            raise InputError(
                "features: all are 0, so that every policy is uniform; give some that tell actions"
                " apart."
            )
        self.table = array
        self.states, self.actions, self.dimension = array.shape
        centred = array - array.mean(1, keepdims=True)
        rounded = np.round(centred.reshape(self.states, -1) / np.abs(array).max(), ROUND)
        _, first, self.groups = np.unique(rounded, axis=0, return_index=True, return_inverse=True)
        rows = centred[first].reshape(-1, self.dimension)
        _, singular, basis = np.linalg.svd(rows, full_matrices=False)
        if not singular[0] > RANK * np.abs(array).max():
            raise InputError(
                "features: those of a state are the same for all its actions; let them depend on"
                " the action."
            )
        self.basis = basis[singular > RANK * singular[0]].T  # [d, r]
        self.design = (rows @ self.basis).reshape(-1, self.actions, self.rank)
        self._members = np.zeros(
            (len(self.design), self.states)
        )  # [n, S], 1 where a state belongs to a group
        self._members[self.groups, np.arange(self.states)] = 1.0

    @property
    def rank(self) -> int:
        """Dimension r of the class of policies."""
        return self.basis.shape[1]

    def check(self, states: int, actions: int) -> None:
        """Refuse features of another model."""
        if (self.states, self.actions) != (states, actions):
            raise InputError(
                f"features: the shape {self.table.shape} does not fit a model of {states} states"
                f" and {actions} actions; give [{states}, {actions}, dimension]."
            )

    def parameters(self, x: np.ndarray) -> np.ndarray:
        """Coordinates `[..., r]` -> theta `[..., d]`."""
        return x @ self.basis.T

    def coordinates(self, theta: np.ndarray) -> np.ndarray:
        """Theta `[..., d]` -> coordinates `[..., r]` of the same policy."""
        return theta @ self.basis

    def logits(self, x: np.ndarray) -> np.ndarray:
        """`phi.theta` of every group, up to a constant: coordinates `[..., r]` -> `[..., n, A]`."""
        n, A, r = self.design.shape
        return (x @ self.design.reshape(n * A, r).T).reshape(*x.shape[:-1], n, A)

    def probabilities(self, x: np.ndarray) -> np.ndarray:
        """Policies `[..., S, A]` of coordinates `[..., r]`."""
        return self.spread(softmax(self.logits(x)))

    def log_probabilities(self, x: np.ndarray) -> np.ndarray:
        """Their logarithms, `[..., S, A]`, finite even where a probability is rounded to 0."""
        return self.spread(log_softmax(self.logits(x)))

    def spread(self, grouped: np.ndarray) -> np.ndarray:
        """What holds for each group, `[..., n, A]`, for each state, `[..., S, A]`."""
        return grouped[..., self.groups, :]

    def gather(self, mass: np.ndarray) -> np.ndarray:
        """Sums over the states of each group: pairs `[..., S, A]` -> `[..., n, A]`."""
        return self._members @ mass

    def gather_states(self, weight: np.ndarray) -> np.ndarray:
        """Sums over the states of each group: `[..., S]` -> `[..., n]`."""
        return weight @ self._members.T

    def pull(self, mass: np.ndarray) -> np.ndarray:
        """`sum_{g,a} mass(g,a) phi(g,a)`: `[..., n, A]` -> `[..., r]`; the transpose of `logits`
        (rows of the mass sum to 0).
        """
        n, A, r = self.design.shape
        return mass.reshape(*mass.shape[:-2], n * A) @ self.design.reshape(n * A, r)

    def covariance(self, weight: np.ndarray, policy: np.ndarray) -> np.ndarray:
        """`sum_g weight(g) Cov_{a ~ policy(g)}[phi(g,a)]`: weight `[..., n]`, policy `[..., n, A]`
        -> `[..., r, r]`.

        The Fisher information of the policy, and the curvature of every cross-entropy to it.
        """
        n, A, r = self.design.shape
        centred = self.design - np.einsum("...ga,gar->...gr", policy, self.design)[..., None, :]
        scaled = (centred * np.sqrt(weight[..., None] * policy)[..., None]).reshape(
            *weight.shape[:-1], n * A, r
        )
        return np.swapaxes(scaled, -1, -2) @ scaled


def one_hot(states: int, actions: int) -> np.ndarray:
    """Features `[S, A, S*A]` that reach every policy: the log-linear form of the tabular class."""
    return np.eye(states * actions).reshape(states, actions, states * actions)
