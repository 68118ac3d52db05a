"""What a step of the velocity tasks came to, compiled: `velocity.py` says what is computed and why.

NumPy would need twenty calls a step, for a few numbers each: with two simulations they cost as much
as the physics.
"""
# mypy: disable-error-code="no-untyped-def"

import numpy as np

from cmdpax.loops.compiled import compiled


@compiled
def healthy(state, planar, alive_bonus):
    """Whether an episode goes on, from positions and velocities side by side, `state [nq + nv]`."""
    if planar:  # Ant
        return np.isfinite(state).all() and 0.2 <= state[2] <= 1.0
    if alive_bonus:  # Hopper
        return (np.abs(state[2:]) < 100).all() and state[1] > 0.7 and abs(state[2]) < 0.2
    return True  # HalfCheetah


@compiled
def measure(
    before,  # [N, 1] or, planar, [N, 2]: where the bodies were
    after,  # and are
    state,  # [N, nq + nv]
    positions,  # nq
    action,  # [N, a]
    seconds,
    control_cost,
    alive_bonus,
    threshold,
    planar,
    velocity_clip,
    limit,  # steps of an episode
    elapsed,  # [N] steps so far, counted on here
    observation,  # [N, d], filled here, like all that follow
    reward,  # [N]
    cost,  # [N, 1]
    terminated,  # [N] bool
    truncated,  # [N] bool
):
    """Fill in one step of all simulations; whether any episode ended."""
    any_ended = False
    hidden = state.shape[1] - observation.shape[1]
    for n in range(len(state)):
        forward = (after[n, 0] - before[n, 0]) / seconds
        speed = forward
        if planar:
            speed = np.sqrt(forward**2 + ((after[n, 1] - before[n, 1]) / seconds) ** 2)
        effort = 0.0
        for a in range(action.shape[1]):
            effort += action[n, a] ** 2
        reward[n] = forward + alive_bonus - control_cost * effort
        cost[n, 0] = 1.0 if speed > threshold else 0.0
        elapsed[n] += 1
        terminated[n] = not healthy(state[n], planar, alive_bonus)
        truncated[n] = elapsed[n] >= limit and not terminated[n]
        any_ended |= terminated[n] or truncated[n]
        for i in range(hidden, state.shape[1]):
            value = state[n, i]
            if i >= positions and abs(value) > velocity_clip:
                value = np.copysign(velocity_clip, value)
            observation[n, i - hidden] = value
    return any_ended
