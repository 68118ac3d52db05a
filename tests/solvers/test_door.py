"""What a door says: units, traces and averages; and when it gives up."""

import numpy as np
import pytest

from cmdpax import solve, trajectory
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.door import Attempts, Door


def test_attempts_keep_what_is_accepted_and_count_those_that_gain_nothing():
    attempts = Attempts()
    errors = [1.0, 0.95, 0.89, 0.88, 0.5]  # the third is a tenth below the first
    refused = []
    for error in errors:
        assert not attempts.take("proof", error, 0.1)
        refused.append(attempts.refused)
    assert refused == [0, 1, 2, 3, 0] and attempts.accepted is None
    assert attempts.take("certified", 0.1, 0.1) and attempts.accepted == "certified"
    attempts.restart()
    assert (attempts.refused, attempts.smallest) == (0, np.inf)


def test_the_tolerance_is_eps_in_the_units_of_the_scaled_form():
    model, eps = garnet(states=20, constraints=2, seed=1), 1e-3
    door = Door(model, eps)
    np.testing.assert_allclose(eps * door.units, door.tolerances)
    form = door.form
    value = form.evaluate(form.uniform_policy())
    scaled = door.scaled.form.evaluate(form.uniform_policy())
    np.testing.assert_allclose(scaled.margins * door.units[1:], value.margins, atol=1e-12)


def test_the_trace_is_in_the_users_units_and_comes_as_it_is_made():
    model, rows = cliff_world(), []
    result = solve(model, "corrective-alm", callback=rows.append)
    assert rows == result.trace
    assert list(rows[0]) == [
        "outer",
        "evaluations",
        "penalty",
        "gap",
        "violation",
        "scaled_gap",
        "scaled_violation",
        "seconds",
    ]
    units = np.ptp(result.certificate.ranges, axis=1)
    for row in rows:
        assert row["gap"] == pytest.approx(row["scaled_gap"] * units[0])
        assert row["violation"] == pytest.approx(row["scaled_violation"] * units[1])
    seconds = [row["seconds"] for row in rows]
    assert seconds[0] > 0 and seconds == sorted(seconds) and seconds[-1] <= result.seconds
    assert abs(rows[-1]["gap"] - result.certificate.gap) <= 1e-9


@pytest.mark.parametrize("name", ["corrective-alm", "pqa-alm", "dantzig-wolfe"])
def test_a_reward_in_other_units_has_other_gaps_and_the_same_scaled_ones(name):
    model = garnet(states=30, constraints=2)
    larger = model.replace(reward=1024 * model.reward)  # a power of two: no digit changes
    one, other = solve(model, name, eps=1e-4), solve(larger, name, eps=1e-4)
    assert len(one.trace) == len(other.trace) > 1
    for row, large in zip(one.trace, other.trace, strict=True):
        assert large["gap"] == 1024 * row["gap"]
        for same in ("scaled_gap", "scaled_violation", "violation", "evaluations"):
            assert large[same] == row[same]
    assert other.scaled_gap == pytest.approx(one.scaled_gap, abs=1e-12)
    thousand = solve(model.replace(reward=1000 * model.reward), name, eps=1e-4)
    for row, large in zip(one.trace[:5], thousand.trace, strict=False):
        assert large["gap"] == pytest.approx(1000 * row["gap"], rel=1e-6)
        assert large["scaled_gap"] == pytest.approx(row["scaled_gap"], rel=1e-6)


def test_constraints_in_other_units_have_other_violations_and_the_same_scaled_ones():
    model = garnet(states=30, constraints=2)
    larger = model.replace(constraints=1024 * model.constraints, thresholds=1024 * model.thresholds)
    one, other = solve(model, "corrective-alm"), solve(larger, "corrective-alm")
    violations = [row["violation"] for row in one.trace]
    assert max(violations) > 0
    assert [row["violation"] for row in other.trace] == [1024 * v for v in violations]
    for same in ("gap", "scaled_gap", "scaled_violation"):
        assert [row[same] for row in other.trace] == [row[same] for row in one.trace]
    np.testing.assert_allclose(other.multipliers, one.multipliers / 1024, rtol=1e-12)


def test_the_average_is_one_stationary_policy_with_the_averaged_values():
    model = cliff_world()
    form = StandardForm.of(model)
    run, result = trajectory(model, "npg-pd", steps=3), solve(model, "npg-pd", steps=3)
    policies = [trajectory(model, "npg-pd", steps=k).policy for k in (1, 2)]
    iterates = [model.uniform_policy(), *policies]
    visits = [form.criterion.visits(form, model.by_choice(one)) for one in iterates]
    mass = sum(own[:, None] * one for own, one in zip(visits, iterates)) / 3
    np.testing.assert_allclose(run.averaged, mass / mass.sum(1, keepdims=True), atol=1e-14)
    assert result.averaged["reward"] == pytest.approx(float(run.rewards[:3].mean()), abs=1e-13)
    assert result.averaged["margins"][0] == pytest.approx(float(run.margins[:3].mean()), abs=1e-13)
    assert result.averaged["policies"] == 3 and result.averaged["numbers"] == 3 * 84
    np.testing.assert_array_equal(result.averaged["policy"], run.averaged)
    assert trajectory(model, "pqa-alm", outer=1, inner=2).averaged is None
