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
from numbers import Real
from sys import float_info
from typing import Any

import numpy as np
import scipy.sparse as sp

from cmdpax.errors import InputError

ROW_SUM_TOLERANCE = 1e-8
DENSE_ENTRIES = 4_000_000  # the largest [S, A, S] tensor that is worth keeping dense
PADDED_ENTRIES = 2_000_000_000  # refuse to allocate more than this for successors
NUMERIC = "biuf"  # kinds of dtype that are real numbers


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cell of each state, direction of each action, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states in which nothing is left to choose; no arrow is drawn there


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
        successors, probabilities = _padded(transitions)
        S, A, _ = successors.shape
        if S == 0:
            raise InputError("transitions: the model has no states; give at least one.")
        if A == 0:
            raise InputError("transitions: the action set is empty; every state needs at least one action.")
        self.available = _availability(available, S, A)
        self.reward = _numbers("reward", reward, (S, A), self.available)
        constraints = _floats("constraints", constraints)
        if constraints.shape == (S, A):
            constraints = constraints[None]
        m = len(constraints) if constraints.ndim else 0
        rows = _numbers("constraints", constraints, (m, S, A), self.available)
        limits = _numbers("thresholds", np.atleast_1d(_floats("thresholds", thresholds)), (m,))
        self.senses = _senses(senses, m)
        sign = np.array([1.0 if sense == ">=" else -1.0 for sense in self.senses])
        if (sign < 0).any():  # adding 0.0 turns the -0.0 of a negated zero into 0.0: one form for one number
            rows, limits = rows * sign[:, None, None] + 0.0, limits * sign + 0.0
        self.constraints, self.thresholds = rows, limits
        self.initial = _distribution(initial, S)
        self.discount = _discount(discount)
        _check_rows(successors, probabilities, self.available)
        if self.available is not None:
            _copy_first(self.available, (successors, probabilities, self.reward, *self.constraints))
        self.successors, self.probabilities = _canonical(successors, probabilities)
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
        """A copy with other fields, in the normalised (`>=`) orientation unless `senses` is among them."""
        fields: dict[str, Any] = {
            "transitions": (self.successors, self.probabilities),
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
        normalised = "senses" not in changes
        copy = CMDP(**{**fields, **changes})
        if normalised and copy.constraint_count == self.constraint_count:
            object.__setattr__(copy, "senses", self.senses)
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
        seen = self.initial > 0
        frontier = np.nonzero(seen)[0]
        while frontier.size:
            reached = self.successors[frontier][self.probabilities[frontier] > 0]
            new = np.unique(reached[~seen[reached]])
            seen[new] = True
            frontier = new
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
        if len(state_index) < len(states):
            raise InputError(f"states: {len(states)} given, but only {len(state_index)} differ; list each once.")
        choices = {state: list(actions(state) if callable(actions) else actions) for state in states}
        names: dict[Any, int] = {}
        for state, options in choices.items():
            if not options:
                raise InputError(f"state {state!r}: the action set is empty; every state needs at least one action.")
            for option in options:
                names.setdefault(option, len(names))
        S, A, m = len(states), len(names), np.size(_floats("thresholds", thresholds))
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
            start[state_index[state]] = _number(f"initial, state {state!r}", probability)
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
                    costs[0, s, a] += probability * _number(f"cost({s}, {a}, {successor})", cost(s, a, int(successor)))
                rows[s, a] = following
        start = initial if initial is not None else getattr(env.unwrapped, "initial_state_distrib", None)
        if start is None:
            raise InputError("initial: the environment does not tell its initial distribution; give `initial` [S].")
        start = np.append(_floats("initial", start), 0.0)
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
            probabilities[s, a, place] = _number(f"{name(s, a)}, probability of {following!r}", probability)
    return successors, probabilities


def _padded(transitions: Any) -> tuple[np.ndarray, np.ndarray]:
    """Any accepted form of transitions as (successors, probabilities), fresh arrays `[S, A, B]`, not yet checked."""
    if isinstance(transitions, tuple) and len(transitions) == 2 and not sp.issparse(transitions[0]):
        successors, probabilities = (_array("transitions", part) for part in transitions)
        if successors.ndim != 3 or successors.shape != probabilities.shape:
            raise InputError(
                f"transitions: successors {successors.shape} and probabilities {probabilities.shape} must both be [S, A, B]."
            )
        if not np.issubdtype(successors.dtype, np.integer):
            raise InputError(f"transitions: successors must be integers, not {successors.dtype}.")
        return successors.copy(), probabilities.astype(np.float64)
    if isinstance(transitions, (list, tuple)) and len(transitions) and all(sp.issparse(part) for part in transitions):
        return _padded_from_sparse(transitions)
    dense = _floats("transitions", transitions)
    if dense.ndim != 3 or dense.shape[0] != dense.shape[2]:
        raise InputError(f"transitions: shape {dense.shape}, expected [S, A, S] (or sparse matrices, or padded successors).")
    S, A, _ = dense.shape
    if S == 0 or A == 0:
        return np.zeros((S, A, 1), dtype=np.int32), np.zeros((S, A, 1))
    return _padded_from_matrix(sp.csr_array(dense.reshape(S * A, S)))


def _padded_from_sparse(matrices: Sequence[Any]) -> tuple[np.ndarray, np.ndarray]:
    """From A sparse matrices `[S, S]`, one per action."""
    S, A = matrices[0].shape[0], len(matrices)
    for a, matrix in enumerate(matrices):
        if matrix.shape != (S, S):
            raise InputError(f"transitions[{a}]: shape {matrix.shape}, expected {(S, S)} as in transitions[0].")
        if matrix.dtype.kind not in NUMERIC:
            raise InputError(f"transitions[{a}]: it must hold real numbers, not {matrix.dtype}.")
    by_action = sp.csr_array(sp.vstack(matrices, format="csr"))
    by_state = np.arange(S * A).reshape(A, S).T.ravel()
    return _padded_from_matrix(by_action[by_state])


def _padded_from_matrix(matrix: sp.csr_array) -> tuple[np.ndarray, np.ndarray]:
    """From one sparse matrix `[S*A, S]`, row `s*A + a`."""
    pairs, S = matrix.shape
    if S == 0:
        return np.zeros((0, 1, 1), dtype=np.int32), np.zeros((0, 1, 1))
    counts = np.diff(matrix.indptr)
    B = max(int(counts.max()), 1)
    shape = (S, pairs // S, B)
    refuse_huge(shape)
    successors, probabilities = np.zeros((pairs, B), dtype=np.int32), np.zeros((pairs, B))
    row = np.repeat(np.arange(pairs), counts)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    successors[row, place] = matrix.indices
    probabilities[row, place] = matrix.data
    return successors.reshape(shape), probabilities.reshape(shape)


def _canonical(successors: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked rows in their one form: successors increasing, each once, unused places last, no more places than needed."""
    successors, probabilities = _ordered(successors.astype(np.int32, copy=False), probabilities)
    twice = (successors[:, :, 1:] == successors[:, :, :-1]) & (probabilities[:, :, 1:] > 0)
    if twice.any():
        for b in range(successors.shape[2] - 1, 0, -1):
            merged = np.where(twice[:, :, b - 1], probabilities[:, :, b], 0.0)
            probabilities[:, :, b - 1] += merged
            probabilities[:, :, b] -= merged
        successors, probabilities = _ordered(successors, probabilities)
    needed = int((probabilities > 0).any((0, 1)).sum())
    return np.ascontiguousarray(successors[:, :, :needed]), _normalised(np.ascontiguousarray(probabilities[:, :, :needed]))


def _ordered(successors: np.ndarray, probabilities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Every row sorted by successor, unused places last and as state 0; `probabilities` is changed in place."""
    S = np.int32(len(successors))
    keys = np.where(probabilities > 0, successors, S)
    wrong = (keys[:, :, 1:] < keys[:, :, :-1]).any(-1)  # most rows come sorted
    order = np.argsort(keys[wrong], axis=-1, kind="stable")
    for array in (keys, probabilities):
        array[wrong] = np.take_along_axis(array[wrong], order, -1)
    return np.where(keys < S, keys, np.int32(0)), probabilities


def _normalised(probabilities: np.ndarray) -> np.ndarray:
    """Distributions along the last axis that sum to 1; those that already do, up to rounding, keep their bits.

    Division is not idempotent: without the exception a model would change a little every time it is saved and loaded.
    """
    total = probabilities.sum(-1, keepdims=True)
    rounding = (probabilities.shape[-1] + 1) * np.finfo(np.float64).eps
    return probabilities / np.where(np.abs(total - 1) <= rounding, 1.0, total)


def _copy_first(available: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
    """Overwrite every unavailable action of arrays `[S, A, ...]` by the state's first available one, in place."""
    first = np.argmax(available, axis=1)
    state, action = np.nonzero(~available)
    for array in arrays:
        array[state, action] = array[state, first[state]]


# ---- validation: every message names the field, the index and the fix -----------------------------------------------
def refuse_huge(shape: tuple[int, ...]) -> None:
    """Refuse to allocate transitions of an absurd size, before allocating."""
    if float(np.prod([float(size) for size in shape])) > PADDED_ENTRIES:
        raise InputError(
            f"transitions: padded shape {shape} would need more than {PADDED_ENTRIES:.0e} entries;"
            " split the pair with the most successors by intermediate states."
        )


def _array(field: str, data: Any) -> np.ndarray:
    """Data as an array of real numbers; what NumPy would only guess at (None, text, objects, ragged rows) is refused."""
    try:
        array = np.asarray(data)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in NUMERIC:
        raise InputError(f"{field}: it must be an array of real numbers with rows of equal length.")
    return array


def _floats(field: str, data: Any) -> np.ndarray:
    return _array(field, data).astype(np.float64, copy=False)


def _number(what: str, value: Any) -> float:
    is_real = isinstance(value, Real)
    if not is_real or not -float_info.max <= value <= float_info.max:
        raise InputError(f"{what}: {value!r} is not a finite number.")
    return float(value)


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
    return np.ascontiguousarray(array) + 0.0  # no -0.0


def _availability(available: Any, S: int, A: int) -> np.ndarray | None:
    if available is None:
        return None
    mask = np.array(_array("available", available))
    if mask.shape != (S, A) or mask.dtype != bool:
        raise InputError(f"available: shape {mask.shape} of {mask.dtype}, expected {(S, A)} of bool.")
    empty = ~mask.any(1)
    if empty.any():
        raise InputError(f"available[{int(np.argmax(empty))}]: the action set is empty; every state needs at least one action.")
    mask.setflags(write=False)
    return None if mask.all() else mask


def _check_rows(successors: np.ndarray, probabilities: np.ndarray, available: np.ndarray | None) -> None:
    """Successors are states; probabilities are finite, >= 0 and sum to 1; unavailable pairs are not looked at."""
    S = len(successors)
    every = np.True_ if available is None else available[:, :, None]
    wrong = ((successors < 0) | (successors >= S)) & every
    if wrong.any():
        s, a, b = (int(i) for i in np.argwhere(wrong)[0])
        raise InputError(
            f"transitions: successor {successors[s, a, b]} at [{s}, {a}, {b}] is out of range; states are 0..{S - 1}."
        )
    for bad, what in ((~np.isfinite(probabilities), "every entry must be finite"), (probabilities < 0, "none may be negative")):
        wrong = bad & every
        if wrong.any():
            s, a, b = (int(i) for i in np.argwhere(wrong)[0])
            raise InputError(
                f"transitions: probability of state {s}, action {a}, successor {successors[s, a, b]} is"
                f" {probabilities[s, a, b]}; {what}."
            )
    with np.errstate(over="ignore", invalid="ignore"):  # a sum that overflows is wrong all the same
        total = probabilities.sum(-1)
    off = ~(np.abs(total - 1) <= ROW_SUM_TOLERANCE) & (np.True_ if available is None else available)
    if off.any():
        s, a = (int(i) for i in np.argwhere(off)[0])
        others = int(off.sum()) - 1
        also = f" ({others} more pairs too)" if others else ""
        raise InputError(
            f"transitions: probabilities of state {s}, action {a} sum to {total[s, a]:.9g}, not 1{also}; normalise them."
        )


def _distribution(initial: Any, S: int) -> np.ndarray:
    start = _numbers("initial", initial, (S,))
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    with np.errstate(over="ignore"):
        total = start.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {total:.9g}, not 1; normalise them.")
    return _normalised(start)


def _discount(discount: Any) -> float:
    number = _floats("discount", discount)
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
