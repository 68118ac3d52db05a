import signal

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cmdpax import CMDP, InputError, check, solve
from cmdpax.environments import cliff_world, deep_sea, finite, garnet, grid_world, queue
from cmdpax.exact.discounted import evaluate
from cmdpax.exact.planning import plan
from cmdpax.solvers import feasibility
from cmdpax.solvers.certified import Warm, normalise
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.policy_gradient import PolicyGradient, npg, ppg, pqa, spma
from cmdpax.solvers.programs import linear_program
from models import cmdps


@settings(max_examples=300)
@given(cmdps())
def test_matches_the_linear_program_and_brackets_its_optimum(model):
    result = solve(model)
    check(model, result)
    if result.status == "certified":
        reference = linear_program(model)
        gap, violation = reference.certificate.scaled(model)
        assume(gap <= 1e-7 and violation <= 1e-9)  # HiGHS itself must have got there
        scale = model.reward_scale
        # a violation of eps may buy reward at the shadow price, no more
        slack = 1e-6 * (1 + float(result.multipliers @ model.constraint_scales) / scale)
        assert abs(result.reward - reference.reward) <= slack * scale * 2
        assert reference.reward <= result.certificate.dual_bound + 1e-8 * scale
        assert result.certificate.dual_bound <= reference.certificate.dual_bound + slack * scale * 2


@given(cmdps(constraints=(1, 4)), st.integers(0, 10**6))
def test_verdicts_around_a_known_policy(model, seed):
    """Thresholds met with room by a known policy are never called infeasible; unreachable ones
    never feasible.
    """
    found = evaluate(
        model, np.random.default_rng(seed).dirichlet(np.ones(model.actions), model.states)
    )
    achieved = found.margins + model.thresholds
    easy = solve(model.replace(thresholds=achieved - 3e-7 * model.constraint_scales))
    assert easy.status == "certified"
    highest = model.constraints[:, model.reachable].max((1, 2)) / (1 - model.discount)
    hard = solve(model.replace(thresholds=highest + 3e-7 * model.constraint_scales))
    assert hard.status == "infeasible"


@given(cmdps(constraints=(1, 1)))
def test_a_threshold_exactly_at_the_best_value_is_marginal_unless_it_is_proven_to_be_met(model):
    best = plan(model, model.constraints[0]).value
    result = solve(model.replace(thresholds=[best]))
    assert result.status == ("certified" if result.certificate.violation == 0 else "marginal")


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
    assert (
        result.status == "certified" or family == "cliff"
    )  # with patience the chasm cells alone cost more than -0.17 allows
    check(model, result)


def test_families_cover_every_environment():
    assert len(FAMILIES) >= min(len(finite), 5)


@pytest.mark.parametrize("name", ["pqa", "ppg", "npg", "spma"])
@pytest.mark.parametrize(
    ("environment", "optimum"), [(cliff_world, 0.6554023762), (deep_sea, 0.3926711579)]
)
def test_first_order_oracles_certify_the_papers_problems(name, environment, optimum):
    step = {"pqa": pqa, "ppg": ppg, "npg": npg, "spma": spma}[name]
    model = environment()
    result = solve(model, oracle=PolicyGradient(step, gradient=name == "ppg"))
    assert result.status == "certified"
    assert result.reward == pytest.approx(optimum, abs=2e-5)
    check(model, result)


@given(cmdps())
def test_normalise_maps_values_to_the_unit_interval_and_keeps_the_problem(model):
    scaled = normalise(model)
    policy = np.random.default_rng(0).dirichlet(np.ones(model.actions), model.states)
    ours, theirs = evaluate(scaled, policy), evaluate(model, policy)
    assert -1e-9 <= ours.reward <= 1 + 1e-9
    size = 1 + np.abs(model.thresholds / model.constraint_scales)
    np.testing.assert_allclose(
        ours.margins / size, theirs.margins / model.constraint_scales / size, atol=1e-9
    )


def test_a_time_limit_returns_the_best_certified_policy_so_far():
    model = garnet(states=1500, constraints=4, discount=0.999)
    result = solve(model, time_limit=0.0)
    assert result.status == "limit"
    check(model, result)
    assert result.scaled_gap < 1


