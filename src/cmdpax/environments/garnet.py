"""Random Garnet CMDPs: every pair leads to `branching` random states with random probabilities;
rewards are uniform in [0, 1].
"""

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.discounted import occupancy, under_policy
from cmdpax.model.cmdp import CMDP
from cmdpax.model.transitions import refuse_huge


def garnet(
    states: int = 100,
    actions: int = 4,
    branching: int = 5,
    constraints: int = 1,
    discount: float = 0.9,
    seed: int = 0,
    tightness: float = 0.5,
    feasible: bool = True,
) -> CMDP:
    """A random model that is feasible by construction (or infeasible by construction).

    Thresholds lie between a mean reward's value and what a reference policy achieves: the
    reference, greedy for the mean of all constraint rewards in every state, meets them with room,
    and `tightness` in [0, 1) says how close they come to it (where it achieves less than the mean,
    they lie below it by a hundredth of the range). With `feasible=False` the first threshold lies
    above the largest conceivable value.
    """
    if min(states, actions, branching) < 1 or min(constraints, seed) < 0:
        raise InputError(
            "garnet: states, actions and branching must be at least 1, constraints and seed at"
            " least 0."
        )
    if not feasible and not constraints:
        raise InputError("garnet: an infeasible model needs at least one constraint.")
    if not 0 <= tightness < 1:
        raise InputError(f"tightness is {tightness:g}; it must be at least 0 and below 1.")
    refuse_huge((states, actions, branching))
    rng = np.random.default_rng(seed)
    successors = rng.integers(0, states, (states, actions, branching), dtype=np.int32)
    cuts = rng.random((states, actions, branching - 1))
    cuts.sort(axis=-1)
    probabilities = np.empty((states, actions, branching))
    probabilities[..., :-1], probabilities[..., -1] = cuts, 1.0
    probabilities[..., 1:] -= cuts
    del cuts  # at 1e6 states every array of this size counts
    reward = rng.random((states, actions))
    rows = rng.random((constraints, states, actions))
    initial = np.full(states, 1 / states)
    model = CMDP(
        (successors, probabilities), reward, rows, np.zeros(constraints), initial, discount
    )
    del successors, probabilities
    if not constraints:
        return model
    reference = np.argmax(rows.mean(0), axis=1)
    best = under_policy(rows, reference) @ occupancy(model, reference)
    typical = np.full(constraints, 0.5 / (1 - discount))  # the mean of a uniform reward
    thresholds = np.where(
        best > typical, typical + tightness * (best - typical), best - 0.01 / (1 - discount)
    )
    if not feasible:
        thresholds[0] = rows[0].max() / (1 - discount) + 0.01 / (1 - discount)
    return model.replace(thresholds=thresholds)
