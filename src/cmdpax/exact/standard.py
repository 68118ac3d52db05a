"""The one problem that the mathematics knows, how it is made, scaled and numbered anew.

    maximise V_0(pi)  subject to  V_i(pi) >= b_i,   in one criterion.

`StandardForm.of` turns a model's signs: a reward to be minimised is negated, `<=` is negated, `==`
and a range become two rows. That is exact in floating point, so a certificate of the form holds for
the user's numbers; `certificate.said_back` turns it back. `scaled` maps every range of values to
[0, 1], which is not exact: solvers work there, and nothing scaled is ever certified.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from cmdpax.exact.average import Average
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.forms import BlockForm, Form
from cmdpax.exact.objective import Objective
from cmdpax.exact.settled import Settled
from cmdpax.exact.transient import with_ends
from cmdpax.loops import bellman
from cmdpax.loops.compiled import readable
from cmdpax.loops.rows import Block
from cmdpax.model.cmdp import CMDP
from cmdpax.model.result import Certificate, Mixture
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.model.transitions import Transitions, is_deterministic

SHORT = 1e-3  # 1 - gamma below which it is asked whether all policies end


@dataclass(frozen=True)
class Evaluation:
    """What an exact method needs to know about a policy, with its batch shape in front."""

    values: np.ndarray  # [..., 1 + m, S]: V_0, then every V_i
    reward: np.ndarray  # [...]: V_0(rho)
    margins: np.ndarray  # [..., m]: V_i(rho) - b_i
    slope: np.ndarray | None = None  # [K], gradient of another objective; V_0 is then its value
    visits: np.ndarray | None = None  # [S], where there is another objective


@dataclass(frozen=True, eq=False)
class StandardForm(Form):
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
        """The form of a model; arrays that need no turning are the model's own."""
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
        return with_ends(model, form)

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
            if is_deterministic(policy):
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

    @property
    def _counted(self) -> np.ndarray | slice:
        """Index of the choices of reachable states before a run has ended."""
        return self.reachable_choices if self.criterion.is_closed else self.alive_choices

    def span(self, reward: np.ndarray) -> tuple[float, float]:
        """The least and the largest number in a reward `[K]` before a run has ended."""
        seen = reward[self._counted]
        return float(seen.min(initial=np.inf)), float(seen.max(initial=-np.inf))

    @cached_property
    def spans(self) -> list[tuple[float, float]]:
        """The spans of the reward and of all constraints."""
        if not self.is_small:
            return super().spans
        seen = self.constraints[:, self._counted]
        ends = seen.min(1, initial=np.inf).tolist(), seen.max(1, initial=-np.inf).tolist()
        return [self.span(self.reward), *zip(*ends, strict=True)]

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
    def reward_scale(self) -> float:
        """Width of the possible values of the reward (1 if it is zero)."""
        return float(self.scales[0, 1])

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """The same of every constraint, `[m]`."""
        return self.scales[1:, 1]

    def replace(self, **changes: Any) -> "StandardForm":
        """A copy with other fields; what is known of reachable states is shared."""
        copy = replace(self, **changes)
        if not {"transitions", "initial"} & changes.keys():
            names = {"distances", "reachable", "reachable_choices", "alive", "alive_choices"}
            names |= {"gauge"} if "criterion" in changes else {"gauge", "kernel"}
            copy.__dict__.update({name: vars(self)[name] for name in names & vars(self).keys()})
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
    """A form in other units, and what turns its numbers back."""

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
    """A form in another numbering of states, and what turns its vectors back."""

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
