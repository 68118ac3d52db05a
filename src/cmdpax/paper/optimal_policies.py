"""The paper's pictures of the optimal policies: arrows as long as their probability, stochastic in
exactly one cell.
"""

from matplotlib.figure import Figure

from cmdpax.environments import finite
from cmdpax.experiments.pictures import policy_picture
from cmdpax.paper.tabular import PROBLEMS
from cmdpax.solvers.certified import solve


def optimal_policy(problem: str) -> Figure:
    """Solve a problem to a certificate and draw its policy."""
    model = finite[problem]()
    result = solve(model, eps=1e-9)
    title = (
        f"{PROBLEMS[problem]}: optimal policy, reward {result.reward:.6f}, price"
        f" {result.multipliers[0]:.4f}"
    )
    return policy_picture(model, result.policy, title)
