"""What a policy is improved on between two visits to the environment. All are maximised; `log_ratio
= log(pi/pi_k)` `[K]`.

PPO: `E min(ratio A, clip(ratio, 1 - c, 1 + c) A)`.
SPMA: the projection of `pi_k (1 + eta A)` onto the policies, `E_{pi_k}[A log ratio - (ratio - 1 -
log ratio) / eta]`. In expectation that equals the paper's `E[(A + 1/eta) log ratio]`, because
`E_{pi_k} ratio = 1`; sample by sample it is far less noisy (a sample with A = 0 pulls towards no
change instead of towards itself). `pi_k (1 + eta A)` is a policy only where `A >= -1/eta`, and
below it the surrogate has no maximum; so a sample's own step is `min(eta, 1/|A|)`, and its aim lies
between never and twice as often. Its pull from where the policy is, `A`, stays what it was.
Clipping A instead makes light of rare disasters: advantages near them are -8 deviations where one
happened, and as large upwards where it was expected and escaped.
"""

import jax
import jax.numpy as jnp


def ppo(log_ratio: jax.Array, advantage: jax.Array, clip: float) -> jax.Array:
    """PPO's clipped surrogate, `[K]`, `[K]` -> scalar."""
    ratio = jnp.exp(log_ratio)
    return jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - clip, 1 + clip) * advantage).mean()


def spma(log_ratio: jax.Array, advantage: jax.Array, step: float) -> jax.Array:
    """SPMA's surrogate, `[K]`, `[K]` -> scalar."""
    slope = jnp.maximum(jnp.abs(advantage), 1 / step)  # one over the sample's own step
    return (advantage * log_ratio - slope * (jnp.expm1(log_ratio) - log_ratio)).mean()


def linear(log_ratio: jax.Array, advantage: jax.Array) -> jax.Array:
    """The policy gradient's own surrogate `E[ratio A]`, for trust regions; `[..., K]` -> `[...]`."""
    return (jnp.exp(log_ratio) * advantage).mean(-1)


def divergence(log_ratio: jax.Array) -> jax.Array:
    """Estimate of `KL(pi_k || pi)` from samples of pi_k that is never negative, `E[ratio - 1 - log
    ratio]`; `[K]` -> scalar.
    """
    return (jnp.expm1(log_ratio) - log_ratio).mean()
