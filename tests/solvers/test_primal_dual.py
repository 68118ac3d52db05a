"""Seven primal-dual methods: every update against its formula in plain loops, on both classes."""

import numpy as np
import pytest

import plain
from cmdpax import CMDP
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.exact.standard import StandardForm
from cmdpax.paper.exact_study import configurations
from cmdpax.paper.settings import GRIDS
from cmdpax.solvers.feasibility import largest_multiplier
from cmdpax.solvers.log_linear import Features, LogLinear, one_hot
from cmdpax.solvers.policy_classes import Tabular
from cmdpax.solvers.primal_dual import METHODS, run, start
from cmdpax.solvers.table import methods
from cmdpax.solvers.trajectory import trajectory

MODEL = plain.tiny()
LARGEST = largest_multiplier(StandardForm.of(MODEL))
# five features for eight degrees of freedom: they cannot express every policy
FEATURES = np.random.default_rng(7).standard_normal((MODEL.states, MODEL.actions, 5))


def clip(multipliers, largest=np.inf):
    return np.clip(multipliers, 0, largest)


# --- the updates, one policy and one configuration at a time


def npg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u = plain.margins(MODEL, policy)
        policy = plain.normalise(
            policy * np.exp(step * plain.lagrangian_quality(MODEL, policy, prices))
        )
        prices = clip(prices - dual_step * u, LARGEST)
    return policy, prices


def lin_npg_pd(steps, step, dual_step):
    (policy, prices), theta = plain.uniform(MODEL), 0.0
    for _ in range(steps):
        u, quality = plain.margins(MODEL, policy), plain.lagrangian_quality(MODEL, policy, prices)
        theta = theta + step * plain.compatible(MODEL, policy, FEATURES, quality)
        policy, prices = plain.log_linear(FEATURES, theta), clip(prices - dual_step * u, LARGEST)
    return policy, prices


def rpg_pd(steps, step, dual_step, temperature):
    policy, prices = plain.uniform(MODEL)
    for _ in range(steps):
        u = plain.margins(MODEL, policy)
        soft = plain.soft_quality(MODEL, policy, prices, temperature)
        policy = plain.normalise(policy ** (1 - step * temperature) * np.exp(step * soft))
        prices = clip((1 - dual_step * temperature) * prices - dual_step * u, LARGEST)
    return policy, prices


def lin_rpg_pd(steps, step, dual_step, temperature):
    (policy, prices), theta = plain.uniform(MODEL), 0.0
    for _ in range(steps):
        u = plain.margins(MODEL, policy)
        soft = plain.soft_quality(MODEL, policy, prices, temperature)
        theta = (1 - step * temperature) * theta + step * plain.compatible(
            MODEL, policy, FEATURES, soft
        )
        policy = plain.log_linear(FEATURES, theta)
        prices = clip((1 - dual_step * temperature) * prices - dual_step * u, LARGEST)
    return policy, prices


def npg_nrl(steps, step, temperature):
    return rpg_pd(steps, step, step, temperature)  # one step size for both players


