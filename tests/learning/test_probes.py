"""Environments small enough to know the answer: every method must find the constrained optimum and
its multiplier.

PPO-Lag is held to less: on problems that are linear in the policy its last iterate circles around
the optimum (as primal-dual methods do; it is what the augmented Lagrangian cures), so there only
its average over most of the run is looked at. TRPO-ALM takes the classical dual step, which equals
the penalty, where there are two limits: its natural-gradient steps otherwise give up the free arm
before the multipliers have grown, and an arm without samples has no gradient to come back by. It
also sees the margins of the latest batch: one of its steps moves a cost further than the filter of
margins expects.
"""

import numpy as np
import pytest

from cmdpax.learning.training import train

# limits; optimal return, costs and multipliers
ANSWERS = {
    "Bandit": (("cost<=0.3",), 0.3, [0.3], [1.0]),
    "Throttle": (("cost<=0.5",), -0.25, [0.5], [1.0]),
    "TwoSteps": (("cost<=0.3",), 0.3, [0.3], [1.0]),
    "Corridor": (("cost<=1",), -1.75, [1.0], [0.25]),
    "TwoLimits": (("heat<=0.25", "noise<=0.25"), 0.75, [0.25, 0.25], [1.0, 2.0]),
}
DUAL_STEPS = {("TwoLimits", "trpo-alm"): 1.0}
UNLIMITED = {"Bandit": 1.0, "Throttle": 0.0, "TwoSteps": 1.0, "Corridor": -1.0, "TwoLimits": 2.0}


def last_rows(folder, probe, method, part=0.1):
    """Means of return, costs and multipliers over the last part of a run.

    Of twenty batches, which have a standard error of .02; ten would have .03, half a tolerance.
    """
    run = train(
        f"probes:{probe}",
        method,
        limits=ANSWERS[probe][0],
        batch=400,
        rollout_steps=40,
        samples=80_000,
        passes=4,
        minibatch=100,
        learning_rate=5e-3,
        reserve=0.0,
        units="reward",
        margin="latest" if method == "trpo-alm" else "smooth",
        penalty=1.0,
        inner=3,
        dual_step=DUAL_STEPS.get((probe, method), 0.03 if method == "ppo-lag" else 0.3),
        hidden=(16,),
        discount=1.0,
        folder=folder,
    )
    rows = run.metrics[-int(part * len(run.metrics)) :]
    columns = [
        [row["return"] for row in rows],
        *([list(row[kind].values()) for row in rows] for kind in ("cost", "multiplier")),
    ]
    return tuple(np.mean(column, axis=0) for column in columns)


def check_optimum(folder, probe, method):
    _, best, costs, multipliers = ANSWERS[probe]
    returned, cost, multiplier = last_rows(folder, probe, method)
    assert returned == pytest.approx(best, abs=0.07)
    np.testing.assert_allclose(cost, costs, atol=0.06)
    if method != "cpo":  # which has no multiplier
        np.testing.assert_allclose(multiplier, multipliers, atol=0.1)


def test_the_main_method_finds_the_optimum(tmp_path):
    check_optimum(tmp_path / "run", "TwoSteps", "spma-alm")


@pytest.mark.slow
@pytest.mark.parametrize("probe", ANSWERS)
@pytest.mark.parametrize("method", ["spma-alm", "ppo-alm", "trpo-alm", "cpo"])
def test_every_method_finds_the_optimum(probe, method, tmp_path):
    check_optimum(tmp_path / "run", probe, method)


@pytest.mark.slow
@pytest.mark.parametrize("probe", ["Bandit", "Corridor"])
def test_ppo_lag_circles_around_the_optimum(probe, tmp_path):
    _, cost, _ = last_rows(tmp_path / "run", probe, "ppo-lag", part=0.7)
    np.testing.assert_allclose(
        cost, ANSWERS[probe][2], atol=0.25 * (4 if probe == "Corridor" else 1)
    )


@pytest.mark.slow
def test_ppo_lag_finds_the_optimum_of_a_strictly_concave_problem(tmp_path):
    returned, cost, multiplier = last_rows(tmp_path / "run", "Throttle", "ppo-lag")
    assert returned == pytest.approx(-0.25, abs=0.07)
    assert cost[0] == pytest.approx(0.5, abs=0.06) and multiplier[0] == pytest.approx(1.0, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("probe", UNLIMITED)
@pytest.mark.parametrize("method", ["ppo", "spma"])
def test_without_limits_the_reward_alone_counts(probe, method, tmp_path):
    assert last_rows(tmp_path / "run", probe, method)[0] == pytest.approx(
        UNLIMITED[probe], abs=0.05
    )
