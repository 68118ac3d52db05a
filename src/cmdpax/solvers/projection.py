"""Forward-KL projection of a target policy onto log-linear policies.

    minimise  l(theta) = sum_s d(s) E_{a ~ target(.|s)} [-log pi_theta(a|s)],      d the normalised
    occupancy,

a multi-class logistic regression with soft labels: convex, and `max_{s,a} |phi(s,a)|^2`-smooth, so
that gradient steps of at most the inverse of that never raise it. With group weights `D(g) = sum_{s
in g} d(s)` and masses `M(g,a) = sum_{s in g} d(s) target(a|s)`,

    l = sum_g D(g) log sum_a exp(phi.theta) - sum_{g,a} M(g,a) phi.theta,
    gradient = sum_{g,a} (D(g) pi_theta(a|g) - M(g,a)) phi(g,a).

Two ways: `descend`, the paper's n gradient steps of a fixed size, batched; and `newton`, to a
stated accuracy. Where the target is 0 the infimum may lie at infinity. A few gradient steps stay
bounded by themselves; Newton's target is raised to `FLOOR` of uniform first, which puts the minimum
at a finite place and costs at most `FLOOR * A` in total variation.
"""

import numpy as np

from cmdpax.errors import NumericalError
from cmdpax.solvers.policy_classes import Features
from cmdpax.solvers.tabular import softmax

FLOOR = 1e-9
TOLERANCE = 1e-12  # Newton's estimate of l - min l
# no logit moves further in one Newton step: far from the minimum the quadratic model is worthless
LONGEST = 4.0
# share of the curvature's trace; keeps parameters of states that nobody visits where they are
RIDGE = 1e-12
ITERATIONS = 500


def surrogate(
    features: Features, x: np.ndarray, weight: np.ndarray, mass: np.ndarray
) -> np.ndarray:
    """`l` at coordinates `[..., r]`, for group weights `[..., n]` and masses `[..., n, A]` ->
    `[...]`.
    """
    logits = features.logits(x)
    peak = logits.max(-1)
    normaliser = peak + np.log(np.exp(logits - peak[..., None]).sum(-1))
    return (weight * normaliser).sum(-1) - (mass * logits).sum((-1, -2))


def gradient(features: Features, x: np.ndarray, weight: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """Gradient of `l` with respect to the coordinates, `[..., r]`; arguments as in `surrogate`."""
    return features.pull(weight[..., None] * softmax(features.logits(x)) - mass)


def divergence(
    features: Features, x: np.ndarray, visits: np.ndarray, target: np.ndarray
) -> np.ndarray:
    """`sum_s d(s) KL(target || pi_x)` for visits `[..., S]` and target `[..., S, A]` -> `[...]`:
    `l` less its constant.
    """
    log_policy = features.log_probabilities(x)
    log_target = np.log(np.where(target > 0, target, 1.0))
    return (visits[..., None] * target * (log_target - log_policy)).sum((-1, -2))


def descend(
    features: Features,
    x: np.ndarray,
    visits: np.ndarray,
    target: np.ndarray,
    size: np.ndarray,
    steps: int,
) -> np.ndarray:
    """`steps` gradient steps of `size [B]` from coordinates `[B, r]`, for visits `[B, S]` and
    targets `[B, S, A]` -> `[B, r]`.

    The inner loop of every grid search. Arrays are laid out as [action, group, batch], so that the
    reductions over the few actions run along long contiguous rows.
    """
    n, A, r = features.design.shape
    design = np.ascontiguousarray(features.design.transpose(1, 0, 2).reshape(A * n, r))
    transpose = np.ascontiguousarray(design.T)
    weight = np.ascontiguousarray(features.gather_states(visits).T)  # [n, B]
    mass = np.ascontiguousarray(
        features.gather(visits[..., None] * target).transpose(2, 1, 0)
    )  # [A, n, B]
    point = np.array(x.T, order="C")  # [r, B], a copy
    for _ in range(steps):
        policy = (design @ point).reshape(mass.shape)
        policy -= policy.max(0)
        np.exp(policy, out=policy)
        policy *= weight / policy.sum(0)
        policy -= mass
        point -= size * (transpose @ policy.reshape(A * n, -1))
    return np.ascontiguousarray(point.T)


def newton(
    features: Features,
    x: np.ndarray,
    visits: np.ndarray,
    target: np.ndarray,
    tolerance: float = TOLERANCE,
) -> np.ndarray:
    """The minimiser of `l` for the floored target, to `tolerance` in `l`: `x [r]`, visits `[S]`,
    target `[S, A]` -> `[r]`.

    Damped Newton steps; the estimate of `l - min l` is half the squared Newton decrement.
    """
    target = (1 - FLOOR) * target + FLOOR / features.actions
    weight, mass = features.gather_states(visits), features.gather(visits[..., None] * target)
    value = surrogate(features, x, weight, mass)
    for _ in range(ITERATIONS):
        policy = softmax(features.logits(x))
        slope = features.pull(weight[:, None] * policy - mass)
        curvature = features.covariance(weight, policy)
        ridge = RIDGE * np.trace(curvature) + np.finfo(float).tiny
        move = -np.linalg.solve(curvature + ridge * np.eye(features.rank), slope)
        decrement = -float(slope @ move)
        if decrement <= 2 * tolerance:
            return x
        length = min(1.0, LONGEST / float(np.abs(features.logits(move)).max()))
        while (
            trial := surrogate(features, x + length * move, weight, mass)
        ) > value - 0.1 * length * decrement:
            length /= 2
            if length < 1e-10:  # rounding: no descent left to be seen
                return x
        x, value = x + length * move, trial
    raise NumericalError(
        f"projection: Newton's method did not settle in {ITERATIONS} steps; scale the features to"
        " order 1."
    )
