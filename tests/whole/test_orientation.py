"""One problem, written either way round: `<=` for `>=` with everything negated, minimise for
maximise. Policies have the same bytes, and every public number is the user's own.
"""

import json
from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cmdpax
from cmdpax import CMDP, FrontierPoint, InputError, Result, check, frontier, solve, trajectory
from cmdpax.exact.standard import StandardForm
from models import assert_same, build, cmdps, turned

SIGNLESS = ("policy", "margins", "multipliers")
PROOF = ("margin_bounds", "weights", "dual_potential", "ray", "ray_bound", "ray_potential")
flags = st.lists(st.booleans(), min_size=3, max_size=3)


def signs_of(model: CMDP, which: list[bool], objective: bool) -> tuple[np.ndarray, float]:
    marked = np.array(which[: model.constraint_count])
    return np.where(marked, -1.0, 1.0), -1.0 if objective else 1.0


def assert_mirrored(result: Result, other: Result, signs: np.ndarray, sign: float) -> None:
    """`other` says in its own words what `result` says; to the last bit."""
    assert (other.status, other.method, other.eps) == (result.status, result.method, result.eps)
    assert other.policy.tobytes() == result.policy.tobytes()
    for name in SIGNLESS:
        np.testing.assert_array_equal(getattr(other, name), getattr(result, name))
    np.testing.assert_array_equal(other.values, signs * result.values)
    np.testing.assert_array_equal(other.thresholds, signs * result.thresholds)
    assert other.reward == sign * result.reward
    assert other.scaled_gap == result.scaled_gap
    assert other.scaled_violation == result.scaled_violation
    proof, mirror = result.certificate, other.certificate
    for name in PROOF:
        np.testing.assert_array_equal(getattr(mirror, name), getattr(proof, name))
    assert sorted(mirror.reward_bounds) == sorted(sign * bound for bound in proof.reward_bounds)
    assert mirror.reward_bounds[0] <= mirror.reward_bounds[1]
    assert mirror.dual_bound == sign * proof.dual_bound
    assert (mirror.gap, mirror.violation) == (proof.gap, proof.violation)
    potentials = np.append(sign, signs)[:, None] * proof.value_potentials
    np.testing.assert_array_equal(mirror.value_potentials, potentials)
    assert len(other.trace) == len(result.trace)
    for row, mirrored in zip(result.trace, other.trace):
        own = {**row, "reward": sign * row["reward"]} if "reward" in row else row
        timeless = {key: value for key, value in own.items() if key != "seconds"}
        assert timeless == {key: mirrored[key] for key in timeless}
    if result.averaged is not None and other.averaged is not None:
        reward = sign * result.averaged["reward"]
        assert other.averaged == {**result.averaged, "reward": reward}
    assert (other.averaged is None) == (result.averaged is None)


def assert_said(result: Result, model: CMDP) -> None:
    """`str` and `summary` have the numbers and words of the model."""
    summary = result.summary()
    assert summary["values"] == result.values.tolist() and summary["reward"] == result.reward
    assert summary["thresholds"] == model.limits.entries
    assert summary["senses"] == list(model.senses) and summary["minimise"] == model.minimise
    is_feasible = result.status != "infeasible"
    assert summary["dual_bound"] == (result.certificate.dual_bound if is_feasible else None)
    assert json.loads(json.dumps(summary))["margins"] == result.margins.tolist()
    lines = [line.split() for line in str(result).splitlines()]
    best = ["least" if model.minimise else "most", f"{result.certificate.dual_bound:.9g})"]
    (reward,) = [line for line in lines if line[0] == "reward"]
    assert reward[1].rstrip(",") == f"{result.reward:.9g}"
    assert not is_feasible or reward[-2:] == best
    rows = zip(model.constraint_names, model.senses, model.limits.entries, result.values)
    for name, sense, entry, value in rows:
        assert [name, f"{value:.8g}", sense, f"{entry:.8g}"] in [line[:4] for line in lines]
        assert f"{name}{sense}{entry:g}" in str(model)


