"""Many models one after another: scenarios of a reward, of budgets, of chances.

Small models of one shape (states, choices, rows of constraints) are solved by the key simplex in
one compiled loop over stacked arrays, each from the prices and the plan of the one before, and
certified together: the same potentials, the same bounds and the same tolerances as in `solve`, with
a leading axis n. Whatever is not of that kind, or is not certified there (a model without a
feasible policy, say), goes through the door by itself, from the result before it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, Result
from cmdpax.solvers.solve import check_limits, solve
from cmdpax.solvers.vertices import certified_vertices, has_vertex
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
    check_limits(eps, callback)
    results: list[Result | None] = [None] * len(listed)
    done = 0
    with Stopper() as stop:
        for numbers in _batches(listed):
            own = [listed[i] for i in numbers]
            solved = certified_vertices(own, eps) if has_vertex(own[0]) else [None] * len(own)
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


def _batches(models: list[CMDP]) -> Iterator[list[int]]:
    """Numbers of models, those of one shape together."""
    groups: dict[Any, list[int]] = {}
    for i, model in enumerate(models):
        shape = model.states, model.choices, len(model.limits), model.limits.row_count
        groups.setdefault(shape if has_vertex(model) else "alone", []).append(i)
    for numbers in groups.values():
        for first in range(0, len(numbers), TOGETHER):
            yield numbers[first : first + TOGETHER]
