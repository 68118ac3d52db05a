"""The one problem that the mathematics knows, how it is made, scaled and translated back.

    maximise V_0(pi)  subject to  V_i(pi) >= b_i,   in one criterion.

`StandardForm.of` turns a model's signs: a reward to be minimised is negated, `<=` is negated, `==`
and a range become two rows. That is exact in floating point, so a certificate of the form holds for
the user's numbers; `said_back` translates it. `scaled` maps every range of values to [0, 1], which
is not exact: solvers work there, and nothing scaled is ever certified.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.average import Average
from cmdpax.exact.by_blocks import BlockForm
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.endings import end_components
from cmdpax.exact.objective import Objective
from cmdpax.exact.settled import Settled
from cmdpax.exact.transient import ended_states, ending_rows, without_ends
from cmdpax.lagrangian import scalarise
from cmdpax.loops import bellman
from cmdpax.loops.compiled import readable
from cmdpax.loops.rows import Block
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Certificate, Mixture
from cmdpax.model.row_function import FunctionCMDP
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
    criterion: Discounted | Average  # what values, visits and bounds mean
    objective: Objective | None = None  # maximised instead of V_0

    smallest = np.float64  # what is kept of vectors that need not be exact

    @staticmethod
    def of(model: CMDP) -> "StandardForm":
        """The form of a model; arrays that need no turning are the model's own.

        Where there is a horizon, or the discount reaches far or is 1 and every policy ends, rows
        lack what leads to an end. At discount 1, where some policy never ends, they are those of
        policies that surely do; a model in which a cycle earns, or no end can be reached, is
        refused.
        """
        form = StandardForm(
            model.transitions,
            -model.reward + 0.0 if model.minimise else model.reward,
            model.limits.turn(model.constraints, axis=0),
            model.limits.row_thresholds,
            model.initial,
            Discounted(model.discount),
        )
        if model.criterion == "average":
            return form.replace(criterion=Average.of(form))
        if 1 - model.discount >= SHORT and model.horizon is None:
            return form
        ended, seen = ended_states(model), form.reachable
        inner = end_components(model.transitions, form.transitions.by_state(seen & ~ended))[1]
        if inner.any():
            return form if model.discount < 1 else _ending(model, form, seen, ended, inner)
        rows, total = without_ends(model.transitions, ended | ~seen), _steps(model)
        form = form.replace(transitions=rows, criterion=Discounted(model.discount, 1.0))
        form.__dict__.update(reachable=seen, alive=seen & ~ended)
        gauge = form.gauge
        steps = max(1.0, float(gauge.max(initial=1.0))) if gauge is not None else 1.0
        return form.replace(criterion=Discounted(model.discount, steps, total=total))

    @property
    def kind(self) -> str:
        """What is added up, for the table of methods."""
        if isinstance(self.criterion, Average):
            return "average"
        if self.criterion.cycles is not None:
            return "total with cycles"
        if self.criterion.total is not None:
            return "finite"
        return "discounted" if self.criterion.discount < 1 else "total"

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to the model, a sentence each."""
        cycles = self.criterion.cycles
        if cycles is None or not cycles.dropped:
            return ()
        what = f"{cycles.dropped:,} choices" if cycles.dropped > 1 else "1 choice"
        return (f"{what} dropped: the end cannot be reached surely any more.",)

    def said_policies(self, policies: Mixture) -> Mixture:
        """Policies `[K]` of the form, or choices `[S]`, as those of the model."""
        rows, cycles = self.transitions, self.criterion.cycles
        said = []
        for share, policy in policies:
            if np.issubdtype(policy.dtype, np.integer):
                policy = rows.deterministic(policy)
            said.append((share, policy if cycles is None else cycles.said(policy)))
        return tuple(said)

    def heard(self, policy: np.ndarray) -> np.ndarray:
        """A policy `[K]` of the model as one of the form; where it stays for ever, it settles."""
        cycles, rows = self.criterion.cycles, self.transitions
        if cycles is None:
            return policy
        own = np.where(cycles.settles, 0.0, policy[cycles.origin])
        settles = Settled.of(rows, own).is_settled & (cycles.settled >= 0)
        return np.where(rows.by_state(settles), cycles.settles.astype(float), own)

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
        """Whether systems are solved by LU without further ado: no tolerance, no guess."""
        return self.transitions.is_small or self.is_narrow

    @cached_property
    def is_narrow(self) -> bool:
        """Whether that is LU inside a narrow envelope (`loops/narrow.py`)."""
        is_discounted = isinstance(self.criterion, Discounted) and self.criterion.parts == 1
        return is_discounted and self.constraint_count > 0 and self.transitions.is_narrow

    @cached_property
    def reachable(self) -> np.ndarray:
        """`[S]` booleans: states that some policy visits, and that count."""
        if self.criterion.discount == 0:
            return self.initial > 0
        if not self.is_small and len(self.transitions.order.starts) == 2:  # one component
            return np.ones(self.states, dtype=bool)
        return self.distances >= 0

    @cached_property
    def distances(self) -> np.ndarray:
        """`[S]`: fewest steps to each state; -1: never reached."""
        return bellman.distances(self.transitions, self.initial)

    @cached_property
    def alive(self) -> np.ndarray:
        """`[S]` booleans: reachable states that have not ended."""
        return self.reachable

    @cached_property
    def reachable_states(self) -> np.ndarray | slice:
        """Index of reachable states: `[S]` booleans, or all of them, which needs no copy."""
        return slice(None) if self.reachable.all() else self.reachable

    @cached_property
    def reachable_choices(self) -> np.ndarray | slice:
        """Index of the choices of reachable states: `[K]` booleans, or all of them."""
        own = self.reachable_states
        return own if isinstance(own, slice) else self.transitions.by_state(own)

    def span(self, reward: np.ndarray) -> tuple[float, float]:
        """The least and the largest number in a reward `[K]` before a run has ended."""
        is_closed = self.criterion.is_closed
        seen = reward[self.reachable_choices if is_closed else self.alive_choices]
        return float(seen.min(initial=np.inf)), float(seen.max(initial=-np.inf))

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """The spans of the reward and of all constraints."""
        if not self.is_small:
            return [self.span(row) for row in (self.reward, *self.constraints)]
        is_closed = self.criterion.is_closed
        seen = self.constraints[:, self.reachable_choices if is_closed else self.alive_choices]
        ends = seen.min(1, initial=np.inf).tolist(), seen.max(1, initial=-np.inf).tolist()
        return [self.span(self.reward), *zip(*ends, strict=True)]

    @cached_property
    def scales(self) -> np.ndarray:
        """Offsets and widths of the reward and of all constraints, `[1 + m, 2]`."""
        return np.array([self.criterion.scale_of(*span) for span in self.spans])

    @cached_property
    def constants(self) -> list[tuple[float, Fraction]]:
        """Constants in the reward and in all constraints, and their values."""
        return [self.criterion.constant_of(*span) for span in self.spans]

    @cached_property
    def start(self) -> tuple[np.ndarray, np.ndarray, float]:
        """States where a run may start, their chances, and how often a sum over them is rounded."""
        own = np.flatnonzero(self.initial)
        chances = self.initial[own]
        # their sum counts as a whole
        return own, chances, len(own) + 8 + abs(math.fsum(chances) - 1) / np.finfo(float).eps

    @cached_property
    def kernel(self) -> Block:
        """The rows of what counts: `gamma P`."""
        block = self.transitions.rows(0, self.states)
        return block._replace(probabilities=readable(self.criterion.discount * block.probabilities))

    @cached_property
    def alive_choices(self) -> np.ndarray:
        """`[K]` booleans: the choices of states that have not ended; where none end, all."""
        if self.criterion.is_closed:
            return np.ones(self.choices, dtype=bool)
        return self.transitions.by_state(self.alive)

    @cached_property
    def gauge(self) -> np.ndarray | None:
        """The gauge of all bounds, `[S]`; None: 1 everywhere."""
        return self.criterion.gauge(self)

    @cached_property
    def largest_reward(self) -> float:
        """The largest number of reachable choices, in the reward and all constraints."""
        return max(*(max(-low, high) for low, high in self.spans), np.finfo(float).tiny)

    @cached_property
    def reward_scale(self) -> float:
        """Width of the possible values of the reward (1 if it is zero)."""
        return float(self.scales[0, 1])

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """The same of every constraint, `[m]`."""
        return self.scales[1:, 1]

    def replace(self, **changes: Any) -> "StandardForm":
        """A copy with other fields; what was found about reachable states is shared."""
        copy = replace(self, **changes)
        if not {"transitions", "initial"} & changes.keys():
            names = {"distances", "reachable", "reachable_choices", "alive", "alive_choices"}
            names |= {"gauge", "kernel"}
            names &= self.__dict__.keys() - ({"kernel"} if "criterion" in changes else set())
            copy.__dict__.update({name: getattr(self, name) for name in names})
        return copy

    def in_order(self) -> "Renumbered":
        """The same problem with its states in the order in which they are solved."""
        rows, choices = self.transitions.in_order
        states = self.transitions.order.states
        form = StandardForm(
            rows,
            self.reward[choices],
            self.constraints[:, choices],
            self.thresholds,
            self.initial[states],
            self.criterion,
        )
        for name in {"reachable", "alive"} & self.__dict__.keys():
            form.__dict__[name] = getattr(self, name)[states]
        return Renumbered(form, choices, self.transitions.order.place)

    def uniform_policy(self) -> np.ndarray:
        """The policy that chooses uniformly among the choices of each state, `[K]`."""
        return self.transitions.uniform_policy()

    def less(self, reward: np.ndarray, constant: float) -> np.ndarray:
        """A reward `[K]` less a constant, before a run has ended."""
        return np.where(self.alive_choices, reward - constant, 0.0)

    def returns(self, choices: np.ndarray, visits: np.ndarray) -> tuple[float, np.ndarray]:
        """Values of the reward and of the constraints, `[m]`, of choices `[S]` with visits `[S]`.

        Sums, not dot products: they do not depend on the number of BLAS threads.
        """
        reward = (visits * self.reward[choices]).sum()
        return float(reward), (visits * self.constraints[:, choices]).sum(-1)

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
        """The form in units `[1 + m]`, or in the widths of possible values."""
        return scaled(self, units)

    def moved(self, offsets: np.ndarray, units: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reward and constraints, each less its offset, in units `[1 + m]`."""
        arrays = np.empty((len(units), *self.reward.shape))
        np.subtract(self.reward, offsets[0], out=arrays[0])
        np.subtract(self.constraints, offsets[1:, None], out=arrays[1:])
        arrays /= units[:, None]
        ends = (np.array(self.spans) - offsets[:, None]) / units[:, None]
        np.clip(arrays, ends[:, :1], ends[:, 1:], out=arrays)
        if not self.criterion.is_closed:
            arrays[:, ~self.alive_choices] = 0.0
        return arrays[0], arrays[1:]


def form_of(model: CMDP | FunctionCMDP) -> StandardForm:
    """The form of a model; of one whose rows are a function, a `BlockForm`, which acts as one."""
    if isinstance(model, FunctionCMDP):
        return cast(StandardForm, BlockForm.of(model, Discounted(model.discount)))
    return StandardForm.of(model)


def scaled(form: StandardForm, units: np.ndarray | None = None) -> "Scaled":
    """A form less its constants, in units `[1 + m]`, or in the widths of possible values.

    Policies are the same. Large numbers in states that are never reached would blur those of the
    others: they are clipped.
    """
    units, objective = form.scales[:, 1] if units is None else units, form.objective
    constants, values = zip(*form.constants, strict=True)
    reward, constraints = form.moved(np.array(constants), units)
    thresholds = less_values(form.thresholds, values[1:]) / units[1:]
    form = form.replace(reward=reward, constraints=constraints, thresholds=thresholds)
    if objective is not None:
        form = form.replace(objective=objective.in_units(float(units[0])))
    return Scaled(form, units, float(values[0]))


def less_values(thresholds: np.ndarray, values: Iterable[Fraction]) -> np.ndarray:
    """Thresholds `[m]`, each less an exact value: large numbers may cancel there."""
    pairs = zip(thresholds.tolist(), values, strict=True)
    return np.array([float(Fraction(one) - value) if value else one for one, value in pairs])


@dataclass(frozen=True, eq=False)
class Scaled:
    """A form in other units, and the only code that translates its numbers back."""

    form: StandardForm
    units: np.ndarray  # [1 + m]
    offset: float  # value of the reward's constant

    def weights(self, weights: np.ndarray) -> np.ndarray:
        """Prices `[m]` of the scaled form as those of the form it was made of."""
        return weights * self.units[0] / self.units[1:]

    def scaled_weights(self, weights: np.ndarray) -> np.ndarray:
        """Prices `[m]` of the form it was made of as those of the scaled form."""
        return weights * self.units[1:] / self.units[0]

    def potential(self, values: np.ndarray) -> np.ndarray:
        """Values `[S]` of the scaled `r + w.c` as those of the claim (`bounds.py`)."""
        return values * self.units[0]

    def ray(self, ray: np.ndarray) -> np.ndarray:
        """A ray `[m]`."""
        return ray / self.units[1:]


@dataclass(frozen=True, eq=False)
class Renumbered:
    """A form in another numbering, and the only code that translates its vectors back."""

    form: StandardForm
    choices: np.ndarray  # [K]: as the form it was made of numbers them
    place: np.ndarray  # [S]: where each of that form's states stands

    def policy(self, policy: np.ndarray) -> np.ndarray:
        """A policy by choice, `[K]`."""
        own = np.empty_like(policy)
        own[self.choices] = policy
        return own

    def heard(self, vectors: np.ndarray) -> np.ndarray:
        """Vectors `[..., S]` of the form it was made of as those of this one."""
        own = np.empty_like(vectors)
        own[..., self.place] = vectors
        return own

    def certificate(self, proof: Certificate) -> Certificate:
        """A certificate, whose potentials are `[..., S]`."""
        names = [name for name in vars(proof) if "potential" in name or name == "gauge"]
        vectors = {name: getattr(proof, name) for name in names}
        moved: dict[str, Any] = {
            name: vector[..., self.place] for name, vector in vectors.items() if vector is not None
        }
        return replace(proof, **moved)


def _steps(model: CMDP) -> Fraction | None:
    """`sum_t gamma^t` over the steps of a horizon."""
    gamma = Fraction(model.discount)
    if model.horizon is None:
        return None
    if gamma == 1:
        return Fraction(model.horizon)
    return (1 - gamma**model.horizon) / (1 - gamma)


def _ending(
    model: CMDP, form: StandardForm, seen: np.ndarray, ended: np.ndarray, inner: np.ndarray
) -> StandardForm:
    """The form of policies that surely end, where others go on for ever with `inner [K]`."""
    if not ended.any() and not model.may_stay:
        raise InputError(
            f"discount is 1, but {_choice(model, int(np.flatnonzero(inner)[0]))} some policy never"
            " ends, and no state has ended; give goal=, or a discount below 1."
        )
    made = ending_rows(model, seen, ended)
    if isinstance(made, int):
        place = "where nothing is paid" if model.may_stay else "the goal"
        remedy = "mend its choices" if model.may_stay else "mend its choices, give may_stay=True"
        raise InputError(
            f"initial: from {_state(model, made)} no policy surely reaches {place}; {remedy}, or a"
            " discount below 1."
        )
    rows, cycles, live = made
    for name, row, names in _said_rows(model, form):
        earning = cycles.inner & (row[cycles.origin] > 0)
        for k in cycles.origin[np.flatnonzero(earning)[:1]].tolist():
            raise InputError(
                f"discount is 1, but {_choice(model, k)} a run can go round for ever and better"
                f" {name}{names} each time; give a discount below 1, or no such cycle."
            )
    own = ~cycles.settles & rows.by_state(live & seen & ~ended)
    reward, constraints = (
        np.where(own, array[..., cycles.origin], 0.0) for array in (form.reward, form.constraints)
    )
    criterion = Discounted(1.0, 1.0, cycles)
    form = form.replace(
        transitions=rows, reward=reward, constraints=constraints, criterion=criterion
    )
    form.__dict__["alive"] = form.reachable & live & ~ended
    for choices in (cycles.start, None):  # the steps of some policy, then the least
        steps = rows.by_state(form.alive.astype(float))
        if choices is None:
            choices = form.criterion.plan(form, -steps).choices
        most = float(form.criterion.values(form, choices, steps).max(initial=1.0))
        form = form.replace(criterion=Discounted(1.0, most, cycles))
    return form


def _said_rows(model: CMDP, form: StandardForm) -> list[tuple[str, np.ndarray, str]]:
    """The functions of a form with their names."""
    names = [model.constraint_names[i] for i in model.limits.rows]
    constraints = zip(["constraint "] * len(names), form.constraints, names, strict=True)
    return [("the reward", form.reward, ""), *constraints]


def _state(model: CMDP, s: int) -> str:
    return f"state '{model.state_names[s]}'" if model.state_names else f"state {s}"


def _choice(model: CMDP, choice: int) -> str:
    """A choice of the model, for an error."""
    rows = model.transitions
    s, a = int(rows.state_of[choice]), int(rows.action_of[choice])
    names = model.action_names
    own = names[s][choice - rows.first_choice[s]] if names and not isinstance(names[0], str) else ""
    own = own or (model.action_labels[a] if names else "")
    action = f"'{own}'" if own else f"{a}"
    return f"from {_state(model, s)}, action {action},"


def said_back(model: CMDP, proof: Certificate) -> Certificate:
    """A certificate of the model's form in the model's own orientation; exact.

    A ray prices one row of a constraint at the most (`Limits.unfold`).
    """
    limits, sign = model.limits, -1.0 if model.minimise else 1.0
    if limits.are_rows and not model.minimise:
        return proof
    first, low, high = limits.first_rows, *proof.reward_bounds
    signs = np.append(sign, limits.signs[first])
    chosen: Any = slice(None) if len(first) == len(limits.rows) else np.append(0, 1 + first)
    sizes, size_potentials = proof.sizes, proof.size_potentials
    return replace(
        proof,
        reward_bounds=(-high + 0.0, -low + 0.0) if model.minimise else (low, high),
        margin_bounds=limits.worst(proof.margin_bounds.T).T,
        dual_bound=sign * proof.dual_bound + 0.0,
        weights=limits.fold(proof.weights),
        ray=None if proof.ray is None else limits.fold(proof.ray),
        value_potentials=_said_values(
            proof.value_potentials, 1 + len(limits.rows), chosen, signs, model.states
        ),
        ranges=_said_ranges(proof.ranges, chosen, signs),
        range_potentials=_said_potentials(proof.range_potentials, chosen, signs),
        sizes=None if sizes is None else sizes[chosen],
        size_potentials=None if size_potentials is None else size_potentials[chosen],
        minimise=model.minimise,
    )


def _said_values(
    potentials: np.ndarray, count: int, chosen: Any, signs: np.ndarray, S: int
) -> np.ndarray:
    """Potentials `[k count, n S]` of rows as those of the user's functions, `[k (1 + m), n S]`.

    A gauge, the last of several parts, has no sign.
    """
    own = potentials.reshape(-1, count, potentials.shape[-1])[:, chosen]
    if potentials.shape[-1] == S:
        own = own * signs[:, None]
        own += 0.0
        return own.reshape(-1, S)
    own = own.copy()
    own[..., :-S] *= signs[:, None]
    own[..., :-S] += 0.0
    return own.reshape(-1, potentials.shape[-1])


def _said_ranges(ranges: np.ndarray, chosen: Any, signs: np.ndarray) -> np.ndarray:
    """Ranges `[1 + M, 2]` of rows as those of the user's functions `[1 + m, 2]`."""
    own = ranges[chosen]
    return np.where(signs[:, None] > 0, own, -own[:, ::-1]) + 0.0


def _said_potentials(potentials: np.ndarray, chosen: Any, signs: np.ndarray) -> np.ndarray:
    """Potentials `[1 + M, 2, S]` of -x and x as those of the user's functions."""
    own = np.array(potentials[chosen])
    own[signs < 0] = own[signs < 0, ::-1]
    return own


def heard_potentials(model: CMDP, potentials: np.ndarray) -> np.ndarray:
    """Potentials `[1 + m, 2, S]` of the user's functions as those of the form's rows."""
    limits, sign = model.limits, -1.0 if model.minimise else 1.0
    return _said_potentials(
        potentials, np.append(0, 1 + limits.rows), np.append(sign, limits.signs)
    )
