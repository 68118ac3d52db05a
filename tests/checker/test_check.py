from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, CertificateError, InputError, check, solve
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.model.result import UtilityProof
from models import cmdps, turned


@given(cmdps(), st.lists(st.booleans(), min_size=4, max_size=4), st.booleans())
def test_accepts_what_the_solver_claims(model, which, objective):
    model = turned(model, which[: model.constraint_count], objective)
    result = solve(model)
    verified = check(model, result)
    assert (verified.status, verified.eps) == (result.status, 1e-6)
    proof = result.certificate
    for name in ("reward_bounds", "dual_bound", "gap", "violation"):
        assert getattr(verified, name) == pytest.approx(getattr(proof, name), rel=1e-12, abs=1e-12)


MODEL = garnet(states=30, constraints=2, seed=1)
RESULT = solve(MODEL)
IMPOSSIBLE = garnet(states=30, constraints=2, seed=1, feasible=False)
REFUSED = solve(IMPOSSIBLE)
# a floor, a ceiling and a range whose upper bound has a price; minimised
TURNED = MODEL.replace(
    reward=-MODEL.reward,
    minimise=True,
    constraints=[MODEL.constraints[0], -MODEL.constraints[1], MODEL.reward],
    thresholds=[MODEL.thresholds[0], -MODEL.thresholds[1], (0.0, RESULT.reward - 0.1)],
    senses=[">=", "<=", "in"],
)
MINIMISED = solve(TURNED)


def with_proof(result, **changes):
    return replace(result, certificate=replace(result.certificate, **changes))


def with_limits(result, **changes):
    return replace(result, limits=replace(result.limits, **changes))


def other_policy(result):
    policy = result.policy.copy()
    policy[3] = np.roll(policy[3], 1)
    return policy


def mutations(result):
    """False claims, each by the name of the field that makes it false."""
    proof, one = result.certificate, np.eye(len(result.values))[0]
    less = 1.0 if result.minimise else -1.0  # to the better side
    low, high = proof.reward_bounds
    return {
        "policy": replace(result, policy=other_policy(result)),
        "policy not a distribution": replace(result, policy=result.policy * 1.001),
        "policy negative": replace(
            result, policy=result.policy - np.eye(4)[0] * 0.1 + np.eye(4)[1] * 0.1
        ),
        "policy shape": replace(result, policy=result.policy[:-1]),
        "reward": replace(result, reward=result.reward + 1e-6),
        "margins": replace(result, margins=result.margins + 1e-6),
        "values": replace(result, values=result.values + 1e-6),
        "scaled gap": replace(result, scaled_gap=result.scaled_gap - 1e-9),
        "scaled violation": replace(result, scaled_violation=result.scaled_violation + 1e-9),
        "digest": replace(result, fingerprint="0" * 64),
        "multipliers": replace(result, multipliers=result.multipliers + 1),
        "multipliers not numbers": replace(result, multipliers=result.multipliers * np.nan),
        "thresholds": with_limits(result, bounds=result.limits.bounds + 1),
        "one threshold": with_limits(result, bounds=result.limits.bounds + one[:, None]),
        "senses": with_limits(result, senses=("<=",) * len(result.senses)),
        "names": with_limits(result, names=("x",) * len(result.senses)),
        "minimise": replace(result, minimise=not result.minimise),
        "minimise in the proof": with_proof(result, minimise=not result.minimise),
        "status": replace(result, status="infeasible"),
        "status unknown": replace(result, status="perfect"),
        "eps": replace(result, eps=0.0),
        "eps beyond 1": replace(result, eps=1.5),
        "reward bounds": with_proof(result, reward_bounds=(low + 1e-9, high + 1e-9)),
        "margin bounds": with_proof(result, margin_bounds=proof.margin_bounds + 1e-9),
        "margin bounds below": with_proof(result, margin_bounds=proof.margin_bounds - 1e-9),
        "dual bound": with_proof(result, dual_bound=proof.dual_bound + less * 1e-9),
        "dual bound beyond": with_proof(result, dual_bound=proof.dual_bound - less * 1.0),
        "weights": with_proof(result, weights=proof.weights * 1.01),
        "weights negative": with_proof(result, weights=-proof.weights),
        "value potentials": with_proof(
            result, value_potentials=proof.value_potentials + 1e-9 * np.arange(30)
        ),
        "value potentials turned": with_proof(result, value_potentials=-proof.value_potentials),
        "dual potential": with_proof(
            result, dual_potential=proof.dual_potential + 1e-9 * np.arange(30)
        ),
        "dual potential not finite": with_proof(
            result, dual_potential=proof.dual_potential * np.nan
        ),
        "ranges": with_proof(result, ranges=proof.ranges * [[1.0, 1.001]]),
        "ranges below": with_proof(result, ranges=proof.ranges - [[1e-9, 0.0]]),
        "ranges missing": with_proof(result, ranges=proof.ranges * np.nan),
        "range potentials": with_proof(result, range_potentials=proof.range_potentials * 1.001),
        "sizes and size potentials": with_proof(
            result, sizes=np.full(len(proof.ranges), 1e3), size_potentials=proof.value_potentials
        ),
        "gauge": with_proof(result, gauge=np.arange(30.0)),
        "gauge negative": with_proof(result, gauge=np.full(30, -1.0)),
        "utility": with_proof(
            result, utility=UtilityProof(np.zeros(1), None, np.zeros((1, 30)), np.zeros(1), 0.0)
        ),
        "potential shape": with_proof(result, dual_potential=proof.dual_potential[:-1]),
    }


