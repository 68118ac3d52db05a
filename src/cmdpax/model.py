"""The exact model: a finite, discounted constrained Markov decision process.

    maximise V_r(pi)  subject to  V_c[i](pi) >= b[i],   V_x(pi) = E sum_t gamma^t x(s_t, a_t),  s_0 ~ rho.

Transitions are kept as padded successor lists, `successors [S, A, B]` (int32) with `probabilities [S, A, B]`; B is the
largest number of successors of any pair, and unused places have probability 0. Each row lists its successors once, in increasing
order, whatever form it came in, so that equal mathematics has equal arrays. Constraints written with `<=` are negated once, here,
at the boundary: inside the library only `>=` exists. A model is immutable.

Actions that are not available in a state (`available [S, A]`) become exact copies of the state's first available action, so
that no solver has to know about them; `fold_unavailable` moves their probability back before a policy is handed out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from cmdpax import kernels
from cmdpax.errors import InputError
from cmdpax.transitions import (
    ROW_SUM_TOLERANCE,
    canonical,
    check_rows,
    copy_first,
    float_array,
    normalised,
    padded,
    padded_rows,
    real_array,
    real_number,
    writeable,
)

LARGEST_NUMBER = 1e100  # sums and squares of what is larger would overflow
DENSE_ENTRIES = 4_000_000  # the largest [S, A, S] tensor that is worth keeping dense


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cell of each state, direction of each action, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states in which nothing is left to choose; no arrow is drawn there


class _Checked(NamedTuple):
    """Transitions of another model: checked, canonical, read-only, to be shared."""

    successors: np.ndarray
    probabilities: np.ndarray


class CMDP:
    """A finite constrained Markov decision process.

    Parameters
    ----------
    transitions: dense `[S, A, S]`; or a sequence of A SciPy sparse `[S, S]`; or `(successors, probabilities)`, both `[S, A, B]`
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
            raise InputError("transitions: the action set is empty; every state needs at least one action.")
        self.available = _availability(available, S, A)
        self.reward = _numbers("reward", reward, (S, A), self.available)
        constraints = float_array("constraints", constraints)
        if constraints.shape == (S, A):
            constraints = constraints[None]
        m = len(constraints) if constraints.ndim else 0
        rows = _numbers("constraints", constraints, (m, S, A), self.available)
        limits = _numbers("thresholds", np.atleast_1d(float_array("thresholds", thresholds)), (m,))
        self.senses = _senses(senses, m)
        sign = np.array([1.0 if sense == ">=" else -1.0 for sense in self.senses])
        if (sign < 0).any():  # adding 0.0 turns the -0.0 of a negated zero into 0.0: one form for one number
            rows, limits = rows * sign[:, None, None] + 0.0, limits * sign + 0.0
        self.constraints, self.thresholds = rows, limits
        self.initial = _distribution(initial, S)
        self.discount = _discount(discount)
        if not shared:
            check_rows(successors, probabilities, self.available)
        if self.available is not None:
            copy_first(self.available, (self.reward, *self.constraints))
            if not shared:
                successors, probabilities = writeable(successors), writeable(probabilities)
                copy_first(self.available, (successors, probabilities))
        self.successors, self.probabilities = (successors, probabilities) if shared else canonical(successors, probabilities)
        self.state_names = _names("state_names", state_names, S)
        self.action_names = _names("action_names", action_names, A)
        self.constraint_names = _names("constraint_names", constraint_names, m)
        self.grid = _checked_grid(grid, S, A)
        for array in (self.successors, self.probabilities, self.reward, self.constraints, self.thresholds, self.initial):
            array.setflags(write=False)
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"a CMDP is immutable; use model.replace({name}=...) to get a changed copy.")
        object.__setattr__(self, name, value)

    # ---- shapes ---------------------------------------------------------------------------------------------------
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
        return f"CMDP(states={S}, actions={A}, successors<={B}, constraints={self.constraint_count}, discount={self.discount:g})"

    def replace(self, **changes: Any) -> "CMDP":
        """A copy with other fields. Without `senses`, arrays are in the orientation of this model's own arrays, `>=`.

        With `senses`, changed constraints and thresholds are read as those senses say; the unchanged ones stay what they are.
        Transitions that do not change are shared, not copied or checked again, with everything derived from them.
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
        if "senses" in changes:  # what is kept is normalised; write it as the new senses will read it
            sign = np.array([1.0 if sense == ">=" else -1.0 for sense in _senses(changes["senses"], self.constraint_count)])
            fields["constraints"], fields["thresholds"] = self.constraints * sign[:, None, None], self.thresholds * sign
        copy = CMDP(**{**fields, **changes})
        if "senses" not in changes and copy.constraint_count == self.constraint_count:
            object.__setattr__(copy, "senses", self.senses)
        if copy.probabilities is self.probabilities:
            shared = ("matrix", "tensor", "reachable") if "initial" not in changes else ("matrix", "tensor")
            copy.__dict__.update({name: self.__dict__[name] for name in shared if name in self.__dict__})
        return copy

    # ---- derived, cached ------------------------------------------------------------------------------------------
    @cached_property
    def matrix(self) -> sp.csr_array:
        """Transition matrix `[S*A, S]`, row `s*A + a`."""
        S, A, _ = self.successors.shape
        used = self.probabilities > 0
        pointers = np.append(0, np.cumsum(used.sum(-1)))
        return sp.csr_array((self.probabilities[used], self.successors[used], pointers), shape=(S * A, S), copy=False)

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
        """`span(r) / (1 - gamma)` over reachable pairs: the range of possible values (span 1 if it is zero)."""
        return float(_span(self.reward[self.reachable])) / (1 - self.discount)

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """`span(c_i) / (1 - gamma)` over reachable pairs, `[m]`."""
        spans = [_span(row[self.reachable]) for row in self.constraints]
        scales = np.array(spans, dtype=np.float64) / (1 - self.discount)
        scales.setflags(write=False)
        return scales

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the mathematics (not of the labels)."""
        hasher = sha256()
        for array in (self.successors, self.probabilities, self.reward, self.constraints, self.thresholds, self.initial):
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
        """Move probability from unavailable actions to the action they copy, `[S, A] -> [S, A]`; values do not change."""
        if self.available is None:
            return policy
        folded = np.where(self.available, policy, 0.0)
        folded[np.arange(self.states), np.argmax(self.available, axis=1)] += np.where(self.available, 0.0, policy).sum(1)
        return folded

    # ---- builders -------------------------------------------------------------------------------------------------
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
        """Build from `step(state, action) -> ({next_state: probability}, reward, [constraint rewards])`.

        `actions` is a list, or a function of the state where the choice depends on it. Each constraint reward keeps the sign of
        its own threshold: with `senses=["<="]` it is the cost itself. `initial` maps states to probabilities.
        """
        states = list(states)
        if not isinstance(initial, Mapping):
            raise InputError("initial: give a mapping of states to probabilities, for example {'idle': 1.0}.")
        state_index = {state: index for index, state in enumerate(states)}
        if len(state_index) < len(states):
            raise InputError(f"states: {len(states)} given, but only {len(state_index)} differ; list each once.")
        choices: dict[Any, list[Any]] = {}
        for state in states:
            options = actions(state) if callable(actions) else actions
            if isinstance(options, str):
                raise InputError(f"actions: for state {state!r} they are the text {options!r}; give a list of actions.")
            choices[state] = list(options)
        names: dict[Any, int] = {}
        for state, options in choices.items():
            if not options:
                raise InputError(f"state {state!r}: the action set is empty; every state needs at least one action.")
            for option in options:
                names.setdefault(option, len(names))
        S, A, m = len(states), len(names), np.size(float_array("thresholds", thresholds))
        reward, constraints, available = np.zeros((S, A)), np.zeros((m, S, A)), np.zeros((S, A), dtype=bool)
        rows: dict[tuple[int, int], Mapping[Any, float]] = {}
        for state, s in state_index.items():
            for option in choices[state]:
                a = names[option]
                outcome = step(state, option)
                try:
                    following, reward[s, a], values = outcome
                    rows[s, a], costs = dict(following), np.asarray(values, dtype=np.float64)
                except (TypeError, ValueError):
                    raise InputError(
                        f"step({state!r}, {option!r}): return ({{next_state: probability}}, reward, [constraint rewards])."
                    ) from None
                if costs.shape != (m,):
                    raise InputError(
                        f"step({state!r}, {option!r}): {costs.size} constraint rewards for {m} thresholds; return one for each."
                    )
                constraints[:, s, a] = costs
                available[s, a] = True
        successors, probabilities = padded_rows(rows, state_index, S, A, name=lambda s, a: f"step({states[s]!r}, ...)")
        start = np.zeros(S)
        for state, probability in initial.items():
            if state not in state_index:
                raise InputError(f"initial: {state!r} is not one of the states.")
            start[state_index[state]] = real_number(f"initial, state {state!r}", probability)
        return cls(
            (successors, probabilities),
            reward,
            constraints,
            thresholds,
            start,
            discount,
            senses=senses,
            available=None if available.all() else available,
            state_names=[str(state) for state in states],
            action_names=[str(action) for action in names],
            constraint_names=constraint_names,
            grid=grid,
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
        """Build from a Gymnasium toy-text environment (`env.unwrapped.P`) and a cost `cost(s, a, next_s)` kept <= `limit`.

        A transition with `terminated` leads to an extra absorbing state of zero reward and cost. `initial [S]` defaults to
        the environment's own `initial_state_distrib`.
        """
        table = getattr(getattr(env, "unwrapped", env), "P", None)
        if table is None:
            raise InputError("environment: it has no transition table `unwrapped.P`; only toy-text environments have one.")
        S, A = len(table) + 1, len(table[0])
        reward, costs = np.zeros((S, A)), np.zeros((1, S, A))
        rows: dict[tuple[int, int], Mapping[Any, float]] = {(S - 1, a): {S - 1: 1.0} for a in range(A)}
        for s in range(S - 1):
            for a in range(A):
                following: dict[int, float] = {}
                for probability, successor, gain, terminated in table[s][a]:
                    target = S - 1 if terminated else int(successor)
                    following[target] = following.get(target, 0.0) + probability
                    reward[s, a] += probability * gain
                    costs[0, s, a] += probability * real_number(f"cost({s}, {a}, {successor})", cost(s, a, int(successor)))
                rows[s, a] = following
        start = initial if initial is not None else getattr(env.unwrapped, "initial_state_distrib", None)
        if start is None:
            raise InputError("initial: the environment does not tell its initial distribution; give `initial` [S].")
        start = np.append(float_array("initial", start), 0.0)
        return cls(
            padded_rows(rows, {s: s for s in range(S)}, S, A),
            reward,
            costs,
            [limit],
            start,
            discount,
            senses=["<="],
            state_names=[*(str(s) for s in range(S - 1)), "end"],
            constraint_names=[cost_name],
        )


# ---- validation: every message names the field, the index and the fix -----------------------------------------------
def _numbers(field: str, data: Any, shape: tuple[int, ...], available: np.ndarray | None = None) -> np.ndarray:
    """A fresh finite float64 array of the given shape; unavailable pairs are not looked at."""
    array = float_array(field, data)
    if array.size == 0 and 0 in shape:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InputError(f"{field}: shape {array.shape}, expected {shape}.")
    wrong = ~np.isfinite(array)
    if available is not None:
        wrong &= available
    if wrong.any():
        where = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise InputError(f"{field}{list(where)} is {array[where]}; every entry must be a finite number.")
    beyond = np.abs(array) > LARGEST_NUMBER
    if (beyond if available is None else beyond & available).any():
        raise InputError(f"{field}: it has entries beyond {LARGEST_NUMBER:g}; rescale it.")
    return np.ascontiguousarray(array) + 0.0  # no -0.0


def _availability(available: Any, S: int, A: int) -> np.ndarray | None:
    if available is None:
        return None
    mask = np.array(real_array("available", available))
    if mask.shape != (S, A) or mask.dtype != bool:
        raise InputError(f"available: shape {mask.shape} of {mask.dtype}, expected {(S, A)} of bool.")
    empty = ~mask.any(1)
    if empty.any():
        raise InputError(f"available[{int(np.argmax(empty))}]: the action set is empty; every state needs at least one action.")
    mask.setflags(write=False)
    return None if mask.all() else mask


def _distribution(initial: Any, S: int) -> np.ndarray:
    start = _numbers("initial", initial, (S,))
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    with np.errstate(over="ignore"):
        total = start.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {total:.9g}, not 1; normalise them.")
    return normalised(start)


def _discount(discount: Any) -> float:
    number = float_array("discount", discount)
    if number.ndim:
        raise InputError(f"discount: shape {number.shape}, expected one number.")
    if not 0 <= number < 1:
        raise InputError(f"discount is {float(number):g}; it must be at least 0 and below 1 (values are discounted sums).")
    return float(number) + 0.0


def _senses(senses: Sequence[str] | str | None, m: int) -> tuple[str, ...]:
    if senses is None:
        return (">=",) * m
    senses = (senses,) * m if isinstance(senses, str) else _listed("senses", senses)
    if len(senses) != m:
        raise InputError(f"senses: {len(senses)} given for {m} constraints; give one for each.")
    for i, sense in enumerate(senses):
        if sense not in (">=", "<="):
            raise InputError(f"senses[{i}] is {sense!r}; it must be '>=' or '<='.")
    return senses


def _names(field: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    labels = tuple(str(name) for name in _listed(field, names))
    if len(labels) != count:
        raise InputError(f"{field}: {len(labels)} names for {count}; give one for each.")
    for i, label in enumerate(labels):
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise InputError(f"{field}[{i}]: {label!r} is not valid text; it holds half of a surrogate pair.")
    return labels


def _listed(field: str, items: Any) -> tuple[Any, ...]:
    try:
        return tuple(items)
    except TypeError:
        raise InputError(f"{field}: {items!r} is not a list.") from None


def _checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    if grid is not None and not isinstance(grid, Grid):
        raise InputError("grid: it must be a cmdpax.Grid.")
    if grid is not None and (
        len(grid.cells) != S or len(grid.moves) != A or any(not 0 <= s < S for s in grid.hazards + grid.goals + grid.absorbing)
    ):
        raise InputError(f"grid: it describes {len(grid.cells)} cells and {len(grid.moves)} moves; the model has {S} and {A}.")
    return grid


def _span(values: np.ndarray) -> float:
    span = np.ptp(values) if values.size else 0.0
    return float(span) if span > 0 else 1.0
