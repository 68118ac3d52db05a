from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP, CertificateError, check, solve
from cmdpax.environments import cliff_world, deep_sea, garnet
from models import cmdps


@given(cmdps())
def test_accepts_what_the_solver_claims(model):
    check(model, solve(model))


MODEL = garnet(states=30, constraints=2, seed=1)
RESULT = solve(MODEL)
IMPOSSIBLE = garnet(states=30, constraints=2, seed=1, feasible=False)
REFUSED = solve(IMPOSSIBLE)


def with_proof(result, **changes):
    return replace(result, certificate=replace(result.certificate, **changes))


def other_policy(result):
    policy = result.policy.copy()
    policy[3] = np.roll(policy[3], 1)
    return policy


proof = RESULT.certificate
MUTATIONS = {
    "policy": replace(RESULT, policy=other_policy(RESULT)),
    "policy not a distribution": replace(RESULT, policy=RESULT.policy * 1.001),
    "policy negative": replace(
        RESULT, policy=RESULT.policy - np.eye(4)[0] * 0.1 + np.eye(4)[1] * 0.1
    ),
    "policy shape": replace(RESULT, policy=RESULT.policy[:-1]),
    "reward": replace(RESULT, reward=RESULT.reward + 1e-6),
    "margins": replace(RESULT, margins=RESULT.margins + 1e-6),
    "values": replace(RESULT, values=RESULT.values + 1e-6),
    "scaled gap": replace(RESULT, scaled_gap=RESULT.scaled_gap - 1e-9),
    "scaled violation": replace(RESULT, scaled_violation=RESULT.scaled_violation + 1e-9),
    "digest": replace(RESULT, digest="0" * 64),
    "multipliers": replace(RESULT, multipliers=RESULT.multipliers + 1),
    "multipliers not numbers": replace(RESULT, multipliers=RESULT.multipliers * np.nan),
    "thresholds": replace(RESULT, thresholds=RESULT.thresholds + 1),
    "senses": replace(RESULT, senses=("<=", "<=")),
    "status": replace(RESULT, status="infeasible"),
    "status unknown": replace(RESULT, status="perfect"),
    "eps": replace(RESULT, eps=1e-16),
    "reward bounds": with_proof(
        RESULT, reward_bounds=(proof.reward_bounds[0] + 1e-9, proof.reward_bounds[1] + 1e-9)
    ),
    "margin bounds": with_proof(RESULT, margin_bounds=proof.margin_bounds + 1e-9),
    "dual bound": with_proof(RESULT, dual_bound=proof.dual_bound - 1e-9),
    "weights": with_proof(RESULT, weights=proof.weights * 1.01),
    "weights negative": with_proof(RESULT, weights=-proof.weights),
    "value potentials": with_proof(
        RESULT, value_potentials=proof.value_potentials + 1e-9 * np.arange(30)
    ),
    "dual potential": with_proof(
        RESULT, dual_potential=proof.dual_potential + 1e-9 * np.arange(30)
    ),
    "dual potential not finite": with_proof(RESULT, dual_potential=proof.dual_potential * np.nan),
    "potential shape": with_proof(RESULT, dual_potential=proof.dual_potential[:-1]),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_rejects_a_mutated_result(name):
    with pytest.raises(CertificateError, match="check failed"):
        check(MODEL, MUTATIONS[name])


@pytest.mark.parametrize(
    "name",
    ["policy", "reward", "values", "margins", "senses", "constraint_names", "eps", "scaled_gap"],
)
@pytest.mark.parametrize(
    "value",
    [None, "x", np.zeros(0), np.full(30, np.nan), np.inf],
    ids=["None", "text", "empty", "nan", "inf"],
)
def test_what_cannot_be_read_is_not_proven(name, value):
    with pytest.raises(CertificateError, match="check failed"):
        check(MODEL, replace(RESULT, **{name: value}))


def test_every_field_of_the_certificate_has_a_mutation():
    covered = " ".join(MUTATIONS) + " ray ray bound ray potential"
    assert all(field.name.replace("_", " ") in covered for field in fields(proof))


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


def test_rejects_a_certified_status_without_the_accuracy():
    loose = solve(MODEL, eps=0.5)
    assert loose.scaled_gap > 1e-6 or loose.scaled_violation > 1e-6
    with pytest.raises(CertificateError, match="certified"):
        check(MODEL, replace(loose, eps=1e-9))


def test_rejects_another_models_result():
    with pytest.raises(CertificateError, match="another model"):
        check(deep_sea(), solve(cliff_world()))


def test_says_what_it_proved():
    text = str(check(MODEL, RESULT))
    assert text.startswith("verified: certified at eps 1e-06; reward in [") and "gap <=" in text


def test_rejects_other_names_and_actions_that_do_not_exist():
    available = np.ones((30, 4), dtype=bool)
    available[4, 1:] = False
    named = MODEL.replace(
        constraint_names=["a", "b"], available=available, thresholds=MODEL.thresholds * 0.9
    )
    result = solve(named)
    check(named, result)
    with pytest.raises(CertificateError, match="names"):
        check(named, replace(result, constraint_names=("a", "c")))
    policy = result.policy.copy()
    policy[4] = [
        0,
        1,
        0,
        0,
    ]  # the copy of the only action: same values, but there is no such action
    with pytest.raises(CertificateError, match="not available"):
        check(named, replace(result, policy=policy))
    assert named.digest != named.replace(available=None).digest


def test_probabilities_that_leak_do_not_hide_a_violation():
    """Rows that sum to 1 - 1e-9 lose 1e-9 / (1 - gamma) of every value: they are judged as the
    distributions they stand for.
    """
    from cmdpax import CMDP

    model = CMDP(
        np.ones((1, 2, 1)), [[1.0, 0.0]], [[[1.0, 0.0]]], [5000.0], [1.0], 0.9999, senses="<="
    )
    result = solve(model)
    leaking = replace(result, policy=np.array([[0.5 + 4e-6, 0.5 - 4e-6 - 9e-10]]))
    with pytest.raises(CertificateError):
        check(model, leaking)


def test_wrong_types_are_input_errors():
    from cmdpax import InputError

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
