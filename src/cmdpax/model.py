"""The exact model: a finite, discounted constrained Markov decision process.

    maximise V_r(pi)  subject to  V_c[i](pi) >= b[i],   V_x(pi) = E sum_t gamma^t x(s_t, a_t),  s_0 ~ rho.

Transitions are kept as padded successor lists, `successors [S, A, B]` (int32) with `probabilities [S, A, B]`; B is the
largest number of successors of any pair, and unused places have probability 0. Constraints written with `<=` are negated
once, here, at the boundary: inside the library only `>=` exists. A model is immutable.

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

ROW_SUM_TOLERANCE = 1e-8
DENSE_ENTRIES = 4_000_000  # the largest [S, A, S] tensor that is worth keeping dense
PADDED_ENTRIES = 2_000_000_000  # refuse to allocate more than this for successors


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cell of each state, direction of each action, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states in which nothing is left to choose; no arrow is drawn there


class _Checked(NamedTuple):
    """Transitions of another model: checked, read-only, to be shared."""

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
        successors, probabilities = transitions if shared else _padded(transitions)
        S, A, _ = successors.shape
        if S == 0:
            raise InputError("transitions: the model has no states; give at least one.")
        if A == 0:
            raise InputError("transitions: the action set is empty; every state needs at least one action.")
        self.available = _availability(available, S, A)
        self.reward = _numbers("reward", reward, (S, A), self.available)
        constraints = np.asarray(constraints, dtype=np.float64) if _is_numeric(constraints) else constraints
        if getattr(constraints, "ndim", 0) == 2 and np.shape(constraints) == (S, A):
            constraints = constraints[None]
        m = len(constraints) if np.ndim(constraints) else 0
        rows = _numbers("constraints", constraints, (m, S, A), self.available)
        limits = _numbers("thresholds", np.atleast_1d(np.asarray(thresholds, dtype=np.float64)), (m,))
        self.senses = _senses(senses, m)
        sign = np.array([1.0 if sense == ">=" else -1.0 for sense in self.senses])
        self.constraints = rows * sign[:, None, None] if (sign < 0).any() else rows
        self.thresholds = limits * sign
        self.initial = _distribution(initial, S)
        self.discount = _discount(discount)
        self.successors, self.probabilities = successors, probabilities
        if not shared:
            _check_rows(successors, probabilities, self.available)
        if self.available is not None:
            self._copy_first(self.available)
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

    def _copy_first(self, available: np.ndarray) -> None:
        """Overwrite every unavailable action by the state's first available one."""
        first = np.argmax(available, axis=1)
        state, action = np.nonzero(~available)
        for array in (self.successors, self.probabilities, self.reward):
            if array.flags.writeable:  # transitions shared with another model are copies already
                array[state, action] = array[state, first[state]]
        self.constraints[:, state, action] = self.constraints[:, state, first[state]]

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
        """A copy with other fields, in the normalised (`>=`) orientation unless `senses` is among them.

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
        S, A, B = self.successors.shape
        used = self.probabilities.reshape(S * A, B) > 0
        pointers = np.concatenate([[0], np.cumsum(used.sum(1))])
        flat = used.ravel()
        matrix = sp.csr_array(
            (self.probabilities.ravel()[flat], self.successors.ravel()[flat], pointers), shape=(S * A, S), copy=False
        )
        matrix.sum_duplicates()
        return matrix

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
        return kernels.reachable(self.successors, self.probabilities, self.initial)

    @cached_property
    def reward_scale(self) -> float:
        """`span(r) / (1 - gamma)` over reachable pairs: the range of possible values (span 1 if it is zero)."""
        return float(_span(self.reward[self.reachable])) / (1 - self.discount)

    @cached_property
    def constraint_scales(self) -> np.ndarray:
        """`span(c_i) / (1 - gamma)` over reachable pairs, `[m]`."""
        spans = [_span(row[self.reachable]) for row in self.constraints]
        return np.array(spans, dtype=np.float64) / (1 - self.discount)

    @cached_property
    def digest(self) -> str:
        """Fingerprint of the mathematics (not of the labels)."""
        hasher = sha256()
        for array in (self.successors, self.probabilities, self.reward, self.constraints, self.thresholds, self.initial):
            hasher.update(str(array.shape).encode())
            hasher.update(np.ascontiguousarray(array).data)
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

        `actions` is a list, or a function of the state where the choice depends on it.
        """
        state_index = {state: index for index, state in enumerate(states)}
        choices = {state: list(actions(state) if callable(actions) else actions) for state in states}
        names: dict[Any, int] = {}
        for state, options in choices.items():
            if not options:
                raise InputError(f"state {state!r}: the action set is empty; every state needs at least one action.")
            for option in options:
                names.setdefault(option, len(names))
        S, A, m = len(states), len(names), len(thresholds)
        reward, constraints, available = np.zeros((S, A)), np.zeros((m, S, A)), np.zeros((S, A), dtype=bool)
        rows: dict[tuple[int, int], Mapping[Any, float]] = {}
        for state, s in state_index.items():
            for option in choices[state]:
                a = names[option]
                following, reward[s, a], values = step(state, option)
                if len(values) != m:
                    raise InputError(
                        f"step({state!r}, {option!r}): {len(values)} constraint rewards for {m} thresholds; return one for each."
                    )
                constraints[:, s, a] = values
                available[s, a] = True
                rows[s, a] = following
        successors, probabilities = padded_rows(rows, state_index, S, A, name=lambda s, a: f"step({states[s]!r}, ...)")
        start = np.zeros(S)
        for state, probability in initial.items():
            if state not in state_index:
                raise InputError(f"initial: {state!r} is not one of the states.")
            start[state_index[state]] = probability
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
                    costs[0, s, a] += probability * cost(s, a, int(successor))
                rows[s, a] = following
        start = initial if initial is not None else getattr(env.unwrapped, "initial_state_distrib", None)
        if start is None:
            raise InputError("initial: the environment does not tell its initial distribution; give `initial` [S].")
        start = np.append(np.asarray(start, dtype=np.float64), 0.0)
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


