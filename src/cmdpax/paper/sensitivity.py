"""Our own: the whole grid, not only its winner. How much tuning does each method need?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from cmdpax.experiments import charts
from cmdpax.paper.tabular import ENTRIES, LIMITS, Study

COLUMNS = ("gap", "violation", "worst_violation")


def sensitivity(studies: Sequence[Study]) -> Figure:
    """Final |gap| and violation of every configuration of every method."""
    panels = {
        study.title: {
            entry.label: [
                tuple(np.nan if row[column] is None else row[column] for column in COLUMNS)
                for row in study.of(entry.label)
                if not row["skipped"]
            ]
            for entry in ENTRIES
        }
        for study in studies
    }
    return charts.sensitivity(panels, max(LIMITS), "Every configuration of every grid after 1,000 policy-gradient evaluations")
