"""What is a model whose rows are a function, `rows(first, last)`, and is this one well formed?

    rows(first, last) -> successors [n, A, B], probabilities [n, A, B], reward [n, A],
                         constraints [m, n, A]          of the n states first .. last - 1

Nothing is stored but the function: it is asked for block after block, in any order and more than
once, and every block is looked at anew each time. Every state has A actions and every action B
successors; those with probability 0 do not count, and a successor may occur twice.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np

from cmdpax.errors import InputError
from cmdpax.loops import bellman
from cmdpax.loops.compiled import readable
from cmdpax.loops.rows import Block
from cmdpax.model.limits import LARGEST_NUMBER, NUMERIC, Limited, Limits
from cmdpax.model.numbers import ROW_SUM_TOLERANCE, rounding
from cmdpax.model.prints import MODEL, Printed, Rows

BLOCK = 1 << 14  # states that are asked for at a time: their rows stay in the processor's cache
MAX_STATES = 2**31 - 1
RowFunction = Callable[[int, int], Any]


class Piece(NamedTuple):
    """Rows of n states, whose choices and entries are counted from 0, and what they pay."""

    first: int
    block: Block
    rewards: np.ndarray  # [1 + m, n A]: the reward, then every constraint, as the user has them

    @property
    def here(self) -> slice:
        """Its n states."""
        return slice(self.first, self.first + len(self.block.first_choice) - 1)


@dataclass(frozen=True, eq=False)
class FunctionCMDP(Limited, Printed):
    """A constrained MDP whose rows are a function; `CMDP.from_rows` makes it.

    `cmdpax.solve` and `cmdpax.check` take it. All else needs arrays: `CMDP.from_rows(...,
    stored=True)` has them.
    """

    function: RowFunction
    states: int
    actions: int  # A
    branching: int  # B
    limits: Limits
    initial: np.ndarray  # [S]
    discount: float
    minimise: bool = False
    action_names: tuple[str, ...] | None = None

    criterion = "discounted"
    horizon = None
    notes: tuple[str, ...] = ()
    _title = MODEL

    @staticmethod
    def of(function: Any, states: int, limits: Limits, *rest: Any) -> "FunctionCMDP":
        """Look at all rows once; A and B are those of the first state. rest: the other fields."""
        if not callable(function):
            raise InputError("rows: it must be a function, rows(first, last).")
        if states > MAX_STATES:
            raise InputError(f"states is {states:,}; at most {MAX_STATES:,} can be numbered.")
        shape = _parts(function, 0, 1, len(limits))[0].shape
        if len(shape) != 3 or shape[0] != 1 or 0 in shape:
            said = f"successors of shape {shape}, expected (1, actions, branching)"
            raise InputError(f"rows(0, 1): {said}.")
        model = FunctionCMDP(function, states, *shape[1:], limits, *rest)
        model._refuse_moods()
        for _ in model.pieces():
            pass
        return model

    def _refuse_moods(self) -> None:
        """Refuse a function that answers the same question differently."""
        last = min(self.states, BLOCK)
        middle, rest = last // 2, slice((last // 2) * self.actions, None)
        whole, again, part = self.piece(0, last), self.piece(0, last), self.piece(middle, last)
        entries = slice((last // 2) * self.actions * self.branching, None)
        for other, own, of_rewards, of_entries in (
            (again, f"rows(0, {last}) twice", slice(None), slice(None)),
            (part, f"rows(0, {last}) and rows({middle}, {last})", rest, entries),
        ):
            pairs = [(whole.rewards[:, of_rewards], other.rewards)]
            pairs += [
                (mine[of_entries], yours)
                for mine, yours in zip(whole.block[2:], other.block[2:], strict=True)
            ]
            if not all(np.array_equal(*pair) for pair in pairs):
                raise InputError(
                    f"rows: {own} give different numbers for one state; the function must give the"
                    " same rows every time, without random draws."
                )

    @property
    def policy_shape(self) -> tuple[int, int]:
        """`(S, A)`."""
        return self.states, self.actions

    def pieces(self, backwards: bool = False) -> Iterator[Piece]:
        """All rows, block after block, in the order of states or in the opposite one."""
        starts = range(0, self.states, BLOCK)
        for first in reversed(starts) if backwards else starts:
            yield self.piece(first, min(first + BLOCK, self.states))

    def piece(self, first: int, last: int) -> Piece:
        """The rows of the states `first .. last - 1`, checked."""
        n, A, B = last - first, self.actions, self.branching
        m, called = self.constraint_count, f"rows({first}, {last})"
        successors, chances, reward, costs = _parts(self.function, first, last, m)
        shapes = {
            "successors": (successors, (n, A, B)),
            "probabilities": (chances, (n, A, B)),
            "reward": (reward, (n, A)),
            "constraints": (costs, (m, n, A)),
        }
        for name, (array, shape) in shapes.items():
            if array.shape != shape:
                raise InputError(f"{called}: {name} of shape {array.shape}, expected {shape}.")
        if successors.dtype.kind not in "iu":
            raise InputError(f"{called}: successors must be integers, not {successors.dtype}.")
        least, most = int(successors.min()), int(successors.max())
        if least < 0 or most >= self.states:
            place = np.argwhere((successors < 0) | (successors >= self.states))[0]
            s, a, to = first + place[0], place[1], successors[tuple(place)]
            said = f"state {s}, action {a} leads to {to}"
            raise InputError(f"rows: {said}; states are 0..{self.states - 1}.")
        rewards = np.concatenate([reward[None], costs]).astype(np.float64).reshape(1 + m, n * A)
        if not np.abs(rewards).max() <= LARGEST_NUMBER:
            f, k = np.argwhere(~(np.abs(rewards) <= LARGEST_NUMBER))[0]
            name = "reward" if f == 0 else f"constraint {self.constraint_names[f - 1]}"
            where, number = f"state {first + k // A}, action {k % A}", rewards[f, k]
            raise InputError(f"rows: the {name} of {where} is {number}; it must be finite.")
        chances = np.ascontiguousarray(chances, dtype=np.float64).reshape(-1)
        first_choice = np.arange(0, n * A + 1, A, dtype=np.uint32)
        first_entry = np.arange(0, n * A * B + 1, B, dtype=np.uint32)
        to = np.ascontiguousarray(successors, dtype=np.int32).reshape(-1)
        facts = bellman.inspect_rows(first_entry.view(np.int32), to, chances, ROW_SUM_TOLERANCE)
        infinite, negative, off = facts[:3].astype(np.int64).tolist()
        for entry, wrong in (
            (infinite, "it must be finite"),
            (negative, "it must not be negative"),
        ):
            if entry >= 0:
                where = f"state {first + entry // (A * B)}, action {entry // B % A}"
                raise InputError(f"rows: {where} has a probability {chances[entry]}; {wrong}.")
        if off >= 0:
            total = float(chances[off * B : (off + 1) * B].sum())
            where = f"state {first + off // A}, action {off % A}"
            raise InputError(f"rows: the probabilities of {where} sum to {total:.9g}, not 1.")
        if facts[6] > rounding(B):
            chances = chances.copy()
            bellman.normalise_rows(first_entry.view(np.int32), chances, rounding(B))
        pointers = readable(first_choice), readable(first_entry)
        block = Block(*pointers, readable(to).view(np.uint32), readable(chances))
        return Piece(first, block, rewards)

    @cached_property
    def digest(self) -> str:
        """Fingerprint of all rows and of what the user said besides, labels apart."""
        hasher = sha256(f"{self.states} {self.actions} {self.branching}".encode())
        for piece in self.pieces():
            for array in (*piece.block[2:], piece.rewards):
                hasher.update(np.ascontiguousarray(array).data)
        own = np.flatnonzero(self.initial)
        for array in (self.limits.bounds, own, self.initial[own]):
            hasher.update(np.ascontiguousarray(array).data)
        hasher.update(f"{self.senses} {self.minimise} {self.discount!r}".encode())
        return f"rows:{hasher.hexdigest()}"

    def matches(self, digest: str) -> bool:
        """Whether a result's fingerprint is this model's."""
        return digest == self.digest

    def as_table(self, policy: np.ndarray) -> np.ndarray:
        """A policy `[S, A]`, or actions `[S]` as such a table, of float32: 0 and 1 need no more."""
        if policy.ndim == 2:
            return policy
        table = np.zeros((self.states, self.actions), dtype=np.float32)
        table[np.arange(self.states), policy] = 1.0
        return table

    def fields(self) -> dict[str, Any]:
        """Arguments of `CMDP` for the same model, stored."""
        pieces = list(self.pieces())
        shape = self.states, self.actions, self.branching
        successors, chances = (
            np.concatenate([piece.block[part] for piece in pieces]).reshape(shape)
            for part in (2, 3)
        )
        rewards = np.concatenate([piece.rewards for piece in pieces], 1)
        return {
            "transitions": (successors.astype(np.int32), chances),
            "reward": rewards[0],
            "constraints": rewards[1:],
            "thresholds": self.limits.entries,
            "senses": self.senses or None,
            "constraint_names": self.constraint_names or None,
            "initial": self.initial,
            "discount": self.discount,
            "minimise": self.minimise,
            "action_names": self.action_names,
        }

    def __repr__(self) -> str:
        sizes = f"states={self.states}, actions={self.actions}, successors<={self.branching}"
        return f"FunctionCMDP({sizes}, constraints={len(self.limits)}, discount={self.discount:g})"

    def _rows(self) -> Rows:
        return [
            ("states", f"{self.states:,}, whose rows are a function"),
            ("actions", f"{self.actions:,}"),
            ("successors", f"{self.branching} at most"),
            ("discount", f"{self.discount:.12g}"),
            ("objective", f"{'minimise' if self.minimise else 'maximise'} the reward"),
            *(("subject to", text) for text in self.limits.texts),
        ]


def _parts(function: RowFunction, first: int, last: int, m: int) -> tuple[np.ndarray, ...]:
    """What the function returns for a block, as four arrays of real numbers."""
    parts = function(first, last)
    if isinstance(parts, tuple) and len(parts) == 3 and m == 0:
        parts = (*parts, np.zeros((0, *np.shape(parts[2]))))
    if not isinstance(parts, tuple) or len(parts) != 4:
        wanted = "(successors, probabilities, reward, constraints)"
        raise InputError(f"rows({first}, {last}): return {wanted}.")
    arrays = tuple(np.asarray(part) for part in parts)
    if any(array.dtype.kind not in NUMERIC for array in arrays):
        raise InputError(f"rows({first}, {last}): return arrays of real numbers.")
    return arrays
