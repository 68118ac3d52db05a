"""Values and occupancies of a policy, exact to rounding.

With `P_pi [S, S]` the transitions under a policy, `V = (I - gamma P_pi)^-1 r_pi` (forward solve)
and the occupancy `nu = rho (I - gamma P_pi)^-1` (transpose solve; sums to 1/(1-gamma)). Then
`V(rho) = rho.V = nu.r_pi` and `Q(s,a) = r(s,a) + gamma sum_s' P(s'|s,a) V(s')`.

Small models use dense LAPACK and take a leading batch axis of policies, so that a whole grid search
is one solve. Large ones use sparse linear algebra (`linear.py`), which checks every vector before
it is returned.

A policy is probabilities `[..., S, A]`, or integer actions `[S]` when it is deterministic.
"""

from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.systems import System
from cmdpax.lagrangian import scalarise
from cmdpax.loops.bellman import expected, policy_rows
from cmdpax.loops.rows import Rows
from cmdpax.model.cmdp import CMDP

FEW = 64  # states up to which batches are compiled; above, LAPACK's blocked factorisation is faster


@dataclass(frozen=True)
class Evaluation:
    """Everything an exact method needs to know about a policy. Shapes have the policy's batch shape
    in front.
    """

    values: np.ndarray  # [..., 1 + m, S]: V_r, then every V_c
    reward: np.ndarray  # [...]: V_r(rho)
    margins: np.ndarray  # [..., m]: V_c(rho) - b


def evaluate(model: CMDP, policy: np.ndarray) -> Evaluation:
    """V_r, all V_c and the margins of a policy `[..., S, A]`."""
    values = all_values(model, policy)
    at_start = values @ model.initial
    return Evaluation(values, at_start[..., 0], at_start[..., 1:] - model.thresholds)


def stacked_rewards(model: CMDP) -> np.ndarray:
    """Reward and constraint rewards as one array `[1 + m, S, A]`."""
    return np.concatenate([model.reward[None], model.constraints])


def pseudo_reward(model: CMDP, worth: np.ndarray) -> np.ndarray:
    """`r + sum_i w_i c_i`, for weights `[..., m]` -> `[..., S, A]`."""
    flat = scalarise(
        model.reward.ravel(),
        model.constraints.reshape(model.constraint_count, model.reward.size),
        worth,
    )
    return flat.reshape(*worth.shape[:-1], model.states, model.actions)


def transition_matrix(model: CMDP, policy: np.ndarray) -> np.ndarray | Rows:
    """`P_pi`: dense `[..., S, S]` for small models, sparse `[S, S]` for large ones."""
    if not model.is_small:
        if policy.ndim > 2:
            raise InputError(
                f"policy: batches need a small model; this one has {model.states} states."
            )
        return policy_rows(model.successors, model.probabilities, policy)
    if policy.ndim == 1:
        return model.tensor[np.arange(model.states), policy]
    by_state = np.moveaxis(
        policy.reshape(-1, model.states, model.actions), 1, 0
    )  # [S, batch, A]: one product per state
    return np.moveaxis(by_state @ model.tensor, 0, 1).reshape(*policy.shape[:-1], model.states)


def _loops(model: CMDP, policy: np.ndarray) -> ModuleType | None:
    """The compiled loops for batches on small models; None for a single policy, which is not worth
    loading numba for.
    """
    return _small() if policy.ndim > 2 and model.is_small and model.states <= FEW else None


@cache
def _small() -> ModuleType | None:
    try:
        from cmdpax.loops import small
    except ImportError:  # no numba: LAPACK gives the same numbers
        return None
    return small


def _flat(policy: np.ndarray) -> np.ndarray:
    """A batch of policies `[..., S, A]` with one batch axis."""
    return policy.reshape(-1, *policy.shape[-2:])


