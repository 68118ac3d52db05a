"""How much can policies change a value? What `eps` is a share of.

    range_x = max_pi V_x - min_pi V_x,   tolerance_x = max(eps range_x, 1e-10 size_x).

Both ends are attained: a potential V proves that the policy which is greedy for it has at least
`rho.V + rho.u min d/g` (`bounds.py`). So a range is never overstated, and rough plans will do. The
size, the largest of |low|, |high|, |b| and, where terms cancel, the value of |x| under the answer's
own policy, is a floor for what no policy can change. All are less the value of a constant in x,
which no policy can change either; it counts by its last digits alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax.exact.bounds import best_bounds, claim, claims, small_extremes, widened
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.forms import BlockForm
from cmdpax.exact.planning import unsettled
from cmdpax.exact.standard import StandardForm
from cmdpax.exact.systems import finite, ill_conditioned
from cmdpax.loops import narrow, small
from cmdpax.loops.compiled import readable
from cmdpax.model.result import DIGITS, FLOOR, LARGEST_STEP, TINIEST
from cmdpax.stopping import Stop, never

ROUGH = 0.05  # share of a range that may be missed
GUESSED, BACKUPS = 0.2, 3  # the same where a guess is enough, and backups of a guess
NARROW = 1e-4  # share of possible values below which a range is
EXACT, FEW = 64, 4  # states and functions up to which exact plans cost no more than rough ones
ROUNDS = 8  # plans of one end, at the most
Guess = Callable[[np.ndarray], np.ndarray | None]  # of values `[S]`, for weights `[1 + m]`


@dataclass(frozen=True, eq=False)
class Ranges:
    """Attained ranges of the reward and of m constraints, and what proves them."""

    bounds: np.ndarray  # [1 + m, 2]: some policy has at most the first value, some the second
    potentials: np.ndarray  # [1 + m, 2, S]: of -x and of x
    constants: np.ndarray  # [1 + m]: values of constants
    largest: np.ndarray  # [1 + m]: of the rewards of one step
    narrow: tuple[int, ...] = ()  # functions of both signs that policies hardly change
    has_least: bool = True  # whether rewards cannot be as low as one likes

    @staticmethod
    def of_answer(form: StandardForm, reward_bounds: Sequence[float] | np.ndarray) -> "Ranges":
        """What the answer's own reward proves, of a form without constraints: it is attained.

        No potential is needed for that, and no plan: it is enough where rounding allows no gap.
        """
        low, high = reward_bounds
        nothing = np.zeros((1, 2, form.criterion.parts * form.states), dtype=form.smallest)
        return Ranges(np.array([[high, low]], dtype=float), nothing, *_facts(form))

    def and_answer(self, reward_bounds: np.ndarray) -> "Ranges":
        """With the answer's own reward, where rewards have no least: it is attained too."""
        if self.has_least:
            return self
        bounds = self.bounds.copy()
        bounds[0, 0] = min(bounds[0, 0], float(reward_bounds[1]))
        return replace(self, bounds=bounds)

    def guess(
        self, form: StandardForm, units: np.ndarray, weights: np.ndarray
    ) -> np.ndarray | None:
        """`sum_i w_i max_pi V_i [S]`, roughly: where planning `w.x` begins, for weights `[1 + m]`.

        In units `[1 + m]` of a scaled form; None where plans need no guess.
        """
        if form.is_small or form.criterion.parts > 1:
            return None
        pairs = zip((weights / units).tolist(), self.potentials[:, 1], strict=True)
        return np.asarray(sum(weight * own for weight, own in pairs if weight))

    def tolerances(
        self, eps: float, thresholds: np.ndarray, sizes: np.ndarray | float = 0.0
    ) -> np.ndarray:
        """What gap and violations may be, `[1 + m]`.

        thresholds: `[m, 2]`, what a constraint's values are compared with. sizes: `[1 + m]`.
        """
        others = np.concatenate([self.bounds[:1], thresholds])  # the reward has none of its own
        numbers = np.concatenate([self.bounds, others], 1)
        own = np.maximum(np.abs(numbers - self.constants[:, None]).max(1), sizes)
        floor = np.maximum(FLOOR * own, DIGITS * np.abs(numbers).max(1))
        floor = np.maximum(floor, TINIEST * self.largest)
        low, high = self.bounds.T
        return np.maximum(eps * np.maximum(high - low, 0.0), floor)


def attained_ranges(
    form: StandardForm,
    stop: Stop = never,
    guesses: np.ndarray | None = None,
    best: np.ndarray | None = None,
) -> Ranges:
    """The ranges of a form, to five per cent; once `stop()` is true, what is known by then.

    guesses: potentials `[1 + m, 2, S]` of a model that resembles this one, which may be all that is
    needed. best: values `[S]` of a plan of the reward, which is not made again.
    """
    rows = (form.reward, *form.constraints)
    criterion, cycles = form.criterion, form.criterion.cycles
    bounds = np.zeros((len(rows), 2))
    potentials = np.zeros((len(rows), 2, criterion.parts * form.states), dtype=form.smallest)
    at_once = form.is_small and criterion.parts == 1
    if at_once:
        bounds, potentials = _all_attained(form)
    for i, row in enumerate(() if at_once else rows):
        if i > 1 and np.array_equal(row, -rows[i - 1]):  # the other side of an equality or a range
            bounds[i], potentials[i] = -bounds[i - 1, ::-1], potentials[i - 1, ::-1]
        elif criterion.parts == 1:
            own = None if guesses is None else guesses[i]
            bounds[i] = _attained(form, row, potentials[i], stop, own, None if i else best)
        else:
            size = abs(float(form.thresholds[i - 1])) if i else 0.0
            bounds[i] = _attained_by_plans(form, row, size, potentials[i], stop)
    narrow = np.flatnonzero(_are_narrow(form, bounds)).tolist()
    has_least = cycles is None or not form.reward[cycles.inner].any()
    return Ranges(bounds, potentials, *_facts(form), tuple(narrow), has_least)


