"""The door: every method x every problem with a known optimum, and what may go wrong.

The tests pick up rows of the table by themselves: a new method gets a line in ACCURACY, which says
how good it is expected to be (also if that is not good), or the matrix fails.
"""

import signal

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import cmdpax
import plain
from cmdpax import (
    CMDP,
    InputError,
    check,
    methods,
    solve,
    trajectory,
)
from cmdpax.environments import cliff_world, deep_sea, finite, garnet, grid_world, queue
from cmdpax.environments.by_name import tiles
from cmdpax.exact.discounted import Discounted
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.log_linear import Features, one_hot
from cmdpax.solvers.policy_gradient import PolicyGradient, npg, ppg, pqa, spma
from cmdpax.solvers.trajectory import certified_gaps
from models import cmdps, renumbered, uneven

PROBLEMS = {"cliff-world": (cliff_world, 0.655402376190), "deep-sea": (deep_sea, 0.392671157895)}
FIXED = [name for name, row in methods.items() if row.trace and not row.features]
LINEAR = [name for name, row in methods.items() if row.features]
SOLVERS = [name for name, row in methods.items() if row.solve]

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
SOLVED = {"cutting-plane": 1e-4}  # eps of certified forms that do not reach 1e-6
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


def features_for(name, model):
    """What a method with log-linear policies needs: features that reach every policy."""
    return one_hot(model.states, model.actions) if name in LINEAR else None


def short_budget(name):
    """A few steps, for what has no certified form."""
    if methods[name].solve:
        return {}
    return {"steps": 20} if "steps" in methods[name].budget else {"outer": 2, "inner": 5}


def scale_of(model):
    return StandardForm.of(model).reward_scale


# ---- how good the methods are


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", FIXED)
def test_the_last_iterate_is_as_good_as_expected(name, problem):
    build, optimum = PROBLEMS[problem]
    given_settings, *expected = ACCURACY[name, problem]
    run = trajectory(build(), name, **given_settings)
    assert len(run.rewards) == 1001  # the paper's budget is every default
    violation = np.maximum(-run.margins.min(-1), 0)
    measured = (abs(optimum - run.rewards[-1]), violation[-1], violation[-200:].max())
    for number, figure in zip(measured, expected, strict=True):
        assert number < 1e-9 if figure == 0 else figure / 3 <= number <= 3 * figure


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("name", SOLVERS)
def test_the_certified_form_reaches_its_accuracy(name, problem):
    build, optimum = PROBLEMS[problem]
    eps = SOLVED.get(name, 1e-6)
    model = build()
    result = solve(model, name, eps=eps)
    check(model, result)
    assert result.status == "certified" and result.method == name
    assert result.reward == pytest.approx(optimum, abs=2 * eps * scale_of(model))


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "parameters"), IN_CLASS)
def test_ppqa_lands_on_the_specifications_numbers(problem, parameters):
    build, optimum = PROBLEMS[problem]
    given_settings, figure = IN_CLASS[problem, parameters]
    model = build()
    features = tiles(model.states, model.actions, *parameters)
    run = trajectory(model, "ppqa-alm", features=features, **given_settings)
    gap = abs(optimum - run.rewards[-1])
    assert -run.margins[-1].min() <= 1e-3
    assert gap < 1e-4 if figure == 0 else figure / 3 <= gap <= 3 * figure
    assert parameters[0] < 80 or gap < 1e-3


@settings(max_examples=300)
@given(cmdps())
def test_matches_the_linear_program_and_brackets_its_optimum(model):
    result = solve(model)
    check(model, result)
    if result.status == "certified":
        reference, form = solve(model, "lp"), StandardForm.of(model)
        # HiGHS itself must have got there
        assume(reference.scaled_gap <= 1e-7 and reference.scaled_violation <= 1e-9)
        scale = form.reward_scale
        # a violation of eps may buy reward at the shadow price, no more
        slack = 1e-6 * (1 + float(result.multipliers @ form.constraint_scales) / scale)
        assert abs(result.reward - reference.reward) <= slack * scale * 2
        assert reference.reward <= result.certificate.dual_bound + 1e-8 * scale
        assert result.certificate.dual_bound <= reference.certificate.dual_bound + slack * scale * 2


