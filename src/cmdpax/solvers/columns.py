"""The corrective oracle: fully-corrective Frank-Wolfe on occupancies.

The AL of a policy depends only on its `1 + m` values, and is concave in them. Columns are
deterministic policies (optimal for some pseudo-reward) with their values; the master mixes them,

    max_alpha  sum_k alpha_k V_r[k] + sum_i (lambda_i^2 - w_i^2) / (2 beta),   w = max(lambda - beta
    u(alpha), 0),

a tiny quadratic program. Planning on `r + w.c` then either proves that no policy is better by more
than the gap, or gives the next column. At most m + 1 columns carry weight, and their mixed
occupancy is that of ONE stationary policy, `pi(a|s) = sum_k alpha_k nu_k(s) 1[a = a_k(s)] / sum_k
alpha_k nu_k(s)`, which has exactly the mixed values.

Any prices w' >= 0 prove a gap, not only the AL's own weights: for all of them, with `D` the
Lagrangian dual function,

    max AL = max_pi min_{w >= 0} V_r + w.u + |w - lambda|^2 / (2 beta)  <=  D(w') + |w' - lambda|^2
    / (2 beta).

So every other step plans at the mean of the prices at which the mixed columns were found. Where D
is smooth (many states) its gradient, the margins, is nearly affine in w, and the mean of the prices
belongs to the mean of the margins: a secant step in m dimensions. Where D is piecewise linear (few
states) such a step finds nothing new, and none follows.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.exact.discounted import occupancy, pseudo_reward, under_policy
from cmdpax.exact.planning import Plan, plan
from cmdpax.loops.mixing import master
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.policy_classes import from_actions, from_visits
from cmdpax.stopping import Stop, never

COLUMNS = 400  # columns kept at the most; the longest unused leave first
HARD_PENALTY = 1e6  # that of the mixture which meets the constraints
LOOSENESS = 0.01  # planning may err by this fraction of the last gap
NEVER = 1e-11  # share of all visits below which states together count as not visited


@dataclass(frozen=True)
class Columns:
    """k deterministic policies with their values, and the weights of the current mixture."""

    actions: tuple[np.ndarray, ...]  # k arrays [S]
    occupancies: tuple[np.ndarray, ...]  # k arrays [S]
    rewards: np.ndarray  # [k]
    margin_rows: np.ndarray  # [k, m]
    prices: (
        np.ndarray
    )  # [k, m]: the weights each was planned for; NaN if the reward had no part in it
    potentials: tuple[np.ndarray | None, ...]  # k arrays [S]: optimal values at those prices
    mixture: np.ndarray  # [k], on the simplex
    meeting: np.ndarray  # [k], the mixture that meets the constraints as well as it can
    last: CertifiedGap | None = None
    secant: Literal["next", "later", "never"] = (
        "next"  # whether the next step plans at the mean of the prices
    )

    @property
    def reward(self) -> float:
        """V_r of the mixture."""
        return float(self.mixture @ self.rewards)

    @property
    def margins(self) -> np.ndarray:
        """Margins of the mixture, `[m]`."""
        return self.mixture @ self.margin_rows


@dataclass(frozen=True)
class Corrective:
    """The oracle. `accuracy` is the error that the values of a column may have (large models; small
    ones are exact).

    `most` limits memory: a column takes about 20 bytes a state. `stop` cuts planning short.
    """

    accuracy: float = 1e-12
    most: int = COLUMNS  # columns kept
    check_every: int = 1
    stop: Stop = never

    def start(self, model: CMDP, policy: np.ndarray | None = None) -> Columns:
        """One column: the unconstrained optimum (this oracle builds its own policies and takes
        none).
        """
        return first_column(
            model, plan(model, model.reward, tolerance=self.accuracy), self.accuracy
        )

    def advance(self, model: CMDP, columns: Columns, utility: AugmentedLagrangian) -> Columns:
        """Mix the columns for the utility, plan against the mixture, add what planning found."""
        multipliers, penalty = utility.multipliers, utility.penalty
        if columns.last is None:
            columns = _meet(model, columns, multipliers)
        mixture = master(
            columns.rewards,
            columns.margin_rows,
            multipliers,
            penalty,
            columns.mixture,
            not model.is_small,
        )
        mixed = replace(columns, mixture=mixture)
        worth = utility.weights(mixed.margins)
        guess = columns.last.plan.values if columns.last else columns.potentials[0]
        is_secant, secant = False, columns.secant
        if secant == "next":
            used = np.nonzero(columns.meeting)[0]
            if is_secant := len(used) > 1 and bool(np.isfinite(columns.prices[used]).all()):
                worth, guess = (
                    columns.meeting[used] @ columns.prices[used],
                    _mean(columns.meeting, columns.potentials),
                )
        tolerance = max(self.accuracy, LOOSENESS * (columns.last.gap if columns.last else 1.0))
        start = (
            columns.last.plan.actions if columns.last else columns.actions[int(np.argmax(mixture))]
        )
        best = plan(
            model,
            pseudo_reward(model, worth),
            start,
            values=guess,
            tolerance=tolerance,
            stop=self.stop,
        )
        bound = (
            best.value
            - float(worth @ model.thresholds)
            + float(((worth - multipliers) ** 2).sum()) / (2 * penalty)
        )
        gap = bound - float(utility.value(mixed.reward, mixed.margins))
        richer = add_column(model, mixed, best, worth, self.accuracy, self.most)
        if is_secant and richer is mixed:
            secant = "never"
        elif secant != "never":
            secant = "later" if is_secant else "next"
        return replace(
            _meet(model, richer, worth), last=CertifiedGap(gap, worth, best), secant=secant
        )

    def gap(self, model: CMDP, columns: Columns, utility: AugmentedLagrangian) -> CertifiedGap:
        """The certified gap of the mixture, known from the last `advance`."""
        if columns.last is None:
            raise NumericalError("corrective: no gap is known before the first step.")
        return columns.last

    def policy(self, model: CMDP, columns: Columns) -> np.ndarray:
        """The one stationary policy with the occupancy of the mixture, `[S, A]`."""
        mass = np.zeros((model.states, model.actions))
        states = np.arange(model.states)
        for weight, actions, visits in zip(
            columns.mixture, columns.actions, columns.occupancies, strict=True
        ):
            if weight > 0:
                mass[states, actions] += weight * visits
        fallback = from_actions(
            columns.last.plan.actions if columns.last else columns.actions[0], model.actions
        )
        # states that are as good as never visited get the latest plan: what is rounding in old
        # columns is no advice
        return from_visits(mass, fallback, NEVER / (model.states * (1 - model.discount)))


def _meet(model: CMDP, columns: Columns, prices: np.ndarray) -> Columns:
    """Find the mixture that meets the constraints (a penalty near infinity), from the last one."""
    rows, is_large = columns.margin_rows, not model.is_small
    return replace(
        columns,
        meeting=master(columns.rewards, rows, prices, HARD_PENALTY, columns.meeting, is_large),
    )


def first_column(model: CMDP, best: Plan, accuracy: float = 0.0) -> Columns:
    """A mixture of one, the optimum of the reward alone."""
    none, no_prices = np.zeros((0, model.constraint_count)), np.zeros(model.constraint_count)
    empty = Columns((), (), np.zeros(0), none, none, (), np.zeros(0), np.zeros(0))
    return replace(
        add_column(model, empty, best, no_prices, accuracy), mixture=np.ones(1), meeting=np.ones(1)
    )


def add_column(
    model: CMDP,
    columns: Columns,
    best: Plan,
    prices: np.ndarray | None = None,
    accuracy: float = 0.0,
    most: int = COLUMNS,
) -> Columns:
    """Append the policy of a plan for `r + prices.c` (None: for some other reward) with weight 0,
    unless it is there already.

    At `most` columns, half of those without weight leave, the oldest first.
    """
    if any(np.array_equal(best.actions, known) for known in columns.actions):
        return columns
    visits = occupancy(model, best.actions, accuracy, _mean(columns.mixture, columns.occupancies))
    # sums, not dot products: they do not depend on the number of BLAS threads
    reward = (visits * under_policy(model.reward, best.actions)).sum()
    margins = (visits * under_policy(model.constraints, best.actions)).sum(-1) - model.thresholds
    keep = _kept(columns.mixture + columns.meeting, most)
    return replace(
        columns,
        actions=(*(columns.actions[k] for k in keep), best.actions),
        occupancies=(*(columns.occupancies[k] for k in keep), visits),
        rewards=np.append(columns.rewards[keep], reward),
        margin_rows=np.vstack([columns.margin_rows[keep], margins]),
        prices=np.vstack(
            [
                columns.prices[keep],
                np.full(model.constraint_count, np.nan) if prices is None else prices,
            ]
        ),
        potentials=(
            *(columns.potentials[k] for k in keep),
            None if prices is None else best.values,
        ),
        mixture=np.append(columns.mixture[keep], 0.0),
        meeting=np.append(columns.meeting[keep], 0.0),
    )


def _mean(mixture: np.ndarray, vectors: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The mixture of k vectors `[S]`, where it is known."""
    mean = None
    for weight, vector in zip(mixture, vectors, strict=True):
        if weight > 0 and vector is not None:
            mean = weight * vector if mean is None else mean + weight * vector
    return mean


def _kept(weights: np.ndarray, most: int) -> np.ndarray:
    """Indices to keep when a column is added: everything, or at the limit all but the older half of
    those without weight.
    """
    if len(weights) < most:
        return np.arange(len(weights))
    idle = np.nonzero(weights == 0)[0]
    return np.delete(np.arange(len(weights)), idle[: (len(idle) + 1) // 2])
