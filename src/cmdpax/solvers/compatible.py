"""What the log-linear baselines share: iterates that carry coordinates, and the compatible
regression for their natural gradient.

The natural gradient of a log-linear policy is the least-squares fit of its action values by its own
score functions (compatible function approximation),

    w = argmin_w E_{(s,a) ~ mu} [ (<phi(s,a) - E_pi phi(s,.), w> - Q(s,a))^2 ],     the shortest of
    the minimisers,

which solves `F w = E_mu[(phi - E_pi phi) A]` with the Fisher information F. A policy that has
nearly given up an action hardly sees it: with weights below rounding F cannot tell such directions
from those that do not matter, w would be 0 there, and the action could never come back. So the
regression is taken at the policy raised to `FLOOR` of uniform, the projection's floor; and a ridge
in the last digits gives the shortest solution where nobody goes at all.
"""

import numpy as np

from cmdpax.exact.discounted import evaluate, occupancy
from cmdpax.model.cmdp import CMDP
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.primal_dual import Iterate, Settings, move
from cmdpax.solvers.projection import FLOOR
from cmdpax.solvers.tabular import softmax

RIDGE = 1e-14  # share of the Fisher information's trace


def linear_start(model: CMDP, settings: Settings) -> Iterate:
    """`theta_1 = 0` and zero multipliers; the coordinates are remembered as `x [..., r]`."""
    features: Features = settings["features"]
    batch = np.broadcast_shapes(
        *(np.shape(value) for name, value in settings.items() if name != "features")
    )
    x = np.zeros((*batch, features.rank))
    log_policy = features.log_probabilities(x)
    policy, zeros = np.exp(log_policy), np.zeros((*batch, model.constraint_count))
    memory = {"x": x, "log_policy": log_policy}
    return Iterate(
        policy, evaluate(model, policy), zeros, np.ones(batch, dtype=bool), memory=memory
    )


def move_parameters(
    model: CMDP,
    iterate: Iterate,
    features: Features,
    x: np.ndarray,
    multipliers: np.ndarray,
    **memory: np.ndarray,
) -> Iterate:
    """The next iterate, at coordinates `x [..., r]`."""
    log_policy = features.log_probabilities(x)
    return move(
        model, iterate, np.exp(log_policy), multipliers, x=x, log_policy=log_policy, **memory
    )


def natural_gradient(
    model: CMDP, iterate: Iterate, features: Features, quality: np.ndarray
) -> np.ndarray:
    """Coordinates `[..., r]` of the shortest w that fits `quality [..., S, A]`; see the module
    docstring.
    """
    visits = (1 - model.discount) * occupancy(model, iterate.policy)
    policy = (1 - FLOOR) * iterate.policy + FLOOR / model.actions
    advantage = quality - (policy * quality).sum(-1, keepdims=True)
    slope = features.pull(features.gather(visits[..., None] * policy * advantage))
    grouped = (1 - FLOOR) * softmax(features.logits(iterate.memory["x"])) + FLOOR / model.actions
    fisher = features.covariance(features.gather_states(visits), grouped)
    ridge = RIDGE * np.trace(fisher, axis1=-2, axis2=-1) + np.finfo(float).tiny
    return np.linalg.solve(
        fisher + ridge[..., None, None] * np.eye(features.rank), slope[..., None]
    )[..., 0]