@given(cmdps(constraints=(1, 4)), st.integers(0, 10**6))
def test_verdicts_around_a_known_policy(model, seed):
    """Thresholds that a known policy meets with room are never called infeasible.

    Unreachable ones are never called feasible.
    """
    form = StandardForm.of(model)
    policy = np.random.default_rng(seed).dirichlet(np.ones(model.actions), model.states)
    achieved = form.evaluate(model.by_choice(policy)).margins + form.thresholds
    room = 1e-5 * form.constraint_scales
    assert solve(model.replace(thresholds=achieved - room)).status == "certified"
    highest = model.constraints[:, form.reachable_choices].max(1) / (1 - model.discount)
    assert solve(model.replace(thresholds=highest + room)).status == "infeasible"


@given(cmdps(constraints=(1, 1)))
def test_a_threshold_exactly_at_the_best_value_is_certified(model):
    form = StandardForm.of(model)
    best = form.criterion.plan(form, form.constraints[0]).value
    edge = model.replace(thresholds=[best])
    result = solve(edge)
    assert result.status == "certified"
    check(edge, result)


FAMILIES = {
    "garnet": lambda discount: garnet(states=2000, constraints=2, discount=discount),
    "grid": lambda discount: grid_world(width=30, height=25, discount=discount),
    "queue": lambda discount: queue(capacity=1999, discount=discount),
    "cliff": lambda discount: cliff_world(discount=discount),
    "sea": lambda discount: deep_sea(discount=discount, size=10, mines=(22, 36, 67)),
}


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.999])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_without_a_hyperparameter(family, discount):
    model = FAMILIES[family](discount)
    result = solve(model)
    assert result.status in ("certified", "infeasible")
    # with patience the chasm cells alone cost more than -0.17 allows
    assert result.status == "certified" or family == "cliff"
    check(model, result)


def test_families_cover_every_environment():
    assert len(FAMILIES) >= min(len(finite), 5)


@pytest.mark.parametrize("name", methods)
def test_every_method_takes_any_number_of_constraints(name):
    for m in (0, 2, 3):
        model = garnet(states=6, actions=3, branching=2, constraints=m, discount=0.7, seed=m)
        budget, features = short_budget(name), features_for(name, model)
        result = solve(model, name, eps=1e-3, features=features, **budget)
        check(model, result)
        assert result.multipliers.shape == (m,)
        assert (result.averaged is None) == ("steps" not in budget)


# ---- a method of one's own


class Lazy:
    """Somebody's oracle: PQA that asks for a certified gap every third step."""

    check_every, patience = 3, None

    def __init__(self):
        self.inside = PolicyGradient(pqa)

    def start(self, form, columns=None):
        return self.inside.start(form)

    def advance(self, form, state, utility):
        return self.inside.advance(form, state, utility)

    def gap(self, form, state, utility):
        return self.inside.gap(form, state, utility)

    def candidates(self, form, state):
        return [state]

    def policy(self, form, state):
        return self.inside.policy(form, state)


def test_an_oracle_of_ones_own_is_a_method():
    model = cliff_world()
    result = solve(model, Lazy(), eps=1e-3)
    check(model, result)
    assert result.status == "certified" and result.method == "Lazy"
    assert result.trace[0]["evaluations"] == 3  # there is no gap to report before
    assert solve(model, Lazy(), eps=1e-3, outer=1, inner=3).trace[-1]["evaluations"] == 3
    with pytest.raises(InputError, match="setting of Lazy 'step' is not known; known: dual_factor"):
        solve(model, Lazy(), step=0.1)
    with pytest.raises(InputError, match="method 'Lazy' takes no features"):
        solve(model, Lazy(), features=one_hot(21, 4))
    with pytest.raises(InputError, match="neither the name of a method nor an Oracle"):
        solve(model, 3)


@pytest.mark.parametrize("step", [pqa, ppg, npg, spma])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_first_order_oracles_certify_the_papers_problems(step, problem):
    build, optimum = PROBLEMS[problem]
    model = build()
    result = solve(model, PolicyGradient(step, gradient=step is ppg))
    assert result.status == "certified" and result.method == "PolicyGradient"
    assert result.reward == pytest.approx(optimum, abs=2e-5)
    check(model, result)


