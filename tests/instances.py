"""Feasible models by family, number of states and of constraints, for tests and benchmarks."""

from typing import Any

import numpy as np

from cmdpax import CMDP
from cmdpax.environments import garnet, grid_world, inventory, queue
from cmdpax.environments.families import planned_form, policy_values


def instance(
    family: str,
    states: int,
    discount: float = 0.99,
    constraints: int = 1,
    seed: int = 0,
    **options: Any,
) -> CMDP:
    """A feasible model with about `states` states of `garnet`, `grid`, `queue` or `inventory`.

    `options` are those of the family's own builder. Constraints beyond the family's one are random.
    """
    if family == "garnet":
        return garnet(states, constraints=constraints, discount=discount, seed=seed, **options)
    if family == "grid":
        side = max(2, round(np.sqrt(states)))
        model = grid_world(width=side, height=side, discount=discount, seed=seed, **options)
    elif family == "queue":
        options = {"arrival": 0.4 + 0.01 * (seed % 50), **options}
        model = queue(capacity=states - 1, discount=discount, **options)
    else:
        assert family == "inventory", family
        model = inventory(capacity=states - 1, discount=discount, **options)
    if constraints <= model.constraint_count:
        return model
    return with_random_constraints(model, constraints, seed)


def with_random_constraints(model: CMDP, total: int, seed: int = 0) -> CMDP:
    """Uniform random constraints beside the model's own, `total` in all, that bind together.

    Each of the model's own has one bound, `<=` or `>=`.
    """
    shape = total - model.constraint_count, model.choices
    new = np.random.default_rng(seed).random(shape)
    wide = model.replace(
        constraints=np.concatenate([model.constraints, new]),
        thresholds=np.zeros(total),
        senses=[*model.senses, *[">="] * len(new)],
    )
    return between_two_policies(wide, 0.4)


def between_two_policies(model: CMDP, share: float) -> CMDP:
    """Thresholds a little below `share V(reward's optimum) + (1 - share) V(constraints' optimum)`.

    A mixture of the two policies meets them all.
    """
    form = planned_form(model)
    scaled = form.constraints / form.constraint_scales[:, None]
    richest, safest = (
        policy_values(form, form.constraints, form.criterion.plan(form, reward).choices)
        for reward in (form.reward, scaled.mean(0))
    )
    rows = share * richest + (1 - share) * safest - 1e-3 * form.constraint_scales
    return model.replace(thresholds=model.limits.signs * rows)
