"""What a trained policy does, measured: episode returns and costs, their tails, and the chance of a
violation.

Evidence from samples is not a certificate: it says how the policy did in so many episodes, nothing
about the optimum.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.special import betaincinv, stdtrit

from cmdpax.errors import InputError
from cmdpax.files import write_bytes
from cmdpax.learning import run_folder as stored
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.policy import NetworkPolicy, load_policy, refuse_other_spaces
from cmdpax.learning.simulator import Simulator
from cmdpax.model.limits import Limit, match_limits

STEP_LIMIT = 100_000  # an environment without an end is noticed here


@dataclass(frozen=True)
class Spread:
    """Mean, deviation and tails of E numbers. Tails are on the bad side: high for a cost, low for a
    return.
    """

    mean: float
    std: float
    p90: float
    p95: float
    worst: float
    bound: float  # one-sided 95% confidence bound on the mean (Student's t), on the bad side


@dataclass(frozen=True)
class SampledEvidence:
    """What E episodes say about one policy. No optimality gap is known."""

    updates: int  # that made the policy: a run that went on has another by now
    episodes: int
    deterministic: bool
    reward: Spread
    costs: dict[str, Spread]  # all the environment has, also those without a limit
    violation_probability: dict[
        str, float
    ]  # share of episodes beyond the limit, of costs that have one
    violation_bound: dict[str, float]  # 95% upper confidence bound on that chance (Clopper-Pearson)
    length: float
    returns: tuple[float, ...]
    totals: dict[str, tuple[float, ...]]


def spread(values: np.ndarray, bad: int) -> Spread:
    """Of `values [E]`; `bad` is +1 if large is bad, -1 if small is."""
    turned = bad * values
    error = (
        stdtrit(len(values) - 1, 0.95) * values.std(ddof=1) / np.sqrt(len(values))
        if len(values) > 1
        else np.inf
    )
    tails = (
        np.percentile(turned, 90),
        np.percentile(turned, 95),
        turned.max(),
        turned.mean() + error,
    )
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return Spread(float(values.mean()), deviation, *(float(bad * tail) for tail in tails))


def run_episodes(
    simulator: Simulator,
    policy: NetworkPolicy,
    seed: int,
    deterministic: bool,
    cost_discount: float = 1.0,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first episode of each simulator: returns `[N]`, costs `[N, costs]` (discounted if asked),
    lengths `[N]`.
    """
    random = np.random.default_rng(seed)
    observation = simulator.reset(seed)
    running = np.ones(simulator.count, dtype=bool)
    returns, costs, lengths = (
        np.zeros(simulator.count),
        np.zeros((simulator.count, len(simulator.cost_names))),
        np.zeros(simulator.count),
    )
    for age in range(STEP_LIMIT):
        if deterministic:
            action = policy.best(observation)
        else:
            noise = policy.noise(random, (simulator.count,))
            action = simulator.action_space.to_environment(
                policy.sample(policy.normalise(observation), noise)
            )
        step = simulator.step(action)
        returns += running * step.reward
        costs += cost_discount**age * running[:, None] * step.cost
        lengths += running
        running &= ~(step.terminated | step.truncated)
        observation = step.observation
        if not running.any():
            return returns, costs, lengths
    raise InputError(
        f"an episode did not end within {STEP_LIMIT} steps; give the environment a time limit."
    )


def evidence(
    returns: np.ndarray,
    costs: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    limits: Sequence[Limit],
    updates: int,
    deterministic: bool,
) -> SampledEvidence:
    """Summary of E episodes against limits; every cost is `[E]`, in the environment's order."""
    by_name = {limit.name: limit for limit in limits}
    spreads, chance, bound = {}, {}, {}
    for name, values in costs.items():
        limit = by_name.get(name)
        bad = -int(limit.sign) if limit else 1
        spreads[name] = spread(values, bad)
        if limit:
            beyond = int((bad * values > bad * limit.bound).sum())
            chance[name] = beyond / len(values)
            bound[name] = (
                float(betaincinv(beyond + 1, len(values) - beyond, 0.95))
                if beyond < len(values)
                else 1.0
            )
    return SampledEvidence(
        updates,
        len(returns),
        deterministic,
        spread(returns, -1),
        spreads,
        chance,
        bound,
        float(lengths.mean()),
        tuple(returns.tolist()),
        {name: tuple(values.tolist()) for name, values in costs.items()},
    )


def evaluate(run: Path, episodes: int = 10, seed: int = 12345) -> dict[str, SampledEvidence]:
    """Stochastic and deterministic evidence on the policy of a run folder, which keeps it as
    `evaluation.json`.

    Where limits are on discounted totals, so are the costs that are reported.
    """
    if episodes < 1 or seed < 0:
        raise InputError(
            f"episodes is {episodes} and seed is {seed}; it takes one episode or more, and a seed"
            " of 0 or more."
        )
    config, policy = stored.read_config(run), load_policy(run)
    simulator = make_simulator(config["environment"], episodes)
    refuse_other_spaces(policy.action_space, policy.observation_shape, simulator)
    constraints = match_limits(config["limit"], simulator.cost_names)
    cost_discount = config["discount"] if config["discounted"] else 1.0
    found = {}
    for kind, deterministic in (("stochastic", False), ("deterministic", True)):
        returns, costs, lengths = run_episodes(
            simulator, policy, seed, deterministic, cost_discount
        )
        named = dict(zip(simulator.cost_names, costs.T))
        found[kind] = evidence(
            returns, named, lengths, constraints.limits, policy.updates, deterministic
        )
    write_bytes(run / "evaluation.json", (as_json(found) + "\n").encode())
    return found


def as_json(found: dict[str, SampledEvidence]) -> str:
    """One JSON object: kind of evidence -> its numbers; null for the bound that one episode cannot
    give.
    """
    numbers = {kind: asdict(seen) for kind, seen in found.items()}
    for part in [
        one for seen in numbers.values() for one in (seen["reward"], *seen["costs"].values())
    ]:
        part["bound"] = part["bound"] if np.isfinite(part["bound"]) else None
    return json.dumps(numbers, allow_nan=False)
