import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from cmdpax import lagrangian, solve
from cmdpax.environments import cliff_world, deep_sea
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.algorithm import AugmentedLagrangian, Recorder, augmented_lagrangian
from cmdpax.solvers.columns import Corrective
from cmdpax.solvers.feasibility import decide_feasibility
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
    """PQA-ALM with T=10, K=100, penalty 10: the recorded |gap| within a factor of 3.

    Limit cycles are included.
    """
    model = environment()
    form, oracle, optimum = StandardForm.of(model), PolicyGradient(pqa, step), solve(model).reward
    final = augmented_lagrangian(
        form,
        oracle,
        oracle.start(form),
        multipliers=np.zeros(1),
        penalty=10.0,
        outer=10,
        inner=100,
    )
    assert final.evaluations == 1000
    assert expected / 3 <= abs(float(final.state.reward) - optimum) <= expected * 3


def dual_function(form, utility):
    """`d(lambda) = max_pi AL`, to rounding, by the corrective oracle."""
    oracle, columns = Corrective(), Corrective().start(form)
    for _ in range(300):
        columns = oracle.advance(form, columns, utility)
        if columns.last_gap.gap <= 1e-12:
            break
    return float(utility.value(columns.reward, columns.margins))


@settings(max_examples=25)
@given(
    cmdps(constraints=(1, 3), states=10), st.sampled_from([0.5, 5.0]), st.sampled_from([1e-2, 1e-4])
)
def test_the_theory_of_the_outer_loop(model, penalty, sigma):
    """Multipliers stay near the optimal ones, and every dual step ascends, as the lemmas say."""
    scaled = StandardForm.of(model).scaled()
    form = scaled.form
    assume(decide_feasibility(form).status == "feasible")
    optimal = scaled.scaled_weights(solve(model, eps=1e-9).multipliers)
    oracle, history = Corrective(), []

    def observe(progress):
        if progress.outer_done:
            history.append((progress.multipliers, progress.state, progress.gap.gap))
        return False

    augmented_lagrangian(
        form,
        oracle,
        oracle.start(form),
        multipliers=np.zeros(form.constraint_count),
        penalty=penalty,
        outer=8,
        inner=300,
        target=lambda t: sigma / t**2,
        observe=observe,
    )
    before, spent, size = np.zeros(form.constraint_count), 0.0, (optimal**2).sum()
    assert len(history) == 8
    for t, (after, state, gap) in enumerate(history, start=1):
        tolerance = sigma / t**2
        assert gap <= tolerance
        spent += 2 * penalty * tolerance
        # bounded dual iterates: |lambda_t - lambda*|^2 <= |lambda_1 - lambda*|^2 + 2 beta sum eps
        assert ((after - optimal) ** 2).sum() <= size + spent + 1e-6 * (1 + size)
        # dual ascent, for a maximisation problem:
        # d(lambda_{t+1}) <= AL(pi_{t+1}, lambda_t) - beta/4 |Ax - b|^2 + 2 eps
        utility = AugmentedLagrangian(before, penalty)
        residual = state.margins - lagrangian.slack(before, penalty, state.margins)
        reached = float(utility.value(state.reward, state.margins))
        least = reached - penalty / 4 * (residual**2).sum() + 2 * tolerance + 1e-9
        assert dual_function(form, AugmentedLagrangian(after, penalty)) <= least
        before = after


def test_an_observer_ends_the_run_and_the_penalty_grows_while_the_defect_does_not_fall():
    form = StandardForm.of(cliff_world()).scaled().form
    oracle, seen = Corrective(), []

    def observe(progress):
        seen.append(progress)
        return len(seen) == 5

    arguments = {"multipliers": np.zeros(1), "penalty": 1e-3, "outer": 50, "inner": 3}
    final = augmented_lagrangian(form, oracle, oracle.start(form), observe=observe, **arguments)
    assert len(seen) == 5 and final is seen[-1]
    assert [one.outer_done for one in seen] == [False, False, False, True, False]
    assert [one.evaluations for one in seen] == [1, 2, 3, 3, 4]
    fixed = augmented_lagrangian(form, oracle, oracle.start(form), **arguments)
    grown = augmented_lagrangian(form, oracle, oracle.start(form), penalty_growth=3.0, **arguments)
    assert fixed.penalty == 1e-3 < grown.penalty
    assert abs(grown.state.margins[0]) < abs(fixed.state.margins[0])


def test_a_recorder_keeps_histories_and_the_policies_asked_for():
    rng, record = np.random.default_rng(0), Recorder(keep=(0, 2))
    policies = [rng.dirichlet(np.ones(4), (2, 21)) for _ in range(4)]
    for k, policy in enumerate(policies):
        record.add(np.full(2, float(k)), np.full((2, 3), k), np.full((2, 3), 0.1), policy)
    run = record.finish(np.ones((2, 3)), policies[-1], policies[0])
    np.testing.assert_array_equal(run.rewards, [[0, 0], [1, 1], [2, 2], [3, 3]])
    assert run.margins.shape == run.weights.shape == (4, 2, 3)
    np.testing.assert_array_equal(run.policies, [policies[0], policies[2]])
    np.testing.assert_array_equal(run.policy, policies[-1])
    np.testing.assert_array_equal(run.multipliers, np.ones((2, 3)))
    assert run.averaged is policies[0] and run.diverged.tolist() == [0, 0]
    assert Recorder().keep == frozenset()


def test_divergence_is_marked_from_the_step_on():
    record = Recorder()
    for reward in ([1.0, 1.0], [1.0, np.nan], [1.0, np.nan]):
        record.add(np.array(reward), np.zeros((2, 1)), np.zeros((2, 1)), np.zeros((2, 1, 1)))
    assert record.finish(np.zeros((2, 1)), np.zeros((2, 1, 1))).diverged.tolist() == [0, 1]
