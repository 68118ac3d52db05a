"""10,000 broken model files: each loads as a valid model or is refused with an `InputError`, at
once and without much memory.
"""

import json
import resource
import time
import tracemalloc
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import cmdpax
from cmdpax import CMDP, Grid, InputError
from cmdpax.model.archive import load_model, load_result, save_model, save_result

FILES = 5_000  # of each form
MEMORY = 200e6  # bytes
SECONDS = 10.0  # of processor time for one file; the usual is a millisecond, but machines are noisy
HEADER_SIZE = 128  # of a small array in an .npy file

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        2,
        3,
        -1,
        7,
        10**6,
        10**9,
        10**30,
        -(10**400),
        2**31,
        2**63,
        0.5,
        -0.0,
        1e-320,
        1e308,
        1e999,
        -1e999,
    ),
    *(
        "",
        "a",
        "b",
        "go",
        "energy",
        "0",
        "\ud800",
        "\x00",
        "x" * 1000,
        [],
        {},
        [[]],
        [1, 2],
        [0.5, 0.5],
        ["a", "b", "c"],
    ),
    *(
        {"a": 1.0},
        {"a": 0.5, "b": 0.5},
        {"name": "x", "at_most": 1},
        {"state": "a", "action": "go", "to": {"a": 1}},
        float("nan"),
    ),
)
SHAPES = (
    "(3, 2)",
    "()",
    "(3,)",
    "(0, 2)",
    "(-3, 2)",
    "(3, 2, 2)",
    "(99999999999999999999,)",
    "(3, 200000000)",
    "(1,) * 9",
    "[3, 2]",
)
DTYPES = (
    "<f8",
    ">f8",
    "<f4",
    "<f2",
    "<i8",
    "<u1",
    "|b1",
    "<c16",
    "|O8",
    "|O",
    "<U4",
    "<U99999999",
    "|V8",
    "<M8[s]",
    "<f16",
    "f8,i4",
)
MEMBERS = (
    "reward.npy",
    "available.npy",
    "meta.npy",
    "rewards.npy",
    "reward",
    "../reward.npy",
    "/",
    "discount.npy",
)


def tiny() -> CMDP:
    return CMDP(
        [[[0.25, 0.75], [0.0, 1.0]], [[1.0, 0.0], [0.5, 0.5]]],
        [[1.0, 0.0], [0.5, 2.0]],
        [[[1.0, 0.0], [0.0, 3.0]], [[0.0, 1.0], [1.0, 0.0]]],
        [3.0, 0.5],
        [1.0, 0.0],
        0.9,
        senses=["<=", ">="],
        available=[[True, False], [True, True]],
        state_names=["a", "b"],
        action_names=["go", "stay"],
        constraint_names=["energy", "output"],
        grid=Grid(((0.0, 0.0), (1.0, 0.0)), ((1.0, 0.0), (0.0, 0.0)), goals=(1,)),
    )


