"""Transitions in their one form; `reading.py` makes it of what users give.

A model has K choices, those of a state one after another, and every choice has its successors:

    choices of state s:    first_choice[s] .. first_choice[s + 1] - 1
    entries of choice k:   first_entry[k] .. first_entry[k + 1] - 1   of successors, probabilities

Nothing is padded: states may have different numbers of choices, choices of successors. Successors
increase within a choice, each occurs once, none has probability 0. So equal models have equal
bytes, whichever way they were written: dense, sparse, as lists, as a function or as a table.

Tables `[S, A]` are for people, and for methods that work on one number of actions everywhere:
`Transitions` turns numbers by choice, `[K]`, into them and back.
"""

from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.loops import bellman
from cmdpax.loops.compiled import readable, unsigned
from cmdpax.loops.components import Order, find_order, renumbered
from cmdpax.loops.narrow import envelope_work
from cmdpax.loops.rows import Block, RowArrays
from cmdpax.model.numbers import hash_array

DENSE_STATES, DENSE_ENTRIES = 256, 4_000_000  # up to here dense linear algebra is faster
NARROW_STATES, NARROW_WORK = 2000, 4e6  # the same of LU inside an envelope, and multiplications
HASHED = 1 << 20  # indices that are hashed at a time
Array = np.ndarray


def entries_of(starts: Array, lengths: Array) -> tuple[Array, Array]:
    """Entries of k choices, one choice after another, and pointers `[k + 1]` to them.

    starts, lengths: `[k]`, where the entries of each begin now, and their number.
    """
    first_entry = np.append(0, np.cumsum(lengths))
    shifts = np.repeat(starts - first_entry[:-1], lengths)
    return first_entry, np.arange(first_entry[-1]) + shifts


def is_deterministic(policy: Array) -> bool:
    """Whether a policy is one choice of each state, `[S]`, and not probabilities `[..., K]`."""
    return bool(np.issubdtype(policy.dtype, np.integer))


