import pytest

from cmdpax import InputError
from cmdpax.environments import deep_sea, finite, garnet, queue
from cmdpax.sources import open_model
from cmdpax.storage import save_model


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


@pytest.mark.parametrize("source", ["nothing", "garnet:x=1", "garnet:states", "garnet:states=1.5", "garnet:feasible=maybe"])
def test_bad_sources(source):
    with pytest.raises(InputError):
        open_model(source)
