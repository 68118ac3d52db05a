"""The exact model: a finite, discounted constrained Markov decision process, as the user says it.

    maximise (or minimise) V_r(pi)  subject to  V_c[i](pi) <= b[i]  (or >=, ==, or in a range),
    V_x(pi) = E sum_t gamma^t x(s_t, a_t),  s_0 ~ rho.

A model keeps the user's orientation and units everywhere: `exact/standard.py` turns it into the one
problem that the mathematics knows. A model is immutable; `replace` gives a changed copy.

Actions that are not available in a state (`available [S, A]`) become exact copies of the state's
first available action, so that no solver has to know about them; `fold_unavailable` moves their
probability back before a policy is handed out.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_known
from cmdpax.model.limits import LARGEST_NUMBER, Limits, listed
from cmdpax.model.prints import Rows, as_html, as_text
from cmdpax.model.transitions import (
    ROW_SUM_TOLERANCE,
    Transitions,
    copy_first,
    float_array,
    normalised,
    read_rows,
    step_fields,
    toy_text_fields,
)

FIELDS = (  # of the constructor; thresholds besides
    *("transitions", "reward", "constraints", "senses", "initial", "discount", "minimise"),
    *("available", "state_names", "action_names", "constraint_names", "grid"),
)


@dataclass(frozen=True)
class Grid:
    """How to draw a model whose states are cells: cells, directions of actions, marked states."""

    cells: tuple[tuple[float, float], ...]  # (x, y) of each state
    moves: tuple[tuple[float, float], ...]  # (dx, dy) of each action
    hazards: tuple[int, ...] = ()
    goals: tuple[int, ...] = ()
    absorbing: tuple[int, ...] = ()  # states with nothing left to choose: no arrow is drawn there


class CMDP:
    """A finite constrained Markov decision process.

    Parameters
    ----------
    transitions: dense `[S, A, S]`; or A SciPy sparse `[S, S]`, or one `[S*A, S]` (row `s*A + a`);
        or `(successors, probabilities)`, both `[S, A, B]`
    reward: `[S, A]`
    constraints: `[m, S, A]` (or `[S, A]` for one constraint)
    thresholds: one number for each constraint, or a pair `(low, high)` for a range (a number alone
        for one constraint)
    initial: `[S]`, the distribution of the first state
    discount: in [0, 1)
    senses: `">="` (default), `"<="`, `"=="` or `"in"` (a range) for each constraint, or one for all
    minimise: whether the reward is a cost, to be minimised
    available: `[S, A]` booleans, which actions exist in which state (default: all)
    state_names, action_names, constraint_names: optional labels
    grid: optional drawing instructions
    """

    transitions: Transitions
    reward: np.ndarray
    constraints: np.ndarray
    limits: Limits
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
        senses: Sequence[str | None] | str | None = None,
        minimise: bool = False,
        available: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
        grid: Grid | None = None,
    ) -> None:
        self.transitions, self.available = read_rows(transitions, available)
        S, A, _ = self.transitions.successors.shape
        self.reward = _numbers("reward", reward, (S, A), self.available)
        if not isinstance(minimise, bool | np.bool_):
            raise InputError(f"minimise is {minimise!r}; it must be True or False.")
        self.minimise = bool(minimise)
        constraints = float_array("constraints", constraints)
        if constraints.shape == (S, A):
            constraints = constraints[None]
        m = len(constraints) if constraints.ndim else 0
        self.constraints = _numbers("constraints", constraints, (m, S, A), self.available)
        if (count := len(listed(thresholds))) != m:
            raise InputError(f"thresholds: {count} given for {m} constraints; give one for each.")
        names = _labels("constraint_names", constraint_names, m)
        if names and (len(set(names)) < m or "" in names):
            raise InputError("constraint_names: give each constraint a name of its own.")
        self.limits = Limits.of(thresholds, senses, names)
        if self.available is not None:
            copy_first(self.available, (self.reward, *self.constraints))
        self.initial = _distribution(initial, S)
        self.discount = _discount_factor(discount)
        self.state_names = _labels("state_names", state_names, S)
        self.action_names = _labels("action_names", action_names, A)
        self.grid = _checked_grid(grid, S, A)
        for array in (self.reward, self.constraints, self.initial):
            array.setflags(write=False)
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"a CMDP is immutable; use model.replace({name}=...) for a copy.")
        object.__setattr__(self, name, value)

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
        return len(self.limits)

    @property
    def successors(self) -> np.ndarray:
        """`[S, A, B]` int32, increasing in every row; unused places have probability 0."""
        return self.transitions.successors

    @property
    def probabilities(self) -> np.ndarray:
        """`[S, A, B]`, of the successors."""
        return self.transitions.probabilities

    @property
    def thresholds(self) -> np.ndarray:
        """As written: `[m]`, or `[m, 2]` (low, high) where one of them is a range."""
        return self.limits.thresholds

    @property
    def senses(self) -> tuple[str, ...]:
        """`">="`, `"<="`, `"=="` or `"in"` for each constraint."""
        return self.limits.senses

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """As given, or `c0`, `c1`, ..."""
        return self.limits.names

    def __repr__(self) -> str:
        S, A, B = self.successors.shape
        sizes = f"states={S}, actions={A}, successors<={B}, constraints={len(self.limits)}"
        return f"CMDP({sizes}, discount={self.discount:g})"

    def _rows(self) -> Rows:
        S, A, B = self.successors.shape
        return [
            ("states", f"{S:,}"),
            ("actions", f"{A:,}" + ("" if self.available is None else " at most")),
            ("successors", f"{B} at most, {int((self.probabilities > 0).sum()):,} in all"),
            ("discount", f"{self.discount:.12g}"),
            ("objective", f"{'minimise' if self.minimise else 'maximise'} the reward"),
            *(("subject to", text) for text in self.limits.texts),
        ]

    def __str__(self) -> str:
        return as_text(self._rows())

    def _repr_html_(self) -> str:
        return as_html("constrained Markov decision process", self._rows())

    def replace(self, **changes: Any) -> "CMDP":
        """A copy with other fields, as the constructor takes them; everything else stays as it was.

        Constraints keep their senses and names while their number stays the same. With another
        number a common sense is kept, different ones must be given anew, and names start again.
        Transitions that do not change are shared, not copied or checked again.
        """
        for name in changes:
            check_known("replace: field", name, (*FIELDS, "thresholds"))
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        fields["thresholds"] = self.limits.entries
        if "available" in changes:  # other pairs may be copies then
            fields["transitions"] = (self.successors, self.probabilities)
        if "thresholds" in changes:
            entries = listed(changes["thresholds"])
            if "senses" not in changes:
                fields["senses"] = self._senses_for(entries)
            if len(entries) != self.constraint_count:
                fields["constraint_names"] = None
        return CMDP(**{**fields, **changes})

    def _senses_for(self, entries: list[Any]) -> list[str | None] | None:
        """The senses of other thresholds: the model's own, but a pair says its sense itself."""
        own: tuple[str | None, ...] = self.senses
        if len(entries) != self.constraint_count:
            if len(set(own)) > 1:
                said = f"{len(entries)} thresholds for the senses {', '.join(self.senses)}"
                raise InputError(f"replace: {said}; give senses= as well.")
            own = (own or (None,))[:1] * len(entries)
        return [None if np.ndim(entry) else sense for entry, sense in zip(entries, own)]

    @cached_property
    def digest(self) -> str:
        """Fingerprint of what the user said, labels apart; how it is stored has no part in it."""
        exists = self.uniform_policy() > 0
        used = (self.probabilities > 0) & exists[:, :, None]
        return _fingerprint(
            f"{self.senses} {self.minimise} {self.discount!r}".encode(),
            np.argwhere(exists),
            used.sum(-1)[exists],
            self.successors[used].astype(np.int64),
            self.probabilities[used],
            self.reward[exists],
            self.constraints[:, exists],
            self.limits.bounds,
            self.initial,
        )

    def matches(self, digest: str) -> bool:
        """Whether a result's fingerprint is this model's; results of version 0.1 have another."""
        return digest in (self.digest, f"0.1:{self._digest_of_0_1}")

    @cached_property
    def _digest_of_0_1(self) -> str:
        """As version 0.1 made it: of padded rows and of constraints turned to `>=`."""
        turned = self.limits.turn(self.constraints, axis=0), self.limits.row_thresholds
        rows = self.successors, self.probabilities, self.reward
        mask = b"" if self.available is None else self.available.tobytes()
        return _fingerprint(mask + repr(self.discount).encode(), *rows, *turned, self.initial)

    def uniform_policy(self) -> np.ndarray:
        """The policy that chooses uniformly among the available actions, `[S, A]`."""
        return uniform_policy(self.available, self.states, self.actions)

    def fold_unavailable(self, policy: np.ndarray) -> np.ndarray:
        """A policy `[S, A]` with the probability of unavailable actions moved to those they copy.

        Its values do not change.
        """
        if self.available is None:
            return policy
        folded, first = np.where(self.available, policy, 0.0), np.argmax(self.available, axis=1)
        folded[np.arange(self.states), first] += np.where(self.available, 0.0, policy).sum(1)
        return folded

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
        **fields: Any,
    ) -> "CMDP":
        """Build from `step(state, action) -> ({next_state: probability}, reward, [constraints])`.

        states: names of any kind. actions: a list, or a function of the state where the choice
        depends on it. step: its third part has one number for each threshold; with `senses=["<="]`
        it is the cost itself. initial: `{state: probability}`. fields: `senses`, `minimise`,
        `constraint_names`, `grid`, as in the constructor.
        """
        made = step_fields(states, actions, step, thresholds, initial)
        return cls(**made, discount=discount, **fields)

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
        """Build from a Gymnasium toy-text environment and a cost kept at most `limit`.

        env: it has the table `env.unwrapped.P`. cost: `cost(s, a, next_s)`. initial: `[S]`, by
        default the environment's own. A transition with `terminated` leads to an extra absorbing
        state of zero reward and cost.
        """
        made = toy_text_fields(env, cost, initial)
        made |= {"thresholds": [limit], "senses": ["<="], "constraint_names": [cost_name]}
        return cls(**made, discount=discount)


