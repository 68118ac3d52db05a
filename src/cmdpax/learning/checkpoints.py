"""How do arrays and their notes lie on disk, and come back without trusting them?

A checkpoint is two files: arrays in the safetensors format, and JSON. The arrays come first: it
exists once its JSON does, whatever is killed when; it is intact if its JSON is, byte for byte, what
`write_pair` writes about these arrays.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as brief
from typing import Any

import numpy as np

from cmdpax.errors import InputError
from cmdpax.files.arrays import LARGEST_ARRAY
from cmdpax.files.reading import LARGEST_TEXT, Row, parse_json, read_bytes, row_of
from cmdpax.files.written import write_bytes

Arrays = dict[str, np.ndarray]
PAIR = (".safetensors", ".json")  # in the order in which they are written
SUMS = ("sha256", "notes_sha256")  # of a checkpoint's arrays, and of its notes
# of a checkpoint's notes, those that are there
NOTES: Row = {"checkpoint": int, "action_space": dict, "observation_shape": list, "encoder": dict}
NOTES |= {"updates": int, "verdict": dict, "exceeded": list}
# safetensors' names of NumPy's types; its files hold arrays of the last type first
TYPES = {"BOOL": "?", "U8": "u1", "I8": "i1", "I16": "<i2", "U16": "<u2", "F16": "<f2"}
TYPES |= {"I32": "<i4", "U32": "<u4", "F32": "<f4", "F64": "<f8", "I64": "<i8", "U64": "<u8"}
MOST_DIMENSIONS = 32  # that NumPy takes


def read_checkpoint(path: Path) -> tuple[Arrays, Row]:
    """Arrays and notes of one checkpoint, from the path of either of its files."""
    try:
        text = read_bytes(path.with_suffix(".json"), LARGEST_TEXT)
        data = read_bytes(path.with_suffix(".safetensors"), LARGEST_ARRAY)
        notes = row_of(text)
        if text not in (_described(data, notes), _described_by_0_1(data, notes)):
            raise InputError("its checksum does not match.")
        for name in NOTES.keys() & notes.keys():
            if not isinstance(notes[name], NOTES[name]):
                raise InputError(f"its {name} is of another kind.")
        return unpack(data), notes
    except OSError as error:
        raise InputError(f"checkpoint {path} cannot be read: {error}.") from None
    except InputError as error:
        raise InputError(f"checkpoint {path} is damaged: {error}") from None


def write_pair(path: Path, arrays: Mapping[str, np.ndarray], notes: Mapping[str, Any]) -> None:
    """The files of a checkpoint; it exists once its JSON does."""
    data = pack(arrays)
    write_bytes(path, data)
    write_bytes(path.with_suffix(".json"), _described(data, notes))


def pack(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Arrays in the safetensors format, byte for byte as its own package writes them.

    The length of the header (8 bytes, little-endian), the header in JSON, and the data.
    """
    kinds = {np.dtype(dtype): kind for kind, dtype in TYPES.items()}
    rank, header, parts, end = list(kinds), {}, [], 0
    for name in sorted(arrays, key=lambda name: (-rank.index(arrays[name].dtype), name)):
        array, start = arrays[name], end
        parts.append(array.tobytes())
        end += array.nbytes
        entry = {"dtype": kinds[array.dtype], "shape": list(array.shape)}
        header[name] = {**entry, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return b"".join((len(text).to_bytes(8, "little"), text, *parts))


def unpack(data: bytes) -> Arrays:
    """The arrays that `pack` wrote; read-only. An InputError says what is wrong with the data."""
    start = 8 + int.from_bytes(data[:8], "little")
    header, arrays, end = parse_json(data[8:start]), {}, 0
    if not isinstance(header, dict):
        raise InputError("its header is no JSON object.")
    header.pop("__metadata__", None)
    for name, entry in header.items():
        if not _is_entry(entry):
            raise InputError(f"array '{name}' is described by {brief(entry)}.")
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        dtype, shape, (first, last) = TYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        if first != end or last - first != math.prod(shape) * np.dtype(dtype).itemsize:
            raise InputError(f"array '{name}' has other bytes than its shape needs.")
        if start + last > len(data):
            raise InputError(f"array '{name}' is longer than the file.")
        arrays[name] = np.frombuffer(data[start + first : start + last], dtype).reshape(shape)
        end = last
    if start + end != len(data):
        raise InputError("its data are not as long as its header says.")
    return arrays


def _is_entry(entry: Any) -> bool:
    """Whether an entry of a header has a type, a shape that NumPy takes, and two offsets."""
    if not isinstance(entry, dict) or entry.get("dtype") not in (*TYPES,):
        return False
    shape, offsets = entry.get("shape"), entry.get("data_offsets")
    if not isinstance(shape, list) or not isinstance(offsets, list):
        return False
    is_whole = all(type(number) is int and 0 <= number < 2**40 for number in (*shape, *offsets))
    return is_whole and len(shape) <= MOST_DIMENSIONS and len(offsets) == 2


def _described(data: bytes, notes: Mapping[str, Any]) -> bytes:
    """The JSON file of a checkpoint: its notes, and checksums of its arrays and of these notes."""
    own = {name: value for name, value in notes.items() if name not in SUMS}
    parts = (data, json.dumps(own, sort_keys=True).encode())
    sums = (hashlib.sha256(part).hexdigest() for part in parts)
    return json.dumps({**own, **dict(zip(SUMS, sums))}, indent=1).encode()


def _described_by_0_1(data: bytes, notes: Mapping[str, Any]) -> bytes:
    """The same in 0.1, which had no checksum of the notes."""
    first = {"checkpoint": notes.get("checkpoint"), "sha256": hashlib.sha256(data).hexdigest()}
    return json.dumps({**first, **notes, **first}, indent=1).encode()
