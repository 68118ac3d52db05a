"""Every method x every problem with a known optimum. The tests pick up rows of the table by
themselves: a new method gets a line in ACCURACY, which says how good it is expected to be (also if
that is not good), or the matrix fails."""

import numpy as np
import pytest

import cmdpax
import plain
from cmdpax import InputError, check, methods
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.environments.by_name import tiles
from cmdpax.solvers.policy_classes import one_hot
from cmdpax.solvers.table import find, trajectory

PROBLEMS = {"cliff-world": (cliff_world, 0.655402376190), "deep-sea": (deep_sea, 0.392671157895)}
FIXED = [name for name, row in methods.items() if row.trajectory and not row.features]
LINEAR = [name for name, row in methods.items() if row.features]
SOLVERS = [name for name, row in methods.items() if row.solve]
ALL = list(methods)

# the configuration that the paper's rule selects at violation <= 1e-3, |gap| and violation of its
# final iterate, and the worst violation of its last 200: within a factor of 3, or below 1e-9 where
# it says 0
ACCURACY = {
    ("pqa-alm", "cliff-world"): ({"step": 0.1}, 6e-7, 3e-6, 8e-5),
    ("pqa-alm", "deep-sea"): ({"step": 0.1}, 6e-5, 4e-5, 1.2e-4),
    ("ppg-alm", "cliff-world"): ({"step": 10.0}, 6e-6, 4e-5, 1.4e-4),
    ("ppg-alm", "deep-sea"): ({"step": 10.0}, 4e-5, 4e-5, 8e-5),
    ("npg-alm", "cliff-world"): ({"step": 10.0}, 6e-6, 4e-5, 8e-5),
    ("npg-alm", "deep-sea"): ({"step": 1.0}, 5.5e-5, 4e-5, 1e-4),
    ("spma-alm", "cliff-world"): ({"step": 10.0}, 6e-6, 4e-5, 8e-5),
    ("spma-alm", "deep-sea"): ({"step": 0.1}, 1.6e-3, 2.6e-6, 1.1e-4),
    # oscillates around the optimum for ever
    ("npg-pd", "cliff-world"): ({"step": 1.0, "dual_step": 1.0}, 2e-4, 0, 1.25e-2),
    ("npg-pd", "deep-sea"): ({"step": 0.1, "dual_step": 10.0}, 3.3e-3, 0, 7.2e-3),
    # too little regularisation oscillates, more of it is biased
    ("rpg-pd", "cliff-world"): (
        {"step": 10.0, "dual_step": 1.0, "temperature": 1e-4},
        4.6e-3,
        0,
        1.6e-2,
    ),
    ("rpg-pd", "deep-sea"): (
        {"step": 1.0, "dual_step": 0.1, "temperature": 0.01},
        1.4e-3,
        8e-4,
        2.6e-2,
    ),
    ("opg-pd", "cliff-world"): ({"step": 100.0, "dual_step": 0.1}, 0, 0, 0),
    ("opg-pd", "deep-sea"): ({"step": 1.0, "dual_step": 1.0}, 0, 0, 0),
    ("npg-dd", "cliff-world"): ({"temperature": 0.001, "dual_step": 0.1}, 0, 0, 0),
    ("npg-dd", "deep-sea"): ({"temperature": 0.001, "dual_step": 0.01}, 1.9e-5, 5e-7, 1.7e-2),
    ("reload", "cliff-world"): ({"step": 10.0, "dual_step": 1.0}, 0, 0, 0),
    ("reload", "deep-sea"): ({"step": 10.0, "dual_step": 0.1}, 0, 0, 1.1e-7),
    # settles away from the optimum, as the paper reports
    ("npg-nrl", "cliff-world"): ({"step": 0.1, "temperature": 1e-4}, 4.6e-3, 0, 0),
    ("npg-nrl", "deep-sea"): ({"step": 1.0, "temperature": 1e-4}, 4.1e-3, 0, 9.6e-2),
    # ten dual updates are too few
    ("ppo-lag", "cliff-world"): ({"step": 100.0, "dual_step": 1.0, "clip": 0.3}, 4.6e-3, 0, 1.6e-2),
    ("ppo-lag", "deep-sea"): ({"step": 100.0, "dual_step": 1.0, "clip": 0.1}, 4.3e-3, 0, 0),
}
SOLVED = {
    "cutting-plane": 1e-4
}  # scaled gap and violation of the certified form where it is not 1e-6