def uniform_policy(available: np.ndarray | None, states: int, actions: int) -> np.ndarray:
    """The policy `[S, A]` that chooses uniformly among the available actions `[S, A]`."""
    if available is None:
        return np.full((states, actions), 1 / actions)
    return available / available.sum(1, keepdims=True)


def _fingerprint(end: bytes, *arrays: np.ndarray) -> str:
    """Of the shapes and numbers of arrays, and of what comes after them."""
    hasher = sha256()
    for array in arrays:
        hasher.update(str(array.shape).encode())
        hasher.update(np.ascontiguousarray(array).data)
    hasher.update(end)
    return hasher.hexdigest()


def _numbers(
    field: str, data: Any, shape: tuple[int, ...], available: np.ndarray | None = None
) -> np.ndarray:
    """A fresh finite float64 array of the given shape; unavailable pairs are not looked at."""
    array = float_array(field, data)
    if array.size == 0 and 0 in shape:
        array = array.reshape(shape)
    if array.shape != shape:
        raise InputError(f"{field}: shape {array.shape}, expected {shape}.")
    exists = np.True_ if available is None else available
    for place in np.argwhere(~np.isfinite(array) & exists)[:1].tolist():
        number = array[tuple(place)]
        raise InputError(f"{field}{place} is {number}; every entry must be a finite number.")
    if ((np.abs(array) > LARGEST_NUMBER) & exists).any():
        raise InputError(f"{field}: it has entries beyond {LARGEST_NUMBER:g}; rescale it.")
    return np.ascontiguousarray(array) + 0.0  # no -0.0


