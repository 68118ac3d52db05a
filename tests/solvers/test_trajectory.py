import time

import numpy as np
import pytest

import cmdpax
from cmdpax import NumericalError, check, solve
from cmdpax.environments import cliff_world
from cmdpax.exact.discounted import evaluate, occupancy
from cmdpax.solvers.table import trajectory
from cmdpax.solvers.trajectory import Recorder, Trajectory, certified_gaps, to_result


def test_a_recorded_run_becomes_a_certified_result():
    model = cliff_world()
    rng = np.random.default_rng(0)
    policies = [rng.dirichlet(np.ones(4), 21) for _ in range(4)]
    record = Recorder()
    for policy in policies:
        found = evaluate(model, policy)
        record.add(found.reward, found.margins, np.array([0.171]), policy)
    run = record.finish(np.array([0.171]), policies[-1])
    assert run.rewards.shape == (4,) and run.margins.shape == (4, 1)
    result = to_result(model, run, method="test", eps=1e-6, started=time.perf_counter())
    check(model, result)
    assert result.status == "limit" and result.reward == pytest.approx(float(run.rewards[-1]))
    assert [row["evaluations"] for row in result.trace] == [0, 1, 2, 3]


def test_the_mixture_is_one_stationary_policy_with_the_averaged_values():
    model = cliff_world()
    run = trajectory(model, "npg-pd", steps=3)
    result = to_result(model, run, method="npg-pd", eps=1e-6, started=time.perf_counter())
    policies = [trajectory(model, "npg-pd", steps=k).policy for k in (1, 2)]
    mass = (
        sum(
            occupancy(model, policy)[:, None] * policy
            for policy in [model.uniform_policy(), *policies]
        )
        / 3
    )
    np.testing.assert_allclose(run.mixture, mass / mass.sum(1, keepdims=True), atol=1e-14)
    assert result.mixture["reward"] == pytest.approx(float(run.rewards[:3].mean()), abs=1e-13)
    assert result.mixture["margins"][0] == pytest.approx(float(run.margins[:3].mean()), abs=1e-13)
    assert result.mixture["policies"] == 3 and result.mixture["numbers"] == 3 * 84
    np.testing.assert_array_equal(result.mixture["policy"], run.mixture)


@pytest.mark.parametrize("name", ["pqa-alm", "npg-pd"])
def test_the_policies_asked_for_are_kept(name):
    model = cliff_world()
    budget = {"outer": 2, "inner": 3} if name == "pqa-alm" else {"steps": 6}
    run = trajectory(model, name, keep=(0, 4, 6), **budget)
    assert run.policies.shape == (3, 21, 4)
    np.testing.assert_array_equal(run.policies[0], model.uniform_policy())
    np.testing.assert_array_equal(run.policies[-1], run.policy)
    np.testing.assert_array_equal(evaluate(model, run.policies[1]).reward, run.rewards[4])
    assert trajectory(model, name, **budget).policies is None


def test_one_configuration_of_a_batch_is_its_own_run():
    model, steps = cliff_world(), np.array([0.1, 1.0])
    batch = trajectory(model, "npg-pd", keep=(2,), step=steps, steps=5)
    for i, step in enumerate(steps):
        one, alone = batch.one(i), trajectory(model, "npg-pd", keep=(2,), step=step, steps=5)
        for name in (
            "rewards",
            "margins",
            "weights",
            "multipliers",
            "policy",
            "policies",
            "diverged",
        ):
            np.testing.assert_allclose(
                getattr(one, name), getattr(alone, name), atol=1e-12, err_msg=name
            )
            assert getattr(one, name).shape == getattr(alone, name).shape


def test_augmented_lagrangian_runs_have_no_mixture():
    model = cliff_world()
    assert trajectory(model, "pqa-alm", outer=1, inner=2).mixture is None


def test_certified_gaps_hold_without_knowing_the_optimum():
    model = cliff_world()
    optimum = solve(model, eps=1e-10).reward
    run = trajectory(model, "reload", step=10.0, dual_step=1.0, steps=300)
    gaps = certified_gaps(model, run)
    assert gaps.shape == (301,)
    assert (gaps >= optimum - run.rewards - 1e-12).all()
    assert gaps[-1] < 1e-4
    # at zero weights the bound is the unconstrained optimum
    assert gaps[0] == pytest.approx(0.670621 - 0.171924, abs=1e-6)
    np.testing.assert_allclose(certified_gaps(model, run, every=100)[0], gaps[0])


def test_divergence_is_marked_from_the_step_on():
    rewards = np.array([[1.0, 1.0], [1.0, np.nan], [1.0, np.nan]])
    run = Trajectory(
        rewards, rewards[..., None], rewards[..., None], np.zeros((2, 1)), np.zeros((2, 1, 1))
    )
    assert run.diverged.tolist() == [0, 1]


def test_a_diverged_single_run_is_an_error():
    with pytest.raises(NumericalError, match=r"rpg-pd: step .* not finite"):
        cmdpax.run(cliff_world(), "rpg-pd", step=100.0, temperature=0.1)
