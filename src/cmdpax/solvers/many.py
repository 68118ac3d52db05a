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
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_number
from cmdpax.exact.stack import Stack, is_plain
from cmdpax.exact.standard import said_back
from cmdpax.lagrangian import violation
from cmdpax.loops import pivots, scenarios
from cmdpax.loops.compiled import readable
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
    A]`, `constraints [n, m, S, A]` or `transitions [n, S, A, S]`; model i has row i of each. eps:
    as in `solve`. callback: sees a row with `done`, `models` and `status` for every result. Ctrl-C
    ends it.
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
    """Whether the compiled loop is for such models."""
    return is_plain(model) and model.states <= ALONE


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
    """Models of one shape, and how accurately they are solved."""

    models: list[CMDP]
    eps: float

    def results(self) -> list[Result | None]:
        """A certified result for each model, or None."""
        started, stack = time.perf_counter(), Stack(self.models)
        bounds, range_potentials, is_settled = stack.ranges
        if not is_settled:
            return [None] * len(self.models)
        tolerances, is_usual = stack.tolerances(self.eps)
        units = np.where(tolerances > 0, tolerances, 1.0) / self.eps
        optima = self._optima(stack, units)
        whys, policies, prices, choices, dual, values, pivoted, points, counts = optima
        weights = prices * units[:, :1] / units[:, 1:]
        is_usual &= whys == pivots.OPTIMAL
        proofs = stack.proofs(policies, weights, choices)
        ends, rooms, uppers, value_potentials, dual_potentials = proofs
        gaps = (uppers - ends[:, 0, 0]) / units[:, 0]
        lacks = np.maximum(-rooms[..., 0], 0) / units[:, 1:]
        is_usual &= np.maximum(gaps, lacks.max(1)) <= self.eps
        seconds = (time.perf_counter() - started) / len(self.models)
        off = ACCURACY * self.eps * units
        said = points * units[:, None] - off[:, None]
        said[..., 0] += np.array([[float(rest[0])] for rest in stack.rests])
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

    def _optima(self, stack: Stack, units: np.ndarray) -> tuple[np.ndarray, ...]:
        """The vertices of the scaled forms, as `scenarios.optima` gives them."""
        (n, c, K), S = stack.functions.shape, stack.initial.shape[1]
        m, (arrays, thresholds) = c - 1, stack.scaled(units)
        allowed, count = MISSED * self.eps, 1 + max(m, K - S)
        limits = np.empty((n, 4))
        limits[:, 0], limits[:, 1], limits[:, 2] = allowed, allowed * stack.mass, MAX_PIVOTS
        limits[:, 3] = LOWERED * self.eps / stack.mass
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
        choices[:] = stack.rows.first_choice[:, :-1]
        out[1][np.arange(n)[:, None], choices] = 1.0
        reward, rewards = np.empty(K), np.empty((c, K))
        scenarios.optima(
            stack.kernel,
            stack.owner,
            stack.initial,
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
