"""Limits: the only code that knows `<=`, `>=`, `==` and ranges.

A limit bounds one value: `cost<=25`, `uptime>=10`, `stock==3`, or a range `2<=heat<=5`. The
mathematics knows rows `V >= b` only. A limit makes one row, or two for `==` and a range:

| limit         | rows                          | margin                    |
|---------------|-------------------------------|---------------------------|
| V >= b        | (+V, b)                       | V - b                     |
| V <= b        | (-V, -b)                      | b - V                     |
| low <= V <= high, V == b | (+V, low), (-V, -high) | min(V - low, high - V) |

A margin is the room that is left; it is negative where a limit is broken, whatever its sense. A
price is what one unit of room is worth. Prices of one row are >= 0. Of two rows only one can be
worth something, so they fold into one signed price: positive where the lower bound is priced,
negative where the upper bound is.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from reprlib import repr as brief
from typing import Any, Literal, Protocol, get_args

import numpy as np

from cmdpax.errors import InputError, did_you_mean

Sense = Literal["<=", ">=", "==", "in"]
NUMERIC = "biuf"  # NumPy's kinds of real numbers
MAX_DOUBLES = 4  # equalities and ranges for which every sign of their prices is tried
INFEASIBLE = 2  # a status of `linprog`
LARGEST_NUMBER = 1e100  # sums and squares of what is larger would overflow
_NAME, _NUMBER = r"(?P<name>[^<>=\s](?:[^<>=]*[^<>=\s])?)", r"[-+.\w]+"
_FORM = re.compile(rf"\s*{_NAME}\s*(?P<sense><=|>=|==)\s*(?P<bound>{_NUMBER})\s*")
_RANGE = re.compile(rf"\s*(?P<low>{_NUMBER})\s*<=\s*{_NAME}\s*<=\s*(?P<high>{_NUMBER})\s*")


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits on m named values. Build them by `Limits.of` (models) or `Limits.parse` (texts)."""

    names: tuple[str, ...]
    senses: tuple[Sense, ...]
    bounds: np.ndarray  # [m, 2]: lower and upper bound of each value, infinite on an open side

    @staticmethod
    def of(thresholds: Any, senses: Any = None, names: Sequence[str] | None = None) -> "Limits":
        """Limits from `thresholds` as a user writes them: a number or a pair `(low, high)` each.

        senses: one for each, or one word for all. Without them a number means `>=` and a pair a
        range. names: one for each; without them `c0`, `c1`, ...
        """
        pairs = [_pair(f"thresholds[{i}]", entry) for i, entry in enumerate(listed(thresholds))]
        m, is_one = len(pairs), senses is None or isinstance(senses, str)
        senses = [senses] * m if is_one else listed(senses)
        if (count := len(senses)) != m:
            raise InputError(f"senses: {count} given for {m} constraints; give one for each.")
        both = [_bounds(i, sense, *pair) for i, (sense, pair) in enumerate(zip(senses, pairs))]
        named = tuple(f"c{i}" for i in range(m)) if names is None else tuple(names)
        bounds = np.array([pair for _, pair in both], dtype=np.float64).reshape(m, 2)
        return Limits(named, tuple(sense for sense, _ in both), _frozen(bounds + 0.0))

    @staticmethod
    def parse(texts: Sequence[str]) -> "Limits":
        """Limits from texts such as `cost<=25`; each name may have one limit."""
        limits = [_parse(text) for text in texts]
        names = tuple(name for name, _, _ in limits)
        if len(set(names)) < len(names):  # multipliers and violations go by the name
            limited = ", ".join(texts)
            raise InputError(f"limits {limited} name a cost twice; write a range, '2<=heat<=5'.")
        bounds = np.array([pair for _, _, pair in limits], dtype=np.float64).reshape(-1, 2)
        return Limits(names, tuple(sense for _, sense, _ in limits), _frozen(bounds + 0.0))

    def __len__(self) -> int:
        return len(self.names)

    @property
    def entries(self) -> list[Any]:
        """Each threshold as written: a number, or `[low, high]` of a range."""
        limits = zip(self.senses, self.bounds.tolist())
        return [pair if sense == "in" else pair[int(sense == "<=")] for sense, pair in limits]

    @property
    def thresholds(self) -> np.ndarray:
        """As written: `[m]`, or `[m, 2]` (low, high) where one of them is a range."""
        return self.bounds if "in" in self.senses else _frozen(np.array(self.entries))

    @property
    def texts(self) -> tuple[str, ...]:
        """Each limit as `parse` reads it."""
        return tuple(
            f"{entry[0]:g}<={name}<={entry[1]:g}" if sense == "in" else f"{name}{sense}{entry:g}"
            for name, sense, entry in zip(self.names, self.senses, self.entries)
        )

    def __str__(self) -> str:
        return ", ".join(self.texts)

    @cached_property
    def are_rows(self) -> bool:
        """Whether every limit is `>=`: then limits and rows are the same."""
        return all(sense == ">=" for sense in self.senses)

    @property
    def row_count(self) -> int:
        """Number of rows M: two for each equality and each range."""
        return len(self.senses) + sum(sense in ("==", "in") for sense in self.senses)

    @cached_property
    def _sides(self) -> tuple[np.ndarray, ...]:
        """`[M]` both: limit and side of each row."""
        return np.nonzero(np.isfinite(self.bounds))

    @cached_property
    def rows(self) -> np.ndarray:
        """`[M]`: the limit that each row of the standard form belongs to."""
        return _frozen(self._sides[0])

    @cached_property
    def signs(self) -> np.ndarray:
        """`[M]`: what turns the value into the row, +1 for a lower bound, -1 for an upper one."""
        return _frozen(1.0 - 2.0 * self._sides[1])

    @cached_property
    def row_thresholds(self) -> np.ndarray:
        """`b [M]`: a row is met when `sign * V >= b`."""
        if self.are_rows:
            return _frozen(self.bounds[:, 0].copy())
        return _frozen(self.signs * self.bounds[self._sides] + 0.0)

    @property
    def compared(self) -> np.ndarray:
        """`[M, 2]`: what each row is compared with: its own threshold, and the other of a range."""
        if self.row_count == len(self):
            return self.row_thresholds[:, None].repeat(2, 1)
        both = self.bounds[self.rows] * self.signs[:, None]
        return np.where(np.isfinite(both), both, self.row_thresholds[:, None])

    def turn(self, values: np.ndarray, axis: int = -1) -> np.ndarray:
        """Values, rewards or bounds of the m limits along `axis` as those of the M rows; exact.

        Where every limit is `>=`, the array itself comes back.
        """
        if self.are_rows:
            return values
        shape = [1] * values.ndim
        shape[axis] = -1
        # adding 0.0 turns the -0.0 of a negated zero into 0.0: one form for one number
        return np.take(values, self.rows, axis) * self.signs.reshape(shape) + 0.0

    def margins(self, values: np.ndarray) -> np.ndarray:
        """Room left by values `[..., m]` -> `[..., m]`: >= 0 where the limit is kept."""
        return np.minimum(values - self.bounds[:, 0], self.bounds[:, 1] - values)

    def worst(self, margins: np.ndarray) -> np.ndarray:
        """Margins of rows `[..., M]` -> of limits `[..., m]`: the smaller where there are two."""
        if len(self.rows) == len(self):
            return margins
        return np.minimum.reduceat(margins, self.first_rows, axis=-1)

    def fold(self, prices: np.ndarray) -> np.ndarray:
        """Prices of rows `[..., M]` -> of limits `[..., m]`; two rows give one signed price."""
        if len(self.rows) == len(self):
            return prices
        signs = np.where(self._is_double[self.rows], self.signs, 1.0)
        return np.add.reduceat(prices * signs, self.first_rows, axis=-1)

    def unfold(self, prices: np.ndarray) -> np.ndarray:
        """Prices of limits `[..., m]` -> of rows `[..., M]`; of two rows at most one has one."""
        if len(self.rows) == len(self):
            return prices
        taken, is_double = prices[..., self.rows], self._is_double[self.rows]
        return np.where(is_double, np.maximum(self.signs * taken, 0.0), taken)

    def price_bounds(self, margins: np.ndarray, room: np.ndarray) -> np.ndarray:
        """Least and largest price of each limit `[m, 2]` with `margins @ w <= room`.

        Over weights w >= 0 of rows `[M]`; margins `[k, M]`, room `[k]`.
        """
        M, intervals = len(self.rows), np.empty((len(self), 2))
        if M == 1:
            with np.errstate(divide="ignore", invalid="ignore"):
                edges = room / margins[:, 0]
            low = edges[margins[:, 0] < 0].max(initial=0.0)
            intervals[0] = low, max(low, edges[margins[:, 0] > 0].min(initial=np.inf))
            return intervals
        from scipy.optimize import linprog

        sizes = np.maximum(np.abs(margins).max(1, initial=0.0), np.finfo(float).tiny)
        rows, right, fold = margins / sizes[:, None], room / sizes, self.fold(np.eye(M))
        widest = np.where(self._is_double, -np.inf, 0.0), np.full(len(self), np.inf)
        doubles = np.flatnonzero(self._is_double)
        if len(doubles) > MAX_DOUBLES:
            return np.stack(widest, 1)
        intervals[:] = np.inf, -np.inf
        for turns in product((1.0, -1.0), repeat=len(doubles)):
            priced = np.ones(M, dtype=bool)
            for double, sign in zip(doubles, turns):  # of two rows one has a price
                own_rows = self.rows == double
                priced[own_rows] = self.signs[own_rows] == sign
            for i, own in enumerate(fold[priced].T):
                for side, (sign, best) in enumerate(((1.0, np.fmin), (-1.0, np.fmax))):
                    answer = linprog(sign * own, A_ub=rows[:, priced], b_ub=right)
                    end = sign * answer.fun if answer.status == 0 else widest[side][i]
                    end = np.nan if answer.status == INFEASIBLE else end
                    intervals[i, side] = best(intervals[i, side], end)
        is_empty = intervals[:, 0] > intervals[:, 1]
        return np.where(is_empty[:, None], np.stack(widest, 1), intervals)

    @cached_property
    def first_rows(self) -> np.ndarray:
        """`[m]`: the first row of each limit."""
        return np.searchsorted(self.rows, np.arange(len(self)))

    @cached_property
    def _is_double(self) -> np.ndarray:
        return np.isfinite(self.bounds).all(1)

    def columns(self, cost_names: Sequence[str]) -> list[int]:
        """Where each limit's value stands among `cost_names`; a name that is missing is refused."""
        for name, text in zip(self.names, self.texts):
            if name not in cost_names:
                hint = did_you_mean(name, cost_names) if len(cost_names) else "it has none."
                raise InputError(
                    f"limit '{text}' is on a cost that the environment does not have; {hint}"
                )
        return [list(cost_names).index(name) for name in self.names]