@dataclass(frozen=True, eq=False)
class Transitions:
    """Checked rows in their one form, read-only, shared by models that differ in other things."""

    first_choice: Array  # [S + 1] int32
    first_entry: Array  # [K + 1] int32
    successors: Array  # [e] int32
    probabilities: Array  # [e]
    actions: int  # A
    labels: Array | None = None  # [K] int32, the action of each choice; None: 0, 1, ... in a state
    missed: float = 0.0  # how far the sums of rows were from 1 as they came, at most
    horizon: int | None = None  # H, if states are those of the times 0 .. H (`horizon.py`)

    def __post_init__(self) -> None:
        for name in ("first_choice", "first_entry", "successors", "probabilities"):
            getattr(self, name).setflags(write=False)

    @property
    def states(self) -> int:
        """Number of states S."""
        return len(self.first_choice) - 1

    @property
    def choices(self) -> int:
        """Number of choices K."""
        return len(self.first_entry) - 1

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """`(S, A)`, or `(H, S, A)` with a horizon, S then the states of one time."""
        if self.horizon is None:
            return self.states, self.actions
        return self.horizon, self.states // (self.horizon + 1), self.actions

    @cached_property
    def _arrays(self) -> RowArrays:
        pointers = unsigned(self.first_choice), unsigned(self.first_entry)
        return RowArrays(Block(*pointers, unsigned(self.successors), readable(self.probabilities)))

    def rows(self, first: int, last: int) -> Block:
        """The rows of the states `first .. last - 1`, without a copy."""
        return self._arrays.rows(first, last)

    @cached_property
    def order(self) -> Order:
        """The components of the model, and the order in which they are solved."""
        return find_order(self)

    @cached_property
    def in_order(self) -> tuple["Transitions", Array]:
        """The same rows with states numbered in their order, and the choices they have, `[K]`."""
        own, order = renumbered(self, self.order)
        block, labels = own.rows.whole, self.labels
        first_choice, first_entry, successors = (np.array(p, dtype=np.int32) for p in block[:3])
        entries = successors, np.array(block.probabilities)
        bellman.order_rows(first_entry, *entries)
        labels = None if labels is None else labels[own.choices]
        numbers = first_choice, first_entry, *entries, self.actions
        moved = Transitions(*numbers, labels, self.missed)
        lost = None if self.lost is None else self.lost[own.choices]
        moved.__dict__.update(order=order, longest=self.longest, lost=lost)
        return moved, own.choices

    @cached_property
    def is_regular(self) -> bool:
        """Whether every state has all A actions: then `[K]` is `[S, A]`, row after row."""
        return self.choices == self.states * self.actions

    @cached_property
    def lost(self) -> Array | None:
        """`[K]`, the chance that nothing follows a choice; None: rows are whole, or empty."""
        return None

    @cached_property
    def longest(self) -> int:
        """The largest number of successors of any choice."""
        return int(np.diff(self.first_entry).max())

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transition matrix `[K, S]`."""
        entries = self.probabilities, self.successors, self.first_entry
        return sp.csr_array(entries, shape=(self.choices, self.states), copy=False)

    @cached_property
    def tensor(self) -> Array:
        """Dense transitions `[S, A, S]`, zero where there is no choice; only where `is_small`."""
        S, A = self.states, self.actions
        tensor = np.zeros((S * A, S))
        tensor[self.cells] = self.matrix.toarray()
        return tensor.reshape(S, A, S)

    @cached_property
    def hashed(self) -> Any:
        """A hasher that has seen the rows; copy it to go on."""
        hasher = sha256()
        pairs = self.state_of, self.action_of
        lengths = (self.first_entry[1:] - self.first_entry[:-1],)
        for columns in (pairs, lengths, (self.successors,)):
            shape = (len(columns[0]), 2) if len(columns) > 1 else columns[0].shape
            hasher.update(str(shape).encode())
            for i in range(0, len(columns[0]), HASHED):
                parts = [column[i : i + HASHED] for column in columns]
                hasher.update(np.stack(parts, -1, dtype=np.int64).data)
        hash_array(hasher, self.probabilities)
        return hasher

    def __getstate__(self) -> dict[str, Any]:
        """What is copied to another process; a hasher cannot be."""
        return {name: value for name, value in self.__dict__.items() if name != "hashed"}

    @property
    def is_small(self) -> bool:
        """Whether dense linear algebra is the better choice; batches of policies need it."""
        return self.states <= DENSE_STATES and self.states**2 * self.actions <= DENSE_ENTRIES

    @cached_property
    def is_narrow(self) -> bool:
        """Whether it is not small, but LU of every policy stays close enough to the diagonal."""
        if not DENSE_STATES < self.states <= NARROW_STATES:
            return False
        return envelope_work(self.rows(0, self.states), NARROW_WORK) < NARROW_WORK

    @property
    def state_of(self) -> Array:
        """`[K]`: the state of each choice."""
        return self.by_state(np.arange(self.states, dtype=np.int32))

    @property
    def action_of(self) -> Array:
        """`[K]`: the action of each choice."""
        if self.labels is not None:
            return self.labels
        return np.arange(self.choices, dtype=np.int32) - self.by_state(self.first_choice[:-1])

    @property
    def entry_choices(self) -> Array:
        """`[e]`: the choice of each entry."""
        return np.repeat(np.arange(self.choices), np.diff(self.first_entry))

    @cached_property
    def cells(self) -> Array:
        """`[K]`: where each choice stands in a table `[S, A]`, row after row."""
        return self.by_state(self.actions * np.arange(self.states)) + self.action_of

    def as_table(self, numbers: Array) -> Array:
        """Numbers by choice `[..., K]` as a table `[..., S, A]`, 0 where there is no choice."""
        shape = *numbers.shape[:-1], self.states, self.actions
        if self.is_regular:
            return numbers.reshape(shape)
        table = np.zeros((*numbers.shape[:-1], self.states * self.actions), dtype=numbers.dtype)
        table[..., self.cells] = numbers
        return table.reshape(shape)

    def filled(self, numbers: Array) -> Array:
        """The same table, with the number of the state's first choice where there is no choice.

        A policy may then choose any of the A actions in every state; `by_choice` takes it back.
        """
        shape = *numbers.shape[:-1], self.states, self.actions
        return numbers.reshape(shape) if self.is_regular else numbers[..., self._stand_ins]

    def by_choice(self, table: Array) -> Array:
        """A policy `[..., S, A]` by choice, `[..., K]`: the transpose of `filled`.

        A number where there is no choice is added to that of the state's first one.
        """
        flat = table.reshape(*table.shape[:-2], self.states * self.actions)
        if self.is_regular:
            return flat
        numbers = flat[..., self.cells]
        exists = np.zeros(self.states * self.actions, dtype=bool)
        exists[self.cells] = True
        rest = np.where(exists, 0.0, flat).reshape(table.shape).sum(-1)
        numbers[..., self.first_choice[:-1]] += rest
        return numbers

    def mean_by_choice(self, policy: Array, table: Array) -> Array:
        """Rewards `[..., S, A]` by choice, `[..., K]`, so that a policy (a table) earns as much.

        Where several pairs stand for one choice, their mean under the policy.
        """
        if self.is_regular:
            return self.by_choice(table)
        shares = self.by_choice(policy)
        earned, own = self.by_choice(policy * table), self.by_choice(table)
        return np.where(shares > 0, earned / np.where(shares > 0, shares, 1.0), own)

    @cached_property
    def _stand_ins(self) -> Array:
        """`[S, A]`: the choice of each pair, or the state's first one."""
        choices = np.repeat(self.first_choice[:-1], self.actions)
        choices[self.cells] = np.arange(self.choices)
        return choices.reshape(self.states, self.actions)

    def sums(self, numbers: Array) -> Array:
        """Sums over the choices of each state: `[..., K] -> [..., S]`."""
        if self.is_regular:
            return self.as_table(numbers).sum(-1)
        return np.add.reduceat(numbers, self.first_choice[:-1], axis=-1)

    def by_state(self, numbers: Array) -> Array:
        """Numbers by state, `[..., S]`, repeated for each of its choices, `[..., K]`."""
        return numbers.repeat(self.first_choice[1:] - self.first_choice[:-1], axis=-1)

    def under(self, policy: Array, rewards: Array) -> Array:
        """Expected one-step rewards: `[..., K]` -> `[..., S]`.

        policy: probabilities `[..., K]`, or a choice of each state, `[S]` integers.
        """
        if is_deterministic(policy):
            return rewards[..., policy]
        return self.sums(rewards * policy)

    def uniform_policy(self) -> Array:
        """The policy that chooses uniformly among the choices of each state, `[K]`."""
        return self.by_state(1 / np.diff(self.first_choice))

    def deterministic(self, choices: Array) -> Array:
        """A choice of each state, `[S]`, as probabilities `[K]`."""
        policy = np.zeros(self.choices)
        policy[choices] = 1.0
        return policy
