"""What is a batch of simulators, and how is a finite model one? NumPy alone.

A `Simulator` is N copies of one environment that step together; a copy whose episode ended starts
anew by itself. Costs are reported as the environment has them, one column per named cost; `Limits`
turns them later. There are three: `ModelSimulator` here, `velocity.VelocitySimulator` on raw
MuJoCo, and `gym_simulator.GymSimulator` for everything else.

A `Sampler` is asked for whole episodes by sampled methods. They go on with probability gamma after
every step. A visit then counts as much as any other: the states of all episodes together are
distributed like the discounted occupancy `d = (1 - gamma) nu`, and the plain sum of rewards from a
visit to the end of its episode is an unbiased estimate of the discounted value.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from cmdpax.errors import InputError

if TYPE_CHECKING:  # a policy is loaded without what models need
    from cmdpax.model.cmdp import CMDP
    from cmdpax.model.limits import Limits

Array = np.ndarray
Policy = Callable[[Array], Array]  # observations [n, ...] -> probabilities [n, A]


@dataclass(frozen=True)
class ActionSpace:
    """Box actions (`low`, `high` `[a]`, infinite where unbounded), or `choices` discrete ones.

    An action of several `parts` has as many choices for each; `choices` is their sum. Where
    actions are `masked`, the last `choices` numbers of an observation say which may be taken, by 1.
    """

    low: Array | None = None
    high: Array | None = None
    choices: int = 0
    start: int | tuple[int, ...] = 0  # the first choice, of every part
    parts: tuple[int, ...] | None = None
    masked: bool = False
    clip: bool = True  # actions outside the box are clipped before the environment sees them
    shape: tuple[int, ...] | None = None  # of an environment's action; None: [a]
    dtype: str = "float64"

    @property
    def size(self) -> int:
        """Length of a policy network's output: action dimensions, or number of choices."""
        return self.choices if self.low is None else len(self.low)

    def choose(self, output: Array) -> Array:
        """The choice of the largest number, `[..., choices]` -> `[...]`, or `[..., parts]`."""
        if self.parts is None:
            return output.argmax(-1)
        return np.stack([part.argmax(-1) for part in self.split(output)], -1)

    def split(self, rows: Array) -> list[Array]:
        """The columns `[..., choices]` of each part of an action."""
        return np.split(rows, np.cumsum(self.parts or (self.choices,))[:-1], axis=-1)

    def to_environment(self, action: Array) -> Array:
        """A policy's action as the environment takes it.

        Box: `[..., a]` in [-1, 1] rescaled to the box, `[..., *shape]`. Discrete: `[...]`, or
        `[..., parts]` as `[..., *shape]`, counted from `start`.
        """
        if self.low is None or self.high is None:
            choice = action + np.asarray(self.start)
            if self.parts is None or self.shape is None:
                return choice
            return choice.reshape(*choice.shape[:-1], *self.shape).astype(self.dtype)
        if self.is_unit:
            return action
        middle, half = self.box
        scaled = action * half + middle
        if self.clip:
            scaled = np.clip(scaled, self.low, self.high)
        if np.issubdtype(self.dtype, np.integer):
            scaled = np.rint(scaled)
        shaped = scaled if self.shape is None else scaled.reshape(*scaled.shape[:-1], *self.shape)
        return shaped.astype(self.dtype, copy=False)

    @cached_property
    def is_unit(self) -> bool:
        """Whether the environment takes the policy's actions as they are."""
        middle, half = self.box
        return not self.clip and bool((middle == 0).all() and (half == 1).all())

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Middle and half of the image of [-1, 1]; an open side lies two units from the other."""
        low, high = np.asarray(self.low), np.asarray(self.high)
        first = np.where(np.isfinite(low), low, np.where(np.isfinite(high), high - 2, -1.0))
        last = np.where(np.isfinite(high), high, first + 2)
        return (first + last) / 2, (last - first) / 2

    def as_json(self) -> dict[str, Any]:
        """What `from_json` reads; bounds that are infinite are null."""
        notes = asdict(self)
        notes |= {name: [*value] for name, value in notes.items() if isinstance(value, tuple)}
        for side in () if self.low is None else ("low", "high"):
            notes[side] = [float(bound) if np.isfinite(bound) else None for bound in notes[side]]
        return notes

    @classmethod
    def from_json(cls, notes: Mapping[str, Any]) -> "ActionSpace":
        """The space that `as_json` wrote."""
        shape = None if notes.get("shape") is None else tuple(notes["shape"])
        several = {name: tuple(value) for name, value in notes.items() if isinstance(value, list)}
        fields = {**notes, **several, "shape": shape}
        if notes["low"] is not None:
            for side, infinity in (("low", -np.inf), ("high", np.inf)):
                bounds = [infinity if bound is None else bound for bound in notes[side]]
                fields[side] = np.array(bounds)
        return cls(**fields)


class Transition(NamedTuple):
    """One step of N simulators. Where an episode ended, `observation` is the next episode's."""

    observation: Array  # [N, d]
    next_observation: Array  # [N, d], the true successor, also where the episode ended
    reward: Array  # [N]
    cost: Array  # [N, m]
    terminated: Array  # [N] bool: the episode ended by itself, nothing comes after
    truncated: Array  # [N] bool: the time limit cut it, its value goes on


