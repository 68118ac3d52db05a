"""200 random instances across families and m in {1, 3, 8}: every one certified at 1e-6, every
certificate checked.
"""

import numpy as np
import pytest

from cmdpax import CMDP, check, solve
from cmdpax.environments.families import instance


def draw(seed: int) -> CMDP:
    rng = np.random.default_rng(seed)
    discount, m = float(rng.choice([0.9, 0.99, 0.999])), int(rng.choice([1, 3, 8]))
    size = int(rng.integers(50, 1500))
    if seed % 4 == 0:
        return instance("garnet", size, discount, m, seed, branching=int(rng.integers(1, 8)))
    if seed % 4 == 1:
        return instance("grid", size, discount, m, seed, slip=float(rng.uniform(0, 0.3)))
    if seed % 4 == 2:
        return instance("queue", size, discount, m, seed, arrival=float(rng.uniform(0.1, 0.9)))
    return instance("inventory", min(size, 300), discount, m, seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(10))
def test_200_instances_are_certified(block):
    for seed in range(20 * block, 20 * block + 20):
        model = draw(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)


def test_a_few_of_them_every_time():
    for seed in (0, 1, 2, 3, 5, 10):
        model = draw(seed)
        result = solve(model)
        assert result.status == "certified", (seed, model, result)
        check(model, result)
