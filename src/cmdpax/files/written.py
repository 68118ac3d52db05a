"""How is a file written whole, and by one process?

A file is whole or not there: it is written beside its place under another name, brought to the
disk, and renamed. Locks are advisory, and the system frees them however their holder dies.
"""

import errno
import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cmdpax.errors import InputError

UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.part")  # names of files that are not whole yet
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
    """Errors of the disk name `path`, where they name no file (those of `write`) or `alias`."""
    try:
        yield
    except OSError as error:
        if error.filename is None or error.filename == str(alias):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def is_part(path: Path) -> bool:
    """Whether a file has the name of one that `replacing` has not finished."""
    return UNFINISHED.fullmatch(path.name) is not None


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


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
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
    if type(value) is float and digits is None:  # the usual case
        return value if math.isfinite(value) else None
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
