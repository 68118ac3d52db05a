"""Which constrained tasks have an answer that is computed, not learned?

Every task has limits, a number of samples and an exact `Answer`. There are two kinds of problems:

- `Finite`: tables of S states. An episode ends geometrically (the model's own simulator), or after
  `horizon` steps, and then the observation holds the time. Optimum: `cmdpax.solve`, of an episode
  with a horizon on the model whose states are pairs of time and state. Policies are evaluated by
  backward induction, without a sample.
- `Controlled`: a Gymnasium environment with its own way to the optimum: dynamic programming on a
  grid or Riccati's recursion, both with bisection on the multiplier, or an argument. Policies are
  evaluated by episodes.

The optimum is over all policies that see the state and the time; what they need is in the
observation. Answers are kept in `known_optima.json` with the digest of their task.
"""

import hashlib
import inspect
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from scipy import sparse

import cmdpax

Array = np.ndarray
ANSWERS = Path(__file__).with_suffix("").with_name("known_optima.json")
EVALUATION_SEED = 12345


@dataclass(frozen=True)
class Answer:
    """What is best, and the scales to judge by."""

    optimum: float  # largest mean return within the limits; where there is none: at the least costs
    best: float  # largest mean return without limits
    worst: float  # smallest
    attainable: dict[str, tuple[float, float]]  # smallest and largest mean of every limited cost
    least: dict[str, float] | None = None  # what a limit that cannot be met can be brought to
    accuracy: float = 1e-6  # of the optimum, as a share of best - worst


# ---------------------------------------------------------------------------------- finite


