"""How is a file written whole, and by one process; how is somebody's file read safely?

A file is whole or not there: it is written beside its place under another name, brought to the
disk, and renamed. Locks are advisory, and the system frees them however their holder dies.

Every file is read through `opened`: a regular file of a bounded size, and nothing else. Reading
never waits, never executes anything, and allocates nothing that the file has not been seen to hold:
arrays are stored uncompressed, so that none is larger than its file. Whatever is wrong with a file
is an `InputError` that begins with "it" or with a place in the file; `named` puts the file's name
before it. What the system refuses is an `OSError`, as ever.
"""

import errno
import json
import math
import os
import re
import secrets
import stat
import struct
import tomllib
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from reprlib import repr as brief
from sys import float_info
from typing import IO, Any, BinaryIO, Literal

import numpy as np

from cmdpax.errors import InputError

Row = dict[str, Any]
UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}\.part")  # names of files that are not whole yet
_held: set[BinaryIO] = set()  # what this process has locked
# what is read at most, in bytes: a text, JSON lines, TOML; one array, and a file of arrays
LARGEST_TEXT, LARGEST_ROWS, LARGEST_TOML = 64_000_000, 256_000_000, 100_000
LARGEST_ARRAY, LARGEST_FILE = 16_000_000_000, 64_000_000_000
DEEPEST = 100  # of nested lists and objects
MAPPED = 16_000_000  # bytes from which on an array stays in its file, memory-mapped
CHUNK = 1 << 20
NPY_MAGIC = b"\x93NUMPY\x01\x00"
# what NumPy writes for plain arrays; a pattern, unlike a parser, has nothing to trip over
NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|](?:[iu][1248]|f[248]|b1|U[1-9][0-9]{0,7}))',"
    rb" 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
KINDS = {"iuf": "numbers", "b": "booleans", "U": "text"}  # of dtypes
# a key of so many parts takes tomllib longer than anybody waits; longer parts do not fit the file
PART = r"""(?:[\w-]{1,80}+|"(?:[^"\\\n]|\\.){0,80}+"|'[^'\n]{0,80}+')"""
DEEP_KEY = re.compile(rf"(?<![\w-])(?:{PART}[ \t]{{0,9}}+\.[ \t]{{0,9}}+){{{DEEPEST}}}")
DEEP = "it is nested too deeply, or holds a number of thousands of digits."
# without any of these there is nothing for `_check_value` to refuse
ODD = re.compile(rb"[0-9]{300}|\\u[dD]|[^\x00-\x7f]")
SURROGATE = re.compile("[\ud800-\udfff]")
DAMAGE = (OSError, ValueError, LookupError, EOFError, OverflowError, RuntimeError)


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


def read_array(file: BinaryIO, name: str, kinds: str = "iuf") -> np.ndarray:
    """The array in an open `.npy` file; `name` is what refusals call it, `kinds` as in `KINDS`."""
    with intact():
        size = os.fstat(file.fileno()).st_size
        return _array(file, file, lambda: 0, size, name, kinds)


def arrays_in(file: BinaryIO) -> dict[str, Callable[..., np.ndarray]]:
    """Names of the arrays in an open `.npz` file, and functions `(kinds="iuf")` that read them."""
    with intact():
        archive = zipfile.ZipFile(file)
        return {
            (name := info.filename.removesuffix(".npy")): partial(
                _member, file, archive, info, name
            )
            for info in archive.infolist()
        }


def write_archive(file: BinaryIO, arrays: Mapping[str, np.ndarray], label: str) -> None:
    """What `numpy.savez(file, **arrays, meta=label)` writes."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in {**arrays, "meta": np.array(label)}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, version=(1, 0), allow_pickle=False)


def pop_label(arrays: dict[str, Callable[..., np.ndarray]], finite: bool = True) -> Any:
    """The JSON text in the array `meta` of an archive, parsed; it is taken out of `arrays`."""
    if "meta" not in arrays:
        raise InputError("it is not a cmdpax file; it has no array 'meta'.")
    array = arrays.pop("meta")("U")
    with intact():  # not str(array): NumPy does not check that its characters exist
        label = array.astype(array.dtype.newbyteorder("<")).tobytes().decode("utf-32-le")
    return parse_json(label.rstrip("\0"), finite)


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


@contextmanager
def intact() -> Iterator[None]:
    """What NumPy and zip say about damage, as an `InputError`."""
    try:
        yield
    except InputError:
        raise
    except (*DAMAGE, zipfile.BadZipFile, struct.error) as error:
        what = f"it is not an .npz archive, or a damaged one ({str(error)[:120]})"
        raise InputError(f"{what}; write or copy it again.") from None


def _member(
    file: BinaryIO, archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, kinds: str = "iuf"
) -> np.ndarray:
    if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
        raise InputError(f"array '{name}' is compressed; write the file with numpy.savez.")
    if info.file_size > min(os.fstat(file.fileno()).st_size, LARGEST_ARRAY):
        claim = f"claims {info.file_size} bytes, more than the file has or cmdpax reads"
        raise InputError(f"array '{name}' {claim}.")
    with intact(), archive.open(info) as member:
        begin = partial(_data_offset, archive, info)
        return _array(member, file, begin, info.file_size, name, kinds)


def _data_offset(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> int:
    """Where a member's bytes begin: after its local header, which may differ from the directory."""
    assert archive.fp is not None
    place = archive.fp.tell()
    archive.fp.seek(info.header_offset)
    header = archive.fp.read(30)
    archive.fp.seek(place)
    name, extra = (int.from_bytes(header[i : i + 2], "little") for i in (26, 28))
    return info.header_offset + 30 + name + extra


def _array(
    stream: IO[bytes], file: BinaryIO, begin: Callable[[], int], size: int, name: str, kinds: str
) -> np.ndarray:
    """The array in the `size` bytes of `stream`, allocated once it is as large as it says.

    begin: where in `file` these bytes begin.
    """
    start = stream.read(len(NPY_MAGIC) + 2)
    header = stream.read(int.from_bytes(start[len(NPY_MAGIC) :], "little"))
    match = NPY_HEADER.fullmatch(header)
    if not start.startswith(NPY_MAGIC) or match is None:
        plain = "a plain array of numbers, booleans or text"
        raise InputError(f"array '{name}' is not {plain} ({brief(header)}).")
    dtype = np.dtype(match[1].decode())
    shape = tuple(int(digits) for digits in re.findall(rb"[0-9]+", match[3]))
    if dtype.kind not in kinds:
        raise InputError(f"array '{name}' holds {dtype}; it must hold {KINDS[kinds]}.")
    place = len(start) + len(header)
    declared, held = dtype.itemsize * math.prod(shape), size - place
    if declared != held:
        size_said = f"{declared} bytes, shape {brief(shape)} of {dtype}"
        raise InputError(f"array '{name}' declares {size_said}, but holds {held}.")
    order: Literal["F", "C"] = "F" if match[2] == b"True" else "C"
    if declared >= MAPPED and dtype.kind != "b":  # left in the file, once its checksum is right
        while stream.read(CHUNK):
            pass
        return np.memmap(file, dtype, "r", begin() + place, shape, order)
    array = np.frombuffer(stream.read(held), dtype).reshape(shape, order=order)
    # NumPy trusts that the byte of a boolean is 0 or 1
    return array.view(np.uint8) != 0 if dtype.kind == "b" else array


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
