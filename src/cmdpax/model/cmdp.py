"""The exact model: a finite constrained Markov decision process, as the user says it.

    maximise (or minimise) V_r(pi)  subject to  V_c[i](pi) <= b[i]  (or >=, ==, or in a range),
    V_x(pi) = E sum_t gamma^t x(s_t, a_t),  s_0 ~ rho,  t from 0 on, or up to a horizon;
    or the long-run average of x.

A model keeps the user's orientation and units everywhere: `exact/standard.py` turns it into the one
problem that the mathematics knows. A model is immutable; `replace` gives a changed copy.

States may have different numbers of choices: numbers are kept by choice, `[K]`, those of a state
one after another (`transitions.py`). Policies are tables `[S, A]`, 0 where a state has no such
action; `by_choice` and `as_table` turn one into the other. With a horizon H they are `[H, S, A]`,
and the model's own states are those of all times (`horizon.py`).
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from cmdpax.errors import InputError, check_count, check_known
from cmdpax.loops.rows import Block
from cmdpax.model.arguments import (
    Grid,
    action_labels,
    add_at_the_end,
    by_choice,
    check_criterion,
    checked_grid,
    constraint_rows,
    criterion_of,
    discount_factor,
    distribution,
    flag,
    goal_mask,
    labels,
)
from cmdpax.model.digest import digest_of, digest_of_0_1
from cmdpax.model.foreign import mdptoolbox_fields, quantecon_fields, toy_text_fields
from cmdpax.model.horizon import read_stages
from cmdpax.model.limits import Limited, Limits, listed
from cmdpax.model.prints import MODEL, Printed, Rows
from cmdpax.model.prism import prism_fields
from cmdpax.model.reading import CUBE, is_cube, read_rows
from cmdpax.model.row_function import FunctionCMDP
from cmdpax.model.steps import step_fields
from cmdpax.model.tables import table_fields
from cmdpax.model.transitions import Transitions
from cmdpax.model.umb import umb_fields

FIELDS = (  # of the constructor; thresholds besides
    *("transitions", "reward", "constraints", "senses", "initial", "discount", "minimise"),
    *("criterion", "may_stay", "horizon"),
    *("state_names", "action_names", "constraint_names", "grid", "notes"),
)
OF_ROWS = ("available", "first_choice", "goal")  # arguments that say what transitions mean


class CMDP(Limited, Printed):
    """A finite constrained Markov decision process.

    Parameters
    ----------
    transitions: dense `[S, A, S]`, or A matrices `[S, S]`, dense or sparse; or one matrix
        `[S*A, S]` (row `s*A + a`), or `[K, S]` with `first_choice`; or
        `(successors, probabilities)`, both `[S, A, B]`; or for every state a list of choices
        `{next state: probability}`
    reward: `[S, A]`, or by choice, `[K]`, or of transitions, `[S, A, S]`
    constraints: `[m, S, A]`, `[m, K]` or `[m, S, A, S]` (without m for one constraint)
    thresholds: one number for each constraint, or a pair `(low, high)` for a range (a number alone
        for one constraint)
    initial: the first state, by its index or its name; or `{state: probability}`; or its
        distribution `[S]`
    discount: in [0, 1]. At 1 rewards are added up until a goal is surely reached; with a horizon it
        is 1 unless you say otherwise
    criterion: `"average"` for the long-run average, which needs no discount
    senses: `">="` (default), `"<="`, `"=="` or `"in"` (a range) for each constraint, or one for all
    minimise: whether the reward is a cost, to be minimised
    first_choice: `[S + 1]`, the first row of every state in a matrix `[K, S]`, and K
    available: `[S, A]` booleans, which actions exist in which state (default: all)
    goal: states where the run ends, and nothing is paid any more: a mask `[S]`, an index, a name,
        or a list of these; their rows are not looked at
    may_stay: at discount 1, whether a run may also stay for ever where nothing is paid
    horizon: so many steps, H, and then the run ends. Then transitions may be a sequence of H, one
        for each step, rewards `[H, S, A]` (or `[H, S, A, S]`), constraints `[m, H, S, A]`, and
        `available` `[H, S, A]`; policies are `[H, S, A]`
    terminal_reward, terminal_constraints: with a horizon, `[S]` and `[m, S]`, what the state pays
        in which the run ends
    state_names, constraint_names: optional labels
    action_names: A labels, or for every state a list of those of its choices
    grid: optional drawing instructions
    notes: how the model was read, a sentence each, for `print` and `describe`
    """

    transitions: Transitions
    reward: np.ndarray  # [K]
    constraints: np.ndarray  # [m, K]
    limits: Limits
    initial: np.ndarray  # [S]
    criterion: str  # what is added up: "discounted", "total" (at discount 1) or "average"
    discount: float

    _title = MODEL

    def __init__(
        self,
        transitions: Any,
        reward: Any,
        constraints: Any,
        thresholds: Any,
        initial: Any,
        discount: float | None = None,
        *,
        criterion: str | None = None,
        senses: Sequence[str | None] | str | None = None,
        minimise: bool = False,
        first_choice: Any = None,
        available: Any = None,
        goal: Any = None,
        may_stay: bool = False,
        horizon: int | None = None,
        terminal_reward: Any = None,
        terminal_constraints: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | Sequence[Sequence[str]] | None = None,
        constraint_names: Sequence[str] | None = None,
        grid: Grid | None = None,
        notes: Sequence[str] = (),
    ) -> None:
        marked = None if goal is None else lambda S: goal_mask(goal, S, state_names)
        self.horizon = None if horizon is None else check_count("horizon", horizon)
        if self.horizon is not None:
            read = read_stages(transitions, self.horizon, available, first_choice, marked)
        elif terminal_reward is not None or terminal_constraints is not None:
            raise InputError("terminal_reward, terminal_constraints: give a horizon= too.")
        else:
            read = read_rows(transitions, available, first_choice, marked)
        self.transitions, kept = read
        rows, (S, A) = self.transitions, self.transitions.policy_shape[-2:]
        self.criterion, self.discount = criterion_of(criterion, discount, self.horizon)
        self.reward = by_choice("reward", reward, rows, kept)
        self.minimise = flag("minimise", minimise)
        self.constraints = constraint_rows(constraints, len(listed(thresholds)), rows, kept)
        m = len(self.constraints)
        names = labels("constraint_names", constraint_names, m)
        if names and (len(set(names)) < m or "" in names):
            raise InputError("constraint_names: give each constraint a name of its own.")
        self.limits = Limits.of(thresholds, senses, names)
        add_at_the_end("terminal_reward", terminal_reward, self.reward, rows, self.discount)
        at_end = "terminal_constraints", terminal_constraints
        add_at_the_end(*at_end, self.constraints, rows, self.discount)
        self.state_names = labels("state_names", state_names, S)
        if self.horizon is not None and np.shape(initial) == (rows.states,):
            initial = np.asarray(initial)[:S]  # of a model's own
        start = distribution(initial, S, self.state_names)
        self.initial = np.append(start, np.zeros(rows.states - S))
        self.may_stay = flag("may_stay", may_stay)
        if goal is not None and self.criterion == "average":
            raise InputError("goal: an average goes on for ever; leave it out, or the criterion.")
        if self.may_stay and self.criterion != "total":
            raise InputError("may_stay: it says when a run ends; leave it out but for discount 1.")
        self.action_names = action_labels(action_names, rows)
        self.grid = checked_grid(grid, S, A)
        self.notes = labels("notes", notes, len(notes)) or ()
        if self.horizon is None and is_cube(transitions) and CUBE not in self.notes:
            self.notes += (CUBE,)
        for array in (self.reward, self.constraints, self.initial):
            array.setflags(write=False)
        self._frozen = True

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, "_frozen", False):
            raise AttributeError(f"a CMDP is immutable; use model.replace({name}=...) for a copy.")
        object.__setattr__(self, name, value)

    @property
    def states(self) -> int:
        """Number of states S; with a horizon those of all times, (H + 1) S."""
        return self.transitions.states

    @property
    def policy_shape(self) -> tuple[int, ...]:
        """`(S, A)`, or `(H, S, A)` with a horizon."""
        return self.transitions.policy_shape

    @property
    def actions(self) -> int:
        """Number of actions A: the most that a state has, where they have no common names."""
        return self.transitions.actions

    @property
    def choices(self) -> int:
        """Number of choices K: pairs of a state and an action that it has."""
        return self.transitions.choices

    @property
    def first_choice(self) -> np.ndarray:
        """`[S + 1]` int32: the first choice of every state, and K."""
        return self.transitions.first_choice

    def rows(self, first: int, last: int) -> Block:
        """The transitions of the states `first .. last - 1`, by choice."""
        return self.transitions.rows(first, last)

    @property
    def available(self) -> np.ndarray | None:
        """`[S, A]` booleans, which actions exist in which state; None: all."""
        rows = self.transitions
        mask = None if rows.is_regular else self.as_table(np.ones(rows.choices, dtype=bool))
        return None if mask is None or mask.all() else mask

    @property
    def action_labels(self) -> tuple[str, ...]:
        """One text for each action: its name, or "action 0", "action 1", ..."""
        names = self.action_names
        if names and isinstance(names[0], str):
            return names
        return tuple(f"action {a}" for a in range(self.actions))

    def as_table(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers by choice, `[..., K]`, as a table `[..., S, A]`, 0 where there is no choice."""
        table = self.transitions.as_table(np.asarray(numbers))
        if self.horizon is None:
            return table
        H, S, A = self.policy_shape
        return table[..., : H * S, :].reshape(*table.shape[:-2], H, S, A)

    def by_choice(self, table: np.ndarray) -> np.ndarray:
        """A policy `[..., S, A]` by choice, `[..., K]`."""
        table = np.asarray(table)
        if self.horizon is None:
            return self.transitions.by_choice(table)
        H, S, A = self.policy_shape
        batch = table.shape[:-3]
        end = np.broadcast_to(np.eye(A)[0], (*batch, S, A))  # where nothing is left to choose
        flat = np.concatenate([table.reshape(*batch, H * S, A), end], -2)
        return self.transitions.by_choice(flat)

    def __repr__(self) -> str:
        rows = self.transitions
        sizes = f"states={rows.states}, actions={rows.actions}, choices={rows.choices}"
        rest = f"constraints={len(self.limits)}, discount={self.discount:g}"
        rest += "" if self.horizon is None else f", horizon={self.horizon}"
        return f"CMDP({sizes}, successors<={rows.longest}, {rest})"

    def _rows(self) -> Rows:
        rows = self.transitions
        uneven = "" if self.available is None else f" at most, {rows.choices:,} choices in all"
        steps = [] if self.horizon is None else [("horizon", f"{self.horizon:,} steps")]
        discount = ("discount", f"{self.discount:.12g}")
        return [
            ("states", f"{self.policy_shape[-2]:,}"),
            *steps,
            ("actions", f"{rows.actions:,}{uneven}"),
            ("successors", f"{rows.longest} at most, {len(rows.successors):,} in all"),
            ("counts", "the long-run average") if self.criterion == "average" else discount,
            *([("runs", "may stay for ever where nothing is paid")] if self.may_stay else []),
            ("objective", f"{'minimise' if self.minimise else 'maximise'} the reward"),
            *(("subject to", text) for text in self.limits.texts),
            *(("note", sentence) for sentence in self.notes),
        ]

    def replace(self, **changes: Any) -> "CMDP":
        """A copy with other fields, as the constructor takes them; everything else stays as it was.

        Constraints keep their senses and names while their number stays the same. With another
        number a common sense is kept, different ones must be given anew, and names start again.
        Transitions that do not change are shared, not copied or checked again.
        """
        for name in changes:
            check_known("replace: field", name, (*FIELDS, *OF_ROWS, "thresholds"))
        fields: dict[str, Any] = {name: getattr(self, name) for name in FIELDS}
        fields["thresholds"] = self.limits.entries
        if "thresholds" in changes:
            entries = listed(changes["thresholds"])
            if "senses" not in changes:
                fields["senses"] = self._senses_for(entries)
            if len(entries) != self.constraint_count:
                fields["constraint_names"] = None
        if "discount" in changes and "criterion" not in changes:
            fields["criterion"] = None
        elif changes.get("criterion") == "average":
            fields["discount"] = None
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
        return digest_of(self)

    def matches(self, digest: str) -> bool:
        """Whether a result's fingerprint is this model's; results of version 0.1 have another."""
        if digest.startswith("0.1:"):
            return digest == f"0.1:{digest_of_0_1(self)}"
        return digest == self.digest

    def uniform_policy(self) -> np.ndarray:
        """The policy that chooses uniformly among the actions of each state, `[S, A]`."""
        return self.as_table(self.transitions.uniform_policy())

    @classmethod
    def from_step(
        cls,
        states: Sequence[Hashable],
        actions: Sequence[Hashable] | Callable[[Any], Sequence[Hashable]],
        step: Callable[..., tuple[Mapping[Any, float], float, Sequence[float]]],
        *,
        thresholds: Sequence[float],
        initial: Any,
        discount: float | None = None,
        horizon: int | None = None,
        **fields: Any,
    ) -> "CMDP":
        """Build from `step(state, action) -> ({next_state: probability}, reward, [constraints])`.

        states: names of any kind. actions: a list, or a function of the state where the choice
        depends on it. step: its third part has one number for each threshold; with `senses=["<="]`
        it is the cost itself. initial: a state, or `{state: probability}`. horizon: with one it is
        `step(state, action, time)`, time from 0 to horizon - 1. fields: `senses`, `minimise`,
        `criterion`, `goal` and others, as in the constructor.
        """
        made = step_fields(states, actions, step, thresholds, initial, horizon)
        return cls(**made, discount=discount, horizon=horizon, **fields)

    @classmethod
    def from_rows(
        cls,
        rows: Callable[[int, int], Any],
        *,
        states: int,
        initial: Any,
        discount: float,
        thresholds: Any = (),
        senses: Sequence[str | None] | str | None = None,
        minimise: bool = False,
        action_names: Sequence[str] | None = None,
        constraint_names: Sequence[str] | None = None,
        stored: bool = False,
    ) -> "CMDP | FunctionCMDP":
        """Build from a function of a block of states: nothing of the size of the rows is stored.

        rows: `rows(first, last) -> (successors [n, A, B], probabilities [n, A, B], reward [n, A],
        constraints [m, n, A])` of the n states `first .. last - 1`, vectorised with NumPy or
        compiled with numba; without thresholds the fourth may be left out. initial: a state by its
        index, `{state: probability}`, or a distribution `[S]`. stored: whether to tabulate it, so
        that all of cmdpax takes it, and not `solve` and `check` alone.
        """
        states, factor = check_count("states", states), discount_factor(discount)
        if factor == 1 and not stored:
            raise InputError("discount: a model of rows needs one below 1; or give stored=True.")
        names = labels("constraint_names", constraint_names, len(listed(thresholds)))
        limits, start = Limits.of(thresholds, senses, names), distribution(initial, states, None)
        start.setflags(write=False)
        kind = factor, flag("minimise", minimise)
        model = FunctionCMDP.of(rows, states, limits, start, *kind)
        named = replace(model, action_names=labels("action_names", action_names, model.actions))
        return cls(**named.fields()) if stored else named

    @classmethod
    def from_table(
        cls,
        table: Any,
        *,
        discount: float | None = None,
        limits: Sequence[str] | None = None,
        initial: Any = None,
        goal: Any = None,
        reward: str | None = None,
        minimise: bool | None = None,
        horizon: int | None = None,
        criterion: str | None = None,
        may_stay: bool | None = None,
        **fields: Any,
    ) -> "CMDP":
        """Build from a long table with one row for each successor.

        table: a `.csv` or `.parquet` file, or columns by name (a mapping of arrays, a DataFrame):
        `state`, `action`, `next_state`, `probability`, and one for the reward and for every
        quantity that has a limit. limits: texts such as `"cost<=3"`, by column. initial: a state,
        or `{state: probability}`. goal: states where the run ends, which need no rows. reward: the
        column of the reward, by default `reward`. horizon: steps, each as the table says.
        criterion, may_stay: as in the constructor. A `.csv` may say these itself, in lines above
        its head such as `# limit = cost<=3`; what is said here counts first. fields: others of the
        constructor.
        """
        said = {"limits": limits, "initial": initial, "goal": goal, "minimise": minimise}
        check_criterion(criterion)
        said |= {"horizon": horizon, "criterion": criterion, "may_stay": may_stay}
        made = table_fields(table, discount=discount, reward=reward, **said)
        return cls(**made, **fields)

    @classmethod
    def from_mdptoolbox(
        cls, P: Any, R: Any, discount: float, *, constraints: Sequence[Any] = (), **fields: Any
    ) -> "CMDP":
        """Build from what pymdptoolbox takes: `mdptoolbox.mdp.ValueIteration(P, R, discount)`.

        P: `[A, S, S]`, or A matrices, dense or sparse. R, and each of the constraints: `[S]`,
        `[S, A]`, or `[A, S, S]` for what a transition pays. fields: `thresholds`, `initial` and
        others, as in the constructor.
        """
        made = {"initial": None, **mdptoolbox_fields(P, R, constraints)}
        return cls(discount=discount, **{"thresholds": [], **made, **fields})

    @classmethod
    def from_quantecon(
        cls,
        R: Any,
        Q: Any,
        beta: float,
        s_indices: Any = None,
        a_indices: Any = None,
        *,
        constraints: Any = (),
        **fields: Any,
    ) -> "CMDP":
        """Build from what QuantEcon takes: `DiscreteDP(R, Q, beta, s_indices, a_indices)`.

        R: `[S, A]` with `Q [S, A, S]`; or pairs, `[L]` with `Q [L, S]`, dense or sparse. A reward
        of -inf says that there is no such action. constraints: `[m, S, A]`, or `[m, L]`. fields:
        `thresholds`, `initial` and others, as in the constructor.
        """
        made = {"initial": None, **quantecon_fields(R, Q, s_indices, a_indices, constraints)}
        return cls(discount=beta, **{"thresholds": [], **made, **fields})

    @classmethod
    def from_prism(
        cls,
        path: Any,
        *,
        property: str,
        constants: str | Mapping[str, Any] = "",
        discount: float = 1.0,
    ) -> "CMDP":
        """Build from a PRISM or JANI file and a property with bounds; Storm reads the file.

        property: as in `multi(R{"time"}min=? [F "done"], P>=0.9 [F "fast"])`. constants: as in
        `"delay=3,fast=0.5"`, or a mapping. A target that can be left adds one bit to the states;
        the run ends where nothing is paid any more. What was done is in `notes`.
        """
        made = prism_fields(path, property=property, constants=constants, discount=discount)
        return cls(**made)

    @classmethod
    def from_umb(
        cls,
        path: Any,
        *,
        discount: float | None = None,
        limits: Sequence[str] | None = None,
        initial: Any = None,
        goal: Any = None,
        reward: str | None = None,
        minimise: bool | None = None,
        horizon: int | None = None,
        **fields: Any,
    ) -> "CMDP":
        """Build from a UMB file, the format that model checkers share.

        limits: texts such as `"cost<=3"`, on its rewards. reward: which of its rewards is the
        reward, by default the first. goal: labels of states where the run ends. initial: by
        default its own. fields: others of the constructor.
        """
        said = {"limits": limits, "initial": initial, "goal": goal, "minimise": minimise}
        check_criterion(fields.get("criterion"))
        is_one = horizon is not None or fields.get("criterion") == "average"
        discount = 1.0 if discount is None and is_one else discount
        made = umb_fields(path, discount=discount, reward=reward, **said)
        return cls(**made, horizon=horizon, **fields)

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
        state of zero reward and cost. Maps and names of FrozenLake, CliffWalking and Taxi are kept.
        """
        made = toy_text_fields(env, cost, initial)
        made |= {"thresholds": [limit], "senses": ["<="], "constraint_names": [cost_name]}
        return cls(**made, discount=discount)


def check_model(model: Any) -> None:
    """Refuse what is no model, or one whose rows are a function."""
    if not isinstance(model, CMDP):
        advice = "; give from_rows stored=True" if isinstance(model, FunctionCMDP) else ""
        raise InputError(f"model: a CMDP is needed, not {type(model).__name__}{advice}.")
