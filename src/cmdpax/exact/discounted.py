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
it is returned. Rewards are by choice, `[..., K]`; a policy is probabilities `[..., K]`, or integer
choices `[S]`, one of its own for every state.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.exact.planning import plan
from cmdpax.exact.systems import Chain
from cmdpax.loops import bellman
from cmdpax.loops.rows import Matrix
from cmdpax.loops.systems import batch_occupancies, batch_values

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
        seen = reward[form.reachable_choices]
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
        """Values of k rewards `[k, K]` (or one, `[K]`) -> `[..., k, S]` (or `[..., S]`).

        A sequence of k arrays `[K]` is not stacked: at 1e6 states the copy would be the largest
        array of all. Large models: accurate to `tolerance * max |x| / (1 - gamma)`, from a `guess`
        in the shape of the result.
        """
        rows = form.transitions
        _check_policy(form, policy)
        if not isinstance(rewards, np.ndarray):
            right = np.stack([rows.under(policy, row) for row in rewards])
            return self._solve(form, policy, right, tolerance=tolerance, guess=guess)
        is_single = rewards.ndim == 1
        stacked = rewards[None] if is_single else rewards
        if _is_batch(form, policy):
            own = stacked.reshape(-1, *stacked.shape[-2:])
            flat = batch_values(rows.rows(0, form.states), self.discount, _flat(policy), own)
            values = flat.reshape(*policy.shape[:-1], *flat.shape[1:])
        else:
            guess = guess[None] if is_single and guess is not None else guess
            acting = policy if is_deterministic(policy) else policy[..., None, :]
            right = rows.under(acting, stacked)
            values = self._solve(form, policy, right, tolerance=tolerance, guess=guess)
        return values[..., 0, :] if is_single else values

    def action_values(
        self, form: "StandardForm", reward: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """`Q = x + gamma P V` of a reward `[..., K]` and values `[..., S]` -> `[..., K]`."""
        rows = values.reshape(-1, form.states)
        if form.is_small:
            flat = (form.transitions.matrix @ rows.T).T
        else:
            flat = np.stack([bellman.expected(form.transitions, row) for row in rows])
        return reward + self.discount * flat.reshape(*values.shape[:-1], form.choices)

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
        _check_policy(form, policy)
        if _is_batch(form, policy):
            rows = form.transitions.rows(0, form.states)
            flat = batch_occupancies(rows, self.discount, _flat(policy), form.initial)
            return np.maximum(flat, 0.0).reshape(*policy.shape[:-1], form.states)
        right = np.broadcast_to(form.initial, (*policy.shape[:-1], 1, form.states))
        guess = None if guess is None else guess[None]
        solved = self._solve(form, policy, right, True, tolerance, guess)
        return np.maximum(solved[..., 0, :], 0.0)

    def share(self, form: "StandardForm", policy: np.ndarray) -> np.ndarray:
        """`(1 - gamma) nu [..., S]`, which sums to 1."""
        return self.unit * self.visits(form, policy)

    def flow(self, form: "StandardForm") -> sp.csr_array:
        """Net outflow of choices `[S, K]`: `flow @ mu = rho` for every occupancy mu of choices."""
        rows = form.transitions
        each, owners = np.arange(rows.choices + 1), rows.state_of
        shape = rows.choices, rows.states
        outflow = sp.csr_array((np.ones(rows.choices), owners, each), shape=shape)
        return (outflow - self.discount * rows.matrix).T

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
        """Values of k rewards `[K]` under a policy, each less the middle of its range, `[k, S]`.

        A bound does not change when a constant is added to V, but its rounding grows with |V|. So V
        is centred. States that are never reached are cut to the range of those that are: large
        numbers there would only add their rounding. Large models: `accuracy` is relative to the
        range.
        """
        right = np.stack([form.transitions.under(policy, reward) for reward in rewards])
        low, high = _range(form, right)
        right = right.clip(low, high) - (low / 2 + high / 2)
        return self.centred(form, self._solve(form, policy, right, tolerance=accuracy))

    def centred(self, form: "StandardForm", values: np.ndarray) -> np.ndarray:
        """Values `[..., S]`, each less the middle of its range over reachable states."""
        seen = values[..., form.reachable]
        low, high = seen.min(-1, keepdims=True), seen.max(-1, keepdims=True)
        middle = low / 2 + high / 2
        return np.clip(values, low, high) - middle

    def value_bounds(
        self, form: "StandardForm", policy: np.ndarray, reward: np.ndarray, potential: np.ndarray
    ) -> tuple[float, float]:
        """Bounds on a policy's value of one reward `[K]`, from any potential `[S]`."""
        backed_up = form.transitions.under(policy, self.action_values(form, reward, potential))
        residual = (backed_up - potential)[form.reachable]
        centre, slack = float(potential @ form.initial), self._rounding(form, reward, potential)
        low, high = float(residual.min()) * self.mass, float(residual.max()) * self.mass
        return centre + low - slack, centre + high + slack

    def optimum_bound(
        self, form: "StandardForm", reward: np.ndarray, potential: np.ndarray
    ) -> float:
        """Upper bound on the best value of one reward `[K]`, from any potential `[S]`."""
        action_values = self.action_values(form, reward, potential)
        backed_up = bellman.greedy(form.transitions.first_choice, action_values)[1]
        excess = float((backed_up - potential)[form.reachable].max())
        future = self.discount / self.unit * excess
        slack = self._rounding(form, reward, potential)
        return float(form.initial @ backed_up) + future + slack

    def _rounding(self, form: "StandardForm", reward: np.ndarray, potential: np.ndarray) -> float:
        """What rounding in one backup (sums of B + 2 terms) can do to a bound."""
        terms = form.transitions.longest + form.actions + 4
        size = np.abs(potential[form.reachable]).max()
        sizes = np.abs(reward[form.reachable_choices]).max() + 2 * size
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
        chain = Chain(matrix, self.discount, form.transitions.order, transpose)
        sizes = np.array([chain.whole.size(side) for side in right])
        return chain.solve(right, tolerance * sizes, guess)


def transition_matrix(form: "StandardForm", policy: np.ndarray) -> np.ndarray | Matrix:
    """`P_pi`: dense `[..., S, S]` for small models, sparse `[S, S]` for large ones."""
    rows = form.transitions
    if not form.is_small:
        if policy.ndim > 1:
            raise InputError(
                f"policy: batches need a small model; this one has {form.states} states."
            )
        return bellman.policy_rows(rows, policy)
    if is_deterministic(policy):
        return rows.matrix[policy].toarray()
    # [S, batch, A]: one product per state
    tables = rows.as_table(policy)
    by_state = np.moveaxis(tables.reshape(-1, form.states, form.actions), 1, 0)
    return np.moveaxis(by_state @ rows.tensor, 0, 1).reshape(*tables.shape[:-1], form.states)


def _check_policy(form: "StandardForm", policy: np.ndarray) -> None:
    """Refuse a table `[..., S, A]`, which is not by choice."""
    count = form.states if is_deterministic(policy) else form.choices
    if policy.shape[-1] != count:
        advice = "form.transitions.by_choice(policy) turns a table [..., S, A]"
        raise InputError(f"policy: shape {policy.shape}, expected [..., {count}]; {advice}.")


def is_deterministic(policy: np.ndarray) -> bool:
    """Whether a policy is one choice of each state, `[S]`, and not probabilities `[..., K]`."""
    return bool(np.issubdtype(policy.dtype, np.integer))


def _is_batch(form: "StandardForm", policy: np.ndarray) -> bool:
    """Whether compiled loops do a batch of policies; one policy is not worth compiling them for."""
    return policy.ndim > 1 and form.is_small and form.states <= MAX_BATCHED_STATES


def _flat(policy: np.ndarray) -> np.ndarray:
    """A batch of policies `[..., K]` with one batch axis."""
    return policy.reshape(-1, policy.shape[-1])


def _range(form: "StandardForm", rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Smallest and largest entry of each row `[k, S]` over reachable states, `[k, 1]` each."""
    seen = rows[:, form.reachable]
    return seen.min(1, keepdims=True), seen.max(1, keepdims=True)