def _distribution(initial: Any, S: int) -> np.ndarray:
    """A checked and normalised distribution, `[S]`."""
    start = _numbers("initial", initial, (S,))
    if (start < 0).any():
        s = int(np.argmax(start < 0))
        raise InputError(f"initial[{s}] is {start[s]}; probabilities may not be negative.")
    with np.errstate(over="ignore"):
        total = start.sum()
    if abs(total - 1) > ROW_SUM_TOLERANCE:
        raise InputError(f"initial: probabilities sum to {total:.9g}, not 1; normalise them.")
    return normalised(start)


def _discount_factor(discount: Any) -> float:
    """A checked discount factor."""
    number = float_array("discount", discount)
    if number.ndim:
        raise InputError(f"discount: shape {number.shape}, expected one number.")
    if not 0 <= number < 1:
        raise InputError(f"discount is {float(number):g}; it must be at least 0 and below 1.")
    return float(number) + 0.0


def _labels(field: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """One text for each of `count` things, or None."""
    if names is None:
        return None
    if not np.iterable(names):
        raise InputError(f"{field}: {names!r} is not a list.")
    texts = tuple(str(name) for name in names)
    for i, label in enumerate(texts):
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise InputError(f"{field}[{i}]: {label!r} is not valid text: half a surrogate pair.")
    if len(texts) != count:
        raise InputError(f"{field}: {len(texts)} names for {count}; give one for each.")
    return texts


def _checked_grid(grid: Grid | None, S: int, A: int) -> Grid | None:
    """Drawing instructions that fit S states and A actions."""
    if grid is None:
        return None
    if not isinstance(grid, Grid):
        raise InputError("grid: it must be a cmdpax.Grid.")
    marked = grid.hazards + grid.goals + grid.absorbing
    cells, moves = len(grid.cells), len(grid.moves)
    if (cells, moves) != (S, A) or any(not 0 <= s < S for s in marked):
        own = f"{cells} cells and {moves} moves"
        raise InputError(f"grid: it describes {own}; the model has {S} and {A}.")
    return grid
