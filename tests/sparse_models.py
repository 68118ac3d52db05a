"""Random models with the structures that break linear solvers, for the tests of the sparse path."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import strategies as st

from cmdpax.model.cmdp import CMDP

STRUCTURES = ("random", "cycle", "absorbing", "identity", "reset", "unreachable", "chain")


def build(
    structure: str,
    states: int,
    actions: int,
    branching: int,
    discount: float,
    seed: int,
    constraints: int = 1,
) -> CMDP:
    """A model whose thresholds are 0; `unreachable` starts in state 0 and only ever moves down."""
    rng = np.random.default_rng(seed)
    own = np.arange(states)[:, None, None]
    successors = rng.integers(0, states, (states, actions, branching))
    if structure == "cycle":
        successors = np.broadcast_to((own + 1) % states, successors.shape)
    elif structure == "absorbing":
        successors[:, 0] = own[:, 0]
    elif structure == "identity":
        successors = np.broadcast_to(own, successors.shape)
    elif structure == "reset":
        successors[:, :, 0] = 0
    elif structure == "unreachable":
        successors = np.minimum(successors, own)
    elif structure == "chain":
        successors = np.clip(own + rng.integers(-1, 2, successors.shape), 0, states - 1)
    probabilities = rng.dirichlet(np.ones(branching), (states, actions))
    initial = (
        np.eye(states)[0] if structure in ("unreachable", "chain") else np.full(states, 1 / states)
    )
    reward = rng.normal(size=(states, actions))
    rows = rng.normal(size=(constraints, states, actions))
    return CMDP((successors, probabilities), reward, rows, np.zeros(constraints), initial, discount)


models = st.builds(
    build,
    structure=st.sampled_from(STRUCTURES),
    states=st.integers(1, 40),
    actions=st.integers(1, 4),
    branching=st.integers(1, 4),
    discount=st.sampled_from([0.0, 0.5, 0.9, 0.99, 0.999]),
    seed=st.integers(0, 2**32 - 1),
)


def dense_transitions(model: CMDP, policy: np.ndarray) -> np.ndarray:
    """`P_pi [S, S]` by brute force, for actions `[S]` or probabilities `[S, A]`."""
    matrix = np.zeros((model.states, model.states))
    for s in range(model.states):
        for a in range(model.actions):
            weight = float(policy[s] == a) if policy.ndim == 1 else policy[s, a]
            for b in range(model.successors.shape[2]):
                matrix[s, model.successors[s, a, b]] += weight * model.probabilities[s, a, b]
    return matrix


@contextmanager
def large_path() -> Iterator[None]:
    """Send models of every size down the path of large ones."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CMDP, "is_small", property(lambda model: False))
        yield
