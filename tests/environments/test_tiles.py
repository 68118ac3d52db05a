import zlib

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments.tiles import tiles
from cmdpax.paper.settings import TILES
from cmdpax.solvers.policy_classes import Features

# slots used and dimension of the class of policies, as the specification counts them
COUNTS = {(21, 4): ((28, 12), (60, 36), (80, 63)), (25, 2): ((14, 4), (30, 12), (68, 25))}


@pytest.mark.parametrize(("states", "actions"), COUNTS)
def test_slots_and_dimensions_of_the_papers_sets(states, actions):
    for parameters, (slots, dimension) in zip(TILES, COUNTS[states, actions], strict=True):
        features = tiles(states, actions, *parameters)
        assert features.shape == (states, actions, parameters[0]) and set(np.unique(features)) == {
            0,
            1,
        }
        assert features.any((0, 1)).sum() == slots
        assert Features(features).rank == dimension


def test_keys_by_hand():
    features = tiles(4, 1, dimension=4, tilings=2, size=1)  # q = floor(2 s / 4) = 0, 0, 1, 1
    # tiling 0: tile q // 2 = 0 always; tiling 1: tile (q + 1) // 2 = 0, 0, 1, 1
    np.testing.assert_array_equal(
        features[:, 0], [[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]
    )


def test_a_full_table_is_shared_by_hash():
    features = tiles(4, 1, dimension=2, tilings=2, size=1)
    shared = zlib.crc32(b"1,1,0") % 2
    expected = np.zeros(2)
    expected[[0, shared]] = 1
    np.testing.assert_array_equal(features[2, 0], expected)


@pytest.mark.parametrize("wrong", [(0, 4, 1), (40, 0, 1), (40, 4, -1)])
def test_sizes_must_be_positive(wrong):
    with pytest.raises(InputError, match="at least 1"):
        tiles(21, 4, *wrong)
