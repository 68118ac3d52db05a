"""The trade-off of two budgets at once: a surface of flat regions, with their prices.

The best value v(b) is concave and piecewise linear in two bounds b = (b_1, b_2). Every solved point
gives a plane above all of v, `v(b') <= v(b) - w.(b' - b)` with w its prices, and every infeasible
one a line that feasible bounds lie on one side of. The lowest of the planes has flat cells; where
it equals v at all corners of a cell, it equals v on the whole cell, because v is concave. So:
solve at a corner, add its plane if that is lower there, and go on until no corner is left.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Callback, FrontierRegion
from cmdpax.solvers.certified import WarmStart
from cmdpax.solvers.frontier import find_constraint, idle_threshold, threshold_range
from cmdpax.solvers.key_simplex import by_pivots, plans_before_pivots
from cmdpax.solvers.solve import check_limits, scaled_form, solve_again
from cmdpax.stopping import Stopper

FLAT = 1e-8  # what a plane may miss, relative to the range of the reward
NEAR = 1e-7  # distance at which two corners are one, relative to the ranges of the values
ROUNDING = 1e-13  # by which a plane may seem lower than another at a corner of both
SMALLEST = 1e-10  # area of a region, relative to that of all


def frontier_surface(
    model: CMDP,
    first: int | str = 0,
    second: int | str = 1,
    *,
    eps: float = 1e-6,
    callback: Callback | None = None,
) -> list[FrontierRegion]:
    """All regions of two thresholds in which both prices stay the same; they cover what can bind.

    first, second: indices or names of two constraints, each `<=` or `>=`; the others stay as they
    are. Every corner is solved and certified at eps, and inside a region the best reward is linear
    in the thresholds. callback: sees a row with `done` and `points` for every corner. Ctrl-C ends
    it. For models up to some hundred states: larger ones have too many regions.
    """
    pair = [find_constraint(model, one) for one in (first, second)]
    check_limits(eps, callback)
    if pair[0] == pair[1]:
        raise InputError("frontier_surface: give two different constraints.")
    with Stopper() as stop:
        entries = list(model.limits.entries)
        idle = [idle_threshold(model, i) for i in pair]
        for i, bound in zip(pair, idle):
            entries[i] = bound
        relaxed = model.replace(thresholds=entries)
        ranges = np.array([threshold_range(relaxed, i, eps) for i in pair])  # loose, tight
        scaled = scaled_form(relaxed, eps)
        if plans_before_pivots(scaled.form) != 0:
            raise InputError(
                f"frontier_surface: {model.states} states have too many regions; use"
                " cmdpax.frontier for one constraint at a time."
            )
        rows = model.limits.first_rows[pair]
        signs, units = model.limits.signs[rows], scaled.units[1 + rows]
        origin = scaled.form.thresholds[rows] * units * signs  # less what scaling has shifted
        shift = np.array(idle) - origin
        ends = (ranges - shift[:, None]) * signs[:, None] / units[:, None]
        cells = _Cells(scaled.form, eps, rows, ends)
        while not stop() and cells.improve():
            pass
        if stop():
            raise KeyboardInterrupt
        regions, solved, warm = [], {}, WarmStart()
        kept = cells.kept()
        corners = {_name(corner): corner for polygon, _ in kept for corner in polygon}
        for name in sorted(corners):  # neighbours, more or less
            own = corners[name] * units * signs + shift + 0.0
            for i, bound in zip(pair, own.tolist()):
                entries[i] = bound
            solved[name] = own, solve_again(model.replace(thresholds=entries), eps, warm)
            if callback is not None:
                callback({"done": len(solved), "points": len(corners)})
            if stop():
                raise KeyboardInterrupt
        for polygon, prices in kept:
            known = [solved[_name(corner)] for corner in polygon]
            results = [result for _, result in known]
            statuses = {result.status for result in results}
            regions.append(
                FrontierRegion(
                    np.array([own for own, _ in known]),
                    np.array([result.reward for result in results]),
                    prices * scaled.units[0] / units,
                    max(result.certificate.gap for result in results),
                    max(result.certificate.violation for result in results),
                    statuses.pop() if len(statuses) == 1 else "limit",
                )
            )
        return regions


class _Cells:
    """Planes `height - slope.b` over a polygon of thresholds of a scaled form, and their cells."""

    def __init__(self, form: Any, eps: float, rows: np.ndarray, ends: np.ndarray) -> None:
        self.form, self.eps, self.rows = form, eps, rows
        (left, right), (bottom, top) = ends.tolist()
        self.domain = np.array([[left, bottom], [right, bottom], [right, top], [left, top]])
        self.heights, self.slopes = np.zeros(0), np.zeros((0, 2))
        self.cells: list[np.ndarray] = []
        self.done: set[tuple[int, ...]] = set()  # corners that are known
        self.changed: list[int] = []  # cells whose corners are to be looked at
        self.weights: np.ndarray | None = None
        for corner in self.domain:  # the first may be infeasible, and cut off
            if not self.cells:
                self._solve(corner, 0)

    def improve(self) -> bool:
        """Solve at one corner that is not known yet; False if there is none."""
        while self.changed:
            for corner in self.cells[self.changed[-1]]:
                name = _name(corner)
                if name not in self.done:
                    self.done.add(name)
                    self._solve(corner, self.changed[-1])
                    return True
            self.changed.pop()
        return False

    def _solve(self, corner: np.ndarray, k: int) -> None:
        thresholds = self.form.thresholds.copy()
        thresholds[self.rows] = corner
        form = self.form.replace(thresholds=thresholds)
        outcome = by_pivots(form, self.eps, self.weights)
        if outcome.answer is not None:
            self.weights = outcome.weights.copy()
            slope, value = self.weights[self.rows], float(outcome.values[0])
            if not self.cells or self._height(k, corner) - value > FLAT:
                self._add(value + float(slope @ corner), slope)
            return
        if outcome.ray is None:
            raise InputError("frontier_surface: pivots met trouble; try another eps.")
        ray = outcome.ray
        best = form.criterion.plan(form, np.tensordot(ray, form.constraints, 1)).value
        most = best - float(ray @ thresholds) + float(ray[self.rows] @ corner)
        side = ray[self.rows]
        if float(side @ corner) - most <= NEAR * float(np.abs(side).sum()):
            return  # on the edge
        self.domain = _clipped(self.domain, side, most)
        for k, cell in enumerate(self.cells):
            self._cut(k, cell, side, most)

    def _cut(self, k: int, cell: np.ndarray, side: np.ndarray, most: float) -> None:
        if len(cell) and (most - cell @ side).min() < 0:
            self.cells[k] = _clipped(cell, side, most)
            self.changed.append(k)

    def _height(self, k: int, corner: np.ndarray) -> float:
        return float(self.heights[k] - self.slopes[k] @ corner)

    def _add(self, height: float, slope: np.ndarray) -> None:
        """Add a plane, and cut the cells of others where it is lower."""
        if self.cells:
            corners = np.concatenate(self.cells)
            owners = np.repeat(np.arange(len(self.cells)), [len(cell) for cell in self.cells])
            others = self.heights[owners] - (corners * self.slopes[owners]).sum(1)
            lower = height - corners @ slope < others
            for k in np.unique(owners[lower]).tolist():
                # height - slope.b >= height_k - slope_k.b
                side, most = slope - self.slopes[k], height - float(self.heights[k])
                self._cut(k, self.cells[k], side, most)
        cell = self.domain
        for _ in self.cells:
            others = self.heights - cell @ self.slopes.T
            excess = (height - cell @ slope)[:, None] - others
            k = int(np.argmax(excess.max(0, initial=-np.inf)))
            if not len(cell) or excess[:, k].max() <= ROUNDING:
                break
            cell = _clipped(cell, self.slopes[k] - slope, float(self.heights[k]) - height)
        self.heights = np.append(self.heights, height)
        self.slopes = np.vstack([self.slopes, slope])
        self.cells.append(cell)
        self.changed.append(len(self.cells) - 1)

    def kept(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Polygons with their prices, without those that are points and lines."""
        least = SMALLEST * area(self.domain)
        pairs = zip(self.cells, self.slopes)
        return [(_simple(cell), slope) for cell, slope in pairs if area(cell) > least]


