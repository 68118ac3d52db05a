"""One batch of experience, from reset: T steps of N simulators under one fixed policy.

Everything random in it follows from its seed, so that a resumed run needs no simulator state. The
last step cuts running episodes; they are bootstrapped like a time limit, and count as episodes only
if none was completed.
"""

from typing import Any, NamedTuple

import numpy as np

from cmdpax.errors import InputError
from cmdpax.learning.forward import actor
from cmdpax.learning.policy import NetworkPolicy
from cmdpax.learning.simulator import Simulator
from cmdpax.model.limits import Constraints

Array = Any  # NumPy when collected, JAX inside compiled functions


class Batch(NamedTuple):
    """What the learner sees. Observations are normalised; actions are in the policy's own units."""

    observation: Array  # [T, N, d] float32
    next_observation: Array  # [T, N, d], the true successors
    action: Array  # [T, N, a] float32, or [T, N] int
    rewards: Array  # [1 + m, T, N]: reward first, then constraint rewards
    terminated: Array  # [T, N] float32
    ended: Array  # [T, N] float32, by itself or by the time limit


class Episodes(NamedTuple):
    """Totals of E episodes: `totals [1 + m, E]` and `lengths [E]`; `completed` of them were not cut
    by the batch.
    """

    totals: np.ndarray
    lengths: np.ndarray
    completed: int


def collect(
    simulator: Simulator,
    policy: NetworkPolicy,
    constraints: Constraints,
    steps: int,
    seed: tuple[int, ...],
) -> tuple[Batch, np.ndarray]:
    """A batch of `steps` steps of each simulator, and the raw observations `[T * N, d]` behind it."""
    random = np.random.default_rng(seed)
    count, size = simulator.count, simulator.observation_size
    raw, successors = np.empty((steps, count, size)), np.empty((steps, count, size))
    seen, output = (
        np.empty_like(raw, np.float32),
        np.empty((steps, count, policy.action_space.size), np.float32),
    )
    reward, cost = np.empty((steps, count)), np.empty((steps, count, len(simulator.cost_names)))
    terminated, ended = np.empty((steps, count), bool), np.empty((steps, count), bool)
    observation = simulator.reset(int(random.integers(2**31)))
    noise = policy.noise(random, (steps, count))
    act, gaussian, to_environment = (
        actor(policy),
        policy.log_std is not None,
        simulator.action_space.to_environment,
    )
    for t in range(steps):
        raw[t] = observation
        act(raw[t], noise[t], seen[t], output[t])
        step = simulator.step(to_environment(output[t] if gaussian else output[t].argmax(-1)))
        observation, successors[t], reward[t], cost[t] = (
            step.observation,
            step.next_observation,
            step.reward,
            step.cost,
        )
        terminated[t], ended[t] = step.terminated, step.terminated | step.truncated
    for name, values in (
        ("reward", reward),
        ("cost", cost),
        ("observation", raw),
        ("observation", successors),
    ):
        if not np.isfinite(values).all():
            when = int(np.argwhere(~np.isfinite(values))[0][0])
            raise InputError(
                f"the environment's {name} is not finite at step {when} of this batch; training"
                " stops."
            )
    rewards = np.concatenate((reward[None], np.moveaxis(constraints.rewards(cost), -1, 0)))
    batch = Batch(
        seen,
        policy.normalise(successors),
        output if gaussian else output.argmax(-1),
        rewards.astype(np.float32),
        terminated.astype(np.float32),
        ended.astype(np.float32),
    )
    return batch, raw.reshape(-1, size)


def episodes(rewards: np.ndarray, ended: np.ndarray, discount: float = 1.0) -> Episodes:
    """Episode totals of `rewards [K, T, N]`, discounted from each episode's start if asked; `ended
    [T, N]`.
    """
    kinds, steps, count = rewards.shape
    ends = ended.astype(bool).T.copy()  # simulator by simulator, [N, T]
    cut = ~ends[:, -1]
    ends[:, -1] = True
    last = np.flatnonzero(ends.reshape(-1))
    first = np.concatenate(([0], last[:-1] + 1))
    flat = np.moveaxis(rewards, -1, 1).reshape(kinds, -1).astype(np.float64)
    lengths = last - first + 1
    if discount < 1:
        age = np.arange(steps * count) - np.repeat(first, lengths)
        flat = flat * discount**age
    totals = np.add.reduceat(flat, first, axis=1)
    whole = ~np.isin(last, np.flatnonzero(cut) * steps + steps - 1)
    keep = whole if whole.any() else np.ones_like(whole)
    return Episodes(totals[:, keep], lengths[keep], int(whole.sum()))