# ---- words and units


@pytest.mark.parametrize("name", ["corrective-alm", "npg-pd", "lp"])
def test_a_cost_to_be_minimised_is_the_turned_reward(name):
    model = queue(capacity=10)
    cost = model.replace(reward=-model.reward, minimise=True)
    budget = {"steps": 30} if name == "npg-pd" else {}
    one, other = solve(model, name, **budget), solve(cost, name, **budget)
    check(cost, other)
    assert other.status == one.status and other.reward == -one.reward and other.minimise
    np.testing.assert_array_equal(other.policy, one.policy)
    np.testing.assert_array_equal(other.multipliers, one.multipliers)
    assert other.certificate.gap == one.certificate.gap
    assert other.certificate.dual_bound == -one.certificate.dual_bound
    if name == "npg-pd":
        assert [row["reward"] for row in other.trace] == [-row["reward"] for row in one.trace]
        assert other.averaged["reward"] == -one.averaged["reward"]
        runs = [trajectory(each, name, steps=30) for each in (model, cost)]
        np.testing.assert_array_equal(runs[1].rewards, -runs[0].rewards)
        np.testing.assert_array_equal(*(certified_gaps(*pair) for pair in zip((model, cost), runs)))


@pytest.mark.parametrize(("low", "high"), [(0.0, 5.0), (-9.0, -3.0)])
def test_a_range_has_one_margin_and_one_signed_price_everywhere(low, high):
    """Around the value at the optimum of a lower bound, which is priced, and well below it."""
    model = garnet(states=20, constraints=1)
    value = float(solve(model).values[0])
    ranged = model.replace(thresholds=[(value + low, value + high)])
    result = solve(ranged)
    check(ranged, result)
    assert result.status == "certified" and result.margins.shape == (1,)
    if high < 0:  # the optimum has more than the upper bound, which is priced
        assert result.multipliers[0] < 0
        assert result.values[0] == pytest.approx(value + high, abs=1e-4)
    else:
        assert result.multipliers[0] > 0
        assert result.values[0] == pytest.approx(value, abs=1e-4)
    run, fixed = trajectory(ranged, "npg-pd", steps=5), solve(ranged, "npg-pd", steps=5)
    assert run.margins.shape == run.weights.shape == (6, 1) and run.multipliers.shape == (1,)
    worst = StandardForm.of(ranged).evaluate(ranged.by_choice(run.policy)).margins.min()
    assert run.margins[-1, 0] == pytest.approx(worst)
    assert fixed.trace[-1]["margins"] == run.margins[-1].tolist()
    assert fixed.averaged["margins"][0] == pytest.approx(
        StandardForm.of(ranged).evaluate(ranged.by_choice(run.averaged)).margins.min()
    )
    assert (certified_gaps(ranged, run) >= result.reward - run.rewards - 1e-4).all()


@pytest.mark.parametrize("limit", [1e15, 1e20, 1e90])
def test_a_limit_without_end_does_not_blur_the_value(limit):
    model = queue()
    wide = model.replace(thresholds=np.full(model.constraint_count, limit))
    result = solve(wide)
    check(wide, result)
    form = StandardForm.of(model)
    expected = -(form.evaluate(form.transitions.by_choice(result.policy)).margins + form.thresholds)
    np.testing.assert_allclose(result.values, expected, rtol=1e-9)
    assert result.summary()["values"] == pytest.approx(expected.tolist(), rel=1e-9)


