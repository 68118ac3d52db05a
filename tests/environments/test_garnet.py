import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import InputError, check, solve
from cmdpax.environments import garnet
from cmdpax.solvers.feasibility import slater_slack


@settings(max_examples=20)
@given(
    st.integers(0, 10**6),
    st.integers(1, 40),
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([0.9, 0.99]),
)
def test_feasible_and_infeasible_by_construction(seed, states, actions, constraints, discount):
    wanted = {
        "states": states,
        "actions": actions,
        "constraints": constraints,
        "discount": discount,
        "seed": seed,
    }
    impossible = garnet(**wanted, feasible=False)
    result = solve(impossible)
    assert result.status == "infeasible"
    check(impossible, result)
    if actions > 1 and states > 2:  # with one action everything is on the boundary
        assert solve(garnet(**wanted)).status in ("certified", "marginal")


def test_same_seed_same_model():
    assert garnet(seed=4).digest == garnet(seed=4).digest != garnet(seed=5).digest


def test_shapes():
    model = garnet(states=12, actions=3, branching=2, constraints=4)
    assert model.successors.shape == (12, 3, 2) and model.constraints.shape == (4, 12, 3)
    np.testing.assert_allclose(model.probabilities.sum(-1), 1)


@pytest.mark.parametrize(
    "wrong",
    [{"states": 0}, {"branching": 0}, {"constraints": 0, "feasible": False}, {"tightness": 1.0}],
)
def test_bad_settings(wrong):
    with pytest.raises(InputError):
        garnet(**wrong)


@pytest.mark.parametrize("sizes", [(5, 1, 1), (20, 1, 1), (4, 2, 6), (10, 2, 8), (3, 2, 2)])
def test_few_actions_and_many_constraints_are_feasible_too(sizes):
    states, actions, constraints = sizes
    for seed in range(10):
        assert (
            slater_slack(garnet(states=states, actions=actions, constraints=constraints, seed=seed))
            > 0
        )
