"""What does a trained policy do: episode returns and costs, their tails, the chance of a violation?

Evidence from samples is not a certificate: it says how the policy did in so many episodes, nothing
about the optimum.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, stdtrit

from cmdpax.errors import InputError, check_count
from cmdpax.files.reading import Row
from cmdpax.files.written import plain
from cmdpax.learning.config import EPISODES
from cmdpax.learning.environment_names import is_object, names_module
from cmdpax.learning.gym_simulator import make_simulator
from cmdpax.learning.margins import CONFIDENCE, Verdict, judge
from cmdpax.learning.policy import NetworkPolicy, refuse_other_spaces, spaces_of
from cmdpax.learning.portable import read_network
from cmdpax.learning.rollout import first_episodes
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.simulator import Simulator
from cmdpax.model.limits import Limits

SEED = 12345  # of an evaluation, unless another is asked for


@dataclass(frozen=True)
class Spread:
    """Mean, deviation and tails of E numbers; tails are on the bad side, small for a return."""

    mean: float
    std: float
    p90: float
    p95: float
    worst: float
    bound: float  # one-sided 95% confidence bound on the mean (Student's t), on the bad side


@dataclass(frozen=True)
class Evidence:
    """What E episodes say about one policy. No optimality gap is known."""

    updates: int  # that made the policy: a run that went on has another by now
    episodes: int
    deterministic: bool
    reward: Spread
    costs: dict[str, Spread]  # all the environment has, also those without a limit
    violation_probability: dict[str, float]  # share of episodes beyond the limit, if there is one
    violation_bound: dict[str, float]  # 95% upper confidence bound on that chance (Clopper-Pearson)
    verdict: Verdict | None  # on the limits, if there are any
    length: float
    returns: tuple[float, ...]
    totals: dict[str, tuple[float, ...]]


def evaluate(
    run: Any,
    *,
    environment: Any = None,
    trust: bool = False,
    episodes: int = EPISODES,
    seed: int = SEED,
    callback: Callable[[Row], None] | None = None,
) -> dict[str, Evidence]:
    """Evidence on a trained policy, `stochastic` as in training, and `deterministic`.

    run: what `train` returned, or its folder, which keeps the numbers as `evaluation.json` (a
    warning says if it cannot); a published folder is left as it is.
    environment: as for `train`; by default the one that the policy was trained in. trust: whether
    a module may be imported because the folder names it. seed: of the environment and of the
    actions. callback: sees one row for every episode. Where limits are on discounted totals, so are
    the costs that are reported.
    """
    run_folder = RunFolder(getattr(run, "folder", run))
    is_ours = hasattr(run, "environment")  # of this process, where somebody typed it
    config, policy = run_folder.config, read_network(run_folder.path, trust or is_ours)
    if environment is None:
        environment = run.environment if is_ours else trained_in(run_folder, trust)
    measured = measure(policy, environment, config, episodes, seed, callback)
    if run_folder.card is None:
        try:
            run_folder.save_evaluation(as_numbers(measured))
        except OSError as error:
            why = f"{error.filename}: {error.strerror}"
            warnings.warn(f"these numbers could not be kept ({why}).", stacklevel=2)
    return measured


def measure(
    policy: NetworkPolicy,
    environment: Any,
    config: Row,
    episodes: int,
    seed: int,
    callback: Callable[[Row], None] | None = None,
) -> dict[str, Evidence]:
    """Evidence on a policy in an environment; `config` is its run's. Nothing is kept."""
    check_count("seed", seed, least=0)
    simulator, rounds = simulator_for(environment, episodes)
    refuse_other_spaces(spaces_of(policy), simulator)
    return measure_in(simulator, rounds, policy, config, seed, callback)


def simulator_for(environment: Any, episodes: int) -> tuple[Simulator, int]:
    """A simulator of N copies, and how many rounds of N episodes make so many."""
    check_count("episodes", episodes)
    # of an object there is one copy
    rounds, count = (episodes, 1) if is_object(environment) else (1, episodes)
    return make_simulator(environment, count), rounds