def test_a_time_limit_ends_phase_one_too():
    model = cliff_world(threshold=0.3)  # infeasible, which takes a few planning calls to prove
    result = solve(model, time_limit=0.0)
    assert (
        result.status == "limit" and result.certificate.ray is None and result.scaled_violation > 0
    )
    check(model, result)
    assert solve(model, time_limit=60.0).status == "infeasible"


@pytest.mark.parametrize("huge", [1e9, -1e9, 1e90])
@pytest.mark.parametrize("states", [20, 300])
def test_states_that_are_never_reached_do_not_matter_however_large_their_numbers(states, huge):
    """State 0 leads to the others and nothing leads to it: what it pays must not decide what counts
    as rounding elsewhere.
    """
    model = garnet(states=states, constraints=2, seed=1)
    successors = np.concatenate(
        [np.ones((1, 4, model.successors.shape[2]), dtype=int), model.successors + 1]
    )
    probabilities = np.concatenate([model.probabilities[:1], model.probabilities])
    lonely = CMDP(
        (successors, probabilities),
        np.concatenate([[[huge, -huge, 0.0, 1.0]], model.reward]),
        np.concatenate([np.full((2, 1, 4), huge), model.constraints], axis=1),
        model.thresholds,
        np.append(0.0, model.initial),
        model.discount,
    )
    result = solve(lonely)
    check(lonely, result)
    assert result.status == "certified"
    assert result.reward == pytest.approx(solve(model).reward, abs=2e-6 * model.reward_scale)


@pytest.mark.parametrize("limit", [1e15, 1e20, 1e90])
def test_a_limit_without_end_does_not_blur_the_value(limit):
    model = queue()
    wide = model.replace(thresholds=np.full(model.constraint_count, -limit))
    result = solve(wide)
    check(wide, result)
    expected = evaluate(model, result.policy).margins + model.thresholds
    np.testing.assert_allclose(result.values, expected, rtol=1e-9)
    assert result.summary()["values"] == pytest.approx((-expected).tolist(), rel=1e-9)


def test_warm_start_gives_the_same_answer_with_less_work():
    model = garnet(states=200, constraints=2)
    warm = Warm()
    solve(model, warm=warm)
    nearby = model.replace(thresholds=model.thresholds * 1.001)
    cold, hot = solve(nearby), solve(nearby, warm=warm)
    assert hot.reward == pytest.approx(cold.reward, abs=2e-6 * model.reward_scale)
    assert hot.status == "certified" and len(hot.trace) < len(cold.trace)


def test_the_trace_is_reported_as_it_comes():
    rows = []
    result = solve(cliff_world(), report=rows.append)
    assert rows == result.trace and {
        "outer",
        "evaluations",
        "gap",
        "violation",
        "penalty",
        "seconds",
    } <= set(rows[0])


@pytest.mark.parametrize("eps", [0.0, -1.0, np.nan, np.inf])
def test_bad_eps(eps):
    with pytest.raises(InputError, match="eps"):
        solve(cliff_world(), eps=eps)


def test_unavailable_actions_carry_no_probability():
    rng = np.random.default_rng(0)
    model = garnet(states=20, actions=3, seed=2)
    available = rng.random((20, 3)) < 0.6
    available[:, 1] |= ~available.any(1)
    limited = model.replace(available=available, thresholds=model.thresholds * 0.9)
    result = solve(limited)
    check(limited, result)
    assert result.policy[~available].sum() == 0


def test_an_interrupt_returns_the_best_certified_policy_so_far():
    model, seen = garnet(states=300, constraints=4), []

    def interrupt(row):
        seen.append(row)
        if len(seen) == 3:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="best policy so far"):
        result = solve(model, report=interrupt)
    assert result.status == "limit" and len(seen) == 3
    check(model, result)


