"""Many small discounted models of one shape, with a leading axis n: ranges, scales and proofs.

What `standard`, `ranges` and `certificate` do for one form, with the same formulas for bounds
(`rounded_outwards`) and tolerances (`tolerances_of`), for n forms in one call each.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from cmdpax.exact.bounds import UNIT_ROUNDING, rounded_outwards
from cmdpax.exact.discounted import FAR
from cmdpax.exact.ranges import EXACT, NARROW, ROUGH, tolerances_of
from cmdpax.exact.standard import SHORT, less_values
from cmdpax.loops import bellman, scenarios
from cmdpax.loops.compiled import readable, unsigned
from cmdpax.loops.rows import Block
from cmdpax.model.cmdp import CMDP


def is_plain(model: CMDP) -> bool:
    """Whether a model may be in a stack: small, discounted, with constraints."""
    is_discounted = model.criterion == "discounted" and 1 - model.discount >= SHORT
    is_small = model.transitions.is_small and model.horizon is None
    is_small &= model.transitions.lost is None
    return is_discounted and is_small and model.constraint_count > 0


@dataclass
class Stack:
    """n plain models with S states, K choices and m rows of constraints each."""

    models: Sequence[CMDP]

    def __post_init__(self) -> None:
        models, rows = self.models, [model.transitions for model in self.models]
        longest = max(len(own.successors) for own in rows)
        shape = len(rows), longest
        successors, chances = np.zeros(shape, np.uint32), np.zeros(shape)
        for i, own in enumerate(rows):
            successors[i, : len(own.successors)] = own.successors
            chances[i, : len(own.successors)] = own.probabilities
        first_choice = unsigned(np.stack([own.first_choice for own in rows]))
        first_entry = unsigned(np.stack([own.first_entry for own in rows]))
        self.rows = Block(first_choice, first_entry, readable(successors), readable(chances))
        self.discount = np.array([model.discount for model in models])
        kernel_chances = readable(self.discount[:, None] * chances)
        self.kernel = self.rows._replace(probabilities=kernel_chances)
        self.initial = readable(np.stack([model.initial for model in models]))
        self.thresholds = np.stack([model.limits.row_thresholds for model in models])
        self.functions = np.stack(
            [
                np.vstack(
                    [
                        -model.reward + 0.0 if model.minimise else model.reward,
                        model.limits.turn(model.constraints, axis=0),
                    ]
                )
                for model in models
            ]
        )  # [n, 1 + m, K]
        self.owner = readable(np.stack([own.state_of for own in rows]).astype(np.int64))
        self.steps = np.where(self.initial > 0, 0, -1)
        scenarios.distances(*self.rows[:3], self.steps)
        self.reachable = readable(self.steps >= 0)
        self.rounding = np.array([bellman.ratio_rounding(own.longest) for own in rows])

    @cached_property
    def span(self) -> np.ndarray:
        """The least and the largest number of reachable choices, `[2, n, 1 + m]`."""
        seen = np.take_along_axis(self.reachable, self.owner, 1)[:, None]
        least = np.where(seen, self.functions, np.inf).min(-1)
        return np.stack([least, np.where(seen, self.functions, -np.inf).max(-1)])

    @cached_property
    def constants(self) -> np.ndarray:
        """What is taken out of each function (`Discounted.constant`), `[n, 1 + m]`."""
        low, high = self.span
        middle = low / 2 + high / 2
        return np.where(np.abs(middle) > high - low, middle, 0.0)

    @cached_property
    def rests(self) -> list[list[Fraction]]:
        """Values of those constants, exact; n lists of 1 + m."""
        rests = [[Fraction(0)] * self.constants.shape[1] for _ in self.models]
        for n, i in np.argwhere(self.constants).tolist():
            total = 1 / (1 - Fraction(self.models[n].discount))
            rests[n][i] = Fraction(float(self.constants[n, i])) * total
        return rests

    @cached_property
    def mass(self) -> np.ndarray:
        """`1 / (1 - gamma)`, `[n]`."""
        return 1 / (1 - self.discount)

    @cached_property
    def centred(self) -> np.ndarray:
        """Functions less their constants, `[n, 1 + m, K]`."""
        return self.functions - self.constants[..., None]

    @cached_property
    def sizes(self) -> np.ndarray:
        """Their absolute values."""
        return np.abs(self.centred)

    @cached_property
    def ranges(self) -> tuple[np.ndarray, np.ndarray, bool]:
        """Attained ranges `[n, 1 + m, 2]`, potentials `[n, 1 + m, 2, S]`, if all plans settled."""
        n, c, K = self.centred.shape
        S = self.initial.shape[1]
        both, potentials = np.stack([-self.centred, self.centred], 2), np.empty((n, c, 2, S))
        both = readable(both)
        kind = self.initial, self.discount / (1 - self.discount), self.reachable
        rough = 0.0 if S <= EXACT else ROUGH
        is_settled = scenarios.ranges(self.kernel, both, *kind, True, rough, potentials)
        flat = potentials.reshape(n, 2 * c, S)
        ends = self._extremes(both.reshape(n, 2 * c, K), np.repeat(self.sizes, 2, 1), flat)
        rests = np.array(
            [[sign * float(one) for one in own for sign in (-1, 1)] for own in self.rests]
        )
        low = self._widened(ends, flat, rests)[..., 0]
        return low.reshape(n, c, 2) * np.array([-1.0, 1.0]) + 0.0, potentials, bool(is_settled)

    def _extremes(
        self,
        rewards: np.ndarray,
        sizes: np.ndarray,
        potentials: np.ndarray,
        policies: np.ndarray | None = None,
    ) -> np.ndarray:
        """The least and the largest ratio of reachable states for k functions, `[n, k, 2]`."""
        shares = np.empty((len(rewards), 0)) if policies is None else policies
        arrays = [readable(array) for array in (rewards, sizes, potentials, shares)]
        ends, kind = np.empty((*rewards.shape[:2], 2)), (self.discount, self.rounding)
        scenarios.all_extremes(self.rows, *arrays, *kind, self.reachable, ends)
        return ends

    def _widened(self, ends: np.ndarray, potentials: np.ndarray, rests: np.ndarray) -> np.ndarray:
        """`rho.V + ends + rest` with rounding, `[n, k, 2]`."""
        own, chances, count = self.start
        return rounded_outwards(chances, count, potentials[..., own], ends, rests)

    @cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """As `StandardForm.start`: states, chances `[n, k]` and counts of roundings `[n, 1, 1]`."""
        own = np.flatnonzero(self.initial.any(0))
        chances = self.initial[:, own]
        missed = np.array([abs(math.fsum(one) - 1) for one in chances])
        count = len(own) + 8 + missed / UNIT_ROUNDING
        return own, chances, count[:, None, None]

    def tolerances(self, eps: float) -> tuple[np.ndarray, np.ndarray]:
        """What gaps and violations may be `[n, 1 + m]`, and where nothing is unusual, `[n]`.

        Unusual are models that need a gauge, a floor of tolerances, or have none.
        """
        (low, high), bounds = self.span, self.ranges[0]
        constants = np.array([[float(rest) for rest in own] for own in self.rests])
        compared = np.stack([model.limits.compared for model in self.models])
        kind = constants, np.maximum(-low, high), eps, compared
        tolerances = tolerances_of(bounds, *kind)
        is_usual = self.discount ** self.steps.max(1) > FAR
        is_usual &= (tolerances > 0).all(1)
        width = np.where(high > low, high - low, 1.0) * self.mass[:, None]
        is_narrow = (low < 0) & (high > 0) & (np.ptp(bounds, -1) <= NARROW * width)
        return tolerances, is_usual & ~is_narrow.any(1)

    def scaled(self, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Functions `[n, 1 + m, K]` and thresholds `[n, m]` in units `[n, 1 + m]`."""
        low, high = ((end - self.constants) / units for end in self.span)
        arrays = np.clip(self.centred / units[..., None], low[..., None], high[..., None])
        pairs = zip(self.thresholds, self.rests, strict=True)
        return arrays, np.stack([less_values(own, rest[1:]) for own, rest in pairs]) / units[:, 1:]

    def proofs(
        self,
        policies: np.ndarray,
        weights: np.ndarray,
        choices: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """Bounds on values `[n, 1 + m, 2]` and on margins `[n, m, 2]`, upper bounds on the optimum.

        And their potentials, `[n, 1 + m, S]` and `[n, 1, S]`. weights: prices `[n, m]`, unscaled.
        """
        centred, sizes = self.centred, self.sizes
        n, c, K = centred.shape
        S = self.initial.shape[1]
        priced = np.insert(weights, 0, 1.0, axis=1)[..., None]
        mixed = np.stack([(priced * centred).sum(1), (c + 1) * (priced * sizes).sum(1)], 1)
        potentials, dual_potentials = np.empty((n, c, S)), np.empty((n, 1, S))
        plans = np.zeros((n, K))
        np.put_along_axis(plans, choices, 1.0, 1)
        for what, policy, values in (
            (centred, policies, potentials),
            (mixed[:, :1], plans, dual_potentials),
        ):
            kind = readable(what), readable(policy), self.reachable
            scenarios.policy_values(self.kernel, *kind, values)
        ends = self._extremes(centred, sizes, potentials, policies)
        upper_ends = self._extremes(mixed[:, :1], mixed[:, 1:], dual_potentials)
        rests, rooms, totals = np.empty((n, c)), np.empty((n, c - 1)), np.empty((n, 1))
        for i, (own, thresholds, prices) in enumerate(
            zip(self.rests, self.thresholds.tolist(), weights.tolist(), strict=True)
        ):
            room = [rest - Fraction(b) for rest, b in zip(own[1:], thresholds)]
            rests[i], rooms[i] = [float(one) for one in own], [float(one) for one in room]
            priced_rooms = (Fraction(w) * one for w, one in zip(prices, room) if w)
            totals[i] = float(sum(priced_rooms, own[0]))
        bounds = self._widened(ends, potentials, rests)
        margins = self._widened(ends[:, 1:], potentials[:, 1:], rooms)
        uppers = self._widened(upper_ends, dual_potentials, totals)[:, 0, 1]
        return bounds, margins, uppers, potentials, dual_potentials
