import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments import cliff_world, deep_sea, finite, garnet, queue
from cmdpax.environments.by_name import open_features, open_model
from cmdpax.model.archive import save_model
from cmdpax.solvers.policy_classes import one_hot


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
    "source",
    ["nothing", "garnet:x=1", "garnet:states", "garnet:states=1.5", "garnet:feasible=maybe"],
)
def test_bad_sources(source):
    with pytest.raises(InputError):
        open_model(source)


def test_features_from_tiles_and_files(tmp_path):
    model = cliff_world()
    assert open_features("tiles:40,4,1", model).rank == 12
    table = one_hot(21, 4)
    np.save(tmp_path / "f.npy", table)
    np.savez(tmp_path / "f.npz", features=table)
    for name in ("f.npy", "f.npz"):
        np.testing.assert_array_equal(open_features(str(tmp_path / name), model).table, table)


def test_bad_features_get_one_sentence(tmp_path):
    model = cliff_world()
    np.save(tmp_path / "wrong.npy", np.ones((3, 2, 4)) * np.arange(2)[:, None])
    np.savez(tmp_path / "other.npz", table=one_hot(21, 4))
    (tmp_path / "text.npy").write_text("no array")
    for source, message in (
        ("tiles:40,4", "tiles:dimension,tilings,size"),
        ("tiles:40,4,x", "tiles:dimension,tilings,size"),
        ("fourier:3", "give tiles:60,4,3"),
        (str(tmp_path / "none.npy"), "cannot be read"),
        (str(tmp_path / "text.npy"), "not an array"),
        (str(tmp_path / "other.npz"), "no array 'features'"),
        (str(tmp_path / "wrong.npy"), "does not fit a model of 21 states and 4 actions"),
    ):
        with pytest.raises(InputError, match=message):
            open_features(source, model)
