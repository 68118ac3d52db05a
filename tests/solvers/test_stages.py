"""The stages of a solve: what ends it where there is no time, no room, or no constraint."""

import signal
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pytest

import plain
from cmdpax import CMDP, CertificateError, NumericalError, check, methods, solve, trajectory
from cmdpax.environments import cliff_world, garnet
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers import stages
from models import large_path, uneven

SOLVERS = [name for name, row in methods.items() if row.solve]


def test_a_time_limit_returns_the_best_certified_policy_so_far():
    model = garnet(states=1500, constraints=4, discount=0.999)
    result = solve(model, time_limit=0.0)
    assert result.status == "limit"
    check(model, result)
    assert result.certificate.gap < StandardForm.of(model).reward_scale


@pytest.mark.parametrize("name", SOLVERS)
def test_a_time_limit_ends_phase_one_too(name):
    model = cliff_world(threshold=0.3)  # infeasible, which takes a few planning calls to prove
    result = solve(model, name, time_limit=0.0)
    assert result.status == "limit" and result.certificate.ray is None
    assert result.scaled_violation > 0
    check(model, result)
    assert solve(model, name, time_limit=60.0).status == "infeasible"


@pytest.mark.parametrize("name", ["corrective-alm", "pqa-alm", "dantzig-wolfe", "cutting-plane"])
def test_a_time_limit_ends_the_method(name, monkeypatch):
    """Phase 1 has its time, and the method has none."""
    model, own = garnet(states=60, constraints=5), stages.decide_feasibility

    def decide(form, eps, columns, accuracy, most, stop, guess):
        verdict = own(form, eps, columns, accuracy, most)
        stop.end = 0.0
        return verdict

    monkeypatch.setattr(stages, "decide_feasibility", decide)
    result = solve(model, name, time_limit=60.0)
    check(model, result)
    assert result.status == "limit" and len(result.trace) <= 1


def test_deciding_about_feasibility_keeps_to_the_time_limit():
    assert solve(garnet(states=2000, constraints=5), "lp", time_limit=0).status == "limit"


def test_a_budget_that_nothing_can_exceed_is_met_beyond_doubt():
    """All costs are 0 and may be at most 0: at the very edge, and feasible."""
    model = cliff_world()
    nothing = model.replace(constraints=np.zeros_like(model.constraints), thresholds=[0.0])
    result = solve(nothing)
    assert result.status == "certified" and result.certificate.violation == 0
    check(nothing, result)


@pytest.mark.parametrize("value", [1e6, 1e7, 1e8, 1e9])
def test_a_budget_met_up_to_rounding_is_met(value):
    """One action whose cost meets its budget exactly, up to rounding.

    Whatever is claimed, the checker agrees.
    """
    model = CMDP(np.ones((1, 1, 1)), [[1.0]], [[[value]]], [10 * value], [1.0], 0.9, senses="<=")
    result = solve(model)
    assert result.status == "certified"
    check(model, result)


def test_a_limit_is_called_a_limit_also_where_feasibility_is_undecided():
    model = garnet(states=300, constraints=2)
    own = {"constraints": model.constraints[:0], "thresholds": []}
    best = solve(model.replace(reward=model.constraints[0], **own), eps=1e-9).reward
    edge = model.replace(constraints=model.constraints[:1], thresholds=[best])

    def interrupt(row):
        signal.raise_signal(signal.SIGINT)

    with pytest.warns(UserWarning, match="stopping"):
        stopped = solve(edge, callback=interrupt)
    is_met = max(stopped.scaled_gap, stopped.scaled_violation) <= stopped.eps
    assert stopped.status == ("certified" if is_met else "limit")
    assert stopped.reason == ("" if is_met else "time")
    assert solve(edge).status == "certified"


def test_a_fixed_budget_is_run_when_one_of_its_settings_is_given():
    model, rows = plain.tiny(), []
    certified = solve(model, "pqa-alm")
    fixed = solve(model, "pqa-alm", step=0.1, outer=2, inner=3, callback=rows.append)
    assert certified.status == "certified" and rows == fixed.trace
    assert [row["evaluations"] for row in fixed.trace] == list(range(7))


def test_a_run_becomes_a_certified_result():
    model = cliff_world()
    run, result = trajectory(model, "npg-pd", steps=3), solve(model, "npg-pd", steps=3)
    check(model, result)
    assert run.rewards.shape == (4,) and run.margins.shape == (4, 1)
    assert result.status == "limit" and result.reward == pytest.approx(float(run.rewards[-1]))
    np.testing.assert_array_equal(result.policy, run.policy)
    np.testing.assert_array_equal(result.multipliers, run.multipliers)
    assert result.trace == [
        {"evaluations": k, "reward": float(reward), "margins": margins.tolist()}
        for k, (reward, margins) in enumerate(zip(run.rewards, run.margins, strict=True))
    ]


def test_a_diverged_single_run_is_an_error():
    with pytest.raises(NumericalError, match=r"rpg-pd: step .* not finite"):
        solve(cliff_world(), "rpg-pd", step=100.0, temperature=0.1)


def test_an_exact_plan_without_constraints_needs_no_range(monkeypatch):
    """What rounding allows is a tolerance, whatever policies can change: nobody need know that."""

    def planned(*_, **__):
        raise AssertionError("nobody asks for a range")

    monkeypatch.setattr("cmdpax.solvers.door.attained_ranges", planned)
    for states, large in ((50, False), (400, True)):
        model = uneven(states, seed=3, discount=0.99, constraints=0)
        with large_path() if large else nullcontext():
            result = solve(model, eps=1e-9)
            assert check(model, result).status == result.status == "certified"
        low, high = result.certificate.ranges[0]
        assert high <= result.reward <= low and low - high <= 1e-9 * low
        assert "its range" not in str(result) and "or 1e-10 of the size" in str(result)
        # a range that nobody proved is refused
        for ends in ([low - 1e-3, high], [low, high + 1e-3]):
            proof = replace(result.certificate, ranges=np.array([ends]))
            with pytest.raises(CertificateError, match="value 0 is claimed to attain"):
                check(model, replace(result, certificate=proof))


def test_a_rough_plan_without_constraints_is_measured_by_the_range():
    model = garnet(states=2000, constraints=1, seed=2).replace(constraints=[], thresholds=[])
    result = solve(model, eps=1e-3)
    check(model, result)
    low, high = result.certificate.ranges[0]
    assert result.status == "certified" and low < 0.9 * high
    assert 1e-10 * high < result.certificate.gap <= 1e-3 * (high - low)
    assert result.scaled_gap == pytest.approx(result.certificate.gap / (high - low))
    assert "of its range" in str(result)
