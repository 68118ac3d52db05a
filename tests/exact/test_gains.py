"""Plans for the long-run average, against every deterministic policy."""

from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.exact.endings import end_components
from cmdpax.exact.gains import Inside, Outside
from cmdpax.exact.settled import Settled
from cmdpax.exact.standard import StandardForm
from cmdpax.stopping import never

S, A = 5, 2


def model_of(seed: int) -> CMDP:
    """Rows with one to three successors, so that there are often several end components."""
    rng = np.random.default_rng(seed)
    tensor = np.zeros((S, A, S))
    for s, a in product(range(S), range(A)):
        to = rng.choice(S, rng.integers(1, 4), replace=False)
        tensor[s, a, to] = rng.dirichlet(np.ones(len(to)))
    reward = rng.normal(size=(S, A))
    return CMDP(tensor, reward, [], [], rng.dirichlet(np.ones(S)), criterion="average")


def averages(model: CMDP, choices: np.ndarray) -> np.ndarray:
    """The average `[S]` of choices: `((P + I) / 2)^t r` for a large t, squared 40 times."""
    moves = (model.transitions.matrix.toarray()[choices] + np.eye(S)) / 2
    for _ in range(40):
        moves = moves @ moves
        moves /= moves.sum(1, keepdims=True)
    return moves @ model.reward[choices]


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_the_best_average_of_all_policies(seed):
    """Inside of components every state has the component's gain, and h proves it."""
    model = model_of(seed)
    form, rows = StandardForm.of(model), model.transitions
    label, inner = end_components(rows, np.ones(rows.choices, dtype=bool))
    inside = Inside.of(rows, label, inner)
    h, gains, own, width = inside.plan(model.reward[inside.choices], None, 0.0, never)
    paid = model.reward[inside.choices]
    change = paid + inside.rows.matrix @ h.sum(0) - inside.rows.by_state(h.sum(0))
    assert width <= 1e-9
    assert (change <= inside.rows.by_state(gains) + 1e-9).all()
    policies = [np.array(one) for one in product(*map(range, *edges(rows)))]
    best = np.max([averages(model, one) for one in policies], 0)
    own_gains = Settled.of(inside.rows, own).evaluated(paid[own][None])[0][0]
    np.testing.assert_allclose(own_gains, gains, atol=1e-9)
    assert (best[inside.states] >= gains - 1e-9).all()  # a run may leave for something better
    everywhere, choices = np.zeros(S), np.array(rows.first_choice[:-1])
    everywhere[inside.states], choices[inside.states] = gains, inside.choices[own]
    outside = Outside.of(form, label, inner)
    worth, steps, whole = outside.plan(form, everywhere, choices, inner, 0.0)
    np.testing.assert_allclose(worth, best, atol=1e-9)
    np.testing.assert_allclose(averages(model, whole), best, atol=1e-7)
    assert (steps >= 0).all()


def edges(rows: object) -> tuple[list[int], list[int]]:
    """The first and the last choice of every state, for `range`."""
    return rows.first_choice[:-1].tolist(), rows.first_choice[1:].tolist()
