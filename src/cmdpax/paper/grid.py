"""Grid search as one batched run, with the paper's selection rule.

The rule: among configurations whose final iterate violates no constraint by more than `limit`, the
smallest |gap|. It judges one iterate, so that an oscillator caught at a lucky moment may win: the
worst |gap| and the worst violation of the last 200 iterates are reported beside it. Gaps that
differ by rounding only are ties; of them the smallest worst violation wins, then the first of the
grid. A configuration that diverged is never selected, and is reported with the step at which it
did.
"""

import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.lagrangian import violation
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.table import find, trajectory
from cmdpax.solvers.trajectory import Trajectory

TAIL = 200  # iterates over which the worst gap and the worst violation are taken
TIE = 1e-12  # gaps closer than this are equal up to rounding


@dataclass(frozen=True)
class Entry:
    """A method as it takes part in a comparison: its name in tables, and settings that are not
    searched.
    """

    method: str
    title: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The title, by default the method's."""
        return self.title or find(self.method).title


@dataclass(frozen=True)
class Search:
    """All configurations of an entry on one model, B of them, judged."""

    entry: Entry
    points: tuple[dict[str, float], ...]  # B, in the order of the grid
    skipped: tuple[dict[str, float], ...]  # points of the grid where the update makes no sense
    run: Trajectory  # in the batch shape [B]
    optimum: float
    seconds: float

    @property
    def gaps(self) -> np.ndarray:
        """Final `V* - V_r`, `[B]`; negative where a violation was traded for reward."""
        return self.optimum - self.run.rewards[-1]

    @property
    def violations(self) -> np.ndarray:
        """Final violation, `[B]`."""
        return violation(self.run.margins[-1])

    @property
    def worst_violations(self) -> np.ndarray:
        """Largest violation of the last iterates, `[B]`."""
        return violation(self.run.margins[-TAIL:]).max(0)

    @property
    def worst_gaps(self) -> np.ndarray:
        """Largest |gap| of the last iterates, `[B]`."""
        return np.abs(self.optimum - self.run.rewards[-TAIL:]).max(0)

    def winner(self, limit: float) -> int | None:
        """Index of the selected configuration; None if no configuration is within the limit."""
        return select(self.gaps, self.violations, self.worst_violations, limit)


def select(gaps: np.ndarray, violations: np.ndarray, worst: np.ndarray, limit: float) -> int | None:
    """The paper's rule on arrays `[B]`, with the tie-breaking of the module docstring; NaN marks
    what diverged.
    """
    allowed = np.nonzero(violations <= limit)[0]  # NaN compares false
    if not allowed.size:
        return None
    size = np.abs(gaps[allowed])
    tied = allowed[size <= size.min() + TIE]
    return int(tied[np.argmin(worst[tied])])


def configurations(
    method: str,
) -> tuple[tuple[dict[str, float], ...], tuple[dict[str, float], ...]]:
    """Points of a method's paper grid in order, and those that are skipped."""
    row = find(method)
    if not row.grid:
        raise InputError(f"method '{method}' has no paper grid; give the settings yourself.")
    points = [
        dict(zip(row.grid, values, strict=True)) for values in itertools.product(*row.grid.values())
    ]
    return tuple(p for p in points if not row.skip(p)), tuple(p for p in points if row.skip(p))


def search(model: CMDP, entry: Entry, optimum: float, features: Features | None = None) -> Search:
    """Run the whole paper grid of an entry as one batch; `features` for log-linear policies."""
    points, skipped = configurations(entry.method)
    started = time.perf_counter()
    batch = {name: np.array([point[name] for point in points]) for name in points[0]}
    run = trajectory(model, entry.method, features, **batch, **entry.fixed)
    return Search(entry, points, skipped, run, optimum, time.perf_counter() - started)
