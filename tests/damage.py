"""Files that somebody damaged: bytes, JSON, arrays and archives changed at random, and what must
hold when they are read. Also how single bad files are written.
"""

import json
import os
import resource
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from cmdpax import InputError

MEMORY = 200e6  # bytes
SECONDS = 10.0  # of processor time for one file; the usual is a millisecond, but machines are noisy
HEADER_SIZE = 128  # of a small array in an .npy file

# fmt: off
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, 3, -1, 7, 10**6, 10**9, 10**30, -(10**400), 2**31, 2**63,
    0.5, -0.0, 1e-320, 1e308, 1e999, -1e999, float("nan"),
    "", "a", "b", "go", "energy", "0", "\ud800", "\x00", "x" * 1000,
    [], {}, [[]], [1, 2], [0.5, 0.5], ["a", "b", "c"],
    {"a": 1.0}, {"a": 0.5, "b": 0.5}, {"name": "x", "at_most": 1},
    {"state": "a", "action": "go", "to": {"a": 1}},
)
SHAPES = (
    "(3, 2)", "()", "(3,)", "(0, 2)", "(-3, 2)", "(3, 2, 2)", "(99999999999999999999,)",
    "(3, 200000000)", "(1,) * 9", "[3, 2]",
)
DTYPES = (
    "<f8", ">f8", "<f4", "<f2", "<i8", "<u1", "|b1", "<c16", "|O8", "|O", "<U4", "<U99999999",
    "|V8", "<M8[s]", "<f16", "f8,i4",
)
MEMBERS = (
    "reward.npy", "available.npy", "meta.npy", "rewards.npy", "reward", "../reward.npy", "/",
    "discount.npy",
)
LITERALS = (
    "", "0", "-1", "1", "3", "0.5", "nan", "inf", "-inf", "1e400", "9" * 400, "true", '""', '"a"',
    '"cliff-world"', '"\\u0000"', "[]", "[1, 2]", "[[1], [2]]", '["a", 1]', "{}", "{ low = 1 }",
    "{ low = 1, high = 0 }", "1979-05-27", "07:32:00", "[" * 5000, "[" * 500 + "]" * 500,
    "{ a = " * 200 + "1" + " }" * 200, "0x10", "1_000",
    "{a=" * 2_000, "a." * 5_000, "9" * 5_000, '"\\ud800"', "\x00", "= 1\n", "[settings]\n",
)
# fmt: on


# ---- single bad files
def npy(array: Any) -> bytes:
    """An array as the bytes of an .npy file."""
    buffer = BytesIO()
    np.save(buffer, np.asarray(array))
    return buffer.getvalue()


def zipped(
    path: Path, contents: Mapping[str, bytes | None], compression: int = zipfile.ZIP_STORED
) -> Path:
    """An archive with these members; None leaves one out."""
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            if data is not None:
                archive.writestr(name, data)
    return path


@cache
def unzipped(data: bytes) -> dict[str, bytes]:
    """The members of an archive."""
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def refused(path: Path, sentence: str, load: Callable[[Path], Any]) -> None:
    """Loading must fail with one sentence that starts with the file's name."""
    with pytest.raises(InputError, match=sentence) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300


# ---- files changed at random
def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut, insert, repeat or overwrite a few bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 4, 8, 40))
        noise = random.choice(
            (random.randbytes(length), b"\xff" * length, b"\0" * length, b"9" * length)
        )
        before, rest, after = data[:place], data[place:], data[place + length :]
        flipped = bytes(byte ^ (1 << random.randrange(8)) for byte in rest[:1])
        data = random.choice(
            (
                before,
                before + noise + rest,
                before + noise + after,
                before + after,
                before + rest[:length] * 3 + after,
                before + flipped + rest[1:],
            )
        )
    return data


