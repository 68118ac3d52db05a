"""How much can policies change a value? What `eps` is a share of.

    range_x = max_pi V_x - min_pi V_x,   tolerance_x = max(eps range_x, 1e-10 size_x).

Both ends are attained: a potential V proves that the policy which is greedy for it has at least
`rho.V + rho.u min d/g` (`bounds.py`). So a range is never overstated, and rough plans will do. The
size, the largest of |low|, |high|, |b| and, where terms cancel, the value of |x| under the answer's
own policy, is a floor for what no policy can change. All are less the value of a constant in x,
which no policy can change either; it counts by its last digits alone.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax.exact.bounds import best_bounds, claim
from cmdpax.exact.standard import StandardForm
from cmdpax.exact.systems import ill_conditioned
from cmdpax.model.result import DIGITS, FLOOR, LARGEST_STEP, TINIEST
from cmdpax.stopping import Stop, never

ROUGH = 0.05  # share of a range that may be missed
NARROW = 1e-4  # share of possible values below which a range is
ROUNDS = 8  # plans of one end, at the most


@dataclass(frozen=True, eq=False)
class Ranges:
    """Attained ranges of the reward and of m constraints, and what proves them."""

    bounds: np.ndarray  # [1 + m, 2]: some policy has at most the first value, some the second
    potentials: np.ndarray  # [1 + m, 2, S]: of -x and of x
    constants: np.ndarray  # [1 + m]: values of constants
    largest: np.ndarray  # [1 + m]: of the rewards of one step
    narrow: tuple[int, ...] = ()  # functions of both signs that policies hardly change
    has_least: bool = True  # whether rewards cannot be as low as one likes

    def and_answer(self, reward_bounds: np.ndarray) -> "Ranges":
        """With the answer's own reward, where rewards have no least: it is attained too."""
        if self.has_least:
            return self
        bounds = self.bounds.copy()
        bounds[0, 0] = min(bounds[0, 0], float(reward_bounds[1]))
        return replace(self, bounds=bounds)

    def tolerances(
        self, eps: float, thresholds: np.ndarray, sizes: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """What gap and violations may be, `[1 + m]`.

        thresholds: `[m, k]`, all that a constraint's values are compared with. sizes: `[1 + m]`.
        """
        first = np.broadcast_to(self.bounds[0, 0], (1, thresholds.shape[1]))
        numbers = np.hstack([self.bounds, np.vstack([first, thresholds])])
        own = np.maximum(np.abs(numbers - self.constants[:, None]).max(1), sizes)
        floor = np.maximum(FLOOR * own, DIGITS * np.abs(numbers).max(1))
        floor = np.maximum(floor, TINIEST * self.largest)
        return np.maximum(eps * np.maximum(np.diff(self.bounds)[:, 0], 0.0), floor)


def attained_ranges(form: StandardForm, stop: Stop = never) -> Ranges:
    """The ranges of a form, to five per cent; once `stop()` is true, what is known by then."""
    rows = (form.reward, *form.constraints)
    bounds = np.zeros((len(rows), 2))
    potentials = np.zeros((len(rows), 2, form.criterion.parts * form.states))
    for i, row in enumerate(rows):
        if i > 1 and np.array_equal(row, -rows[i - 1]):  # the other side of an equality or a range
            bounds[i], potentials[i] = -bounds[i - 1, ::-1], potentials[i - 1, ::-1]
        elif form.criterion.parts == 1:
            bounds[i] = _attained(form, row, potentials[i], stop)
        else:
            size = abs(float(form.thresholds[i - 1])) if i else 0.0
            bounds[i] = _attained_by_plans(form, row, size, potentials[i], stop)
    narrow = (i for i, row in enumerate(rows) if _is_narrow(form, row, bounds[i]))
    constants = [float(form.criterion.constant(form, row)[1]) for row in rows]
    largest = [float(np.abs(row[form.reachable_choices]).max()) for row in rows]
    cycles = form.criterion.cycles
    has_least = cycles is None or not form.reward[cycles.inner].any()
    kind = tuple(narrow), has_least
    return Ranges(bounds, potentials, np.array(constants), np.array(largest), *kind)


def _is_narrow(form: StandardForm, row: np.ndarray, ends: np.ndarray) -> bool:
    """Whether terms of both signs cancel, and the floor of a tolerance may count."""
    if form.criterion.parts > 1:
        return False
    seen = row[form.reachable_choices]
    width = form.criterion.scale(form, row)[1]
    return bool(seen.min() < 0 < seen.max() and ends[1] - ends[0] <= NARROW * width)


def _attained(
    form: StandardForm, row: np.ndarray, potentials: np.ndarray, stop: Stop
) -> tuple[float, float]:
    """Both ends of one range; the potentials `[2, S]` are written to."""
    criterion, plan = form.criterion, form.criterion.plan
    ends, tolerance = [0.0, 0.0], ROUGH * criterion.scale(form, row)[1]
    claims = [claim(form, sign * row) for sign in (-1.0, 1.0)]
    guesses: list[np.ndarray | None] = [None, None]
    for _ in range(ROUNDS):
        for side, what in enumerate(claims):
            guess = guesses[side]
            if not stop():
                best = plan(form, what.reward, values=guess, tolerance=tolerance, stop=stop)
                potentials[side], guesses[side] = criterion.centred(form, best.values), best.values
            ends[side] = best_bounds(form, what, potentials[side], form.gauge)[0]
        width = max(ends[0] + ends[1], 0.0)
        smallest = FLOOR * max(abs(ends[0]), abs(ends[1]))
        if form.is_small or tolerance <= max(ROUGH * width, smallest) or stop():
            break
        tolerance = max(ROUGH * width, smallest, tolerance / 1000)
    return -ends[0] + 0.0, ends[1] + 0.0


def _attained_by_plans(
    form: StandardForm, row: np.ndarray, size: float, potentials: np.ndarray, stop: Stop
) -> tuple[float, float]:
    """Both ends of one range, of plans and what proves them; potentials `[2, n S]` are written to.

    Where only policies that surely end count, and a cycle costs something, there is no least value:
    any is attained, by going round. Then the low end lies below the best value by the best value's
    size, that of the threshold, or a share of the largest reward of one step.
    """
    criterion = form.criterion
    cycles = criterion.cycles
    ends: list[float | None] = [None, None]
    for side, sign in ((1, 1.0), (0, -1.0)):
        what = claim(form, sign * row)
        if cycles is None or not (what.reward[cycles.inner] > 0).any():
            kind: dict[str, Any] = {"tolerance": ROUGH * criterion.scale(form, row)[1]}
            for _ in range(ROUNDS):
                best = criterion.plan(form, what.reward, **kind, stop=stop)
                potentials[side] = criterion.potentials(form, best.choices, (what,))[0]
                end = best_bounds(form, what, potentials[side])[0]
                if not np.isfinite(end):
                    raise ill_conditioned()
                ends[side] = sign * end + 0.0
                if form.is_small or kind["tolerance"] <= ROUGH * abs(end) or stop():
                    break
                kind["tolerance"] = max(ROUGH * abs(end), kind["tolerance"] / 1000)
    low, high = ends
    assert high is not None
    size = max(size, LARGEST_STEP * float(np.abs(row[form.reachable_choices]).max()))
    return (high - max(abs(high), size) if low is None else low) + 0.0, high + 0.0
