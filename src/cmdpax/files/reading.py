"""How is somebody's file read safely?

Every file is read through `opened`: a regular file of a bounded size, and nothing else. Reading
never waits, never executes anything, and allocates nothing that the file has not been seen to hold.
Whatever is wrong with a file is an `InputError` that begins with "it" or with a place in the file;
`named` puts the file's name before it. What the system refuses is an `OSError`, as ever.
"""

import errno
import json
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as brief
from sys import float_info
from typing import Any, BinaryIO

from cmdpax.errors import InputError

Row = dict[str, Any]
# what is read at most, in bytes: a text, JSON lines, TOML, and a file of arrays
LARGEST_TEXT, LARGEST_ROWS, LARGEST_TOML = 64_000_000, 256_000_000, 100_000
LARGEST_FILE = 64_000_000_000
DEEPEST = 100  # of nested lists and objects
# a key of so many parts takes tomllib longer than anybody waits; longer parts do not fit the file
PART = r"""(?:[\w-]{1,80}+|"(?:[^"\\\n]|\\.){0,80}+"|'[^'\n]{0,80}+')"""
DEEP_KEY = re.compile(rf"(?<![\w-])(?:{PART}[ \t]{{0,9}}+\.[ \t]{{0,9}}+){{{DEEPEST}}}")
DEEP = "it is nested too deeply, or holds a number of thousands of digits."
# without any of these there is nothing for `_check_value` to refuse
ODD = re.compile(rb"[0-9]{300}|\\u[dD]|[^\x00-\x7f]")
SURROGATE = re.compile("[\ud800-\udfff]")


@contextmanager
def opened(path: str | Path, most: int = LARGEST_FILE) -> Iterator[BinaryIO]:
    """A regular file of at most `most` bytes, open for reading; nothing else is waited for."""
    with _open(path) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise InputError("it is not a regular file.")
        if status.st_size > most:
            size = f"{status.st_size:,} bytes, more than the {most:,} that are read"
            raise InputError(f"it has {size}; give a smaller one.")
        yield file


def _open(path: str | Path) -> BinaryIO:
    flag = getattr(os, "O_NONBLOCK", 0)  # a pipe could keep us waiting for ever
    try:
        return open(path, "rb", opener=lambda name, flags: os.open(name, flags | flag))
    except IsADirectoryError:
        raise InputError("it is a folder; give the file itself.") from None
    except ValueError:  # a name with a null byte
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path)) from None
    except OSError as error:
        if error.errno == errno.ENXIO:  # a socket
            raise InputError("it is not a regular file.") from None
        raise


@contextmanager
def named(name: object) -> Iterator[None]:
    """Whatever is wrong with the file that is read inside, as an `InputError` with its name."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{name}: {error}") from None
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name}: there is no such file.") from None
    except OSError as error:
        raise InputError(f"{name}: it cannot be read ({error.strerror or error}).") from None


def read_bytes(path: str | Path, most: int = LARGEST_TEXT) -> bytes:
    """The content of a file."""
    with opened(path, most) as file:
        return file.read(os.fstat(file.fileno()).st_size)


def parse_json(text: str | bytes, finite: bool = True) -> Any:
    """JSON with no key twice, not too deep; NaN and Infinity, which JSON does not know, only if
    not `finite`. Its numbers and texts are for the caller to check.
    """
    try:
        constant = _refuse_constant if finite else float
        content = json.loads(text, object_pairs_hook=_once, parse_constant=constant)
        if len(text) >= 2 * DEEPEST:  # brackets open and close
            _check_parts(content)
        return content
    except InputError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"it is not valid JSON: {error.msg} ({where}).") from None
    except UnicodeDecodeError:
        raise InputError("it is not valid JSON: it is not text in UTF-8.") from None
    except (RecursionError, ValueError):
        raise InputError(DEEP) from None


def parse_toml(text: bytes) -> Row:
    """A TOML document, guarded in the same way."""
    try:
        words = text.decode()
        if DEEP_KEY.search(words):
            raise InputError(DEEP)
        table = tomllib.loads(words)
        _check_parts(table)
        return table
    except InputError:
        raise
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"it is not TOML: {error}.") from None
    except (RecursionError, ValueError):
        raise InputError(DEEP) from None


def parse_rows(text: bytes) -> tuple[list[Row], list[int]]:
    """The objects in JSON lines, and the numbers, from 1, of lines that are none."""
    rows, damaged = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                rows.append(_object(line))
            except InputError:
                damaged.append(number)
    return rows, damaged


def row_of(line: bytes) -> Row:
    """The object on a line of JSON; empty if there is none."""
    try:
        row = parse_json(line, finite=False)
    except InputError:
        return {}
    return row if isinstance(row, dict) else {}


def checked_json(path: str | Path) -> Row:
    """The object in a JSON file."""
    return _object(read_bytes(path))


def read_json(path: str | Path) -> Row:
    """The same; empty if there is no such file, or whatever is wrong with it."""
    try:
        return checked_json(path)
    except (FileNotFoundError, InputError):
        return {}


def read_rows(path: str | Path) -> tuple[list[Row], list[int]]:
    """`parse_rows` of a file; both are empty if there is none."""
    try:
        return parse_rows(read_bytes(path, LARGEST_ROWS))
    except FileNotFoundError:
        return [], []


def identified(content: Any, kind: str, latest: int) -> Row:
    """A JSON object that says it is of this kind, and of a version up to the latest."""
    own = content.get("format") if isinstance(content, dict) else None
    if own != kind:
        raise InputError(f"it is not a {kind} file; its 'format' is {brief(own)}.")
    version = content.get("version")
    if type(version) is not int or not 1 <= version <= latest:
        readable = f"this cmdpax reads versions 1 to {latest}"
        raise InputError(f"its version is {brief(version)}; {readable}.")
    return content


def _object(text: bytes) -> Row:
    """An object whose numbers are floats, or can be made floats, and whose texts can be written."""
    content = parse_json(text, finite=False)
    if not isinstance(content, dict):
        raise InputError("it holds no JSON object.")
    if ODD.search(text):
        _check_parts(content, _check_value)
    return content


def _check_parts(content: Any, check: Callable[[Any], None] = lambda part: None) -> None:
    """Refuse content that is nested too deeply; `check` everything in it that nests no further."""
    level = [content]
    for _ in range(DEEPEST):
        below: list[Any] = []
        for part in level:
            if isinstance(part, dict):
                below += part
                below += part.values()
            elif isinstance(part, list):
                below += part
            else:
                check(part)
        if not below:
            return
        level = below
    raise InputError(DEEP)


def _check_value(value: Any) -> None:
    if isinstance(value, str):
        if not value.isascii() and SURROGATE.search(value):
            raise InputError(f"{brief(value)} is not valid text: half a surrogate pair.")
    elif isinstance(value, int) and not -float_info.max <= value <= float_info.max:
        raise InputError("it holds a whole number that is larger than any float.")


def _once(pairs: list[tuple[str, Any]]) -> Row:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f"key {brief(twice)} is given twice; keep one.")
    return content


def _refuse_constant(word: str) -> float:
    raise InputError(f"it holds {word}; every number must be finite.")
