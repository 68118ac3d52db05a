import pickle
from dataclasses import replace

import numpy as np
import pytest

from cmdpax import CMDP, Certificate, Limits, Result, Trajectory, check, solve
from cmdpax.environments import cliff_world, garnet, queue
from cmdpax.exact.standard import StandardForm


def by_hand(**changes) -> Result:
    """One state, two actions, every sense; the numbers need not be true."""
    m = len(changes["limits"]) if "limits" in changes else 0
    minimise = changes.get("minimise", False)
    proof = Certificate(
        reward_bounds=(1.0, 1.5),
        margin_bounds=np.zeros((m, 2)),
        dual_bound=0.5 if minimise else 2.0,
        weights=np.arange(m) * 1.0,
        value_potentials=np.zeros((1 + m, 1)),
        dual_potential=np.zeros(1),
        ranges=np.tile([-1.0, 3.0], (1 + m, 1)),
        range_potentials=np.zeros((1 + m, 2, 1)),
        minimise=minimise,
    )
    fields = {
        "status": "certified",
        "method": "by-hand",
        "eps": 1e-6,
        "policy": np.array([[0.5, 0.5]]),
        "reward": 1.25,
        "values": np.arange(m) + 10.0,
        "margins": np.arange(m) - 0.5,
        "multipliers": proof.weights,
        "certificate": proof,
        "scaled_gap": 1e-7,
        "scaled_violation": 0.0,
        "fingerprint": "",
        "limits": Limits.of([]),
        "seconds": 0.5,
    }
    return Result(**{**fields, **changes})


def test_prints_in_the_user_s_words():
    limits = Limits.of([25, 10, 3, (2, 5)], ["<=", ">=", "==", "in"], ["cost", "up", "s", "heat"])
    assert str(by_hand(limits=limits, minimise=True)).splitlines() == [
        "status      certified: optimal and feasible within 1e-06 of the range",
        "method      by-hand, 0.50 s",
        "reward      1.25   (best possible: at least 0.5)",
        "gap         1   (80% of the reward, 25% of its range -1 to 3)",
        "violation   0",
        "constraint  value  threshold  margin  price",
        "cost           10      <= 25    -0.5      0",
        "up             11      >= 10     0.5      1",
        "s              12       == 3     1.5      2",
        "heat           13  in 2 to 5     2.5      3",
    ]
    assert "best possible: at most 2)" in str(by_hand())
    assert "result: certified" in by_hand()._repr_html_()
    assert repr(by_hand()) == "Result(certified, method='by-hand', reward=1.25, gap<=1)"


def test_gaps_and_violations_of_certificates():
    proof = by_hand(limits=Limits.of([1.0, 2.0])).certificate
    assert (proof.gap, replace(proof, minimise=True, dual_bound=0.25).gap) == (1.0, 1.25)
    broken = replace(proof, margin_bounds=np.array([[-3.0, 1.0], [2.0, 3.0]]))
    assert proof.violation == 0 and broken.violation == 3.0
    assert repr(broken) == "Certificate(gap<=1, violation<=3)"
    rayed = replace(broken, ray=np.array([0.5, 0.0]), ray_bound=-1.0, ray_potential=np.zeros(1))
    assert str(rayed).splitlines() == [
        "reward         1 to 1.5",
        "best possible  at most 2",
        "gap            1",
        "violation      3",
        "ray            [0.5 0. ] proves ray . margins <= -1 for every policy",
    ]
    assert "at least 2" in str(replace(proof, minimise=True))
    assert "<caption>certificate</caption>" in proof._repr_html_()


def test_a_queue_prints_its_table():
    text = str(solve(queue(capacity=20)))
    assert text.splitlines()[0].startswith("status      certified")
    assert "energy" in text and "<=" in text and "price" in text


def test_every_status_explains_itself():
    assert "no policy meets all constraints" in str(solve(cliff_world(threshold=0.3)))
    assert "ray" in str(solve(cliff_world(threshold=0.3)))
    assert "time was up" in str(solve(garnet(states=300, constraints=3), time_limit=0.0))
    assert "nothing improved" in str(by_hand(status="limit"))
    assert "rounding keeps the bounds apart" in str(by_hand(status="limit", reason="rounding"))
    assert "makes use of its violation" in str(
        replace(by_hand(), certificate=replace(by_hand().certificate, dual_bound=0.0))
    )


def test_an_infeasible_answer_says_what_would_make_it_feasible():
    """Nothing about an optimum that does not exist; the least that each limit must give way."""
    result = solve(cliff_world(threshold=0.3))
    text, said = str(result), result.summary()
    assert "best possible" not in text and "gap" not in text and "ray" in text
    assert "least to give way, alone" in text
    assert said["gap"] is said["dual_bound"] is said["price_bounds"] is None
    assert said["relaxations"] == pytest.approx([0.3 + 1 / 7], rel=1e-6)
    easier = cliff_world(threshold=0.3 - said["relaxations"][0] - 1e-6)
    assert solve(easier).status == "certified"
    both = garnet(states=20, constraints=2, seed=1)
    far = both.replace(thresholds=both.thresholds + np.array([1e3, 0.0]))
    result = solve(far)
    assert np.isinf(result.relaxations[1]) and result.relaxations[0] < 1e3
    assert "not enough" in str(result)