@pytest.mark.parametrize("huge", [1e9, -1e9, 1e90])
@pytest.mark.parametrize("states", [20, 300])
def test_states_that_are_never_reached_do_not_matter_however_large_their_numbers(states, huge):
    """State 0 leads to the others and nothing leads to it.

    What it pays must not decide what counts as rounding elsewhere.
    """
    model = garnet(states=states, constraints=2, seed=1)
    before = sp.hstack([sp.csr_array((4 * states, 1)), model.transitions.matrix])
    first = sp.csr_array((np.ones(4), ([0, 1, 2, 3], np.ones(4, dtype=int))), (4, states + 1))
    lonely = CMDP(
        sp.vstack([first, before]),
        np.append([huge, -huge, 0.0, 1.0], model.reward),
        np.hstack([np.full((2, 4), huge), model.constraints]),
        model.thresholds,
        np.append(0.0, model.initial),
        model.discount,
    )
    result = solve(lonely)
    check(lonely, result)
    assert result.status == "certified"
    assert result.reward == pytest.approx(solve(model).reward, abs=2e-6 * scale_of(model))


def test_unavailable_actions_carry_no_probability():
    rng = np.random.default_rng(0)
    model = garnet(states=20, actions=3, seed=2)
    available = rng.random((20, 3)) < 0.6
    available[:, 1] |= ~available.any(1)
    limited = model.replace(available=available, thresholds=model.thresholds * 0.9)
    result = solve(limited)
    check(limited, result)
    assert result.policy[~available].sum() == 0


# ---- infeasible models, and those at the very edge


@pytest.mark.parametrize("name", methods)
def test_an_infeasible_model_is_refused_with_its_proof(name):
    model = garnet(states=6, actions=3, branching=2, constraints=2, discount=0.7, feasible=False)
    budget = {"step": 0.1} if "outer" in methods[name].budget else {}
    result = solve(model, name, features=features_for(name, model), **budget)
    assert result.status == "infeasible" and result.method == name
    assert result.certificate.ray_bound < 0 and result.trace == []
    check(model, result)


@pytest.mark.parametrize("name", methods)
def test_a_model_that_misses_by_less_than_the_tolerance_is_certified(name):
    """Infeasible by 5e-8 of the range: within the tolerance some policy meets it."""
    model = CMDP([[[1.0], [1.0]]], [[1.0, 0.0]], [[[1.0, 0.0]]], [10 * (1 + 5e-8)], [1.0], 0.9)
    result = solve(model, name, features=features_for(name, model), **short_budget(name))
    is_rough = methods[name].trace is not None and methods[name].solve is None
    assert result.status in ("certified", "limit") if is_rough else ("certified",)
    assert result.method == name
    check(model, result)


# ---- limits


def test_limits_that_a_method_does_not_keep_are_refused():
    """A limit that nobody sees dropped protects nobody."""
    model = cliff_world()
    with pytest.raises(InputError, match="only corrective-alm keeps to one; leave it out for lp"):
        solve(model, "lp", memory_limit=64)
    with pytest.raises(InputError, match="time_limit: npg-pd has a fixed budget; set its steps"):
        solve(model, "npg-pd", time_limit=60)
    with pytest.raises(InputError, match="pqa-alm has a fixed budget; set its outer and inner"):
        solve(model, "pqa-alm", step=0.1, time_limit=60)
    assert solve(model, "pqa-alm", eps=0.01, time_limit=60).status == "certified"


# ---- Ctrl-C


def test_an_interrupt_returns_the_best_certified_policy_so_far():
    model, seen = garnet(states=300, constraints=4), []

    def interrupt(row):
        seen.append(row)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="best policy so far"):
        result = solve(model, "corrective-alm", callback=interrupt)
    assert result.status == "limit" and len(seen) == 3
    check(model, result)


@pytest.mark.parametrize("states", [100, 400])  # exact planning, and planning that can be cut short
def test_an_interrupt_of_the_first_plan_returns_a_certified_policy(states, monkeypatch):
    model, calls, plan = garnet(states=states, constraints=2), [], Discounted.plan

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 1:
            signal.raise_signal(signal.SIGINT)
        return plan(*arguments, **options)

    monkeypatch.setattr(Discounted, "plan", interrupted)
    with pytest.warns(UserWarning, match="best policy so far"):
        result = solve(model, "corrective-alm")
    assert result.status == "limit" and result.reason == "time" and len(calls) <= 2
    check(model, result)


