"""The key dual simplex ends at an optimal vertex, or with a ray; and nobody depends on it."""

import numpy as np
import pytest

from cmdpax import CMDP, check, solve
from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers import key_simplex, stages, table, vertices
from cmdpax.solvers import solve as door
from cmdpax.solvers.key_simplex import Outcome, by_pivots, plans_before_pivots
from cmdpax.solvers.programs import solve_program
from instances import instance
from models import degenerate

MODELS = {
    "garnet": garnet(60, constraints=4, seed=2),
    "queue": queue(80),
    "grid": grid_world(7, 7, seed=3),
    "inventory": inventory(50),
}


def scaled(model: CMDP, eps: float = 1e-6) -> StandardForm:
    form = StandardForm.of(model)
    units = attained_ranges(form).tolerances(eps, model.limits.compared) / eps
    return form.scaled(np.where(units > 0, units, 1.0)).form


def errors(form: StandardForm, outcome: Outcome) -> tuple[float, float]:
    """Gap and violation, from nothing but the policy and the prices."""
    values = form.evaluate(outcome.answer.policy)
    best = form.criterion.plan(form, form.pseudo_reward(outcome.weights)).value
    gap = best - float(outcome.weights @ form.thresholds) - float(values.reward)
    return gap, -float(values.margins.min())


@pytest.mark.parametrize("name", MODELS)
def test_it_ends_where_the_linear_program_does(name):
    form = scaled(MODELS[name])
    outcome = by_pivots(form, 1e-6)
    assert max(errors(form, outcome)) <= 1e-8
    assert form.evaluate(outcome.answer.policy).reward == pytest.approx(
        solve_program(form)[2], abs=1e-7
    )
    mixes = (outcome.answer.policy > 0).sum() - form.states
    assert 0 <= mixes <= form.constraint_count  # a vertex


def test_degenerate_models_end_with_an_optimum_or_a_ray():
    optimal = 0
    for seed in range(200):
        form = scaled(degenerate(seed))
        outcome = by_pivots(form, 1e-6, most=1000)
        if outcome.answer is not None:
            assert max(errors(form, outcome)) <= 1e-8
            optimal += 1
            continue
        assert outcome.ray is not None and (outcome.ray >= 0).all()
        ray = outcome.ray / outcome.ray.sum()
        best = form.criterion.plan(form, np.tensordot(ray, form.constraints, 1)).value
        assert best - float(ray @ form.thresholds) < 1e-9
    assert 50 < optimal < 200


@pytest.mark.parametrize("name", MODELS)
def test_any_prices_are_a_start(name):
    form, rng = scaled(MODELS[name]), np.random.default_rng(0)
    for size in (1e-3, 1.0, 100.0):
        outcome = by_pivots(form, 1e-6, size * rng.random(form.constraint_count))
        assert max(errors(form, outcome)) <= 1e-8
    again = by_pivots(form, 1e-6, outcome.weights)
    assert again.pivots <= outcome.pivots


def test_few_swaps_between_refreshes_lead_to_the_same_optimum(monkeypatch):
    form = scaled(MODELS["garnet"])
    reward = form.evaluate(by_pivots(form, 1e-6).answer.policy).reward
    monkeypatch.setattr(key_simplex, "SWAPS", 1)
    other = form.evaluate(by_pivots(form, 1e-6).answer.policy).reward
    assert other == pytest.approx(reward, abs=1e-8)


@pytest.mark.parametrize("name", MODELS)
def test_solve_takes_it_for_small_models_and_the_al_alone_agrees(name):
    model = MODELS[name]
    result, alone = solve(model), solve(model, "corrective-alm")
    assert result.method == "key-simplex" and alone.method == "corrective-alm"
    assert result.status == alone.status == "certified"
    check(model, result)
    width = float(np.ptp(result.certificate.ranges[0]))
    assert result.reward == pytest.approx(alone.reward, abs=3e-6 * width)


@pytest.mark.parametrize("method", [None, "key-simplex"])
def test_trouble_with_pivots_is_left_to_the_augmented_lagrangian(method, monkeypatch):
    def in_trouble(form, *_, **__):
        return Outcome(None, np.zeros(form.constraint_count), 0, np.zeros(1))

    for module in (stages, table):
        monkeypatch.setattr(module, "by_pivots", in_trouble)
    monkeypatch.setattr(door, "certified_vertices", lambda models, *_: [None] * len(models))
    result = solve(MODELS["garnet"], method)
    assert result.status == "certified" and result.method == (method or "corrective-alm")


def test_a_wrong_answer_of_pivots_is_refused(monkeypatch):
    def careless(form, eps, *_, **__):
        outcome = by_pivots(form, eps)
        uniform = form.uniform_policy()
        answer = key_simplex.Answer(uniform, outcome.weights, outcome.answer.plan)
        return Outcome(answer, outcome.weights, outcome.pivots, outcome.values)

    monkeypatch.setattr(stages, "by_pivots", careless)
    monkeypatch.setattr(vertices, "MISSED", 1e9)  # any violation is small enough
    result = solve(MODELS["garnet"])
    assert result.status == "certified" and result.method == "corrective-alm"


WIDE, NARROW = garnet(450, constraints=24, seed=1), instance("grid", 420, constraints=4)
LONG = instance("queue", 2200, constraints=24)


@pytest.mark.parametrize("model", [WIDE, NARROW, LONG])
def test_it_goes_on_where_the_augmented_lagrangian_has_begun(model):
    form = StandardForm.of(model)
    plans = plans_before_pivots(form)
    assert plans and form.is_narrow == (model is NARROW)
    result, alone = solve(model), solve(model, "corrective-alm")
    for one in (result, alone):
        check(model, one)
        assert one.status == "certified"
    assert result.method == "key-simplex" and alone.method == "corrective-alm"
    assert len(result.trace) == plans + 1
    width = float(np.ptp(result.certificate.ranges[0]))
    assert result.reward == pytest.approx(alone.reward, abs=3e-6 * width)


def test_reach_is_the_longest_way():
    chances = np.zeros((4, 1, 4))
    for s, t in enumerate((1, 1, 0, 3)):
        chances[s, 0, t] = 1.0
    model = CMDP(chances, np.zeros((4, 1)), [], [], 0, 0.9)
    assert key_simplex.reach_of(StandardForm.of(model)) == 2


def test_on_grids_the_augmented_lagrangian_goes_on_for_longer():
    assert plans_before_pivots(StandardForm.of(instance("grid", 2500, constraints=24))) == 96


@pytest.mark.parametrize(
    "model", [garnet(450, constraints=3), garnet(1600, constraints=24), queue(2200)]
)
def test_elsewhere_the_augmented_lagrangian_goes_on_alone(model):
    assert plans_before_pivots(StandardForm.of(model)) is None


@pytest.mark.parametrize("model", [WIDE, NARROW])
def test_without_pivots_phase_1_and_the_augmented_lagrangian_end_what_they_began(
    model, monkeypatch
):
    def in_trouble(form, *_, **__):
        return Outcome(None, np.zeros(form.constraint_count), 0, np.zeros(1))

    monkeypatch.setattr(stages, "by_pivots", in_trouble)
    result = solve(model)
    check(model, result)
    assert result.status == "certified" and result.method == "corrective-alm"


def test_a_narrow_model_that_is_infeasible_is_proven_to_be():
    model = grid_world(20, 21, feasible=False)
    assert StandardForm.of(model).is_narrow
    result = solve(model)
    check(model, result)
    assert result.status == "infeasible"
