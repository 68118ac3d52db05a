"""NPG-PD (Ding et al. 2020): natural policy gradient on the Lagrangian, projected gradient descent
on the multipliers.

    pi+ ~ pi exp(eta Q_lambda),     lambda+ = clip(lambda - eta_d u, 0, lambda_max),
    simultaneously.

Its guarantee is for the mixture of all iterates; the last iterate oscillates.
"""

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
init = softmax_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    logits = iterate.memory["log_policy"] + plane(settings["step"]) * lagrangian_quality(
        model, iterate
    )
    multipliers = gradient_update(
        iterate.multipliers,
        iterate.margins,
        column(settings["dual_step"]),
        column(settings["largest"]),
    )
    return move_logits(model, iterate, logits, multipliers)