def test_a_second_interrupt_goes_through():
    def interrupt(row):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="Ctrl-C again"):
        solve(garnet(states=300, constraints=4), callback=interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_ends_a_fixed_budget_at_once(monkeypatch):
    """It has no best policy so far to hand back, and nobody waits for its end."""
    visits = Discounted.visits

    def interrupted(*arguments, **options):
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.raise_signal(signal.SIGINT)
        return visits(*arguments, **options)

    monkeypatch.setattr(Discounted, "visits", interrupted)
    with pytest.raises(KeyboardInterrupt):
        solve(cliff_world(), "npg-pd")


# ---- bad input


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"eps": None}, "eps is None"),
        ({"eps": "x"}, "eps is 'x'"),
        ({"eps": 0.0}, "eps is 0.0; it must be a number, more than 0 and below 1"),
        ({"eps": -1.0}, "eps"),
        ({"eps": np.nan}, "eps"),
        ({"eps": np.inf}, "eps"),
        ({"eps": 2.0}, "below 1"),
        ({"time_limit": "x"}, "time_limit"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"time_limit": -1}, "time_limit is -1; it must be a number, at least 0"),
        ({"memory_limit": -1}, "memory_limit is -1; it must be a number, at least 0"),
        ({"callback": 3}, "callback: it must be a function"),
        ({"outer": 0}, "outer is 0"),
        ({"dual_factor": np.nan}, "dual_factor"),
        ({"dual_factor": -1}, "dual_factor"),
        ({"method": "relod"}, r"method 'relod' is not known; did you mean 'reload'\?"),
        ({"method": "lp", "time_limit": -1}, "time_limit is -1; it must be a number, at least 0"),
        ({"method": "lp", "eps": 0}, "eps is 0"),
        ({"method": "npg-pd", "eps": 2}, "eps is 2"),
        (
            {"method": "convex-al", "penalty": 0},
            "penalty is 0; it must be a number, more than 0",
        ),
        ({"method": "convex-al", "penalty": -1.0}, "penalty is -1.0"),
        ({"method": "convex-al", "outer": 2.5}, "outer is 2.5; it must be a whole number"),
        (
            {"method": "convex-al", "outer": 0},
            "outer is 0; it must be a whole number of at least 1",
        ),
        ({"method": "convex-al", "dual_factor": -1}, "dual_factor is -1"),
        ({"method": "cutting-plane", "cuts": 2.5}, "cuts is 2.5"),
        ({"method": "cutting-plane", "entropy": float("nan")}, "entropy is nan"),
        ({"method": "pqa-alm", "inner": 2.5}, "inner is 2.5"),
        ({"method": "pqa-alm", "outer": "abc"}, "outer is 'abc'; it must be a number"),
        (
            {"method": "pqa-alm", "stpe": 1},
            r"setting of pqa-alm 'stpe' is not known; did you mean 'step'\?",
        ),
        ({"learning_rate": 1}, "setting of corrective-alm 'learning_rate' is not known; known: "),
    ],
)
def test_bad_arguments(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        solve(cliff_world(), **arguments)


def test_a_model_is_needed():
    for door in (solve, lambda model: trajectory(model, "npg-pd")):
        with pytest.raises(InputError, match="model: a CMDP is needed, not NoneType"):
            door(None)


def test_features_choose_the_log_linear_form():
    model = plain.tiny()
    table = one_hot(model.states, model.actions)
    for features in (table, Features(table)):
        result = solve(model, "npg-alm", features=features, outer=1, inner=2)
        assert result.method == "pnpg-alm"
    with pytest.raises(InputError, match="'lin-reload' has log-linear policies; give it features"):
        solve(model, "lin-reload")
    with pytest.raises(InputError, match=r"'lp' takes no features; these do: .*ppo-lag"):
        solve(model, "lp", features=table)
    with pytest.raises(InputError, match="does not fit"):
        solve(model, "ppqa-alm", features=one_hot(3, 3))
    with pytest.raises(InputError, match="projection_step is"):
        trajectory(model, "ppqa-alm", features=table, projection_step=-1.0)


# ---- any numbering


def corridor(states, discount, noise):
    """Right or left on a line; the last cell pays, every step costs a random amount."""
    own, rng = np.arange(states), np.random.default_rng(1)
    right, left = np.minimum(own + 1, states - 1), np.maximum(own - 1, 0)
    to = np.stack([np.stack([right, left], 1), np.stack([left, right], 1)], 1)
    reward = np.zeros((states, 2))
    reward[-1] = 1.0
    chances = np.broadcast_to([1 - noise, noise], to.shape)
    costs, limit = rng.random((1, states, 2)), [0.5 / (1 - discount)]
    return CMDP((to, chances), reward, costs, limit, 0, discount, senses="<=")


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_a_corridor_numbered_at_random_is_solved_as_one_in_order(noise):
    """It ended in an error after 42 seconds, or in a limit."""
    model = corridor(10_000, 0.99999, noise)
    other = renumbered(model, 0)
    result, mirror = solve(model), solve(other)
    check(other, mirror)
    assert result.status == mirror.status == "certified"
    assert mirror.reward == pytest.approx(result.reward, abs=2e-6 * scale_of(model))


@pytest.mark.parametrize(
    "model",
    [
        corridor(300, 0.999, 0.01),
        grid_world(18, 18, seed=3),
        grid_world(18, 18, seed=3, feasible=False),
        queue(300),
        queue(300, feasible=False),
    ],
    ids=["corridor", "grid", "infeasible grid", "queue", "infeasible queue"],
)
@pytest.mark.parametrize("count", [10, pytest.param(200, marks=pytest.mark.slow)])
def test_the_numbering_changes_no_verdict(model, count):
    result = solve(model)
    for seed in range(count):
        mirror = solve(renumbered(model, seed))
        assert mirror.status == result.status
        if result.status == "certified":
            assert mirror.reward == pytest.approx(result.reward, abs=2e-6 * scale_of(model))


@pytest.mark.parametrize("seed", range(6))
def test_uneven_models_are_solved_like_the_linear_program(seed):
    """Component by component, with a budget between those of two policies."""
    model = uneven(400, seed, 0.99)
    form = StandardForm.of(model)
    values = [
        form.criterion.values(form, form.criterion.plan(form, row).choices, form.constraints[0])
        for row in (form.reward, form.constraints[0])
    ]
    low, high = (float(one @ form.initial) for one in values)
    model = model.replace(thresholds=[(low + high) / 2])
    result, reference = solve(model), solve(model, "lp")
    check(model, result)
    assert result.status == reference.status == "certified"
    assert result.reward == pytest.approx(reference.reward, abs=3e-6 * scale_of(model))
    assert not result.policy[~model.available].any()


def test_a_start_is_used_and_not_believed(tmp_path):
    """A changed model from a result of another, also from a file; small and large."""
    for model in (garnet(states=30, constraints=2), garnet(states=2000, constraints=2)):
        before = cmdpax.solve(model)
        cmdpax.save_result(before, tmp_path / "before.npz")
        before = cmdpax.load_result(tmp_path / "before.npz")
        rng = np.random.default_rng(0)
        noise = 1 + 0.05 * rng.standard_normal(model.choices)
        changed = model.replace(reward=model.reward * noise, thresholds=model.thresholds - 0.02)
        cold, warm = cmdpax.solve(changed), cmdpax.solve(changed, start=before)
        assert warm.status == cold.status == "certified"
        cmdpax.check(changed, warm)
        room = cold.certificate.gap + warm.certificate.gap
        assert abs(cold.reward - warm.reward) <= room + 1e-6
        assert len(cmdpax.solve(changed, start=cold).trace) <= len(cold.trace)
        tight = changed.replace(thresholds=changed.thresholds + 100)
        assert cmdpax.solve(tight, start=before).status == "infeasible"


def test_a_start_that_does_not_fit_is_refused():
    model = garnet(states=10)
    with pytest.raises(InputError, match=r"another model \(policy \(12, 4\), 1 constraints"):
        cmdpax.solve(model, start=cmdpax.solve(garnet(states=12)))
    with pytest.raises(InputError, match="start: a Result is needed, not int"):
        cmdpax.solve(model, start=3)
    with pytest.raises(InputError, match="start: only corrective-alm and key-simplex"):
        cmdpax.solve(model, "lp", start=cmdpax.solve(model))
