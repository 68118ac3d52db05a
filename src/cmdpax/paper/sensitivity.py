"""Our own: the whole grid, not only its winner. How much tuning does each method need?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cmdpax.paper import charts
from cmdpax.paper.tabular import JUDGED, LIMITS, Study


def sensitivity(studies: Sequence[Study]) -> Figure:
    """Final |gap| and violation of every configuration of every method."""
    panels = {
        study.title: {
            label: np.array(
                [
                    [row[column] for column in JUDGED]
                    for row in study.of(label)
                    if not row["skipped"]
                ],
                dtype=np.float64,  # turns null, which is what a diverged run has, into NaN
            )
            for label in study.labels
        }
        for study in studies
    }
    return charts.sensitivity(
        panels,
        max(LIMITS),
        "Every configuration of every grid after 1,000 policy-gradient evaluations",
    )
