"""Sweeps by name: each is one, and the paper's have the paper's sizes."""

import json

import pytest

from cmdpax import InputError
from cmdpax.paper.settings import PRESETS, find_spec


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_sweep(name):
    runs = find_spec(name).runs()
    assert len({run.id for run in runs}) == len(runs) >= 40
    assert all(json.loads(run.text)["kind"] == run.kind for run in runs)


def test_the_papers_grid_has_its_size():
    assert len(find_spec("paper-grids").runs()) == 3 * (504 + 216 + 72 + 1)
    assert len(find_spec("penalties").runs()) == 3 * 2 * 4 * 4 * 10
    assert {run.config["samples"] for run in find_spec("deep").with_fraction(0.01).runs()} == {
        100_000
    }


def test_what_is_no_sweep(tmp_path):
    with pytest.raises(InputError, match="did you mean 'tiny'"):
        find_spec("tini")
    with pytest.raises(InputError, match="cannot be read"):
        find_spec(str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"must lie in \(0, 1\]"):
        find_spec("deep").with_fraction(2)
