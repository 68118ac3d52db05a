"""Files that are whole or not there: written beside their place under another name, brought to the disk, and renamed."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file to write into, which takes the name `path` at the end; if anything goes wrong, what was there stays.

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


def refuse_unwritable(path: Path) -> None:
    """Raise at once the `OSError` that `replacing(path)` would raise after the work is done; nothing is changed."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    temporary = _beside(path)
    try:
        open(temporary, "xb").close()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None
    temporary.unlink()


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
