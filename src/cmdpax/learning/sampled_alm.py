"""Projected augmented-Lagrangian methods from samples: the exact method with every exact quantity
replaced by an estimate.

| exact | estimate from a batch of episodes |
|---|---|
| occupancy d | share of visits (`learning/simulator.py`: episodes go on with probability gamma) |
| Q_r, Q_c | `psi(s,a).w` with critic features psi: least-squares temporal differences, or regression of Monte Carlo returns |
| V_r(rho), margins | mean of `sum_a pi(a|s) Q(s,a)` over first states |
| projection | the same forward-KL projection, over visited states |

Least-squares temporal differences solve `sum_t psi_t (psi_t - gamma E_{a ~ pi} psi(s'_t, a))' w =
sum_t psi_t r_t`. The equation knows the policy only through the expectation over next actions, so
that one batch serves several updates: Q is that of the current policy, only the visits stay those
of the policy that collected them (`reuse`, the paper's off-policy updates). Monte Carlo returns
belong to the policy that collected them, and are kept as they are for a reused batch. With critic
features that can express Q (one-hot for finite models, the default) every estimate is consistent,
with errors of order N^-1/2.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError
from cmdpax.lagrangian import scalarise
from cmdpax.learning.simulator import Experience, Sampler
from cmdpax.solvers import pqa
from cmdpax.solvers.policy_classes import Features, one_hot
from cmdpax.solvers.policy_gradient import StepFunction
from cmdpax.solvers.projection import newton
from cmdpax.solvers.tabular import softmax

RIDGE = 1e-9  # share of the regression's mean diagonal; pairs that were never visited get Q = 0
FeatureMap = Callable[[np.ndarray], np.ndarray]  # observations [n, ...] -> [n, A, d]


@dataclass(frozen=True)
class Settings:
    """Of a sampled run; the names are those of the exact method."""

    step: float = 1.0
    penalty: float = 10.0
    outer: int = 10
    inner: int = 20
    dual_step: float = 0.5
    episodes: int = 200  # in a batch
    reuse: int = 1  # updates from one batch
    estimator: Literal["temporal-differences", "monte-carlo"] = "temporal-differences"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("step", "penalty", "outer", "inner", "dual_step", "episodes", "reuse"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be positive.")
        if self.estimator not in ("temporal-differences", "monte-carlo"):
            raise InputError(
                f"estimator: '{self.estimator}' is neither 'temporal-differences' nor"
                " 'monte-carlo'."
            )


class Batch:
    """Transitions with every distinct observation once (U of them), and what the policy's and the
    critic's features are there.
    """

    def __init__(self, data: Experience, features: FeatureMap, critic: FeatureMap) -> None:
        count = len(data.actions)
        both = np.concatenate([data.observations, data.successors])
        self.observations, index = np.unique(both, axis=0, return_inverse=True)
        index = index.ravel()
        self.data, self.here, self.following = data, index[:count], index[count:]
        self.table, self.critic = (
            features(self.observations),
            critic(self.observations),
        )  # [U, A, d], [U, A, p]
        self.features = Features(self.table)
        self.visits = np.bincount(self.here, minlength=len(self.observations)) / count  # [U]

    def policy(self, theta: np.ndarray) -> np.ndarray:
        """Probabilities `[U, A]` of the policy with parameters `[d]`."""
        return softmax(self.table @ theta)

    def temporal_differences(self, policy: np.ndarray, discount: float) -> np.ndarray:
        """`Q_r, Q_c` of a policy `[U, A]` by least squares -> `[1 + m, U, A]`."""
        features = self.critic[self.here, self.data.actions]  # [N, p]
        expected = np.einsum("ua,uap->up", policy, self.critic)
        return self._fit(
            features,
            features - discount * expected[self.following] * self.data.continues[:, None],
            self.data.rewards,
        )

    def monte_carlo(self) -> np.ndarray:
        """`Q_r, Q_c` of the policy that collected the batch, by regression of returns -> `[1 + m,
        U, A]`.
        """
        features = self.critic[self.here, self.data.actions]
        return self._fit(features, features, returns(self.data))

    def _fit(self, features: np.ndarray, differences: np.ndarray, right: np.ndarray) -> np.ndarray:
        system = features.T @ differences
        ridge = RIDGE * np.trace(features.T @ features) / len(system)
        weights = np.linalg.solve(
            system + ridge * np.eye(len(system)), features.T @ right
        )  # [p, 1 + m]
        return np.moveaxis(self.critic @ weights, -1, 0)

    def at_start(self, policy: np.ndarray, quality: np.ndarray) -> np.ndarray:
        """Estimates of `V_r(rho), V_c(rho)`, `[1 + m]`, from Q `[1 + m, U, A]`: the mean over the
        episodes' first states.
        """
        return (policy * quality).sum(-1)[:, self.here[self.data.first]].mean(1)


def returns(data: Experience) -> np.ndarray:
    """Sum of rewards from every step to the end of its episode, `[N, 1 + m]`."""
    backwards = np.cumsum(data.rewards[::-1], axis=0)[::-1]
    last = np.append(data.first[1:], True)
    ends = np.nonzero(last)[0]
    beyond = np.vstack([backwards[1:], np.zeros_like(backwards[:1])])[
        ends
    ]  # what belongs to later episodes
    return backwards - beyond[np.searchsorted(ends, np.arange(len(last)))]


@dataclass(frozen=True)
class SampledResult:
    """Where a sampled run ended. Values are estimates from its last batch; no optimality gap is
    known.
    """

    theta: np.ndarray  # [d]
    multipliers: np.ndarray  # [m]
    reward: float
    margins: np.ndarray  # [m]
    features: FeatureMap
    history: list[
        dict[str, Any]
    ]  # one row per update: evaluations, episodes so far, reward, margins

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Probabilities `[n, A]` at observations `[n, ...]`."""
        return softmax(self.features(observations) @ self.theta)


