"""Which small models may be stacked, and that a stack holds each of them as it is."""

import numpy as np
import pytest

from cmdpax import CMDP
from cmdpax.environments import garnet
from cmdpax.exact.stack import is_plain, stacked


def test_every_model_keeps_its_numbers():
    """Entries are padded where choices have fewer successors; pointers say how many count."""
    short = CMDP(np.eye(2)[:, None], [[1.0], [2.0]], [[[3.0], [4.0]]], [5.0], 0, 0.9, senses="<=")
    full = short.replace(
        transitions=np.full((2, 1, 2), 0.5), initial=1, discount=0.5, minimise=True, senses=">="
    )
    stack = stacked([short, full])
    np.testing.assert_array_equal(stack.rows.first_entry, [[0, 1, 2], [0, 2, 4]])
    np.testing.assert_array_equal(stack.rows.successors[0, :2], [0, 1])
    np.testing.assert_array_equal(stack.rows.probabilities, [[1, 1, 0, 0], [0.5] * 4])
    np.testing.assert_array_equal(stack.initial, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(stack.discounts, [0.9, 0.5])
    np.testing.assert_array_equal(stack.signs, [1, -1])
    np.testing.assert_array_equal(stack.rewards, [[1, 2], [1, 2]])
    np.testing.assert_array_equal(stack.constraints, [[[3, 4]], [[3, 4]]])
    np.testing.assert_array_equal(stack.bounds, [[[-np.inf, 5]], [[5, np.inf]]])


def test_a_stack_of_several_is_padded():
    alike = [garnet(states=8, branching=1 + seed % 3, seed=seed) for seed in range(4)]
    counts = [len(model.transitions.successors) for model in alike]
    rows = stacked(alike).rows
    assert rows.successors.shape == rows.probabilities.shape == (4, max(counts))
    for n, (model, count) in enumerate(zip(alike, counts, strict=True)):
        assert (rows.probabilities[n, :count] == model.transitions.probabilities).all()
        assert not rows.probabilities[n, count:].any()


@pytest.mark.parametrize(
    ("changes", "plain"),
    [
        ({}, True),
        ({"constraints": [], "thresholds": []}, True),
        ({"discount": 0.9995}, False),  # it is asked whether all policies end
        ({"discount": None, "criterion": "average"}, False),
    ],
)
def test_which_models_are_plain(changes, plain):
    assert is_plain(garnet(states=5, actions=2, branching=2).replace(**changes)) == plain
