"""Hypothesis strategies for small random CMDPs: sparse, degenerate, redundant, with unreachable
states, up to gamma .999.
"""

import numpy as np
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.exact.standard import StandardForm

DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999)
OFFSETS = (-0.3, -0.05, -1e-3, -1e-6, -3e-7, 0.0, 3e-7, 1e-6, 1e-3, 0.05, 0.3)


@st.composite
def cmdps(
    draw: st.DrawFn, constraints: tuple[int, int] = (0, 4), states: int = 30, actions: int = 5
) -> CMDP:
    """A random model whose thresholds lie around what a random policy achieves: feasible,
    infeasible and in between.
    """
    seed = draw(st.integers(0, 2**32 - 1))
    S, A = draw(st.integers(1, states)), draw(st.integers(1, actions))
    m, B = draw(st.integers(*constraints)), draw(st.integers(1, 4))
    kind = draw(st.sampled_from(["uniform", "binary", "scaled", "redundant", "constant"]))
    return build(
        np.random.default_rng(seed),
        S,
        A,
        m,
        B,
        draw(st.sampled_from(DISCOUNTS)),
        kind,
        draw(st.sampled_from(OFFSETS)),
    )


def build(
    rng: np.random.Generator,
    S: int,
    A: int,
    m: int,
    B: int,
    discount: float,
    kind: str,
    offset: float,
) -> CMDP:
    """One model; see `cmdps`."""
    reward, rows = rng.random((S, A)), rng.random((m, S, A))
    if kind == "binary":
        reward, rows = np.round(reward), np.round(rows)
    elif kind == "scaled":
        reward, rows = (
            reward * 10.0 ** rng.integers(-3, 4),
            (rows - 0.5) * 10.0 ** rng.integers(-3, 4, (m, 1, 1)),
        )
    elif kind == "redundant" and m > 1:
        rows[1] = rows[0]
        rows[-1] = 1 - rows[0]
    elif kind == "constant" and m:
        rows[0] = 0.25
    start = np.eye(S)[0] if rng.random() < 0.5 else rng.dirichlet(np.ones(S))
    transitions = (rng.integers(0, S, (S, A, B)), rng.dirichlet(np.ones(B), (S, A)))
    model = CMDP(transitions, reward, rows, np.zeros(m), start, discount)
    form = StandardForm.of(model)
    margins = form.evaluate(rng.dirichlet(np.ones(A), S)).margins
    return model.replace(thresholds=margins + offset * form.constraint_scales)