def shortest_path(may_stay):
    """To wait costs nothing in state 2, and to go on costs; it is left by one of two choices."""
    rows = [[{0: 0.5, 1: 0.5}, {2: 1.0}], [{2: 1.0}, {3: 1.0}], [{2: 1.0}, {3: 1.0}], [{3: 1.0}]]
    pays, counts = [1.0, 1.0, 3.0, 5.0, 0.0, 1.0, 0.0], [[2.0, 0.5, 0.5, 0.0, 0.0, 0.0, 0.0]]
    kind = {"goal": [3], "minimise": True, "senses": "<=", "may_stay": may_stay}
    return CMDP(rows, pays, counts, [1.0], 0, 1.0, **kind)


CRITERIA = {
    "average": MODEL.replace(criterion="average", thresholds=[0.3, 0.3]),
    "finite": MODEL.replace(discount=1.0, horizon=4, thresholds=[-9.0, -9.0]),
    "total": shortest_path(False),
    "may stay": shortest_path(True),
}


@pytest.mark.parametrize("name", CRITERIA)
def test_claims_of_every_criterion_are_judged(name):
    model = CRITERIA[name]
    result = solve(model)
    assert check(model, result).status == "certified"
    proof = result.certificate
    better = 1e-6 if result.minimise else -1e-6
    for changes in (
        {"dual_bound": proof.dual_bound + better},
        {"dual_potential": proof.dual_potential[:-1]},
        {"value_potentials": -1 - proof.value_potentials},
    ):
        with pytest.raises(CertificateError, match="check failed"):
            check(model, with_proof(result, **changes))


NAMES = list(mutations(RESULT))


@pytest.mark.parametrize(("model", "result"), [(MODEL, RESULT), (TURNED, MINIMISED)])
@pytest.mark.parametrize("name", NAMES)
def test_rejects_a_mutated_result(name, model, result):
    assert check(model, result).status == "certified"
    with pytest.raises(CertificateError, match="check failed"):
        check(model, mutations(result)[name])


def test_every_field_of_the_certificate_has_a_mutation():
    covered = " ".join(NAMES) + " ray ray bound ray potential"
    assert all(field.name.replace("_", " ") in covered for field in fields(RESULT.certificate))


def test_a_signed_price_pays_for_one_bound():
    weights = MINIMISED.certificate.weights
    assert weights[2] < 0  # more room above the range would be worth something
    for other in (weights * [1, 1, -1], weights * [1, 1, 0]):
        claim = with_proof(MINIMISED, weights=other)
        with pytest.raises(CertificateError, match="dual bound"):
            check(TURNED, replace(claim, multipliers=other))
    for i in (0, 1):  # one bound, one sign
        negative = weights - np.eye(3)[i]
        claim = with_proof(MINIMISED, weights=negative)
        with pytest.raises(CertificateError, match="must be >= 0, except those of == and ranges"):
            check(TURNED, replace(claim, multipliers=negative))


@pytest.mark.parametrize(
    "change",
    [
        *((replace, name) for name in ("policy", "reward", "values", "margins", "limits")),
        *((replace, name) for name in ("eps", "scaled_gap", "multipliers")),
        *((with_limits, name) for name in ("senses", "names", "bounds")),
        *((with_proof, name) for name in ("margin_bounds", "value_potentials", "reward_bounds")),
    ],
    ids=lambda change: change[1],
)
@pytest.mark.parametrize(
    "value",
    [None, "x", np.zeros(0), np.full(30, np.nan), np.inf],
    ids=["None", "text", "empty", "nan", "inf"],
)
def test_what_cannot_be_read_is_not_proven(change, value):
    alter, name = change
    with pytest.raises(CertificateError, match="check failed"):
        check(MODEL, alter(RESULT, **{name: value}))


