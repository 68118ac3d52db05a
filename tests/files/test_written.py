"""A file is whole or not there, a lock has one holder, and errors name the file one asked for."""

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.files.reading import (
    read_json,
    read_rows,
)
from cmdpax.files.written import (
    is_part,
    locked,
    naming,
    plain,
    remove_parts,
    replacing,
    writable_path,
    write_json,
    write_rows,
    write_text,
)


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


def test_an_error_names_the_file_unless_it_names_another(tmp_path):
    for inner, outer in ((None, "a"), ("b", "a"), ("c", "c")):
        with pytest.raises(OSError, match="full") as caught, naming(Path("a"), Path("b")):
            raise OSError(errno.ENOSPC, "full", inner)
        assert caught.value.filename == outer


def test_parts_of_dead_writers_are_removed_and_nothing_else(tmp_path):
    others = [".a.part", ".a.0123456.part", "a.01234567.part", ".a.0123456g.part", "a"]
    for name in (*others, ".a.01234567.part", ".b.01234567.part"):
        (tmp_path / name).write_text("half")
    remove_parts(tmp_path, "a")
    assert not (tmp_path / ".a.01234567.part").exists() and (tmp_path / ".b.01234567.part").exists()
    with replacing(tmp_path / "c") as file:
        file.write(b"whole")
        remove_parts(tmp_path)  # what is being written is not a dead writer's
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, "c"])
    assert not any(is_part(tmp_path / name) for name in others)
    remove_parts(tmp_path / "nothing")


HOLD = """
import os, sys
from pathlib import Path
from cmdpax.files.written import locked
with locked(Path(sys.argv[1]), "taken"):
    if sys.argv[2:] and os.fork() == 0:
        print(os.getpid(), flush=True)
        sys.stdin.read()
        os._exit(0)
    if not sys.argv[2:]:
        print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("helper", [[], ["helper"]])
def test_a_lock_has_one_holder_and_is_free_when_that_is_dead(tmp_path, helper):
    """Also if a process that the dead one forked lives on."""
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLD, str(path), *helper]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        said = holder.stdout.readline().strip()
        with pytest.raises(InputError, match="taken"), locked(path, "taken"):
            pass
        holder.kill()
        holder.wait()
        with locked(path, "taken"), pytest.raises(InputError, match="twice"):
            locked(path, "twice").__enter__()
        if helper:
            os.kill(int(said), signal.SIGKILL)  # it lived until now
    with locked(path, "taken"):
        pass


def test_what_cannot_be_written_is_refused_beforehand(tmp_path):
    write_text(tmp_path / "a.npz", "old")
    for name in ("a.npz", "b.NPZ", "c.json"):
        assert writable_path(tmp_path / name, ".npz", ".json") == tmp_path / name
    assert (tmp_path / "a.npz").read_text() == "old" and len(list(tmp_path.iterdir())) == 1
    with pytest.raises(InputError, match=r"--out .*a: give a name that ends in \.a, \.b or \.c\."):
        writable_path(tmp_path / "a", ".a", ".b", ".c")
    with pytest.raises(InputError, match=r"--page .*: there is no folder .*no; make it first"):
        writable_path(tmp_path / "no" / "a.npz", ".npz", option="--page")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InputError, match=r"cannot be written there \(Is a directory\)"):
        writable_path(tmp_path / "folder.npz", ".npz")
    with pytest.raises(InputError, match=r"cannot be written there \(File name too long\)"):
        writable_path(tmp_path / f"{'x' * 300}.npz", ".npz")


def test_json_says_what_python_and_numpy_say(tmp_path):
    content = {"a": (1, np.float32(0.5), np.inf), "b": {"c": np.array([np.nan, -0.0])}, "d": "text"}
    expected = {"a": [1, 0.5, None], "b": {"c": [None, -0.0]}, "d": "text"}
    assert plain(content) == expected
    kinds = [np.int64(3), np.True_, np.float64(2.0), True, None]
    assert [type(plain(one)) for one in kinds] == [int, bool, float, bool, type(None)]
    write_json(tmp_path / "a.json", content)
    assert (tmp_path / "a.json").read_text() == json.dumps(expected, indent=1) + "\n"
    assert read_json(tmp_path / "a.json") == expected


def test_rows_are_read_as_they_were_written(tmp_path):
    rows = [{"a": 1, "b": [2.5]}, {"a": None}]
    write_rows(tmp_path / "rows.jsonl", iter(rows))
    assert read_rows(tmp_path / "rows.jsonl") == (rows, [])


def test_floats_are_rounded_to_so_many_digits():
    assert plain({"a": (0.123456, np.inf), "b": "text", "c": np.float64(1e-20), "d": 12345}, 4) == {
        "a": [0.1235, None],
        "b": "text",
        "c": 1e-20,
        "d": 12345,
    }
    assert str(plain(-0.0, 4)) == "0.0"
