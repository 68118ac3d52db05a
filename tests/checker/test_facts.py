import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cmdpax import CMDP
from cmdpax.checker.facts import (
    ByBlocks,
    available,
    choices,
    longest_row,
    moved,
    stretches,
    visited,
)
from models import dense_transitions, uneven

FLAT = CMDP(
    [[{0: 0.5, 1: 0.5}, {1: 1.0}], [{1: 1.0}], [{0: 1.0}]],
    [1.0, 2.0, 3.0, 4.0],
    np.zeros((0, 4)),
    [],
    0,
    0.9,
)


@given(st.integers(0, 2**32 - 1), st.booleans())
def test_visited_states_are_those_of_a_power_of_the_matrix(seed, is_part):
    model, rng = uneven(12, seed), np.random.default_rng(seed)
    allowed = rng.random(model.choices) < 0.6 if is_part else np.ones(model.choices, dtype=bool)
    step = dense_transitions(model, allowed.astype(float)) + np.eye(12)
    reached = model.initial @ np.linalg.matrix_power(step, 12) > 0
    np.testing.assert_array_equal(visited(model, allowed if is_part else None), reached)


def test_nothing_follows_at_discount_0():
    np.testing.assert_array_equal(visited(FLAT.replace(discount=0.0)), [True, False, False])


def test_choices_and_actions_of_states():
    np.testing.assert_array_equal(choices(FLAT, visited(FLAT)), [True, True, True, False])
    np.testing.assert_array_equal(available(FLAT), [[True, True], [True, False], [True, False]])
    full = CMDP(np.ones((1, 2, 1)), [[1.0, 0.0]], np.zeros((0, 1, 2)), [], [1.0], 0.5)
    np.testing.assert_array_equal(available(full), [[True, True]])
    assert longest_row(FLAT) == 2


def test_stretches_follow_each_other():
    numbers = stretches(np.array([0, 2, 2, 5, 6]), np.array([2, 1, 0]))
    np.testing.assert_array_equal(numbers, [2, 3, 4, 0, 1])


def test_moved_is_the_mean_change_of_a_sum_of_vectors():
    v, w = np.array([1.0, 3.0, 8.0]), np.array([10.0, 0.0, 0.0])
    change, size = moved(FLAT.rows(0, 3), 0, v, w)
    np.testing.assert_array_equal(change, [1 - 5, 2 - 10, 0, -7 + 10])
    np.testing.assert_array_equal(size, [1 + 5, 2 + 10, 0, 7 + 10])
    change, _ = moved(FLAT.rows(1, 3), 1, v)  # the rows of some states alone
    np.testing.assert_array_equal(change, [0, -7])


def test_a_function_of_a_model_by_blocks_has_a_span():
    def rows(first, last):
        s = np.arange(first, last)[:, None]
        shape = (last - first, 2)
        reward, cost = np.broadcast_to(s * [1.0, -1.0], shape), np.broadcast_to(s + 1.0, shape)
        return np.repeat(s, 2, axis=1)[:, :, None], np.ones((*shape, 1)), reward, cost[None]

    model = CMDP.from_rows(rows, states=3, initial=0, discount=0.5, thresholds=[9.0])
    blocks = ByBlocks(model)
    assert blocks.span(blocks.reward) == (-2.0, 2.0)
    assert blocks.span(blocks.constraints[0] - 2 * blocks.reward) == (1.0 - 4.0, 3.0 + 4.0)
    assert longest_row(blocks) == 1 and visited(blocks).all()
