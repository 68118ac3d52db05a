"""Values, visits and bounds when the future is discounted.

With `P_pi [S, S]` the transitions under a policy, `V = (I - gamma P_pi)^-1 x_pi` (forward solve)
and the occupancy `nu = rho (I - gamma P_pi)^-1` (transpose solve; sums to 1/(1-gamma)). Then
`V(rho) = rho.V = nu.x_pi` and `Q(s,a) = x(s,a) + gamma sum_s' P(s'|s,a) V(s')`.

Bounds come from any vector, whatever made it (`bounds.py`).

Small models use dense LAPACK and take a leading batch axis of policies, so that a whole grid search
is one solve. Large ones use sparse linear algebra (`systems.py`), which checks every vector before
it is returned. Rewards are by choice, `[..., K]`; a policy is probabilities `[..., K]`, or integer
choices `[S]`, one of its own for every state.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.exact import by_blocks, proper
from cmdpax.exact.forms import BlockForm
from cmdpax.exact.planning import LONG, Plan, plan
from cmdpax.exact.systems import Chain, finite, ill_conditioned
from cmdpax.loops import bellman
from cmdpax.loops.rows import Matrix
from cmdpax.loops.small import solve_dense
from cmdpax.loops.systems import batch_occupancies, batch_values
from cmdpax.model.result import Mixture
from cmdpax.model.transitions import is_deterministic
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim
    from cmdpax.exact.standard import StandardForm
    from cmdpax.exact.transient import Cycles

MAX_BATCHED_STATES = 64  # up to here batches are compiled; above, LAPACK's blocks are faster
FAR = 1e-6  # what the discount leaves of states that are far away
LARGEST_GAUGE = 1e40
NOTHING = Fraction(0)
REFINEMENTS = 2  # of values of long runs
STEPS_OFF = 0.01  # of the expected number of steps; a gauge need not be exact


@dataclass(frozen=True)
class Discounted:
    """`V_x(pi) = E sum_t gamma^t x(s_t, a_t)`, gamma = `discount` in [0, 1].

    steps: the largest expected number of steps from any state where every policy ends
    (`transient.py`); then gamma may be 1, and rows lack what leads to an end. None: rows are whole.
    cycles: where some policies never end, and only the others count (`proper.py`).
    total: the visits of every policy, where all end at one time.
    """

    discount: float
    steps: float | None = None
    cycles: "Cycles | None" = field(default=None, compare=False)
    total: Fraction | None = None

    @property
    def is_closed(self) -> bool:
        """Whether all policies have the same total of visits, so that constants may be added."""
        return self.steps is None

    @property
    def mass(self) -> float:
        """`1 / (1 - gamma)`: total visits of every policy; or the most that any has."""
        return 1 / (1 - self.discount) if self.steps is None else self.steps

    @property
    def common(self) -> float:
        """The value of a constant 1 (of 0 where visits vary: there no constant is taken out)."""
        return self.mass if self.is_closed else float(self.total or 0)

    @property
    def unit(self) -> float:
        """`1 - gamma`: what one visit counts as a share."""
        return 1 - self.discount if self.steps is None else 1 / self.steps

    @property
    def reach(self) -> float:
        """What an error in one step amounts to in the values of those before."""
        return self.discount / (1 - self.discount) if self.steps is None else self.steps

    def scale_of(self, low: float, high: float) -> tuple[float, float]:
        """`low` and `(high - low) / (1 - gamma)`, of rewards between them (1 for a width of 0).

        Where policies end, their common constant c, which is 0 where visits vary, and
        `max |x - c| * steps`.
        """
        if not self.is_closed:
            constant = self.constant_of(low, high)[0]
            return constant, (max(constant - low, high - constant, 0.0) or 1.0) * self.mass
        return low, (high - low if high > low else 1.0) / self.unit

    def value_range(self, form: "StandardForm", reward: np.ndarray) -> tuple[float, float]:
        """Two numbers that hold every conceivable value of a reward `[K]` between them."""
        least, width = self.scale_of(*form.span(reward))
        value = least * self.common
        return value - (0.0 if self.is_closed else width), value + width

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
        array of all. Large models: accurate to `tolerance`, from a `guess` in the shape of the
        result.
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

        Large models: so accurate that values of the form's rewards are off by at most `tolerance`;
        from a `guess [S]`.
        """
        if isinstance(form, BlockForm):
            return by_blocks.visits(form, policy, tolerance, guess)
        _check_policy(form, policy)
        if _is_batch(form, policy):
            rows = form.transitions.rows(0, form.states)
            flat = batch_occupancies(rows, self.discount, _flat(policy), form.initial)
            return np.maximum(flat, 0.0).reshape(*policy.shape[:-1], form.states)
        right = np.broadcast_to(form.initial, (*policy.shape[:-1], 1, form.states))
        guess, error = None if guess is None else guess[None], tolerance / form.largest_reward
        solved = self._solve(form, policy, right, True, error, guess)
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

    def inflow(self, form: "StandardForm") -> np.ndarray:
        """What flows in for visits that are shares, `[S]`."""
        return self.unit * form.initial

    def fallback(self, form: "StandardForm", mass: np.ndarray) -> np.ndarray:
        """Choices `[S]` for states in which visits `mass [K]` are 0."""
        if self.cycles is not None:
            return self.cycles.start
        return bellman.greedy(form.transitions.first_choice, form.reward)[0]

    def smoothness(self, form: "StandardForm") -> tuple[float, float]:
        """`2 gamma A / (1-gamma)^3` and `A / (1-gamma)^4`.

        Bounds on the curvature and on the squared slope of a value of span 1, as a function of a
        table of probabilities.
        """
        if not self.is_closed:
            raise InputError("step: 'theory' is for a discount well below 1; give a number.")
        A = form.actions
        return 2 * self.discount * A * self.mass**3, A * self.mass**4

    def plan(
        self,
        form: "StandardForm",
        reward: np.ndarray,
        start: np.ndarray | None = None,
        *,
        values: np.ndarray | None = None,
        tolerance: float = 0.0,
        stop: Stop = never,
    ) -> Plan:
        """Maximise the value of `reward [K]`.

        start: choices `[S]` to begin with (default: greedy). values: a guess of the values `[S]`,
        used instead by large models. tolerance: the absolute error that `value` may have (0:
        rounding); small models are solved exactly in any case. stop: polled now and then by large
        models; if it returns True they give what they have: `value` is still an upper bound, of a
        worse policy.
        """
        if isinstance(form, BlockForm):
            return by_blocks.plan(form, reward, values, tolerance, stop)
        if self.cycles is not None:
            return proper.plan(form, reward, start, values, tolerance, stop)
        return plan(self, form, reward, start, values, tolerance, stop)

    def backed_up(self, form: "StandardForm", reward: np.ndarray, values: np.ndarray) -> np.ndarray:
        """`T V [S]` for a reward `[K]` and values `[S]`."""
        return bellman.backup(form.transitions, reward, values, self.discount)[1]

    def potentials(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        claims: "Sequence[Claim]",
        tolerance: np.ndarray | float = 0.0,
    ) -> np.ndarray:
        """Values of k claims, each less its constant, under a policy, `[k, S]`.

        Where policies may never end, `[k, 2 S]`: values, and the expected steps of this one.

        Large models: accurate to `tolerance [k]`. States that are never reached are cut to the
        range of those that are: large numbers there would only cost digits.
        """
        if isinstance(form, BlockForm):
            return by_blocks.potentials(form, policy, claims, tolerance)
        if form.is_small:
            right = form.transitions.under(policy, np.stack([one.reward for one in claims]))
        else:
            right = np.stack([form.transitions.under(policy, one.reward) for one in claims])
        seen = right[:, form.reachable_states]
        low, high = seen.min(1, keepdims=True), seen.max(1, keepdims=True)
        right = right.clip(low, high)
        if self.is_closed and form.gauge is None:
            right -= low / 2 + high / 2
        solved = self._solve(form, policy, right, tolerance=tolerance)
        if self.cycles is None:
            return self._refined(form, policy, right, self.centred(form, solved))
        steps = self._solve(form, policy, form.alive[None].astype(float), tolerance=STEPS_OFF)
        both = solved * form.alive, np.broadcast_to(steps * form.alive, solved.shape)
        return np.hstack(both)

    def _refined(
        self, form: "StandardForm", policy: np.ndarray, right: np.ndarray, values: np.ndarray
    ) -> np.ndarray:
        """Values `[k, S]` less what is left of their residuals, where runs of small forms are long.

        A solution is off by the rounding of its largest part, the constant, which with a gauge of 1
        is no part of a potential: what rounding leaves of the others is small.
        """
        if not form.is_small or self.mass <= LONG:
            return values
        rows, zeros = form.transitions, np.zeros(form.choices)
        for _ in range(REFINEMENTS):
            pairs = [bellman.differences(rows, zeros, zeros, v, lost=rows.lost) for v in values]
            changes = [change for change, _ in pairs]
            left = self.discount * rows.under(policy, np.stack(changes))
            left += right - (1 - self.discount) * values
            if self.is_closed and form.gauge is None:
                seen = left[:, form.reachable_states]
                left -= seen.min(1, keepdims=True) / 2 + seen.max(1, keepdims=True) / 2
            values = self.centred(form, values + self._solve(form, policy, left))
        return values

    def upper(
        self, form: "StandardForm", what: "Claim", choices: np.ndarray, tolerance: float = 0.0
    ) -> np.ndarray:
        """A potential that bounds a claim's value from above; `choices [S]` are near optimal."""
        if self.cycles is None:
            return self.potentials(form, choices, (what,))[0]
        return proper.upper(form, what, choices, tolerance)

    def answer(
        self, form: "StandardForm", policy: np.ndarray, mixture: Mixture | None = None
    ) -> Mixture:
        """What is certified: one stationary policy `[K]`, or choices `[S]`, drawn at the start.

        Where a policy would never end (a linear program may know circulations), it ends at once.

        The mixture has the policy's values, and is the answer where no one policy has.
        """
        if self.cycles is None:
            return ((1.0, policy),)
        if is_deterministic(policy):
            policy = form.transitions.deterministic(policy)
        policy = proper.ending(form, policy, self.cycles.start)
        visits = self.visits(form, policy)
        policy, is_same = self.cycles.stationary(form.transitions, policy, visits)
        if not is_same and mixture is not None:
            return mixture
        ends = proper.ending(form, policy, self.cycles.start)
        stuck = form.transitions.sums(np.abs(ends - policy)) > 0
        return ((1.0, self.cycles.settling(form.transitions, ends, stuck)),)

    @property
    def parts(self) -> int:
        """Vectors over states in a potential."""
        return 1 if self.cycles is None else 2

    def centred(self, form: "StandardForm", values: np.ndarray) -> np.ndarray:
        """Values `[..., S]`, each less the middle of its range over reachable states.

        With a gauge of 1 bounds do not change when a constant is added to V, but their rounding
        grows with |V|. With another gauge V stays as it is.
        """
        if not self.is_closed or form.gauge is not None:
            return values
        seen = values[..., form.reachable_states]
        low, high = seen.min(-1, keepdims=True), seen.max(-1, keepdims=True)
        return values.clip(low, high) - (low / 2 + high / 2)

    def constant_of(self, low: float, high: float) -> tuple[float, Fraction]:
        """A number c that rewards between two have in common, and its value, `c / (1 - gamma)`.

        It is the middle of a range far from 0, and 0 for one that is not: there it would only cost
        the exactness of zeros. Where all policies end at one time its value is `c * total`.
        """
        middle = low / 2 + high / 2
        is_common = self.is_closed or self.total is not None
        if not (is_common and abs(middle) > high - low):
            return 0.0, NOTHING
        total = 1 / (1 - Fraction(self.discount)) if self.total is None else self.total
        return middle, Fraction(middle) * total

    def gauge(self, form: "StandardForm") -> np.ndarray | None:
        """`gamma^(-t/2)` for states t steps from the start, `[S]`; None where 1 is as good.

        Far states, which the discount hardly reaches, then have little say in bounds. Where every
        policy ends it is the largest expected number of steps.
        """
        if self.cycles is not None:
            return None  # every policy has its own
        if not self.is_closed:
            return self.expected_steps(form)
        if self.discount == 0:
            return None
        steps = form.distances
        if self.discount ** float(steps.max()) > FAR:
            return None
        with np.errstate(over="ignore"):
            return np.minimum(self.discount ** (-steps / 2.0), LARGEST_GAUGE)

    def expected_steps(self, form: "StandardForm") -> np.ndarray:
        """`max_pi E sum_t gamma^t` until the end, `[S]`, a little more where plans are rough."""
        alive = form.transitions.by_state(form.alive.astype(float))
        return np.maximum(self.plan(form, alive, tolerance=STEPS_OFF).values, 0.0) * form.alive

    def _solve(
        self,
        form: "StandardForm",
        policy: np.ndarray,
        right: np.ndarray,
        transpose: bool = False,
        tolerance: np.ndarray | float = 0.0,
        guess: np.ndarray | None = None,
    ) -> np.ndarray:
        """Solve `(I - gamma P_pi) x = right` (or with P transposed) for k sides `[..., k, S]`.

        Sparse systems are solved to an error of `tolerance [k]` (0: rounding), of the values or of
        the sum of all visits, from `guess [k, S]`.
        """
        if form.is_small and policy.ndim == 1:
            solved = solve_dense(form.kernel, policy, right, transpose)
            # a policy or reward that is not finite is for the method to say
            return (
                finite(solved) if np.isfinite(policy).all() and np.isfinite(right).all() else solved
            )
        matrix = transition_matrix(form, policy)
        if isinstance(matrix, np.ndarray):
            system = np.eye(matrix.shape[-1]) - self.discount * matrix
            if transpose:
                system = np.swapaxes(system, -1, -2)
            try:
                return np.swapaxes(np.linalg.solve(system, np.swapaxes(right, -1, -2)), -1, -2)
            except np.linalg.LinAlgError:
                raise ill_conditioned() from None
        order = form.transitions.order
        chain = Chain(matrix, self.discount, order, transpose, self.is_closed)
        return chain.solve(right, np.asarray(tolerance) * self.unit, guess)


def transition_matrix(form: "StandardForm", policy: np.ndarray) -> np.ndarray | Matrix:
    """`P_pi`: dense `[..., S, S]` for small models, sparse `[S, S]` for large ones."""
    rows = form.transitions
    if not rows.is_small:
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


def _is_batch(form: "StandardForm", policy: np.ndarray) -> bool:
    """Whether compiled loops do a batch of policies; one policy is not worth compiling them for."""
    return policy.ndim > 1 and form.is_small and form.states <= MAX_BATCHED_STATES


def _flat(policy: np.ndarray) -> np.ndarray:
    """A batch of policies `[..., K]` with one batch axis."""
    return policy.reshape(-1, policy.shape[-1])
