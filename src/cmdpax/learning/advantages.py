"""Advantages: generalised advantage estimation, and how reward and constraints are put on one
scale.

Truncation is not termination: where an episode was cut by the time limit or by the end of the
batch, the critic's value of the true successor still counts; where it ended by itself, nothing
does.
"""

import jax
import jax.numpy as jnp

from cmdpax import lagrangian


def generalised_advantage(
    reward: jax.Array,
    value: jax.Array,
    next_value: jax.Array,
    terminated: jax.Array,
    ended: jax.Array,
    discount: float,
    trace: float,
) -> jax.Array:
    """`A_t = delta_t + discount trace A_{t+1}` within an episode, `delta_t = r_t + discount V(s') -
    V(s)`.

    reward, value, next_value `[..., T, N]` (values of the true successors); terminated, ended `[T,
    N]`, where ended includes truncation -> `[..., T, N]`.
    """
    delta = reward + discount * next_value * (1 - terminated) - value
    carry_on = discount * trace * (1 - ended)

    def backwards(
        following: jax.Array, row: tuple[jax.Array, jax.Array]
    ) -> tuple[jax.Array, jax.Array]:
        step_delta, step_carry = row
        advantage = step_delta + step_carry * following
        return advantage, advantage

    rows = (jnp.moveaxis(delta, -2, 0), carry_on)
    start = jnp.zeros(delta.shape[:-2] + delta.shape[-1:])
    return jnp.moveaxis(jax.lax.scan(backwards, start, rows, reverse=True)[1], 0, -2)


def standardise(advantage: jax.Array) -> jax.Array:
    """Mean zero, deviation one, over the last axis, `[..., K]`."""
    centred = advantage - advantage.mean(-1, keepdims=True)
    return centred / (centred.std(-1, keepdims=True) + 1e-8)


def combine(advantages: jax.Array, worth: jax.Array, rule: str, rescale: bool = False) -> jax.Array:
    """The advantage of the pseudo-reward `r + w.c` on a unit scale: advantages `[1 + m, K]`, worth
    `[m]` -> `[K]`.

    `combined` adds in true units, then standardises: the multiplier keeps its meaning. `separate`
    (the incumbents, and the paper by its table) standardises the reward's and only centres the
    constraints' *before* adding, which silently multiplies the multiplier by the reward advantage's
    deviation. `rescale` divides by `1 + sum w`, the incumbents' heuristic.
    """
    reward, constraints = advantages[0], advantages[1:]
    if rule == "separate":
        reward, constraints = standardise(reward), constraints - constraints.mean(-1, keepdims=True)
    total = lagrangian.scalarise(reward, constraints, worth)
    if rescale:
        total = total / (1 + worth.sum())
    return total if rule == "separate" else standardise(total)