@settings(max_examples=150)
@given(cmdps(constraints=(0, 3), states=12), flags, st.booleans())
def test_a_problem_has_one_answer_whichever_way_it_is_written(model, which, objective):
    signs, sign = signs_of(model, which, objective)
    other = turned(model, which[: model.constraint_count], objective)
    np.testing.assert_array_equal(other.constraints, signs[:, None] * model.constraints)
    np.testing.assert_array_equal(other.thresholds, signs * model.thresholds)
    np.testing.assert_array_equal(other.reward, sign * model.reward)
    assert other.senses == tuple("<=" if one < 0 else ">=" for one in signs)
    assert other.minimise == objective
    assert_same(turned(other, which[: model.constraint_count], objective), model)

    result, mirror = solve(model), solve(other)
    assert_mirrored(result, mirror, signs, sign)
    assert_said(mirror, other)
    proven, mirrored = check(model, result), check(other, mirror)
    assert mirrored.dual_bound == sign * proven.dual_bound
    assert sorted(mirrored.reward_bounds) == sorted(sign * one for one in proven.reward_bounds)
    assert (mirrored.gap, mirrored.violation) == (proven.gap, proven.violation)
    side = ">=" if objective else "<="
    said = f"optimum {side} {mirrored.dual_bound:.12g}" in str(mirrored)
    assert said == (mirror.status != "infeasible")


@settings(max_examples=30)
@given(cmdps(constraints=(1, 3), states=6), flags, st.booleans())
def test_files_say_what_was_said(tmp_path_factory, model, which, objective):
    folder = tmp_path_factory.getbasetemp()
    signs, sign = signs_of(model, which, objective)
    other = turned(model, which[: model.constraint_count], objective)
    for suffix in (".npz", ".json"):
        cmdpax.save_model(other, folder / f"turned{suffix}")
        assert_same(cmdpax.load_model(folder / f"turned{suffix}"), other)
    result, mirror = solve(model), solve(other)
    cmdpax.save_result(mirror, folder / "result.npz")
    loaded = cmdpax.load_result(folder / "result.npz")
    assert_mirrored(result, loaded, signs, sign)
    assert str(loaded) == str(mirror) and loaded.summary() == mirror.summary()
    check(other, loaded)


@settings(max_examples=30)
@given(cmdps(constraints=(1, 3), states=8), flags, st.booleans(), st.floats(-1, 1))
def test_changes_are_said_in_the_model_s_own_words(model, which, objective, shift):
    """`replace(thresholds=[14.0])` of a model with `<=` means at most 14."""
    signs, _ = signs_of(model, which, objective)
    marked = which[: model.constraint_count]
    other = turned(model, marked, objective)
    thresholds = model.thresholds + shift
    moved, mirrored = (
        model.replace(thresholds=thresholds),
        other.replace(thresholds=signs * thresholds),
    )
    assert_same(mirrored, turned(moved, marked, objective))
    assert solve(mirrored).policy.tobytes() == solve(moved).policy.tobytes()


@settings(max_examples=60)
@given(cmdps(constraints=(1, 2), states=6, actions=3), flags, st.booleans())
def test_frontiers_run_along_the_user_s_thresholds(model, which, objective):
    signs, sign = signs_of(model, which, objective)
    other = turned(model, which[: model.constraint_count], objective)
    curve, refusal = attempt(model)
    mirrored, other_refusal = attempt(other)
    assert refusal == other_refusal
    for point, mirror in zip(curve, mirrored, strict=True):
        said = replace(point, threshold=signs[0] * point.threshold, reward=sign * point.reward)
        assert astuple(mirror) == astuple(said)


def attempt(model: CMDP) -> tuple[list[FrontierPoint], str]:
    """The frontier of the first constraint, or why there is none."""
    try:
        return frontier(model, 0, points=4), ""
    except InputError as refusal:
        return [], str(refusal)


