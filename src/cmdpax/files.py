"""Files that are whole or not there: written beside their place under another name, brought to the
disk, and renamed.
"""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from cmdpax.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes the name `path` at the end; if anything goes wrong, what
    was there stays.

    Errors name `path`: the other name is nobody's concern.
    """
    temporary = _beside(path)
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.filename is None or Path(error.filename) == temporary:
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        with suppress(OSError, ValueError):
            temporary.unlink()


def write_bytes(path: Path, data: bytes) -> None:
    """The old content or the new, never a part."""
    with replacing(path) as file:
        file.write(data)


def write_text(path: Path, text: str) -> None:
    """The same in UTF-8."""
    write_bytes(path, text.encode())


def target(path: Path, *suffixes: str, option: str = "--out") -> Path:
    """The path of a file that is going to be written, refused now rather than after the work;
    nothing is changed.

    Its name must end in one of `suffixes`, its folder must be there, and the file must be one that
    `replacing` can write.
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
        raise InputError(
            f"{option} {path}: it cannot be written there ({error.strerror})."
        ) from None
    temporary.unlink()
    return path


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