class Limited(Protocol):
    """What has limits on m constraints, and says them back: a model, a result."""

    limits: Limits

    @property
    def constraint_count(self) -> int:
        """Number of constraints m."""
        return len(self.limits)

    @property
    def thresholds(self) -> np.ndarray:
        """As written: `[m]`, or `[m, 2]` (low, high) where one of them is a range."""
        return self.limits.thresholds

    @property
    def senses(self) -> tuple[str, ...]:
        """`">="`, `"<="`, `"=="` or `"in"` for each constraint."""
        return self.limits.senses

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """As given, or `c0`, `c1`, ..."""
        return self.limits.names


def can_be_limited(name: str) -> bool:
    """Whether a text of `Limits.parse` can name such a value."""
    match = _FORM.fullmatch(f"{name}<=0")
    return match is not None and match["name"] == name


def _parse(text: str) -> tuple[str, Sense, tuple[float, float]]:
    """Name, sense and bounds of one text."""
    one, both = _FORM.fullmatch(text), _RANGE.fullmatch(text)
    ends = (0.0, 0.0)
    try:
        if both is not None:
            low, high = ends = float(both["low"]), float(both["high"])
            if math.isfinite(low) and math.isfinite(high) and low <= high:
                return both["name"], "in", ends
        elif one is not None and math.isfinite(bound := float(one["bound"])):
            return one["name"], *_bounds(0, one["sense"], bound, bound)
    except ValueError:
        pass
    if ends[0] > ends[1]:
        raise InputError(f"limit '{text}': nothing lies in it; write the smaller number first.")
    raise InputError(
        f"limit '{text}' is not understood; write a cost's name, <=, >= or ==, and a number, as in"
        " 'cost<=25', or a range as in '2<=cost<=5'."
    )


