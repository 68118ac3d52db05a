"""The compiled step against the tasks' definition, written out in NumPy."""

import numpy as np
import pytest

from cmdpax.learning.velocity_loops import healthy, measure

SECONDS, THRESHOLD, LIMIT, POSITIONS = 0.05, 2.0, 10, 4


@pytest.mark.parametrize(
    ("state", "goes_on"),
    [
        ([0.0, 1.2, 0.1, 0.0], True),
        ([0.0, 0.7, 0.1, 0.0], False),  # too low
        ([0.0, 1.2, 0.2, 0.0], False),  # tilted
        ([0.0, 1.2, -0.2, 0.0], False),
        ([0.0, 1.2, 0.1, 100.0], False),  # too fast
        ([500.0, 1.2, 0.1, 99.9], True),  # wherever it is
        ([0.0, 1.2, 0.1, np.nan], False),
    ],
)
def test_when_hopper_stops(state, goes_on):
    assert healthy(np.array(state), False, 1.0) == goes_on


@pytest.mark.parametrize(
    ("state", "goes_on"),
    [
        ([0, 0, 0.2, 1], True),
        ([0, 0, 1.0, 1], True),
        ([0, 0, 0.19, 1], False),
        ([0, 0, 0.5, np.inf], False),
    ],
)
def test_when_ant_stops(state, goes_on):
    assert healthy(np.array(state, dtype=float), True, 1.0) == goes_on


def test_half_cheetah_never_stops():
    assert healthy(np.array([0.0, -9.0, 9.0, 1e9]), False, 0.0)


@pytest.mark.parametrize("planar", [False, True])
@pytest.mark.parametrize("clip", [10.0, np.inf])
@pytest.mark.parametrize("hidden", [1, 2])
def test_a_step_is_what_the_definition_says(planar, clip, hidden):
    rng = np.random.default_rng(0)
    count, width = 6, 9
    before = rng.normal(size=(count, 1 + planar))
    after, action = before + rng.normal(size=before.shape) / 10, rng.normal(size=(count, 3))
    state = np.concatenate(
        [
            rng.uniform(0.1, 1.1, (count, POSITIONS)),
            rng.normal(size=(count, width - POSITIONS)) * 20,
        ],
        1,
    )
    elapsed = np.array([0, 3, 8, 9, 9, 20])
    observation, reward, cost = (
        np.empty((count, width - hidden)),
        np.empty(count),
        np.empty((count, 1)),
    )
    terminated, truncated, counted = np.empty(count, bool), np.empty(count, bool), elapsed.copy()
    arguments = (
        before,
        after,
        state,
        POSITIONS,
        action,
        SECONDS,
        0.5,
        1.0,
        THRESHOLD,
        planar,
        clip,
        LIMIT,
        counted,
    )
    ended = measure(*arguments, observation, reward, cost, terminated, truncated)

    velocity = (after - before) / SECONDS
    np.testing.assert_allclose(reward, velocity[:, 0] + 1.0 - 0.5 * (action**2).sum(1))
    speed = (
        np.linalg.norm(velocity, axis=1) if planar else velocity[:, 0]
    )  # backwards is not too fast, but in the plane
    np.testing.assert_array_equal(cost[:, 0], speed > THRESHOLD)
    assert 0 < cost.sum() < count
    fallen = np.array([not healthy(row, planar, 1.0) for row in state])
    np.testing.assert_array_equal(terminated, fallen)
    np.testing.assert_array_equal(truncated, (elapsed + 1 >= LIMIT) & ~fallen)
    np.testing.assert_array_equal(counted, elapsed + 1)
    assert ended == (terminated | truncated).any()
    seen = state.copy()
    seen[:, POSITIONS:] = np.clip(seen[:, POSITIONS:], -clip, clip)
    np.testing.assert_array_equal(observation, seen[:, hidden:])
