import json

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.learning import run_folder as stored

ARRAYS = {
    "a/weight": np.arange(6.0).reshape(2, 3).T,
    "count": np.array(3, dtype=np.int64),
    "empty": np.zeros((0, 2), dtype=np.float32),
}


def test_arrays_and_notes_come_back_as_they_were(tmp_path):
    path = stored.write(tmp_path / "new", 7, ARRAYS, {"samples": 12})
    for name in (path, path.with_suffix(".json")):
        arrays, notes = stored.read(name)
        assert (notes["checkpoint"], notes["samples"]) == (7, 12) and arrays.keys() == ARRAYS.keys()
        for key, value in ARRAYS.items():
            assert arrays[key].dtype == value.dtype
            np.testing.assert_array_equal(arrays[key], value)


def test_the_last_few_are_kept_newest_first(tmp_path):
    for number in (1, 2, 10, 20, 100):
        stored.write(tmp_path, number, ARRAYS, {})
    assert [int(path.stem) for path in stored.newest(tmp_path)] == [100, 20, 10]
    assert len(list(tmp_path.iterdir())) == 2 * stored.KEPT


def test_a_checkpoint_exists_once_its_notes_do(tmp_path):
    stored.write(tmp_path, 1, ARRAYS, {})
    stored.write(tmp_path, 2, ARRAYS, {}).with_suffix(
        ".json"
    ).unlink()  # killed between the two files
    assert [int(path.stem) for path in stored.newest(tmp_path)] == [1]


@pytest.mark.parametrize("part", [".safetensors", ".json"])
@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "remove"])
def test_damage_is_noticed(tmp_path, part, damage):
    path = stored.write(tmp_path, 1, ARRAYS, {})
    file = path.with_suffix(part)
    data = bytearray(file.read_bytes())
    middle = data.index(b"sha256") + 12 if part == ".json" else len(data) // 2
    if damage == "remove":
        file.unlink()
    elif damage == "flip":
        data[middle] ^= 1
        file.write_bytes(data)
    else:
        file.write_bytes(data[:middle] if damage == "cut" else b"")
    with pytest.raises(
        InputError, match="cannot be read" if damage == "remove" else "cannot be read|is damaged"
    ):
        stored.read(path)


def test_what_a_stopped_run_has_kept(tmp_path):
    assert stored.kept(tmp_path) == "there was no checkpoint yet"
    stored.write(tmp_path / "checkpoints", 30, {"x": np.ones(1)}, {})
    assert stored.kept(tmp_path) == f"the checkpoint of update 30 is kept in {tmp_path}"


WHOLE = {"environment": "x", "limit": ["cost<=1"], "discount": 1, "discounted": False}


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "{}",
        "3",
        *(
            json.dumps({**WHOLE, **wrong})
            for wrong in ({"environment": None}, {"limit": 25}, {"limit": [25]})
        ),
    ],
)
def test_a_config_that_is_none(tmp_path, text):
    with pytest.raises(InputError, match=r"it has no config\.json"):
        stored.read_config(tmp_path)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"its config\.json is damaged"):
        stored.read_config(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(WHOLE))
    assert stored.read_config(tmp_path) == WHOLE