class Record(NamedTuple):
    """T steps of N simulators under one policy."""

    observation: Array  # [T, N, d]
    normalised: Array  # [T, N, d] float32, the inputs of the policy's network
    output: Array  # [T, N, a] float32, its outputs, noise added
    next_observation: Array  # from here on as in a transition, [T, N, ...]
    reward: Array
    cost: Array
    terminated: Array
    truncated: Array

    @staticmethod
    def empty(simulator: "Simulator", steps: int) -> "Record":
        """Arrays to fill in."""
        ahead, size = (steps, simulator.count), simulator.observation_size
        return Record(
            np.empty((*ahead, size)),
            np.empty((*ahead, size), np.float32),
            np.empty((*ahead, simulator.action_space.size), np.float32),
            np.empty((*ahead, size)),
            np.empty(ahead),
            np.empty((*ahead, len(simulator.cost_names))),
            np.empty(ahead, bool),
            np.empty(ahead, bool),
        )


class Copies(Protocol):
    """N copies of one environment: how many, and what they take and show."""

    count: int
    observation_size: int
    observation_shape: tuple[int, ...]  # of an environment's observation; [d] if that is no array
    action_space: ActionSpace
    cost_names: tuple[str, ...]
    episode_limit: int | None  # steps after which an episode is cut, where that is known


class Simulator(Copies, Protocol):
    """N copies of one environment, in this process."""

    def reset(self, seed: int, first: int = 0) -> Array:
        """Start all copies anew, `[N, d]`; the seed fixes all that happens until the next call.

        They are the copies `first`, `first + 1`, ... of a batch: where every copy has a generator
        of its own, each does what it does among all of them.
        """

    def step(self, action: Array) -> Transition:
        """Advance all copies by the environment's own actions, `[N, *shape]` or choices `[N]`."""


@runtime_checkable
class Recorder(Copies, Protocol):
    """N copies that are not stepped here, but record whole horizons elsewhere."""

    def record(self, policy: Any, noise: Array, seed: int) -> Record:
        """What `rollout.record_of` does."""
        ...


@runtime_checkable
class CompiledSimulator(Simulator, Protocol):
    """One that fills in a whole record by itself: faster, and bit for bit as step by step."""

    @property
    def is_alone(self) -> bool:
        """Whether it can, as it is."""
        ...

    def run(self, policy: Any, noise: Array, record: Record) -> None:
        """What `rollout.run` does."""
        ...


@dataclass(frozen=True)
class Experience:
    """N steps, episode after episode, in their order."""

    observations: Array  # [N, ...]
    actions: Array  # [N] int
    rewards: Array  # [N, 1 + M]: reward, then the rows V >= b of the limits
    successors: Array  # [N, ...]: the next observation
    continues: Array  # [N] bool: False where the next state is terminal, worth 0
    first: Array  # [N] bool: first step of an episode


class Sampler(Protocol):
    """What a sampled method needs to know of a problem, and how it gets episodes."""

    actions: int
    states: int | None  # number of states where observations are their indices
    thresholds: Array  # b [M]: the limits' rows are V >= b
    limits: "Limits"
    minimise: bool  # whether the first column of rewards is minus the reward
    discount: float

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """The steps of that many episodes."""