def _bounds(
    i: int, sense: Any, low: float, high: float, is_pair: bool = False
) -> tuple[Sense, tuple[float, float]]:
    """Sense and bounds of limit i, written as one number (then low = high) or as a pair."""
    if sense is not None and sense not in get_args(Sense):
        raise InputError(f"senses[{i}] is {sense!r}; it must be '>=', '<=', '==' or 'in'.")
    if not is_pair:
        if sense == "in":
            raise InputError(
                f"thresholds[{i}] is a number; a range needs a pair (low, high), or give senses."
            )
        least, most = -math.inf if sense == "<=" else low, high if sense else math.inf
        return sense or ">=", (least, math.inf if sense == ">=" else most)
    if low > high:
        raise InputError(f"thresholds[{i}] is ({low:g}, {high:g}); give (low, high), low <= high.")
    own: Sense = "<=" if math.isinf(low) else ">=" if math.isinf(high) else "in"
    own = "==" if low == high and sense != "in" else own
    if sense not in (None, own):  # a pair says its sense itself
        raise InputError(f"thresholds[{i}] is a pair; its sense is {own!r}, not {sense!r}.")
    return own, (low, high)


def listed(thresholds: Any) -> list[Any]:
    """What a user wrote, one entry for each limit; a number alone is one limit."""
    is_list = isinstance(thresholds, list | tuple) or np.asarray(thresholds, dtype=object).ndim
    return list(thresholds) if is_list else [thresholds]


def _pair(field: str, entry: Any) -> tuple[float, float, bool]:
    """A number twice, or a pair, checked; whether it was a pair."""
    try:
        numbers = np.asarray(entry)
    except ValueError:  # rows of different lengths
        numbers = np.empty(0, dtype=object)
    if numbers.dtype.kind not in NUMERIC or numbers.shape not in ((), (2,)):
        raise InputError(f"{field} is {brief(entry)}; it must be a number, or a pair (low, high).")
    is_pair = numbers.shape == (2,)
    low, high = (float(number) for number in np.broadcast_to(numbers, 2))
    is_open = is_pair and (low == -math.inf) != (high == math.inf)
    for number in (low, high):
        if not math.isfinite(number) and not (is_open and math.isinf(number)):
            raise InputError(f"{field} is {number}; every entry must be a finite number.")
        if math.isfinite(number) and abs(number) > LARGEST_NUMBER:
            raise InputError(f"{field}: it has entries beyond {LARGEST_NUMBER:g}; rescale it.")
    return low, high, is_pair


def _frozen(array: np.ndarray) -> np.ndarray:
    array.setflags(write=False)
    return array
