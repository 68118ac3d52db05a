"""NPG-NRL (Mueller et al. 2024): regularised Lagrangian, one step size and one temperature for both
players.

RPG-PD's two updates with `eta_d = eta`; its theory (no regret, finite horizon, O(eps^-10)) covers
any number of constraints. The temperature that its steps can bear leaves a bias, so that it settles
away from the optimum.
"""

from cmdpax.model.cmdp import CMDP
from cmdpax.solvers import rpg_pd
from cmdpax.solvers.primal_dual import Iterate, Settings, softmax_start

SETTINGS = {"step": 0.1, "temperature": 0.01}
init = softmax_start


def step(model: CMDP, iterate: Iterate, settings: Settings) -> Iterate:
    """One update."""
    return rpg_pd.step(model, iterate, {**settings, "dual_step": settings["step"]})
