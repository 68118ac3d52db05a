"""Where does a threshold lie so that it binds, and can still be met?"""

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.standard import StandardForm
from cmdpax.model.cmdp import CMDP

PLANNED = 1e-4  # share of the range of values by which the policies at the ends may be suboptimal
EVALUATED = 1e-10  # error of their values


def check_tightness(tightness: float) -> None:
    """Refuse what is not at least 0 and below 1."""
    if not 0 <= tightness < 1:
        raise InputError(f"tightness is {tightness:g}; it must be at least 0 and below 1.")


def with_threshold(model: CMDP, tightness: float, feasible: bool) -> CMDP:
    """A model with one constraint, its threshold at `low + tightness (high - low)`.

    `low` is the constraint's value under the policy that is best for the reward, `high` under the
    one that is best for the constraint. Both are values of policies, so every threshold between
    them can be met, although on large models the two policies are only roughly optimal. With
    `feasible=False` the threshold lies above everything that can be achieved.
    """
    form, sign = planned_form(model), model.limits.signs[0]
    row, scale, plan = form.constraints[0], form.constraint_scales[0], form.criterion.plan
    safest = plan(form, row, tolerance=PLANNED * float(scale))
    if not feasible:
        return model.replace(thresholds=[sign * (safest.value + 0.01 * scale)])
    richest = plan(form, form.reward, tolerance=PLANNED * form.reward_scale)
    low, high = (
        float(policy_values(form, row, end.choices, EVALUATED)) for end in (richest, safest)
    )
    return model.replace(thresholds=[sign * (low + tightness * (high - low))])


def planned_form(model: CMDP) -> StandardForm:
    """The form whose plans thresholds are computed from, always by the loops for wide models.

    Loops for narrow models may choose another of equally good policies. Then a threshold would
    depend on how a model is solved.
    """
    form = StandardForm.of(model)
    form.__dict__["is_narrow"] = False
    return form


def policy_values(
    form: StandardForm, rewards: np.ndarray, choices: np.ndarray, tolerance: float = 0.0
) -> np.ndarray:
    """Values of `rewards [..., K]` under the deterministic policy `choices [S]`, `[...]`."""
    visits = form.criterion.visits(form, choices, tolerance=tolerance)
    return rewards[..., choices] @ visits