def sampled_alm(
    simulator: Sampler,
    features: np.ndarray | FeatureMap,
    settings: Settings | None = None,
    *,
    critic: np.ndarray | FeatureMap | None = None,
    step: StepFunction = pqa.step,
) -> SampledResult:
    """Algorithm 1 with a projected oracle, from samples.

    `features` are a table `[S, A, d]` where observations are state indices, or a function of
    observations `[n, ...]` -> `[n, A, d]`; `critic` likewise, by default one-hot for a finite
    number of states and the policy's features otherwise. Every dual update uses the first margins
    estimated after it is due, from a fresh batch of the new policy.
    """
    settings = Settings() if settings is None else settings
    phi = _map(features, simulator)
    psi = phi if critic is None else _map(critic, simulator)
    if critic is None and simulator.states is not None:
        psi = _map(one_hot(simulator.states, simulator.actions), simulator)
    rng = np.random.default_rng(settings.seed)
    batch = _collect(simulator, None, settings, phi, psi, rng)
    theta, multipliers, history, done = (
        np.zeros(batch.table.shape[-1]),
        np.zeros(len(simulator.thresholds)),
        [],
        0,
    )
    for _ in range(settings.outer):
        for k in range(settings.inner):
            if done and k % settings.reuse == 0:
                batch = _collect(simulator, theta, settings, phi, psi, rng)
            policy, quality, reward, margins = _estimates(simulator, batch, theta, settings)
            if done and k == 0:
                multipliers = lagrangian.dual_update(
                    multipliers, settings.penalty, margins, settings.dual_step
                )
            worth = lagrangian.weights(multipliers, settings.penalty, margins)
            theta = update(batch, theta, policy, quality, worth, settings.step, step)
            done += 1
            history.append({"evaluations": done, "reward": reward, "margins": margins.tolist()})
    batch = _collect(simulator, theta, settings, phi, psi, rng)
    _, _, reward, margins = _estimates(simulator, batch, theta, settings)
    multipliers = lagrangian.dual_update(multipliers, settings.penalty, margins, settings.dual_step)
    return SampledResult(theta, multipliers, reward, margins, phi, history)


def update(
    batch: Batch,
    theta: np.ndarray,
    policy: np.ndarray,
    quality: np.ndarray,
    worth: np.ndarray,
    size: float,
    step: StepFunction = pqa.step,
) -> np.ndarray:
    """One step and its projection: parameters `[d]`, policy `[U, A]`, Q `[1 + m, U, A]`, constraint
    weights `[m]` -> `[d]`.
    """
    flat = quality.reshape(len(quality), -1)
    pseudo = scalarise(flat[0], flat[1:], worth).reshape(policy.shape)
    target = step(policy, pseudo, np.full((1, 1), size))
    before = batch.features.coordinates(theta)
    return theta + batch.features.parameters(
        newton(batch.features, before, batch.visits, target) - before
    )


def _collect(
    simulator: Sampler,
    theta: np.ndarray | None,
    settings: Settings,
    phi: FeatureMap,
    psi: FeatureMap,
    rng: np.random.Generator,
) -> Batch:
    def policy(observations: np.ndarray) -> np.ndarray:
        table = phi(observations)
        return softmax(table @ (np.zeros(table.shape[-1]) if theta is None else theta))

    return Batch(simulator.collect(policy, settings.episodes, rng), phi, psi)


def _estimates(
    simulator: Sampler, batch: Batch, theta: np.ndarray, settings: Settings
) -> tuple[np.ndarray, np.ndarray, float, np.ndarray]:
    """Policy `[U, A]`, Q `[1 + m, U, A]`, reward and margins `[m]` at the current parameters."""
    policy = batch.policy(theta)
    by_difference = settings.estimator == "temporal-differences"
    quality = (
        batch.temporal_differences(policy, simulator.discount)
        if by_difference
        else batch.monte_carlo()
    )
    start = batch.at_start(policy, quality)
    return policy, quality, float(start[0]), start[1:] - simulator.thresholds


def _map(features: np.ndarray | FeatureMap, simulator: Sampler) -> FeatureMap:
    """Features as a function of observations; a table must fit the simulator."""
    if callable(features):
        return features
    if simulator.states is None:
        raise InputError(
            "features: observations are not state indices; give a function of observations [n, ...]"
            " -> [n, A, d]."
        )
    table = Features(features)
    table.check(simulator.states, simulator.actions)
    return lambda states: table.table[states]