class Episodes(gymnasium.Env):
    """A `Finite` problem with a horizon; an observation is the state, one-hot, and the time."""

    def __init__(self, problem: "Finite") -> None:
        self.problem, (S, A) = problem, problem.reward.shape
        self.observation_space = gymnasium.spaces.Box(0.0, 1.0, (S + 1,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(A)
        self.spec = EnvSpec("Episodes-v0", max_episode_steps=problem.horizon)
        self.cumulative = problem.transitions.cumsum(-1)
        self.cumulative[:, :, -1] = 1.0
        self.rewards = problem.reward.tolist()
        self.costs = [
            [{name: float(c[s, a]) for name, c in problem.costs.items()} for a in range(A)]
            for s in range(S)
        ]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Array, dict]:
        super().reset(seed=seed)
        start = self.problem.initial.cumsum()
        self.time, self.state = 0, int(np.searchsorted(start, self.np_random.random() * start[-1]))
        return self.observe(), {}

    def step(self, action: int) -> tuple[Array, float, bool, bool, dict]:
        row = self.cumulative[self.state, action]
        reward, cost = self.rewards[self.state][action], self.costs[self.state][action]
        self.state = int(row.searchsorted(self.np_random.random(), "right"))
        self.time += 1
        ended, is_cut = self.time == self.problem.horizon, self.problem.is_cut
        return self.observe(), reward, ended and not is_cut, ended and is_cut, {"cost": cost}

    def observe(self) -> Array:
        observation = np.zeros(len(self.rewards) + 1)
        observation[self.state] = 1.0
        observation[-1] = self.time / self.problem.horizon
        return observation


@dataclass(frozen=True, eq=False)
class Finite:
    """transitions `[S, A, S]`, reward `[S, A]`, costs `{name: [S, A]}`, initial `[S]`.

    Episodes go on with probability `survival` after every step, or last `horizon` steps; then
    `is_cut` says whether a time limit ends them, so that learners take it that values go on.
    """

    transitions: Array
    reward: Array
    costs: dict[str, Array]
    initial: Array
    survival: float = 1.0
    horizon: int | None = None
    is_cut: bool = False

    @property
    def steps(self) -> int:
        """Steps to look ahead: all, or until 1e-14 of the episodes are left."""
        return self.horizon or int(np.ceil(np.log(1e-14) / np.log(self.survival)))

    def total(
        self, payoff: Array, choose: Callable[[int, Array], Array], discount: float = 1.0
    ) -> float:
        """`E sum_t discount^t payoff`, of `payoff [S, A]`; `choose(t, Q [S, A]) -> V [S]`."""
        value, factor = np.zeros(len(self.initial)), discount * self.survival
        for t in reversed(range(self.steps)):
            value = choose(t, payoff + factor * (self.transitions @ value))
        return float(self.initial @ value)

    def model(self, limits: cmdpax.Limits, discount: float = 1.0) -> cmdpax.CMDP:
        """The model that `cmdpax.solve` takes; with a horizon its states are pairs (time, state).

        `discount` is that of the costs. The pairs' model has a discount g near 1, which payoffs of
        time t divided by g^t take back.
        """
        costs = np.stack([self.costs[name] for name in limits.names])
        fields = {
            "senses": list(limits.senses),
            "thresholds": limits.entries,
            "constraint_names": limits.names,
        }
        if self.horizon is None:
            assert discount == 1
            return cmdpax.CMDP(
                transitions=self.transitions,
                reward=self.reward,
                constraints=costs,
                initial=self.initial,
                discount=self.survival,
                **fields,
            )
        (S, A), T = self.reward.shape, self.horizon
        g, t = 1 - 0.5 / T, np.arange(T)[:, None, None]
        ahead = sparse.kron(sparse.eye(T, k=1), self.transitions.reshape(S * A, S))
        is_last = np.arange(T * S * A)[:, None] >= (T - 1) * S * A
        ends = sparse.csr_matrix(is_last.astype(float))  # to a state where nothing happens
        moves = sparse.bmat([[ahead, ends], [None, np.ones((A, 1))]], format="csr")
        unrolled = [
            np.append((factor**t * g**-t * payoff).reshape(T * S, A), np.zeros((1, A)), axis=0)
            for payoff, factor in [(self.reward, 1.0), *((cost, discount) for cost in costs)]
        ]
        return cmdpax.CMDP(
            transitions=moves,
            reward=unrolled[0],
            constraints=np.stack(unrolled[1:]),
            initial=np.append(self.initial, np.zeros((T - 1) * S + 1)),
            discount=g,
            **fields,
        )

    def answer(self, limits: cmdpax.Limits, discount: float) -> Answer:
        """By `cmdpax.solve`; the scales by backward induction."""
        best, worst = (self.total(self.reward, extreme) for extreme in (_largest, _smallest))
        attainable = {
            name: tuple(self.total(self.costs[name], e, discount) for e in (_smallest, _largest))
            for name in limits.names
        }
        least = _beyond(limits, attainable)
        if least:
            name, value = next(iter(least.items()))
            width = attainable[name][1] - attainable[name][0]
            limits = cmdpax.Limits.parse([f"{name}<={value + 1e-5 * width!r}"])
        result = cmdpax.solve(self.model(limits, discount), eps=1e-8)
        assert result.status == "certified", result
        return Answer(result.reward, best, worst, attainable, least)

    def environment(self) -> Any:
        """What `cmdpax.train` takes: the model itself, or a function that makes `Episodes`."""
        if self.horizon:
            return partial(Episodes, self)
        names = list(self.costs)  # the limits come from the task, the costs' names from the model
        return self.model(cmdpax.Limits.of([0.0] * len(names), "<=", names))

    def evaluate(self, policy: Any, limits: cmdpax.Limits, discount: float) -> dict[str, Any]:
        """Mean return and costs of a trained policy, exactly."""
        values = self.values(self.table(policy), limits.names, discount)
        return {"return": values[0], "cost": dict(zip(limits.names, values[1:])), "exact": True}

    def table(self, policy: Any) -> Array:
        """A network's action probabilities, `[T, S, A]`, or `[1, S, A]` without a horizon."""
        S, A = self.reward.shape
        flat = np.eye(S)
        if self.horizon:  # time after time, as an episode shows them
            times = np.repeat(np.arange(self.horizon) / self.horizon, S)
            flat = np.column_stack((np.tile(flat, (self.horizon, 1)), times))
        logits = policy.outputs(flat, np.zeros((len(flat), A), np.float32)).astype(np.float64)
        weights = np.exp(logits - logits.max(-1, keepdims=True))
        return (weights / weights.sum(-1, keepdims=True)).reshape(-1, S, A)

    def values(self, table: Array, names: tuple[str, ...], discount: float) -> list[float]:
        """Mean return, then mean costs of a policy `[T or 1, S, A]`."""

        def follow(t: int, action_values: Array) -> Array:
            return (table[t % len(table)] * action_values).sum(-1)

        costs = [self.total(self.costs[name], follow, discount) for name in names]
        return [self.total(self.reward, follow), *costs]

    @cached_property
    def identity(self) -> str:
        """Everything that the answer depends on, limits apart."""
        arrays = (self.transitions, self.reward, *self.costs.values(), self.initial)
        digest = hashlib.sha256(b"".join(np.round(one, 12).tobytes() for one in arrays)).hexdigest()
        return f"{digest} {list(self.costs)} {self.survival} {self.horizon}"


def _largest(t: int, action_values: Array) -> Array:
    return action_values.max(-1)


def _smallest(t: int, action_values: Array) -> Array:
    return action_values.min(-1)


def _beyond(limits: cmdpax.Limits, attainable: dict[str, tuple]) -> dict[str, float] | None:
    """The least value of a cost whose upper limit lies below it."""
    least = {
        name: attainable[name][0]
        for name, high in zip(limits.names, limits.bounds[:, 1])
        if high < attainable[name][0]
    }
    return least or None


def random_tables(
    seed: int, states: int, actions: int, costs: dict[str, float], **fields: Any
) -> Finite:
    """Random rows; costs are of both signs where their scale is negative, and dear actions pay."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.dirichlet(np.full(states, 0.4), (states, actions)), 3)
    largest = rows.argmax(-1, keepdims=True)  # takes what rounding left over
    rest = 1 - rows.sum(-1, keepdims=True)
    np.put_along_axis(rows, largest, np.take_along_axis(rows, largest, -1) + rest, -1)
    reward = np.round(rng.random((states, actions)), 2)
    tables = {}
    for name, scale in costs.items():
        cost = 0.7 * reward**2 + 0.5 * rng.random((states, actions))
        tables[name] = np.round(cost - 0.5 * (scale < 0), 2) * abs(scale)
    return Finite(rows, reward, tables, np.eye(states)[0], **fields)


def scaled(problem: Finite, reward: float, cost: float) -> Finite:
    """The same in other units."""
    costs = {name: table * cost for name, table in problem.costs.items()}
    rest = problem.transitions, problem.reward * reward, costs, problem.initial
    return Finite(*rest, problem.survival, problem.horizon, problem.is_cut)


# next states with their probabilities, which add up where one stands twice; reward; costs
Step = tuple[list[tuple[int, float]], float, dict[str, float]]


def tables_of(step: Callable[[int, int], Step], states: int, actions: int, **fields: Any) -> Finite:
    """Tables from `step(s, a)`; state 0 starts."""
    rows, reward = np.zeros((states, actions, states)), np.zeros((states, actions))
    costs = {name: np.zeros((states, actions)) for name in step(0, 0)[2]}
    for s in range(states):
        for a in range(actions):
            successors, reward[s, a], paid = step(s, a)
            for successor, probability in successors:
                rows[s, a, successor] += probability
            for name, cost in paid.items():
                costs[name][s, a] = cost
    return Finite(rows, reward, costs, np.eye(states)[0], **fields)


def income_step(s: int, a: int) -> Step:
    """Demand 0..3 drifts; serving a = 0..2 of it is toil (reward -a^2 / 2) and earns by demand."""
    drift = [(min(s + 1, 3), 0.4), (s, 0.3), (max(s - 1 - (a == 2), 0), 0.3)]
    return drift, -(a**2) / 2 - 0.1 * s, {"income": min(a, s) * (1 + 0.2 * s)}


def uptime_step(s: int, a: int) -> Step:
    """A server of heat 0..4: off, half, full; off it sells its share of power; heat is counted."""
    warmer, cooler = min(s + 1, 4), max(s - 1, 0)
    drift = [
        [(cooler, 0.9), (s, 0.1)],
        [(warmer, 0.3), (cooler, 0.3), (s, 0.4)],
        [(warmer, 0.7), (s, 0.3)],
    ][a]
    pay = (0.6, 0.4, 1.0)[a] - 0.05 * s * a
    return drift, pay, {"uptime": 0.01 * (a > 0), "heat": 100.0 * s**2}


def ridge_step(s: int, a: int) -> Step:
    """Climb to the summit (3): fast pays, and falls (4) three times in a hundred above level 1."""
    if s == 4:
        return [(0, 1.0)], 0.0, {"falls": 1.0}
    climb, danger = (0.5, 0.9)[a], 0.03 * (a == 1 and s >= 2)
    stays = [(min(s + 1, 3), climb * (1 - danger)), (s, (1 - climb) * (1 - danger))]
    return [*stays, (4, danger)], 0.25 * s + 0.3 * a, {"falls": 0.0}


def gap_step(s: int, a: int) -> Step:
    """Seven cells: rest, walk 1, or leap 2 and perhaps miss (7), which ends all (8)."""
    if s >= 7:
        return [(8, 1.0)], 0.0, {"falls": float(s == 7)}
    miss, is_round = 0.005 * (a == 2) * (1 + s), s + a >= 7  # once round is rewarded
    pay = 1.0 if is_round else 0.02 * (a == 0)
    return [(0 if is_round else s + a, 1 - miss), (7, miss)], pay, {"falls": 0.0}


def road_step(s: int, a: int) -> Step:
    """Five stretches of a road, the third icy: slowly or fast, which may crash (5) and end all (6).

    A delivery at the end of the road pays 2, and the next begins.
    """
    if s >= 5:
        return [(6, 1.0)], 0.0, {"crashes": float(s == 5)}
    crash, on = (0.0, 0.05 if s == 2 else 0.01)[a], (0.4, 0.9)[a] if s != 2 else (0.3, 0.9)[a]
    ahead = (s + 1) % 5
    moves = [(ahead, on * (1 - crash)), (s, (1 - on) * (1 - crash)), (5, crash)]
    return moves, 2.0 * on * (s == 4), {"crashes": 0.0}


def pump_step(s: int, a: int) -> Step:
    """A tank of level 0..5: drain, hold, pump, which costs power; flow and overflow are counted."""
    above, below = min(s + 1, 5), max(s - 1, 0)
    drift = [
        [(below, 0.8), (s, 0.2)],
        [(above, 0.2), (below, 0.2), (s, 0.6)],
        [(above, 0.75), (s, 0.25)],
    ][a]
    pay = (0.9, 0.5, 0.7)[a] + 0.04 * s * (2 - a)
    return drift, pay, {"flow": 50.0 * (a == 2), "overflow": 0.001 * max(s - 1, 0) ** 2}


def ferry_step(s: int, a: int) -> Step:
    """A ferry in calm, swell, storm (0..2): stay, half, full; sinking (3) ends all (4)."""
    if s >= 3:
        return [(4, 1.0)], 0.0, {"sunk": float(s == 3)}
    sinks = (0.0, 0.001, 0.004)[a] * (1, 3, 10)[s]
    weather = [(max(s - 1, 0), 0.4), (s, 0.3), (min(s + 1, 2), 0.3)]
    moves = [(after, chance * (1 - sinks)) for after, chance in weather]
    return [*moves, (3, sinks)], (0.0, 0.5, 1.0)[a], {"sunk": 0.0}


def glasshouse_step(s: int, a: int) -> Step:
    """Warmth 0..4, of which 2 and 3 suit plants: air, wait, heat; growth and fuel are counted."""
    warmer, cooler = min(s + 1, 4), max(s - 1, 0)
    drift = [
        [(cooler, 0.9), (s, 0.1)],
        [(cooler, 0.5), (s, 0.4), (warmer, 0.1)],
        [(warmer, 0.8), (s, 0.2)],
    ][a]
    pay = 0.3 + 0.2 * (a == 0) - 0.1 * (a == 2) + 0.1 * (s == 0)
    return drift, pay, {"growth": 1e3 * (s in (2, 3)), "fuel": 0.5 * (a == 2)}


def raft_step(s: int, a: int) -> Step:
    """A raft in calm .. storm (0..3): drift, paddle, sail; capsizing (4) ends all (5)."""
    if s >= 4:
        return [(5, 1.0)], 0.0, {"capsized": float(s == 4)}
    sinks = (0.0, 0.0015, 0.003)[a] * (1, 2, 5, 12)[s]
    weather = [(max(s - 1, 0), 0.35), (s, 0.35), (min(s + 1, 3), 0.3)]
    moves = [(after, chance * (1 - sinks)) for after, chance in weather]
    return [*moves, (4, sinks)], (0.0, 0.6, 1.0)[a], {"capsized": 0.0}


def climb_step(s: int, a: int) -> Step:
    """Six ledges: rest, step or jump, which may slip (6) and end all (7); the top pays."""
    if s >= 6:
        return [(7, 1.0)], 0.0, {"slips": float(s == 6)}
    slip, is_top = (0.0, 0.002, 0.008)[a] * (1 + s), s + a >= 5
    pay = 1.0 if is_top else 0.03 * (a == 0)
    return [(0 if is_top else s + a, 1 - slip), (6, slip)], pay, {"slips": 0.0}


def kiln_step(s: int, a: int) -> Step:
    """Heat 0..5: cool, keep, fire; ware is due, and smoke grows with the square of the heat."""
    warmer, cooler = min(s + 1, 5), max(s - 1, 0)
    drift = [
        [(cooler, 0.85), (s, 0.15)],
        [(warmer, 0.25), (cooler, 0.35), (s, 0.4)],
        [(warmer, 0.65), (s, 0.35)],
    ][a]
    pay = (0.5, 0.45, 0.9)[a] - 0.04 * s * a
    return drift, pay, {"ware": 0.02 * (a > 0), "smoke": 50.0 * s**2}


def rounds_step(s: int, a: int) -> Step:
    """A ring of six: stay, left or right, slipping on at times; gate 0 pays, shed 3 is due."""
    aim = (s + (0, -1, 1)[a]) % 6
    return [(aim, 0.85), ((aim + 1) % 6, 0.15)], float(s == 0) + 0.05, {"visits": float(s == 3)}


def machine_step(s: int, a: int) -> Step:
    """Wear 0..3, broken 4: fast, slow, stop (from 2 on a dear repair). Breakdowns are counted."""
    if s == 4:
        return [(0, 1.0)], 0.0, {"breakdowns": 1.0}
    if a == 2:
        return [(0 if s >= 2 else s, 1.0)], -2.0 * (s >= 2), {"breakdowns": 0.0}
    wear = (0.2, 0.05)[a]
    return [(s + 1, wear), (s, 1 - wear)], (1.0, 0.6)[a], {"breakdowns": 0.0}


def patrol_step(s: int, a: int) -> Step:
    """A ring of five: stay, left or right, slipping on at times; home (0) pays, post 2 is due."""
    aim = (s + (0, -1, 1)[a]) % 5
    pay = float(s == 0) + 0.1
    return [(aim, 0.9), ((aim + 1) % 5, 0.1)], pay, {"visits": float(s == 2)}


# ---------------------------------------------------------------------------------- continuous


@dataclass(frozen=True, eq=False)
class Controlled:
    """A Gymnasium environment, and its `grid(fineness)` or `solve(limit, **arguments)`."""

    make: Callable[..., Any]
    arguments: dict[str, Any] = field(default_factory=dict)
    grid: Callable[[int], "Gridded"] | None = None
    solve: Callable[..., Answer] | None = None

    def answer(self, limits: cmdpax.Limits, discount: float) -> Answer:
        """Of the one limit, on the cost's episode total."""
        assert discount == 1 and limits.senses == ("<=",)
        (name,), (limit,) = limits.names, limits.entries
        return refined(self.grid, name, limit) if self.grid else self.solve(limit, **self.arguments)

    def environment(self) -> Any:
        """What `cmdpax.train` takes."""
        return partial(self.make, **self.arguments)

    def evaluate(self, policy: Any, limits: cmdpax.Limits, discount: float) -> dict[str, Any]:
        """Mean return and costs of 200 episodes, as trained and without noise."""
        means = [
            tried(self.environment(), policy, limits, discount, 200, EVALUATION_SEED, is_best)[0]
            for is_best in (False, True)
        ]
        return {**means[0], "exact": False, "deterministic": means[1]}

    @cached_property
    def identity(self) -> str:
        """Everything that the answer depends on, the limit apart."""
        arguments = {name: np.asarray(one).tolist() for name, one in self.arguments.items()}
        code = "".join(map(inspect.getsource, (self.make, self.grid or self.solve)))
        return f"{code}{arguments}"


@dataclass(frozen=True, eq=False)
class Gridded:
    """A finite-horizon problem on the points of a grid, N points and A actions.

    moves: sparse `[N*A, N]`, the weights of linear interpolation. reward, cost: `[N, A]`; rewards
    of time t are multiplied by `prices[t]`. initial `[N]`: weights of the starts.
    """

    moves: Any
    reward: Array
    cost: Array
    prices: Array
    initial: Array

    def plan(self, weight: float, reward: float = 1.0) -> tuple[float, float]:
        """Mean return and cost of the policy that is best for `reward * return - weight * cost`."""
        N, A = self.cost.shape
        chosen, rows = np.zeros((N, 2)), np.arange(N)
        for price in self.prices[::-1]:
            ahead = (self.moves @ chosen).reshape(N, A, 2)
            totals = np.stack((price * self.reward, self.cost), -1) + ahead
            best = (reward * totals[..., 0] - weight * totals[..., 1]).argmax(1)
            chosen = totals[rows, best]
        mean, cost = self.initial @ chosen
        return float(mean), float(cost)

    def optimum(self, limit: float, steps: int = 30) -> float:
        """The best return with `cost <= limit`: two plans on both sides of it, mixed.

        Bisection on the multiplier; the mixture is the Lagrangian's dual value as they approach.
        """
        dear, cheap, low, high = self.plan(0.0), self.plan(0.0), 0.0, 1e-3
        if dear[1] <= limit:
            return dear[0]
        while (cheap := self.plan(high))[1] > limit:
            low, high, dear = high, 4 * high, cheap
        for _ in range(steps):
            middle = (low + high) / 2
            plan = self.plan(middle)
            if plan[1] > limit:
                low, dear = middle, plan
            else:
                high, cheap = middle, plan
        share = (limit - cheap[1]) / (dear[1] - cheap[1])
        return cheap[0] + share * (dear[0] - cheap[0])

    def answer(self, name: str, limit: float) -> Answer:
        """With the scales."""
        best, worst = self.plan(0.0)[0], self.plan(0.0, -1.0)[0]
        costs = (self.plan(1.0, 0.0)[1], self.plan(-1.0, 0.0)[1])
        return Answer(self.optimum(limit), best, worst, {name: costs})


def refined(grid: Callable[[int], Gridded], name: str, limit: float) -> Answer:
    """The answer on a grid of the full size, with its difference from one half as fine."""
    answer = grid(2).answer(name, limit)
    error = abs(answer.optimum - grid(1).optimum(limit)) / (answer.best - answer.worst)
    return Answer(**{**asdict(answer), "accuracy": round(error, 6)})


def interpolation(axes: tuple[Array, ...], points: Array, weights: Array) -> Any:
    """Sparse `[K, N]`: each of K rows is the mean over `points [K, W, d]` with `weights [W]`.

    Points beyond the axes are moved to their ends.
    """
    K, W = points.shape[:2]
    columns, factors = np.zeros((K, W, 1), int), np.broadcast_to(weights[:, None], (K, W, 1))
    for axis, values in zip(axes, np.moveaxis(points, -1, 0)):
        place = np.interp(values, axis, np.arange(len(axis)))
        lower = np.minimum(place.astype(int), len(axis) - 2)
        share = (place - lower)[..., None, None]
        columns = columns[..., None] * len(axis) + lower[..., None, None] + np.array([0, 1])
        factors = factors[..., None] * np.concatenate((1 - share, share), -1)
        columns, factors = columns.reshape(K, W, -1), factors.reshape(K, W, -1)
    N = int(np.prod([len(axis) for axis in axes]))
    rows = np.repeat(np.arange(K), columns[0].size)
    return sparse.csr_matrix((factors.reshape(-1), (rows, columns.reshape(-1))), shape=(K, N))


def normal_nodes(count: int) -> tuple[Array, Array]:
    """Gauss-Hermite nodes and weights of the standard normal distribution."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


class Heater(gymnasium.Env):
    """The tutorial's: keep a room near 20 degrees for 100 minutes; the energy is a cost."""

    observation_space = gymnasium.spaces.Box(-100.0, 100.0, (2,))
    action_space = gymnasium.spaces.Box(0.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.minute, self.temperature = 0, float(self.np_random.uniform(5, 15))
        return self.observe(), {}

    def step(self, action):
        heat = float(np.clip(action[0], 0, 1))
        self.temperature += (
            1.5 * heat - 0.05 * (self.temperature - 5) + 0.1 * float(self.np_random.normal())
        )
        self.minute += 1
        reward = 1 - abs(self.temperature - 20) / 10
        return self.observe(), reward, False, self.minute == 100, {"cost": {"energy": heat}}

    def observe(self):
        return np.array([(self.temperature - 20) / 10, self.minute / 100], dtype=np.float32)


def heater_grid(fineness: int) -> Gridded:
    axis, actions = np.linspace(2, 38, 360 * fineness + 1), np.linspace(0, 1, 50 * fineness + 1)
    noise, weights = normal_nodes(7)
    ahead = axis[:, None, None] + 1.5 * actions[:, None] - 0.05 * (axis[:, None, None] - 5)
    ahead = (ahead + 0.1 * noise).reshape(-1, len(noise), 1)
    reward = ((1 - abs(ahead[..., 0] - 20) / 10) @ weights).reshape(len(axis), -1)
    starts = np.linspace(5, 15, 2001)[:, None, None]
    initial = np.asarray(interpolation((axis,), starts, np.ones(1)).mean(0)).ravel()
    cost = np.broadcast_to(actions, reward.shape)
    return Gridded(interpolation((axis,), ahead, weights), reward, cost, np.ones(100), initial)


class Battery(gymnasium.Env):
    """Buy and sell with a leaking store of 4 for 48 hours; what moves through it is wear."""

    observation_space = gymnasium.spaces.Box(-2.0, 2.0, (4,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.hour, self.charge = 0, float(self.np_random.uniform(0, 2))
        return self.observe(), {}

    def step(self, action):
        move = float(np.clip(action[0], -1, 1))
        # no more is sold than there is, or bought than there is room for
        move = min(max(move, -self.charge), (4 - self.charge) / 0.9)
        reward = -(1 + 0.8 * np.sin(2 * np.pi * self.hour / 24)) * move
        inflow = 0.1 * float(self.np_random.normal())
        stored = 0.98 * self.charge + (0.9 * move if move > 0 else move) + inflow
        self.charge, self.hour = float(np.clip(stored, 0, 4)), self.hour + 1
        return self.observe(), reward, self.hour == 48, False, {"cost": {"wear": abs(move)}}

    def observe(self):
        angle = 2 * np.pi * self.hour / 24
        time = [np.sin(angle), np.cos(angle), self.hour / 48]
        return np.array([self.charge / 2 - 1, *time], dtype=np.float32)


def battery_grid(fineness: int) -> Gridded:
    axis, actions = np.linspace(0, 4, 200 * fineness + 1), np.linspace(-1, 1, 40 * fineness + 1)
    noise, weights = normal_nodes(9)
    moves = np.clip(actions, -axis[:, None], (4 - axis[:, None]) / 0.9)
    stored = 0.98 * axis[:, None] + np.where(moves > 0, 0.9 * moves, moves)
    ahead = (stored[..., None] + 0.1 * noise).clip(0, 4).reshape(-1, len(noise), 1)
    starts = np.linspace(0, 2, 2001)[:, None, None]
    initial = np.asarray(interpolation((axis,), starts, np.ones(1)).mean(0)).ravel()
    prices = 1 + 0.8 * np.sin(2 * np.pi * np.arange(48) / 24)
    return Gridded(interpolation((axis,), ahead, weights), -moves, abs(moves), prices, initial)


class Pendulum(gymnasium.Wrapper):
    """Gymnasium's, with the time in the observation; the cost is the torque used."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("Pendulum-v1", disable_env_checker=True))
        self.observation_space = gymnasium.spaces.Box(-8.0, 8.0, (4,), np.float64)

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self.observe(self.env.reset(seed=seed)[0]), {}

    def step(self, action):
        observation, reward, terminated, truncated, _ = self.env.step(action)
        self.time += 1
        cost = {"torque": abs(float(self.env.unwrapped.last_u))}
        return self.observe(observation), float(reward), terminated, truncated, {"cost": cost}

    def observe(self, observation):
        return np.append(observation, self.time / 200)


def pendulum_grid(fineness: int) -> Gridded:
    angles = np.linspace(-np.pi, np.pi, 90 * fineness + 1)
    speeds, torques = np.linspace(-8, 8, 80 * fineness + 1), np.linspace(-2, 2, 8 * fineness + 1)
    angle, speed, torque = (
        one.ravel() for one in np.meshgrid(angles, speeds, torques, indexing="ij")
    )
    reward = -(angle**2 + 0.1 * speed**2 + 0.001 * torque**2)
    faster = (speed + (15 * np.sin(angle) + 3 * torque) * 0.05).clip(-8, 8)
    further = (angle + faster * 0.05 + np.pi) % (2 * np.pi) - np.pi
    moves = interpolation((angles, speeds), np.stack((further, faster), -1)[:, None], np.ones(1))
    starts = np.meshgrid(np.linspace(-np.pi, np.pi, 721), np.linspace(-1, 1, 41), indexing="ij")
    starts = np.stack([one.ravel() for one in starts], -1)[:, None]
    initial = np.asarray(interpolation((angles, speeds), starts, np.ones(1)).mean(0)).ravel()
    shape = len(angles) * len(speeds), len(torques)
    cost = abs(torque).reshape(shape)
    return Gridded(moves, reward.reshape(shape), cost, np.ones(200), initial)


class CartPole(gymnasium.Wrapper):
    """Gymnasium's; the cost counts the steps with the cart more than 0.2 off the middle."""

    def __init__(self) -> None:
        super().__init__(gymnasium.make("CartPole-v1", disable_env_checker=True))

    def step(self, action):
        observation, reward, terminated, truncated, _ = self.env.step(action)
        cost = {"off": float(abs(observation[0]) > 0.2)}
        return observation, reward, terminated, truncated, {"cost": cost}


def cartpole_answer(limit: float) -> Answer:
    """500, the longest episode: `balance` reaches it at no cost. Worst: pushed to one side."""
    pushed = min(cartpole_mean(lambda seen: 0)[0], cartpole_mean(lambda seen: 1)[0])
    balanced, off = cartpole_mean(balance)
    assert balanced == 500 and off <= limit
    return Answer(500.0, 500.0, pushed, {"off": (0.0, 500.0)}, accuracy=0.001)


def balance(seen: Array) -> int:
    """A linear controller for CartPole that keeps the cart in the middle."""
    return int(seen @ np.array([0.5, 1.0, 12.0, 2.5]) > 0)


def cartpole_mean(control: Callable[[Array], int], episodes: int = 100) -> tuple[float, float]:
    """Mean return and cost of a controller."""
    env, totals = CartPole(), np.zeros(2)
    for seed in range(episodes):
        seen, ended = env.reset(seed=seed)[0], False
        while not ended:
            seen, reward, terminated, truncated, info = env.step(control(seen))
            totals += reward, info["cost"]["off"]
            ended = terminated or truncated
    return float(totals[0] / episodes), float(totals[1] / episodes)


class Regulator(gymnasium.Env):
    """`x' = A x + B u + noise w`, reward `-|x'|^2`, cost `|u|^2`; x starts normal; 50 steps.

    Actions have no bounds. An observation is x and the time.
    """

    def __init__(self, A: Any, B: Any, noise: float) -> None:
        self.A, self.B, self.noise = np.array(A), np.array(B), noise
        size, actions = self.B.shape
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (size + 1,), np.float64)
        self.action_space = gymnasium.spaces.Box(-np.inf, np.inf, (actions,), np.float64)
        self.spec = EnvSpec("Regulator-v0", max_episode_steps=50)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time, self.x = 0, self.np_random.standard_normal(len(self.A))
        return np.append(self.x, 0.0), {}

    def step(self, action):
        w = self.np_random.standard_normal(len(self.A))
        self.x = self.A @ self.x + self.B @ action + self.noise * w
        self.time += 1
        cost = {"energy": float(action @ action)}
        seen = np.append(self.x, self.time / 50)
        return seen, -float(self.x @ self.x), self.time == 50, False, {"cost": cost}


def regulator_answer(limit: float, A: Any, B: Any, noise: float) -> Answer:
    """Over all policies; a deterministic one that is linear in x attains it (Riccati).

    Actions have no bounds, so nothing is worst: the range is that from doing nothing to the best.
    """
    low, high = 1e-12, 1e6
    for _ in range(200):
        weight = np.sqrt(low * high)
        low, high = (low, weight) if riccati(weight, A, B, noise)[1] <= limit else (weight, high)
    optimum, best = riccati(high, A, B, noise)[0], riccati(1e-9, A, B, noise)[0]
    idle = riccati(1e12, A, B, noise)[0]
    return Answer(optimum, best, idle, {"energy": (0.0, float("inf"))})


def riccati(weight: float, A: Any, B: Any, noise: float) -> tuple[float, float]:
    """Mean return and energy of the policy that is best for `return - weight * energy`."""
    A, B = np.array(A), np.array(B)
    gains, value = [], np.zeros_like(A)
    for _ in range(50):  # value: x' value x is the least weighted cost to go
        inner = np.eye(len(A)) + value
        gain = np.linalg.solve(weight * np.eye(B.shape[1]) + B.T @ inner @ B, B.T @ inner @ A)
        closed = A - B @ gain
        value = closed.T @ inner @ closed + weight * gain.T @ gain
        gains.append(gain)
    spread, mean, energy = np.eye(len(A)), 0.0, 0.0
    for gain in reversed(gains):
        energy += np.trace(gain @ spread @ gain.T)
        closed = A - B @ gain
        spread = closed @ spread @ closed.T + noise**2 * np.eye(len(A))
        mean -= np.trace(spread)
    return float(mean), float(energy)


# ---------------------------------------------------------------------------------- the tasks


@dataclass(frozen=True, eq=False)
class Task:
    """A problem with limits, and how many samples a run gets."""

    problem: Finite | Controlled
    limits: tuple[str, ...]
    samples: int
    settings: dict[str, Any] = field(default_factory=dict)  # that belong to the question

    @property
    def parsed(self) -> cmdpax.Limits:
        """The limits."""
        return cmdpax.Limits.parse(self.limits)

    @property
    def discount(self) -> float:
        """That of the costs."""
        return self.settings["discount"] if self.settings.get("discounted") else 1.0

    @property
    def digest(self) -> str:
        """Of everything that the answer depends on."""
        text = f"{self.problem.identity} {self.limits} {self.discount}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def solve(self) -> Answer:
        """The answer, computed."""
        return self.problem.answer(self.parsed, self.discount)


def violations(task: Task, answer: Answer, costs: dict[str, float]) -> dict[str, float]:
    """By how much limits are exceeded, negative within them, in per cent of the limit.

    Where the limit is 0: of the range of what is attainable. Where it cannot be met: of the least
    that is, and beyond that.
    """
    shares = {}
    for name, low, high in zip(task.parsed.names, *task.parsed.bounds.T):
        if answer.least and name in answer.least:
            high = answer.least[name]
        bound, excess = (
            (high, costs[name] - high) if np.isfinite(high) else (low, low - costs[name])
        )
        unit = abs(bound) or float(np.ptp(answer.attainable[name]))
        shares[name] = 100 * excess / unit
    return shares


def regret(answer: Answer, mean: float) -> float:
    """`optimum - return` in per cent of `best - worst`; negative where limits are exceeded."""
    return 100 * (answer.optimum - mean) / (answer.best - answer.worst)


def outcome(task: Task, answer: Answer, policy: Any) -> dict[str, Any]:
    """Return, costs, violations and regret of a trained policy."""
    means = task.problem.evaluate(policy, task.parsed, task.discount)
    violation = violations(task, answer, means["cost"])
    return {**means, "violation": violation, "regret": regret(answer, means["return"])}


def tried(
    environment: Any,
    policy: Any,
    limits: cmdpax.Limits,
    discount: float,
    episodes: int,
    seed: int,
    is_best: bool = False,
) -> tuple[dict[str, Any], int]:
    """Mean return and costs of so many episodes, and the steps they took."""
    from cmdpax.learning.gym_simulator import make_simulator
    from cmdpax.learning.rollout import first_episodes

    simulator = make_simulator(environment, episodes)
    returns, costs, lengths = first_episodes(simulator, policy, seed, is_best, discount)
    means = costs[:, limits.columns(simulator.cost_names)].mean(0).tolist()
    cost = dict(zip(limits.names, means))
    return {"return": float(returns.mean()), "cost": cost}, int(lengths.sum())


def scores(outcomes: list[dict[str, Any]]) -> tuple[float, float, float, float]:
    """Of runs: share with violation <= 5%, largest, median regret, share with regret <= 20%.

    A run's violation is that of its worst limit; a failed one has an infinite violation and regret.
    """
    failed = {"": np.inf}
    beyond = np.array([max(one.get("violation", failed).values()) for one in outcomes])
    lost = np.array([one.get("regret", np.inf) for one in outcomes])
    within, small = (beyond <= 5).mean(), (lost <= 20).mean()
    return float(within), float(beyond.max()), float(np.median(lost)), float(small)


SIX = random_tables(5, 6, 3, {"cost": 1.0}, survival=0.95)
SPRING = {"A": [[1.0, 0.2], [-0.2, 0.9]], "B": [[0.0], [0.3]], "noise": 0.1}
PLANE = {
    "A": [[0.9, 0.2, 0.0], [-0.2, 0.9, 0.1], [0.0, 0.1, 0.8]],
    "B": [[0.3, 0.0], [0.0, 0.2], [0.1, 0.2]],
    "noise": 0.1,
}
TASKS: dict[str, Task] = {
    "six-states": Task(SIX, ("cost<=8",), 150_000),
    "six-states-units": Task(scaled(SIX, 1000.0, 0.01), ("cost<=0.08",), 150_000),
    "eight-states-units": Task(
        scaled(random_tables(8, 8, 4, {"cost": 1.0}, survival=0.9), 0.01, 1e4),
        ("cost<=35000",),
        100_000,
    ),
    "two-limits": Task(
        random_tables(11, 6, 3, {"heat": 1.0, "wear": 100.0}, survival=0.95),
        ("heat<=9", "wear<=950"),
        150_000,
    ),
    "three-limits": Task(
        random_tables(12, 12, 4, {"a": 0.01, "b": 1.0, "c": 1000.0}, survival=0.95),
        ("a<=0.08", "b<=8", "c<=8000"),
        200_000,
    ),
    "income": Task(tables_of(income_step, 4, 3, survival=0.95), ("income>=12",), 100_000),
    "uptime": Task(
        tables_of(uptime_step, 5, 3, survival=0.96), ("uptime>=0.18", "heat<=1000"), 100_000
    ),
    "negative-limit": Task(
        random_tables(13, 6, 3, {"debt": -1.0}, survival=0.95), ("debt<=-3",), 150_000
    ),
    "zero-limit": Task(
        random_tables(14, 6, 3, {"balance": -10.0}, survival=0.95), ("balance<=0",), 150_000
    ),
    "rare-danger": Task(tables_of(ridge_step, 5, 2, survival=0.98), ("falls<=0.06",), 150_000),
    "road": Task(tables_of(road_step, 7, 2, horizon=40), ("crashes<=0.04",), 150_000),
    "pump": Task(
        tables_of(pump_step, 6, 3, survival=0.95), ("flow>=600", "overflow<=0.04"), 100_000
    ),
    "ferry": Task(tables_of(ferry_step, 5, 3, horizon=50), ("sunk<=0.05",), 150_000),
    "raft": Task(tables_of(raft_step, 6, 3, horizon=60), ("capsized<=0.06",), 150_000),
    "climb": Task(tables_of(climb_step, 8, 3, horizon=35), ("slips<=0.04",), 150_000),
    "kiln": Task(tables_of(kiln_step, 6, 3, survival=0.96), ("ware>=0.3", "smoke<=900"), 100_000),
    "glasshouse": Task(
        tables_of(glasshouse_step, 5, 3, survival=0.96), ("growth>=10000", "fuel<=3"), 100_000
    ),
    "rare-end": Task(tables_of(gap_step, 9, 3, horizon=30), ("falls<=0.03",), 150_000),
    "short-5": Task(random_tables(15, 5, 3, {"cost": 1.0}, horizon=5), ("cost<=2.6",), 50_000),
    "short-10": Task(
        random_tables(16, 4, 3, {"cost": 1.0, "time": 60.0}, horizon=10),
        ("cost<=5.5", "time<=330"),
        50_000,
    ),
    "long-2000": Task(
        tables_of(machine_step, 5, 3, horizon=2000, is_cut=True), ("breakdowns<=20",), 300_000
    ),
    "long-1000": Task(
        tables_of(patrol_step, 5, 3, horizon=1000, is_cut=True), ("visits>=120",), 200_000
    ),
    "rounds": Task(
        tables_of(rounds_step, 6, 3, horizon=1000, is_cut=True), ("visits>=100",), 200_000
    ),
    "discounted-60": Task(
        random_tables(17, 6, 3, {"cost": 1.0}, horizon=60),
        ("cost<=11",),
        150_000,
        {"discounted": True, "discount": 0.97},
    ),
    "discounted-300": Task(
        random_tables(18, 6, 3, {"cost": 1.0}, horizon=300, is_cut=True),
        ("cost<=60",),
        200_000,
        {"discounted": True, "discount": 0.995},
    ),
    "heater": Task(Controlled(Heater, grid=heater_grid), ("energy<=40",), 100_000),
    "battery": Task(Controlled(Battery, grid=battery_grid), ("wear<=10",), 150_000),
    "lqr": Task(Controlled(Regulator, SPRING, solve=regulator_answer), ("energy<=10",), 150_000),
    "lqr-two-actions": Task(
        Controlled(Regulator, PLANE, solve=regulator_answer), ("energy<=10",), 150_000
    ),
    "pendulum": Task(Controlled(Pendulum, grid=pendulum_grid), ("torque<=80",), 300_000),
    "cartpole": Task(Controlled(CartPole, solve=cartpole_answer), ("off<=25",), 150_000),
    "cannot-be-met": Task(
        random_tables(19, 5, 3, {"cost": 1.0}, survival=0.95), ("cost<=2",), 100_000
    ),
    "never-binds": Task(
        random_tables(20, 5, 3, {"cost": 1.0}, survival=0.95), ("cost<=60",), 100_000
    ),
}
# Split before anything was tuned on it, kinds in balance. Constants of the learner are chosen on
# the first half. The second is not: its first run showed limits exceeded on rare-end, uptime and
# long-1000; road and pump, of the same kinds, then joined the first half, ferry and glasshouse
# the second, which was run once more, at the end, and is reported as it came. raft, climb, kiln and
# rounds, of the kinds that failed then, joined the first half afterwards.
TUNING = (
    *("six-states", "six-states-units", "two-limits", "income", "negative-limit", "rare-danger"),
    *("short-5", "long-2000", "discounted-60", "heater", "lqr", "pendulum", "cannot-be-met"),
    *("road", "pump", "raft", "climb", "kiln", "rounds"),
)
UNTOUCHED = (
    *("eight-states-units", "three-limits", "uptime", "zero-limit", "rare-end", "short-10"),
    *("long-1000", "discounted-300", "battery", "lqr-two-actions", "cartpole", "never-binds"),
    *("ferry", "glasshouse"),
)


def kept_answers() -> dict[str, Answer]:
    """Those of `known_optima.json` whose task is still the same."""
    kept = json.loads(ANSWERS.read_text()) if ANSWERS.exists() else {}
    answers = {}
    for name, task in TASKS.items():
        notes = dict(kept.get(name, {}))
        if notes.pop("digest", None) == task.digest:
            for cost, (low, high) in notes["attainable"].items():
                notes["attainable"][cost] = (low, float("inf") if high is None else high)
            answers[name] = Answer(**notes)
    return answers


def keep(answers: dict[str, Answer]) -> None:
    """Write `known_optima.json`."""
    notes = {}
    for name, answer in answers.items():
        notes[name] = {"digest": TASKS[name].digest, **asdict(answer)}
        for cost, (low, high) in answer.attainable.items():
            notes[name]["attainable"][cost] = [low, None if np.isinf(high) else high]
    lines = [f'"{name}": {json.dumps(one)}' for name, one in notes.items()]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n")