def measure_in(
    simulator: Simulator,
    rounds: int,
    policy: NetworkPolicy,
    config: Row,
    seed: int = SEED,
    callback: Callable[[Row], None] | None = None,
) -> dict[str, Evidence]:
    """The same in a simulator of N copies, which play N episodes in each round."""
    limits = Limits.parse(config["limits"])
    limits.columns(simulator.cost_names)  # refuses a limit on a cost that is not there
    cost_discount = config["discount"] if config["discounted"] else 1.0
    measured = {}
    for kind in ("stochastic", "deterministic"):
        is_best = kind == "deterministic"
        parts = [
            first_episodes(simulator, policy, seed + number, is_best, cost_discount)
            for number in range(rounds)
        ]
        returns, costs, lengths = (np.concatenate(part) for part in zip(*parts))
        named = dict(zip(simulator.cost_names, costs.T))
        measured[kind] = evidence(returns, named, lengths, limits, policy.updates, is_best)
        if callback:
            for i in range(len(returns)):
                cost = {name: values[i] for name, values in named.items()}
                row = {"policy": kind, "episode": i, "return": returns[i], "cost": cost}
                callback(plain({**row, "length": int(lengths[i])}))
    return measured


def means(measured: Mapping[str, Evidence]) -> Row:
    """What a row of metrics says of an evaluation: means, of both ways to act."""
    names = {"stochastic": "evaluated", "deterministic": "evaluated_deterministic"}
    return {
        names[kind]: {
            **{name: part.mean for name, part in seen.costs.items()},
            "return": seen.reward.mean,
        }
        for kind, seen in measured.items()
    }


def effect_of_acting_deterministically(measured: Mapping[str, Evidence]) -> str:
    """What it does to return, costs and the verdict, as a sentence."""
    sampled, best = measured["stochastic"], measured["deterministic"]
    pairs = {"return": (sampled.reward, best.reward)}
    pairs |= {name: (cost, best.costs[name]) for name, cost in sampled.costs.items()}
    parts = [f"{name} {one.mean:.4g} -> {other.mean:.4g}" for name, (one, other) in pairs.items()]
    if sampled.verdict is not None and best.verdict is not None:
        parts.append(f"limits {sampled.verdict.word} -> {best.verdict.word}")
    return f"acting deterministically: {', '.join(parts)}; limits are trained for random actions"


def trained_in(run_folder: RunFolder, trust: bool) -> str:
    """The environment that a folder names; one that takes an import only with `trust`."""
    name = run_folder.config["environment"]
    if names_module(name) and not trust:
        module = name.partition(":")[0]
        raise InputError(
            f"{run_folder.path / 'config.json'} names the environment '{name}', which would import"
            f" the module '{module}'; name the environment yourself (--environment {name}), or say"
            " that you trust the folder (--trust)."
        )
    return name


def as_numbers(measured: Mapping[str, Evidence]) -> Row:
    """Evidence as JSON says it; None for the bound that one episode cannot give."""
    return plain({kind: asdict(seen) for kind, seen in measured.items()})


def evidence(
    returns: np.ndarray,
    costs: Mapping[str, np.ndarray],
    lengths: np.ndarray,
    limits: Limits,
    updates: int,
    deterministic: bool,
) -> Evidence:
    """Summary of E episodes against limits; every cost is `[E]`, in the environment's order."""
    # a value is bad if it is large, unless its limit has no upper bound
    small_is_bad = {name for name, high in zip(limits.names, limits.bounds[:, 1]) if np.isinf(high)}
    chance, bound, verdict = {}, {}, None
    if len(limits):
        totals = np.stack([costs[name] for name in limits.names], -1)
        verdict = judge(limits, totals)
        violations = (limits.margins(totals) < 0).sum(0)
        for name, count in zip(limits.names, violations.tolist()):
            kept = len(returns) - count
            chance[name] = count / len(returns)
            bound[name] = float(betaincinv(count + 1, kept, CONFIDENCE)) if kept else 1.0
    return Evidence(
        updates,
        len(returns),
        deterministic,
        spread(returns, -1),
        {name: spread(values, -1 if name in small_is_bad else 1) for name, values in costs.items()},
        {name: chance[name] for name in costs if name in chance},
        {name: bound[name] for name in costs if name in bound},
        verdict,
        float(lengths.mean()),
        tuple(returns.tolist()),
        {name: tuple(values.tolist()) for name, values in costs.items()},
    )


def spread(values: np.ndarray, bad: int) -> Spread:
    """Of `values [E]`; `bad` is +1 if large is bad, -1 if small is."""
    turned, count = bad * values, len(values)
    deviation = values.std(ddof=1) if count > 1 else 0.0
    error = stdtrit(count - 1, CONFIDENCE) * deviation / np.sqrt(count) if count > 1 else np.inf
    p90, p95 = np.percentile(turned, 90), np.percentile(turned, 95)
    tails = (p90, p95, turned.max(), turned.mean() + error)
    return Spread(float(values.mean()), float(deviation), *(float(bad * tail) for tail in tails))
