"""Arrays come back as they were, by the safetensors package too; damage is one sentence."""

import hashlib
import json

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cmdpax import InputError
from cmdpax.learning import checkpoints
from cmdpax.learning.checkpoints import pack, read_checkpoint, unpack, write_pair
from damage import fuzz, safetensors_files

ARRAYS = {"a/weight": np.arange(6.0).reshape(2, 3).T, "count": np.array(3, dtype=np.int64)}
ARRAYS |= {"empty": np.zeros((0, 2), dtype=np.float32), "a": np.array([True, False])}


def saved(folder, notes):
    write_pair(folder / "00000001.safetensors", ARRAYS, {"checkpoint": 1, **notes})
    return folder / "00000001.safetensors"


def assert_equal(arrays, others):
    assert arrays.keys() == others.keys()
    for name, value in arrays.items():
        assert value.dtype == others[name].dtype
        np.testing.assert_array_equal(value, others[name])


TYPES = st.sampled_from([np.dtype(one) for one in checkpoints.TYPES.values()])
SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


@given(st.dictionaries(st.text('ab/é"', max_size=4), st.tuples(TYPES, SHAPES), max_size=6))
def test_bytes_are_those_of_the_safetensors_package(described):
    random = np.random.default_rng(0)
    arrays = {
        name: random.integers(0, 2, shape).astype(dtype)
        for name, (dtype, shape) in described.items()
    }
    assert pack(arrays) == safetensors.numpy.save(arrays)
    assert_equal(unpack(pack(arrays)), arrays)
    assert_equal(safetensors.numpy.load(pack(arrays)), arrays)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=300)
@given(st.data())
def test_damaged_arrays_are_refused_or_read_never_more(data):
    """Any byte changed, without the checksum that would notice: an error, or arrays."""
    whole = bytearray(pack(ARRAYS))
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    for damaged in (bytes(whole), bytes(whole[:cut])):
        try:
            arrays = unpack(damaged)
        except InputError:
            continue
        assert all(isinstance(array, np.ndarray) for array in arrays.values())


def test_headers_changed_at_random(tmp_path):
    path, small = tmp_path / "a", {"a/b": np.ones((2, 3), np.float32), "c": np.arange(4)}
    valid = fuzz(pack(small), path, safetensors_files, lambda path: unpack(path.read_bytes()), 1500)
    assert valid < 750


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        ({"a": {"dtype": "F32", "shape": [2**70, 0], "data_offsets": [0, 0]}}, "described by"),
        ({"a": {"dtype": "F32", "shape": [1] * 70, "data_offsets": [0, 4]}}, "described by"),
        ({"a": {"dtype": ["F32"], "shape": [2], "data_offsets": [0, 8]}}, "described by"),
        ({"a": {"dtype": "F32", "shape": [2.0], "data_offsets": [0, 8]}}, "described by"),
        ({"a": {"dtype": "F32", "shape": [9], "data_offsets": [0, 36]}}, "longer than the file"),
        ({"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, "other bytes than"),
        ({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}}, "described by"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, "other bytes than"),
        ({"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}, "not as long as"),
        ({"a": {"dtype": "F99", "shape": [2], "data_offsets": [0, 8]}}, "F99"),
        ([], ""),
    ],
)
def test_headers_that_do_not_fit_their_data(header, sentence, tmp_path):
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(8)
    path = tmp_path / "00000001.safetensors"
    path.write_bytes(data)
    path.with_suffix(".json").write_text(notes_of_0_1(data, 1, {}))
    with pytest.raises(InputError, match=f"checkpoint .* is damaged: .*{sentence}"):
        read_checkpoint(path)


def notes_of_0_1(data, number, notes):
    described = {"checkpoint": number, "sha256": hashlib.sha256(data).hexdigest(), **notes}
    return json.dumps(described, indent=1)


def test_a_checkpoint_of_0_1_has_no_checksum_of_its_notes(tmp_path):
    path = saved(tmp_path, {})
    path.with_suffix(".json").write_text(notes_of_0_1(path.read_bytes(), 1, {"samples": 3}))
    arrays, notes = read_checkpoint(path)
    assert_equal(arrays, ARRAYS)
    assert notes["samples"] == 3


@pytest.mark.parametrize(
    "notes", [{"action_space": []}, {"observation_shape": 3}, {"checkpoint": "1"}]
)
def test_notes_of_another_kind(tmp_path, notes):
    path = saved(tmp_path, notes)
    with pytest.raises(InputError, match="is of another kind"):
        read_checkpoint(path)


def test_a_checkpoint_is_its_arrays_and_what_its_notes_say(tmp_path):
    path = saved(tmp_path, {"updates": 7})
    arrays, notes = read_checkpoint(path.with_suffix(".json"))
    assert_equal(arrays, ARRAYS)
    assert (notes["checkpoint"], notes["updates"]) == (1, 7)
    text = path.with_suffix(".json").read_text()
    path.with_suffix(".json").write_text(text.replace('"updates": 7', '"updates": 8'))
    with pytest.raises(InputError, match="its checksum does not match"):
        read_checkpoint(path)
