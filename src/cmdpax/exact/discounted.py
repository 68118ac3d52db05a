"""Values, visits and bounds when the future is discounted.

With `P_pi [S, S]` the transitions under a policy, `V = (I - gamma P_pi)^-1 x_pi` (forward solve)
and the occupancy `nu = rho (I - gamma P_pi)^-1` (transpose solve; sums to 1/(1-gamma)). Then
`V(rho) = rho.V = nu.x_pi` and `Q(s,a) = x(s,a) + gamma sum_s' P(s'|s,a) V(s')`.

Bounds come from ANY vector V, whatever made it. With d = T_pi V - V, or d = T V - V for the
optimality operator T, over the states that can be reached,

    rho.V + min d / (1-gamma)  <=  V^pi(rho)  <=  rho.V + max d / (1-gamma),
    max_pi V^pi(rho)  <=  rho.TV + gamma/(1-gamma) max d.

Every bound is widened by what rounding in its own computation can amount to, so it holds for the
real numbers, not only for the floating-point ones.

Small models use dense LAPACK and take a leading batch axis of policies, so that a whole grid search
is one solve. Large ones use sparse linear algebra (`systems.py`), which checks every vector before
it is returned. A policy is probabilities `[..., S, A]`, or integer actions `[S]`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.exact.planning import plan, under_policy
from cmdpax.exact.systems import System
from cmdpax.loops import bellman
from cmdpax.loops.systems import Rows, batch_occupancies, batch_values

if TYPE_CHECKING:
    from cmdpax.exact.standard import StandardForm

MAX_BATCHED_STATES = 64  # up to here batches are compiled; above, LAPACK's blocks are faster
UNIT_ROUNDING = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Discounted:
    """`V_x(pi) = E sum_t gamma^t x(s_t, a_t)`, gamma = `discount` in [0, 1)."""

    discount: float

    @property
    def mass(self) -> float:
        """`1 / (1 - gamma)`: total visits of every policy."""
        return 1 / (1 - self.discount)

    @property
    def unit(self) -> float:
        """`1 - gamma`: what one visit counts as a share."""
        return 1 - self.discount

    def scale(self, form: "StandardForm", reward: np.ndarray) -> tuple[float, float]:
        """`min x` and `span(x) / (1 - gamma)` over reachable pairs (span 1 if it is zero)."""
        seen = reward[form.reachable]
        width = float(np.ptp(seen)) if seen.size else 0.0
        return float(seen.min(initial=np.inf)), (width if width > 0 else 1.0) / self.unit

    def values(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        rewards: np.ndarray | Sequence[np.ndarray],
        *,
        tolerance: float = 0.0,
        guess: np.ndarray | None = None,
    ) -> np.ndarray:
        """Values of k rewards `[k, S, A]` (or one, `[S, A]`) -> `[..., k, S]` (or `[..., S]`).

        A sequence of k arrays `[S, A]` is not stacked: at 1e6 states the copy would be the largest
        array of all. Large models: accurate to `tolerance * max |x| / (1 - gamma)`, from a `guess`
        in the shape of the result.
        """
        if not isinstance(rewards, np.ndarray):
            right = np.stack([under_policy(row, policy) for row in rewards])
            return self._solve(form, policy, right, tolerance=tolerance, guess=guess)
        is_single = rewards.ndim == 2
        stacked = rewards[None] if is_single else rewards
        if _is_batch(form, policy):
            own = stacked.reshape(-1, *stacked.shape[-3:])
            rows = (form.transitions.successors, form.transitions.probabilities)
            flat = batch_values(*rows, self.discount, _flat(policy), own)
            values = flat.reshape(*policy.shape[:-2], *flat.shape[1:])
        else:
            guess = guess[None] if is_single and guess is not None else guess
            acting = policy if policy.ndim == 1 else policy[..., None, :, :]
            right = under_policy(stacked, acting)
            values = self._solve(form, policy, right, tolerance=tolerance, guess=guess)
        return values[..., 0, :] if is_single else values

    def action_values(
        self, form: "StandardForm", reward: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """`Q = x + gamma P V` of a reward `[..., S, A]` and values `[..., S]` -> `[..., S, A]`."""
        rows = values.reshape(-1, form.states)
        if form.is_small:
            flat = (form.transitions.matrix @ rows.T).T
        else:
            arrays = (form.transitions.successors, form.transitions.probabilities)
            flat = np.stack([bellman.expected(*arrays, row) for row in rows])
        next_values = flat.reshape(*values.shape[:-1], form.states, form.actions)
        return reward + self.discount * next_values

    def visits(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        *,
        tolerance: float = 0.0,
        guess: np.ndarray | None = None,
    ) -> np.ndarray:
        """Occupancy `nu [..., S]`, summing to 1/(1-gamma).

        Large models: accurate to `tolerance / (1 - gamma)` in the 1-norm, from a `guess [S]`.
        """
        if _is_batch(form, policy):
            rows = (form.transitions.successors, form.transitions.probabilities)
            flat = batch_occupancies(*rows, self.discount, _flat(policy), form.initial)
            return np.maximum(flat, 0.0).reshape(policy.shape[:-1])
        right = np.broadcast_to(form.initial, (*policy.shape[:-2], 1, form.states))
        guess = None if guess is None else guess[None]
        solved = self._solve(form, policy, right, True, tolerance, guess)
        return np.maximum(solved[..., 0, :], 0.0)

    def share(self, form: "StandardForm", policy: np.ndarray) -> np.ndarray:
        """`(1 - gamma) nu [..., S]`, which sums to 1."""
        return self.unit * self.visits(form, policy)

    def flow(self, form: "StandardForm") -> sp.csr_array:
        """Net outflow of pairs `[S, S*A]`: `flow @ mu = rho` for every occupancy mu of pairs."""
        S, A = form.states, form.actions
        pairs = np.arange(S * A + 1)
        outflow = sp.csr_array(
            (np.ones(S * A), np.repeat(np.arange(S), A), pairs), shape=(S * A, S)
        )
        return (outflow - self.discount * form.transitions.matrix).T

    def smoothness(self, form: "StandardForm") -> tuple[float, float]:
        """What a value of span 1 is smooth to as a function of a table, and its squared slope.

        `2 gamma A / (1-gamma)^3` and at most `A / (1-gamma)^4`.
        """
        A = form.actions
        return 2 * self.discount * A * self.mass**3, A * self.mass**4

    plan = plan  # the best policy for one reward

    def potentials(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        rewards: Sequence[np.ndarray],
        accuracy: float = 0.0,
    ) -> np.ndarray:
        """Values of k rewards `[S, A]` under a policy, each less the middle of its range, `[k, S]`.

        A bound does not change when a constant is added to V, but its rounding grows with |V|. So V
        is centred. States that are never reached are cut to the range of those that are: large
        numbers there would only add their rounding. Large models: `accuracy` is relative to the
        range.
        """
        right = np.stack([under_policy(reward, policy) for reward in rewards])
        low, high = _range(form, right)
        right = right.clip(low, high) - (low / 2 + high / 2)
        values = self._solve(form, policy, right, tolerance=accuracy)
        low, high = _range(form, values)
        return values - (low / 2 + high / 2)

    def value_bounds(
        self, form: "StandardForm", policy: np.ndarray, reward: np.ndarray, potential: np.ndarray
    ) -> tuple[float, float]:
        """Bounds on a policy's value of one reward `[S, A]`, from any potential `[S]`."""
        backed_up = under_policy(self.action_values(form, reward, potential), policy)
        residual = (backed_up - potential)[form.reachable]
        centre, slack = float(potential @ form.initial), self._rounding(form, reward, potential)
        low, high = float(residual.min()) * self.mass, float(residual.max()) * self.mass
        return centre + low - slack, centre + high + slack

    def optimum_bound(
        self, form: "StandardForm", reward: np.ndarray, potential: np.ndarray
    ) -> float:
        """Upper bound on the best value of one reward `[S, A]`, from any potential `[S]`."""
        backed_up = self.action_values(form, reward, potential).max(1)
        excess = float((backed_up - potential)[form.reachable].max())
        future = self.discount / self.unit * excess
        slack = self._rounding(form, reward, potential)
        return float(form.initial @ backed_up) + future + slack

    def _rounding(self, form: "StandardForm", reward: np.ndarray, potential: np.ndarray) -> float:
        """What rounding in one backup (sums of B + 2 terms) can do to a bound."""
        terms = form.transitions.successors.shape[2] + form.actions + 4
        size = np.abs(potential[form.reachable]).max()
        sizes = np.abs(reward[form.reachable]).max() + 2 * size
        in_backup = float(2 * terms * UNIT_ROUNDING * sizes / self.unit)
        return in_backup + float(UNIT_ROUNDING * form.states * size)

    def _solve(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        right: np.ndarray,
        transpose: bool = False,
        tolerance: float = 0.0,
        guess: np.ndarray | None = None,
    ) -> np.ndarray:
        """Solve `(I - gamma P_pi) x = right` (or with P transposed) for k sides `[..., k, S]`.

        Sparse systems stop at a residual of `tolerance` relative to the right-hand side (0:
        rounding) and start from `guess [k, S]`.
        """
        matrix = transition_matrix(form, policy)
        if isinstance(matrix, np.ndarray):
            system = np.eye(matrix.shape[-1]) - self.discount * matrix
            if transpose:
                system = np.swapaxes(system, -1, -2)
            return np.swapaxes(np.linalg.solve(system, np.swapaxes(right, -1, -2)), -1, -2)
        sparse = System(matrix, self.discount, transpose)
        guesses = [None] * len(right) if guess is None else guess
        sides = zip(right, guesses, strict=True)
        return np.stack([sparse.solve(b, tolerance * sparse.size(b), start) for b, start in sides])


