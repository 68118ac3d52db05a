"""How are arrays read out of an `.npy` or `.npz` file, and written into one?

Arrays are stored uncompressed, so that none is larger than its file, and is allocated once it is
as large as it says.
"""

import math
import os
import re
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from reprlib import repr as brief
from typing import IO, Any, BinaryIO, Literal

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files.reading import parse_json

LARGEST_ARRAY = 16_000_000_000  # bytes
MAPPED = 16_000_000  # bytes from which on an array stays in its file, memory-mapped
CHUNK = 1 << 20
NPY_MAGIC = b"\x93NUMPY\x01\x00"
# what NumPy writes for plain arrays; a pattern, unlike a parser, has nothing to trip over
NPY_HEADER = re.compile(
    rb"\{'descr': '([<>|](?:[iu][1248]|f[248]|b1|U[1-9][0-9]{0,7}))',"
    rb" 'fortran_order': (True|False), 'shape': \(([0-9, ]*)\), \} *\n"
)
KINDS = {"iuf": "numbers", "b": "booleans", "U": "text"}  # of dtypes
DAMAGE = (OSError, ValueError, LookupError, EOFError, OverflowError, RuntimeError)


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
