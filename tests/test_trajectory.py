import time

import numpy as np
import pytest

from cmdpax import check
from cmdpax.environments import cliff_world
from cmdpax.evaluation import evaluate, occupancy
from cmdpax.trajectory import Recorder, to_result


def test_a_recorded_run_becomes_a_certified_result():
    model = cliff_world()
    rng = np.random.default_rng(0)
    policies = [rng.dirichlet(np.ones(4), 21) for _ in range(4)]
    record = Recorder()
    for policy in policies:
        found = evaluate(model, policy)
        record.add(found.reward, found.margins)
    run = record.finish(np.array([0.171]), policies[-1])
    assert run.rewards.shape == (4,) and run.margins.shape == (4, 1)
    result = to_result(model, run, method="test", eps=1e-6, started=time.perf_counter())
    check(model, result)
    assert result.status == "limit" and result.reward == pytest.approx(float(run.rewards[-1]))
    assert [row["evaluations"] for row in result.trace] == [0, 1, 2, 3]


def test_the_mixture_has_the_values_of_the_averaged_occupancy():
    model = cliff_world()
    rng = np.random.default_rng(1)
    policies = [rng.dirichlet(np.ones(4), 21) for _ in range(4)]
    record = Recorder()
    for policy in policies:
        found = evaluate(model, policy)
        record.add(found.reward, found.margins)
    result = to_result(model, record.finish(np.zeros(1), policies[-1]), method="test", eps=1e-6, started=0.0)
    mass = sum(occupancy(model, policy)[:, None] * policy for policy in policies[:3]) / 3
    assert result.mixture["reward"] == pytest.approx(float((mass * model.reward).sum()))
    assert result.mixture["margins"][0] == pytest.approx(float((mass * model.constraints[0]).sum() - model.thresholds[0]))
    assert result.mixture["policies"] == 3 and result.mixture["numbers"] == 3 * 84