def _facts(form: StandardForm) -> tuple[np.ndarray, np.ndarray]:
    """Values of the constants, and the largest rewards of one step, both `[1 + m]`."""
    constants = [float(value) for _, value in form.constants]
    return np.array(constants), np.array([max(-low, high) for low, high in form.spans])


def _all_attained(form: StandardForm) -> tuple[np.ndarray, np.ndarray]:
    """All ranges `[1 + m, 2]` of a small form, and their potentials `[1 + m, 2, S]`."""
    own, gauge, S, criterion = claims(form), form.gauge, form.states, form.criterion
    assert isinstance(criterion, Discounted)
    functions = np.stack([one.reward for one in own])
    rewards, sizes = np.stack([-functions, functions], 1), np.abs(functions).repeat(2, 0)
    is_closed, vectors = criterion.is_closed and gauge is None, np.empty((len(own), 2, S))
    kind = readable(form.initial), criterion.reach, readable(form.reachable), is_closed
    share = 0.0 if S <= EXACT and len(own) <= FEW else ROUGH
    planned = narrow.plan_both if form.is_narrow else small.plan_both
    if not planned(form.kernel, readable(rewards), *kind, share, vectors):
        raise unsettled()
    potentials = finite(vectors).reshape(-1, S)
    ends = small_extremes(form, rewards.reshape(-1, form.choices), sizes, potentials, gauge)
    rests = np.repeat([float(one.rest) for one in own], 2) * np.tile([-1.0, 1.0], len(own))
    low = widened(form, ends, potentials, rests)[:, 0]
    bounds = low.reshape(-1, 2) * np.array([-1.0, 1.0]) + 0.0
    return bounds, vectors


def _are_narrow(form: StandardForm, bounds: np.ndarray) -> np.ndarray:
    """Whether terms of both signs cancel, and the floor of a tolerance may count, `[1 + m]`."""
    if form.criterion.parts > 1 or isinstance(form, BlockForm):
        return np.zeros(len(bounds), dtype=bool)
    low, high = np.array(form.spans).T
    return (low < 0) & (high > 0) & (bounds[:, 1] - bounds[:, 0] <= NARROW * form.scales[:, 1])


def _attained(
    form: StandardForm,
    row: np.ndarray,
    potentials: np.ndarray,
    stop: Stop,
    own: np.ndarray | None,
    best: np.ndarray | None,
) -> tuple[float, float]:
    """Both ends of one range; the potentials `[2, S]` are written to.

    own: guesses `[2, S]`. best: `[S]`, values that are known.
    """
    criterion, plan = form.criterion, form.criterion.plan
    ends, errors = [0.0, 0.0], [0.0, 0.0]
    tolerance = ROUGH * criterion.scale_of(*form.span(row))[1]
    claims = [claim(form, sign * row) for sign in (-1.0, 1.0)]
    guesses: list[np.ndarray | None] = [None, None] if own is None else list(own)
    for done in range(ROUNDS):
        is_guess = own is not None and not done
        for side, what in enumerate(claims):
            guess = guesses[side]
            if side and best is not None:
                potentials[side] = criterion.centred(form, best)
            elif is_guess:
                assert guess is not None
                guess = _mended(form, what.reward, guess)
                potentials[side], guesses[side] = criterion.centred(form, guess), guess
            elif not stop():
                values = plan(
                    form, what.reward, values=guess, tolerance=tolerance, stop=stop
                ).values
                potentials[side], guesses[side] = criterion.centred(form, values), values
            ends[side], most = best_bounds(form, what, potentials[side], form.gauge)
            errors[side] = most - ends[side]
        width = max(ends[0] + ends[1], 0.0)
        smallest = FLOOR * max(abs(ends[0]), abs(ends[1]))
        if is_guess and not stop():
            if max(errors) <= max(GUESSED * width, smallest):
                break
            continue
        enough = max(ROUGH * width, smallest)
        if min(tolerance, max(errors)) <= enough or stop():
            break
        tolerance = max(enough, tolerance / 1000)
    return -ends[0] + 0.0, ends[1] + 0.0


def _mended(form: StandardForm, reward: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values `[S]` of a model that resembles this one after a few backups.

    Where few rows have changed, their neighbours' mean carries little of it.
    """
    assert isinstance(form.criterion, Discounted)
    for _ in range(BACKUPS):
        values = form.criterion.backed_up(form, reward, values)
    return values


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
            kind: dict[str, Any] = {"tolerance": ROUGH * criterion.scale_of(*form.span(row))[1]}
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
