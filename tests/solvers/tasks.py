"""What a solver is handed, as the door makes it."""

from typing import Any

import numpy as np

from cmdpax import CMDP
from cmdpax.exact.ranges import attained_ranges
from cmdpax.exact.standard import StandardForm
from cmdpax.solvers.certified import Task, WarmStart
from cmdpax.solvers.columns import MAX_COLUMNS
from cmdpax.solvers.feasibility import decide_feasibility
from cmdpax.stopping import never


def scaled_form(model: CMDP) -> StandardForm:
    """The form of a model in units of what policies can change, at eps 1e-6."""
    form = StandardForm.of(model)
    units = attained_ranges(form).tolerances(1e-6, model.limits.compared) / 1e-6
    return form.scaled(np.where(units > 0, units, 1.0)).form


def task_for(form: StandardForm, **changes: Any) -> Task:
    """A task on a feasible form, without limits, a listener, or anybody who accepts an answer."""
    fields = {
        "eps": 1e-6,
        "columns": decide_feasibility(form).columns,
        "most": MAX_COLUMNS,
        "stop": never,
        "seconds_left": None,
        "record": lambda row: None,
        "accept": lambda answer: False,
        "warm": WarmStart(),
    }
    return Task(**{**fields, **changes})
