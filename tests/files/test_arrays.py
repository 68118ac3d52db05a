"""Arrays of numbers are read, and nothing swells; no reader of any kind waits for odd files."""

import os
import socket
import zipfile

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.files.arrays import arrays_in, read_array
from cmdpax.files.reading import (
    checked_json,
    opened,
    read_bytes,
    read_json,
    read_rows,
)
from damage import measured, npy, zipped


def arrays_of(path):
    with opened(path) as file:
        return {name: read() for name, read in arrays_in(file).items()}


def array_of(path):
    with opened(path) as file:
        return read_array(file, "a")


def test_an_archive_that_unpacks_to_more_than_it_has_is_refused_at_once(tmp_path):
    zeros = npy(np.zeros(1000)).replace(b"(1000,), }" + b" " * 9, b"(1700000000000,), }")
    for bomb in (
        zipped(tmp_path / "a.npz", {"a.npy": npy(np.zeros(20_000_000))}, zipfile.ZIP_DEFLATED),
        zipped(tmp_path / "b.npz", {"a.npy": zeros}),
    ):
        with measured(), pytest.raises(InputError, match=r"is compressed|declares 13600000000000"):
            arrays_of(bomb)
    (tmp_path / "c.npy").write_bytes(zeros)
    with measured(), pytest.raises(InputError, match="declares 13600000000000 bytes"):
        array_of(tmp_path / "c.npy")


@pytest.mark.parametrize("dtype", ["|O8", "<c16", "|V8", "f8,i4"])
def test_arrays_of_objects_and_other_oddities_are_refused(tmp_path, dtype):
    (tmp_path / "a.npy").write_bytes(npy(np.zeros(4)).replace(b"<f8", dtype.encode()))
    with pytest.raises(InputError, match="is not a plain array"):
        array_of(tmp_path / "a.npy")


def test_plain_arrays_are_read(tmp_path):
    expected = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    np.save(tmp_path / "a.npy", expected)
    np.savez(tmp_path / "a.npz", a=expected, b=[1, 2])
    np.testing.assert_array_equal(array_of(tmp_path / "a.npy"), expected)
    arrays = arrays_of(tmp_path / "a.npz")
    np.testing.assert_array_equal(arrays["a"], expected)
    assert arrays["b"].tolist() == [1, 2]


def odd_files(folder):
    """What is not a regular file, or not of a sensible size; each by its name."""
    os.mkfifo(folder / "pipe")
    (folder / "folder").mkdir()
    (folder / "zeros").symlink_to("/dev/zero")
    with open(folder / "large", "wb") as file:
        file.truncate(10**12)
    here = os.getcwd()
    os.chdir(folder)  # names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket")
    finally:
        os.chdir(here)
    kinds = dict.fromkeys(("pipe", "zeros", "socket"), "it is not a regular file")
    return {**kinds, "folder": "it is a folder", "large": "more than the .* that are read"}


def test_no_reader_waits_or_swells(tmp_path):
    odd = odd_files(tmp_path)
    for name, sentence in odd.items():
        for read in (read_bytes, checked_json, read_rows, array_of, arrays_of):
            with measured(), pytest.raises(InputError, match=sentence):
                read(tmp_path / name)
        assert read_json(tmp_path / name) == {}