RAY = REFUSED.certificate
RAY_MUTATIONS = {
    "no ray": with_proof(REFUSED, ray=None),
    "zero ray": with_proof(REFUSED, ray=RAY.ray * 0),
    "negative ray": with_proof(REFUSED, ray=-RAY.ray),
    "other ray": with_proof(REFUSED, ray=RAY.ray[::-1].copy()),
    "bound": with_proof(REFUSED, ray_bound=RAY.ray_bound - 1e-9),
    "bound not negative": with_proof(REFUSED, ray_bound=0.1),
    "potential": with_proof(REFUSED, ray_potential=RAY.ray_potential + np.arange(30)),
}


@pytest.mark.parametrize("name", RAY_MUTATIONS)
def test_rejects_a_mutated_infeasibility_proof(name):
    check(IMPOSSIBLE, REFUSED)
    with pytest.raises(CertificateError, match="check failed"):
        check(IMPOSSIBLE, RAY_MUTATIONS[name])


def test_accepts_an_equality_that_is_met():
    """Its two rows leave no room: their ray folds to nothing, and is not claimed."""
    for threshold in (RESULT.values[0] + 0.5, RESULT.values[0] - 0.5):
        model = MODEL.replace(
            constraints=MODEL.constraints[:1], thresholds=[threshold], senses="=="
        )
        result = solve(model)
        verified = check(model, result)
        assert max(result.scaled_gap, result.scaled_violation) <= 1e-6
        assert verified.violation <= 1e-6 and result.certificate.ray is None


def test_an_equality_out_of_reach_is_refused_with_a_signed_ray():
    high = MODEL.replace(thresholds=[1e3], constraints=MODEL.constraints[:1], senses="==")
    low = high.replace(thresholds=[-1e3])
    for model, sign in ((high, 1.0), (low, -1.0)):
        result = solve(model)
        assert check(model, result).status == result.status == "infeasible"
        assert np.sign(result.certificate.ray) == sign
        with pytest.raises(CertificateError, match="ray"):
            check(model, with_proof(result, ray=-result.certificate.ray))


def test_rejects_a_certified_status_without_the_accuracy():
    loose = solve(MODEL, "corrective-alm", eps=0.5)
    assert loose.scaled_gap > 1e-6 or loose.scaled_violation > 1e-6
    with pytest.raises(CertificateError, match="certified"):
        check(MODEL, replace(loose, eps=1e-9))


def test_rejects_another_models_result():
    with pytest.raises(CertificateError, match="another model"):
        check(deep_sea(), solve(cliff_world()))


def test_says_what_it_proved():
    text = str(check(MODEL, RESULT))
    assert text.startswith("verified: certified at eps 1e-06; reward in [") and "gap <=" in text
    assert f"optimum <= {RESULT.certificate.dual_bound:.12g}" in text
    assert f"optimum >= {MINIMISED.certificate.dual_bound:.12g}" in str(check(TURNED, MINIMISED))


def test_rejects_other_names_and_actions_that_do_not_exist():
    available = np.ones((30, 4), dtype=bool)
    available[4, 1:] = False
    named = MODEL.replace(
        constraint_names=["a", "b"], available=available, thresholds=MODEL.thresholds * 0.9
    )
    result = solve(named)
    check(named, result)
    with pytest.raises(CertificateError, match="names"):
        check(named, with_limits(result, names=("a", "c")))
    policy = result.policy.copy()
    policy[4] = np.eye(4)[1]  # the copy of the only action: same values, but no such action
    with pytest.raises(CertificateError, match="not available"):
        check(named, replace(result, policy=policy))
    assert named.digest != MODEL.digest


def test_probabilities_that_leak_do_not_hide_a_violation():
    """Rows that sum to 1 - 1e-9 lose 1e-9 / (1 - gamma) of every value: they are judged as the
    distributions they stand for.
    """
    model = CMDP(
        np.ones((1, 2, 1)), [[1.0, 0.0]], [[[1.0, 0.0]]], [5000.0], [1.0], 0.9999, senses="<="
    )
    result = solve(model)
    leaking = replace(result, policy=np.array([[0.5 + 4e-6, 0.5 - 4e-6 - 9e-10]]))
    with pytest.raises(CertificateError):
        check(model, leaking)


def test_wrong_types_are_input_errors():
    for model, result in (
        (None, RESULT),
        (MODEL, None),
        (RESULT, MODEL),
        (MODEL, replace(RESULT, certificate=None)),
    ):
        with pytest.raises(InputError, match="a CMDP and a Result"):
            check(model, result)


@given(st.integers(0, 2**32 - 1))
def test_accepts_constant_constraints_under_loose_budgets(seed):
    rng = np.random.default_rng(seed)
    rows, budget = np.full((1, 2, 2), 0.01 * rng.random()), 10.0 ** rng.uniform(0, 6)
    model = CMDP(
        rng.dirichlet([1, 1], (2, 2)),
        rng.random((2, 2)),
        rows,
        [budget],
        [1.0, 0.0],
        0.99,
        senses=["<="],
    )
    assert check(model, solve(model)).status == "certified"
