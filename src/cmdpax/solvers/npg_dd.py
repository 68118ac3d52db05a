"""NPG-DD (Ying et al. 2022): accelerated descent on the dual of the entropy-regularised problem.

    inner, K times:    pi+ = softmax(Q_tau / tau)                      (regularised NPG with its
    largest step 1 / tau) outer, t = 1, 2..: lambda+ = max(y - eta_d u, 0),     y+ = max(lambda+ + t
    / (t + 3) (lambda+ - lambda), 0).

`Q_tau` as in RPG-PD, for the weights y: the iterate's `multipliers` are y, lambda is in memory. The
policy is warm-started. The last iterate converges to the regularised optimum, for any number of
constraints.
"""

from dataclasses import replace

import numpy as np

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.primal_dual import (
    Iterate,
    Settings,
    column,
    move_logits,
    plane,
    soft_quality,
    softmax_start,
)

SETTINGS = {"dual_step": 0.1, "temperature": 0.01, "inner": 10}


def init(model: CMDP, settings: Settings) -> Iterate:
    """Uniform policy, lambda = y = 0."""
    start = softmax_start(model, settings)
    start.memory.update(multipliers=start.multipliers)
    return start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One inner update; every `inner`-th is followed by the dual update, with the margins of the
    new policy.
    """
    tau = settings["temperature"]
    logits = soft_quality(model, iterate, tau) / plane(tau)
    improved = move_logits(model, iterate, logits, iterate.multipliers)
    t, inside = divmod(improved.count, settings["inner"])
    if inside:
        return improved
    multipliers = gradient_update(
        improved.multipliers, improved.margins, column(settings["dual_step"]), np.inf
    )
    extrapolated = multipliers + t / (t + 3) * (multipliers - improved.memory["multipliers"])
    return replace(
        improved,
        multipliers=extrapolated.clip(0),
        memory={**improved.memory, "multipliers": multipliers},
    )
