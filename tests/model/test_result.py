import numpy as np
import pytest

from cmdpax import CMDP, check, solve
from cmdpax.environments import cliff_world, garnet, queue


def test_prints_as_a_table_with_units_of_the_caller():
    text = str(solve(queue(capacity=20)))
    assert text.splitlines()[0].startswith("status      certified")
    assert "energy" in text and "<=" in text and "price" in text


def test_every_status_explains_itself():
    assert "no policy meets all constraints" in str(solve(cliff_world(threshold=0.3)))
    assert "ray" in str(solve(cliff_world(threshold=0.3)))
    assert "undecided within 1e-7" in str(solve(cliff_world(threshold=-1 / 7)))
    assert "stopped before" in str(solve(garnet(states=300, constraints=3), time_limit=0.0))


def test_summary_is_plain_numbers():
    result = solve(garnet(states=20, constraints=2))
    summary = result.summary()
    assert (
        summary["margins"] == [float(u) for u in result.margins]
        and len(summary["multipliers"]) == 2
    )
    assert summary["gap"] == result.certificate.gap and summary["ray"] is None


def test_unnamed_constraints_get_names():
    result = solve(garnet(states=20, constraints=2))
    assert result.constraint_names == ("c0", "c1")


def test_margins_agree_with_the_policy():
    from cmdpax.exact.discounted import evaluate

    model = garnet(states=20, constraints=2)
    result = solve(model)
    found = evaluate(model, result.policy)
    np.testing.assert_allclose(result.margins, found.margins, atol=1e-10)
    assert result.reward == pytest.approx(float(found.reward), abs=1e-10)


def test_the_reward_of_a_feasible_policy_is_never_above_what_is_possible():
    """At discount 1 - 1e-9 the reward is known to eight digits only, and its bounds reach beyond
    the dual bound.
    """
    reward, moves = [[2.0, 1.0], [1.0, 0.0]], [[[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.1, 0.9]]]
    parts = {
        "transitions": moves,
        "reward": reward,
        "constraints": [reward],
        "thresholds": [1.0],
        "initial": [1.0, 0.0],
    }
    model = CMDP(**parts, discount=1 - 1e-9)
    result = solve(model)
    assert result.status == "certified" and result.certificate.violation == 0
    assert result.certificate.reward_bounds[1] > result.certificate.dual_bound >= result.reward
    check(model, result)
