"""The one idea: improve the policy on `r + w.c`, with `w` from the constraint margins.

Convention (everywhere in cmdpax): maximise `V_r` subject to `V_c[i] >= b[i]`.

| word       | symbol | meaning                                                        |
|------------|--------|----------------------------------------------------------------|
| margin     | u      | `V_c - b`; negative means violated                             |
| multiplier | lambda | dual variable, always >= 0                                     |
| penalty    | beta   | AL penalty, > 0                                                |
| weights    | w      | `max(multiplier - penalty * margin, 0)`                        |

The augmented Lagrangian of a policy is `V_r + sum_i (lambda_i^2 - w_i^2) / (2 beta)` (the paper's
min-form, rewritten). Its derivative with respect to `V_c[i]` is `w_i`, so that its policy gradient
is the ordinary policy gradient of the pseudo-reward `Gamma = r + w.c`. The plain Lagrangian is the
same with `w = multiplier`. In control terms the multiplier integrates the violation and the penalty
reacts to it in proportion: the augmented Lagrangian is a PI controller on the margins.

Functions here are pure and know nothing about where the numbers come from: exact values, log-linear
policies and sampled estimates all use them, NumPy and JAX arrays alike. `...` is an optional batch
shape.
"""

from typing import Any

import numpy as np

Array = Any  # a NumPy or JAX array; operators and `clip` are all that is needed


def weights(multiplier: Array, penalty: Array, margin: Array) -> Array:
    """What each constraint reward is worth now: `max(multiplier - penalty * margin, 0)`.

    multiplier `[..., m]`, penalty scalar or `[..., 1]`, margin `[..., m]` -> `[..., m]`.
    """
    return (multiplier - penalty * margin).clip(0)


def value(reward: Array, margin: Array, multiplier: Array, penalty: Array) -> Array:
    """Augmented Lagrangian of a policy with reward value `reward` `[...]` and `margin` `[..., m]`
    -> `[...]`.
    """
    worth = weights(multiplier, penalty, margin)
    return reward + ((multiplier**2 - worth**2) / (2 * penalty)).sum(-1)


def scalarise(reward: Array, constraints: Array, worth: Array) -> Array:
    """`reward + sum_i worth_i constraints_i`: pseudo-rewards, values, Q and advantages alike, all
    being linear.

    reward `[..., K]`, constraints `[..., m, K]`, worth `[..., m]` -> `[..., K]`; batch shapes
    broadcast.
    """
    return reward + (worth[..., None, :] @ constraints)[..., 0, :]


def dual_update(multiplier: Array, penalty: Array, margin: Array, dual_step: float = 0.5) -> Array:
    """The paper's dual update with its slack: `max(multiplier - s beta margin, (1 - s)
    multiplier)`, s = dual_step.

    `s = 1/2` is the paper's; `s = 1` the classical update, whose result is `weights(...)`. Stays >=
    0 by itself for s in (0, 1]. Shapes as in `weights`.
    """
    return step_update(multiplier, penalty, margin, dual_step * penalty)


def step_update(multiplier: Array, penalty: Array, margin: Array, step: Array) -> Array:
    """The same update with a step size of its own (deep methods): `max(lambda - step u, (1 -
    step/beta) lambda)`.

    Projected onto >= 0, because the slack form turns negative when step > beta. Shapes as in
    `weights`.
    """
    moved = multiplier - step * (margin - slack(multiplier, penalty, margin))
    return moved.clip(0)


def slack(multiplier: Array, penalty: Array, margin: Array) -> Array:
    """The optimal slack `max(margin - multiplier / penalty, 0)`: how far a constraint is satisfied
    beyond need, `[..., m]`.
    """
    return (margin - multiplier / penalty).clip(0)


def gradient_update(
    multiplier: Array, margin: Array, step: Array, largest: Array = np.inf
) -> Array:
    """Projected dual gradient step of primal-dual methods: `clip(multiplier - step * margin, 0,
    largest)`, `[..., m]`.
    """
    return (multiplier - step * margin).clip(0, largest)


def violation(margin: Array) -> Array:
    """`max(0, -min_i margin_i)`, `[..., m] -> [...]`; zero without constraints."""
    return (-margin).max(-1, initial=0.0)


def defect(multiplier: Array, penalty: Array, margin: Array) -> Array:
    """`max_i |min(margin_i, multiplier_i / penalty)|`, `[..., m] -> [...]`: violation, or slack of
    a constraint that has a price.

    Zero exactly when the margins are >= 0 and complementary to the multipliers; the dual update
    moves by at most penalty times this.
    """
    return abs(margin - slack(multiplier, penalty, margin)).max(-1, initial=0.0)