def features_for(name, model):
    """What a method with log-linear policies needs: features that reach every policy."""
    return one_hot(model.states, model.actions) if name in LINEAR else None


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", FIXED)
def test_the_last_iterate_is_as_good_as_expected(name, problem):
    build, optimum = PROBLEMS[problem]
    settings, *expected = ACCURACY[name, problem]
    run = trajectory(build(), name, **settings)
    assert len(run.rewards) == 1001  # the paper's budget is every default
    violation = np.maximum(-run.margins.min(-1), 0)
    for measured, figure in zip(
        (abs(optimum - run.rewards[-1]), violation[-1], violation[-200:].max()),
        expected,
        strict=True,
    ):
        assert measured < 1e-9 if figure == 0 else figure / 3 <= measured <= 3 * figure


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_certified_form_reaches_its_accuracy(name, problem):
    build, optimum = PROBLEMS[problem]
    eps = SOLVED.get(name, 1e-6)
    model = build()
    result = cmdpax.run(model, name, eps)
    check(model, result)
    assert result.status == "certified" and result.method.startswith(name)
    assert result.reward == pytest.approx(optimum, abs=2 * eps * model.reward_scale)


@pytest.mark.parametrize("name", ALL)
def test_every_method_takes_any_number_of_constraints(name):
    for m in (0, 2, 3):
        model = garnet(states=6, actions=3, branching=2, constraints=m, discount=0.7, seed=m)
        settings = {"steps": 20} if "steps" in find(name).budget else {}
        settings |= {"outer": 2, "inner": 5} if name in LINEAR and not settings else {}
        result = cmdpax.run(model, name, 1e-3, features_for(name, model), **settings)
        check(model, result)
        assert result.multipliers.shape == (m,)
        assert (result.mixture is None) == ("steps" not in settings)


@pytest.mark.parametrize("name", ALL)
def test_an_infeasible_model_is_refused_with_its_proof(name):
    model = garnet(states=6, actions=3, branching=2, constraints=2, discount=0.7, feasible=False)
    settings = {"step": 0.1} if "outer" in find(name).budget else {}
    result = cmdpax.run(model, name, features=features_for(name, model), **settings)
    assert (
        result.status == "infeasible" and result.method == name and result.certificate.ray_bound < 0
    )
    check(model, result)


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(InputError, match=r"'relod' is not known; did you mean 'reload'\?"):
        cmdpax.run(cliff_world(), "relod")
    with pytest.raises(InputError, match="'lp' has no fixed-budget form"):
        trajectory(cliff_world(), "lp")


@pytest.mark.parametrize("name", FIXED)
def test_settings_are_checked(name):
    model, row = cliff_world(), find(name)
    numbers = [key for key, default in row.budget.items() if isinstance(default, float)]
    for key in numbers:
        for wrong in (0.0, -1.0, np.nan, np.inf, np.array([1.0, 0.0])):
            with pytest.raises(InputError, match=f"{key} is .*positive and finite"):
                trajectory(model, name, **{key: wrong})
    for key in set(row.budget) - set(numbers):
        for wrong in (0, -3, 2.5):
            with pytest.raises(InputError, match=f"{key} is .*whole number"):
                trajectory(model, name, **{key: wrong})
    with pytest.raises(InputError, match=f"'learning_rate' is not one of {name}'s"):
        trajectory(model, name, learning_rate=1.0)


@pytest.mark.parametrize("name", ALL)
def test_rows_are_complete(name):
    row = find(name)
    assert row.name == name and row.title and row.family and row.citation and row.rate
    assert row.trajectory or row.solve
    assert set(row.grid) <= set(row.budget)
    assert bool(row.grid) == bool(row.trajectory)


def test_a_fixed_budget_is_run_when_one_of_its_settings_is_given():
    model = plain.tiny()
    certified, fixed = (
        cmdpax.run(model, "pqa-alm"),
        cmdpax.run(model, "pqa-alm", step=0.1, outer=2, inner=3),
    )
    assert certified.status == "certified" and [row["evaluations"] for row in fixed.trace] == list(
        range(7)
    )


