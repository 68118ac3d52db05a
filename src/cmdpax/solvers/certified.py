"""Algorithm 1 without anything to choose, on a scaled form.

Phase 1 suggests the first penalty, the inner loop stops on the certified gap, the penalty grows
when the defect does not fall, and the outer loop stops when the door accepts a policy as certified.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import check_count, check_number
from cmdpax.exact.ranges import Ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.model.result import Row
from cmdpax.solvers.algorithm import Answer, CertifiedGap, Oracle, Progress, augmented_lagrangian
from cmdpax.solvers.columns import Columns
from cmdpax.stopping import Stop

SMALLEST_PENALTY, PENALTY_GROWTH = 1e-3, 3.0  # on the scale of [0, 1]
SMALLEST_WIDTH = 1e-300  # of an objective that no policy changes
SAFETY = 0.9  # ask the door once the estimates are this far below eps


@dataclass
class WarmStart:
    """Columns and multipliers carried between solves that differ in their thresholds only."""

    columns: Columns | None = None
    thresholds: np.ndarray | None = None  # [m], that the columns' margins refer to, scaled
    multipliers: np.ndarray | None = None  # [m], scaled
    ranges: Ranges | None = None  # of the unscaled form
    units: np.ndarray | None = None  # [1 + m], of the scaled form

    def columns_for(self, form: StandardForm) -> Columns | None:
        """The columns with margins for this form's thresholds."""
        if self.columns is None or self.thresholds is None:
            return None
        shifted = self.columns.margins_of_columns + (self.thresholds - form.thresholds)
        return replace(self.columns, margins_of_columns=shifted, last_gap=None)


@dataclass(frozen=True)
class Task:
    """What the door hands to a solver beside the scaled form."""

    eps: float
    columns: Columns  # of phase 1
    most: int  # columns to keep
    stop: Stop
    seconds_left: float | None
    record: Callable[[Row], None]  # takes a row of the trace
    accept: Callable[[Answer], bool]  # whether the door can certify an answer at eps
    warm: WarmStart


def solve_certified(
    form: StandardForm,
    task: Task,
    oracle: Oracle,
    growth: float = PENALTY_GROWTH,
    *,
    dual_factor: float = 1.0,
    outer: int = 200,
    inner: int = 2000,
) -> Answer:
    """Solve a scaled form with an oracle until the door accepts, or nothing improves any more.

    growth: of the penalty, where the defect does not fall.
    """
    check_number("dual_factor", dual_factor, above=0, below=2)
    outer, inner, warm = check_count("outer", outer), check_count("inner", inner), task.warm
    search, multipliers = _Search(form, oracle, task), warm.multipliers
    augmented_lagrangian(
        form,
        oracle,
        oracle.start(form, task.columns),
        multipliers=np.zeros(form.constraint_count) if multipliers is None else multipliers,
        penalty=first_penalty(task.columns),
        outer=outer,
        inner=inner,
        dual_factor=dual_factor,
        # summable like the paper's sigma / t^2; below the oracle's own rounding it would stall
        target=lambda t: max(10.0**-t, task.eps / 10) * search.width,
        penalty_growth=growth,
        observe=search.observe,
    )
    assert search.dual is not None
    if isinstance(search.best, Columns):
        warm.columns, warm.thresholds = search.best, form.thresholds
        warm.multipliers = search.dual.weights
    return search.answer(search.best)


def first_penalty(columns: Columns) -> float:
    """The penalty for which one dual step would do, were the dual function quadratic.

    From the unconstrained optimum (weights 0) to the column farthest from it (weights without end)
    margins are gained for reward lost; weight = lost / gained, and penalty = weight / gained.
    """
    margins = columns.margins_of_columns
    gained = ((margins - margins[0]) ** 2).sum(1)
    farthest = int(np.argmax(gained))
    lost = float(columns.rewards[0] - columns.rewards[farthest])
    if gained[farthest] == 0:
        return 1.0
    return float(np.clip(lost / gained[farthest], SMALLEST_PENALTY, 1 / SMALLEST_PENALTY))


class _Search:
    """What is remembered while Algorithm 1 runs: the best dual bound and the best state."""

    def __init__(self, form: StandardForm, oracle: Oracle, task: Task) -> None:
        self.form, self.oracle, self.task = form, oracle, task
        self.bound = np.inf  # best dual bound so far
        self.dual: CertifiedGap | None = None  # where it came from
        self.best: Any = None  # state with the smallest max(gap, violation)
        self.answered: tuple[Any, CertifiedGap, Answer] | None = None  # the last one
        self.score = np.inf
        self.improved = 0  # evaluations when it last fell

    def observe(self, progress: Progress) -> bool:
        """Record a step; True once a policy is accepted, nothing improves, or time is up."""
        if progress.outer_done or progress.gap is None:
            return False
        latest = progress.gap
        bound = latest.bound(self.form)
        if bound < self.bound:
            self.bound, self.dual = bound, latest
        state = min(self.oracle.candidates(self.form, progress.state), key=self._score)
        score, evaluations = self._score(state), progress.evaluations
        if score < self.score:
            self.best, self.score, self.improved = state, score, evaluations
        gap = self.bound - float(state.reward)
        row: Row = {"outer": progress.outer, "evaluations": evaluations, "gap": gap}
        self.task.record({**row, "margins": state.margins, "penalty": progress.penalty})
        if score <= SAFETY * self.task.eps and self.task.accept(self.answer(state)):
            return True
        patience = self.oracle.patience
        is_stalled = patience is not None and evaluations - self.improved >= patience
        return is_stalled or self.task.stop()

    def _score(self, state: Any) -> float:
        """`max(gap, violation)` of a state."""
        gap = (self.bound - float(state.reward)) / self.width
        return max(gap, float(lagrangian.violation(state.margins)))

    @property
    def width(self) -> float:
        """What eps is a share of: the form's unit, or what another objective gained at most."""
        objective = self.form.objective
        if objective is None or not np.isfinite(self.bound):
            return 1.0
        return max(objective.tolerance(self.bound, self.task.eps) / self.task.eps, SMALLEST_WIDTH)

    def answer(self, state: Any) -> Answer:
        """The policy of a state with the best dual weights so far and their plan."""
        assert self.dual is not None
        last = self.answered
        if last is not None and last[0] is state and last[1] is self.dual:
            return last[2]
        policy = self.oracle.policy(self.form, state)
        more: dict[str, Any] = {"at": self.dual.at}
        if isinstance(state, Columns):
            more |= {"points": state.points, "mixture": state.policies}
        answer = Answer(policy, self.dual.weights, self.dual.plan, **more)
        self.answered = state, self.dual, answer
        return answer
