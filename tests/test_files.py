"""A file is whole or not there, errors name the file that somebody asked for, and readers take what
anybody wrote: they never wait, and never take more than the file has.
"""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.files import (
    LARGEST_TOML,
    arrays_in,
    checked_json,
    is_part,
    locked,
    named,
    naming,
    opened,
    parse_json,
    parse_toml,
    plain,
    read_array,
    read_bytes,
    read_json,
    read_rows,
    remove_parts,
    replacing,
    writable_path,
    write_json,
    write_rows,
    write_text,
)
from damage import measured, npy, zipped


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
from cmdpax.files import locked
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


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('{"a": 1, "a": 2}', "key 'a' is given twice"),
        ('{"a": NaN}', "it holds NaN; every number must be finite"),
        ('{"a": 1,\n"b" 2}', r"not valid JSON: .* \(line 2, column 5\)"),
        (b'"\xff"', "not text in UTF-8"),
        ("[" * 100_000, "nested too deeply"),
        ("1" * 10_000, "thousands of digits"),
    ],
)
def test_json_that_is_refused(text, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_json(text)


def test_json_that_is_not_finite_can_be_asked_for():
    assert parse_json('{"a": Infinity}', finite=False) == {"a": np.inf}


DAMAGED = [b"", b"{", b"\xff\xfe", b"[1, 2]", b"null", b'{"a": 1, "a": 2}', b"[" * 100_000]


@pytest.mark.parametrize("junk", DAMAGED, ids=range(len(DAMAGED)))
def test_what_is_missing_or_damaged_is_empty(tmp_path, junk):
    path = tmp_path / "a"
    assert read_json(path) == {} and read_rows(path) == ([], [])
    path.write_bytes(junk)
    assert read_json(path) == {} and read_rows(path) == ([], [1] if junk else [])
    path.write_bytes(b'{"a": 1}\n\n' + junk + b'\n{"b": NaN, "c": "\xe2\x80\xa8"}\n')
    (first, last), damaged = read_rows(path)
    assert first == {"a": 1} and np.isnan(last["b"]) and last["c"] == "\u2028"
    assert damaged == ([3] if junk else [])


def test_what_may_not_be_read_is_not_taken_for_empty(tmp_path, monkeypatch):
    def forbidden(*arguments, **options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    for read in (read_json, read_rows, checked_json):
        with pytest.raises(PermissionError):
            read(tmp_path / "a")


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


def arrays_of(path):
    with opened(path) as file:
        return {name: read() for name, read in arrays_in(file).items()}


def array_of(path):
    with opened(path) as file:
        return read_array(file, "a")


def test_no_reader_waits_or_swells(tmp_path):
    odd = odd_files(tmp_path)
    for name, sentence in odd.items():
        for read in (read_bytes, checked_json, read_rows, array_of, arrays_of):
            with measured(), pytest.raises(InputError, match=sentence):
                read(tmp_path / name)
        assert read_json(tmp_path / name) == {}


def test_a_name_stands_before_what_is_wrong(tmp_path):
    with pytest.raises(InputError, match=r"^the spec: there is no such file\.$"), named("the spec"):
        read_bytes(tmp_path / "none")
    for name in ("null\0byte", "file/below"):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="there is no such file"), named("x"):
            read_bytes(tmp_path / name)


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


def test_nesting_is_bounded_where_later_steps_would_fail():
    """Python parses 900 levels, but does not write them again."""
    parse_json("[" * 90 + "]" * 90)
    for deep in ("[" * 900 + "]" * 900, '{"a":' * 900 + "1" + "}" * 900):
        with pytest.raises(InputError, match="nested too deeply"):
            parse_json(deep)


DEEP_TOML = {
    "arrays": b"a = " + b"[" * 40_000,
    "tables": b"a = " + b"{a = " * 10_000,
    "key": b".".join([b"a"] * 49_000) + b" = 1",
    "quoted key": b" . ".join([b'"\\"a b"'] * 9_000) + b" = 1",
    "header": b"[" + b".".join([b"a"] * 49_000) + b"]",
    "digits": b"a = 1" + b"0" * 5_000,
}


@pytest.mark.parametrize("name", DEEP_TOML)
def test_toml_that_is_nested_too_deeply(name):
    assert len(DEEP_TOML[name]) <= LARGEST_TOML
    with measured(), pytest.raises(InputError, match="nested too deeply"):
        parse_toml(DEEP_TOML[name])


def test_toml():
    assert parse_toml(b"a.b = [0.1, 0.2]\n# . . . a sentence. and one more.\n") == {
        "a": {"b": [0.1, 0.2]}
    }
    for text in (b"a = ", b"\xff"):
        with pytest.raises(InputError, match="it is not TOML: "):
            parse_toml(text)


@pytest.mark.parametrize("value", ["1" + "0" * 400, '"\\ud800"', '{"\\udfff": 1}'])
def test_records_hold_numbers_and_text_that_can_be_worked_with(tmp_path, value):
    (tmp_path / "a").write_text(f'{{"a": [{value}]}}')
    with pytest.raises(InputError, match=r"larger than any float|half a surrogate pair"):
        checked_json(tmp_path / "a")
    (tmp_path / "a").write_text(f'{{"a": 1}}\n{{"a": [{value}]}}\n')
    assert read_rows(tmp_path / "a") == ([{"a": 1}], [2])