# ---- mutations
# --------------------------------------------------------------------------------------------------------
def mutate_bytes(data: bytes, random: Random) -> bytes:
    """Flip, cut, insert, repeat or overwrite a few bytes."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        place = random.randrange(len(data) + 1)
        length = random.choice((1, 1, 2, 4, 8, 40))
        noise = random.choice(
            (random.randbytes(length), b"\xff" * length, b"\0" * length, b"9" * length)
        )
        data = random.choice(
            (
                data[:place],
                data[:place] + noise + data[place:],
                data[:place] + noise + data[place + length :],
                data[:place] + data[place + length :],
                data[:place] + data[place : place + length] * 3 + data[place + length :],
                data[:place]
                + bytes(byte ^ (1 << random.randrange(8)) for byte in data[place : place + 1])
                + data[place + 1 :],
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
            key = (
                random.choice(list(place))
                if isinstance(place, dict)
                else random.randrange(len(place))
            )
            child = place[key]
            if depth == 0 or not isinstance(child, dict | list) or not child:
                break
            place, depth = child, depth - 1
        change = random.random()
        if change < 0.7:
            place[key] = deepcopy(random.choice(VALUES))
        elif change < 0.8:
            del place[key]
        elif isinstance(place, dict):
            place[random.choice(("a", "b", "c", f"{key}s", "costs", "name"))] = child
        else:
            place.append(child)
    return data


def mutate_npy(data: bytes, random: Random) -> bytes:
    """Change the header of an array (with a right length, mostly), its body, or any of its bytes."""
    header, body = data[10:HEADER_SIZE].decode("latin-1"), data[HEADER_SIZE:]
    change = random.random()
    if change < 0.3:
        return mutate_bytes(data, random)
    if change < 0.5:
        return data[:HEADER_SIZE] + mutate_bytes(body, random)
    if change < 0.7:
        header = header[: header.index("'shape': ")] + f"'shape': {random.choice(SHAPES)}, }}"
    elif change < 0.9:
        header = (
            f"{{'descr': '{random.choice(DTYPES)}'" + header[header.index(", 'fortran") :].rstrip()
        )
        body = random.choice((body, random.randbytes(random.choice((0, 4, 32, 64)))))
    else:
        header = random.choice(
            (
                "[" * 300,
                "{}",
                "__import__('os').abort()",
                mutate_bytes(header.encode("latin-1"), random).decode("latin-1"),
            )
        )
    text = header.encode("latin-1") + b" " * random.choice((0, 0, 7)) + b"\n"
    return data[:8] + len(text).to_bytes(2, "little") + text + body


@cache
def unzipped(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def mutate_archive(data: bytes, random: Random) -> bytes:
    """Change one member and zip again, so that every checksum is right."""
    contents = dict(unzipped(data))
    name = random.choice(list(contents))
    change = random.random()
    if change < 0.35:
        meta = mutate_json(json.loads(str(np.load(BytesIO(contents["meta.npy"])))), random)
        buffer = BytesIO()
        np.save(buffer, np.array(json.dumps(meta)))
        contents["meta.npy"] = buffer.getvalue()
    elif change < 0.85:
        contents[name] = mutate_npy(contents[name], random)
    elif change < 0.9:
        del contents[name]
    else:
        contents[random.choice(MEMBERS)] = contents[name]
    buffer = BytesIO()
    with zipfile.ZipFile(
        buffer, "w", random.choice((zipfile.ZIP_STORED,) * 9 + (zipfile.ZIP_DEFLATED,))
    ) as archive:
        for key, content in contents.items():
            archive.writestr(key, content)
    return buffer.getvalue()


def npz_files(data: bytes, random: Random) -> bytes:
    return (mutate_bytes if random.random() < 0.3 else mutate_archive)(data, random)


def json_files(data: bytes, random: Random) -> bytes:
    if random.random() < 0.4:
        return mutate_bytes(data, random)
    return json.dumps(mutate_json(json.loads(data), random)).encode()


# ---- what must hold
# ---------------------------------------------------------------------------------------------------
def assert_valid(model: CMDP) -> None:
    """Every promise of the class, recomputed."""
    S, A, B = model.successors.shape
    m = model.constraint_count
    assert min(S, A, B) >= 1
    assert (model.reward.shape, model.constraints.shape, model.initial.shape) == (
        (S, A),
        (m, S, A),
        (S,),
    )
    assert model.successors.min() >= 0
    assert model.successors.max() < S
    assert 0 <= model.discount < 1
    for array in (
        model.probabilities,
        model.initial,
        model.reward,
        model.constraints,
        model.thresholds,
    ):
        assert np.isfinite(array).all()
    for distribution in (model.probabilities, model.initial):
        assert distribution.min() >= 0
        np.testing.assert_allclose(distribution.sum(-1), 1.0, rtol=1e-12)
    assert len(model.senses) == m
    assert model.available is None or model.available.any(1).all()


def fuzz(
    base: bytes,
    path: Path,
    mutate: Callable[[bytes, Random], bytes],
    load: Callable[[Path], Any],
    count: int,
) -> int:
    """Load `count` mutations of a file; how many were valid."""
    valid, messages, random = 0, set(), Random(20240607)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for number in range(count):
            path.write_bytes(mutate(base, random))
            try:
                with measured(number):
                    loaded = load(path)
            except InputError as error:
                messages.add(str(error))
            else:
                valid += 1
                if isinstance(loaded, CMDP):
                    assert_valid(loaded)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - largest < MEMORY / 1024
    assert not any("\n" in message for message in messages)
    assert len(messages) > 20  # the mutations reach many different checks
    return valid


@contextmanager
def measured(number: int) -> Iterator[None]:
    """Time every load; trace the allocations of every tenth, because tracing is slow."""
    traced = number % 10 == 0
    if traced:
        tracemalloc.start()
    started = time.process_time()
    try:
        yield
    finally:
        assert time.process_time() - started < SECONDS, number
        if traced:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            assert peak < MEMORY, number


@pytest.mark.parametrize(("suffix", "mutate"), [(".npz", npz_files), (".json", json_files)])
def test_broken_models_are_refused_or_valid(
    suffix: str, mutate: Callable[[bytes, Random], bytes], tmp_path: Path
) -> None:
    save_model(tiny(), tmp_path / f"good{suffix}")
    valid = fuzz(
        (tmp_path / f"good{suffix}").read_bytes(),
        tmp_path / f"bad{suffix}",
        mutate,
        load_model,
        FILES,
    )
    assert 0.005 * FILES < valid < 0.5 * FILES  # most are broken, some only look so


def test_broken_results_are_refused_or_valid(tmp_path: Path) -> None:
    save_result(cmdpax.solve(tiny()), tmp_path / "good.npz")
    valid = fuzz(
        (tmp_path / "good.npz").read_bytes(),
        tmp_path / "bad.npz",
        npz_files,
        load_result,
        FILES // 5,
    )
    assert 0 < valid < FILES // 10


def test_the_largest_counts_that_json_accepts_stay_small(tmp_path: Path) -> None:
    """A count is a few bytes in the file; what it makes us allocate is bounded."""
    head = {
        "format": "cmdpax-model",
        "version": 1,
        "discount": 0.9,
        "initial": {"0": 1},
        "constraints": [],
    }
    data = {
        **head,
        "states": 1,
        "actions": 500_000,
        "transitions": [{"state": 0, "action": 0, "to": {"0": 1}}],
    }
    (tmp_path / "model.json").write_text(json.dumps(data))
    with measured(0):
        assert load_model(tmp_path / "model.json").actions == 500_000
    (tmp_path / "model.json").write_text(json.dumps({**data, "actions": 500_001}))
    with measured(0), pytest.raises(InputError, match=r"too many for \.json"):
        load_model(tmp_path / "model.json")