def _name(corner: np.ndarray) -> tuple[int, ...]:
    """The same for corners that are one but for rounding."""
    return tuple(np.round(corner / NEAR).astype(int).tolist())


def area(polygon: np.ndarray) -> float:
    """Of corners `[k, 2]`, in their order."""
    x, y = polygon.reshape(-1, 2).T
    return abs(float(x @ np.roll(y, -1) - y @ np.roll(x, -1))) / 2


def _clipped(polygon: np.ndarray, side: np.ndarray, most: float) -> np.ndarray:
    """The part of a convex polygon `[k, 2]` with `side.b <= most`."""
    if not len(polygon):
        return polygon
    room = most - polygon @ side
    corners: list[Sequence[float]] = []
    for j in range(len(polygon)):
        before, here = room[j - 1], room[j]
        if (before < 0) != (here < 0):
            share = before / (before - here)
            corners.append((polygon[j - 1] + share * (polygon[j] - polygon[j - 1])).tolist())
        if here >= 0:
            corners.append(polygon[j].tolist())
    return np.array(corners).reshape(-1, 2)


def _simple(polygon: np.ndarray) -> np.ndarray:
    """A polygon without corners that are the same as the one before."""
    distance = np.abs(polygon - np.roll(polygon, 1, 0)).max(1)
    return polygon[distance > NEAR]