def under_policy(rewards: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Expected one-step rewards: rewards `[..., S, A]` and a policy -> `[..., S]`."""
    if policy.ndim == 1:
        return rewards[..., np.arange(len(policy)), policy]
    return (rewards * policy).sum(-1)


def state_values(
    model: CMDP,
    policy: np.ndarray,
    rewards: np.ndarray,
    tolerance: float = 0.0,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """Values of k rewards `[k, S, A]` (or one, `[S, A]`) under a policy -> `[..., k, S]` (or `[...,
    S]`).

    Large models: accurate to `tolerance * max |r| / (1 - gamma)`, from a `guess` in the shape of
    the result.
    """
    single = rewards.ndim == 2
    stacked = rewards[None] if single else rewards
    if (loops := _loops(model, policy)) is not None:
        own = stacked.reshape(-1, *stacked.shape[-3:])
        found = loops.values(
            model.successors, model.probabilities, model.discount, _flat(policy), own
        )
        values = found.reshape(*policy.shape[:-2], *found.shape[1:])
        return values[..., 0, :] if single else values
    guess = guess[None] if single and guess is not None else guess
    spread = policy if policy.ndim == 1 else policy[..., None, :, :]
    right = under_policy(stacked, spread)
    values = solve_linear(
        transition_matrix(model, policy), model.discount, right, tolerance=tolerance, guess=guess
    )
    return values[..., 0, :] if single else values


def all_values(model: CMDP, policy: np.ndarray) -> np.ndarray:
    """Values of the reward and of every constraint reward, `[..., 1 + m, S]`."""
    if model.is_small:
        return state_values(model, policy, stacked_rewards(model))
    # one by one: at 1e6 states a stacked copy of all rewards is the largest array of all
    right = np.stack([under_policy(row, policy) for row in (model.reward, *model.constraints)])
    return solve_linear(transition_matrix(model, policy), model.discount, right)


def occupancy(
    model: CMDP, policy: np.ndarray, tolerance: float = 0.0, guess: np.ndarray | None = None
) -> np.ndarray:
    """Unnormalised discounted state occupancy `nu` of a policy -> `[..., S]`, summing to
    1/(1-gamma).

    Large models: accurate to `tolerance / (1 - gamma)` in the 1-norm, from a `guess [S]`.
    """
    if (loops := _loops(model, policy)) is not None:
        found = loops.occupancies(
            model.successors, model.probabilities, model.discount, _flat(policy), model.initial
        )
        return np.maximum(found, 0.0).reshape(policy.shape[:-1])
    matrix = transition_matrix(model, policy)
    right = np.broadcast_to(model.initial, (*policy.shape[:-2], 1, model.states))
    start = None if guess is None else guess[None]
    return np.maximum(
        solve_linear(matrix, model.discount, right, True, tolerance, start)[..., 0, :], 0.0
    )


def share(model: CMDP, policy: np.ndarray) -> np.ndarray:
    """`(1 - gamma) nu`: the share of all discounted visits that each state has -> `[..., S]`."""
    return (1 - model.discount) * occupancy(model, policy)


def action_values(model: CMDP, reward: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`Q = r + gamma P V` for a reward `[..., S, A]` and values `[..., S]` -> `[..., S, A]`."""
    return reward + model.discount * expected_next(model, values)


def expected_next(model: CMDP, values: np.ndarray) -> np.ndarray:
    """`E[V(s') | s, a]` for values `[..., S]` -> `[..., S, A]`."""
    rows = values.reshape(-1, model.states)
    if model.is_small:
        flat = (model.matrix @ rows.T).T
    else:
        flat = np.stack([expected(model.successors, model.probabilities, row) for row in rows])
    return flat.reshape(*values.shape[:-1], model.states, model.actions)


def solve_linear(
    matrix: np.ndarray | Rows,
    discount: float,
    right: np.ndarray,
    transpose: bool = False,
    tolerance: float = 0.0,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """Solve `(I - discount P) x = right` (or with P transposed) for k right-hand sides `[..., k,
    S]`.

    Sparse systems stop at a residual of `tolerance` relative to the right-hand side (0: rounding)
    and start from `guess [k, S]`.
    """
    if isinstance(matrix, np.ndarray):
        system = np.eye(matrix.shape[-1]) - discount * matrix
        if transpose:
            system = np.swapaxes(system, -1, -2)
        return np.swapaxes(np.linalg.solve(system, np.swapaxes(right, -1, -2)), -1, -2)
    sparse = System(matrix, discount, transpose)
    guesses = [None] * len(right) if guess is None else guess
    return np.stack(
        [
            sparse.solve(side, tolerance * sparse.size(side), start)
            for side, start in zip(right, guesses, strict=True)
        ]
    )
