"""The one idea: improve the policy on `r + w.c`, with `w` from the constraint margins.

Convention, that of the standard form: maximise `V_r` subject to `V_c[i] >= b[i]`.

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
    """Augmented Lagrangian of a policy: value `reward [...]`, `margin [..., m]` -> `[...]`."""
    weight = weights(multiplier, penalty, margin)
    return reward + ((multiplier**2 - weight**2) / (2 * penalty)).sum(-1)


def scalarise(reward: Array, constraints: Array, weight: Array) -> Array:
    """`r + sum_i w_i c_i`: for rewards, values, Q and advantages alike, all being linear.

    reward `[..., K]`, constraints `[..., m, K]`, weight `[..., m]` -> `[..., K]`; batch shapes
    broadcast.
    """
    return reward + (weight[..., None, :] @ constraints)[..., 0, :]


def dual_update(multiplier: Array, penalty: Array, margin: Array, factor: float = 0.5) -> Array:
    """`max(lambda - s beta u, (1 - s) lambda)` with s = factor: the paper's update, with its slack.

    `s = 1/2` is the paper's; `s = 1` the classical update, whose result is `weights(...)`. Stays >=
    0 by itself for s in (0, 1]. Shapes as in `weights`.
    """
    return step_update(multiplier, penalty, margin, factor * penalty)


def step_update(multiplier: Array, penalty: Array, margin: Array, step: Array) -> Array:
    """`max(lambda - step u, (1 - step/beta) lambda)`: the same with a step size of its own.

    Projected onto >= 0, because the slack form turns negative when step > beta. Shapes as in
    `weights`.
    """
    moved = multiplier - step * (margin - slack(multiplier, penalty, margin))
    return moved.clip(0)


def slack(multiplier: Array, penalty: Array, margin: Array) -> Array:
    """`max(u - lambda / beta, 0)`: how far a constraint is met beyond need, `[..., m]`."""
    return (margin - multiplier / penalty).clip(0)


def gradient_update(
    multiplier: Array, margin: Array, step: Array, largest: Array = np.inf
) -> Array:
    """`clip(lambda - step u, 0, largest)`, `[..., m]`: the dual step of primal-dual methods."""
    return (multiplier - step * margin).clip(0, largest)


def violation(margin: Array) -> Array:
    """`max(0, -min_i margin_i)`, `[..., m] -> [...]`; zero without constraints."""
    return (-margin).max(-1, initial=0.0)


def defect(multiplier: Array, penalty: Array, margin: Array) -> Array:
    """`max_i |min(u_i, lambda_i / beta)|`, `[..., m] -> [...]`: violation, or slack with a price.

    Zero exactly when the margins are >= 0 and complementary to the multipliers; the dual update
    moves by at most penalty times this.
    """
    return abs(margin - slack(multiplier, penalty, margin)).max(-1, initial=0.0)
