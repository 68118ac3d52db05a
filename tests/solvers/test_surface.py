"""A surface of two budgets against the linear program at random budgets."""

import numpy as np
import pytest

from cmdpax import InputError, frontier_surface, solve
from cmdpax.environments import garnet, queue
from cmdpax.solvers.surface import area


def holds(polygon, point):
    edges, way = np.roll(polygon, -1, 0) - polygon, point - polygon
    turns = edges[:, 0] * way[:, 1] - edges[:, 1] * way[:, 0]
    return (turns >= 0).all() or (turns <= 0).all()


@pytest.mark.parametrize(("constraints", "seed"), [(2, 0), (3, 2)])
def test_the_linear_program_agrees_at_random_budgets(constraints, seed):
    model = garnet(states=12, constraints=constraints, seed=seed)
    turned = model.replace(
        constraints=model.constraints * np.array([-1.0] + [1.0] * (constraints - 1))[:, None],
        thresholds=model.thresholds * np.array([-1.0] + [1.0] * (constraints - 1)),
        senses=["<="] + [">="] * (constraints - 1),
    )
    regions, rng = frontier_surface(turned, 0, "c1"), np.random.default_rng(0)
    corners = np.concatenate([region.thresholds for region in regions])
    low, high = corners.min(0), corners.max(0)
    signs, inside = np.array([-1.0, 1.0]), 0
    for point in rng.uniform(low, high, (40, 2)):
        optimum = solve(turned.replace(thresholds=[*point, *turned.thresholds[2:]]), "lp")
        own = [region for region in regions if holds(region.thresholds, point)]
        assert len(own) == (optimum.status == "certified")  # they cover what is feasible, once
        for region in own:
            moved = (point - region.thresholds[0]) * signs  # tighter by so much
            reward = region.rewards[0] - region.multipliers @ moved
            assert reward == pytest.approx(optimum.reward, abs=1e-6)
            assert region.multipliers == pytest.approx(optimum.multipliers[:2], abs=1e-5)
            inside += 1
    assert inside > 10 and {region.status for region in regions} == {"certified"}


def test_rewards_are_flat_in_a_region():
    for region in frontier_surface(garnet(states=8, constraints=2, seed=1)):
        moved = region.thresholds - region.thresholds[0]
        flat = region.rewards[0] - moved @ region.multipliers
        assert region.rewards == pytest.approx(flat, abs=1e-6)
        assert area(region.thresholds) > 0 and region.gap <= 1e-5


@pytest.mark.parametrize(
    ("model", "pair", "sentence"),
    [
        (queue(), (0, 0), "two different constraints"),
        (queue(), (0, 1), r"constraints 0\.\.0"),
        (garnet(constraints=2), (0, 0.5), r"constraint is 0\.5; .* constraints 0\.\.1"),
        (3, (0, 1), "model: a CMDP is needed, not int"),
        (garnet(states=500, constraints=2), (0, 1), "500 states have too many regions"),
    ],
)
def test_bad_input(model, pair, sentence):
    with pytest.raises(InputError, match=sentence):
        frontier_surface(model, *pair)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [({"eps": -1}, "eps is -1; it must be a number"), ({"callback": 3}, "callback: it must be")],
)
def test_bad_options(options, sentence):
    with pytest.raises(InputError, match=sentence):
        frontier_surface(garnet(constraints=2), **options)


def test_area():
    assert area(np.array([[0, 0], [2, 0], [2, 1], [0, 1]])) == 2
