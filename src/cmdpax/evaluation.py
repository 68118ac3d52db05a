"""Values and occupancies of a policy, exact to rounding.

With `P_pi [S, S]` the transitions under a policy, `V = (I - gamma P_pi)^-1 r_pi` (forward solve) and the occupancy
`nu = rho (I - gamma P_pi)^-1` (transpose solve; sums to 1/(1-gamma)). Then `V(rho) = rho.V = nu.r_pi` and
`Q(s,a) = r(s,a) + gamma sum_s' P(s'|s,a) V(s')`.

Small models use dense LAPACK and take a leading batch axis of policies, so that a whole grid search is one solve. Large ones
use sparse linear algebra: a Krylov method whose true residual is checked, then sparse LU. No unchecked vector is returned.

A policy is probabilities `[..., S, A]`, or integer actions `[S]` when it is deterministic.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import scipy.sparse.linalg as spla

from cmdpax import small
from cmdpax.errors import InputError, NumericalError
from cmdpax.lagrangian import scalarise
from cmdpax.model import CMDP

RESIDUAL = 1e-13  # true residual of a believed solution, relative to horizon * right-hand side: the terms that cancel in it
BICGSTAB_ITERATIONS = 200
GMRES_VECTORS, GMRES_CYCLES = 40, 5


@dataclass(frozen=True)
class Evaluation:
    """Everything an exact method needs to know about a policy. Shapes have the policy's batch shape in front."""

    values: np.ndarray  # [..., 1 + m, S]: V_r, then every V_c
    reward: np.ndarray  # [...]: V_r(rho)
    margins: np.ndarray  # [..., m]: V_c(rho) - b


def evaluate(model: CMDP, policy: np.ndarray) -> Evaluation:
    """V_r, all V_c and the margins of a policy `[..., S, A]`."""
    values = state_values(model, policy, stacked_rewards(model))
    at_start = values @ model.initial
    return Evaluation(values, at_start[..., 0], at_start[..., 1:] - model.thresholds)


def stacked_rewards(model: CMDP) -> np.ndarray:
    """Reward and constraint rewards as one array `[1 + m, S, A]`."""
    return np.concatenate([model.reward[None], model.constraints])


def pseudo_reward(model: CMDP, worth: np.ndarray) -> np.ndarray:
    """`r + sum_i w_i c_i`, for weights `[..., m]` -> `[..., S, A]`."""
    flat = scalarise(model.reward.ravel(), model.constraints.reshape(model.constraint_count, model.reward.size), worth)
    return flat.reshape(*worth.shape[:-1], model.states, model.actions)


def transition_matrix(model: CMDP, policy: np.ndarray) -> np.ndarray | sp.csr_array:
    """`P_pi`: dense `[..., S, S]` for small models, sparse `[S, S]` for large ones."""
    if policy.ndim == 1:
        if model.is_small:
            return model.tensor[np.arange(model.states), policy]
        return model.matrix[np.arange(model.states) * model.actions + policy]
    if model.is_small:
        by_state = np.moveaxis(policy.reshape(-1, model.states, model.actions), 1, 0)  # [S, batch, A]: one product per state
        return np.moveaxis(by_state @ model.tensor, 0, 1).reshape(*policy.shape[:-1], model.states)
    if policy.ndim > 2:
        raise InputError(f"policy: batches need a small model; this one has {model.states} states.")
    S, A = policy.shape
    chosen = policy.ravel() > 0
    pointers = np.append(0, np.cumsum(chosen.reshape(S, A).sum(1)))
    choose = sp.csr_array((policy.ravel()[chosen], np.nonzero(chosen)[0], pointers), shape=(S, S * A))
    return sp.csr_array(choose @ model.matrix)


def _is_compiled(model: CMDP, policy: np.ndarray) -> bool:
    """Whether the compiled loop over policies is the fastest way."""
    return small.COMPILED and policy.ndim > 1 and model.states <= small.STATES


def _flat(policy: np.ndarray) -> np.ndarray:
    """A batch of policies `[..., S, A]` with one batch axis."""
    return policy.reshape(-1, *policy.shape[-2:])


def under_policy(rewards: np.ndarray, policy: np.ndarray) -> np.ndarray:
    """Expected one-step rewards: rewards `[..., S, A]` and a policy -> `[..., S]`."""
    if policy.ndim == 1:
        return np.take_along_axis(rewards, np.broadcast_to(policy[:, None], (*rewards.shape[:-1], 1)), axis=-1)[..., 0]
    return (rewards * policy).sum(-1)


