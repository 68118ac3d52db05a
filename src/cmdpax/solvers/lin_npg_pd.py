"""Lin-NPG-PD (Ding et al. 2020): NPG-PD with log-linear policies.

    theta+ = theta + eta w,     lambda+ = clip(lambda - eta_d u, 0, lambda_max),

w the compatible regression on Q_lambda (`linear.py`). With one-hot features it is NPG-PD.
"""

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.compatible import linear_start, move_parameters, natural_gradient
from cmdpax.solvers.primal_dual import Iterate, Settings, column, lagrangian_quality

SETTINGS = {"step": 1.0, "dual_step": 1.0}
init = linear_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update, simultaneous in both players."""
    direction = natural_gradient(
        model, iterate, settings["features"], lagrangian_quality(model, iterate)
    )
    x = iterate.memory["x"] + column(settings["step"]) * direction
    multipliers = gradient_update(
        iterate.multipliers,
        iterate.margins,
        column(settings["dual_step"]),
        column(settings["largest"]),
    )
    return move_parameters(model, iterate, settings["features"], x, multipliers)
