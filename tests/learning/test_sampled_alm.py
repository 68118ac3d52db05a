"""Sampled mode: estimates converge to the exact quantities at the rate N^-1/2, and runs to the
exact method's answer.
"""

import gymnasium as gym
import numpy as np
import pytest

import plain
from cmdpax import CMDP, InputError, utilities
from cmdpax.environments import deep_sea
from cmdpax.environments.by_name import tiles
from cmdpax.exact.standard import StandardForm
from cmdpax.learning.gym_sampler import GymSampler
from cmdpax.learning.sampled_alm import (
    SampledSettings,
    VisitedStates,
    returns,
    sampled_alm,
    update,
)
from cmdpax.learning.simulator import Experience, ModelSimulator
from cmdpax.solvers.algorithm import AugmentedLagrangian
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_gradient import PolicyGradient, PolicyState, npg, pqa
from cmdpax.solvers.trajectory import trajectory


def batch_of(model, policy, episodes, seed, table=None):
    data = ModelSimulator(model).collect(
        lambda states: policy[states], episodes, np.random.default_rng(seed)
    )
    critic = one_hot(model.states, model.actions)
    table = critic if table is None else table
    return VisitedStates(data, lambda states: table[states], lambda states: critic[states])


def exact_action_values(model, policy):
    form = StandardForm.of(model)
    values = form.evaluate(model.by_choice(policy))
    rewards = np.stack([form.reward, *form.constraints])
    start = np.append(values.reward, values.margins + form.thresholds)
    return model.as_table(form.criterion.action_values(form, rewards, values.values)), start


def test_returns_by_hand():
    rewards = np.array([[1.0], [2.0], [4.0], [8.0], [16.0]])
    first = np.array([True, False, True, True, False])
    data = Experience(np.zeros(5), np.zeros(5, int), rewards, np.zeros(5), np.ones(5, bool), first)
    np.testing.assert_array_equal(returns(data)[:, 0], [3, 2, 4, 24, 16])


@pytest.mark.parametrize("estimator", ["temporal_differences", "monte_carlo"])
def test_action_values_and_values_at_the_start_are_estimated(estimator):
    model = plain.tiny()
    policy = np.random.default_rng(0).dirichlet(np.full(3, 3.0), 4)
    batch = batch_of(model, policy, 20_000, seed=1)
    estimates = (
        batch.temporal_differences(policy, model.discount, batch.data.rewards)
        if estimator == "temporal_differences"
        else batch.monte_carlo(batch.data.rewards)
    )
    exact, start = exact_action_values(model, policy)
    spread, pairs = returns(batch.data), batch.data.observations * 3 + batch.data.actions
    for s in range(4):  # temporal differences are at least as exact as the mean of the returns
        for a in range(3):
            own = spread[pairs == 3 * s + a]
            assert (
                np.abs(estimates[:, s, a] - exact[:, s, a]) < 5 * own.std(0) / np.sqrt(len(own))
            ).all()
    np.testing.assert_allclose(batch.at_start(policy, estimates), start, atol=0.05)


def test_another_policys_values_come_from_the_same_batch():
    model, rng = plain.tiny(), np.random.default_rng(0)
    behaviour, other = rng.dirichlet(np.full(3, 3.0), 4), rng.dirichlet(np.full(3, 3.0), 4)
    batch = batch_of(model, behaviour, 20_000, seed=1)
    estimates = batch.temporal_differences(other, model.discount, batch.data.rewards)
    exact, start = exact_action_values(model, other)
    np.testing.assert_allclose(estimates, exact, atol=0.1)
    np.testing.assert_allclose(batch.at_start(other, estimates), start, atol=0.05)


def test_an_update_converges_to_the_exact_one_at_the_rate_of_monte_carlo():
    """Root mean square error of the updated policy against episodes N: slope -1/2 on logarithmic
    axes.
    """
    model, table, utility = (
        deep_sea(),
        tiles(25, 2, 60, 4, 3),
        AugmentedLagrangian(np.array([0.2]), 10.0),
    )
    features = Features(table)
    oracle = PolicyGradient(pqa, 1.0, LogLinear(features))
    x = 0.5 * np.random.default_rng(3).standard_normal(features.rank)
    policy = features.probabilities(x)
    evaluation = StandardForm.of(model).evaluate(model.by_choice(policy))
    before = PolicyState(policy, evaluation, np.ones(()), x)
    exact, parameters = (
        oracle.advance(StandardForm.of(model), before, utility).policy,
        features.parameters(x),
    )
    sizes, errors = np.array([100, 400, 1600]), []
    for episodes in sizes:
        squares = []
        for seed in range(10):
            batch = batch_of(model, before.policy, episodes, seed, table)
            policy = batch.policy(parameters)
            estimates = batch.temporal_differences(policy, model.discount, batch.data.rewards)
            weights = utility.weights(batch.at_start(policy, estimates)[1:] - model.thresholds)
            after = update(batch, parameters, policy, estimates, weights, 1.0)
            updated = features.probabilities(features.coordinates(after))
            squares.append(((updated - exact) ** 2).mean())
        errors.append(np.sqrt(np.mean(squares)))
    slope = np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    assert -0.65 < slope < -0.35
    assert errors[-1] < 0.04


