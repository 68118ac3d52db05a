"""The exact model: a finite, discounted constrained Markov decision process.

    maximise V_r(pi)  subject to  V_c[i](pi) >= b[i],   V_x(pi) = E sum_t gamma^t x(s_t, a_t),  s_0
    ~ rho.

Transitions are kept as padded successor lists, `successors [S, A, B]` (int32) with `probabilities
[S, A, B]`; B is the largest number of successors of any pair, and unused places have probability 0.
Each row lists its successors once, in increasing order, whatever form it came in, so that equal
mathematics has equal arrays. Constraints written with `<=` are negated once, here, at the boundary:
inside the library only `>=` exists. A model is immutable.

Actions that are not available in a state (`available [S, A]`) become exact copies of the state's
first available action, so that no solver has to know about them; `fold_unavailable` moves their
probability back before a policy is handed out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError
from cmdpax.loops import bellman as kernels
from cmdpax.model.fields import (
    Grid,
    availability,
    checked_grid,
    discount_factor,
    distribution,
    labels,
    numbers,
    sense_of_each,
    span,
)
from cmdpax.model.tabulate import step_fields, toy_text_fields
from cmdpax.model.transitions import (
    canonical,
    check_rows,
    copy_first,
    float_array,
    padded,
    writeable,
)

DENSE_ENTRIES = 4_000_000  # the largest [S, A, S] tensor that is worth keeping dense


class _Checked(NamedTuple):
    """Transitions of another model: checked, canonical, read-only, to be shared."""

    successors: np.ndarray
    probabilities: np.ndarray


class CMDP:
    """A finite constrained Markov decision process.

    Parameters
    ----------
    transitions: dense `[S, A, S]`; or A SciPy sparse `[S, S]`, or one `[S*A, S]` (row `s*A + a`);
        or `(successors, probabilities)`, both `[S, A, B]`
    reward: `[S, A]`
    constraints: `[m, S, A]` (or `[S, A]` for one constraint)
    thresholds: `[m]` (or a number for one constraint)
    initial: `[S]`, the distribution of the first state
    discount: in [0, 1)
    senses: `">="` (default) or `"<="` for each constraint, as the caller thinks of it
    available: `[S, A]` booleans, which actions exist in which state (default: all)
    state_names, action_names, constraint_names: optional labels
    grid: optional drawing instructions
    """

    successors: np.ndarray
    probabilities: np.ndarray
    reward: np.ndarray
    constraints: np.ndarray
    thresholds: np.ndarray
    initial: np.ndarray
    discount: float

    def __init__(
        self,
        transitions: Any,
        reward: Any,
        constraints: Any,
        thresholds: Any,
        initial: Any,
        discount: float,
        *,
        senses: Sequence[str] | str | None = None,
        available: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
        grid: Grid | None = None,
    ) -> None:
        shared = isinstance(transitions, _Checked)
        successors, probabilities = transitions if shared else padded(transitions)
        S, A, _ = successors.shape
        if S == 0:
            raise InputError("transitions: the model has no states; give at least one.")
        if A == 0:
            raise InputError(
                "transitions: the action set is empty; every state needs at least one action."
            )
        self.available = availability(available, S, A)
        self.reward = numbers("reward", reward, (S, A), self.available)
        constraints = float_array("constraints", constraints)
        if constraints.shape == (S, A):
            constraints = constraints[None]
        m = len(constraints) if constraints.ndim else 0
        rows = numbers("constraints", constraints, (m, S, A), self.available)
        limits = numbers("thresholds", np.atleast_1d(float_array("thresholds", thresholds)), (m,))
        self.senses = sense_of_each(senses, m)
        sign = np.array([1.0 if sense == ">=" else -1.0 for sense in self.senses])
        if (
            sign < 0
        ).any():  # adding 0.0 turns the -0.0 of a negated zero into 0.0: one form for one number
            rows, limits = rows * sign[:, None, None] + 0.0, limits * sign + 0.0
        self.constraints, self.thresholds = rows, limits
        self.initial = distribution(initial, S)
        self.discount = discount_factor(discount)
        if not shared:
            check_rows(successors, probabilities, self.available)
        if self.available is not None:
            copy_first(self.available, (self.reward, *self.constraints))
            if not shared:
                successors, probabilities = writeable(successors), writeable(probabilities)
                copy_first(self.available, (successors, probabilities))
        self.successors, self.probabilities = (
            (successors, probabilities) if shared else canonical(successors, probabilities)
        )
        self.state_names = labels("state_names", state_names, S)
        self.action_names = labels("action_names", action_names, A)
        self.constraint_names = labels("constraint_names", constraint_names, m)
        self.grid = checked_grid(grid, S, A)
        for array in (
            self.successors,
            self.probabilities,
            self.reward,
            self.constraints,
            self.thresholds,
            self.initial,
        ):
            array.setflags(write=False)
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(
                f"a CMDP is immutable; use model.replace({name}=...) to get a changed copy."
            )
        object.__setattr__(self, name, value)

    # ---- shapes
    # ---------------------------------------------------------------------------------------------------
    @property
    def states(self) -> int:
        """Number of states S."""
        return self.reward.shape[0]

    @property
    def actions(self) -> int:
        """Number of actions A."""
        return self.reward.shape[1]

    @property
    def constraint_count(self) -> int:
        """Number of constraints m."""
        return len(self.thresholds)

    def __repr__(self) -> str:
        S, A, B = self.successors.shape
        return (
            f"CMDP(states={S}, actions={A}, successors<={B}, constraints={self.constraint_count},"
            f" discount={self.discount:g})"
        )

    def replace(self, **changes: Any) -> "CMDP":
        """A copy with other fields. Without `senses`, arrays are in the orientation of this model's
        own arrays, `>=`.

        With `senses`, changed constraints and thresholds are read as those senses say; the
        unchanged ones stay what they are. Transitions that do not change are shared, not copied or
        checked again, with everything derived from them.
        """
        fields: dict[str, Any] = {
            "transitions": _Checked(self.successors, self.probabilities),
            "reward": self.reward,
            "constraints": self.constraints,
            "thresholds": self.thresholds,
            "initial": self.initial,
            "discount": self.discount,
            "available": self.available,
            "state_names": self.state_names,
            "action_names": self.action_names,
            "constraint_names": self.constraint_names,
            "grid": self.grid,
        }
        if "available" in changes:  # other pairs may be copies then
            fields["transitions"] = (self.successors, self.probabilities)
        if (
            "senses" in changes
        ):  # what is kept is normalised; write it as the new senses will read it
            sign = np.array(
                [
                    1.0 if sense == ">=" else -1.0
                    for sense in sense_of_each(changes["senses"], self.constraint_count)
                ]
            )
            fields["constraints"], fields["thresholds"] = (
                self.constraints * sign[:, None, None],
                self.thresholds * sign,
            )
        copy = CMDP(**{**fields, **changes})
        if "senses" not in changes and copy.constraint_count == self.constraint_count:
            object.__setattr__(copy, "senses", self.senses)
        if copy.probabilities is self.probabilities:
            shared = (
                ("matrix", "tensor", "reachable")
                if "initial" not in changes
                else ("matrix", "tensor")
            )
            copy.__dict__.update(
                {name: self.__dict__[name] for name in shared if name in self.__dict__}
            )
        return copy

    # ---- derived, cached
    # ------------------------------------------------------------------------------------------
    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transition matrix `[S*A, S]`, row `s*A + a`."""
        S, A, _ = self.successors.shape
        used = self.probabilities > 0
        pointers = np.append(0, np.cumsum(used.sum(-1)))
        return sp.csr_array(
            (self.probabilities[used], self.successors[used], pointers),
            shape=(S * A, S),
            copy=False,
        )

    @cached_property
    def tensor(self) -> np.ndarray:
        """Dense transitions `[S, A, S]`; only for models with `is_small`."""
        return self.matrix.toarray().reshape(self.states, self.actions, self.states)

    @property
    def is_small(self) -> bool:
        """Whether dense linear algebra is the better choice (and batches of policies are possible)."""
        return self.states <= 256 and self.states**2 * self.actions <= DENSE_ENTRIES

    @cached_property
    def reachable(self) -> np.ndarray:
        """`[S]` booleans: states that some policy visits from the initial distribution."""
        seen = kernels.reachable(self.successors, self.probabilities, self.initial)
        seen.setflags(write=False)
        return seen

    @cached_property
    def reward_scale(self) -> float:
        """`span(r) / (1 - gamma)` over reachable pairs: the range of possible values (span 1 if it
        is zero).
        """
        return float(span(self.reward[self.reachable])) / (1 - self.discount)

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """`span(c_i) / (1 - gamma)` over reachable pairs, `[m]`."""
        spans = [span(row[self.reachable]) for row in self.constraints]
        scales = np.array(spans, dtype=np.float64) / (1 - self.discount)
        scales.setflags(write=False)
        return scales

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the mathematics (not of the labels)."""
        hasher = sha256()
        for array in (
            self.successors,
            self.probabilities,
            self.reward,
            self.constraints,
            self.thresholds,
            self.initial,
        ):
            hasher.update(str(array.shape).encode())
            hasher.update(np.ascontiguousarray(array).data)
        if self.available is not None:
            hasher.update(self.available.data)
        hasher.update(repr(self.discount).encode())
        return hasher.hexdigest()

    def uniform_policy(self) -> np.ndarray:
        """The policy that chooses uniformly among the available actions, `[S, A]`."""
        if self.available is None:
            return np.full((self.states, self.actions), 1 / self.actions)
        return self.available / self.available.sum(1, keepdims=True)

    def fold_unavailable(self, policy: np.ndarray) -> np.ndarray:
        """Move probability from unavailable actions to the action they copy, `[S, A] -> [S, A]`;
        values do not change.
        """
        if self.available is None:
            return policy
        folded = np.where(self.available, policy, 0.0)
        folded[np.arange(self.states), np.argmax(self.available, axis=1)] += np.where(
            self.available, 0.0, policy
        ).sum(1)
        return folded

    # ---- builders
    # -------------------------------------------------------------------------------------------------
    @classmethod
    def from_step(
        cls,
        states: Sequence[Hashable],
        actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
        step: Callable[[Any, Any], tuple[Mapping[Any, float], float, Sequence[float]]],
        *,
        thresholds: Sequence[float],
        initial: Mapping[Any, float],
        discount: float,
        senses: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
        grid: Grid | None = None,
    ) -> "CMDP":
        """Build from `step(state, action) -> ({next_state: probability}, reward, [constraint
        rewards])`.

        `actions` is a list, or a function of the state where the choice depends on it. Each
        constraint reward keeps the sign of its own threshold: with `senses=["<="]` it is the cost
        itself. `initial` maps states to probabilities.
        """
        fields = step_fields(states, actions, step, thresholds, initial)
        return cls(
            **fields, discount=discount, senses=senses, constraint_names=constraint_names, grid=grid
        )

    @classmethod
    def from_toy_text(
        cls,
        env: Any,
        cost: Callable[[int, int, int], float],
        limit: float,
        discount: float,
        initial: Any = None,
        cost_name: str = "cost",
    ) -> "CMDP":
        """Build from a Gymnasium toy-text environment (`env.unwrapped.P`) and a cost `cost(s, a,
        next_s)` kept <= `limit`.

        A transition with `terminated` leads to an extra absorbing state of zero reward and cost.
        `initial [S]` defaults to the environment's own `initial_state_distrib`.
        """
        fields = toy_text_fields(env, cost, initial)
        return cls(
            **fields,
            thresholds=[limit],
            discount=discount,
            senses=["<="],
            constraint_names=[cost_name],
        )
