from fractions import Fraction

import numpy as np
import pytest

from cmdpax import CMDP, InputError, check, solve
from cmdpax.environments import cliff_world, garnet, queue
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.certified import WarmStart, first_penalty, solve_certified
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.policy_gradient import PolicyGradient, pqa
from cmdpax.solvers.solve import solve_again
from solvers.tasks import scaled_form, task_for


def test_the_door_is_asked_once_the_estimates_are_below_eps_and_ends_the_search():
    form, rows, answers = scaled_form(garnet(states=40, constraints=3)), [], []

    def accept(answer):
        answers.append(answer)
        return len(answers) == 2

    task = task_for(form, eps=1e-3, record=rows.append, accept=accept)
    answer = solve_certified(form, task, Corrective())
    assert len(answers) == 2
    for row, asked in zip(rows[-2:], answers, strict=True):
        assert row["gap"] <= 9e-4 and row["margins"].min() >= -9e-4
        bound = asked.plan.value - float(asked.weights @ form.thresholds)
        reward = float(form.evaluate(asked.policy).reward)
        assert bound - reward == pytest.approx(row["gap"], abs=1e-9)
    assert all(row["gap"] > 9e-4 or row["margins"].min() < -9e-4 for row in rows[:-2])
    evaluation = form.evaluate(answer.policy)  # the best of all states, which may be an earlier one
    assert evaluation.margins.min() >= -9e-4
    assert [row["evaluations"] for row in rows] == list(range(1, len(rows) + 1))
    assert set(rows[0]) == {"outer", "evaluations", "gap", "margins", "penalty"}


def test_a_search_that_nobody_accepts_ends_when_nothing_improves_any_more():
    form, rows = scaled_form(queue(capacity=10)), []
    answer = solve_certified(form, task_for(form, record=rows.append), Corrective(patience=30))
    assert 30 < len(rows) < 200
    assert form.evaluate(answer.policy).margins.min() >= -1e-9


def test_a_stop_ends_it_after_the_step_at_hand():
    form, rows = scaled_form(garnet(states=40, constraints=3)), []
    task = task_for(form, stop=lambda: len(rows) == 3, record=rows.append)
    answer = solve_certified(form, task, Corrective())
    assert len(rows) == 3 and answer.plan is not None


def test_first_order_oracles_need_no_columns_and_never_stall():
    form, rows = scaled_form(cliff_world()), []
    task = task_for(form, eps=1e-2, record=rows.append, accept=lambda answer: True)
    answer = solve_certified(form, task, PolicyGradient(pqa))
    assert answer.policy.shape == (84,) and rows[-1]["evaluations"] % 10 == 0
    assert task.warm.columns is None and task.warm.multipliers is None


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"dual_factor": 2}, "dual_factor is 2; it must be a number, more than 0 and below 2"),
        ({"outer": 0}, "outer is 0"),
        ({"inner": 1.5}, "inner is 1.5"),
    ],
)
def test_bad_settings(setting, sentence):
    form = scaled_form(cliff_world())
    with pytest.raises(InputError, match=sentence):
        solve_certified(form, task_for(form), Corrective(), **setting)


def test_the_first_penalty_is_reward_lost_over_squared_margins_gained():
    form = scaled_form(cliff_world())
    columns = task_for(form).columns
    assert len(columns.rewards) >= 2
    lost = columns.rewards[0] - columns.rewards
    gained = ((columns.margins_of_columns - columns.margins_of_columns[0]) ** 2).sum(1)
    farthest = int(np.argmax(gained))
    assert first_penalty(columns) == pytest.approx(lost[farthest] / gained[farthest])
    alone = Corrective().start(form)
    assert first_penalty(alone) == 1.0


def test_warm_start_gives_the_same_answer_with_less_work():
    model = garnet(states=200, constraints=2)
    warm = WarmStart()
    solve_again(model, 1e-6, warm)
    nearby = model.replace(thresholds=model.thresholds * 1.001)
    cold, hot = solve(nearby), solve_again(nearby, 1e-6, warm)
    scale = StandardForm.of(model).reward_scale
    assert hot.reward == pytest.approx(cold.reward, abs=2e-6 * scale)
    assert hot.status == "certified"
    assert hot.trace[-1]["evaluations"] < cold.trace[-1]["evaluations"]


def test_columns_of_a_warm_start_are_shifted_to_the_new_thresholds():
    model, warm = garnet(states=30, constraints=2), WarmStart()
    form = scaled_form(model)
    assert warm.columns_for(form) is None
    task = task_for(form, warm=warm, accept=lambda answer: True)
    solve_certified(form, task, Corrective())
    np.testing.assert_array_equal(warm.thresholds, form.thresholds)
    tighter = form.replace(thresholds=form.thresholds + np.array([0.01, 0.02]))
    columns = warm.columns_for(tighter)
    for margins, choices in zip(columns.margins_of_columns, columns.choices, strict=True):
        policy = form.transitions.deterministic(choices)
        np.testing.assert_allclose(margins, tighter.evaluate(policy).margins, atol=1e-12)


def test_few_columns_reach_the_same_answer():
    model = garnet(states=60, constraints=6)
    few = solve(model, Corrective(most=12))
    assert few.status == "certified"
    scale = StandardForm.of(model).reward_scale
    assert few.reward == pytest.approx(solve(model).reward, abs=3e-6 * scale)


def test_rarely_visited_states_get_the_latest_plan():
    """With 48 of 50 waiting (never seen from an empty queue) the advice is to serve.

    It is not what rounding left behind.
    """
    result = solve(queue(capacity=50))
    assert result.policy[20:45, 0].max() < 0.5


def test_a_discount_that_leaves_few_digits_has_an_honest_certificate():
    """At 1 - 1e-12 values have four digits: bounds hold the best value in rational numbers."""
    reward, moves = [[2.0, 1.0], [1.0, 0.0]], [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.1, 0.9]]]
    model = CMDP(moves, reward, [reward], [1.0], [1.0, 0.0], 1 - 1e-12)
    result = solve(model)
    gamma, (stay, leave), (back, rest) = Fraction(model.discount), *(exact(row[0]) for row in moves)
    system = 1 - gamma * stay, -gamma * leave, -gamma * back, 1 - gamma * rest
    best = (2 * system[3] - system[1]) / (system[0] * system[3] - system[1] * system[2])
    low, high = result.certificate.reward_bounds
    assert low <= best <= min(high, result.certificate.dual_bound)
    assert check(model, result).gap >= 0 and len(result.trace) <= 1000


def exact(row):
    """Probabilities as fractions that sum to 1."""
    return [Fraction(chance) / sum(map(Fraction, row)) for chance in row]