def test_a_short_run_is_deterministic_and_reuses_its_batches():
    model, table = deep_sea(), tiles(25, 2, 40, 4, 1)
    settings = SampledSettings(outer=2, inner=4, episodes=50, reuse=2, seed=7)
    one, two = (sampled_alm(ModelSimulator(model), table, settings) for _ in range(2))
    np.testing.assert_array_equal(one.parameters, two.parameters)
    assert len(one.history) == 8 and one.margins.shape == (1,) and (one.multipliers >= 0).all()
    np.testing.assert_allclose(one(np.arange(25)).sum(1), 1)
    frozen = sampled_alm(
        ModelSimulator(model),
        table,
        SampledSettings(outer=1, inner=4, episodes=50, reuse=2, estimator="monte-carlo"),
    )
    assert np.isfinite(frozen.parameters).all()


@pytest.mark.slow
def test_a_run_converges_to_the_exact_methods_answer():
    model, table = deep_sea(), tiles(25, 2, 60, 4, 3)
    exact = trajectory(model, "ppqa-alm", features=table, step=1.0, outer=5, inner=20)
    errors = []
    for episodes in (50, 800):
        runs = [
            sampled_alm(
                ModelSimulator(model), table, SampledSettings(outer=5, episodes=episodes, seed=s)
            )
            for s in range(4)
        ]
        form = StandardForm.of(model)
        true = [form.evaluate(model.by_choice(run(np.arange(25)))) for run in runs]
        errors.append(
            np.mean(
                [
                    abs(e.reward - exact.rewards[-1]) + abs(e.margins - exact.margins[-1]).max()
                    for e in true
                ]
            )
        )
    assert errors[1] < errors[0] / 2 and errors[1] < 0.06


class Toll(gym.Env):
    """One step: pay a toll of 1 for a reward of 1, or do neither; with at most .3 tolls the optimum
    pays with probability .3.

    The observation is a vector, so that features are a function of it.
    """

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.array([1.0, self.np_random.normal()]), {}

    def step(self, action):
        return np.zeros(2), float(action), True, False, {"cost": float(action)}


def test_a_gymnasium_environment_with_a_known_answer():
    def features(observations):
        return np.eye(2)[None, :, :] * observations[:, :1, None] + 0.0 * observations[:, 1:, None]

    settings = SampledSettings(step=0.2, penalty=2.0, outer=8, inner=15, episodes=200)
    result = sampled_alm(GymSampler(Toll(), ["cost<=0.3"], 0.9), features, settings)
    pays = result(np.array([[1.0, 0.0]]))[0, 1]
    assert pays == pytest.approx(0.3, abs=0.08)
    assert result.multipliers[0] == pytest.approx(1.0, abs=0.4)


def test_bad_input_is_refused():
    simulator = GymSampler(Toll(), ["cost<=0.3"], 0.9)
    with pytest.raises(InputError, match="function of observations"):
        sampled_alm(simulator, one_hot(3, 2))
    with pytest.raises(InputError, match="does not fit"):
        sampled_alm(ModelSimulator(deep_sea()), one_hot(3, 2))
    with pytest.raises(InputError, match="episodes is 0"):
        SampledSettings(episodes=0)
    with pytest.raises(InputError, match="estimator"):
        SampledSettings(estimator="guess")  # type: ignore[arg-type]


def ring(minimise=False):
    """Five states in a ring, with one limit that binds."""
    random = np.random.default_rng(3)
    transitions, cost = random.dirichlet([0.5] * 5, (5, 2)), random.uniform(size=(5, 2))
    reward, initial = 0.2 + random.uniform(size=(5, 2)), np.full(5, 0.2)
    kind = {"senses": ["<="], "constraint_names": ["cost"], "minimise": minimise}
    return CMDP(transitions, reward, cost[None], [6.5], initial, 0.9, **kind)


