"""Settled values against Bellman's equation and plain policy iteration; what is left out."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cmdpax.environments import garnet, queue
from cmdpax.loops.components import find_order
from cmdpax.loops.settling import settle
from cmdpax.model.cmdp import CMDP
from models import STRUCTURES, build, renumbered, uneven


def miss(model: CMDP, values: np.ndarray, discount: float) -> float:
    """`max |T V - V|`, recomputed by SciPy."""
    rows = model.transitions
    action_values = model.reward + discount * rows.matrix @ values
    return float(np.abs(np.maximum.reduceat(action_values, rows.first_choice[:-1]) - values).max())


def settled(model: CMDP, discount: float, guess: np.ndarray) -> np.ndarray:
    order, values = find_order(model.transitions), guess.copy()
    last = settle(model.transitions, order, 0, model.reward, values, discount)
    assert last == len(order.starts) - 1 and not order.filled.any()
    return values


@settings(max_examples=200)
@given(
    st.sampled_from([*STRUCTURES, "uneven"]),
    st.integers(1, 60),
    st.integers(0, 999),
    st.sampled_from([0.0, 0.9, 0.999]),
)
def test_settled_values_are_a_fixed_point_of_the_backup(structure, states, seed, discount):
    if structure == "uneven":
        model = uneven(states, seed)
    else:
        model = build(structure, states, 2, 1 + seed % 2, 0.9, seed)
    guess = np.random.default_rng(0).normal(size=model.states)
    values = settled(model, discount, guess)
    assert miss(model, values, discount) <= 1e-11 / (1 - discount)


@pytest.mark.parametrize("seed", range(3))
def test_large_components_are_settled_in_any_numbering(seed):
    """A queue is one component of narrow rows; its policy switches at a threshold."""
    model = queue(2000, discount=0.999)
    other, order = renumbered(model, seed), np.random.default_rng(seed).permutation(model.states)
    values = settled(model, 0.999, np.zeros(model.states))
    assert miss(model, values, 0.999) <= 1e-10
    np.testing.assert_allclose(
        settled(other, 0.999, np.zeros(model.states)), values[order], rtol=1e-11
    )


def test_a_change_that_is_allowed_ends_it():
    """One sweep in the order of a chain is exact, and a good guess needs no elimination."""
    model = queue(300, discount=0.9)
    order, exact = find_order(model.transitions), settled(model, 0.9, np.zeros(301))
    values = exact + 1e-3 * np.random.default_rng(0).random(301)
    settle(model.transitions, order, 0, model.reward, values, 0.9, allowed=1e-2)
    assert 0 < miss(model, values, 0.9) <= 1e-2


def test_a_dense_component_is_left_out_and_not_tried_again():
    model = garnet(200, 2, branching=150, seed=0)
    order, values = find_order(model.transitions), np.zeros(200)
    assert len(order.starts) == 2
    assert settle(model.transitions, order, 0, model.reward, values, 0.99) == 0
    assert order.filled[0]
    before = values.copy()
    assert settle(model.transitions, order, 0, model.reward, values, 0.99) == 0
    np.testing.assert_array_equal(values, before)