# the configuration that the paper's rule selects at violation <= 1e-3 (results/linear/selected.md):
# |gap| to the optimum over all policies within a factor of 3 of the specification's figure, or
# below it where the specification says 0
IN_CLASS = {
    ("deep-sea", (40, 4, 1)): ({"step": 1.0, "projection_step": 1.0}, 0.032),
    ("deep-sea", (60, 4, 3)): ({"step": 1.0, "projection_step": 1.0}, 0.0013),
    ("deep-sea", (80, 6, 5)): ({"step": 1.0, "projection_step": 1.0}, 1.5e-4),
    ("cliff-world", (40, 4, 1)): ({"step": 1e-3, "projection_step": 10.0}, 0.58),
    ("cliff-world", (60, 4, 3)): ({"step": 1.0, "projection_step": 0.1}, 0.0045),
    ("cliff-world", (80, 6, 5)): ({"step": 1.0, "projection_step": 10.0}, 0.0),
}


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "parameters"), IN_CLASS)
def test_ppqa_lands_on_the_specifications_numbers(problem, parameters):
    build, optimum = PROBLEMS[problem]
    settings, figure = IN_CLASS[problem, parameters]
    model = build()
    run = trajectory(model, "ppqa-alm", tiles(model.states, model.actions, *parameters), **settings)
    gap = abs(optimum - run.rewards[-1])
    assert -run.margins[-1].min() <= 1e-3
    assert gap < 1e-4 if figure == 0 else figure / 3 <= gap <= 3 * figure
    assert parameters[0] < 80 or gap < 1e-3


def test_features_choose_the_log_linear_form():
    model = plain.tiny()
    table = one_hot(model.states, model.actions)
    result = cmdpax.run(model, "npg-alm", features=table, outer=1, inner=2)
    assert result.method == "pnpg-alm"
    with pytest.raises(InputError, match="give it features"):
        cmdpax.run(model, "lin-reload")
    with pytest.raises(InputError, match=r"'lp' takes no features; these do: .*ppo-lag"):
        cmdpax.run(model, "lp", features=table)
    with pytest.raises(InputError, match="does not fit"):
        cmdpax.run(model, "ppqa-alm", features=one_hot(3, 3))
    with pytest.raises(InputError, match="projection_step is"):
        trajectory(model, "ppqa-alm", table, projection_step=-1.0)


@pytest.mark.parametrize(
    ("name", "setting", "sentence"),
    [
        ("convex-al", {"penalty": 0}, "penalty is 0; it must be a number, more than 0"),
        ("convex-al", {"penalty": -1.0}, "penalty is -1.0"),
        ("convex-al", {"outer": 2.5}, "outer is 2.5; it must be a whole number"),
        ("convex-al", {"outer": 0}, "outer is 0; it must be a whole number of at least 1"),
        ("convex-al", {"dual_step": -1}, "dual_step is -1"),
        ("cutting-plane", {"cuts": 2.5}, "cuts is 2.5"),
        ("cutting-plane", {"entropy": float("nan")}, "entropy is nan"),
        ("pqa-alm", {"inner": 2.5}, "inner is 2.5"),
        ("lp", {"time_limit": -1}, "time_limit is -1; it must be a number, at least 0"),
        ("lp", {"eps": 0}, "eps is 0"),
        ("npg-pd", {"eps": 2}, "eps is 2"),
    ],
)
def test_settings_that_make_no_sense_are_refused(name, setting, sentence):
    with pytest.raises(InputError, match=sentence):
        cmdpax.run(cliff_world(), name, **setting)


@pytest.mark.parametrize(
    "name", ["corrective-alm", "cutting-plane", "npg-pd", "dantzig-wolfe", "lp", "convex-al"]
)
def test_a_marginal_model_is_marginal_for_every_method(name):
    """Infeasible by 5e-8 of the scale: nobody may certify it, nobody may crash."""
    model = cmdpax.CMDP(
        [[[1.0], [1.0]]], [[1.0, 0.0]], [[[1.0, 0.0]]], [10 * (1 + 5e-8)], [1.0], 0.9
    )
    result = cmdpax.run(model, name)
    assert result.status == "marginal" and result.method == name
    check(model, result)


def test_deciding_about_feasibility_keeps_to_the_time_limit():
    result = cmdpax.run(garnet(states=2000, constraints=5), "lp", time_limit=0)
    assert result.status == "limit"
