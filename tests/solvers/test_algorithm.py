import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cmdpax import lagrangian, solve
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.solvers.algorithm import AugmentedLagrangian, augmented_lagrangian
from cmdpax.solvers.certified import normalise
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.feasibility import decide
from cmdpax.solvers.policy_gradient import PolicyGradient, pqa
from models import cmdps


@pytest.mark.parametrize(
    ("environment", "step", "expected"),
    [
        (cliff_world, 0.1, 6e-7),
        (cliff_world, 1.0, 6e-6),
        (cliff_world, 10.0, 2e-5),
        (deep_sea, 0.1, 6e-5),
        (deep_sea, 1.0, 4e-3),
        (deep_sea, 10.0, 4e-3),
    ],
)
def test_paper_mode_lands_on_the_recorded_numbers(environment, step, expected):
    """PQA-ALM with T=10, K=100, penalty 10: the recorded |gap| within a factor of 3 (limit cycles
    included).
    """
    model = environment()
    optimum = solve(model).reward
    oracle = PolicyGradient(pqa, step)
    final = augmented_lagrangian(
        model,
        oracle,
        oracle.start(model),
        multipliers=np.zeros(1),
        penalty=10.0,
        outer=10,
        inner=100,
    )
    assert final.evaluations == 1000
    assert expected / 3 <= abs(float(final.state.reward) - optimum) <= expected * 3


def dual_function(model, multipliers, penalty):
    """`d(lambda) = max_pi AL`, to rounding, by the corrective oracle."""
    oracle, columns = Corrective(), Corrective().start(model)
    utility = AugmentedLagrangian(multipliers, penalty)
    for _ in range(300):
        columns = oracle.advance(model, columns, utility)
        if columns.last.gap <= 1e-12:
            break
    return float(utility.value(columns.reward, columns.margins))


@settings(max_examples=25)
@given(
    cmdps(constraints=(1, 3), states=10), st.sampled_from([0.5, 5.0]), st.sampled_from([1e-2, 1e-4])
)
def test_the_theory_of_the_outer_loop(model, penalty, sigma):
    """Multipliers stay within the lemma's distance of the optimal ones, and every dual step ascends
    as the lemma says.
    """
    scaled = normalise(model)
    assume(decide(scaled).status == "feasible")
    optimal = solve(scaled, eps=1e-9).multipliers
    oracle, history = Corrective(), []

    def observe(progress):
        if progress.outer_done:
            history.append((progress.multipliers, progress.state, progress.gap.gap))
        return False

    augmented_lagrangian(
        scaled,
        oracle,
        oracle.start(scaled),
        multipliers=np.zeros(model.constraint_count),
        penalty=penalty,
        outer=8,
        inner=300,
        target=lambda t: sigma / t**2,
        observe=observe,
    )
    before, spent = np.zeros(model.constraint_count), 0.0
    for t, (after, state, gap) in enumerate(history, start=1):
        tolerance = sigma / t**2
        assert gap <= tolerance
        spent += 2 * penalty * tolerance
        # lemma (bounded dual iterates): |lambda_t - lambda*|^2 <= |lambda_1 - lambda*|^2 + 2 beta
        # sum eps
        assert ((after - optimal) ** 2).sum() <= (optimal**2).sum() + spent + 1e-6 * (
            1 + (optimal**2).sum()
        )
        # lemma (dual ascent, for a maximisation problem): d(lambda_{t+1}) <= AL(pi_{t+1}, lambda_t)
        # - beta/4 |Ax - b|^2 + 2 eps
        residual = state.margins - lagrangian.slack(before, penalty, state.margins)
        reached = float(lagrangian.value(state.reward, state.margins, before, penalty))
        assert (
            dual_function(scaled, after, penalty)
            <= reached - penalty / 4 * (residual**2).sum() + 2 * tolerance + 1e-9
        )
        before = after
