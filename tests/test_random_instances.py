"""200 random instances across families and m in {1, 3, 8}: every one certified at 1e-6, every certificate checked."""

import numpy as np
import pytest

from cmdpax import CMDP, check, solve
from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.evaluation import occupancy, under_policy
from cmdpax.planning import plan


def with_constraints(model: CMDP, total: int, rng: np.random.Generator) -> CMDP:
    """Random constraints beside the model's own, with thresholds that a mixture of two policies meets with a little room."""
    rows = np.concatenate([model.constraints, rng.random((total - 1, model.states, model.actions))])
    wide = model.replace(constraints=rows, thresholds=np.zeros(total), constraint_names=None)
    scaled = wide.constraints / wide.constraint_scales[:, None, None]
    ends = [plan(wide, wide.reward).actions, plan(wide, scaled.mean(0)).actions]
    values = np.array([under_policy(wide.constraints, actions) @ occupancy(wide, actions) for actions in ends])
    return wide.replace(thresholds=0.4 * values[0] + 0.6 * values[1] - 1e-3 * wide.constraint_scales)


def instance(seed: int) -> CMDP:
    rng = np.random.default_rng(seed)
    discount, m = float(rng.choice([0.9, 0.99, 0.999])), int(rng.choice([1, 3, 8]))
    size = int(rng.integers(50, 1500))
    family = ("garnet", "grid", "queue", "inventory")[seed % 4]
    if family == "garnet":
        return garnet(states=size, constraints=m, discount=discount, seed=seed, branching=int(rng.integers(1, 8)))
    if family == "grid":
        side = max(4, round(size**0.5))
        model = grid_world(width=side, height=side, discount=discount, seed=seed, slip=float(rng.uniform(0, 0.3)))
    elif family == "queue":
        model = queue(capacity=size, discount=discount, arrival=float(rng.uniform(0.1, 0.9)))
    else:
        model = inventory(capacity=min(size, 300), discount=discount)
    return with_constraints(model, m, rng)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_200_instances_are_certified(block):
    for seed in range(20 * block, 20 * block + 20):
        model = instance(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)


def test_a_few_of_them_every_time():
    for seed in (0, 1, 2, 3, 5, 10):
        model = instance(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)
