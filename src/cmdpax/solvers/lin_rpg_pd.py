"""Lin-RPG-PD (Ding et al. 2023): RPG-PD with log-linear policies.

    theta+ = (1 - eta tau) theta + eta w,     lambda+ = clip((1 - eta_d tau) lambda - eta_d u, 0,
    lambda_max),

w the compatible regression on Q_tau (`linear.py`). The entropy's own term needs no regression:
`-tau log pi` is `-tau phi.theta` up to a constant. With one-hot features it is RPG-PD.
"""

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.compatible import linear_start, move_parameters, natural_gradient
from cmdpax.solvers.primal_dual import Iterate, Settings, column, soft_quality

SETTINGS = {"step": 1.0, "dual_step": 1.0, "temperature": 0.01}
init = linear_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    eta, eta_d, tau = (column(settings[name]) for name in ("step", "dual_step", "temperature"))
    direction = natural_gradient(
        model, iterate, settings["features"], soft_quality(model, iterate, settings["temperature"])
    )
    x = (1 - eta * tau) * iterate.memory["x"] + eta * direction
    shrunk = (1 - eta_d * tau) * iterate.multipliers
    multipliers = gradient_update(shrunk, iterate.margins, eta_d, column(settings["largest"]))
    return move_parameters(model, iterate, settings["features"], x, multipliers)
