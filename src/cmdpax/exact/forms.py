"""What every form has, and the form of a model whose rows are a function.

There nothing has the size of the rows, not even of the choices: a function of choices is a
combination of the model's own ones and of 1, given by its coefficients,

    x = sum_f coefficients[f] x_f + coefficients[1 + m]     (x_0 the reward, then the constraints),

`[2 + m]` numbers where a stored form has `[K]`. Whoever adds, scales and mixes functions needs no
other code: phase 1, the augmented Lagrangian, ranges and certificates are those of stored forms. A
policy is actions `[S]`, or a mixture of columns. `by_blocks.py` plans and evaluates.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from cmdpax.lagrangian import scalarise
from cmdpax.loops.compiled import readable
from cmdpax.model.result import Mixture
from cmdpax.model.row_function import BLOCK, FunctionCMDP, Piece

if TYPE_CHECKING:
    from cmdpax.exact.average import Average
    from cmdpax.exact.discounted import Discounted


class Form(Protocol):
    """Maximise `V_0` subject to `V_i >= b_i`, i = 1..m; `[n]` numbers are a function of choices."""

    reward: np.ndarray  # [n]
    constraints: np.ndarray  # [m, n]
    thresholds: np.ndarray  # [m]
    initial: np.ndarray  # [S]
    criterion: "Discounted | Average"

    def span(self, reward: np.ndarray) -> tuple[float, float]:
        """Two numbers between which a function `[n]` is."""
        ...

    @property
    def constraint_count(self) -> int:
        """Number of rows m; a constraint of the model may have two."""
        return len(self.thresholds)

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """The spans of the reward and of all constraints."""
        return [self.span(row) for row in (self.reward, *self.constraints)]

    @cached_property
    def scales(self) -> np.ndarray:
        """Offsets and widths of the reward and of all constraints, `[1 + m, 2]`."""
        return np.array([self.criterion.scale_of(*span) for span in self.spans])

    @cached_property
    def constants(self) -> list[tuple[float, Fraction]]:
        """Constants in the reward and in all constraints, and their values."""
        return [self.criterion.constant_of(*span) for span in self.spans]

    @cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, float]:
        """States where a run may start, their chances, and how often a sum over them is rounded."""
        own = np.flatnonzero(self.initial)
        chances = self.initial[own]
        # their sum counts as a whole
        return own, chances, len(own) + 8 + abs(math.fsum(chances) - 1) / np.finfo(float).eps

    @cached_property
    def largest_reward(self) -> float:
        """The largest number of reachable choices, in the reward and all constraints."""
        return max(*(max(-low, high) for low, high in self.spans), np.finfo(float).tiny)

    def pseudo_reward(self, weights: np.ndarray) -> np.ndarray:
        """`r + sum_i w_i c_i`, for weights `[..., m]` -> `[..., n]`."""
        return scalarise(self.reward, self.constraints, weights)


@dataclass(frozen=True, eq=False)
class BlockForm(Form):
    """The form of a model with m constraints, whose functions are coefficients `[2 + m]`."""

    model: FunctionCMDP
    reward: np.ndarray  # [2 + m]
    constraints: np.ndarray  # [M, 2 + m]
    thresholds: np.ndarray  # [M]
    initial: np.ndarray  # [S]
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
        return BlockForm(model, reward, rows, limits.row_thresholds, model.initial, criterion)

    @property
    def states(self) -> int:
        """Number of states S."""
        return self.model.states

    @property
    def choices(self) -> int:
        """Numbers that a function has: its coefficients, 2 + m."""
        return len(self.reward)

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
        own = policy[part.here]
        if own.ndim == 2:
            return readable(own.reshape(-1))
        chosen = np.zeros((len(own), self.model.actions))
        chosen[np.arange(len(own)), own] = 1.0
        return readable(chosen.reshape(-1))

    def returns(self, choices: np.ndarray, visits: np.ndarray) -> tuple[float, np.ndarray]:
        """Values of the reward and of the constraints, `[M]`, of actions `[S]` with visits."""
        totals = np.zeros(1 + self.constraint_count)
        for part, rewards in self.parts((self.reward, *self.constraints)):
            own = choices[part.here] + self.model.actions * np.arange(len(choices[part.here]))
            totals += (visits[part.here] * rewards[:, own]).sum(1)
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
