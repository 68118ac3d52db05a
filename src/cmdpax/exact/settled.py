"""The chain of one policy in the long run: where it settles, and what it earns there.

A policy that settles in one class of states is evaluated between visits to one of them, i: with R
and T the rewards and the steps until then, the gain is `g = R(i) / T(i)`, and `h = R - g T` has
`x + P h - h = g`. In small models h is a sum of two vectors: one has too few digits where steps are
rare.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cmdpax.exact.endings import Array
from cmdpax.exact.systems import Chain, Rare
from cmdpax.loops import bellman, rare
from cmdpax.loops.components import Order
from cmdpax.loops.rows import Matrix
from cmdpax.model.transitions import Transitions

LEAK = 1e-4  # 1 - gamma of discounted plans and chains that stand for the long run
LARGEST_BIAS = 1e8  # h beyond so many rewards costs too many digits
REFINEMENTS = 3  # of h in two vectors


@dataclass(frozen=True, eq=False)
class Settled:
    """The chain of one policy: where it settles, and how it gets there."""

    order: Order
    matrix: Matrix  # P_pi [S, S]
    label: Array  # [S]: the recurrent class of each state; -1: none
    is_settled: Array  # [S] booleans
    is_small: bool

    @staticmethod
    def of(rows: Transitions, policy: Array) -> "Settled":
        """The chain of a policy `[K]`, or of choices `[S]`."""
        matrix = bellman.policy_rows(rows, policy)
        links = matrix.matrix.tocoo()
        label = connected_components(links.tocsr(), connection="strong")[1]
        leaves = np.zeros(int(label.max()) + 1, dtype=bool)
        row, column = links.coords
        crossing = label[row] != label[column]
        leaves[label[row[crossing]]] = True
        label = np.where(leaves[label], -1, label)
        return Settled(rows.order, matrix, label, label >= 0, rows.is_small)

    def visits(self, initial: Array) -> Array:
        """Expected visits `[S]` from `initial [S]` until a class is entered, its entry included."""
        visits = self._leading().solve(initial[None])[0] if self._leads else initial
        return np.maximum(visits, 0.0)

    def chances(self, initial: Array) -> Array:
        """The chance `[S]` that a run from `initial [S]` ends up in the class of each state."""
        own, entered = self.is_settled, self.visits(initial)
        masses = np.bincount(self.label[own], weights=entered[own], minlength=len(own))
        return np.where(own, masses[self.label], 0.0)

    @property
    def _leads(self) -> bool:
        return not bool(self.is_settled.all())

    def _leading(self, transpose: bool = True) -> Chain | Rare:
        """`I - P` without what follows a class."""
        rows, own = self.matrix.matrix, self.is_settled
        if self.is_small:
            return Rare(rows.toarray() * ~own[:, None], own.astype(float), transpose)
        return self._cut(sp.csr_array(_mask(~own) @ rows), transpose)

    @cached_property
    def returns(self) -> Array:
        """`[S]` booleans: one state of each class, where a run often is."""
        if self.is_small:
            usual = self._shares
        else:
            chain = Chain(self.matrix, 1 - LEAK, self.order, True, True)
            usual = np.maximum(chain.solve(np.full((1, len(self.label)), LEAK), 1e-3)[0], 0.0)
        order = np.lexsort((usual, self.label))
        last = np.append(self.label[order][1:] != self.label[order][:-1], True)
        chosen = order[last & (self.label[order] >= 0)]
        return np.isin(np.arange(len(self.label)), chosen)

    @cached_property
    def _shares(self) -> Array:
        """Shares of the time of a class `[S]`, of a small chain."""
        shares, moves = np.zeros(len(self.label)), self.matrix.matrix.toarray()
        for one in np.unique(self.label[self.is_settled]):
            own = np.flatnonzero(self.label == one)
            shares[own] = rare.stationary(moves[np.ix_(own, own)])
        return shares

    def _cycle(self, transpose: bool) -> Chain | Rare:
        """`I - P` without what leads back to those states."""
        if self.is_small:
            moves = self.matrix.matrix.toarray()
            return Rare(moves * ~self.returns, moves[:, self.returns].sum(1), transpose)
        return self._cut(sp.csr_array(self.matrix.matrix @ _mask(~self.returns)), transpose)

    def _cut(self, rows: sp.csr_array, transpose: bool) -> Chain:
        rows.eliminate_zeros()
        return Chain(Matrix.of(rows), 1.0, self.order, transpose, False)

    def long_run(self, entered: Array) -> Array:
        """Shares of time `[S]` for classes that are entered with `entered [S]`."""
        own, size = self.is_settled, len(self.label)
        if self.is_small:
            visits = self._shares
        else:
            visits = np.maximum(self._cycle(True).solve(self.returns[None].astype(float))[0], 0.0)
        all_visits, masses = (
            np.bincount(self.label[own], weights=one[own], minlength=size)
            for one in (visits, entered)
        )
        shares = masses / np.where(all_visits > 0, all_visits, 1.0)
        return np.where(own, visits * shares[self.label], 0.0)

    def evaluated(self, paid: Array) -> tuple[Array, Array, Array]:
        """Gains, h and its further digits, of rewards `[k, S]`, all `[k, S]`.

        A gain is one number in each class, and what is expected of it before. h is that of states
        that lead to one class only.
        """
        own = self.is_settled
        if self.is_small:
            return self._evaluated_with_digits(paid)
        *sums, steps = self._cycle(False).solve(np.vstack([paid, np.ones((1, len(own)))]))
        at, size = np.flatnonzero(self.returns), len(self.label)
        ends, one_each = np.zeros((len(paid), size)), np.zeros((len(paid), size))
        for row, total, end in zip(range(len(paid)), sums, ends):
            one_each[row, self.label[at]] = total[at] / steps[at]
            end[own] = one_each[row, self.label[own]]
        gains = np.where(own, ends, self._leading(False).solve(ends)) if self._leads else ends
        with np.errstate(invalid="ignore", over="ignore"):  # steps beyond all numbers
            bias = np.where(self.returns, 0.0, np.stack(sums) - gains * steps)
        return gains, bias, np.zeros_like(bias)

    def _evaluated_with_digits(self, paid: Array) -> tuple[Array, Array, Array]:
        """The same of a small chain: h is refined until rounding of `x + P h - h` is all."""
        own, moves, gains = self.is_settled, self.matrix.matrix.toarray(), np.zeros_like(paid)
        for one in np.unique(self.label[own]):
            inside = self.label == one
            gains[:, inside] = (self._shares * paid)[:, inside].sum(1, keepdims=True)
        if self._leads:
            gains = np.where(own, gains, self._leading(False).solve(gains))
        cycle, bias, tails = self._cycle(False), np.zeros_like(paid), np.zeros_like(paid)
        with np.errstate(invalid="ignore", over="ignore"):  # steps beyond all numbers
            for _ in range(1 + REFINEMENTS):
                steps = bias[:, None, :] - bias[..., None]  # [k, S, S]
                steps = steps + (tails[:, None, :] - tails[..., None])
                left = paid - gains + (moves * steps).sum(-1)
                added = tails + np.where(self.returns, 0.0, cycle.solve(left))
                total = bias + added
                bias, tails = total, added - (total - bias)
        return gains, bias, tails

    def is_sound(self, paid: Array) -> bool:
        """Whether h of a reward `[S]` leaves digits: else it takes for ever to cross the class."""
        bias = self.evaluated(paid[None])[1][0][self.is_settled]
        most = LARGEST_BIAS * max(float(np.abs(paid).max()), np.finfo(float).tiny)
        return bool(np.isfinite(bias).all() and np.abs(bias).max() <= most)

    def steps(self) -> Array:
        """Expected moves to other states until a class is entered, `[S]`."""
        own = np.arange(len(self.label))
        leads = leaving(self.matrix.matrix, own) * ~self.is_settled
        return self._leading(False).solve(leads[None])[0] if self._leads else leads


def leaving(rows: sp.csr_array, owner: Array) -> Array:
    """The chance `[n]` that each of the rows `[n, S]` leads to a state other than its owner."""
    entries = rows.tocoo()
    row, column = entries.coords
    away = owner[row] != column
    return np.bincount(row[away], weights=entries.data[away], minlength=rows.shape[0])


def _mask(kept: Array) -> sp.dia_array:
    """A diagonal matrix that keeps rows or columns."""
    return sp.diags_array(kept.astype(float))
