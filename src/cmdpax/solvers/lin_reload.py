"""Lin-ReLOAD (Moskovitz et al. 2023, Algorithm 6): ReLOAD with log-linear policies.

    theta+ = theta + eta (2 w_k - w_{k-1}),     lambda+ = max(lambda - eta_d (2 u_k - u_{k-1}), 0),

w_k the compatible regression on Q_lambda of iterate k (`linear.py`); in the first step the past
counts as the present. With one-hot features it is ReLOAD.
"""

import numpy as np

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.compatible import linear_start, move_parameters, natural_gradient
from cmdpax.solvers.primal_dual import Iterate, Settings, column, lagrangian_quality

SETTINGS = {"step": 1.0, "dual_step": 1.0}


def init(model: CMDP, settings: Settings) -> Iterate:
    """`theta_1 = 0`, multipliers 0, and the gradients of that start as the past."""
    start = linear_start(model, settings)
    direction = natural_gradient(
        model, start, settings["features"], lagrangian_quality(model, start)
    )
    start.memory.update(direction=direction, margins=start.margins)
    return start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    past, margins = iterate.memory, iterate.margins
    direction = natural_gradient(
        model, iterate, settings["features"], lagrangian_quality(model, iterate)
    )
    x = past["x"] + column(settings["step"]) * (2 * direction - past["direction"])
    multipliers = gradient_update(
        iterate.multipliers, 2 * margins - past["margins"], column(settings["dual_step"]), np.inf
    )
    return move_parameters(
        model, iterate, settings["features"], x, multipliers, direction=direction, margins=margins
    )