def reload(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    past = None
    for _ in range(steps):
        now = plain.lagrangian_quality(MODEL, policy, prices), plain.margins(MODEL, policy)
        past = past or now
        policy = plain.normalise(policy * np.exp(step * (2 * now[0] - past[0])))
        prices = clip(prices - dual_step * (2 * now[1] - past[1]))
        past = now
    return policy, prices


def lin_reload(steps, step, dual_step):
    (policy, prices), theta, past = plain.uniform(MODEL), 0.0, None
    for _ in range(steps):
        quality = plain.lagrangian_quality(MODEL, policy, prices)
        now = plain.compatible(MODEL, policy, FEATURES, quality), plain.margins(MODEL, policy)
        past = past or now
        theta = theta + step * (2 * now[0] - past[0])
        policy = plain.log_linear(FEATURES, theta)
        prices = clip(prices - dual_step * (2 * now[1] - past[1]))
        past = now
    return policy, prices


def opg_pd(steps, step, dual_step):
    policy, prices = plain.uniform(MODEL)
    behind, prices_behind = policy, prices
    for _ in range(steps):
        u, up = plain.margins(MODEL, policy), step * plain.lagrangian_quality(MODEL, policy, prices)
        behind = np.array([plain.project(row) for row in behind + up])
        prices_behind = clip(prices_behind - dual_step * u, LARGEST)
        policy = np.array([plain.project(row) for row in behind + up])
        prices = clip(prices_behind - dual_step * u, LARGEST)
    return policy, prices


def npg_dd(steps, dual_step, temperature, inner):
    policy, ahead = plain.uniform(MODEL)
    prices = ahead
    for k in range(1, steps + 1):
        policy = plain.normalise(
            np.exp(plain.soft_quality(MODEL, policy, ahead, temperature) / temperature)
        )
        if k % inner == 0:
            t, before = k // inner, prices
            prices = clip(ahead - dual_step * plain.margins(MODEL, policy))
            ahead = clip(prices + t / (t + 3) * (prices - before))
    return policy, ahead


def ppo_lag(steps, step, dual_step, clip_range, passes, inner, features=None):
    policy, prices = plain.uniform(MODEL)
    theta = np.log(policy) if features is None else np.zeros(features.shape[-1])

    def at(theta):
        return plain.normalise(np.exp(theta if features is None else features @ theta))

    for k in range(1, steps + 1):
        old = policy
        advantage = plain.lagrangian_quality(MODEL, old, prices)
        advantage = advantage - (old * advantage).sum(1, keepdims=True)
        d = (1 - MODEL.discount) * plain.occupancy(MODEL, old)

        def surrogate(theta, old=old, advantage=advantage, d=d):
            ratio = at(theta) / old
            clipped = np.clip(ratio, 1 - clip_range, 1 + clip_range)
            return d @ (old * np.minimum(ratio * advantage, clipped * advantage)).sum(1)

        for _ in range(passes):
            theta = theta + step * plain.slope(surrogate, theta)
        policy = at(theta)
        if k % inner == 0:
            prices = clip(prices - dual_step * plain.margins(MODEL, policy))
    return policy, prices


MATRIX = [
    ("npg-pd", npg_pd, None, {"step": 0.7, "dual_step": 0.4}),
    ("rpg-pd", rpg_pd, None, {"step": 0.7, "dual_step": 0.4, "temperature": 0.2}),
    ("opg-pd", opg_pd, None, {"step": 0.2, "dual_step": 0.4}),
    ("npg-dd", npg_dd, None, {"dual_step": 0.4, "temperature": 0.5, "inner": 2}),
    ("npg-nrl", npg_nrl, None, {"step": 0.3, "temperature": 0.2}),
    ("reload", reload, None, {"step": 0.7, "dual_step": 0.4}),
    ("npg-pd", lin_npg_pd, FEATURES, {"step": 0.2, "dual_step": 0.4}),
    ("rpg-pd", lin_rpg_pd, FEATURES, {"step": 0.2, "dual_step": 0.4, "temperature": 0.2}),
    ("reload", lin_reload, FEATURES, {"step": 0.2, "dual_step": 0.4}),
]


@pytest.mark.parametrize("steps", [1, 2, 7])
@pytest.mark.parametrize(
    ("name", "formula", "features", "settings"), MATRIX, ids=[row[1].__name__ for row in MATRIX]
)
def test_the_update_is_its_formula(name, formula, features, settings, steps):
    policy, prices = formula(steps, **settings)
    result = trajectory(MODEL, name, features=features, steps=steps, **settings)
    tolerance = 1e-12 if features is None else 1e-6
    np.testing.assert_allclose(result.policy, policy, atol=tolerance)
    np.testing.assert_allclose(result.multipliers, prices, atol=tolerance)
    np.testing.assert_allclose(result.margins[-1], plain.margins(MODEL, policy), atol=tolerance)
    assert prices.max() > 0 or steps < settings.get("inner", 1)  # the case has a price to pay


@pytest.mark.parametrize("inner", [1, 3])
@pytest.mark.parametrize(
    ("features", "step"), [(None, 40.0), (FEATURES, 4.0)], ids=["tables", "features"]
)
def test_ppo_lag_climbs_the_clipped_surrogate(features, step, inner):
    settings = {"step": step, "dual_step": 0.4, "passes": 4}  # large enough for the clip to bite
    policy, prices = ppo_lag(4, clip_range=0.1, inner=inner, features=features, **settings)
    settings |= {"steps": 4, "inner": inner}
    result = trajectory(MODEL, "ppo-lag", features=features, clip=0.1, **settings)
    np.testing.assert_allclose(result.policy, policy, atol=1e-7)
    np.testing.assert_allclose(result.multipliers, prices, atol=1e-7)
    unclipped = trajectory(MODEL, "ppo-lag", features=features, clip=10.0, **settings)
    assert np.abs(unclipped.policy - result.policy).max() > 1e-3


def test_every_method_is_in_the_matrix():
    assert {row[0] for row in MATRIX} | {"ppo-lag"} == set(METHODS)


SETTINGS = {
    "npg-pd": {"step": 1.0, "dual_step": 1.0},
    "rpg-pd": {"step": 1.0, "dual_step": 0.1, "temperature": 0.01},
    "npg-dd": {"dual_step": 0.1, "temperature": 0.1},
    "npg-nrl": {"step": 0.1, "temperature": 0.01},
    "reload": {"step": 0.1, "dual_step": 1.0},
    "ppo-lag": {"step": 10.0, "dual_step": 1.0, "clip": 0.2, "passes": 10, "inner": 20},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_one_hot_features_give_back_the_tabular_method(name):
    """A law for every method that is written for any class; only OPG-PD is for tables alone."""
    model = cliff_world()
    settings = {**SETTINGS[name], "largest_multiplier": largest_multiplier(StandardForm.of(model))}
    one, other = (
        run(StandardForm.of(model), METHODS[name], settings, 60, policies=policies)
        for policies in (Tabular(), LogLinear(Features(one_hot(21, 4))))
    )
    np.testing.assert_allclose(other.rewards, one.rewards, atol=1e-8)
    np.testing.assert_allclose(other.policy, one.policy, atol=1e-6)
    np.testing.assert_allclose(other.multipliers, one.multipliers, atol=1e-6)
    if methods[name].linear:
        named = trajectory(
            model, methods[name].linear, features=one_hot(21, 4), **SETTINGS[name], steps=60
        )
        np.testing.assert_array_equal(named.rewards, other.rewards)


# --- where single methods end


def test_rpg_pd_without_temperature_is_npg_pd():
    cold, plain_run = (
        trajectory(MODEL, name, step=0.7, dual_step=0.4, steps=7, **temperature)
        for name, temperature in (("rpg-pd", {"temperature": 1e-13}), ("npg-pd", {}))
    )
    np.testing.assert_allclose(cold.policy, plain_run.policy, atol=1e-10)


def test_rpg_pd_settles_at_the_regularised_saddle_point():
    """There `pi ~ exp(Q_tau / tau)`, and every multiplier is `-u / tau` or 0."""
    tau = 0.5
    result = trajectory(MODEL, "rpg-pd", step=0.5, dual_step=0.1, temperature=tau, steps=500)
    soft = plain.soft_quality(MODEL, result.policy, result.multipliers, tau)
    expected = plain.normalise(np.exp((soft - soft.max(1, keepdims=True)) / tau))
    np.testing.assert_allclose(result.policy, expected, atol=1e-8)
    np.testing.assert_allclose(
        result.multipliers, clip(-plain.margins(MODEL, result.policy) / tau, LARGEST), atol=1e-8
    )


def test_the_inner_loop_of_npg_dd_ends_at_the_regularised_optimum():
    """For multipliers 0: `V = tau log sum_a exp(Q / tau)` in every state, and the policy is the
    softmax of Q.
    """
    tau = 0.5
    result = trajectory(MODEL, "npg-dd", dual_step=0.4, temperature=tau, inner=200, steps=199)
    values = np.zeros(MODEL.states)
    for _ in range(300):
        quality = plain.quality(MODEL, values, plain.tables(MODEL)[0])
        values = tau * np.log(np.exp(quality / tau).sum(1))
    np.testing.assert_allclose(result.policy, plain.normalise(np.exp(quality / tau)), atol=1e-10)
    assert not result.multipliers.any()


def test_the_first_step_of_reload_has_no_past_and_is_that_of_npg_pd():
    first, plain_step = (
        trajectory(MODEL, name, step=0.7, dual_step=0.4, steps=1) for name in ("reload", "npg-pd")
    )
    np.testing.assert_array_equal(first.policy, plain_step.policy)
    np.testing.assert_array_equal(first.multipliers, plain_step.multipliers)


# --- the loop


BASELINES = [
    name for name, row in methods.items() if row.budget and row.solve is None and not row.features
]


@pytest.mark.parametrize("name", GRIDS)
def test_a_batch_agrees_with_its_single_runs(name):
    model, features = plain.tiny(), None
    points, _ = configurations(name)
    chosen = [points[0], points[len(points) // 2], points[-1]]
    if methods[name].features:  # the corners of these grids are chaotic: rounding grows
        features, sizes = FEATURES, (0.01, 0.1, 0.3)
        chosen = [dict.fromkeys(points[0], size) for size in sizes]
    budget = {"outer": 2, "inner": 5} if "outer" in methods[name].budget else {"steps": 10}
    grid = {key: np.array([p[key] for p in chosen]) for key in chosen[0]}
    batch = trajectory(model, name, features=features, **grid, **budget)
    for i, point in enumerate(chosen):
        single = trajectory(model, name, features=features, **point, **budget)
        for field in ("rewards", "margins", "weights"):
            np.testing.assert_allclose(
                getattr(batch, field)[:, i], getattr(single, field), rtol=1e-10, atol=1e-12
            )
        np.testing.assert_allclose(batch.policy[i], single.policy, atol=1e-10)


def test_settings_broadcast_to_any_batch_shape():
    result = trajectory(
        cliff_world(), "npg-pd", step=np.full((2, 1), 0.1), dual_step=np.full(3, 0.1), steps=2
    )
    assert (
        result.rewards.shape == (3, 2, 3)
        and result.margins.shape == (3, 2, 3, 1)
        and result.policy.shape == (2, 3, 21, 4)
    )
    # a batch is a search; only a single run keeps the mixture's policy
    assert result.averaged is None


@pytest.mark.parametrize("name", BASELINES)
def test_histories_belong_to_the_policies(name):
    model = plain.tiny()
    result = trajectory(model, name, steps=6)
    values = StandardForm.of(model).evaluate(model.by_choice(result.policy))
    assert result.rewards[-1] == pytest.approx(float(values.reward), abs=1e-13)
    np.testing.assert_allclose(result.margins[-1], values.margins, atol=1e-13)
    np.testing.assert_allclose(result.policy.sum(1), 1, atol=1e-12)
    assert (result.weights >= 0).all() and not result.weights[0].any()
    mixed = StandardForm.of(model).evaluate(model.by_choice(result.averaged))
    assert float(mixed.reward) == pytest.approx(float(result.rewards[:-1].mean()), abs=1e-12)
    np.testing.assert_allclose(mixed.margins, result.margins[:-1].mean(0), atol=1e-12)


def test_a_diverged_configuration_is_marked_and_the_others_go_on():
    model = cliff_world()
    # with temperature 0.1 the second has powers 1 - eta tau = -9
    steps = np.array([1.0, 100.0, 0.1])
    result = trajectory(model, "rpg-pd", step=steps, dual_step=0.1, temperature=0.1, steps=400)
    lost = result.diverged
    assert lost[1] > 0 and not lost[0] and not lost[2]
    assert np.isnan(result.rewards[lost[1] :, 1]).all()
    assert np.isfinite(result.rewards[: lost[1], 1]).all()
    assert np.isfinite(result.policy).all() and np.isfinite(result.multipliers).all()
    for i in (0, 2):
        single = trajectory(
            model, "rpg-pd", step=steps[i], dual_step=0.1, temperature=0.1, steps=400
        )
        np.testing.assert_allclose(result.rewards[:, i], single.rewards, atol=1e-9)


def test_a_probability_that_underflows_comes_back():
    # one state, two actions: for a long time the first is better by far, then its price turns it
    # around
    model = CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[-1.0, 0.0]]], [-0.5], [1.0], 0.0)
    result = trajectory(model, "npg-pd", step=300.0, dual_step=0.02, steps=400)
    policy = trajectory(model, "npg-pd", step=300.0, dual_step=0.02, steps=5).policy
    early = StandardForm.of(model).evaluate(policy[0])
    assert early.reward == 1.0  # exp(-1500) is zero in floating point
    assert result.rewards.min() < 0.1


def test_starts_carry_the_batch_shape():
    model = deep_sea()
    for policies in (Tabular(), LogLinear(Features(one_hot(25, 2)))):
        first = start(
            StandardForm.of(model), {"step": np.ones((2, 1)), "dual_step": np.ones(3)}, policies
        )
        assert first.policy.shape == (2, 3, 25, 2) and first.multipliers.shape == (2, 3, 1)
        assert first.finite.all() and first.parameters.shape[:2] == (2, 3)
        np.testing.assert_allclose(np.exp(policies.log_policy(first.parameters)), 0.5)


@pytest.mark.parametrize("name", BASELINES)
def test_actions_that_do_not_exist_are_never_chosen(name):
    available = np.array([[True, True], [True, False]])
    rows = [[[0.5, 0.5], [1.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]
    model = CMDP(
        rows,
        [[1.0, 0.0], [0.5, 9.0]],
        [[[-1.0, 0.0], [0.0, 9.0]]],
        [-2.0],
        [1.0, 0.0],
        0.5,
        available=available,
    )
    result = trajectory(model, name, steps=5)
    # the 9 of a missing action is never paid
    assert np.isfinite(result.rewards).all() and result.rewards.max() < 3.0
    assert result.policy[1].tolist() == [1.0, 0.0]


def test_the_multiplier_is_capped_where_the_method_says_so():
    model = plain.tiny()
    model = model.replace(
        thresholds=plain.margins(model, plain.uniform(model)[0]) + model.thresholds + 0.01
    )
    largest = largest_multiplier(StandardForm.of(model))
    for name in ("npg-pd", "rpg-pd", "opg-pd"):
        result = trajectory(
            model,
            name,
            step=1e-6,
            dual_step=1e9,
            steps=1,
            **({"temperature": 1e-12} if name == "rpg-pd" else {}),
        )
        np.testing.assert_allclose(result.multipliers, largest)
    assert (
        trajectory(model, "reload", step=1e-6, dual_step=1e9, steps=1).multipliers > largest
    ).all()
