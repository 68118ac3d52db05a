"""The projected methods from samples: every exact quantity is replaced by an estimate.

| exact | estimate from a batch of episodes |
|---|---|
| share of visits | the same of the batch: episodes go on with probability gamma |
| Q_r, Q_c | `psi(s,a).w` with critic features psi: temporal differences or Monte Carlo returns |
| V_r(rho), margins | mean of `sum_a pi(a|s) Q(s,a)` over first states |
| projection | the same forward-KL projection, over visited states |
| a utility F(V, d) | V as above, `d(s,a) = (1 - gamma) visits of s in an episode * pi(a|s)` |
| its gradient | Q of the reward `grad F` at that point: its weights of V, and a table of pairs |

Least-squares temporal differences solve `sum_t psi_t (psi_t - gamma E_{a ~ pi} psi(s'_t, a))' w =
sum_t psi_t r_t`. The equation knows the policy only through the expectation over next actions, so
that one batch serves several updates: Q is that of the current policy, only the visits stay those
of the policy that collected them (`reuse`, the paper's off-policy updates). Monte Carlo returns
belong to the policy that collected them, and are kept as they are for a reused batch. With critic
features that can express Q (one-hot for finite models, the default) every estimate is consistent,
with errors of order N^-1/2.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cmdpax import lagrangian
from cmdpax.errors import InputError
from cmdpax.learning.simulator import Experience, Sampler
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_classes import Array, softmax
from cmdpax.solvers.policy_gradient import StepFunction, pqa
from cmdpax.utilities.utility import Utility

RIDGE = 1e-9  # share of the regression's mean diagonal; pairs that were never visited get Q = 0
FeatureMap = Callable[[Array], Array]  # observations [n, ...] -> [n, A, d]


@dataclass(frozen=True)
class SampledSettings:
    """Of a sampled run; the names are those of the exact method."""

    step: float = 1.0
    penalty: float = 10.0
    outer: int = 10
    inner: int = 20
    dual_factor: float = 0.5
    episodes: int = 200  # in a batch
    reuse: int = 1  # updates from one batch
    estimator: Literal["temporal-differences", "monte-carlo"] = "temporal-differences"
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("step", "penalty", "outer", "inner", "dual_factor", "episodes", "reuse"):
            if not getattr(self, name) > 0:
                raise InputError(f"{name} is {getattr(self, name)}; it must be positive.")
        if self.estimator not in ("temporal-differences", "monte-carlo"):
            raise InputError(
                f"estimator: '{self.estimator}' is neither 'temporal-differences' nor"
                " 'monte-carlo'."
            )


class VisitedStates:
    """Experience with every distinct observation once (U of them), and both features there."""

    def __init__(self, data: Experience, features: FeatureMap, critic: FeatureMap) -> None:
        count = len(data.actions)
        both = np.concatenate([data.observations, data.successors])
        self.observations, index = np.unique(both, axis=0, return_inverse=True)
        index = index.ravel()
        self.data, self.state, self.successor = data, index[:count], index[count:]  # [N] each
        self.table = features(self.observations)  # [U, A, d], the policy's
        self.critic = critic(self.observations)  # [U, A, p]
        self.features = Features(self.table)
        self.share = np.bincount(self.state, minlength=len(self.observations)) / count  # [U]

    def policy(self, parameters: Array) -> Array:
        """Probabilities `[U, A]` of the policy with parameters `[d]`."""
        return softmax(self.table @ parameters)

    def temporal_differences(self, policy: Array, discount: float, rewards: Array) -> Array:
        """Q of a policy `[U, A]` for rewards `[N, n]`, by least squares: `[n, U, A]`."""
        features = self.critic[self.state, self.data.actions]  # [N, p]
        expected = np.einsum("ua,uap->up", policy, self.critic)
        ahead = discount * expected[self.successor] * self.data.continues[:, None]
        return self._fit(features, features - ahead, rewards)

    def monte_carlo(self, rewards: Array) -> Array:
        """The same of the policy that collected the batch, by regression of returns."""
        features = self.critic[self.state, self.data.actions]
        return self._fit(features, features, returns(replace(self.data, rewards=rewards)))

    def _fit(self, features: Array, differences: Array, right: Array) -> Array:
        system = features.T @ differences
        ridge = RIDGE * np.trace(features.T @ features) / len(system)
        regular = system + ridge * np.eye(len(system))
        coefficients = np.linalg.solve(regular, features.T @ right)  # [p, n]
        return np.moveaxis(self.critic @ coefficients, -1, 0)

    def at_start(self, policy: Array, action_values: Array) -> Array:
        """`V_r(rho), V_c(rho)` `[1 + m]` from Q `[1 + m, U, A]`: means over first states."""
        return (policy * action_values).sum(-1)[:, self.state[self.data.first]].mean(1)

    def visits(self, policy: Array, shape: tuple[int, int], discount: float) -> Array:
        """Shares of visits `[S, A]` of a policy `[U, A]`: states as in the batch.

        `(1 - gamma)` times the visits in an episode. Observations are state indices.
        """
        in_an_episode = len(self.data.actions) / self.data.first.sum()
        table = np.zeros(shape)
        own = (1 - discount) * in_an_episode * self.share[:, None] * policy
        table[self.observations.astype(np.int64)] = own
        return table


def returns(data: Experience) -> Array:
    """Sum of rewards from every step to the end of its episode, `[N, 1 + m]`."""
    backwards = np.cumsum(data.rewards[::-1], axis=0)[::-1]
    last = np.append(data.first[1:], True)
    ends = np.nonzero(last)[0]
    # rewards of later episodes
    beyond = np.vstack([backwards[1:], np.zeros_like(backwards[:1])])[ends]
    return backwards - beyond[np.searchsorted(ends, np.arange(len(last)))]


@dataclass(frozen=True)
class SampledResult:
    """Where a sampled run ended. Values are estimates from its last batch; no gap is known."""

    parameters: Array  # [d]
    multipliers: Array  # [m]
    reward: float
    margins: Array  # [m]
    features: FeatureMap
    history: list[dict[str, Any]]  # a row per update: evaluations, reward, margins

    def __call__(self, observations: Array) -> Array:
        """Probabilities `[n, A]` at observations `[n, ...]`."""
        return softmax(self.features(observations) @ self.parameters)


def sampled_alm(
    simulator: Sampler,
    features: Array | FeatureMap,
    settings: SampledSettings | None = None,
    *,
    critic: Array | FeatureMap | None = None,
    step: StepFunction = pqa,
    utility: Utility | None = None,
) -> SampledResult:
    """Algorithm 1 with a projected oracle, from samples.

    `features` are a table `[S, A, d]` where observations are state indices, or a function of
    observations `[n, ...]` -> `[n, A, d]`; `critic` likewise, by default one-hot for a finite
    number of states and the policy's features otherwise. Every dual update uses the first margins
    estimated after it is due, from a fresh batch of the new policy. utility: maximised instead of
    the reward, with a gradient; `reward` is then its concave value. One of visits needs state
    indices, and takes states that a batch has not seen for unvisited.
    """
    measured = None if utility is None else _measured(simulator, utility)
    settings = SampledSettings() if settings is None else settings
    phi = _map(features, simulator)
    psi = phi if critic is None else _map(critic, simulator)
    if critic is None and simulator.states is not None:
        psi = _map(one_hot(simulator.states, simulator.actions), simulator)
    rng = np.random.default_rng(settings.seed)

    def collect(parameters: Array | None) -> VisitedStates:
        """A batch of the policy with parameters `[d]`; None: of the uniform one."""

        def policy(observations: Array) -> Array:
            table = phi(observations)
            own = np.zeros(table.shape[-1]) if parameters is None else parameters
            return softmax(table @ own)

        return VisitedStates(simulator.collect(policy, settings.episodes, rng), phi, psi)

    def estimate(batch: VisitedStates, parameters: Array) -> tuple[Array, Array, float, Array]:
        """Policy `[U, A]`, Q `[1 + m, U, A]`, reward and margins `[m]` of parameters `[d]`."""
        policy = batch.policy(parameters)

        def action_values(rewards: Array) -> Array:
            if settings.estimator == "temporal-differences":
                return batch.temporal_differences(policy, simulator.discount, rewards)
            return batch.monte_carlo(rewards)

        each = action_values(batch.data.rewards)
        values = batch.at_start(policy, each)
        reward = float(values[0])
        if utility is not None and measured is not None:
            reward, slope = climbed(batch, policy, utility, measured(batch), action_values)
            each = np.concatenate([slope, each[1:]])
        return policy, each, reward, values[1:] - simulator.thresholds

    def climbed(
        batch: VisitedStates,
        policy: Array,
        concave: Utility,
        rewards: Array,
        action_values: Callable[[Array], Array],
    ) -> tuple[float, Array]:
        """F at a policy `[U, A]`, and Q of its gradient `[1, U, A]`; rewards `[N, k]`."""
        each, visits = action_values(rewards), None
        if not concave.is_of_values:
            assert simulator.states is not None
            shape = simulator.states, simulator.actions
            visits = batch.visits(policy, shape, simulator.discount)
        point = batch.at_start(policy, each), visits
        slopes, table = concave.gradient(*point)
        slope = np.tensordot(slopes, each, 1)[None]
        if table is not None:
            own = table[batch.data.observations.astype(np.int64), batch.data.actions]
            slope = slope + (1 - simulator.discount) * action_values(own[:, None])
        value = concave.value(*point)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise InputError(
                f"utility: its estimate is {value:g} at a policy on the way; it must be finite"
                " there, so take more episodes, or check the signs of what it is of."
            )
        return value, slope

    batch = collect(None)
    parameters = np.zeros(batch.table.shape[-1])
    multipliers = np.zeros(len(simulator.thresholds))
    history: list[dict[str, Any]] = []
    penalty, factor = settings.penalty, settings.dual_factor
    for _ in range(settings.outer):
        for k in range(settings.inner):
            if history and k % settings.reuse == 0:
                batch = collect(parameters)
            policy, action_values, reward, margins = estimate(batch, parameters)
            if history and k == 0:
                multipliers = lagrangian.dual_update(multipliers, penalty, margins, factor)
            weights = lagrangian.weights(multipliers, penalty, margins)
            before = parameters, policy, action_values
            parameters = update(batch, *before, weights, settings.step, step)
            row = {"evaluations": len(history) + 1, "reward": reward, "margins": margins.tolist()}
            history.append(row)
    batch = collect(parameters)
    _, _, reward, margins = estimate(batch, parameters)
    multipliers = lagrangian.dual_update(multipliers, penalty, margins, factor)
    return SampledResult(parameters, multipliers, reward, margins, phi, history)


def update(
    batch: VisitedStates,
    parameters: Array,
    policy: Array,
    action_values: Array,
    weights: Array,
    step_size: float,
    step: StepFunction = pqa,
) -> Array:
    """One step and its projection: the next parameters `[d]`.

    Parameters `[d]`, policy `[U, A]`, Q_r and Q_c `[1 + m, U, A]`, weights `[m]`.
    """
    flat = action_values.reshape(len(action_values), -1)
    pseudo = lagrangian.scalarise(flat[0], flat[1:], weights).reshape(policy.shape)
    target = step(policy, pseudo, np.full((1, 1), step_size))
    before = batch.features.coordinates(parameters)
    after, _ = LogLinear(batch.features).project(before, batch.share, target)
    return parameters + batch.features.parameters(after - before)


def _measured(simulator: Sampler, utility: Utility) -> Callable[[VisitedStates], Array]:
    """The function that takes a batch to the rewards whose values a utility is of, `[N, k]`."""
    if not isinstance(utility, Utility):
        raise InputError("utility: give one of cmdpax.utilities, as in utilities.entropy().")
    if not utility.has_gradient:
        raise InputError("utility: max_min has no gradient to sample; cmdpax.solve takes it.")
    limits, shape = simulator.limits, (simulator.states, simulator.actions)
    tables = [reward for reward in utility.rewards if not isinstance(reward, str)]
    recipes = [term.recipe or {} for term in utility.terms]
    tables += [recipe["visits"] for recipe in recipes if "visits" in recipe]
    if simulator.states is None and (tables or not utility.is_of_values):
        raise InputError(
            "utility: observations are not state indices, so that there are no visits [S, A];"
            " use a utility of 'reward' and the limits' names."
        )
    for table in tables:
        if np.shape(table) != shape:
            raise InputError(f"utility: an array has shape {np.shape(table)}, expected {shape}.")
    names = ("reward", *limits.names)
    for name in utility.rewards:
        if isinstance(name, str) and name not in names:
            raise InputError(
                f"utility: there is no function '{name}'; there are {', '.join(names)}."
            )

    def column(batch: VisitedStates, reward: Any) -> Array:
        data = batch.data
        if not isinstance(reward, str):
            return np.asarray(reward)[data.observations.astype(np.int64), data.actions]
        if reward == "reward":
            return -data.rewards[:, 0] if simulator.minimise else data.rewards[:, 0]
        row = limits.first_rows[limits.names.index(reward)]
        return limits.signs[row] * data.rewards[:, 1 + row]

    def all_columns(batch: VisitedStates) -> Array:
        columns = [column(batch, reward) for reward in utility.rewards]
        return np.array(columns).reshape(len(columns), len(batch.data.actions)).T

    return all_columns


def _map(features: Array | FeatureMap, simulator: Sampler) -> FeatureMap:
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
