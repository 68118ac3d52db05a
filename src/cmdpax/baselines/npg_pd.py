"""NPG-PD (Ding et al. 2020): natural policy gradient on the Lagrangian, projected gradient descent on the multipliers.

    pi+ ~ pi exp(eta Q_lambda),     lambda+ = clip(lambda - eta_d u, 0, lambda_max),     simultaneously.

Its guarantee is for the mixture of all iterates; the last iterate oscillates.
"""

from dataclasses import replace

from cmdpax.baselines.primal_dual import Iterate, Settings, column, lagrangian_quality, plane, uniform_start
from cmdpax.evaluation import evaluate
from cmdpax.lagrangian import gradient_update
from cmdpax.model import CMDP
from cmdpax.oracles import npg

init = uniform_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update; settings `step`, `dual_step`, `largest` (lambda_max)."""
    quality = lagrangian_quality(model, iterate)
    policy = npg.step(iterate.policy, quality, plane(settings["step"]))
    multipliers = gradient_update(
        iterate.multipliers, iterate.margins, column(settings["dual_step"]), column(settings["largest"])
    )
    return replace(iterate, policy=policy, evaluation=evaluate(model, policy), multipliers=multipliers)
