"""Models whose rows are a function: the same answers as stored ones, and what is refused."""

import numpy as np
import pytest

import cmdpax
from cmdpax.errors import CertificateError, InputError
from cmdpax.model.row_function import BLOCK

RATES = np.array([0.0, 0.3, 0.6, 0.9])
KIND = {"initial": 3, "discount": 0.9, "thresholds": [1.5], "senses": "<="}


def queue(states, break_row=None):
    """Rows of a queue with four rates of service; the limit is on energy."""

    def rows(first, last):
        s, n = np.arange(first, last)[:, None, None], last - first
        served = np.where(s > 0, RATES[:, None], 0.0)
        came = np.where(s < states - 1, 0.4, 0.0)
        up, down = came * (1 - served), (1 - came) * served
        to = np.concatenate([np.minimum(s + 1, states - 1), np.maximum(s - 1, 0), s], 2)
        successors = np.broadcast_to(to, (n, 4, 3)).copy()
        chances = np.concatenate([up, down, 1 - up - down], 2)
        reward = np.broadcast_to(-s[..., 0] / states, (n, 4)).copy()
        parts = [successors, chances, reward, np.broadcast_to(RATES**2, (1, n, 4)).copy()]
        if break_row is not None:
            break_row(parts, first)
        return tuple(parts)

    return rows


@pytest.mark.parametrize("states", [40, 3000, BLOCK + 100])
def test_the_same_optimum_as_stored(states):
    model = cmdpax.CMDP.from_rows(queue(states), states=states, **KIND)
    stored = cmdpax.CMDP.from_rows(queue(states), states=states, stored=True, **KIND)
    result, reference = cmdpax.solve(model), cmdpax.solve(stored)
    assert result.status == reference.status == "certified"
    low, high = reference.certificate.reward_bounds[0], reference.certificate.dual_bound
    width = np.ptp(result.certificate.ranges[0])
    assert low - 2e-6 * width <= result.reward <= high + 2e-6 * width
    assert result.certificate.dual_bound >= low
    assert cmdpax.check(model, result).status == "certified"


def test_the_policy_is_feasible_in_the_stored_model():
    """Evaluated by linear algebra on the stored rows."""
    model = cmdpax.CMDP.from_rows(queue(500), states=500, **KIND)
    stored = cmdpax.CMDP.from_rows(queue(500), states=500, stored=True, **KIND)
    result, rows = cmdpax.solve(model), stored.transitions
    policy = result.policy.astype(float).reshape(-1)
    chain = np.zeros((500, 500))
    np.add.at(chain, rows.state_of, policy[:, None] * rows.matrix.toarray())
    visits = np.linalg.solve(np.eye(500) - 0.9 * chain.T, stored.initial)
    energy = np.repeat(visits, 4) * policy @ stored.constraints[0]
    assert energy <= 1.5 + 1e-6 * np.ptp(result.certificate.ranges[1]) + 1e-9
    np.testing.assert_allclose(energy, result.values[0], atol=1e-8)


def test_without_limits_the_plan_is_deterministic_and_optimal():
    kind = {"initial": {3: 0.5, 30: 0.5}, "discount": 0.95}

    def free(first, last):
        return queue(200)(first, last)[:3]

    model = cmdpax.CMDP.from_rows(free, states=200, minimise=False, **kind)
    result = cmdpax.solve(model)
    stored = cmdpax.solve(cmdpax.CMDP.from_rows(free, states=200, stored=True, **kind))
    assert result.status == "certified"
    np.testing.assert_allclose(result.reward, stored.reward, rtol=1e-6)
    assert set(np.unique(result.policy)) == {0, 1}
    assert cmdpax.check(model, result).gap >= 0


@pytest.mark.parametrize("sign", [1, -1])
def test_orientation(sign):
    """A cost that is minimised, and a limit from below on minus the energy."""

    def turned(first, last):
        successors, chances, reward, energy = queue(300)(first, last)
        return successors, chances, sign * reward, sign * energy

    kind = {**KIND, "minimise": sign < 0, "thresholds": [sign * 1.5]}
    kind["senses"] = "<=" if sign > 0 else ">="
    model = cmdpax.CMDP.from_rows(turned, states=300, **kind)
    result = cmdpax.solve(model)
    plain = cmdpax.solve(cmdpax.CMDP.from_rows(queue(300), states=300, **KIND))
    np.testing.assert_allclose(sign * result.reward, plain.reward, rtol=1e-9)
    np.testing.assert_array_equal(result.policy, plain.policy)
    cmdpax.check(model, result)


