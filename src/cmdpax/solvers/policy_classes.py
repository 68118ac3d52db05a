"""Which policies are there: tables here, log-linear policies of given features in `log_linear`.

| class | parameters | projection of a target | natural gradient |
|---|---|---|---|
| `Tabular()` | log-probabilities `[..., S, A]` | the target itself | the action values Q |
| `LogLinear(features)` | coordinates `[..., r]` | nearest in KL | compatible regression on Q |

Every method is written once, on a `PolicyClass`, which has `complete` (whether every policy is in
the class, so that a target is its own projection), `batch` (the shape of its own settings), and

- `start(form, batch, policy)`: uniform policies of a batch shape, or those nearest to a policy;
- `at(parameters)`: parameters as the class keeps them, and their policies `[..., S, A]`;
- `log_policy(parameters)`: log-probabilities, finite where a probability is rounded to 0;
- `project(parameters, share, target)`: the nearest to a target, searched from parameters;
- `natural_gradient(parameters, share, policy, action_values)`, in the shape of the parameters;
- `ascend_clipped(parameters, share, advantage, clip, size, steps)`: PPO's surrogate,

      sum_s share(s) sum_a pi_k(a|s) min(ratio A, clip(ratio, 1 - clip, 1 + clip) A),

  with the ratio of the policy to the first one, pi_k, and the advantage A, by `steps` gradient
  steps. A pair counts while its ratio is below `1 + clip` (A > 0) or above `1 - clip` (A < 0); its
  gradient is then that of `share(s) pi(a|s) A(s,a)`.

`share [..., S]` is each state's share of the visits of the current policy; a complete class needs
it in `ascend_clipped` alone. With one-hot features both classes hold the same policies, and every
method does the same on both. `...` is an optional batch shape.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cmdpax.errors import InputError
from cmdpax.exact.standard import StandardForm

Array = np.ndarray
Batch = tuple[int, ...]  # a batch shape
Pair = tuple[Array, Array]  # parameters and policies of a class
FLOOR = 1e-9  # share of uniform to which targets and policies are raised where 0 would be final
TINY = float(np.finfo(float).tiny)


def softmax(logits: Array) -> Array:
    """Row-wise softmax of `[..., A]`, safe for any finite logits."""
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / row_sums(powers)


def log_softmax(logits: Array) -> Array:
    """Logarithm of `softmax`, `[..., A]`; finite where the softmax itself is rounded to 0."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(row_sums(np.exp(shifted)))


def log_or_zero(policy: Array) -> Array:
    """Logarithms of probabilities `[..., A]`, 0 where they are 0: `p log p` is right there."""
    return np.log(np.where(policy > 0, policy, 1.0))


def row_sums(rows: Array) -> Array:
    """Sums over the last axis, kept: `[..., A] -> [..., 1]`; five times as fast as `sum`."""
    return np.einsum("...a->...", rows)[..., None]


def from_visits(form: StandardForm, mass: Array, fallback: Array, negligible: float = 0.0) -> Array:
    """The stationary policy `[K]` of visits `mass [K]`: each over the sum of its state's.

    States with at most `negligible` visits take `fallback [K]`.
    """
    total = form.transitions.by_state(form.transitions.sums(mass))
    visited = total > negligible
    return np.where(visited, mass / np.where(visited, total, 1.0), fallback)


def check_step(name: str, value: Any, rules: tuple[str, ...]) -> None:
    """Demand positive step sizes (a number or an array), or the name of one of the `rules`."""
    if isinstance(value, str):
        if value not in rules:
            choice = " nor ".join(f"'{rule}'" for rule in rules)
            raise InputError(f"{name}: '{value}' is neither a number nor {choice}.")
    elif not (np.isfinite(value).all() and (np.asarray(value) > 0).all()):
        raise InputError(f"{name} is {value}; step sizes must be positive and finite.")


@dataclass(frozen=True)
class Tabular:
    """One distribution per state. Parameters are log-probabilities: what underflows comes back."""

    complete: ClassVar[bool] = True
    batch: ClassVar[Batch] = ()

    def start(self, form: StandardForm, batch: Batch, policy: Array | None = None) -> Pair:
        """The uniform policy, or the given one `[S, A]`."""
        policy = form.transitions.as_table(form.uniform_policy()) if policy is None else policy
        return self.project(policy, None, np.broadcast_to(policy, (*batch, *policy.shape)))

    def at(self, parameters: Array) -> Pair:
        """The softmax of logits `[..., S, A]`, and its logarithm as parameters."""
        log_policy = log_softmax(parameters)
        return log_policy, np.exp(log_policy)

    def log_policy(self, parameters: Array) -> Array:
        """The parameters themselves."""
        return parameters

    def project(self, parameters: Array, share: Any, target: Array) -> Pair:
        """The target itself; an action that it gives up keeps a finite log-probability."""
        return np.log(np.maximum(target, TINY)), target

    def natural_gradient(
        self, parameters: Array, share: Any, policy: Array, action_values: Array
    ) -> Array:
        """The action values themselves."""
        return action_values

    def ascend_clipped(
        self, parameters: Array, share: Array, advantage: Array, clip: Any, size: Any, steps: int
    ) -> Array:
        """Gradient steps on the logits."""
        size, clip = (np.asarray(value)[..., None, None] for value in (size, clip))
        is_gain = advantage > 0
        bound = softmax(parameters) * np.where(is_gain, 1 + clip, 1 - clip)
        for _ in range(steps):
            policy = softmax(parameters)
            active = np.where(is_gain, policy < bound, policy > bound)
            counted = np.where(active, advantage, 0.0)
            slope = policy * (counted - row_sums(policy * counted))
            parameters = parameters + size * (share[..., None] * slope)
        return parameters


TABLES = Tabular()
