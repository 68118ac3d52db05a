"""Are these policies, or probabilities of policies? Each by choice, its rows with sum 1."""

from fractions import Fraction
from typing import Any

import numpy as np

from cmdpax.checker.bounds import Mixture
from cmdpax.checker.demands import demand
from cmdpax.checker.facts import BLOCK, ByBlocks, available

SUM_TOLERANCE = 1e-9


def checked_mixture(model: Any, result: Any) -> Mixture:
    """The policy, or those of which one is drawn, with their shares; each by choice, `[K]`."""
    if result.mixture is None:
        return [(Fraction(1), checked_policy(model, result.policy))]
    demand(result.policy is None, "a mixture has no policy beside it")
    pairs = []
    for share, actions in result.mixture:
        actions = np.asarray(actions)
        is_choice = actions.shape == (model.states,) and np.issubdtype(actions.dtype, np.integer)
        demand(is_choice, "a policy of the mixture has no action for each state")
        fits = bool(((actions >= 0) & (actions < model.actions)).all())
        demand(fits, "a policy of the mixture has an action that there is not")
        demand(bool(0 < share <= 1), "a probability of the mixture is none")
        table = np.zeros((model.states, model.actions))
        table[np.arange(model.states), actions] = 1.0
        pairs.append((Fraction(float(share)), checked_policy(model, table)))
    total = sum(share for share, _ in pairs)
    demand(abs(float(total) - 1) <= SUM_TOLERANCE, "the mixture's probabilities miss a sum of 1")
    return [(share / total, policy) for share, policy in pairs]


def checked_policy(model: Any, policy: Any) -> np.ndarray:
    """The policy `[S, A]` or `[H, S, A]`, whose rows sum to 1, by choice, `[K]`.

    Where rows are a function it stays `[S, A]`.
    """
    shape = tuple(model.policy_shape)
    if isinstance(model, ByBlocks):
        policy = np.asarray(policy)
        fits = policy.shape == shape and policy.dtype.kind == "f"
        demand(fits, f"the policy has shape {policy.shape}, the model needs {shape}")
        for first in range(0, model.states, BLOCK):
            part = policy[first : first + BLOCK].astype(np.float64)
            off = np.abs(part.sum(-1) - 1).max() if (part >= 0).all() else np.inf
            demand(bool(off <= SUM_TOLERANCE), "the policy has rows that are no probabilities")
        return policy
    policy = np.asarray(policy, dtype=np.float64)
    demand(policy.shape == shape, f"the policy has shape {policy.shape}, the model needs {shape}")
    demand(
        bool(np.isfinite(policy).all() and (policy >= 0).all()),
        "the policy has entries that are not probabilities",
    )
    off = float(np.abs(policy.sum(-1) - 1).max())
    demand(off <= SUM_TOLERANCE, f"the policy's probabilities miss a sum of 1 by {off:.3g}")
    exists = available(model)
    demand(
        not policy[~exists].any(),
        "the policy chooses an action that is not available in its state",
    )
    # a missing 1e-9 would count for 1e-9 / (1 - gamma)
    chosen = (policy / policy.sum(-1, keepdims=True))[exists]
    return np.append(chosen, np.ones(model.choices - len(chosen)))  # at the end of a horizon