def test_infeasible_with_a_proof():
    model = cmdpax.CMDP.from_rows(queue(100), states=100, **{**KIND, "thresholds": [-0.1]})
    result = cmdpax.solve(model)
    assert result.status == "infeasible"
    assert cmdpax.check(model, result).status == "infeasible"


def test_check_refuses_a_false_claim_and_another_model():
    from dataclasses import replace

    model = cmdpax.CMDP.from_rows(queue(100), states=100, **KIND)
    result = cmdpax.solve(model)
    proof = replace(result.certificate, dual_bound=result.certificate.dual_bound - 1e-3)
    with pytest.raises(CertificateError, match="dual bound"):
        cmdpax.check(model, replace(result, certificate=proof))
    with pytest.raises(CertificateError, match="probabilities"):
        cmdpax.check(model, replace(result, policy=2 * result.policy))
    other = cmdpax.CMDP.from_rows(queue(100), states=100, **{**KIND, "discount": 0.8})
    with pytest.raises(CertificateError, match="another model"):
        cmdpax.check(other, result)


def _sum(parts, first):
    parts[1][0, 2, 0] += 0.1 * (first > 0)


def _out(parts, first):
    parts[0][-1, 1, 2] = 10**6


def _shape(parts, first):
    parts[2] = parts[2][:, :3]


def _nan(parts, first):
    parts[3][0, 0, 0] = np.nan


def _negative(parts, first):
    parts[1][0, 0, :2] = -0.5, 1.5


def _float(parts, first):
    parts[0] = parts[0].astype(float)


def _random(parts, first):
    parts[2] += np.random.default_rng().random(parts[2].shape)


@pytest.mark.parametrize(
    ("break_row", "words"),
    [
        (_sum, f"probabilities of state {BLOCK // 2}, action 2 sum to 1.1"),
        (_out, f"state {BLOCK - 1}, action 1 leads to 1000000; states are 0"),
        (_shape, r"rows\(0, \d+\): reward of shape"),
        (_nan, "constraint c0 of state 0, action 0 is nan"),
        (_negative, "state 0, action 0 has a probability -0.5"),
        (_float, "successors must be integers"),
        (_random, "without random draws"),
    ],
)
def test_refusals(break_row, words):
    with pytest.raises(InputError, match=words) as caught:
        cmdpax.CMDP.from_rows(queue(2 * BLOCK, break_row), states=2 * BLOCK, **KIND)
    assert str(caught.value).count("\n") == 0


def test_other_refusals():
    with pytest.raises(InputError, match="rows: it must be a function"):
        cmdpax.CMDP.from_rows(3, states=5, **KIND)
    with pytest.raises(InputError, match="discount"):
        cmdpax.CMDP.from_rows(queue(5), states=5, **{**KIND, "discount": 1.0})
    with pytest.raises(InputError, match=r"rows\(0, 1\): return"):
        cmdpax.CMDP.from_rows(lambda first, last: 3, states=5, **KIND)
    model = cmdpax.CMDP.from_rows(queue(50), states=50, **KIND)
    with pytest.raises(InputError, match="stored=True"):
        cmdpax.solve(model, "pqa-alm")
    with pytest.raises(InputError, match="stored=True"):
        cmdpax.trajectory(model, "pqa-alm")


def test_a_function_that_changes_its_mind_later_is_refused():
    calls = []

    def rows(first, last):
        calls.append(first)
        parts = queue(60)(first, last)
        if len(calls) > 6:
            parts[0][0, 0, 0] = 10**6
        return parts

    model = cmdpax.CMDP.from_rows(rows, states=60, **KIND)
    with pytest.raises(InputError, match="leads to 1000000"):
        cmdpax.solve(model)


def test_prints():
    model = cmdpax.CMDP.from_rows(queue(50), states=50, **KIND)
    assert repr(model) == (
        "FunctionCMDP(states=50, actions=4, successors<=3, constraints=1, discount=0.9)"
    )
    assert "whose rows are a function" in str(model)
