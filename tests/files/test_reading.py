"""Readers take what anybody wrote: they never wait, and never take more than the file has."""

import errno

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.files.reading import (
    LARGEST_TOML,
    checked_json,
    named,
    parse_json,
    parse_toml,
    read_bytes,
    read_json,
    read_rows,
)
from damage import measured


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


def test_a_name_stands_before_what_is_wrong(tmp_path):
    with pytest.raises(InputError, match=r"^the spec: there is no such file\.$"), named("the spec"):
        read_bytes(tmp_path / "none")
    for name in ("null\0byte", "file/below"):
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="there is no such file"), named("x"):
            read_bytes(tmp_path / name)


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
