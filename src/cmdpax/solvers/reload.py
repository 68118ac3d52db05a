"""ReLOAD (Moskovitz et al. 2023): optimistic mirror steps for both players.

    pi+ ~ pi exp(eta (2 Q_k - Q_{k-1})),     lambda+ = max(lambda - eta_d (2 u_k - u_{k-1}), 0),

Q_k being Q_lambda of iterate k; in the first step the past counts as the present. The last iterate
converges, at no known rate. The theory is for occupancy measures; this is the update in policies,
for any number of constraints.
"""

import numpy as np

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.primal_dual import (
    Iterate,
    Settings,
    column,
    lagrangian_quality,
    move_logits,
    plane,
    softmax_start,
)

SETTINGS = {"step": 1.0, "dual_step": 1.0}


def init(model: CMDP, settings: Settings) -> Iterate:
    """Uniform policy, multipliers 0, and the gradients of that start as the past."""
    start = softmax_start(model, settings)
    start.memory.update(quality=lagrangian_quality(model, start), margins=start.margins)
    return start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    quality, margins, past = lagrangian_quality(model, iterate), iterate.margins, iterate.memory
    logits = past["log_policy"] + plane(settings["step"]) * (2 * quality - past["quality"])
    multipliers = gradient_update(
        iterate.multipliers, 2 * margins - past["margins"], column(settings["dual_step"]), np.inf
    )
    return move_logits(model, iterate, logits, multipliers, quality=quality, margins=margins)
