"""JAX's compiled code, kept between runs in a folder of the user's own: a start need not compile.

An entry is machine code. So the folder and all above it must be such that nobody else can write
there, and an entry's name holds the digest of its bytes. JAX itself only sees a temporary folder of
this process, with copies of what is whole: no run reads what another one is writing. Whatever is in
doubt is compiled again. `XDG_CACHE_HOME` moves the folder; `JAX_COMPILATION_CACHE_DIR` names
another, which is then left to JAX; `JAX_ENABLE_COMPILATION_CACHE=false` turns all of it off.
"""

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

import jax
import jaxlib

from cmdpax.errors import InputError
from cmdpax.files.reading import read_bytes
from cmdpax.files.written import remove_parts, write_bytes
from cmdpax.loops.compiled import processor

MOST_ENTRIES = 300  # of some 20 kB; of more the oldest go
_kept: set[str] = set()  # names of what need not be kept again by this process


@cache  # JAX asks once where its cache is
def recall() -> tuple[Path, Path] | None:
    """Let JAX find what was compiled before; the folder that keeps it, and JAX's own, if any."""
    folder = _folder()
    if folder is None or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return None
    try:
        own = Path(_temporary().name)
        for entry in _entries(folder):
            name, _, digest = entry.name.rpartition(".")
            content = read_bytes(entry)
            if hashlib.sha256(content).hexdigest() == digest:
                (own / name).write_bytes(content)
                _kept.add(name)
            else:
                entry.unlink()
    except (OSError, InputError):
        return None
    jax.config.update("jax_compilation_cache_dir", str(own))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # those of graphics cards; their folder would be part of every entry's key
    jax.config.update("jax_persistent_cache_enable_xla_caches", "none")
    return folder, own


def keep() -> None:
    """Keep what this process has compiled since; a full disk keeps nothing."""
    places = recall()
    if places is None:
        return
    folder, own = places
    with suppress(OSError, InputError):
        fresh = [path for path in own.glob("*-cache") if path.name not in _kept]
        kept = {entry.name.rpartition(".")[0] for entry in _entries(folder)} if fresh else set()
        for path in fresh:
            if path.name not in kept:
                content = read_bytes(path)
                place = folder / f"{path.name}.{hashlib.sha256(content).hexdigest()}"
                write_bytes(place, content)
                place.chmod(0o600)
            _kept.add(path.name)


def _entries(folder: Path) -> list[Path]:
    """The newest entries, regular files of this user; others are removed."""
    remove_parts(folder)
    paths = [path for path in folder.iterdir() if not path.name.startswith(".")]
    own = [path for path in paths if stat.S_ISREG(path.lstat().st_mode)]
    newest = sorted(own, key=lambda path: path.lstat().st_mtime)[-MOST_ENTRIES:]
    for path in set(own) - set(newest):
        path.unlink(missing_ok=True)
    return [path for path in newest if path.lstat().st_uid == os.getuid()]


def _folder() -> Path | None:
    """For these versions and this processor, made if need be; None where others could write."""
    if not hasattr(os, "getuid"):  # Windows has other rules about who may write
        return None
    try:
        root = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "cmdpax"
        text = "\n".join((jax.__version__, jaxlib.__version__, *processor()))
        folder = root / f"jax-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        folder = folder.resolve()
        is_safe = _is_ours_alone(folder) and not any(map(_lets_others_write, folder.parents))
    except (OSError, RuntimeError):  # RuntimeError: no home, or an unknown processor
        return None
    return folder if is_safe else None


def _is_ours_alone(folder: Path) -> bool:
    status = folder.lstat()
    return status.st_uid == os.getuid() and not status.st_mode & 0o077


def _lets_others_write(folder: Path) -> bool:
    """Whether somebody other than this user and root could put another folder in its place."""
    status = folder.lstat()
    is_sticky = status.st_mode & stat.S_ISVTX  # as of /tmp: nobody renames what is not theirs
    return status.st_uid not in (0, os.getuid()) or bool(status.st_mode & 0o022 and not is_sticky)


@cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    """A folder of this process, which goes with it."""
    return tempfile.TemporaryDirectory(prefix="cmdpax-")
