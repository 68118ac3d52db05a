import numpy as np
import pytest

from cmdpax import check, lagrangian
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.exact.discounted import evaluate
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.convex_al import convex_al, subproblem


@pytest.mark.parametrize(
    ("model", "optimum"),
    [(cliff_world(), 0.655402), (deep_sea(), 0.392671), (garnet(states=40, constraints=3), None)],
)
def test_certifies_the_known_optima(model, optimum):
    result = convex_al(model)
    check(model, result)
    assert result.status == "certified"
    if optimum is not None:
        assert result.reward == pytest.approx(optimum, abs=1e-6)


def test_the_quadratic_program_agrees_with_the_corrective_oracle():
    model, multipliers = normalise(garnet(states=30, constraints=2)), np.array([0.2, 0.4])
    found = evaluate(model, subproblem(model, multipliers, 5.0))
    exact = float(lagrangian.value(found.reward, found.margins, multipliers, 5.0))
    oracle = Corrective()
    columns = oracle.start(model)
    for _ in range(100):
        columns = oracle.advance(model, columns, multipliers, 5.0)
    ours = float(lagrangian.value(columns.reward, columns.margins, multipliers, 5.0))
    assert ours == pytest.approx(exact, abs=1e-7)


def test_without_constraints():
    assert convex_al(garnet(states=10, constraints=0)).status == "certified"
