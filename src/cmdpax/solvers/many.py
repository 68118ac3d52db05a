"""Many models one after another: scenarios of a reward, of budgets, of chances.

Small models of one shape (states, choices, rows of constraints) are solved by the key simplex in
one compiled loop over stacked arrays, each from the prices and the plan of the one before, and
certified together: the same potentials, the same bounds and the same tolerances as in `solve`, with
a leading axis n. Whatever is not of that kind, or is not certified there (a model without a
feasible policy, say), goes through the door by itself, from the result before it.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_number
from cmdpax.exact.bounds import rounded_outwards
from cmdpax.exact.discounted import FAR
from cmdpax.exact.ranges import EXACT, NARROW, ROUGH, tolerances_of
from cmdpax.exact.standard import SHORT, said_back
from cmdpax.lagrangian import violation
from cmdpax.loops import bellman, pivots, scenarios
from cmdpax.loops.compiled import readable, unsigned
from cmdpax.loops.rows import Block
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, Certificate, Result
from cmdpax.solvers.key_simplex import ALONE, LOWERED, MAX_PIVOTS, MISSED, SWAPS
from cmdpax.solvers.solve import ACCURACY, KEY, solve
from cmdpax.stopping import Stopper

TOGETHER = 256  # models in one call, at the most: what is kept for each grows with K - S


def solve_many(
    models: CMDP | Sequence[CMDP],
    *,
    eps: float = 1e-6,
    callback: Callback | None = None,
    **changes: Any,
) -> list[Result]:
    """Solve many models, each certified as by `solve` -> a result for each, in their order.

    models: a sequence of models; they may differ in everything, but those that resemble each other
    should be neighbours: each starts from the one before. Or one model, and `changes`: fields as
    `CMDP.replace` takes them, with an axis n in front, such as `thresholds [n, m]`, `reward [n, S,
    A]`, `constraints [n, m, S, A]` or `transitions [n, S, A, S]`; model i has row i of each. eps: as
    in `solve`. callback: sees a row with `done`, `models` and `status` for every result. Ctrl-C ends
    it.
    """
    listed = _listed(models, changes)
    check_number("eps", eps, above=0, below=1)
    results: list[Result | None] = [None] * len(listed)
    done = 0
    with Stopper() as stop:
        for numbers in _batches(listed):
            own = [listed[i] for i in numbers]
            solved = _Batch(own, eps).results() if _is_plain(own[0]) else [None] * len(own)
            for i, result in zip(numbers, solved):
                if result is None:
                    result = _alone(i, listed, results, eps)
                results[i], done = result, done + 1
                if callback is not None:
                    callback({"done": done, "models": len(listed), "status": result.status})
            if stop():
                raise KeyboardInterrupt
    return [result for result in results if result is not None]


def _listed(models: Any, changes: dict[str, Any]) -> list[CMDP]:
    """The models, or those that changes of one model make."""
    if isinstance(models, CMDP):
        if not changes:
            raise InputError(
                "solve_many: one model is given and nothing changes; give a list of models, or"
                " fields with an axis in front, for example thresholds=[[1], [2]]."
            )
        lengths = {name: len(_stack(name, stack)) for name, stack in changes.items()}
        if len(set(lengths.values())) > 1:
            said = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InputError(f"solve_many: as many rows of each field are needed, not {said}.")
        made = []
        for i in range(next(iter(lengths.values()))):
            try:
                made.append(models.replace(**{name: stack[i] for name, stack in changes.items()}))
            except InputError as error:
                raise InputError(f"model {i}: {error}") from None
        return made
    if changes:
        raise InputError(
            f"solve_many: {', '.join(changes)} are for one model; a list of models has its own."
        )
    if isinstance(models, (str, bytes)) or not hasattr(models, "__iter__"):
        raise InputError(f"models: a list of CMDPs is needed, not {type(models).__name__}.")
    listed = list(models)
    for i, model in enumerate(listed):
        if not isinstance(model, CMDP):
            raise InputError(f"model {i}: a CMDP is needed, not {type(model).__name__}.")
    return listed


def _stack(name: str, stack: Any) -> Any:
    if isinstance(stack, (str, bytes)) or not hasattr(stack, "__len__"):
        raise InputError(f"{name}: it needs an axis in front, one entry for each model.")
    return stack


def _alone(i: int, models: list[CMDP], results: list[Result | None], eps: float) -> Result:
    """Model i through the door, from the result before it where that fits."""
    start = results[i - 1] if i and _fits(models[i - 1], models[i]) else None
    try:
        return solve(models[i], eps=eps, start=start)
    except InputError as error:
        raise InputError(f"model {i}: {error}") from None


def _fits(one: CMDP, other: CMDP) -> bool:
    """Whether a result of one model may start another."""
    is_alike = np.array_equal(one.first_choice, other.first_choice)
    is_alike &= np.array_equal(one.transitions.action_of, other.transitions.action_of)
    return is_alike and one.constraint_names == other.constraint_names


def _is_plain(model: CMDP) -> bool:
    """Whether the compiled loop is for such models: small, discounted, with constraints."""
    is_discounted = model.criterion == "discounted" and 1 - model.discount >= SHORT
    is_small = model.transitions.is_small and model.states <= ALONE
    return is_discounted and model.horizon is None and is_small and model.constraint_count > 0


def _batches(models: list[CMDP]) -> Iterator[list[int]]:
    """Numbers of models, those of one shape together."""
    groups: dict[Any, list[int]] = {}
    for i, model in enumerate(models):
        shape = model.states, model.choices, len(model.limits.rows)
        groups.setdefault(shape if _is_plain(model) else "alone", []).append(i)
    for numbers in groups.values():
        for first in range(0, len(numbers), TOGETHER):
            yield numbers[first : first + TOGETHER]


@dataclass
class _Batch:
    """n small discounted models with S states, K choices and m rows of constraints each."""

    models: list[CMDP]
    eps: float

    def __post_init__(self) -> None:
        self.started = time.perf_counter()
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

    def results(self) -> list[Result | None]:
        """A certified result for each model, or None."""
        centred = self.functions - self.constants[..., None]
        sizes = np.abs(centred)
        bounds, range_potentials, is_settled = self._ranges(centred, sizes)
        if not is_settled:
            return [None] * len(self.models)
        low, high = self.span
        largest = np.maximum(-low, high)
        constants = np.array([[float(rest) for rest in own] for own in self.rests])
        compared = np.stack([model.limits.compared for model in self.models])
        tolerances = tolerances_of(bounds, constants, largest, self.eps, compared)
        is_usual = self.discount ** self.steps.max(1) > FAR  # no gauge is needed
        is_usual &= (tolerances > 0).all(1)
        width = np.where(high > low, high - low, 1.0) / (1 - self.discount)[:, None]
        is_narrow = (low < 0) & (high > 0) & (np.ptp(bounds, -1) <= NARROW * width)
        is_usual &= ~is_narrow.any(1)
        units = tolerances / self.eps
        whys, policies, prices, choices, dual, values, pivoted, points, counts = self._optima(units)
        weights = prices * units[:, :1] / units[:, 1:]
        is_usual &= whys == pivots.OPTIMAL
        ends, rooms, uppers, value_potentials, dual_potentials = self._proofs(
            centred, sizes, policies, weights, choices
        )
        gaps = (uppers - ends[:, 0, 0]) / units[:, 0]
        lacks = np.maximum(-rooms[..., 0], 0) / units[:, 1:]
        is_usual &= np.maximum(gaps, lacks.max(1)) <= self.eps
        seconds = (time.perf_counter() - self.started) / len(self.models)
        off = ACCURACY * self.eps * units
        said = points * units[:, None] - off[:, None]
        said[..., 0] += (low[:, 0] / (1 - self.discount))[:, None]
        errors = np.stack([dual - values[:, 0], *np.maximum(-values[:, 1:], 0).T], 1)
        results: list[Result | None] = []
        for n, model in enumerate(self.models):
            if not is_usual[n]:
                results.append(None)
                continue
            proof = Certificate(
                reward_bounds=(float(ends[n, 0, 0]), float(ends[n, 0, 1])),
                margin_bounds=rooms[n],
                dual_bound=float(uppers[n]),
                weights=weights[n],
                value_potentials=value_potentials[n],
                dual_potential=dual_potentials[n, 0],
                ranges=bounds[n],
                range_potentials=range_potentials[n],
            )
            limits, gap = model.limits, float(errors[n, 0])
            first = limits.first_rows
            row = {
                "outer": 1,
                "evaluations": int(pivoted[n]),
                "gap": gap * units[n, 0],
                "violation": float(violation(values[n, 1:] * units[n, 1:])),
                "scaled_gap": gap,
                "scaled_violation": float(errors[n, 1:].max()),
                "seconds": seconds,
            }
            results.append(
                Result.of(
                    model,
                    ((1.0, policies[n]),),
                    said_back(model, proof),
                    status="certified",
                    method=KEY,
                    eps=self.eps,
                    values=limits.signs[first] * ends[n, 1:].mean(1)[first] + 0.0,
                    scaled_gap=float(gaps[n]),
                    scaled_violation=float(lacks[n].max()),
                    trace=[row],
                    seconds=seconds,
                    points=said[n, : counts[n]],
                    notes=model.notes,
                )
            )
        return results

    def _ranges(
        self, centred: np.ndarray, sizes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, bool]:
        """Attained ranges `[n, 1 + m, 2]`, their potentials `[n, 1 + m, 2, S]`, if plans settled."""
        n, c, K = centred.shape
        S = self.initial.shape[1]
        both, potentials = np.stack([-centred, centred], 2), np.empty((n, c, 2, S))
        both = readable(both)
        kind = self.initial, self.discount / (1 - self.discount), self.reachable
        rough = 0.0 if S <= EXACT else ROUGH
        is_settled = scenarios.ranges(self.kernel, both, *kind, True, rough, potentials)
        flat = both.reshape(n, 2 * c, K), np.repeat(sizes, 2, 1), potentials.reshape(n, 2 * c, S)
        ends = self._extremes(*flat)
        rests = np.array(
            [[sign * float(one) for one in own for sign in (-1, 1)] for own in self.rests]
        )
        low = self._widened(ends, potentials.reshape(n, 2 * c, S), rests)[..., 0]
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
        own = np.flatnonzero(self.initial.any(0))
        return rounded_outwards(self.initial[:, own], potentials[..., own], ends, rests)

    def _optima(self, units: np.ndarray) -> tuple[np.ndarray, ...]:
        """The vertices of the scaled forms, as `scenarios.optima` gives them."""
        n, c, K = self.functions.shape
        S, m, (low, high) = self.initial.shape[1], c - 1, self.span
        arrays = self.functions - low[..., None]
        arrays /= units[..., None]
        np.clip(arrays, 0.0, ((high - low) / units)[..., None], out=arrays)
        mass = 1 / (1 - self.discount)
        thresholds = (self.thresholds - low[:, 1:] * mass[:, None]) / units[:, 1:]
        allowed, count = MISSED * self.eps, 1 + max(m, K - S)
        limits = np.empty((n, 4))
        limits[:, 0], limits[:, 1], limits[:, 2] = allowed, allowed * mass, MAX_PIVOTS
        limits[:, 3] = LOWERED * self.eps * (1 - self.discount)
        out = (
            np.empty(n, np.int64),
            np.zeros((n, K)),
            np.zeros((n, m)),
            np.zeros((n, S), np.int64),
            np.zeros(n),
            np.zeros((n, c)),
            np.zeros(n, np.int64),
            np.zeros((n, count, c)),
            np.zeros(n, np.int64),
        )
        choices = out[3]
        choices[:] = self.rows.first_choice[:, :-1]
        out[1][np.arange(n)[:, None], choices] = 1.0
        reward, rewards = np.empty(K), np.empty((c, K))
        scenarios.optima(
            self.kernel,
            self.owner,
            self.initial,
            readable(arrays),
            readable(thresholds),
            units,
            np.random.default_rng(0).random(K),
            limits,
            pivots.empty_basis(S, K, m, SWAPS),
            (reward, readable(reward), rewards, readable(rewards)),
            out,
        )
        return out

    def _proofs(
        self,
        centred: np.ndarray,
        sizes: np.ndarray,
        policies: np.ndarray,
        weights: np.ndarray,
        choices: np.ndarray,
    ) -> tuple[np.ndarray, ...]:
        """Bounds on values `[n, 1 + m, 2]` and on margins `[n, m, 2]`, upper bounds on the optimum.

        And their potentials, `[n, 1 + m, S]` and `[n, 1, S]`. weights: prices `[n, m]` in own units.
        """
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
            worth = (Fraction(w) * one for w, one in zip(prices, room) if w)
            totals[i] = float(sum(worth, own[0]))
        bounds = self._widened(ends, potentials, rests)
        margins = self._widened(ends[:, 1:], potentials[:, 1:], rooms)
        uppers = self._widened(upper_ends, dual_potentials, totals)[:, 0, 1]
        return bounds, margins, uppers, potentials, dual_potentials
