"""Limits on costs, translated once: `cost<=25` becomes the constraint `V_c >= b` with `c = -cost`,
`b = -25`.

A limit may also ask for at least something (`uptime>=10`). Values are episode totals, undiscounted
unless said otherwise.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cmdpax.errors import InputError, did_you_mean

_FORM = re.compile(
    r"^\s*(?P<name>[^<>=\s](?:[^<>=]*[^<>=\s])?)\s*(?P<sense><=|>=)\s*(?P<bound>[-+.\w]+)\s*$"
)


@dataclass(frozen=True)
class Limit:
    """One limit on a named cost."""

    name: str
    sense: str  # "<=" or ">="
    bound: float

    @property
    def sign(self) -> float:
        """What the cost is multiplied by to become a constraint reward."""
        return -1.0 if self.sense == "<=" else 1.0

    def __str__(self) -> str:
        return f"{self.name}{self.sense}{self.bound:g}"


def parse_limit(text: str) -> Limit:
    """`cost<=25` as a `Limit`."""
    match = _FORM.match(text)
    try:
        bound = float(match["bound"]) if match else math.nan
    except ValueError:
        bound = math.nan
    if match is None or not math.isfinite(bound):
        raise InputError(
            f"limit '{text}' is not understood; write a cost's name, <= or >=, and a number, as in"
            " 'cost<=25'."
        )
    return Limit(match["name"], match["sense"], bound)


def can_be_limited(name: str) -> bool:
    """Whether a limit can name such a cost."""
    match = _FORM.match(f"{name}<=0")
    return match is not None and match["name"] == name


@dataclass(frozen=True)
class Constraints:
    """Limits matched to an environment's cost columns."""

    limits: tuple[Limit, ...]
    columns: tuple[int, ...]

    def rewards(self, cost: np.ndarray) -> np.ndarray:
        """Constraint rewards c of environment costs, `[..., costs] -> [..., m]`."""
        return cost[..., list(self.columns)] * np.array([limit.sign for limit in self.limits])

    @property
    def thresholds(self) -> np.ndarray:
        """`b [m]`: feasible means `V_c >= b`."""
        return np.array([limit.sign * limit.bound for limit in self.limits])


def match_limits(texts: Sequence[str], cost_names: Sequence[str]) -> Constraints:
    """Parse limits and find their costs; a name that the environment does not have is refused."""
    limits = tuple(parse_limit(text) for text in texts)
    for limit in limits:
        if limit.name not in cost_names:
            raise InputError(
                f"limit '{limit}' is on a cost that the environment does not have;"
                f" {_names(limit.name, cost_names)}"
            )
    if len({limit.name for limit in limits}) < len(
        limits
    ):  # multipliers and violations go by the cost's name
        raise InputError(
            f"limits {', '.join(map(str, limits))} name a cost twice; give each cost one limit."
        )
    return Constraints(limits, tuple(list(cost_names).index(limit.name) for limit in limits))


def _names(name: str, cost_names: Sequence[str]) -> str:
    return did_you_mean(name, cost_names) if cost_names else "it has none."
