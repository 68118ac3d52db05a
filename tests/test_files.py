"""A file is whole or not there, and errors name the file that somebody asked for."""

import errno

import pytest

from cmdpax import InputError
from cmdpax.files import replacing, target, write_text


def test_the_new_content_takes_the_place_of_the_old(tmp_path):
    for text in ("old", "new"):
        write_text(tmp_path / "a", text)
        assert (tmp_path / "a").read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def break_off(path):
    with replacing(path) as file:
        file.write(b"half")
        raise RuntimeError


def test_what_goes_wrong_halfway_leaves_the_old_content(tmp_path):
    write_text(tmp_path / "a", "old")
    with pytest.raises(RuntimeError):
        break_off(tmp_path / "a")
    assert (tmp_path / "a").read_text() == "old" and len(list(tmp_path.iterdir())) == 1


def fill(path):
    with replacing(path):
        raise OSError(errno.ENOSPC, "No space left on device")  # as write does, without a name


def test_errors_name_the_file_and_keep_their_kind(tmp_path):
    with pytest.raises(FileNotFoundError) as missing:
        write_text(tmp_path / "no" / "a", "text")
    assert missing.value.filename == str(tmp_path / "no" / "a")
    with pytest.raises(OSError, match="No space left on device") as full:
        fill(tmp_path / "a")
    assert full.value.filename == str(tmp_path / "a") and full.value.errno == errno.ENOSPC


def test_what_cannot_be_written_is_refused_beforehand(tmp_path):
    write_text(tmp_path / "a.npz", "old")
    for name in ("a.npz", "b.NPZ", "c.json"):
        assert target(tmp_path / name, ".npz", ".json") == tmp_path / name
    assert (tmp_path / "a.npz").read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match=r"--out .*a: give a name that ends in \.a, \.b or \.c\."):
        target(tmp_path / "a", ".a", ".b", ".c")
    with pytest.raises(InputError, match=r"--page .*: there is no folder .*no; make it first"):
        target(tmp_path / "no" / "a.npz", ".npz", option="--page")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match=r"cannot be written there \(Is a directory\)"):
        target(tmp_path / "folder.npz", ".npz")
    with pytest.raises(InputError, match=r"cannot be written there \(File name too long\)"):
        target(tmp_path / f"{'x' * 300}.npz", ".npz")
