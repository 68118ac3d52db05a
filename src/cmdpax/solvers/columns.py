"""The corrective oracle: fully-corrective Frank-Wolfe on occupancies.

The AL of a policy depends only on its `1 + m` values, and is concave in them. Columns are
deterministic policies (optimal for some pseudo-reward) with their values; `loops/mixing.py` mixes
them,

    max_alpha  sum_k alpha_k V_0[k] + sum_i (lambda_i^2 - w_i^2) / (2 beta),
    w = max(lambda - beta u(alpha), 0),

a tiny quadratic program. Planning on `r + w.c` then either proves that no policy is better by more
than the gap, or gives the next column. At most m + 1 columns carry weight, and their mixed
occupancy is that of ONE stationary policy, which has exactly the mixed values:
`pi(a|s) = sum_k alpha_k nu_k(s) 1[a = a_k(s)] / sum_k alpha_k nu_k(s)`.

Any weights w' >= 0 prove a gap, not only the AL's own: for all of them, with `D` the Lagrangian
dual function,

    max AL = max_pi min_{w >= 0} V_0 + w.u + |w - lambda|^2 / (2 beta)
          <= D(w') + |w' - lambda|^2 / (2 beta).

So every other step plans at the mean of the weights at which the mixed columns were found. Where D
is smooth (many states) its gradient, the margins, is nearly affine in w, and the mean of the
weights belongs to the mean of the margins: a secant step in m dimensions. Where D is piecewise
linear (few states) such a step finds nothing new, and none follows.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast

import numpy as np

from cmdpax.errors import InputError, NumericalError
from cmdpax.exact.forms import BlockForm
from cmdpax.exact.planning import Plan
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.mixing import best_mixture
from cmdpax.model.result import Mixture
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.policy_classes import Array, from_visits
from cmdpax.stopping import Stop, never

MAX_COLUMNS = 400  # kept at the most; the longest unused leave first
HARD_PENALTY = 1e6  # that of the mixture which meets the constraints
LOOSENESS = 0.01  # planning may err by this fraction of the last gap
NEVER_VISITED = 1e-11  # share of all visits below which states together count as not visited
STALL = 500  # evaluations without progress; a few dozen are usual, so only rounding is left


@dataclass(frozen=True)
class Columns:
    """k deterministic policies with their values, and the weights of the current mixture."""

    choices: tuple[np.ndarray, ...]  # k arrays [S]
    visits: tuple[np.ndarray, ...]  # k arrays [S], occupancies
    rewards: np.ndarray  # [k]
    margins_of_columns: np.ndarray  # [k, m]
    weights: np.ndarray  # [k, m]: those each was planned for; NaN if the reward had no part in it
    potentials: tuple[np.ndarray | None, ...]  # k arrays [S]: optimal values at those weights
    mixture: np.ndarray  # [k], on the simplex
    feasible_mixture: np.ndarray  # [k], best mixture at penalty 1e6: as feasible as these allow
    last_gap: CertifiedGap | None = None
    secant: Literal["next", "later", "never"] = "next"  # when to plan at the mean of the weights

    @property
    def reward(self) -> float:
        """V_0 of the mixture."""
        return float(self.mixture @ self.rewards)

    @property
    def margins(self) -> np.ndarray:
        """Margins of the mixture, `[m]`."""
        return self.mixture @ self.margins_of_columns

    @property
    def points(self) -> np.ndarray:
        """Reward and margins of every column, `[k, 1 + m]`."""
        return np.column_stack([self.rewards, self.margins_of_columns])

    @property
    def policies(self) -> Mixture:
        """The columns that carry weight, `[S]` each, with their shares."""
        shares = zip(self.mixture.tolist(), self.choices, strict=True)
        return tuple((share, choices) for share, choices in shares if share > 0)


@dataclass(frozen=True)
class Corrective:
    """The oracle.

    accuracy: the error that the values of a column may have (large models; small ones are exact).
    most: columns kept; one takes about 20 bytes a state. stop: cuts planning short.
    """

    accuracy: float = 1e-12
    most: int = MAX_COLUMNS
    stop: Stop = never
    check_every: int = 1
    patience: int | None = STALL

    def start(self, form: StandardForm, columns: Columns | None = None) -> Columns:
        """Known columns, or one: the unconstrained optimum."""
        if columns is not None:
            return columns
        best = form.criterion.plan(form, form.reward, tolerance=self.accuracy)
        return first_column(form, best, self.accuracy)

    def advance(
        self, form: StandardForm, columns: Columns, utility: AugmentedLagrangian
    ) -> Columns:
        """Mix the columns, plan against the mixture, and add what planning found."""
        last, multipliers = columns.last_gap, utility.multipliers
        if last is None:
            columns = _meet_constraints(columns, multipliers)
        mixture = _mix(columns, multipliers, utility.penalty, columns.mixture)
        mixed = replace(columns, mixture=mixture)
        weights = utility.weights(mixed.margins)
        guess = last.plan.values if last else columns.potentials[0]
        is_secant, secant = False, columns.secant
        if secant == "next":
            shares = columns.feasible_mixture
            used = np.nonzero(shares)[0]
            if is_secant := len(used) > 1 and bool(np.isfinite(columns.weights[used]).all()):
                weights = shares[used] @ columns.weights[used]
                guess = _mean(shares, columns.potentials)
        tolerance = max(self.accuracy, LOOSENESS * (last.gap if last else 1.0))
        start = last.plan.choices if last else columns.choices[int(np.argmax(mixture))]
        reward, plan = form.pseudo_reward(weights), form.criterion.plan
        best = plan(form, reward, start, values=guess, tolerance=tolerance, stop=self.stop)
        distance = float(((weights - multipliers) ** 2).sum()) / (2 * utility.penalty)
        bound = best.value - float(weights @ form.thresholds) + distance
        gap = bound - float(utility.value(mixed.reward, mixed.margins))
        richer = add_column(form, mixed, best, weights, self.accuracy, self.most)
        if richer is mixed and not is_secant and np.array_equal(mixture, columns.mixture):
            gap = 0.0  # planning repeats itself: what is left is rounding
        if is_secant and richer is mixed:
            secant = "never"
        elif secant != "never":
            secant = "later" if is_secant else "next"
        last = CertifiedGap(gap, weights, best)
        return replace(_meet_constraints(richer, weights), last_gap=last, secant=secant)

    def gap(
        self, form: StandardForm, columns: Columns, utility: AugmentedLagrangian
    ) -> CertifiedGap:
        """The certified gap of the mixture, known from the last `advance`."""
        if columns.last_gap is None:
            raise NumericalError("corrective: no gap is known before the first step.")
        return columns.last_gap

    def candidates(self, form: StandardForm, columns: Columns) -> list[Columns]:
        """The mixture itself, and the one that meets the constraints."""
        return [columns, replace(columns, mixture=columns.feasible_mixture)]

    def policy(self, form: StandardForm, columns: Columns) -> np.ndarray:
        """The one stationary policy with the occupancy of the mixture, `[K]`."""
        last = columns.last_gap
        # where hardly anybody goes the latest plan acts: what is rounding in columns is no advice
        fallback = last.plan.choices if last else columns.choices[0]
        least = NEVER_VISITED / (form.states * form.criterion.unit)
        parts = columns.mixture, columns.choices, columns.visits
        if isinstance(form, BlockForm):
            return cast(np.ndarray, form.mixed_policy(*parts, fallback, least))
        mass = np.zeros(form.choices)
        for weight, choices, visits in zip(*parts, strict=True):
            if weight > 0:
                mass[choices] += weight * visits
        return from_visits(form, mass, form.transitions.deterministic(fallback), least)


def _meet_constraints(columns: Columns, weights: np.ndarray) -> Columns:
    """Find the mixture that meets the constraints (a penalty near infinity), from the last one."""
    mixture = _mix(columns, weights, HARD_PENALTY, columns.feasible_mixture)
    return replace(columns, feasible_mixture=mixture)


def _mix(columns: Columns, multipliers: Array, penalty: float, start: Array) -> Array:
    """The best mixture `[k]` for multipliers `[m]`, from the mixture `start [k]`."""
    values = columns.rewards, columns.margins_of_columns
    return best_mixture(*values, multipliers, penalty, start)


def first_column(
    form: StandardForm, best: Plan, accuracy: float = 0.0, weights: np.ndarray | None = None
) -> Columns:
    """A mixture of one, the optimum of `r + weights.c`; of the reward alone without weights."""
    none = np.zeros((0, form.constraint_count))
    empty = Columns((), (), np.zeros(0), none, none, (), np.zeros(0), np.zeros(0))
    planned = np.zeros(form.constraint_count) if weights is None else weights
    column = add_column(form, empty, best, planned, accuracy)
    return replace(column, mixture=np.ones(1), feasible_mixture=np.ones(1))


def add_column(
    form: StandardForm,
    columns: Columns,
    best: Plan,
    weights: np.ndarray | None = None,
    accuracy: float = 0.0,
    most: int = MAX_COLUMNS,
) -> Columns:
    """Append the policy of a plan for `r + weights.c` with share 0, unless it is there already.

    weights: None if the plan was for some other reward. most: at so many columns, half of those
    without share leave, the oldest first.
    """
    if any(np.array_equal(best.choices, choices) for choices in columns.choices):
        return columns
    guess = _mean(columns.mixture, columns.visits)
    visits = form.criterion.visits(form, best.choices, tolerance=accuracy, guess=guess)
    reward, values = form.returns(best.choices, visits)
    visits = visits.astype(form.smallest, copy=False)
    keep = np.arange(len(columns.rewards))
    if len(keep) >= most:
        idle = np.nonzero(columns.mixture + columns.feasible_mixture == 0)[0]
        keep = np.delete(keep, idle[: (len(idle) + 1) // 2])
    potential = None if weights is None else best.values.astype(form.smallest, copy=False)
    planned = np.full(form.constraint_count, np.nan) if weights is None else weights
    return replace(
        columns,
        choices=(*(columns.choices[k] for k in keep), best.choices),
        visits=(*(columns.visits[k] for k in keep), visits),
        rewards=np.append(columns.rewards[keep], reward),
        margins_of_columns=np.vstack([columns.margins_of_columns[keep], values - form.thresholds]),
        weights=np.vstack([columns.weights[keep], planned]),
        potentials=(*(columns.potentials[k] for k in keep), potential),
        mixture=np.append(columns.mixture[keep], 0.0),
        feasible_mixture=np.append(columns.feasible_mixture[keep], 0.0),
    )


def _mean(mixture: np.ndarray, vectors: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mixture of k vectors `[S]`, where it is known."""
    mean = None
    for share, vector in zip(mixture, vectors, strict=True):
        if share > 0 and vector is not None:
            mean = share * vector if mean is None else mean + share * vector
    return mean


def columns_within(form: StandardForm, memory_limit: float) -> int:
    """How many columns fit into `memory_limit` GB beside what the process and one plan need."""
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:
        raise InputError(
            "memory limit: Windows does not tell how much memory is in use; leave the limit out."
        ) from None
    column = 20.0 * form.states  # actions, occupancy and potential
    # vectors and one policy's transitions
    working = 80.0 * form.states + 24.0 * form.transitions.longest * form.states
    held = getrusage(RUSAGE_SELF).ru_maxrss * (1.0 if sys.platform == "darwin" else 1024.0)
    room = int((1e9 * memory_limit - held - working) / column)
    least = 2 * form.constraint_count + 4  # those in use by two mixtures, and a few to choose from
    if room < least:
        needed = held + working + least * column
        raise InputError(
            f"memory limit: {memory_limit:.3g} GB are too few; this model needs at least"
            f" {needed / 1e9:.3g} GB."
        )
    return min(room, MAX_COLUMNS)