def state_values(model: CMDP, policy: np.ndarray, rewards: np.ndarray) -> np.ndarray:
    """Values of k rewards `[k, S, A]` (or one, `[S, A]`) under a policy -> `[..., k, S]` (or `[..., S]`)."""
    single = rewards.ndim == 2
    stacked = rewards[None] if single else rewards
    if _is_compiled(model, policy):
        own = stacked.reshape(-1, *stacked.shape[-3:]) if stacked.ndim > 3 else stacked
        found = small.values(model.successors, model.probabilities, model.discount, _flat(policy), own)
        values = found.reshape(*policy.shape[:-2], *found.shape[1:])
        return values[..., 0, :] if single else values
    spread = policy if policy.ndim == 1 else policy[..., None, :, :]
    right = under_policy(stacked, spread)
    values = solve_linear(transition_matrix(model, policy), model.discount, right)
    return values[..., 0, :] if single else values


def occupancy(model: CMDP, policy: np.ndarray) -> np.ndarray:
    """Unnormalised discounted state occupancy `nu` of a policy -> `[..., S]`, summing to 1/(1-gamma)."""
    if _is_compiled(model, policy):
        found = small.occupancies(model.successors, model.probabilities, model.discount, _flat(policy), model.initial)
        return np.maximum(found, 0.0).reshape(policy.shape[:-1])
    matrix = transition_matrix(model, policy)
    batch = matrix.shape[:-2]
    right = np.broadcast_to(model.initial, (*batch, 1, model.states))
    return np.maximum(solve_linear(matrix, model.discount, right, transpose=True)[..., 0, :], 0.0)


def action_values(model: CMDP, reward: np.ndarray, values: np.ndarray) -> np.ndarray:
    """`Q = r + gamma P V` for a reward `[..., S, A]` and values `[..., S]` -> `[..., S, A]`."""
    return reward + model.discount * expected_next(model, values)


def expected_next(model: CMDP, values: np.ndarray) -> np.ndarray:
    """`E[V(s') | s, a]` for values `[..., S]` -> `[..., S, A]`."""
    flat = (model.matrix @ values.reshape(-1, model.states).T).T
    return flat.reshape(*values.shape[:-1], model.states, model.actions)


def solve_linear(matrix: np.ndarray | sp.csr_array, discount: float, right: np.ndarray, transpose: bool = False) -> np.ndarray:
    """Solve `(I - discount P) x = right` (or with P transposed) for k right-hand sides `[..., k, S]`."""
    if isinstance(matrix, np.ndarray):
        system = np.eye(matrix.shape[-1]) - discount * matrix
        if transpose:
            system = np.swapaxes(system, -1, -2)
        return np.swapaxes(np.linalg.solve(system, np.swapaxes(right, -1, -2)), -1, -2)
    system = sp.csr_array(sp.eye_array(matrix.shape[0], format="csr") - discount * (matrix.T if transpose else matrix))
    # what matters is the error of V(rho): it is bounded by the largest residual of V, and by the sum of those of nu
    order = 1 if transpose else np.inf
    return np.stack([_guarded_solve(system, side, 1 / (1 - discount), order) for side in right])


def _guarded_solve(system: sp.csr_array, right: np.ndarray, horizon: float, order: float) -> np.ndarray:
    """Krylov methods, each believed only if its true residual is small; otherwise sparse LU with one step of refinement.

    BiCGStab is cheap but breaks down silently on structured models (a uniform start is orthogonal to everything that
    follows); restarted GMRES is dearer and sturdier.
    """
    allowed = RESIDUAL * horizon * float(np.linalg.norm(right, order))
    if allowed == 0.0:
        return np.zeros_like(right)
    krylov_target = allowed / (2 * np.sqrt(len(right))) if order == 1 else allowed / 2  # the same in its Euclidean norm
    for attempt in (
        lambda: spla.bicgstab(system, right, rtol=0.0, atol=krylov_target, maxiter=BICGSTAB_ITERATIONS),
        lambda: spla.gmres(system, right, rtol=0.0, atol=krylov_target, restart=GMRES_VECTORS, maxiter=GMRES_CYCLES),
    ):
        solution, _ = attempt()
        if _residual(system, solution, right, order) <= allowed:
            return solution
    factors = spla.splu(sp.csc_array(system))
    solution = factors.solve(right)
    solution = solution + factors.solve(right - system @ solution)
    if _residual(system, solution, right, order) <= 100 * allowed:
        return solution
    raise NumericalError("evaluation: the linear system could not be solved to rounding; the model is too ill-conditioned.")


def _residual(system: sp.csr_array, solution: np.ndarray, right: np.ndarray, order: float) -> float:
    """True residual; infinite where a broken-down iteration left numbers that are not finite."""
    size = float(np.linalg.norm(system @ solution - right, order))
    return size if np.isfinite(size) else np.inf
