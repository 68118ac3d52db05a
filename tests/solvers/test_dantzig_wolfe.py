import pytest
from hypothesis import given, settings

from cmdpax import check, solve
from cmdpax.environments import garnet
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.dantzig_wolfe import dantzig_wolfe
from cmdpax.solvers.feasibility import decide
from models import cmdps


@settings(max_examples=40)
@given(cmdps(states=12))
def test_agrees_with_the_corrective_solver(model):
    if decide(normalise(model)).status != "feasible":
        return
    result = dantzig_wolfe(model)
    check(model, result)
    assert result.status == "certified"
    ours = solve(model)
    price = float(ours.multipliers @ model.constraint_scales) / model.reward_scale
    assert result.reward == pytest.approx(ours.reward, abs=3e-6 * model.reward_scale * (1 + price))


def test_time_limit_and_report():
    rows = []
    model = garnet(states=60, constraints=5)
    result = dantzig_wolfe(model, time_limit=0.0, report=rows.append)
    assert result.status == "limit" and len(rows) == 1
    check(model, result)