# ---- import of transitions ------------------------------------------------------------------------------------------
def padded_rows(
    rows: Mapping[tuple[int, int], Mapping[Any, float]],
    index: Mapping[Any, int],
    S: int,
    A: int,
    name: Callable[[int, int], str] = lambda s, a: f"transitions[{s}, {a}]",
) -> tuple[np.ndarray, np.ndarray]:
    """Padded successors and probabilities from `{(s, a): {next: probability}}`; missing pairs stay empty."""
    B = max((len(row) for row in rows.values()), default=1) or 1
    refuse_huge((S, A, B))
    successors, probabilities = np.zeros((S, A, B), dtype=np.int32), np.zeros((S, A, B))
    for (s, a), row in rows.items():
        for place, (following, probability) in enumerate(row.items()):
            if following not in index:
                raise InputError(f"{name(s, a)}: successor {following!r} is not one of the {S} states.")
            successors[s, a, place] = index[following]
            probabilities[s, a, place] = probability
    return successors, probabilities


def _padded(transitions: Any) -> tuple[np.ndarray, np.ndarray]:
    """Any accepted form of transitions as (successors int32, probabilities float64), fresh arrays, not yet checked."""
    if isinstance(transitions, tuple) and len(transitions) == 2 and not sp.issparse(transitions[0]):
        successors, probabilities = (np.asarray(part) for part in transitions)
        if successors.ndim != 3 or successors.shape != probabilities.shape:
            raise InputError(
                f"transitions: successors {successors.shape} and probabilities {probabilities.shape} must both be [S, A, B]."
            )
        if not np.issubdtype(successors.dtype, np.integer):
            raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
        S = successors.shape[0]
        if successors.size and (successors.min() < 0 or successors.max() >= S):
            s, a, b = np.argwhere((successors < 0) | (successors >= S))[0]
            raise InputError(
                f"transitions: successor {successors[s, a, b]} at [{s}, {a}, {b}] is out of range; states are 0..{S - 1}."
            )
        return successors.astype(np.int32, order="C"), _floats("transitions", probabilities).copy()
    if isinstance(transitions, (list, tuple)) and len(transitions) and all(sp.issparse(part) for part in transitions):
        return _padded_from_sparse([sp.csr_array(part) for part in transitions])
    dense = _floats("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InputError(f"transitions: shape {dense.shape}, expected [S, A, S] (or sparse matrices, or padded successors).")
    S, A, _ = dense.shape
    if S == 0 or A == 0:
        return np.zeros((S, A, 1), dtype=np.int32), np.zeros((S, A, 1))
    return _padded_from_sparse([sp.csr_array(dense[:, a, :]) for a in range(A)])


def _padded_from_sparse(matrices: list[sp.csr_array]) -> tuple[np.ndarray, np.ndarray]:
    S, A = matrices[0].shape[0], len(matrices)
    for a, matrix in enumerate(matrices):
        if matrix.shape != (S, S):
            raise InputError(f"transitions[{a}]: shape {matrix.shape}, expected {(S, S)} as in transitions[0].")
    counts = np.stack([np.diff(matrix.indptr) for matrix in matrices], axis=1)
    B = max(int(counts.max(initial=0)), 1)
    refuse_huge((S, A, B))
    successors, probabilities = np.zeros((S, A, B), dtype=np.int32), np.zeros((S, A, B))
    for a, matrix in enumerate(matrices):
        row = np.repeat(np.arange(S), counts[:, a])
        place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts[:, a])
        successors[row, a, place] = matrix.indices
        probabilities[row, a, place] = matrix.data
    return successors, probabilities


