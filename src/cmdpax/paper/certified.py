"""Our own: what could be PROVEN after so many evaluations, without knowing the optimum.

After k evaluations a run holds a policy and has seen dual weights w; the smallest `D(w)` of them
bounds the optimum. Drawn is the larger of the gap certified by that bound and the violation: the
accuracy of the last iterate that a user could vouch for.
"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cmdpax.paper.charts import curves
from cmdpax.paper.tabular import LIMITS, Study


def certified(studies: Sequence[Study]) -> Figure:
    """One panel per problem, every method with the configuration selected at the stricter limit."""
    panels = {
        study.title: {
            label: (np.array(row["evaluations"]), np.maximum(row["certified"], row["violation"]))
            for label, row in study.selected(min(LIMITS)).items()
        }
        for study in studies
    }
    title = (
        "Certified accuracy of the last iterate (best of each grid with final violation <="
        f" {min(LIMITS):g})"
    )
    return curves(panels, "max(certified gap, violation)", title)
