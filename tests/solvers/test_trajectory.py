"""A fixed budget with its whole history, and the gaps that are proven along it."""

import numpy as np
import pytest

from cmdpax import InputError, solve, trajectory
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.trajectory import certified_gaps


@pytest.mark.parametrize("name", ["pqa-alm", "npg-pd"])
def test_the_policies_asked_for_are_kept(name):
    model = cliff_world()
    budget = {"outer": 2, "inner": 3} if name == "pqa-alm" else {"steps": 6}
    run = trajectory(model, name, keep=(0, 4, 6), **budget)
    assert run.policies.shape == (3, 21, 4)
    np.testing.assert_array_equal(run.policies[0], model.uniform_policy())
    np.testing.assert_array_equal(run.policies[-1], run.policy)
    evaluation = StandardForm.of(model).evaluate(model.by_choice(run.policies[1]))
    np.testing.assert_array_equal(evaluation.reward, run.rewards[4])
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
            mine, its = getattr(one, name), getattr(alone, name)
            np.testing.assert_allclose(mine, its, atol=1e-12, err_msg=name)
            assert mine.shape == its.shape


def test_a_trajectory_needs_a_fixed_budget_and_its_own_settings():
    with pytest.raises(InputError, match=r"'lp' has no fixed-budget form; use cmdpax\.solve"):
        trajectory(cliff_world(), "lp")
    with pytest.raises(InputError, match="setting of npg-pd 'outer' is not known"):
        trajectory(cliff_world(), "npg-pd", outer=3)


def test_a_trajectory_asks_nobody_whether_the_model_is_feasible():
    run = trajectory(cliff_world(threshold=0.3), "pqa-alm", outer=1, inner=2)
    assert run.rewards.shape == (3,) and run.margins.max() < 0


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


@pytest.mark.parametrize(
    ("method", "options", "sentence"),
    [
        ("npg-pd", {"keep": 5}, "keep is 5; give numbers of iterates"),
        ("npg-pd", {"keep": ["a"]}, "keep is 'a'; it must be a whole number"),
        ("npg-pd", {"step": [1.0, 2.0], "dual_step": [1.0, 2.0, 3.0]}, "of one batch shape"),
        ("pqa-alm", {"step": [1.0, 2.0], "penalty": [1.0, 2.0]}, "penalty is .*; .* one number"),
        ("pqa-alm", {"dual_factor": [0.5, 1.0]}, "dual_factor is .*; .* one number"),
    ],
)
def test_bad_budgets(method, options, sentence):
    with pytest.raises(InputError, match=sentence):
        trajectory(cliff_world(), method, **options)


def test_gaps_need_a_run_of_the_model():
    model = cliff_world()
    run = trajectory(model, "npg-pd", steps=2)
    for arguments in ((model, 3), (model, solve(model))):
        with pytest.raises(InputError, match="run: a Trajectory is needed"):
            certified_gaps(*arguments)
    with pytest.raises(InputError, match="model: a CMDP is needed"):
        certified_gaps(run, model)
    with pytest.raises(InputError, match="run: it is of another model"):
        certified_gaps(garnet(states=21, constraints=2), run)