def transition_matrix(form: "StandardForm", policy: np.ndarray) -> np.ndarray | Rows:
    """`P_pi`: dense `[..., S, S]` for small models, sparse `[S, S]` for large ones."""
    rows = form.transitions
    if not form.is_small:
        if policy.ndim > 2:
            raise InputError(
                f"policy: batches need a small model; this one has {form.states} states."
            )
        return bellman.policy_rows(rows.successors, rows.probabilities, policy)
    if policy.ndim == 1:
        return rows.tensor[np.arange(form.states), policy]
    # [S, batch, A]: one product per state
    by_state = np.moveaxis(policy.reshape(-1, form.states, form.actions), 1, 0)
    return np.moveaxis(by_state @ rows.tensor, 0, 1).reshape(*policy.shape[:-1], form.states)


def _is_batch(form: "StandardForm", policy: np.ndarray) -> bool:
    """Whether compiled loops do a batch of policies; one policy is not worth compiling them for."""
    return policy.ndim > 2 and form.is_small and form.states <= MAX_BATCHED_STATES


def _flat(policy: np.ndarray) -> np.ndarray:
    """A batch of policies `[..., S, A]` with one batch axis."""
    return policy.reshape(-1, *policy.shape[-2:])


def _range(form: "StandardForm", rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each row `[k, S]` over reachable states, `[k, 1]` each."""
    seen = rows[:, form.reachable]
    return seen.min(1, keepdims=True), seen.max(1, keepdims=True)
