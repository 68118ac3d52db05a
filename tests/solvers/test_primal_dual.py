import numpy as np
import pytest

import plain
from cmdpax import CMDP
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.exact.discounted import evaluate
from cmdpax.paper.exact_study import configurations
from cmdpax.solvers.forms import largest_multiplier
from cmdpax.solvers.primal_dual import softmax_start, uniform_start
from cmdpax.solvers.table import methods, trajectory

BASELINES = [
    name for name, row in methods.items() if row.budget and row.solve is None and not row.features
]


@pytest.mark.parametrize(
    "name", [name for name, row in methods.items() if row.grid and not row.features]
)
def test_a_batch_agrees_with_its_single_runs(name):
    model = plain.tiny()
    points, _ = configurations(name)
    chosen = [points[0], points[len(points) // 2], points[-1]]
    budget = {"outer": 2, "inner": 5} if "outer" in methods[name].budget else {"steps": 10}
    batch = trajectory(
        model, name, **{key: np.array([p[key] for p in chosen]) for key in chosen[0]}, **budget
    )
    for i, point in enumerate(chosen):
        single = trajectory(model, name, **point, **budget)
        for field in ("rewards", "margins", "weights"):
            np.testing.assert_allclose(
                getattr(batch, field)[:, i], getattr(single, field), rtol=1e-10, atol=1e-12
            )
        np.testing.assert_allclose(batch.policy[i], single.policy, atol=1e-10)


def test_settings_broadcast_to_any_batch_shape():
    run = trajectory(
        cliff_world(), "npg-pd", step=np.full((2, 1), 0.1), dual_step=np.full(3, 0.1), steps=2
    )
    assert (
        run.rewards.shape == (3, 2, 3)
        and run.margins.shape == (3, 2, 3, 1)
        and run.policy.shape == (2, 3, 21, 4)
    )
    assert run.mixture is None  # a batch is a search; only a single run keeps the mixture's policy


@pytest.mark.parametrize("name", BASELINES)
def test_histories_belong_to_the_policies(name):
    model = plain.tiny()
    run = trajectory(model, name, steps=6)
    found = evaluate(model, run.policy)
    assert run.rewards[-1] == pytest.approx(float(found.reward), abs=1e-13)
    np.testing.assert_allclose(run.margins[-1], found.margins, atol=1e-13)
    np.testing.assert_allclose(run.policy.sum(1), 1, atol=1e-12)
    assert (run.weights >= 0).all() and not run.weights[0].any()
    mixed = evaluate(model, run.mixture)
    assert float(mixed.reward) == pytest.approx(float(run.rewards[:-1].mean()), abs=1e-12)
    np.testing.assert_allclose(mixed.margins, run.margins[:-1].mean(0), atol=1e-12)


def test_a_diverged_configuration_is_marked_and_the_others_go_on():
    model = cliff_world()
    steps = np.array(
        [1.0, 100.0, 0.1]
    )  # with temperature 0.1 the second has powers 1 - eta tau = -9
    run = trajectory(model, "rpg-pd", step=steps, dual_step=0.1, temperature=0.1, steps=400)
    lost = run.diverged
    assert lost[1] > 0 and not lost[0] and not lost[2]
    assert (
        np.isnan(run.rewards[lost[1] :, 1]).all() and np.isfinite(run.rewards[: lost[1], 1]).all()
    )
    assert np.isfinite(run.policy).all() and np.isfinite(run.multipliers).all()
    for i in (0, 2):
        single = trajectory(
            model, "rpg-pd", step=steps[i], dual_step=0.1, temperature=0.1, steps=400
        )
        np.testing.assert_allclose(run.rewards[:, i], single.rewards, atol=1e-9)


def test_a_probability_that_underflows_comes_back():
    # one state, two actions: for a long time the first is better by far, then its price turns it
    # around
    model = CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], [[[-1.0, 0.0]]], [-0.5], [1.0], 0.0)
    run = trajectory(model, "npg-pd", step=300.0, dual_step=0.02, steps=400)
    start = evaluate(model, trajectory(model, "npg-pd", step=300.0, dual_step=0.02, steps=5).policy)
    assert start.reward == 1.0  # exp(-1500) is zero in floating point
    assert run.rewards.min() < 0.1


def test_starts_carry_the_batch_shape():
    model = deep_sea()
    start = uniform_start(model, {"step": np.ones((2, 1)), "dual_step": np.ones(3)})
    assert (
        start.policy.shape == (2, 3, 25, 2)
        and start.multipliers.shape == (2, 3, 1)
        and start.sound.all()
    )
    np.testing.assert_allclose(
        np.exp(softmax_start(model, {"step": 1.0}).memory["log_policy"]), 0.5
    )


@pytest.mark.parametrize("name", BASELINES)
def test_unavailable_actions_stay_copies(name):
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
    run = trajectory(model, name, steps=5)
    assert (
        np.isfinite(run.rewards).all() and run.rewards.max() < 3.0
    )  # the 9 of a missing action is never paid


def test_the_multiplier_is_capped_where_the_method_says_so():
    model = plain.tiny()
    model = model.replace(
        thresholds=plain.margins(model, plain.uniform(model)[0]) + model.thresholds + 0.01
    )
    largest = largest_multiplier(model)
    for name in ("npg-pd", "rpg-pd", "opg-pd"):
        run = trajectory(
            model,
            name,
            step=1e-6,
            dual_step=1e9,
            steps=1,
            **({"temperature": 1e-12} if name == "rpg-pd" else {}),
        )
        np.testing.assert_allclose(run.multipliers, largest)
    assert (
        trajectory(model, "reload", step=1e-6, dual_step=1e9, steps=1).multipliers > largest
    ).all()