@settings(max_examples=25)
@given(cmdps(constraints=(1, 3), states=8), flags, st.booleans())
@pytest.mark.parametrize("method", ["pqa-alm", "npg-pd"])
def test_fixed_budgets_give_the_same_run(method, model, which, objective):
    signs, sign = signs_of(model, which, objective)
    other = turned(model, which[: model.constraint_count], objective)
    steps = {"steps": 4} if method == "npg-pd" else {"outer": 2, "inner": 2}
    run, mirror = (trajectory(one, method, keep=[0, 2], **steps) for one in (model, other))
    np.testing.assert_array_equal(mirror.rewards, sign * run.rewards)
    for name in ("margins", "weights", "multipliers", "policy", "policies"):
        np.testing.assert_array_equal(getattr(mirror, name), getattr(run, name))
    gaps = [cmdpax.certified_gaps(*pair) for pair in ((model, run), (other, mirror))]
    np.testing.assert_array_equal(*gaps)
    results = [solve(one, method, **steps) for one in (model, other)]
    assert_mirrored(*results, signs, sign)
    if results[0].trace:  # an infeasible model has none
        assert (results[0].averaged is not None) == (method == "npg-pd")


# ---- equalities and ranges
@settings(max_examples=40)
@given(cmdps(constraints=(1, 1), states=12), st.sampled_from([0.0, 1e-9, 0.01, 0.3]))
def test_two_bounds_are_two_constraints(model, width):
    """An equality or a range has the answer of its two inequalities, and one signed price."""
    low = float(model.thresholds[0])
    size = float(np.ptp(model.constraints)) / (1 - model.discount)
    high = low + width * size
    rows = np.repeat(model.constraints, 2, axis=0)
    apart = model.replace(constraints=rows, thresholds=[low, high], senses=[">=", "<="])
    entry, sense = ((low, high), "in") if high > low else (low, "==")
    together = model.replace(thresholds=[entry], senses=[sense])
    result, both = solve(together), solve(apart)
    assert result.status == both.status
    assert result.policy.tobytes() == both.policy.tobytes()
    assert result.reward == both.reward and result.values[0] == both.values[0]
    assert result.margins[0] == min(both.margins)
    price = both.multipliers[0] - both.multipliers[1]
    assert result.multipliers[0] == pytest.approx(price, rel=1e-6)  # units differ by rounding
    assert result.certificate.dual_bound == pytest.approx(both.certificate.dual_bound, rel=1e-12)
    violation = both.certificate.violation  # its unit may be a floor, which knows both bounds
    assert result.certificate.violation == pytest.approx(violation, rel=1e-9)
    check(together, result)
    check(apart, both)


def unconstrained() -> tuple[CMDP, float, float]:
    """A model of one constraint, its best reward without it, and the constraint's value there."""
    model = build("random", 12, 3, 3, 0.9, 1)
    free = solve(model.replace(constraints=[], thresholds=[]))
    form = StandardForm.of(model)
    values = form.criterion.values(form, model.by_choice(free.policy), model.constraints[0])
    return model, free.reward, float(values @ model.initial)


def test_prices_are_signed_by_the_bound_that_pays():
    """The lower one: positive. Turned round it is the upper one."""
    model, reward, value = unconstrained()
    for shift, sign in ((0.5, 1.0), (-0.5, -1.0)):
        range_of_its_own = tuple(sorted([value + shift, value + 2 * shift]))
        for entry in ((value + shift, value + shift), range_of_its_own):
            bounded = model.replace(thresholds=[entry])
            result, mirror = solve(bounded), solve(turned(bounded, [True], True))
            assert np.sign(result.multipliers[0]) == sign and result.reward < reward
            assert mirror.reward == pytest.approx(-result.reward, abs=1e-5)
            assert mirror.values == pytest.approx(-result.values, abs=1e-5)
            assert mirror.multipliers == pytest.approx(-result.multipliers, rel=1e-3)


def test_a_range_leaves_the_room_of_its_nearer_bound():
    model, reward, value = unconstrained()
    for low, high in ((1, 3), (3, 1)):
        result = solve(model.replace(thresholds=[(value - low, value + high)]))
        assert result.margins[0] == pytest.approx(1.0) and result.multipliers[0] == 0
        assert result.reward == pytest.approx(reward)
