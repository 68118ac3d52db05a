"""The best step inside a KL ball: TRPO, and with linearised constraints CPO.

Around the current parameters, with `g` the gradient of the objective, `G_i` of constraint value i
(in units of its margin `u_i = V_ci - b_i`) and `H` the Hessian of the mean KL, both solve

    maximise g.x   subject to   u + G x >= 0,   x.H x <= 2 radius

TRPO has no constraints. The optimum lies in the span of `H^-1 g` and `H^-1 G_i`, found by conjugate
gradients, so that only m + 1 numbers remain: `best_step` tries every set of active constraints in
closed form (CPO's dual, for any small m). Three cases: no constraint is active (`free`), some are
(`bounded`), or no x satisfies them all (`recover`: climb straight back towards the violated limits,
ignoring the reward). A line search then makes the true surrogate keep what the linear one promised.

Beyond a limit only `recover` is used, although `best_step` often finds a way back that gains reward
as well: with 20,000 samples for thousands of parameters that way is mostly sampling noise, and the
cost settles above the limit (Hopper: at 40 instead of 25). The incumbent implementations do the
same, by comparing an episode's margin with a gradient per step. `only_recovers=False` has the
published step instead.
"""

from itertools import combinations
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.sparse.linalg import cg

from cmdpax.learning.formulas import Array, Policy, kl, linear, log_probability

DAMPING = 0.1
ITERATIONS = 15
CURVATURE_SAMPLES = 4_000  # fewer than gradients need, as TRPO does; the line search sees all
BACKTRACKS = 20
SHRINK = 0.8


class Step(NamedTuple):
    """Coefficients of the best step in terms of `H^-1 g` and `H^-1 G_i`."""

    case: str  # free, bounded or recover
    objective: float
    constraints: np.ndarray  # [m]


def best_step(q: float, r: np.ndarray, s: np.ndarray, margin: np.ndarray, radius: float) -> Step:
    """The optimum, from `q = g.H^-1 g`, `r = G H^-1 g [m]`, `s = G H^-1 G^T [m, m]`, `margin [m]`.

    Stationarity says `x = H^-1 (g + G^T nu) / mu`; for a set of active constraints `nu` and `mu`
    follow in closed form, and the set whose nu are >= 0 and whose x is feasible is optimal, the
    problem being convex.
    """
    count = len(margin)
    slack = 1e-9 * (1 + np.abs(margin))
    for size in range(count + 1):
        for chosen in map(list, combinations(range(count), size)):
            try:
                inverse = np.linalg.inv(s[np.ix_(chosen, chosen)])
            except np.linalg.LinAlgError:
                continue
            room = 2 * radius - margin[chosen] @ inverse @ margin[chosen]
            if room <= 0:
                continue
            mu = np.sqrt(max(q - r[chosen] @ inverse @ r[chosen], 1e-12) / room)
            nu = np.zeros(count)
            nu[chosen] = -inverse @ (r[chosen] + mu * margin[chosen])
            if (nu >= -1e-12).all() and (margin + (r + s @ nu) / mu >= -slack).all():
                return Step("bounded" if size else "free", float(1 / mu), nu / mu)
    return recovery(s, margin, radius)


def recovery(s: np.ndarray, margin: np.ndarray, radius: float) -> Step:
    """Straight back towards the violated limits, as far as the ball goes; arguments as above."""
    violated = np.maximum(-margin, 0)
    length = violated @ s @ violated
    return Step("recover", 0.0, violated * np.sqrt(2 * radius / max(length, 1e-12)))


@jax.jit
def _directions(
    policy: Policy, observation: Array, action: Array, old: Array, advantages: Array
) -> Any:
    """Gradients `[1 + m, K]` of `E[ratio A_i]` and their images under `H^-1`."""
    flat, unravel = ravel_pytree(policy)

    def surrogate(parameters: Array) -> Array:
        return linear(log_probability(unravel(parameters), observation, action) - old, advantages)

    some = observation[:: max(1, len(observation) // CURVATURE_SAMPLES)]

    def mean_kl(parameters: Array) -> Array:
        return kl(policy, unravel(parameters), some).mean()

    def curvature(vector: Array) -> Array:
        return jax.jvp(jax.grad(mean_kl), (flat,), (vector,))[1] + DAMPING * vector

    def solve(gradient: Array) -> Array:
        return cg(curvature, gradient, tol=1e-10, atol=1e-12, maxiter=ITERATIONS)[0]

    gradients = jax.jacrev(surrogate)(flat)
    return gradients, jax.lax.map(solve, gradients)


@jax.jit
def _candidate(
    policy: Policy, step: Array, observation: Array, action: Array, old: Array, advantages: Array
) -> Any:
    """A moved policy, its mean KL and its surrogates' changes `[1 + m]`."""
    flat, unravel = ravel_pytree(policy)
    moved = unravel(flat + step)
    log_ratio = log_probability(moved, observation, action) - old
    change = linear(log_ratio, advantages) - advantages.mean(-1)
    return moved, kl(policy, moved, observation).mean(), change


def improve(
    policy: Policy,
    observation: Array,
    action: Array,
    advantages: Array,
    margin: np.ndarray,
    steps_per_episode: float,
    radius: float,
    only_recovers: bool = True,
) -> tuple[Policy, dict[str, Any]]:
    """One trust-region step; the policy stays where the line search finds nothing.

    observation `[K, d]`; action `[K, a]` or `[K]`; advantages `[1 + m, K]`, objective first; margin
    `[m]` of an episode; steps_per_episode turns a mean advantage per step into a change of an
    episode's total. only_recovers: beyond a limit. Returns the policy and what happened.
    """
    old = log_probability(policy, observation, action)
    gradients, solutions = (
        np.asarray(part, dtype=np.float64)
        for part in _directions(policy, observation, action, old, advantages)
    )
    constraint_gradients = steps_per_episode * gradients[1:]
    constraint_solutions = steps_per_episode * solutions[1:]
    q, r = float(gradients[0] @ solutions[0]), constraint_gradients @ solutions[0]
    s = constraint_gradients @ constraint_solutions.T
    violated = bool((margin < 0).any())
    must_recover = violated and only_recovers
    best = recovery(s, margin, radius) if must_recover else best_step(q, r, s, margin, radius)
    direction = best.objective * solutions[0] + best.constraints @ constraint_solutions
    for trial in range(BACKTRACKS):
        step = SHRINK**trial * direction
        moved, mean_kl, change = _candidate(policy, step, observation, action, old, advantages)
        gained, kept = np.asarray(change, dtype=np.float64), float(mean_kl) <= radius
        # a satisfied limit may be used up, a violated one must not get worse
        kept &= bool((steps_per_episode * gained[1:] >= np.minimum(-margin, 0)).all())
        if kept and (violated or gained[0] >= 0):  # coming back to a limit may cost reward
            return moved, {"case": best.case, "kl": float(mean_kl), "backtracks": trial}
    return policy, {"case": best.case, "kl": 0.0, "backtracks": BACKTRACKS}