def test_prices_come_with_an_interval_that_holds_every_optimal_one():
    """One state: earn 1 at cost 1, or 1/2 at cost 1/4, or nothing.

    The best reward is 10, 5 or 0 at costs of 10, 2.5 and 0, and straight in between. At a budget of
    2.5 its slope is 2 to the left and 2/3 to the right, and every price between is optimal.
    """
    parts = np.ones((1, 3, 1)), [[1.0, 0.5, 0.0]], [[[1.0, 0.25, 0.0]]]
    model = CMDP(*parts, [2.5], [1.0], 0.9, senses="<=")
    kink = solve(model)
    np.testing.assert_allclose(kink.price_bounds, [[2 / 3, 2.0]], rtol=1e-5)
    assert "(0.6667 to 2)" in str(kink) and kink.summary()["price_bounds"] is not None
    smooth = solve(model.replace(thresholds=[5.0]))
    np.testing.assert_allclose(smooth.price_bounds, [[2 / 3, 2 / 3]], rtol=1e-4)
    assert " to " not in str(smooth).splitlines()[-1]
    equal = solve(model.replace(thresholds=[5.0], senses="=="))  # the upper side binds
    np.testing.assert_allclose(equal.price_bounds, [[-2 / 3, -2 / 3]], rtol=1e-4)
    corner = solve(model.replace(thresholds=[2.5], senses="=="))
    np.testing.assert_allclose(corner.price_bounds, [[-2.0, -2 / 3]], rtol=1e-5)
    edge = solve(model.replace(thresholds=[0.0]))
    assert edge.price_bounds[0, 1] == np.inf


@pytest.mark.parametrize("senses", [["<=", ">="], ["==", "<="], ["in", ">="]])
def test_the_price_of_the_answer_lies_in_its_interval(senses):
    model = garnet(states=12, constraints=2, seed=3)
    values = solve(model).values
    bounds = {"<=": 0.99, ">=": 0.9, "==": 0.98}
    thresholds = [
        (0.8 * value, 0.97 * value) if sense == "in" else bounds[sense] * value
        for sense, value in zip(senses, values)
    ]
    result = solve(model.replace(thresholds=thresholds, senses=senses))
    low, high = result.price_bounds.T
    assert ((low - 1e-9 <= result.multipliers) & (result.multipliers <= high + 1e-9)).all()


def test_summary_is_plain_numbers():
    result = solve(garnet(states=20, constraints=2))
    summary = result.summary()
    assert summary["margins"] == [float(u) for u in result.margins]
    assert len(summary["multipliers"]) == 2
    assert summary["gap"] == result.certificate.gap and summary["ray"] is None
    limits = Limits.of([25, (2, 5)], ["<=", "in"])
    said = by_hand(limits=limits, minimise=True).summary()
    assert said["thresholds"] == [25.0, [2.0, 5.0]] and said["senses"] == ["<=", "in"]
    assert said["minimise"] is True and said["values"] == [10.0, 11.0]


def test_unnamed_constraints_get_names():
    result = solve(garnet(states=20, constraints=2))
    assert result.constraint_names == ("c0", "c1")


@pytest.mark.parametrize("model", [garnet(states=20, constraints=2), queue(capacity=20)])
def test_margins_agree_with_the_policy(model):
    result, form = solve(model), StandardForm.of(model)
    policy = model.by_choice(result.policy)
    evaluation = form.evaluate(policy)
    np.testing.assert_allclose(result.margins, evaluation.margins, atol=1e-10)
    assert result.reward == pytest.approx(float(evaluation.reward), abs=1e-10)
    values = form.criterion.values(form, policy, model.constraints) @ model.initial
    np.testing.assert_allclose(result.values, values, atol=1e-9)
    np.testing.assert_allclose(model.limits.margins(result.values), result.margins, atol=1e-9)


@pytest.mark.parametrize("minimise", [False, True])
def test_the_reward_of_a_feasible_policy_is_never_better_than_possible(minimise):
    """Bounds that reach beyond the dual bound, as those of huge values do by rounding."""
    reward = np.array([[2.0, 1.0], [1.0, 0.0]])
    moves = [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.1, 0.9]]]
    parts = {"transitions": moves, "constraints": [reward], "thresholds": [1.0]}
    model = CMDP(
        **parts,
        reward=-reward if minimise else reward,
        minimise=minimise,
        initial=[1.0, 0.0],
        discount=0.99,
    )
    result = solve(model)
    proof, sign = result.certificate, -1 if minimise else 1
    assert result.status == "certified" and proof.violation == 0
    low, high = proof.reward_bounds
    wide = replace(proof, reward_bounds=(low - 1.0, high + 1.0))
    names = ("status", "method", "eps", "values", "scaled_gap", "scaled_violation")
    fields = {name: getattr(result, name) for name in names}
    other = Result.of(model, ((1.0, model.by_choice(result.policy)),), wide, **fields)
    best = max(sign * bound for bound in wide.reward_bounds)
    assert best > sign * proof.dual_bound >= sign * other.reward
    check(model, result)


def test_trajectories_know_when_they_diverged_and_give_one_of_a_batch():
    rewards = np.array([[1.0, 1.0], [2.0, np.nan], [3.0, np.nan]])
    rows = np.arange(12.0).reshape(3, 2, 2)
    policies = np.arange(16.0).reshape(4, 2, 2)
    run = Trajectory(rewards, rows, rows, rows[0], policies[:2], policies=policies[None, :2])
    np.testing.assert_array_equal(run.diverged, [0, 1])
    one = run.one(0)
    assert one.diverged == 0
    np.testing.assert_array_equal(one.rewards, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(one.margins, rows[:, 0])
    np.testing.assert_array_equal(one.policies, policies[None, 0])


def test_a_fingerprint_is_made_when_it_is_asked_for_and_travels_as_a_text():
    model = cliff_world()
    result = solve(model)
    assert "digest" not in vars(result) and "hashed" not in vars(model.transitions)
    copy = pickle.loads(pickle.dumps(result))
    assert copy.fingerprint == copy.digest == result.digest == model.digest
    check(model, copy)
