"""The one problem that the mathematics knows, how it is made, scaled and translated back.

    maximise V_0(pi)  subject to  V_i(pi) >= b_i,   in one criterion.

`StandardForm.of` turns a model's signs: a reward to be minimised is negated, `<=` is negated, `==`
and a range become two rows. That is exact in floating point, so a certificate of the form holds for
the user's numbers; `said_back` translates it. `scaled` maps every range of values to [0, 1], which
is not exact: solvers work there, and nothing scaled is ever certified.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.objective import Objective
from cmdpax.exact.transient import ended_states, endless_choice, without_ends
from cmdpax.lagrangian import scalarise
from cmdpax.loops import bellman
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Certificate
from cmdpax.model.transitions import Transitions

SHORT = 1e-3  # 1 - gamma below which it is asked whether all policies end


@dataclass(frozen=True)
class Evaluation:
    """What an exact method needs to know about a policy, with its batch shape in front."""

    values: np.ndarray  # [..., 1 + m, S]: V_0, then every V_i
    reward: np.ndarray  # [...]: V_0(rho)
    margins: np.ndarray  # [..., m]: V_i(rho) - b_i
    slope: np.ndarray | None = None  # [K], of another objective: V_0 is then that of this reward
    visits: np.ndarray | None = None  # [S], of another objective


@dataclass(frozen=True, eq=False)
class StandardForm:
    """Maximise `V_0` subject to `V_i >= b_i`, i = 1..m. It has no names, no senses and no eps."""

    transitions: Transitions
    reward: np.ndarray  # [K], by choice
    constraints: np.ndarray  # [m, K]
    thresholds: np.ndarray  # [m]
    initial: np.ndarray  # [S]
    criterion: Discounted  # what values, visits and bounds mean
    objective: Objective | None = None  # maximised instead of V_0

    @staticmethod
    def of(model: CMDP) -> "StandardForm":
        """The form of a model; arrays that need no turning are the model's own.

        Where the discount reaches far, or is 1, and every policy ends, rows lack what leads to an
        end. At discount 1 a model in which some policy never ends is refused.
        """
        form = StandardForm(
            model.transitions,
            -model.reward + 0.0 if model.minimise else model.reward,
            model.limits.turn(model.constraints, axis=0),
            model.limits.row_thresholds,
            model.initial,
            Discounted(model.discount),
        )
        if 1 - model.discount >= SHORT:
            return form
        ended, seen = ended_states(model), form.reachable
        endless = endless_choice(model.transitions, seen, ended)
        if endless is not None:
            if model.discount == 1:
                raise InputError(_goes_on(model, endless, ended))
            return form
        rows = without_ends(model.transitions, ended)
        form = form.replace(transitions=rows, criterion=Discounted(model.discount, 1.0))
        form.__dict__.update(reachable=seen, alive=seen & ~ended)
        gauge = form.gauge
        steps = max(1.0, float(gauge.max(initial=1.0))) if gauge is not None else 1.0
        return form.replace(criterion=Discounted(model.discount, steps))

    @property
    def states(self) -> int:
        """Number of states S."""
        return self.transitions.states

    @property
    def actions(self) -> int:
        """Number of actions A: the most that a state has."""
        return self.transitions.actions

    @property
    def choices(self) -> int:
        """Number of choices K."""
        return self.transitions.choices

    @property
    def constraint_count(self) -> int:
        """Number of rows m; a constraint of the model may have two."""
        return len(self.thresholds)

    @property
    def is_small(self) -> bool:
        """Whether dense linear algebra is used, and batches of policies are possible."""
        return self.transitions.is_small

    @cached_property
    def reachable(self) -> np.ndarray:
        """`[S]` booleans: states that some policy visits, and that count."""
        if self.criterion.discount == 0:
            return self.initial > 0
        if not self.is_small and len(self.transitions.order.starts) == 2:  # one component
            return np.ones(self.states, dtype=bool)
        return bellman.reachable(self.transitions, self.initial)

    @cached_property
    def alive(self) -> np.ndarray:
        """`[S]` booleans: reachable states that have not ended."""
        return self.reachable

    @cached_property
    def reachable_choices(self) -> np.ndarray | slice:
        """Index of the choices of reachable states: `[K]` booleans, or all of them."""
        if self.reachable.all():
            return slice(None)
        return self.transitions.by_state(self.reachable)

    @cached_property
    def gauge(self) -> np.ndarray | None:
        """The gauge of all bounds, `[S]`; None: 1 everywhere."""
        return self.criterion.gauge(self)

    @cached_property
    def largest_reward(self) -> float:
        """The largest number of reachable choices, in the reward and all constraints."""
        rows, own = (self.reward, *self.constraints), self.reachable_choices
        return max(max(float(np.abs(row[own]).max()) for row in rows), np.finfo(float).tiny)

    @cached_property
    def reward_scale(self) -> float:
        """Width of the possible values of the reward (1 if it is zero)."""
        return self.criterion.scale(self, self.reward)[1]

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """The same of every constraint, `[m]`."""
        return np.array([self.criterion.scale(self, row)[1] for row in self.constraints])

    def replace(self, **changes: Any) -> "StandardForm":
        """A copy with other fields; what was found about reachable states is shared."""
        copy = replace(self, **changes)
        if not {"transitions", "initial"} & changes.keys():
            names = {"reachable", "reachable_choices", "alive", "gauge"} & self.__dict__.keys()
            copy.__dict__.update({name: getattr(self, name) for name in names})
        return copy

    def uniform_policy(self) -> np.ndarray:
        """The policy that chooses uniformly among the choices of each state, `[K]`."""
        return self.transitions.uniform_policy()

    def pseudo_reward(self, weights: np.ndarray) -> np.ndarray:
        """`r + sum_i w_i c_i`, for weights `[..., m]` -> `[..., K]`."""
        return scalarise(self.reward, self.constraints, weights)

    def evaluate(self, policy: np.ndarray) -> Evaluation:
        """V_0, all V_i and the margins of a policy `[..., K]`.

        Of another objective F, `reward` is F, and V_0 the value of its gradient.
        """
        reward, slope, value, visits = self.reward, None, None, None
        if self.objective is not None:
            value, slope, visits = self.objective.linearised(self, policy)
            reward = slope
        rewards: Any = (reward, *self.constraints)
        if self.is_small:
            rewards = np.stack(rewards)
        values = self.criterion.values(self, policy, rewards)
        at_start = values @ self.initial
        first = at_start[..., 0] if value is None else np.asarray(value)
        return Evaluation(values, first, at_start[..., 1:] - self.thresholds, slope, visits)

    def at(self, evaluation: Evaluation) -> "StandardForm":
        """The form whose reward is the gradient of the objective at an evaluated policy."""
        return self if evaluation.slope is None else self.replace(reward=evaluation.slope)

    def scaled(self, units: np.ndarray | None = None) -> "Scaled":
        """The same problem with every value less its least, in units `[1 + m]`.

        Policies are the same. Without units, the widths of possible values are mapped to 1. States
        that are never reached have no say, but large numbers there would blur those of the others:
        they are clipped.
        """
        criterion, rows = self.criterion, (self.reward, *self.constraints)
        offsets, widths = np.array([criterion.scale(self, row) for row in rows]).T
        units = widths if units is None else units
        arrays = np.empty((len(rows), *self.reward.shape))
        for array, row, offset, unit in zip(arrays, rows, offsets, units):
            np.subtract(row, offset, out=array)
            array /= unit
            seen = array[self.reachable_choices]
            np.clip(array, seen.min(), seen.max(), out=array)
        thresholds = (self.thresholds - offsets[1:] * criterion.mass) / units[1:]
        form = self.replace(reward=arrays[0], constraints=arrays[1:], thresholds=thresholds)
        constants = [criterion.constant(self, row)[0] for row in rows]
        shifts = (offsets - constants) * criterion.mass
        if self.objective is not None:
            form = form.replace(objective=self.objective.in_units(float(units[0])))
        return Scaled(form, units, shifts, offsets[0] * criterion.mass)


@dataclass(frozen=True, eq=False)
class Scaled:
    """A form in other units, and the only code that translates its numbers back."""

    form: StandardForm
    units: np.ndarray  # [1 + m]
    shifts: np.ndarray  # [1 + m]: values of claims (`bounds.py`) less those of the scaled form
    offset: float  # value of the reward's least

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Prices `[m]` of the scaled form as those of the form it was made of."""
        return weights * self.units[0] / self.units[1:]

    def scaled_weights(self, weights: np.ndarray) -> np.ndarray:
        """Prices `[m]` of the form it was made of as those of the scaled form."""
        return weights * self.units[1:] / self.units[0]

    def potential(self, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Values `[S]` of the scaled `r + w.c` as those of the claim; weights `[m]` are scaled."""
        return values * self.units[0] + (self.shifts[0] + self.weights(weights) @ self.shifts[1:])

    def ray(self, ray: np.ndarray) -> np.ndarray:
        """A ray `[m]`."""
        return ray / self.units[1:]


def _goes_on(model: CMDP, choice: int, ended: np.ndarray) -> str:
    """What is wrong with a choice that some policy can take for ever."""
    s, a = int(model.transitions.state_of[choice]), int(model.transitions.action_of[choice])
    state = f"'{model.state_names[s]}'" if model.state_names else f"{s}"
    action = f"'{model.action_labels[a]}'" if model.action_names else f"{a}"
    what = f"discount is 1, but from state {state}, action {action}, some policy never ends"
    if not ended.any():
        return f"{what}, and no state has ended; give goal=, or a discount below 1."
    return f"{what}; make it lead to the goal, or give a discount below 1."


def said_back(model: CMDP, proof: Certificate) -> Certificate:
    """A certificate of the model's form in the model's own orientation; exact.

    A ray that prices both rows of a constraint only says how narrow the constraint is. Folded, it
    would price nothing, so it is left out.
    """
    limits, sign = model.limits, -1.0 if model.minimise else 1.0
    first = limits.first_rows
    signs, chosen = np.append(sign, limits.signs[first]), np.append(0, 1 + first)
    low, high = proof.reward_bounds
    if proof.ray is not None:
        ray = limits.fold(proof.ray)
        if np.array_equal(limits.unfold(ray), proof.ray):
            proof = replace(proof, ray=ray)
        else:
            proof = replace(proof, ray=None, ray_bound=None, ray_potential=None)
    return replace(
        proof,
        reward_bounds=(-high + 0.0, -low + 0.0) if model.minimise else (low, high),
        margin_bounds=limits.worst(proof.margin_bounds.T).T,
        dual_bound=sign * proof.dual_bound + 0.0,
        weights=limits.fold(proof.weights),
        value_potentials=proof.value_potentials[chosen] * signs[:, None] + 0.0,
        ranges=_said_ranges(proof.ranges, chosen, signs),
        range_potentials=_said_potentials(proof.range_potentials, chosen, signs),
        sizes=None if proof.sizes is None else proof.sizes[chosen],
        size_potentials=None if proof.size_potentials is None else proof.size_potentials[chosen],
        minimise=model.minimise,
    )


def _said_ranges(ranges: np.ndarray, chosen: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Ranges `[1 + M, 2]` of rows as those of the user's functions `[1 + m, 2]`."""
    own = ranges[chosen]
    return np.where(signs[:, None] > 0, own, -own[:, ::-1]) + 0.0


def _said_potentials(potentials: np.ndarray, chosen: np.ndarray, signs: np.ndarray) -> np.ndarray:
    """Potentials `[1 + M, 2, S]` of -x and x as those of the user's functions."""
    own = potentials[chosen]
    own[signs < 0] = own[signs < 0, ::-1]
    return own
