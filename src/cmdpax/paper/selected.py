"""The appendix figures: the methods of the paper's grid table and three more primal-dual ones, at
one limit on one problem.
"""

from matplotlib.figure import Figure

from cmdpax.paper.charts import side_by_side
from cmdpax.paper.tabular import Study

LABELS = (
    "PQA-ALM",
    "PPO-Lag",
    "RPG-PD",
    "NPG-DD",
    "ReLOAD",
    "NPG-PD",
    "OPG-PD",
    "PPO-Lag, dual every step",
)


def selected(study: Study, limit: float) -> Figure:
    """Signed gap and violation of the configurations selected at `limit`."""
    curves = {
        label: (c["evaluations"], c["gap"], c["violation"])
        for label, c in study.selected(limit, LABELS).items()
    }
    return side_by_side(
        curves, f"{study.title}: best of each grid with final violation <= {limit:g}", limit
    )