@pytest.mark.parametrize(
    ("kind", "estimator"),
    [
        *((kind, "temporal-differences") for kind in ("entropy", "distance", "fairness", "sum")),
        ("entropy", "monte-carlo"),
    ],
)
def test_a_utility_is_climbed_from_samples_as_by_the_exact_method(kind, estimator):
    model, other = ring(), np.random.default_rng(4).uniform(size=(5, 2))
    utility = {
        "entropy": utilities.entropy("pairs"),
        "distance": utilities.distance(np.arange(10.0).reshape(5, 2)),
        "fairness": utilities.fairness(["reward", "cost", other]),
        "sum": utilities.linear() + 2.0 * utilities.entropy(),
    }[kind]
    run = {"step": 0.3, "penalty": 2.0, "outer": 3, "inner": 5, "dual_factor": 0.5}
    exact = trajectory(model, "npg-alm", utility=utility, **run)
    settings = SampledSettings(**run, episodes=4000, estimator=estimator, seed=1)
    simulator, uniform = ModelSimulator(model), np.full((5, 2), 0.5)
    sampled = sampled_alm(simulator, one_hot(5, 2), settings, step=npg, utility=utility)
    policy, size = sampled(np.arange(5)), abs(exact.policy - uniform).max()
    assert size > 0.02 and abs(policy - exact.policy).max() < 0.12 * max(size, 0.5)
    # four deviations of a mean of 4,000 episodes, whose totals deviate by their mean, 6.5 to 10
    noise = 4 / 4000**0.5
    size = 10.0 if kind == "sum" else 1.0
    assert sampled.reward == pytest.approx(float(exact.rewards[-1]), abs=size * noise)
    assert sampled.margins == pytest.approx(exact.margins[-1], abs=6.5 * noise)


@pytest.mark.parametrize("kind", ["ready", "own"])
def test_projected_pqa_finds_a_known_optimum_from_samples(kind):
    """The visits of a policy are nearest to themselves."""
    model = ring().replace(constraints=[], thresholds=[], senses=None)
    policy = np.random.default_rng(5).dirichlet([3.0, 3.0], 5)
    form = StandardForm.of(model)
    visits = form.criterion.share(form, model.by_choice(policy))[:, None] * policy
    utility = utilities.distance(visits)
    if kind == "own":
        utility = utilities.own(utility.terms[0].value, lambda d: -2 * (d - visits))
    settings = SampledSettings(step=3.0, outer=1, inner=40, episodes=1000)
    run = sampled_alm(ModelSimulator(model), one_hot(5, 2), settings, step=pqa, utility=utility)
    start = abs(policy - 0.5).max()
    assert abs(run(np.arange(5)) - policy).max() < 0.15 * start
    assert run.history[0]["reward"] < 20 * run.reward < 0


def test_a_utility_means_the_reward_as_it_stands():
    """`linear()` of a model that is minimised still earns the reward."""
    turned = ring(minimise=True)
    settings = SampledSettings(1.0, 10.0, 2, 10, 1.0, 500)
    runs = [
        sampled_alm(ModelSimulator(model), one_hot(5, 2), settings, utility=utilities.linear())
        for model in (ring(), turned)
    ]
    np.testing.assert_array_equal(runs[0].parameters, runs[1].parameters)


@pytest.mark.parametrize(
    ("utility", "sentence"),
    [
        ("entropy", "give one of cmdpax.utilities"),
        (utilities.max_min(["reward", "cost"]), "no gradient"),
        (utilities.fairness(["reward", "no such"]), "no function 'no such'"),
        (utilities.distance(np.ones((3, 3))), "expected \\(5, 2\\)"),
        (utilities.fairness([-np.ones((5, 2))]), "must be finite"),
    ],
)
def test_a_utility_that_cannot_be_sampled_is_refused(utility, sentence):
    with pytest.raises(InputError, match=sentence):
        sampled_alm(ModelSimulator(ring()), one_hot(5, 2), utility=utility)


def test_visits_need_state_indices():
    class Line(gym.Env):
        observation_space, action_space = gym.spaces.Box(0, 1, (2,)), gym.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(2, np.float32), {}

        def step(self, action):
            return np.zeros(2, np.float32), 1.0, True, False, {"cost": 0.0}

    sampler = GymSampler(Line(), ["cost<=1"], 0.9)
    with pytest.raises(InputError, match="not state indices"):
        sampled_alm(sampler, lambda seen: np.ones((len(seen), 2, 1)), utility=utilities.entropy())