@pytest.mark.parametrize("states", [100, 400])  # exact planning, and planning that can be cut short
def test_an_interrupt_of_the_first_plan_returns_a_certified_policy(states, monkeypatch):
    model, calls = garnet(states=states, constraints=2), []

    def interrupted(*arguments, **settings):
        calls.append(1)
        signal.raise_signal(signal.SIGINT)
        return plan(*arguments, **settings)

    monkeypatch.setattr(feasibility, "plan", interrupted)
    with pytest.warns(UserWarning, match="best policy so far"):
        result = solve(model)
    assert result.status == "limit" and len(calls) == 1
    check(model, result)


def test_a_second_interrupt_goes_through():
    def interrupt(row):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt), pytest.warns(UserWarning, match="Ctrl-C again"):
        solve(garnet(states=300, constraints=4), report=interrupt)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_limit_is_called_a_limit_also_where_feasibility_is_undecided():
    model = garnet(states=300, constraints=2)
    best = solve(
        model.replace(
            reward=model.constraints[0], constraints=model.constraints[:0], thresholds=[]
        ),
        1e-9,
    ).reward
    edge = model.replace(constraints=model.constraints[:1], thresholds=[best])

    def interrupt(row):
        signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="stopping"):
        stopped = solve(edge, report=interrupt)
    assert stopped.status == (
        "limit" if max(stopped.scaled_gap, stopped.scaled_violation) > stopped.eps else "marginal"
    )
    assert solve(edge).status == "marginal"


def test_a_budget_that_nothing_can_exceed_is_met_beyond_doubt():
    """All costs are 0 and may be at most 0: at the very edge, and feasible."""
    model = cliff_world()
    nothing = model.replace(constraints=np.zeros_like(model.constraints), thresholds=[0.0])
    result = solve(nothing)
    assert result.status == "certified" and result.certificate.violation == 0
    check(nothing, result)


def test_a_memory_limit_bounds_the_columns_and_not_the_answer():
    model = garnet(states=60, constraints=6)
    few = solve(model, oracle=Corrective(most=12))
    assert few.status == "certified"
    assert few.reward == pytest.approx(solve(model).reward, abs=3e-6 * model.reward_scale)
    assert solve(model, memory_limit=64e9).status == "certified"
    with pytest.raises(InputError, match="memory limit"):
        solve(model, memory_limit=1e6)


@pytest.mark.parametrize("value", [1e6, 1e7, 1e8, 1e9])
def test_what_rounding_spoils_is_not_claimed(value):
    """One action whose cost meets its budget exactly, up to rounding: whatever is claimed, the
    checker agrees.
    """
    model = CMDP(np.ones((1, 1, 1)), [[1.0]], [[[value]]], [10 * value], [1.0], 0.9, senses="<=")
    result = solve(model)
    assert result.status == "marginal"
    check(model, result)


def test_rarely_visited_states_get_the_latest_plan():
    """With 48 of 50 waiting (never seen from an empty queue) the advice is to serve, not what
    rounding left behind.
    """
    model = queue(capacity=50)
    result = solve(model)
    assert result.policy[20:45, 0].max() < 0.5


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"eps": None}, "eps is None"),
        ({"eps": "x"}, "eps is 'x'"),
        ({"eps": 2.0}, "below 1"),
        ({"time_limit": "x"}, "time_limit"),
        ({"time_limit": np.nan}, "time_limit"),
        ({"outer": 0}, "outer is 0"),
        ({"dual_step": np.nan}, "dual_step"),
        ({"dual_step": -1}, "dual_step"),
    ],
)
def test_bad_arguments(arguments, sentence):
    with pytest.raises(InputError, match=sentence):
        solve(cliff_world(), **arguments)
    with pytest.raises(InputError, match="a CMDP is needed"):
        solve(None)


def test_a_discount_that_leaves_too_few_digits_ends_with_a_limit():
    """At 1 - 1e-12 values are known to four digits: no 1e-6, but an end, and an honest certificate."""
    reward, moves = [[2.0, 1.0], [1.0, 0.0]], [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.1, 0.9]]]
    parts = {
        "transitions": moves,
        "reward": reward,
        "constraints": [reward],
        "thresholds": [1.0],
        "initial": [1.0, 0.0],
    }
    model = CMDP(**parts, discount=1 - 1e-12)
    result = solve(model)
    assert result.status == "limit" and len(result.trace) <= 1000
    assert check(model, result).gap >= 0
