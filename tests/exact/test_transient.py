"""Models in which every policy ends, also at discount 1."""

from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, InputError, NumericalError, check, methods, solve
from cmdpax.exact.standard import StandardForm
from cmdpax.exact.transient import ended_states, without_ends
from models import large_path


def leaking(seed, states=6, actions=2, branching=2, constraints=2, discount=1.0, leak=None):
    """A random model whose last state has ended; every choice leads there, at least with 0.05."""
    rng = np.random.default_rng(seed)
    S = states + 1
    successors = rng.integers(0, states, (S, actions, branching))
    chances = rng.dirichlet(np.ones(branching), (S, actions))
    leak = rng.uniform(0.05, 0.5, (S, actions)) if leak is None else np.full((S, actions), leak)
    successors = np.concatenate([successors, np.full((S, actions, 1), states)], 2)
    chances = np.concatenate([chances * (1 - leak)[..., None], leak[..., None]], 2)
    reward, rows = rng.normal(size=(S, actions)), rng.normal(size=(constraints, S, actions))
    start = np.append(rng.dirichlet(np.ones(states)), 0.0)
    parts = (successors, chances), reward, rows, np.zeros(constraints), start, discount
    model = CMDP(*parts, goal=[states])
    form = StandardForm.of(model)
    achieved = form.evaluate(form.uniform_policy()).margins
    return model.replace(thresholds=achieved + rng.uniform(-0.1, 0.1, constraints))


def test_ended_states_stay_and_pay_nothing():
    model = leaking(0)
    np.testing.assert_array_equal(ended_states(model), np.arange(7) == 6)
    assert not ended_states(model.replace(reward=np.ones(model.choices))).any()
    cut = without_ends(model.transitions, ended_states(model))
    sums = np.asarray(cut.matrix.sum(1)).ravel()
    assert (sums <= 0.95 + 1e-12).all() and sums[-1] == 0


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize("discount", [0.9999, 1.0])
def test_values_and_visits_until_the_end(discount, is_large):
    model = leaking(1, states=40, actions=3, discount=discount)
    dense = model.transitions.matrix.toarray()
    policy = model.by_choice(model.uniform_policy())
    chain = np.stack([policy[i:j] @ dense[i:j] for i, j in zip(
        model.first_choice[:-1], model.first_choice[1:])])[:40, :40]  # fmt: skip
    paid = model.transitions.under(policy, model.reward)[:40]
    values = np.linalg.solve(np.eye(40) - discount * chain, paid)
    visits = np.linalg.solve(np.eye(40) - discount * chain.T, model.initial[:40])
    with large_path() if is_large else nullcontext():
        form = StandardForm.of(model)
        np.testing.assert_allclose(form.criterion.values(form, policy, form.reward)[:40], values)
        np.testing.assert_allclose(form.criterion.visits(form, policy)[:40], visits)
        assert form.criterion.steps == pytest.approx(form.gauge.max())
        future = discount * form.transitions.matrix @ form.gauge
        alive = form.transitions.by_state(form.alive)
        assert (form.transitions.by_state(form.gauge) - future)[alive].min() > 0.9


@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 0.9999, 1 - 1e-7]))
def test_answers_are_those_of_the_linear_program(seed, discount):
    model = leaking(seed, discount=discount)
    ours, program = solve(model), solve(model, "lp")
    assert ours.status == program.status != "limit"
    check(model, ours)
    check(model, program)
    if ours.status == "certified":
        size = np.ptp(ours.certificate.ranges[0])
        allowed = 2e-6 * (size + np.abs(ours.multipliers) @ np.ptp(ours.certificate.ranges[1:], 1))
        assert ours.reward == pytest.approx(program.reward, abs=allowed)


def test_a_discount_is_a_leak():
    """The same model discounted, and as total reward with a leak: the same answer."""
    leaky = leaking(5, states=30, leak=0.1)
    kept = leaky.transitions.matrix.toarray()[:-1, :30] / 0.9
    rows = leaky.reward[:-1].reshape(30, 2), leaky.constraints[:, :-1].reshape(2, 30, 2)
    model = CMDP(kept.reshape(30, 2, 30), *rows, leaky.thresholds, leaky.initial[:30], 0.9)
    one, other = solve(leaky, eps=1e-9), solve(model, eps=1e-9)
    assert one.status == other.status == "certified"
    assert one.reward == pytest.approx(other.reward, rel=1e-8)
    np.testing.assert_allclose(one.values, other.values, rtol=1e-8)


