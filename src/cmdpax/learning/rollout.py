"""One batch of experience; whole episodes for an evaluation.

A batch is T steps of N simulators under one fixed policy, from reset. Everything random in it
follows from its seed, so that a resumed run needs no simulator state. The last step cuts running
episodes; they are bootstrapped like a time limit, and count as episodes only if none was completed.
"""

from typing import NamedTuple

import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.simulator import CompiledSimulator, Record, Recorder, Simulator
from cmdpax.model.limits import Limits

MAX_EPISODE_STEPS = 100_000  # an environment without an end is noticed here


class Batch(NamedTuple):
    """What the learner sees. Observations are normalised; actions are in the policy's own units."""

    observation: np.ndarray  # [T, N, d] float32
    beyond: np.ndarray  # [E, d], the true successors of the rows that `cut` marks
    output: np.ndarray  # [T, N, a], of the policy's network
    action: np.ndarray  # [T, N, a] float32, or [T, N] int
    rewards: np.ndarray  # [1 + M, T, N]: reward first, then constraint rewards, one for each row
    terminated: np.ndarray  # [T, N] float32, where nothing counts any more
    ended: np.ndarray  # [T, N] float32, by itself or by the time limit
    age: np.ndarray  # [T, N] float32, steps since the episode's start


class Episodes(NamedTuple):
    """Totals `[1 + M, E]` and lengths `[E]` of E episodes; the batch cut all but `completed`."""

    totals: np.ndarray
    lengths: np.ndarray
    completed: int


def collect(
    simulator: Simulator | Recorder,
    policy: NetworkPolicy,
    limits: Limits,
    steps: int,
    seed: tuple[int, ...],
) -> tuple[Batch, np.ndarray]:
    """A batch of `steps` steps of each simulator, and its raw observations `[T * N, d]`."""
    random = np.random.default_rng(seed)
    start, noise = int(random.integers(2**31)), policy.noise(random, (steps, simulator.count))
    if isinstance(simulator, Recorder):
        record = simulator.record(policy, noise, start)
    else:
        record = record_of(simulator, policy, noise, start)
    for name in ("reward", "cost", "observation", "next_observation"):
        values = getattr(record, name)
        if not np.isfinite(values).all():
            when = int(np.argwhere(~np.isfinite(values))[0][0])
            raise InputError(
                f"the environment's {name.removeprefix('next_')} is not finite at step {when} of"
                " this batch; training stops."
            )
    reward, cost = record.reward, record.cost
    constraints = limits.turn(cost[..., limits.columns(simulator.cost_names)])
    rewards = np.concatenate((reward[None], np.moveaxis(constraints, -1, 0)))
    ended = record.terminated | record.truncated
    terminated = ended if counts_steps(record.observation, ended) else record.terminated
    batch = Batch(
        record.normalised,
        policy.normalise(record.next_observation[cut(ended)]),
        record.output - noise,
        policy.choose(record.output),
        rewards.astype(np.float32),
        terminated.astype(np.float32),
        ended.astype(np.float32),
        ages(ended).astype(np.float32),
    )
    return batch, record.observation.reshape(-1, simulator.observation_size)


def record_of(
    simulator: Simulator, policy: NetworkPolicy, noise: np.ndarray, seed: int, first: int = 0
) -> Record:
    """The steps of copies `first`, `first + 1`, ... of a batch from reset; noise `[T, N, a]`."""
    record = Record.empty(simulator, len(noise))
    record.observation[0] = simulator.reset(seed, first)
    is_dense = policy.encoder is None
    if is_dense and isinstance(simulator, CompiledSimulator) and simulator.is_alone:
        simulator.run(policy, noise, record)
    else:
        run(simulator, policy, noise, record)
    return record


def cut(ended: np.ndarray) -> np.ndarray:
    """Where an episode or the batch ended, `[T, N]`: elsewhere the next row is what followed."""
    ends = ended.astype(bool)
    ends[-1] = True
    return ends


def run(simulator: Simulator, policy: NetworkPolicy, noise: np.ndarray, record: Record) -> None:
    """Fill in a record whose first observation is there; noise `[T, N, a]`."""
    for t in range(len(noise)):
        policy.act(record.observation[t], noise[t], record.normalised[t], record.output[t])
        observation, *rest = simulator.step(policy.to_environment(record.output[t]))
        for place, value in zip(record[3:], rest):
            place[t] = value
        if t + 1 < len(noise):
            record.observation[t + 1] = observation


def ages(ended: np.ndarray) -> np.ndarray:
    """Steps since the episode's start, `[T, N]`, where every simulator starts with a reset."""
    now = np.arange(len(ended))[:, None]
    starts = np.zeros_like(ended, dtype=int)
    starts[1:] = np.where(ended[:-1], now[1:], 0)
    return now - np.maximum.accumulate(starts)


def counts_steps(observations: np.ndarray, ended: np.ndarray) -> bool:
    """Whether an entry of `observations [T, N, d]` changes by the same amount at every step.

    Then a policy knows how much time is left, and a time limit ends what counts. Where it cannot
    know, values go on beyond the limit.
    """
    changes = np.diff(observations, axis=0)[ended[:-1] == 0]  # [steps, d]
    if not len(changes):
        return False
    low, high = changes.min(0), changes.max(0)
    return bool(((low * high > 0) & (high - low <= 1e-3 * abs(high))).any())


def episodes(rewards: np.ndarray, ended: np.ndarray, discount: float = 1.0) -> Episodes:
    """Episode totals of `rewards [K, T, N]`, discounted from each start; `ended [T, N]`."""
    kinds, steps = rewards.shape[:2]
    ends = ended.astype(bool).T.copy()  # simulator by simulator, [N, T]
    cut = ~ends[:, -1]
    ends[:, -1] = True
    last = np.flatnonzero(ends.reshape(-1))
    first = np.concatenate(([0], last[:-1] + 1))
    flat = np.moveaxis(rewards, -1, 1).reshape(kinds, -1).astype(np.float64)
    lengths = last - first + 1
    if discount < 1:
        flat = flat * discount ** ages(ended).T.reshape(-1)
    totals = np.add.reduceat(flat, first, axis=1)
    whole = ~np.isin(last, np.flatnonzero(cut) * steps + steps - 1)
    keep = whole if whole.any() else np.ones_like(whole)
    return Episodes(totals[:, keep], lengths[keep], int(whole.sum()))


def first_episodes(
    simulator: Simulator,
    policy: NetworkPolicy,
    seed: int,
    deterministic: bool,
    cost_discount: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first episode of each simulator: returns `[N]`, costs `[N, costs]`, lengths `[N]`."""
    random, observation = np.random.default_rng(seed), simulator.reset(seed)
    running = np.ones(simulator.count, dtype=bool)
    returns, lengths = np.zeros(simulator.count), np.zeros(simulator.count)
    costs = np.zeros((simulator.count, len(simulator.cost_names)))
    for age in range(MAX_EPISODE_STEPS):
        noise = policy.noise(None if deterministic else random, (simulator.count,))
        step = simulator.step(policy.action(observation, noise))
        returns += running * step.reward
        costs += cost_discount**age * running[:, None] * step.cost
        lengths += running
        running &= ~(step.terminated | step.truncated)
        observation = step.observation
        if not running.any():
            return returns, costs, lengths
    what = f"an episode did not end within {MAX_EPISODE_STEPS} steps"
    raise InputError(f"{what}; give the environment a time limit.")