def mutate_json(data: Any, random: Random) -> Any:
    """Replace, remove, rename or repeat a random node."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if not isinstance(data, dict | list) or not data or random.random() < 0.01:
            return deepcopy(random.choice(VALUES))
        place, depth = data, random.randrange(5)
        while True:
            is_object = isinstance(place, dict)
            key = random.choice(list(place)) if is_object else random.randrange(len(place))
            child = place[key]
            if depth == 0 or not isinstance(child, dict | list) or not child:
                break
            place, depth = child, depth - 1
        change = random.random()
        if change < 0.7:
            place[key] = deepcopy(random.choice(VALUES))
        elif change < 0.8:
            del place[key]
        elif is_object:
            place[random.choice(("a", "b", "c", f"{key}s", "costs", "name"))] = child
        else:
            place.append(child)
    return data


def mutate_npy(data: bytes, random: Random) -> bytes:
    """Change the header of an array (mostly with a right length), its body, or any of its bytes."""
    header, body = data[10:HEADER_SIZE].decode("latin-1"), data[HEADER_SIZE:]
    change = random.random()
    if change < 0.3:
        return mutate_bytes(data, random)
    if change < 0.5:
        return data[:HEADER_SIZE] + mutate_bytes(body, random)
    if change < 0.7:
        header = header[: header.index("'shape': ")] + f"'shape': {random.choice(SHAPES)}, }}"
    elif change < 0.9:
        rest = header[header.index(", 'fortran") :].rstrip()
        header = f"{{'descr': '{random.choice(DTYPES)}'{rest}"
        body = random.choice((body, random.randbytes(random.choice((0, 4, 32, 64)))))
    else:
        damaged = mutate_bytes(header.encode("latin-1"), random).decode("latin-1")
        header = random.choice(("[" * 300, "{}", "__import__('os').abort()", damaged))
    text = header.encode("latin-1") + b" " * random.choice((0, 0, 7)) + b"\n"
    return data[:8] + len(text).to_bytes(2, "little") + text + body


def mutate_archive(data: bytes, random: Random) -> bytes:
    """Change one member and zip again, so that every checksum is right."""
    contents = dict(unzipped(data))
    name = random.choice(list(contents))
    change = random.random()
    if change < 0.35 and "meta.npy" in contents:
        meta = mutate_json(json.loads(str(np.load(BytesIO(contents["meta.npy"])))), random)
        contents["meta.npy"] = npy(json.dumps(meta))
    elif change < 0.85:
        contents[name] = mutate_npy(contents[name], random)
    elif change < 0.9:
        del contents[name]
    else:
        contents[random.choice(MEMBERS)] = contents[name]
    buffer = BytesIO()
    compression = random.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,))
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for key, content in contents.items():
            archive.writestr(key, content)
    return buffer.getvalue()


def npz_files(data: bytes, random: Random) -> bytes:
    """An .npz file, damaged."""
    return (mutate_bytes if random.random() < 0.3 else mutate_archive)(data, random)


def json_files(data: bytes, random: Random) -> bytes:
    """A .json file, damaged."""
    if random.random() < 0.4:
        return mutate_bytes(data, random)
    return json.dumps(mutate_json(json.loads(data), random)).encode()


def row_files(data: bytes, random: Random) -> bytes:
    """A file of JSON lines, damaged: in one row, in its bytes, or in the order of its rows."""
    lines = data.splitlines(keepends=True)
    place, change = random.randrange(len(lines)), random.random()
    if change < 0.3:
        return mutate_bytes(data, random)
    if change < 0.8:
        lines[place] = json_files(lines[place], random) + b"\n"
    elif change < 0.9:
        del lines[place]
    else:
        lines.insert(random.randrange(len(lines)), lines[place])
    return b"".join(lines)


def safetensors_files(data: bytes, random: Random) -> bytes:
    """A .safetensors file, damaged; mostly with a header of the right length."""
    if random.random() < 0.3:
        return mutate_bytes(data, random)
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.dumps(mutate_json(json.loads(data[8:start]), random)).encode()
    length = random.choice((len(header),) * 9 + (2**63,))
    return length.to_bytes(8, "little") + header + data[start:]


def toml_files(data: bytes, random: Random) -> bytes:
    """A .toml file, damaged: in its bytes, a word, or a line, which may be there twice, or gone."""
    lines = data.splitlines(keepends=True)
    place, change = random.randrange(len(lines)), random.random()
    if change < 0.3:
        return mutate_bytes(data, random)
    if change < 0.5:
        words = data.split(b" ")
        words[random.randrange(len(words))] = random.choice(LITERALS).encode()
        return b" ".join(words)
    if change < 0.8:
        name = lines[place].partition(b"=")[0]
        lines[place] = name + b"= " + random.choice(LITERALS).encode() + b"\n"
    elif change < 0.9:
        del lines[place]
    else:
        lines.insert(random.randrange(len(lines) + 1), lines[place])
    return b"".join(lines)


def special_file(path: Path, random: Random) -> None:
    """Put something in the place of a file that is no file, or has no end."""
    path.unlink()
    what = random.randrange(6)
    if what == 0:
        os.mkfifo(path)
    elif what == 1:
        path.mkdir()
    elif what == 2:
        path.symlink_to(path.name)
    elif what == 3:
        path.symlink_to("/dev/zero")
    elif what == 4:
        path.write_bytes(b"")
    else:
        with path.open("wb") as file:
            file.truncate(2**36)  # bytes, none of them on the disk


def fuzz(
    base: bytes,
    path: Path,
    mutate: Callable[[bytes, Random], bytes],
    load: Callable[[Path], Any],
    count: int,
    assert_valid: Callable[[Any], None] = lambda loaded: None,
) -> int:
    """Load `count` mutations of a file: each is valid or refused, at once and in little memory.

    How many were valid.
    """
    valid, messages, random = 0, set(), Random(20240607)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*miss a sum of 1")  # said on purpose
        for number in range(count):
            path.write_bytes(mutate(base, random))
            try:
                with measured(traced=number % 10 == 0):
                    loaded = load(path)
            except InputError as error:
                messages.add(str(error))
            else:
                valid += 1
                assert_valid(loaded)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - largest < MEMORY / 1024
    assert not any("\n" in message for message in messages)
    assert len(messages) > 20  # the mutations reach many different checks
    return valid


@contextmanager
def measured(traced: bool = True) -> Iterator[None]:
    """Hold a load to its time, and to its memory if `traced`, which is slow."""
    if traced:
        tracemalloc.start()
    started = time.process_time()
    try:
        yield
    finally:
        assert time.process_time() - started < SECONDS
        if traced:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY
