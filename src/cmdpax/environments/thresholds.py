"""Where to put the threshold of a model with one constraint, so that it binds and can be met."""

from cmdpax.exact.discounted import occupancy, under_policy
from cmdpax.exact.planning import Plan, plan
from cmdpax.model.cmdp import CMDP

# how near the optimum two policies are that mark the ends, on the scale of possible values (large
# models)
ROUGHLY = 1e-4
EVALUATED = 1e-10  # what is known of their values


def with_threshold(model: CMDP, tightness: float, feasible: bool) -> CMDP:
    """The model with a threshold between what the reward's optimum (`tightness` 0) and the
    constraint's own (1) achieve.

    Both ends are values of policies, so every threshold between them can be met; on large models
    the policies are only roughly optimal, which is all it takes. With `feasible=False` the
    threshold lies above everything that can be achieved.
    """
    safest = plan(
        model, model.constraints[0], tolerance=ROUGHLY * float(model.constraint_scales[0])
    )
    if not feasible:
        return model.replace(thresholds=[safest.value + 0.01 * model.constraint_scales[0]])
    richest = plan(model, model.reward, tolerance=ROUGHLY * model.reward_scale)
    low, high = _achieved(model, richest), _achieved(model, safest)
    return model.replace(thresholds=[low + tightness * (high - low)])


def _achieved(model: CMDP, known: Plan) -> float:
    visits = occupancy(model, known.actions, EVALUATED)
    return float(under_policy(model.constraints[0], known.actions) @ visits)
