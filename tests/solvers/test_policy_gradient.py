import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import InputError, NumericalError, lagrangian
from cmdpax.environments import cliff_world, deep_sea, garnet
from cmdpax.solvers import npg, ppg, pqa, spma
from cmdpax.solvers.policy_gradient import FirstOrder, smoothness, theory_step
from models import cmdps

ORACLES = {
    "pqa": FirstOrder(pqa.step),
    "ppg": FirstOrder(ppg.step, gradient=True),
    "npg": FirstOrder(npg.step),
    "spma": FirstOrder(spma.step),
}


def al(state, multipliers, penalty):
    return lagrangian.value(state.reward, state.margins, multipliers, penalty)


@pytest.mark.parametrize("name", ORACLES)
@pytest.mark.parametrize("environment", [cliff_world, deep_sea])
def test_backtracking_closes_the_certified_gap_monotonically(name, environment):
    model, oracle, multipliers = environment(), ORACLES[name], np.array([0.1])
    state = oracle.start(model)
    values = [al(state, multipliers, 10.0)]
    for _ in range(300):
        state = oracle.advance(model, state, multipliers, 10.0)
        values.append(al(state, multipliers, 10.0))
    assert (np.diff(values) >= -1e-12).all()
    assert oracle.subproblem(model, state, multipliers, 10.0).gap <= 2e-3


@settings(max_examples=25)
@given(cmdps(constraints=(1, 3), states=5, actions=3), st.integers(0, 10**6))
def test_pqa_is_monotone_at_the_theory_step(model, seed):
    rng = np.random.default_rng(seed)
    model = model.replace(
        initial=rng.dirichlet(np.full(model.states, 3.0)) * 0.5 + 0.5 / model.states
    )
    multipliers = rng.random(model.constraint_count)
    oracle = FirstOrder(pqa.step, "theory")
    state = oracle.start(model, rng.dirichlet(np.ones(model.actions), model.states))
    for _ in range(5):
        after = oracle.advance(model, state, multipliers, 2.0)
        # rounding: margins are differences of values of the size of the horizon, and the AL weighs
        # them by w
        worth = lagrangian.weights(multipliers, 2.0, state.margins)
        values = np.abs(model.constraints).max((1, 2)) / (1 - model.discount)
        size = np.abs(model.reward).max() / (1 - model.discount) + float(
            worth @ (values + np.abs(model.thresholds))
        )
        assert al(after, multipliers, 2.0) >= al(state, multipliers, 2.0) - 1e-13 * size
        state = after


@settings(max_examples=25)
@given(cmdps(constraints=(1, 2), states=4, actions=3), st.integers(0, 10**6))
def test_smoothness_bounds_the_second_difference(model, seed):
    """|G(x+d) - 2 G(x) + G(x-d)| <= L |d|^2 for the constant L."""
    rng = np.random.default_rng(seed)
    model = model.replace(discount=min(model.discount, 0.9))
    multipliers, penalty = rng.random(model.constraint_count), 3.0
    policy = rng.dirichlet(np.full(model.actions, 3.0), model.states)
    direction = policy * rng.uniform(-1, 1, policy.shape)
    direction = 0.3 * (direction - policy * direction.sum(1, keepdims=True))
    oracle = FirstOrder(pqa.step, 0.1)
    values = [
        al(oracle.start(model, policy + sign * direction), multipliers, penalty)
        for sign in (-1, 0, 1)
    ]
    constant = smoothness(model, multipliers, penalty)
    assert abs(values[0] - 2 * values[1] + values[2]) <= constant * (direction**2).sum() + 1e-9 * (
        1 + np.abs(values).max()
    )


def test_theory_step_of_cliff_world():
    """Of the order of 6e-8, usable as a check of the theory and not as a method.

    The paper's constant bounds the squared gradient norm by A^2 / (1-gamma), which is too small (it
    is at most A / (1-gamma)^4); with the right one the step is 4.3e-8.
    """
    assert theory_step(cliff_world(), np.zeros(1), 10.0) == pytest.approx(4.27e-8, rel=0.01)


def test_the_certified_gap_is_an_upper_bound():
    """No policy that longer optimisation finds beats the bound."""
    model, multipliers = garnet(states=20, constraints=2, seed=3), np.array([0.2, 0.1])
    oracle = ORACLES["pqa"]
    early = oracle.start(model)
    bound = oracle.subproblem(model, early, multipliers, 1.0).gap
    late = early
    for _ in range(200):
        late = oracle.advance(model, late, multipliers, 1.0)
    assert al(late, multipliers, 1.0) - al(early, multipliers, 1.0) <= bound + 1e-12
    assert oracle.subproblem(model, late, multipliers, 1.0).gap < bound


def test_batched_and_single_runs_agree():
    model, sizes = cliff_world(), np.array([0.1, 1.0, 10.0])
    together = FirstOrder(pqa.step, sizes)
    batch = together.start(model)
    singles = [FirstOrder(pqa.step, size) for size in sizes]
    states = [single.start(model) for single in singles]
    multipliers = np.array([[0.1], [0.2], [0.3]])
    for _ in range(20):
        batch = together.advance(model, batch, multipliers, 10.0)
        states = [
            one.advance(model, state, row, 10.0)
            for one, state, row in zip(singles, states, multipliers, strict=True)
        ]
    for i, state in enumerate(states):
        np.testing.assert_allclose(batch.policy[i], state.policy, atol=1e-12)


@pytest.mark.parametrize("size", [0.0, -1.0, np.nan, np.inf, "fast"])
def test_bad_step_sizes_are_refused(size):
    with pytest.raises(InputError, match="step"):
        FirstOrder(pqa.step, size)


def test_theory_step_needs_every_state_in_the_start():
    model = garnet(states=5)
    model = model.replace(initial=np.eye(5)[0])
    with pytest.raises(InputError, match=r"initial\[1\] is 0"):
        FirstOrder(pqa.step, "theory").advance(
            model, FirstOrder(pqa.step, "theory").start(model), np.zeros(1), 1.0
        )


def test_non_finite_steps_stop_loudly():
    model = cliff_world()
    oracle = FirstOrder(lambda policy, quality, size: policy * np.nan, 0.1)
    with pytest.raises(NumericalError, match="not finite"):
        oracle.advance(model, oracle.start(model), np.zeros(1), 1.0)
