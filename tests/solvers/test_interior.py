"""The interior-point method: against closed forms and dense algebra, and in few steps."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import brentq

import cmdpax
from cmdpax import utilities
from cmdpax.errors import NumericalError
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers import climb
from cmdpax.solvers.interior import _System, is_worth_while


def one_state(cost, most):
    """One state: visits are the policy itself."""
    count = len(cost)
    transitions = np.ones((1, count, 1))
    return cmdpax.CMDP(
        transitions, np.zeros((1, count)), [[cost]], [10 * most], 0, 0.9, senses=["<="]
    )


def test_under_a_limit_the_nearest_visits_are_an_exponential_family():
    """`max -KL(d, q)` with `c.d <= b` is `d ~ q exp(-price c)`, the price such that it binds."""
    cost, most, q = np.array([0.0, 1.0, 2.0, 5.0]), 1.0, np.array([0.1, 0.4, 0.2, 0.3])

    def tilted(price):
        mass = q * np.exp(-price * cost)
        return mass / mass.sum()

    price = brentq(lambda x: tilted(x) @ cost - most, 0, 50)
    result = cmdpax.solve(one_state(cost, most), utility=utilities.kl(q[None]), eps=1e-6)
    assert result.status == "certified" and result.method == "interior-point"
    assert result.policy[0] == pytest.approx(tilted(price), abs=1e-3)
    assert result.multipliers[0] == pytest.approx(price / 10, rel=1e-3)  # of 10 visits in all


def test_imitation_without_limits_is_what_was_recorded():
    model = cmdpax.environments.cliff_world()
    free = model.replace(constraints=[], thresholds=[], senses=None)
    policy = np.random.default_rng(0).dirichlet(np.ones(4), free.states)
    form = StandardForm.of(free)
    share = form.criterion.share(form, free.by_choice(policy))
    for of in ("policy", "recorded"):
        utility = utilities.kl(share[:, None] * policy, of=of)
        result = cmdpax.solve(free, utility=utility, eps=1e-6)
        assert result.method == "interior-point"
        assert -1e-6 <= result.reward <= 1e-9


@pytest.mark.parametrize("share", [1.0, 0.7])
@pytest.mark.parametrize("discount", [0.95, 0.99])
def test_a_limit_that_binds_takes_few_steps(share, discount):
    model = cmdpax.environments.grid_world(15, 15, discount=discount)
    model = model.replace(thresholds=share * model.thresholds)
    result = cmdpax.solve(model, utility=utilities.entropy(), eps=1e-4)
    assert result.status == "certified" and result.method == "interior-point"
    assert result.multipliers[0] > 0 and result.trace[-1]["evaluations"] <= 25
    cmdpax.check(model, result)


def test_visits_that_are_tiny_under_the_uniform_policy_do_not_hold_it_up():
    """Far cells have 1e-12 of the visits of a random walk, where the likelihood is steep."""
    model = cmdpax.environments.grid_world(46, 46, discount=0.95).replace(initial=0)
    log = np.random.default_rng(0).dirichlet(np.ones(model.choices))
    utility = utilities.kl(model.as_table(log), of="recorded")
    result = cmdpax.solve(model, utility=utility, eps=1e-4)
    assert result.status == "certified" and result.method == "interior-point"
    assert result.trace[-1]["evaluations"] <= 40
    cmdpax.check(model, result)


def test_a_start_outside_the_domain_gives_way_to_the_uniform_policy():
    """V is positive from the initial state alone, and so is what the logarithm is of."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, :, 0], transitions[1, :, 2], transitions[2, :, 2] = 0.5, 1, 1
    transitions[0, 0, 1] = transitions[0, 1, 2] = 0.5
    pays = np.array([[1.0, 1.0], [-100.0, -100.0], [0.0, 0.1]])
    model = cmdpax.CMDP(transitions, pays, [], [], 0, 0.01)
    utility = utilities.fairness(["reward"]) + utilities.entropy()
    result = cmdpax.solve(model, utility=utility, eps=1e-4)
    assert result.status == "certified" and result.method == "interior-point"


def test_an_equality_has_no_inside_and_is_met():
    model = cmdpax.environments.grid_world(6, 6)
    model = model.replace(thresholds=0.8 * model.thresholds, senses=["=="])
    result = cmdpax.solve(model, utility=utilities.entropy("pairs"), eps=1e-4)
    assert result.status == "certified"
    cmdpax.check(model, result)


def test_values_beside_visits_are_part_of_the_system():
    """A sum of terms of visits and of values agrees with the accelerated oracle."""
    model = cmdpax.environments.grid_world(5, 5)
    utility = utilities.entropy() + 2.0 * utilities.soft_limit("hazard visits", most=0.1)
    result = cmdpax.solve(model, utility=utility, eps=1e-5)
    other = cmdpax.solve(model, "npg-alm", utility=utility, eps=1e-3)
    assert result.method == "interior-point"
    width = np.ptp(result.certificate.ranges[0])
    assert other.reward == pytest.approx(result.reward, abs=2e-3 * width)


def test_a_state_that_is_never_reached_has_no_say():
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, :, 0] = transitions[2, :, 0] = 1
    model = cmdpax.CMDP(transitions, np.zeros((3, 2)), [], [], 0, 0.9)
    result = cmdpax.solve(model, utility=utilities.entropy(), eps=1e-6)
    assert result.status == "certified" and np.isfinite(result.policy).all()


@pytest.mark.parametrize("size", [1.0, 1e-9])
def test_a_system_is_solved_as_dense_algebra_would(size):
    random, S, A = np.random.default_rng(0), 6, 3
    flow = np.repeat(np.eye(S), A, axis=1) - 0.9 * random.dirichlet(np.ones(S), S * A).T
    owned = np.repeat(np.eye(S), A, axis=0)
    pairs, states = size * random.uniform(0.5, 2, S * A), random.uniform(0.5, 2, S)
    rows, right, lost = (random.normal(size=n) for n in ((2, S * A), S * A, S))
    system = _System(sp.csr_array(flow), sp.csr_array(owned), pairs, states, rows)
    dmu, dV = system.solve(right, lost)
    matrix = np.diag(pairs) + owned @ np.diag(states) @ owned.T + rows.T @ rows
    whole = np.block([[matrix, flow.T], [flow, np.zeros((S, S))]])
    expected = np.linalg.solve(whole, np.append(right, lost))
    assert np.append(dmu, dV) == pytest.approx(expected, rel=1e-5, abs=1e-6 * abs(expected).max())


def test_it_is_left_where_systems_fill_up_or_rounding_ends_it(monkeypatch):
    forms = [
        StandardForm.of(model)
        for model in (
            cmdpax.environments.grid_world(60, 60),
            cmdpax.environments.garnet(3000, branching=10),
            cmdpax.environments.garnet(8000, actions=3, branching=2),  # few neighbours, all over
        )
    ]
    assert [is_worth_while(form) for form in forms] == [True, False, False]

    def fail(form, task):
        raise NumericalError("as if.")

    monkeypatch.setattr(climb, "interior_point", fail)
    model = cmdpax.environments.grid_world(5, 5)
    result = cmdpax.solve(model, utility=utilities.entropy("pairs"), eps=1e-3)
    assert result.status == "certified" and result.method == "accelerated-npg"