@pytest.mark.parametrize("name", [name for name, row in methods.items() if not row.features])
def test_methods_with_tables_take_total_rewards(name):
    model = leaking(7)
    result = solve(model, name)
    assert check(model, result).status == result.status
    assert methods[name].criteria[:2] == ("discounted", "total")


def test_methods_with_features_say_that_they_do_not():
    with pytest.raises(InputError, match="'ppqa-alm' takes discounted models only, and this one"):
        solve(leaking(7), "ppqa-alm", features=np.arange(14.0).reshape(7, 2, 1))


def test_models_without_an_end_are_refused_by_name():
    moves = [[[0.5, 0.5], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]]
    names = {"state_names": ["shop", "home"], "action_names": ["wait", "go"]}
    ends = CMDP(moves, np.ones((2, 2)), np.zeros((0, 2, 2)), [], 0, 1.0, goal="home", **names)
    assert solve(ends).reward == pytest.approx(2.0)
    with pytest.raises(InputError, match="no state has ended; give goal="):
        solve(CMDP(moves, np.ones((2, 2)), np.zeros((0, 2, 2)), [], 0, 1.0))


@pytest.mark.parametrize("missing", [1e-3, 1e-5, 1e-6, 1e-7, 1e-9, 1e-12, 0.0])
def test_a_certificate_near_discount_one_means_what_it_says(missing):
    """Reach the end with 0.9: careful steps take longer, fast ones break (X1, X18)."""

    def step(s, a):
        if s == "end":
            return {"end": 1.0}, 0.0, [0.0]
        ahead, hit = (s + 1, 0.0) if s < 9 else ("end", 1.0)
        if a == "careful":
            return {s: 0.7, ahead: 0.3}, -1.0, [0.3 * hit]
        return ({ahead: 0.9, "end": 0.1} if s < 9 else {"end": 1.0}), -1.0, [0.9 * hit]

    states = [*range(10), "end"]
    model = CMDP.from_step(
        states, ["careful", "fast"], step, thresholds=[0.9], initial=0, discount=1 - missing
    )
    result = solve(model)
    assert result.status == "certified" and check(model, result).violation < 1e-6
    assert result.values[0] == pytest.approx(0.9, abs=1e-6)
    assert result.reward == pytest.approx(-28.0 - 1015.4 * missing, abs=2e-3)


def test_a_long_way_is_solved_component_by_component():
    """A walk of 20,000 states against the wind, total reward, on the path of large models."""
    S = 20_000
    s = np.arange(S)
    ahead = np.minimum(s + 1, S - 1)
    successors = np.stack([np.stack([ahead, s], 1), np.stack([ahead, s], 1)], 1)
    chances = np.broadcast_to(np.array([[0.5, 0.5], [0.8, 0.2]]), (S, 2, 2))
    cost = np.broadcast_to([0.0, 1.0], (S, 2))
    model = CMDP(
        (successors, chances), np.full((S, 2), -1.0), [cost], [S / 2], 0, 1.0, senses="<=",
        goal=[S - 1],
    )  # fmt: skip
    result = solve(model)
    assert result.status == "certified"
    # hurrying in x states costs 1.25 x and saves 0.75 x steps
    hurried = S / 2 / 1.25
    assert result.reward == pytest.approx(-(2 * (S - 1) - 0.75 * hurried), rel=1e-6)
    check(model, result)


@pytest.mark.parametrize("constraints", [0, 1])
def test_a_cycle_that_is_never_reached_does_not_count(constraints):
    """From 0 to the goal, past 1 or not; a run in 3, where nobody comes, would earn for ever."""
    moves, pays, cost = np.zeros((4, 2, 4)), np.zeros((4, 2)), np.zeros((4, 2))
    moves[[0, 0, 1, 1, 2, 2, 3, 3], [0, 1] * 4, [1, 2, 2, 2, 2, 2, 3, 3]] = 1.0
    pays[0], pays[1], pays[3], cost[0, 0] = [1.0, 2.0], 3.0, 5.0, 1.0
    limits = [cost][:constraints], [0.5][:constraints]
    model = CMDP(moves, pays, *limits, 0, 1.0, senses="<=")
    result = solve(model)
    assert check(model, result).status == "certified"
    assert result.reward == pytest.approx(3.0 if constraints else 4.0)


@pytest.mark.parametrize("is_large", [False, True])
def test_a_run_longer_than_a_number_has_digits_is_refused(is_large):
    """1 - 1e-17 is 1: the linear system is singular."""
    moves = [[[1.0, 1e-17]], [[0.0, 1.0]]]
    with large_path() if is_large else nullcontext(), pytest.raises(NumericalError, match="1e-15"):
        solve(CMDP(moves, [[1.0], [0.0]], [], [], 0, 1.0, goal=1))
