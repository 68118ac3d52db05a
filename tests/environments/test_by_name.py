import os
import zipfile
import zlib

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments import cliff_world, deep_sea, finite, garnet, queue
from cmdpax.environments.by_name import drawn_states, open_features, open_model, seeded, tiles
from cmdpax.model.archive import save_model
from cmdpax.solvers.log_linear import Features, one_hot
from damage import measured, npy, zipped

# slots used and dimension of the class of policies, as the specification counts them
TILE_SETS = ((40, 4, 1), (60, 4, 3), (80, 6, 5))
COUNTS = {(21, 4): ((28, 12), (60, 36), (80, 63)), (25, 2): ((14, 4), (30, 12), (68, 25))}


@pytest.mark.parametrize("name", finite)
def test_every_environment_opens_by_name(name):
    assert open_model(name).digest == finite[name]().digest


def test_settings_take_the_type_of_their_default():
    assert (
        open_model("garnet:states=7,seed=3,discount=.5,feasible=false").digest
        == garnet(7, seed=3, discount=0.5, feasible=False).digest
    )
    assert open_model("deep-sea:mines=7+11").digest == deep_sea(mines=(7, 11)).digest
    assert open_model("queue:rates=0+0.5,capacity=1e1").digest == queue(10, rates=(0.0, 0.5)).digest


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_files(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    save_model(garnet(5), path)
    assert open_model(str(path)).digest == garnet(5).digest


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("nothing", "neither a model file"),
        ("garnett", "did you mean 'garnet'"),
        ("garnet:state=1", "did you mean 'states'"),
        ("garnet:states", "has no value; write states=100"),
        ("garnet:states=1.5", "not understood; write states=100"),
        ("garnet:feasible=maybe", "not understood; write feasible=true"),
        ("garnet:seed=1,seed=2", "given twice"),
        ("deep-sea:mines=1+x", "write mines=12\\+16"),
    ],
)
def test_bad_sources(source, message):
    with pytest.raises(InputError, match=message):
        open_model(source)


def test_features_from_tiles_and_files(tmp_path):
    model = cliff_world()
    np.testing.assert_array_equal(open_features("tiles:40,4,1", model), tiles(21, 4, 40, 4, 1))
    table = one_hot(21, 4)
    np.save(tmp_path / "f.npy", table)
    np.savez(tmp_path / "f.npz", features=table)
    for name in ("f.npy", "f.npz"):
        np.testing.assert_array_equal(open_features(str(tmp_path / name), model), table)


def test_bad_features_get_one_sentence(tmp_path):
    model = cliff_world()
    np.savez(tmp_path / "other.npz", table=one_hot(21, 4))
    (tmp_path / "text.npy").write_text("no array")
    for source, message in (
        ("tiles:40,4", "tiles:dimension,tilings,size"),
        ("tiles:40,4,x", "tiles:dimension,tilings,size"),
        ("fourier:3", "give tiles:60,4,3"),
        (str(tmp_path / "none.npy"), "there is no such file"),
        (str(tmp_path / "text.npy"), "not a plain array of numbers"),
        (str(tmp_path / "other.npz"), "no array 'features'"),
    ):
        with pytest.raises(InputError, match=message):
            open_features(source, model)


def test_features_are_read_with_the_guards_of_models(tmp_path):
    """A file of kilobytes that unpacks to gigabytes, objects, and what is no file at all."""
    bomb = {"features.npy": npy(np.zeros(30_000_000))}
    zipped(tmp_path / "bomb.npz", bomb, zipfile.ZIP_DEFLATED)
    (tmp_path / "objects.npy").write_bytes(npy(np.zeros(2)).replace(b"<f8", b"|O8"))
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "zeros.npz").symlink_to("/dev/zero")
    for name, sentence in {
        "bomb.npz": "array 'features' is compressed; write the file with numpy.savez",
        "objects.npy": "array 'features' is not a plain array",
        "pipe.npy": "it is not a regular file",
        "zeros.npz": "it is not a regular file",
    }.items():
        with measured(), pytest.raises(InputError, match=f"--features .*{name}: {sentence}"):
            open_features(str(tmp_path / name), cliff_world())


@pytest.mark.parametrize("name", finite)
def test_states_of_what_can_be_drawn_are_counted_without_making_it(name):
    model = finite[name]()
    assert drawn_states(name) == (None if model.grid is None else model.states)


def test_states_of_other_sizes():
    for source in ("deep-sea:size=7,mines=12+16", "grid-world:width=3,seed=4"):
        assert drawn_states(source) == open_model(source).states
    assert drawn_states("grid-world:width=1e9,height=1e9") == 10**18 + 1
    assert drawn_states("model.json") is None


@pytest.mark.parametrize(("states", "actions"), COUNTS)
def test_slots_and_dimensions_of_the_papers_tiles(states, actions):
    for parameters, (slots, dimension) in zip(TILE_SETS, COUNTS[states, actions], strict=True):
        features = tiles(states, actions, *parameters)
        assert features.shape == (states, actions, parameters[0])
        assert set(np.unique(features)) == {0, 1}
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
def test_sizes_of_tiles_must_be_positive(wrong):
    with pytest.raises(InputError, match="at least 1"):
        tiles(21, 4, *wrong)


def test_seeds_are_given_to_what_takes_them():
    assert seeded("garnet", 3) == "garnet:seed=3"
    assert seeded("garnet:states=5", 3) == "garnet:states=5,seed=3"
    assert seeded("garnet:seed=2", 0) == "garnet:seed=2"
    assert seeded("queue", 0) == "queue"
    for source in ("queue", "garnet:seed=2"):
        with pytest.raises(InputError, match="takes no seed of its own"):
            seeded(source, 1)
