"""The paper's first figure: PPG-ALM converges smoothly, the last iterate of NPG-PD oscillates.

Cliff World, the paper's budget (T=10, K=100, penalty 10: 1,000 policy-gradient evaluations each).
Step sizes are of the paper's grids: PPG-ALM 10, NPG-PD 1 with dual step 1 (its best there by the
final iterate); both start uniform with zero multipliers.
"""

from matplotlib.figure import Figure

from cmdpax.environments import cliff_world
from cmdpax.experiments.pictures import comparison
from cmdpax.solvers.certified import solve
from cmdpax.solvers.table import trajectory


def first_figure() -> Figure:
    """Run both methods and draw gap and violation."""
    model = cliff_world()
    runs = {
        "PPG-ALM (step 10)": trajectory(model, "ppg-alm", step=10.0),
        "NPG-PD (step 1, dual step 1)": trajectory(model, "npg-pd", step=1.0, dual_step=1.0),
    }
    return comparison(
        runs,
        solve(model).reward,
        "Cliff World: augmented Lagrangian against primal-dual, last iterates",
    )
