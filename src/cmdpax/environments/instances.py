"""Instances of the scalable families by size, discount and number of constraints: what benchmarks
and stress tests draw from.
"""

from typing import Any, Literal, get_args

import numpy as np

from cmdpax.environments.garnet import garnet
from cmdpax.environments.grid_world import grid_world
from cmdpax.environments.inventory import inventory
from cmdpax.environments.queue import queue
from cmdpax.errors import InputError
from cmdpax.exact.discounted import occupancy, under_policy
from cmdpax.exact.planning import plan
from cmdpax.model.cmdp import CMDP

Family = Literal["garnet", "grid", "queue", "inventory"]


def instance(
    family: Family,
    states: int,
    discount: float = 0.99,
    constraints: int = 1,
    seed: int = 0,
    **options: Any,
) -> CMDP:
    """A feasible model with about `states` states; `options` are those of the family's own builder."""
    if family == "garnet":
        return garnet(
            states=states, constraints=constraints, discount=discount, seed=seed, **options
        )
    if family == "grid":
        side = max(2, round(np.sqrt(states)))
        model = grid_world(width=side, height=side, discount=discount, seed=seed, **options)
    elif family == "queue":
        model = queue(
            capacity=states - 1,
            discount=discount,
            **{"arrival": 0.4 + 0.01 * (seed % 50), **options},
        )
    elif family == "inventory":
        model = inventory(capacity=states - 1, discount=discount, **options)
    else:
        raise InputError(f"family: '{family}' is none of {', '.join(get_args(Family))}.")
    return (
        with_random_constraints(model, constraints, seed)
        if constraints > model.constraint_count
        else model
    )


def with_random_constraints(model: CMDP, total: int, seed: int = 0) -> CMDP:
    """Random constraint rewards beside the model's own, `total` in all, with binding, jointly
    feasible thresholds.

    Thresholds are a little less than what a mixture of the reward's and of the constraints' optimal
    policies achieves.
    """
    rng = np.random.default_rng(seed)
    rows = np.concatenate(
        [
            model.constraints,
            rng.random((total - model.constraint_count, model.states, model.actions)),
        ]
    )
    wide = model.replace(constraints=rows, thresholds=np.zeros(total), constraint_names=None)
    scaled = wide.constraints / wide.constraint_scales[:, None, None]
    ends = [plan(wide, wide.reward).actions, plan(wide, scaled.mean(0)).actions]
    values = np.array(
        [under_policy(wide.constraints, actions) @ occupancy(wide, actions) for actions in ends]
    )
    return wide.replace(
        thresholds=0.4 * values[0] + 0.6 * values[1] - 1e-3 * wide.constraint_scales
    )
