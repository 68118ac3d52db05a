"""How is a file written whole, and by one process; how is somebody's JSON read safely?

A file is whole or not there: it is written beside its place under another name, brought to the
disk, and renamed. Readers of JSON execute nothing; what is missing or damaged is empty for them.
Locks are advisory, and the system frees them however their holder dies.
"""

import errno
import json
import math
import os
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from reprlib import repr as brief
from typing import Any, BinaryIO

import numpy as np

from cmdpax.errors import InputError

Row = dict[str, Any]
PART = re.compile(r"\..+\.[0-9a-f]{8}\.part")  # names of files that are not whole yet
_held: set[BinaryIO] = set()  # what this process has locked


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes the name `path` at the end.

    If anything goes wrong, what was there stays. Errors name `path`, not the other name.
    """
    temporary = _beside(path)
    try:
        with naming(path, temporary):
            with open(temporary, "xb") as file:
                _try_lock(file)  # a part that nobody holds is a dead writer's
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink()


@contextmanager
def naming(path: Path, alias: Path | None = None) -> Iterator[None]:
    """Let errors of the disk name `path`: those of `write` name no file, others perhaps `alias`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or error.filename == str(alias):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def is_part(path: Path) -> bool:
    """Whether a file has the name of one that `replacing` has not finished."""
    return PART.fullmatch(path.name) is not None


def remove_parts(folder: Path, name: str = "") -> None:
    """Remove what dead writers left half written in `folder`: of the file `name`, or of any."""
    for path in folder.glob(f".{name}*.part"):
        if is_part(path):
            with suppress(OSError), open(path, "ab") as file:
                if _try_lock(file):
                    path.unlink()


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """Be the only holder of the lock file `path`, which is made; `refusal` is for the second.

    A process that the holder forks does not hold it.
    """
    with open(path, "ab") as file:
        if _try_lock(file) is False:
            raise InputError(refusal)
        _held.add(file)
        try:
            yield
        finally:
            _held.discard(file)


def write_bytes(path: Path, data: bytes) -> None:
    """The old content or the new, never a part."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """The same in UTF-8."""
    write_bytes(path, text.encode())


def write_json(path: Path, content: Any) -> None:
    """The same as indented JSON of `plain(content)`."""
    write_text(path, json.dumps(plain(content), indent=1, allow_nan=False) + "\n")


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """The same as JSON lines."""
    write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def writable_path(path: Path, *suffixes: str, option: str = "--out") -> Path:
    """The path of a file that is going to be written, refused now rather than after the work.

    Its name must end in one of `suffixes`, its folder must be there, and `replacing` must be able
    to write it. Nothing is changed. `option` is where the user gave the path.
    """
    if path.suffix.lower() not in suffixes:
        ends = " or ".join(filter(None, [", ".join(suffixes[:-1]), suffixes[-1]]))
        raise InputError(f"{option} {path}: give a name that ends in {ends}.")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first.")
    temporary = _beside(path)
    try:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        open(temporary, "xb").close()
    except OSError as error:
        sentence = f"{option} {path}: it cannot be written there ({error.strerror})."
        raise InputError(sentence) from None
    temporary.unlink()
    return path


def plain(value: Any, digits: int | None = None) -> Any:
    """What JSON can say: NumPy's numbers and arrays as Python's, null for what is not finite.

    digits: so many significant digits of every float; None keeps them all.
    """
    if isinstance(value, Mapping):
        return {key: plain(entry, digits) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(entry, digits) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        return None
    return value if digits is None else float(f"{value:.{digits}g}") + 0.0  # no -0.0


def parse_json(text: str | bytes, finite: bool = True) -> Any:
    """JSON with no key twice; NaN and Infinity, which JSON does not know, only if not `finite`."""
    try:
        constant = _refuse_constant if finite else float
        return json.loads(text, object_pairs_hook=_once, parse_constant=constant)
    except InputError:
        raise
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise InputError(f"it is not valid JSON: {error.msg} ({where}).") from None
    except UnicodeDecodeError:
        raise InputError("it is not valid JSON: it is not text in UTF-8.") from None
    except (RecursionError, ValueError):
        sentence = "it is JSON nested too deeply, or with a number of thousands of digits."
        raise InputError(sentence) from None


def read_json(path: Path) -> Row:
    """The object in a JSON file; empty if there is no such file, or if it holds no object."""
    return _parsed(_content(path)) or {}


def read_rows(path: Path, whole: bool = False) -> list[Row]:
    """The objects in a file of JSON lines; empty if there is no such file.

    A line that is no object is passed over; if it must be `whole`, such a file has no rows.
    """
    rows = [_parsed(line) for line in _content(path).splitlines() if line.strip()]
    return [] if whole and None in rows else [row for row in rows if row is not None]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _parsed(text: bytes) -> Row | None:
    try:
        content = parse_json(text, finite=False)
    except InputError:
        return None
    return content if isinstance(content, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> Row:
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise InputError(f"key {brief(twice)} is given twice; keep one.")
    return content


def _refuse_constant(word: str) -> float:
    raise InputError(f"it holds {word}; every number must be finite.")


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")


def _try_lock(file: BinaryIO) -> bool | None:
    """Whether an open file is locked for this process now; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):  # Windows, and file systems without locks
        return None
    return True


def _let_go() -> None:
    """Close what a parent holds: a lock lasts until every copy of its file is closed."""
    while _held:
        _held.pop().close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
