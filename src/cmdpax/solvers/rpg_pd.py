"""RPG-PD (Ding et al. 2023): NPG-PD on a Lagrangian with entropy for the policy and a quadratic for
the multipliers.

    pi+ ~ pi^(1 - eta tau) exp(eta Q_tau),     lambda+ = clip((1 - eta_d tau) lambda - eta_d u, 0,
    lambda_max),

with `Q_tau = r + lambda.c + gamma E V_tau(s')` and V_tau the value of `r + lambda.c - tau log pi`
(the pair's own entropy term is in the exponent of pi). The last iterate converges, to the
regularised saddle point: tau buys stability and costs accuracy. The theory is for one constraint
and a simplex cut off at its boundary; the update takes any number, and the whole simplex. It needs
`eta tau <= 1` and `eta_d tau <= 1`: beyond, the powers alternate and grow.
"""

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

SETTINGS = {"step": 1.0, "dual_step": 1.0, "temperature": 0.01}
init = softmax_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    eta, eta_d, tau = settings["step"], settings["dual_step"], settings["temperature"]
    logits = (1 - plane(eta * tau)) * iterate.memory["log_policy"] + plane(eta) * soft_quality(
        model, iterate, tau
    )
    shrunk = (1 - column(eta_d * tau)) * iterate.multipliers
    multipliers = gradient_update(
        shrunk, iterate.margins, column(eta_d), column(settings["largest"])
    )
    return move_logits(model, iterate, logits, multipliers)
