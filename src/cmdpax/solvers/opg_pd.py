"""OPG-PD (Ding et al. 2023): optimistic projected gradient for both players, on auxiliary iterates
`^`.

    pi^+ = Proj[pi^ + eta Q_lambda],     lambda^+ = clip(lambda^ - eta_d u, 0, lambda_max),
    pi+  = Proj[pi^+ + eta Q_lambda],    lambda+  = clip(lambda^+ - eta_d u, 0, lambda_max),
    with the same Q_lambda and u.

The last iterate converges linearly, at a rate that depends on the problem. The theory is for one
constraint and `eta = eta_d`; the update takes any number of constraints and two step sizes.
"""

from cmdpax.lagrangian import gradient_update
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers import pqa
from cmdpax.solvers.primal_dual import (
    Iterate,
    Settings,
    column,
    lagrangian_quality,
    move,
    plane,
    uniform_start,
)

SETTINGS = {"step": 1.0, "dual_step": 1.0}


def init(model: CMDP, settings: Settings) -> Iterate:
    """Both policies uniform, all multipliers 0."""
    start = uniform_start(model, settings)
    start.memory.update(auxiliary_policy=start.policy, auxiliary_multipliers=start.multipliers)
    return start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update of the auxiliary pair (in memory) and of the pair itself."""
    quality, eta = lagrangian_quality(model, iterate), plane(settings["step"])
    dual = (iterate.margins, column(settings["dual_step"]), column(settings["largest"]))
    policy = pqa.step(iterate.memory["auxiliary_policy"], quality, eta)
    multipliers = gradient_update(iterate.memory["auxiliary_multipliers"], *dual)
    ahead = pqa.step(policy, quality, eta), gradient_update(multipliers, *dual)
    return move(model, iterate, *ahead, auxiliary_policy=policy, auxiliary_multipliers=multipliers)
