"""The paper's comparison of PQA-ALM with related last-iterate methods: Cliff World, best of each
grid at violation <= 0.001.
"""

from matplotlib.figure import Figure

from cmdpax.paper.charts import side_by_side
from cmdpax.paper.tabular import Study

LABELS = ("PQA-ALM", "RPG-PD", "OPG-PD", "NPG-DD", "ReLOAD", "NPG-NRL")


def all_methods(study: Study, limit: float = 0.001) -> Figure:
    """Signed gap and violation of the selected configurations."""
    curves = {
        label: (c["evaluations"], c["gap"], c["violation"])
        for label, c in study.selected(limit, LABELS).items()
    }
    title = (
        f"{study.title}: last-iterate methods, best of each grid with final violation <= {limit:g}"
    )
    return side_by_side(curves, title, limit)
