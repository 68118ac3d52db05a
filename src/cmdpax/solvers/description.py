"""What does a model hold, and what is odd about it?

Sizes, components, cycles and reachable states. Of the reward and of each constraint: the numbers
that are paid, and the range of values that policies attain, `min_pi V .. max_pi V`. What one should
know before solving: states that are never reached, limits that every policy keeps, or none does.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cmdpax.exact.standard import StandardForm
from cmdpax.files.written import plain
from cmdpax.model.cmdp import CMDP, check_model
from cmdpax.model.numbers import NEGLIGIBLE
from cmdpax.model.prints import Printed, Rows

ACCURACY = 1e-6  # of attainable ranges, as a share of the range of conceivable values
HUGE, SPREAD = 1e9, 1e9  # numbers, and quotients of numbers, that cost digits


@dataclass(frozen=True)
class Series:
    """The reward or a constraint: what is paid, and what its value can be."""

    name: str
    least: float  # paid by any choice of a reachable state
    most: float
    low: float  # attainable, over all policies
    high: float
    limit: str  # as it was written; empty for the reward


@dataclass(frozen=True)
class Description(Printed):
    """What `describe` says; `odd` has one sentence for everything that is."""

    sizes: dict[str, int | float | str]
    series: tuple[Series, ...]
    odd: tuple[str, ...]
    notes: tuple[str, ...] = ()  # how the model was read

    _title = "model"

    def as_json(self) -> dict[str, Any]:
        """Plain numbers and texts; None for infinite ends."""
        series = [plain(vars(one)) for one in self.series]
        return {**self.sizes, "series": series, "odd": list(self.odd), "notes": list(self.notes)}

    def _rows(self) -> Rows:
        sizes = {name.replace("_", " "): number for name, number in self.sizes.items()}
        head = [(name, one if isinstance(one, str) else f"{one:,}") for name, one in sizes.items()]
        columns = ("", "paid from", "to", "attainable from", "to", "limit")
        table = [
            (one.name, *(f"{x:.6g}" for x in (one.least, one.most, one.low, one.high)), one.limit)
            for one in self.series
        ]
        said = [("note", sentence) for sentence in self.notes]
        return [*head, columns, *table, *(("odd", sentence) for sentence in self.odd), *said]


def describe(model: CMDP) -> Description:
    """Sizes, components, ranges of values and oddities of a model; ranges take 2 (1 + m) plans."""
    check_model(model)
    form, rows = StandardForm.of(model), model.transitions
    sizes, seen = np.diff(rows.order.starts), form.reachable
    counts = np.diff(rows.first_choice)
    entry_states = np.repeat(rows.state_of, np.diff(rows.first_entry))
    stays = np.zeros(model.states, dtype=bool)
    stays[entry_states[rows.successors == entry_states]] = True
    alone = np.zeros(model.states, dtype=bool)
    alone[rows.order.members(0, len(sizes))] = np.repeat(sizes == 1, sizes)
    facts: dict[str, int | float | str] = {
        "states": model.policy_shape[-2],
        **({} if model.horizon is None else {"horizon": model.horizon}),
        "actions": model.actions,
        "choices": model.choices,
        "entries": len(rows.successors),
        "constraints": model.constraint_count,
        "criterion": model.criterion,
        **({} if model.criterion == "average" else {"discount": model.discount}),
        "components": len(sizes),
        "largest_component": int(sizes.max()),
        "states_in_cycles": int((~alone).sum()),
        "states_that_may_stay": int(stays.sum()),
        "reachable_states": int(seen.sum()),
        "states_with_one_choice": int((counts == 1).sum()),
    }
    texts = ("", *model.limits.texts)
    names, numbers = ("reward", *model.constraint_names), (model.reward, *model.constraints)
    series = tuple(_series(form, *one) for one in zip(names, numbers, texts, strict=True))
    return Description(facts, series, tuple(_oddities(model, seen, series)), model.notes)


def _series(form: StandardForm, name: str, numbers: np.ndarray, limit: str) -> Series:
    """What is paid in reachable states, and the least and the largest value of any policy."""
    criterion, cycles = form.criterion, form.criterion.cycles
    if cycles is not None:
        numbers = form.transitions.by_state(form.alive) * numbers[cycles.origin] * ~cycles.settles
    paid = numbers[form.reachable_choices]
    tolerance = ACCURACY * criterion.scale_of(*form.span(numbers))[1]
    low, high = (
        sign * criterion.plan(form, sign * numbers, tolerance=tolerance).value
        if cycles is None or not (sign * numbers[cycles.inner] > 0).any()
        else sign * np.inf  # by going round a cycle
        for sign in (-1.0, 1.0)
    )
    noise = 1e-12 * (high - low)  # infinite beside an infinite end
    low, high = (0.0 if abs(end) <= noise < np.inf else end + 0.0 for end in (low, high))
    return Series(name, float(paid.min()), float(paid.max()), low, high, limit)


def _oddities(model: CMDP, seen: np.ndarray, series: tuple[Series, ...]) -> list[str]:
    """A sentence for everything that a reader should know."""
    rows, odd, S = model.transitions, [], model.policy_shape[-2]
    unseen = np.flatnonzero(~seen.reshape(-1, S).any(0))  # at no time
    if unseen.size:
        first = model.state_names[unseen[0]] if model.state_names else unseen[0]
        several = f"{unseen.size:,} states are never reached, the first is {first}"
        odd.append(several if unseen.size > 1 else f"state {first} is never reached")
    if (np.diff(rows.first_choice) == 1).all():
        odd.append("no state has a choice: there is one policy")
    if rows.missed > NEGLIGIBLE:
        odd.append(f"rows missed a sum of 1 by up to {rows.missed:.2g}; they were divided by it")
    for one, limit in zip(series, (None, *model.limits.bounds), strict=True):
        size = max(abs(one.least), abs(one.most))
        if one.least == one.most:
            odd.append(f"{one.name}: every choice pays {one.least:g}")
        if size > HUGE or (one.most > one.least and size > SPREAD * (one.most - one.least)):
            odd.append(f"{one.name}: numbers up to {size:.3g} cost digits; rescale or shift it")
        if limit is None:
            continue
        low, high = limit
        margin = ACCURACY * (one.high - one.low)
        if low > one.high + margin or high < one.low - margin:
            odd.append(f"{one.name}: no policy keeps {one.limit}")
        elif low <= one.low and high >= one.high:
            odd.append(f"{one.name}: every policy keeps {one.limit}")
    return odd
