"""The standard form of a model whose rows are a function, and what is computed on it.

Nothing has the size of the rows, not even of the choices: a function of choices is a combination of
the model's own ones and of 1, given by its coefficients,

    x = sum_f coefficients[f] x_f + coefficients[1 + m]     (x_0 the reward, then the constraints),

`[2 + m]` numbers where a stored form has `[K]`. Whoever adds, scales and mixes functions needs no
other code: phase 1, the augmented Lagrangian, ranges and certificates are those of stored forms. A
policy is actions `[S]`, or a mixture of columns.

What is computed goes through the rows block after block (`loops/blocks.py`), in sweeps to and fro:

- plans: Gauss-Seidel sweeps of Bellman's operator, each followed by a backup, whose change d bounds
  the error as in `planning.py`; what all states still lack is added at once;
- values of a policy, of all functions at once: the same without a choice;
- visits: what a state has left over is pushed on to its successors, which is Gauss-Seidel for the
  transposed system; then all visits are scaled so that what is left sums to 0.

Sweeps follow each other for as long as it takes: few where the chain mixes fast or most moves go
one way through the numbering, up to `log(1 / eps) / (1 - gamma)` where neither is the case.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.planning import ROUNDING, Plan
from cmdpax.lagrangian import scalarise
from cmdpax.loops import bellman, blocks
from cmdpax.loops.compiled import readable
from cmdpax.model.result import Mixture
from cmdpax.model.row_function import BLOCK, FunctionCMDP, Piece
from cmdpax.stopping import Stop, never

if TYPE_CHECKING:
    from cmdpax.exact.bounds import Claim
    from cmdpax.exact.discounted import Discounted

SWEEPS = 100_000
STALL = 10  # sweeps without halving the error, at rounding; then it is accepted


@dataclass(frozen=True, eq=False)
class BlockForm:
    """Maximise `V_0` subject to `V_i >= b_i`, with functions by their coefficients, `[2 + m]`."""

    model: FunctionCMDP
    reward: np.ndarray  # [2 + m]
    constraints: np.ndarray  # [M, 2 + m]
    thresholds: np.ndarray  # [M]
    criterion: "Discounted"

    is_small = False
    kind, objective, gauge = "discounted", None, None
    notes: tuple[str, ...] = ()
    reachable = reachable_states = slice(None)  # all: bounds over more states are bounds too
    smallest = np.float32  # what is kept of vectors that need not be exact

    @staticmethod
    def of(model: FunctionCMDP, criterion: "Discounted") -> "BlockForm":
        """The form of a model: signs are turned, nothing is copied."""
        own = np.eye(2 + model.constraint_count)
        limits = model.limits
        rows = limits.signs[:, None] * own[1 + limits.rows]
        reward = -own[0] if model.minimise else own[0]
        return BlockForm(model, reward, rows, limits.row_thresholds, criterion)

    @property
    def states(self) -> int:
        """Number of states S."""
        return self.model.states

    @property
    def choices(self) -> int:
        """Numbers that a function has: its coefficients, 2 + m."""
        return len(self.reward)

    @property
    def constraint_count(self) -> int:
        """Number of rows M."""
        return len(self.thresholds)

    @property
    def initial(self) -> np.ndarray:
        """`[S]`."""
        return self.model.initial

    @cached_property
    def ends(self) -> np.ndarray:
        """The least and the largest number of the model's own functions and of 1, `[2 + m, 2]`."""
        ends = [(part.rewards.min(1), part.rewards.max(1)) for part in self.model.pieces()]
        low, high = np.min([low for low, _ in ends], 0), np.max([high for _, high in ends], 0)
        return np.vstack([np.column_stack([low, high]), np.ones(2)])

    def span(self, reward: np.ndarray) -> tuple[float, float]:
        """Two numbers between which a function `[2 + m]` is; of a single one, its own ends."""
        ends = reward[:, None] * self.ends
        return float(ends.min(1).sum()), float(ends.max(1).sum())

    @property
    def spans(self) -> list[tuple[float, float]]:
        """The spans of the reward and of all constraints."""
        return [self.span(row) for row in (self.reward, *self.constraints)]

    @property
    def scales(self) -> np.ndarray:
        """Offsets and widths of possible values of the same, `[1 + M, 2]`."""
        return np.array([self.criterion.scale_of(*span) for span in self.spans])

    @property
    def constants(self) -> list[tuple[float, Fraction]]:
        """Constants in the same, and their values."""
        return [self.criterion.constant_of(*span) for span in self.spans]

    @cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, float]:
        """States where a run may start, their chances, and how often a sum over them is rounded."""
        own = np.flatnonzero(self.initial)
        chances = self.initial[own]
        return own, chances, len(own) + 8 + abs(math.fsum(chances) - 1) / np.finfo(float).eps

    def less(self, reward: np.ndarray, constant: float) -> np.ndarray:
        """A function `[2 + m]` less a constant."""
        moved = reward.copy()
        moved[-1] -= constant
        return moved

    def replace(self, **changes: Any) -> "BlockForm":
        """A copy with other fields; what was seen of the rows is shared."""
        copy = replace(self, **changes)
        copy.__dict__.update(ends=self.ends, start=self.start)
        return copy

    def pseudo_reward(self, weights: np.ndarray) -> np.ndarray:
        """`r + sum_i w_i c_i`, for weights `[M]`."""
        return scalarise(self.reward, self.constraints, weights)

    def moved(self, offsets: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reward and constraints, each less its offset, in units `[1 + M]`."""
        rows = zip((self.reward, *self.constraints), offsets, units, strict=True)
        scaled = np.array([self.less(row, offset) / unit for row, offset, unit in rows])
        return scaled[0], scaled[1:]

    def said_policies(self, policies: Mixture) -> Mixture:
        """Policies of the form as those of the model: actions `[S]`, or a table `[S, A]`."""
        own: Any = policies
        return tuple(
            (share, one.table() if isinstance(one, MixedPolicy) else one) for share, one in own
        )

    def parts(
        self, functions: Sequence[np.ndarray], backwards: bool = False
    ) -> Iterator[tuple[Piece, np.ndarray]]:
        """All rows, block after block, with F functions `[2 + m]` of its choices, `[F, k]`."""
        matrix = np.stack(functions)
        for part in self.model.pieces(backwards):
            yield part, matrix[:, :-1] @ part.rewards + matrix[:, -1:]

    def shares(self, policy: "np.ndarray | MixedPolicy", part: Piece) -> np.ndarray:
        """What a policy chooses in a block, `[k]`."""
        own = policy[part.first : part.first + len(part.block.first_choice) - 1]
        if own.ndim == 2:
            return readable(own.reshape(-1))
        chosen = np.zeros((len(own), self.model.actions))
        chosen[np.arange(len(own)), own] = 1.0
        return readable(chosen.reshape(-1))

    def returns(self, choices: np.ndarray, visits: np.ndarray) -> tuple[float, np.ndarray]:
        """Values of the reward and of the constraints, `[M]`, of actions `[S]` with visits."""
        totals = np.zeros(1 + self.constraint_count)
        for part, rewards in self.parts((self.reward, *self.constraints)):
            first, n = part.first, len(part.block.first_choice) - 1
            own = np.arange(n) * self.model.actions + choices[first : first + n]
            totals += (visits[first : first + n] * rewards[:, own]).sum(1)
        return float(totals[0]), totals[1:]

    def mixed_policy(
        self,
        shares: np.ndarray,
        choices: Sequence[np.ndarray],
        visits: Sequence[np.ndarray],
        fallback: np.ndarray,
        least: float,
    ) -> "MixedPolicy":
        """The one policy with the mixed visits of columns; `fallback [S]` where few go."""
        columns = zip(shares.tolist(), choices, visits, strict=True)
        used = tuple(column for column in columns if column[0] > 0)
        return MixedPolicy(used, fallback, least, self.model.actions)


@dataclass(frozen=True, eq=False)
class MixedPolicy:
    """`pi(a|s) = sum_k alpha_k nu_k(s) 1[a = a_k(s)] / sum_k alpha_k nu_k(s)`, block by block."""

    columns: tuple[tuple[float, np.ndarray, np.ndarray], ...]  # shares, actions [S], visits [S]
    fallback: np.ndarray  # [S], actions where there are at most so many visits
    least: float
    actions: int  # A

    def __getitem__(self, here: slice) -> np.ndarray:
        """Its rows of some states, `[n, A]`."""
        own = self.fallback[here]
        each, mass = np.arange(len(own)), np.zeros((len(own), self.actions))
        for share, actions, visits in self.columns:
            mass[each, actions[here]] += share * visits[here]
        rare = np.flatnonzero(mass.sum(1) <= self.least)
        mass[rare] = 0.0
        mass[rare, own[rare]] = 1.0
        return mass / mass.sum(1, keepdims=True)

    def table(self) -> np.ndarray:
        """All of it, `[S, A]`."""
        policy = np.empty((len(self.fallback), self.actions))
        for first in range(0, len(policy), BLOCK):
            policy[first : first + BLOCK] = self[first : first + BLOCK]
        return policy


def plan(
    criterion: "Discounted",
    form: BlockForm,
    reward: np.ndarray,
    start: np.ndarray | None = None,
    *,
    values: np.ndarray | None = None,
    tolerance: float = 0.0,
    stop: Stop = never,
) -> Plan:
    """Maximise the value of a function `[2 + m]`; as `planning.plan`, with actions for choices."""
    discount, reach = criterion.discount, criterion.reach
    current = np.zeros(form.states) if values is None else np.array(values, dtype=np.float64)
    actions = np.empty(form.states, dtype=np.min_scalar_type(form.model.actions - 1))
    backed_up, scratch = np.empty(form.states), np.empty(0, dtype=np.int32)
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        if done or values is None:  # a guess may be good enough
            for part, own in form.parts((reward,), done % 2 == 0):
                bellman.sweep_block(
                    part.first, part.block, readable(own[0]), current, discount, done % 2 == 0
                )
        low, high = np.inf, -np.inf
        for part, own in form.parts((reward,)):
            n = len(part.block.first_choice) - 1
            here = slice(part.first, part.first + n)
            if len(scratch) != n:
                scratch = np.empty(n, dtype=np.int32)
            numbers = readable(own[0]), readable(current), discount
            bellman.fill_backup(part.block, *numbers, scratch, backed_up[here])
            actions[here] = scratch - part.block.first_choice[:-1].astype(np.int32)
            change = backed_up[here] - current[here]
            low, high = min(low, float(change.min())), max(high, float(change.max()))
        width, size = high - low, max(-float(backed_up.min()), float(backed_up.max()))
        smallest, stalled = (width, 0) if width <= smallest / 2 else (smallest, stalled + 1)
        rounding = ROUNDING * size * (1 + reach if stalled >= STALL else 1.0)
        if reach * width <= max(tolerance, reach * rounding) or stop():
            backed_up += reach * high
            return Plan(actions, backed_up, float(_at_start(form, backed_up[:, None])[0]))
        backed_up += reach * _sure(low, high)
        current, backed_up = backed_up, current
    raise unsettled("planning")


def potentials(
    criterion: "Discounted",
    form: BlockForm,
    policy: np.ndarray,
    claims: "Sequence[Claim]",
    tolerance: np.ndarray | float = 0.0,
) -> np.ndarray:
    """Values of F claims under a policy, `[F, S]`, each less the middle of its range."""
    discount, reach, F = criterion.discount, criterion.reach, len(claims)
    allowed = np.broadcast_to(tolerance, F)
    functions = [one.reward for one in claims]
    current, other = np.zeros((form.states, F)), np.empty((form.states, F))
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        nothing = np.empty(F), np.empty(F)
        for part, own in form.parts(functions, done % 2 == 0):
            shares, rewards = form.shares(policy, part), readable(own)
            kind = discount, int(done % 2 == 0)
            blocks.step_block(
                part.first, part.block, rewards, shares, current, *kind, current, *nothing
            )
        low, high = np.full(F, np.inf), np.full(F, -np.inf)
        for part, own in form.parts(functions):
            shares, rewards = form.shares(policy, part), readable(own)
            blocks.step_block(
                part.first, part.block, rewards, shares, current, discount, -1, other, low, high
            )
        width, size = high - low, np.maximum(-other.min(0), other.max(0))
        worst = float((width / np.maximum(size, np.finfo(float).tiny)).max())
        smallest, stalled = (worst, 0) if worst <= smallest / 2 else (smallest, stalled + 1)
        rounding = ROUNDING * size * (1 + reach if stalled >= STALL else 1.0)
        if (reach * width <= np.maximum(allowed, reach * rounding)).all():
            del current
            other -= other.min(0) / 2 + other.max(0) / 2
            return np.ascontiguousarray(other.T)
        other += reach * _sure(low, high)
        current, other = other, current
    raise unsettled("evaluation")


def visits(
    criterion: "Discounted",
    form: BlockForm,
    policy: np.ndarray,
    *,
    tolerance: float = 0.0,
    guess: np.ndarray | None = None,
) -> np.ndarray:
    """Occupancy `nu [S]`; values of the form's functions are off by at most `tolerance`."""
    discount, mass = criterion.discount, criterion.mass
    largest = max(*(max(-low, high) for low, high in form.spans), np.finfo(float).tiny)
    target = max(tolerance / (largest * mass), 1e-15)
    (own, chances, _), nu, left = form.start, np.zeros(form.states), np.array(form.initial)
    if guess is not None and guess.any():
        nu = np.maximum(guess, 0.0, dtype=np.float64)
        nu *= mass / nu.sum()
        for part in form.model.pieces():
            blocks.send_block(part.first, part.block, form.shares(policy, part), nu, left, discount)
        left -= nu
    smallest, stalled = np.inf, 0
    for done in range(SWEEPS):
        backwards = done % 2 == 1
        for part in form.model.pieces(backwards):
            shares = form.shares(policy, part)
            blocks.push_block(part.first, part.block, shares, nu, left, discount, backwards)
        rest = float(left.sum())
        if rest < 1:  # what is left sums to 0 if all visits have their exact mass
            nu /= 1 - rest
            left[own] -= rest * chances
            left /= 1 - rest
        firsts = range(0, form.states, BLOCK)
        size = sum(float(np.abs(left[i : i + BLOCK]).sum()) for i in firsts)
        smallest, stalled = (size, 0) if size <= smallest / 2 else (smallest, stalled + 1)
        if size <= target or (stalled >= STALL and size <= 1e-12):
            return np.maximum(nu, 0.0, out=nu)
    raise unsettled("visits")


def extremes(
    criterion: "Discounted",
    form: BlockForm,
    what: "Claim",
    potential: np.ndarray,
    policy: np.ndarray | None,
) -> tuple[float, float]:
    """`min d/g` and `max d/g` over all states, rounded outwards; as `bellman.ratios`."""
    values = readable(potential.astype(np.float64, copy=False))
    unit, none = bellman.ratio_rounding(form.model.branching), readable(np.empty(0))
    low, high, scratch = np.inf, -np.inf, np.empty((2, 0))
    for part, (own,) in form.parts((what.reward,)):
        n = len(part.block.first_choice) - 1
        if scratch.shape[1] != n:
            scratch = np.empty((2, n))
        sizes = np.abs(part.rewards).T @ what.sizes[:-1] + what.sizes[-1]
        shares = none if policy is None else form.shares(policy, part)
        numbers = readable(own), readable(sizes), values, none, shares, none
        kind = criterion.discount, unit, *scratch
        bellman.fill_ratios(part.first, part.block, *numbers, *kind)
        low, high = min(low, float(scratch[0].min())), max(high, float(scratch[1].max()))
    return low, high


def _sure(low: Any, high: Any) -> np.ndarray:
    """What all states still have to change by, where changes are between `low` and `high`.

    All errors are then at least, or at most, `gamma / (1 - gamma)` times this, and adding it brings
    every state nearer. (The middle of both would not: sweeps in place do not keep constants.)
    """
    return np.maximum(low, 0.0) + np.minimum(high, 0.0)


def _at_start(form: BlockForm, values: np.ndarray) -> np.ndarray:
    """`rho.V` of values `[S, F]`."""
    own, chances, _ = form.start
    return chances @ values[own]


def unsettled(what: str) -> NumericalError:
    """Sweeps that do not end."""
    return NumericalError(
        f"{what}: {SWEEPS:,} sweeps did not settle it; the model is too ill-conditioned."
    )