# ---- validation: every message names the field, the index and the fix -----------------------------------------------
def refuse_huge(shape: tuple[int, ...]) -> None:
    """Refuse to allocate transitions of an absurd size, before allocating."""
    if float(np.prod([float(size) for size in shape])) > PADDED_ENTRIES:
        raise InputError(
            f"transitions: padded shape {shape} would need more than {PADDED_ENTRIES:.0e} entries;"
            " split the pair with the most successors by intermediate states."
        )


def _is_numeric(data: Any) -> bool:
    try:
        np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _floats(field: str, data: Any) -> np.ndarray:
    try:
        return np.asarray(data, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{field}: it must be an array of numbers with rows of equal length.") from None


def _numbers(field: str, data: Any, shape: tuple[int, ...], available: np.ndarray | None = None) -> np.ndarray:
    """A fresh finite float64 array of the given shape; unavailable pairs are not looked at."""
    array = _floats(field, data)
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
    return np.array(array, order="C")


def _availability(available: Any, S: int, A: int) -> np.ndarray | None:
    if available is None:
        return None
    mask = np.array(available)
    if mask.shape != (S, A) or mask.dtype != bool:
        raise InputError(f"available: shape {mask.shape} of {mask.dtype}, expected {(S, A)} of bool.")
    empty = ~mask.any(1)
    if empty.any():
        raise InputError(f"available[{int(np.argmax(empty))}]: the action set is empty; every state needs at least one action.")
    mask.setflags(write=False)
    return None if mask.all() else mask


def _check_rows(successors: np.ndarray, probabilities: np.ndarray, available: np.ndarray | None) -> None:
    """Probabilities must be finite, >= 0 and sum to 1; within the tolerance they are rescaled in place to do so exactly."""
    total = probabilities.sum(-1)
    # one pass over small sums finds whether anything is wrong; only then is it looked up where
    with np.errstate(invalid="ignore"):
        suspicious = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE) | (probabilities.min(-1) < 0)
    if available is not None:
        suspicious &= available
        total = np.where(available, total, 1.0)
    if suspicious.any():
        _refuse_row(successors, probabilities, suspicious)
    probabilities /= total[:, :, None]


def _refuse_row(successors: np.ndarray, probabilities: np.ndarray, suspicious: np.ndarray) -> None:
    """Say what is wrong with the first of the suspicious pairs `[S, A]`, entries before sums."""
    pairs = np.argwhere(suspicious)
    rows = probabilities[suspicious]
    for wrong, what in ((~np.isfinite(rows), "every entry must be finite"), (rows < 0, "none may be negative")):
        if wrong.any():
            row, b = (int(i) for i in np.argwhere(wrong)[0])
            s, a = (int(i) for i in pairs[row])
            raise InputError(
                f"transitions: probability of state {s}, action {a}, successor {successors[s, a, b]} is"
                f" {probabilities[s, a, b]}; {what}."
            )
    s, a = (int(i) for i in pairs[0])
    also = f" ({len(pairs) - 1} more pairs too)" if len(pairs) > 1 else ""
    raise InputError(
        f"transitions: probabilities of state {s}, action {a} sum to {rows[0].sum():.9g}, not 1{also}; normalise them."
    )


def _distribution(initial: Any, S: int) -> np.ndarray:
    start = _numbers("initial", initial, (S,))
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    if abs(start.sum() - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {start.sum():.9g}, not 1; normalise them.")
    return start / start.sum()


def _discount(discount: Any) -> float:
    try:
        number = float(discount)
    except (TypeError, ValueError):
        raise InputError(f"discount: {discount!r} is not a number.") from None
    if not 0 <= number < 1:
        raise InputError(f"discount is {number:g}; it must be at least 0 and below 1 (values are discounted sums).")
    return number


def _senses(senses: Sequence[str] | str | None, m: int) -> tuple[str, ...]:
    if senses is None:
        return (">=",) * m
    senses = (senses,) * m if isinstance(senses, str) else tuple(senses)
    if len(senses) != m:
        raise InputError(f"senses: {len(senses)} given for {m} constraints; give one for each.")
    for i, sense in enumerate(senses):
        if sense not in (">=", "<="):
            raise InputError(f"senses[{i}] is {sense!r}; it must be '>=' or '<='.")
    return senses


def _names(field: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    if len(names) != count:
        raise InputError(f"{field}: {len(names)} names for {count}; give one for each.")
    return tuple(str(name) for name in names)


def _checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    if grid is not None and (
        len(grid.cells) != S or len(grid.moves) != A or any(not 0 <= s < S for s in grid.hazards + grid.goals + grid.absorbing)
    ):
        raise InputError(f"grid: it describes {len(grid.cells)} cells and {len(grid.moves)} moves; the model has {S} and {A}.")
    return grid


def _span(values: np.ndarray) -> float:
    span = np.ptp(values) if values.size else 0.0
    return float(span) if span > 0 else 1.0