class ModelSimulator:
    """`count` copies of a discounted finite model: a `Simulator`, and a `Sampler`.

    After every step an episode ends with probability `1 - gamma`, and nothing comes after: the mean
    of its undiscounted totals is the discounted value, which is what the model's `limits` are on.
    A `Simulator` shows the state one-hot, `[S]`; a `Sampler` shows its index.
    """

    episode_limit: int | None = None

    def __init__(self, model: "CMDP", count: int = 1) -> None:
        if model.criterion != "discounted":
            remedy = "give a discount below 1, or take cmdpax.solve"
            raise InputError(f"criterion: '{model.criterion}' cannot be sampled; {remedy}.")
        self.model, self.count, self.discount = model, count, model.discount
        self.limits, self.minimise = model.limits, model.minimise
        self.states: int | None = model.states
        self.actions, self.observation_size = model.actions, model.states
        self.observation_shape: tuple[int, ...] = (model.states,)
        self.action_space = ActionSpace(choices=model.actions)
        self.cost_names, self.thresholds = self.limits.names, self.limits.row_thresholds
        rows, reward = model.transitions, -model.reward if model.minimise else model.reward
        self._choice = rows.filled(
            np.arange(rows.choices)
        )  # [S, A]; a state's first if it has no such
        self._reward, self._costs = reward, model.constraints.T  # [K], [K, m]
        self._state = np.zeros(count, dtype=np.int64)
        self._random = np.random.default_rng(0)

    def reset(self, seed: int, first: int = 0) -> Array:
        """Start all copies anew, `[N, S]`; they share one generator."""
        self._random = np.random.default_rng((seed, first))
        self._state = self._starts(self.count, self._random)
        return self._one_hot(self._state)

    def step(self, action: Array) -> Transition:
        """Advance all copies by choices `[N]`; finished ones start anew."""
        state, successor = self._state, self._successors(self._state, action, self._random)
        terminated = self._random.random(self.count) >= self.discount
        self._state = successor.copy()
        self._state[terminated] = self._starts(int(terminated.sum()), self._random)
        seen = self._one_hot(self._state), self._one_hot(successor)
        choice = self._choice[state, action]
        paid = self._reward[choice], self._costs[choice]
        return Transition(*seen, *paid, terminated, np.zeros(self.count, dtype=bool))

    def collect(self, policy: Policy, episodes: int, rng: np.random.Generator) -> Experience:
        """The steps of that many episodes, all of them at once."""
        table = policy(np.arange(self.observation_size))
        running, state = np.arange(episodes), self._starts(episodes, rng)
        parts = []
        while running.size:
            action = draw(table[state], rng)
            successor = self._successors(state, action, rng)
            parts.append((running, state, action, successor))
            goes_on = rng.random(running.size) < self.discount
            running, state = running[goes_on], successor[goes_on]
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        order = np.argsort(columns[0], kind="stable")
        episode, state, action, successor = (column[order] for column in columns)
        choice = self._choice[state, action]
        costs = self.limits.turn(self._costs[choice])
        rewards = np.column_stack([self._reward[choice], costs])
        first = np.append(True, episode[1:] != episode[:-1])
        return Experience(state, action, rewards, successor, np.ones(len(state), bool), first)

    def _starts(self, count: int, rng: np.random.Generator) -> Array:
        return rng.choice(self.observation_size, size=count, p=self.model.initial)

    def _successors(self, state: Array, action: Array, rng: np.random.Generator) -> Array:
        rows = self.model.transitions
        choice = self._choice[state, action]
        first, last = rows.first_entry[choice, None], rows.first_entry[choice + 1, None]
        entries = first + np.arange(rows.longest)  # [n, B]
        chances = np.where(entries < last, rows.probabilities[np.minimum(entries, last - 1)], 0.0)
        return rows.successors[first[:, 0] + draw(chances, rng)]

    def _one_hot(self, state: Array) -> Array:
        observation = np.zeros((len(state), self.observation_size))
        observation[np.arange(len(state)), state] = 1.0
        return observation


def draw(probabilities: Array, rng: np.random.Generator) -> Array:
    """One index for each row of `[n, k]`."""
    cumulative = np.cumsum(probabilities, axis=1)
    return (rng.random((len(cumulative), 1)) * cumulative[:, -1:] >= cumulative).sum(1)
