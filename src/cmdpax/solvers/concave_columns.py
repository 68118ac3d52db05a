"""The corrective oracle for a concave utility of a few values: plan for the gradient, mix anew.

    max_alpha  F(sum_n alpha_n V[n]) + sum_i (lambda_i^2 - w_i^2) / (2 beta)

over mixtures of columns. F is replaced by its quadratic model at the current mixture, which is a
program of `loops/mixing.py`: with `-F'' = R' R` the model adds `-|R (V - V_0)|^2 / 2`, a row for
each eigenvalue. A few such Newton steps, each with a line search on F, settle the mixture. The
first column is the uniform policy, at which F must be finite; every other is a deterministic plan.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cmdpax.exact.objective import Objective
from cmdpax.exact.standard import StandardForm
from cmdpax.loops.mixing import best_mixture
from cmdpax.solvers.algorithm import AugmentedLagrangian, CertifiedGap
from cmdpax.solvers.columns import HARD_PENALTY, LOOSENESS, MAX_COLUMNS, NEVER_VISITED, STALL
from cmdpax.solvers.policy_classes import Array, from_visits
from cmdpax.stopping import Stop, never

NEWTON_STEPS, HALVINGS = 50, 40
ASCENT = 1e-4  # share of the predicted rise that a step must bring
SETTLED = 1e-13  # predicted rise that is rounding, relative to the value


@dataclass(frozen=True)
class Mixture:
    """n policies with their visits and points, and the shares of the current mixture."""

    policies: tuple[Array, ...]  # n arrays: choices [S], or probabilities [K]
    visits: tuple[Array, ...]  # n arrays [S]
    points: Array  # [n, k], values of the utility's rewards
    margins_of_columns: Array  # [n, m]
    shares: Array  # [n], on the simplex
    feasible_shares: Array  # [n], the best at penalty 1e6
    objective: Objective
    last_gap: CertifiedGap | None = None

    @property
    def point(self) -> Array:
        """Values of the mixture, `[k]`."""
        return self.shares @ self.points

    @property
    def reward(self) -> float:
        """F of the mixture."""
        return self.objective.utility.value(self.point) / self.objective.unit

    @property
    def margins(self) -> Array:
        """Margins of the mixture, `[m]`."""
        return self.shares @ self.margins_of_columns


@dataclass(frozen=True)
class ConcaveColumns:
    """The oracle; `accuracy` and `stop` are those of `columns.Corrective`."""

    accuracy: float = 1e-12
    stop: Stop = never
    check_every: int = 1
    patience: int | None = STALL

    def start(self, form: StandardForm, columns: Any = None) -> Mixture:
        """The uniform policy, and the columns of phase 1 with what they visit."""
        assert form.objective is not None
        none = np.zeros((0, len(form.objective.rewards))), np.zeros((0, form.constraint_count))
        mixture = Mixture((), (), *none, np.zeros(0), np.zeros(0), form.objective)
        mixture = self._add(form, mixture, form.uniform_policy())
        mixture = replace(mixture, shares=np.ones(1), feasible_shares=np.ones(1))
        for choices, visits in zip(getattr(columns, "choices", ()), getattr(columns, "visits", ())):
            mixture = self._add(form, mixture, choices, visits)
        return mixture

    def advance(self, form: StandardForm, state: Mixture, utility: AugmentedLagrangian) -> Mixture:
        """Mix the columns, plan against the mixture, and add what planning finds."""
        mixed = replace(state, shares=_mixed(state, utility, state.shares))
        hard = AugmentedLagrangian(utility.multipliers, HARD_PENALTY)
        if form.constraint_count:
            mixed = replace(mixed, feasible_shares=_mixed(mixed, hard, state.feasible_shares))
        point, objective = mixed.point, mixed.objective
        value, slope = objective.at(form, (point, None))
        weights, last = utility.weights(mixed.margins), state.last_gap
        reward = form.replace(reward=slope).pseudo_reward(weights)
        tolerance = max(self.accuracy, LOOSENESS * (last.gap if last else 1.0))
        start, guess = (last.plan.choices, last.plan.values) if last else (None, None)
        best = form.criterion.plan(
            form, reward, start, values=guess, tolerance=tolerance, stop=self.stop
        )
        slopes = objective.utility.gradient(point)[0] / objective.unit
        earned = float(slopes @ point)
        current = earned + float(weights @ (mixed.margins + form.thresholds))
        gap = CertifiedGap(best.value - current, weights, best, value - earned, (point, None))
        return replace(self._add(form, mixed, best.choices), last_gap=gap)

    def gap(self, form: StandardForm, state: Mixture, utility: AugmentedLagrangian) -> CertifiedGap:
        """The certified gap of the mixture, from the last `advance`."""
        assert state.last_gap is not None
        return state.last_gap

    def candidates(self, form: StandardForm, state: Mixture) -> list[Mixture]:
        """The mixture itself, and the one that meets the constraints."""
        if not form.constraint_count:
            return [state]
        return [state, replace(state, shares=state.feasible_shares)]

    def policy(self, form: StandardForm, state: Mixture) -> Array:
        """The one stationary policy with the occupancy of the mixture, `[K]`."""
        mass = np.zeros(form.choices)
        for share, policy, visits in zip(state.shares, state.policies, state.visits):
            if share > 0:
                mass += share * _mass(form, policy, visits)
        least = NEVER_VISITED / (form.states * form.criterion.unit)
        last = state.last_gap
        fallback = form.transitions.deterministic(last.plan.choices) if last else state.policies[0]
        return from_visits(form, mass, fallback, least)

    def _add(
        self, form: StandardForm, state: Mixture, policy: Array, visits: Array | None = None
    ) -> Mixture:
        """The mixture with one more column of share 0, unless it is there already."""
        if any(np.array_equal(policy, other) for other in state.policies):
            return state
        if visits is None:
            visits = form.criterion.visits(form, policy, tolerance=self.accuracy)
        mass = _mass(form, policy, visits)
        point = state.objective.point_of(form, mass)[0]
        margins = (form.constraints * mass).sum(-1) - form.thresholds
        keep = np.arange(len(state.shares))
        if len(keep) >= MAX_COLUMNS:
            idle = np.nonzero(state.shares + state.feasible_shares == 0)[0]
            keep = np.delete(keep, idle[: (len(idle) + 1) // 2])
        return replace(
            state,
            policies=(*(state.policies[n] for n in keep), policy),
            visits=(*(state.visits[n] for n in keep), visits),
            points=np.vstack([state.points[keep], point]),
            margins_of_columns=np.vstack([state.margins_of_columns[keep], margins]),
            shares=np.append(state.shares[keep], 0.0),
            feasible_shares=np.append(state.feasible_shares[keep], 0.0),
        )


def _mass(form: StandardForm, policy: Array, visits: Array) -> Array:
    """Visits by choice, `[K]`, of a policy with visits `[S]`."""
    if np.issubdtype(policy.dtype, np.integer):
        mass = np.zeros(form.choices)
        mass[policy] = visits
        return mass
    return form.transitions.by_state(visits) * policy


def _mixed(state: Mixture, utility: AugmentedLagrangian, start: Array) -> Array:
    """The best shares `[n]`, from some at which F is finite."""
    points, margins = state.points, state.margins_of_columns
    concave, unit, penalty = state.objective.utility, state.objective.unit, utility.penalty

    def total(shares: Array) -> float:
        value = concave.value(shares @ points) / unit
        return float(utility.value(value, shares @ margins))

    shares, value = start, total(start)
    for _ in range(NEWTON_STEPS):
        point = shares @ points
        slopes = concave.gradient(point)[0] / unit
        rows = (points - point) @ concave.root(point).T / np.sqrt(unit * penalty)
        # so large a multiplier that the row is never slack: then it is quadratic on both sides
        large = 2 * penalty * np.abs(rows).max(0, initial=0.0)
        rewards = points @ slopes - rows @ large
        multipliers = np.append(utility.multipliers, large)
        better = best_mixture(rewards, np.hstack([margins, rows]), multipliers, penalty, shares)
        direction = better - shares
        gradient = points @ slopes + margins @ utility.weights(shares @ margins)
        rise = float(gradient @ direction)
        if rise <= SETTLED * (1 + abs(value)):
            break
        length, after = 1.0, total(better)
        for _ in range(HALVINGS):
            if after >= value + ASCENT * length * rise:
                break
            length /= 2
            after = total(shares + length * direction)
        if not after > value:
            break
        shares, value = shares + length * direction, after
    return shares
