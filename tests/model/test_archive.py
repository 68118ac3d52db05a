"""Files: what is saved is what is loaded, and every bad file gets one sentence that names it."""

import json
import os
import re
import zipfile
from dataclasses import fields, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cmdpax
from cmdpax import CMDP, Grid, InputError, solve
from cmdpax.environments import garnet
from cmdpax.model import archive as storage
from cmdpax.model import text
from cmdpax.model.archive import load_model, load_result, save_model, save_result

DOCUMENT = Path(__file__).parents[2] / "docs" / "model-format.md"
SUFFIXES = (".npz", ".json")


def small(**changes: Any) -> CMDP:
    """Three states, two actions, one pair unavailable, both senses, every label."""
    arguments: dict[str, Any] = {
        "transitions": [
            [[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]],
            [[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]],
            [[0, 0, 1], [0, 0, 1]],
        ],
        "reward": [[1.0, 0.1], [-2.0, 1e-300], [0.0, 0.3]],
        "constraints": [
            [[1.0, 2.0], [0.0, 0.1], [0.0, 0.0]],
            [[0.0, -1.0], [1 / 7, 0.0], [2.0, 0.0]],
        ],
        "thresholds": [4.0, -1.5],
        "initial": [0.3, 0.7, 0.0],
        "discount": 0.95,
        "senses": ["<=", ">="],
        "available": [[True, True], [True, True], [True, False]],
        "state_names": ["a", "b", "päuse"],
        "action_names": ["go", "stay"],
        "constraint_names": ["energy", "output"],
        "grid": Grid(
            ((0.0, 0.0), (1.0, 0.5), (2.0, 0.0)),
            ((1.0, 0.0), (0.0, 0.0)),
            hazards=(1,),
            goals=(2,),
            absorbing=(2,),
        ),
    }
    return CMDP(**{**arguments, **changes})


def assert_same(one: CMDP, other: CMDP) -> None:
    assert one.digest == other.digest
    for label in ("senses", "state_names", "action_names", "constraint_names", "grid"):
        assert getattr(one, label) == getattr(other, label), label
    assert (one.available is None) == (other.available is None)
    if one.available is not None:
        np.testing.assert_array_equal(one.available, other.available)


# ---- round trips
# ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", cmdpax.environments.finite)
def test_every_environment_survives(name: str, suffix: str, tmp_path: Path) -> None:
    model = cmdpax.environments.finite[name]()
    save_model(model, tmp_path / f"model{suffix}")
    assert_same(load_model(tmp_path / f"model{suffix}"), model)


BARE: dict[str, Any] = dict.fromkeys(
    ("senses", "state_names", "action_names", "constraint_names", "grid", "available")
)


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".NPZ", ".Json"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        BARE,
        {**BARE, "constraints": [], "thresholds": []},
        {"available": [[False, True], [True, False], [False, True]]},
        {
            "available": [[True, False], [True, False], [True, False]]
        },  # an action that exists nowhere
    ],
    ids=["labelled", "bare", "no constraints", "scattered", "nowhere"],
)
def test_labels_and_masks_survive(changes: dict[str, Any], suffix: str, tmp_path: Path) -> None:
    model = small(**changes)
    save_model(model, str(tmp_path / f"model{suffix}"))
    assert_same(load_model(str(tmp_path / f"model{suffix}")), model)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 6),
    st.integers(0, 3),
    st.booleans(),
)
def test_random_models_survive_both_forms(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    S: int,
    A: int,
    B: int,
    m: int,
    masked: bool,
) -> None:
    rng = np.random.default_rng(seed)
    mask = rng.random((S, A)) < 0.5
    mask[np.arange(S), rng.integers(0, A, S)] = True
    model = CMDP(
        (rng.integers(0, S, (S, A, B)), rng.dirichlet(np.full(B, 0.3), (S, A))),
        rng.normal(size=(S, A)) * 10.0 ** rng.integers(-300, 99, (S, A)),
        rng.normal(size=(m, S, A)) * (rng.random((m, S, A)) < 0.7),
        rng.normal(size=m),
        rng.dirichlet(np.ones(S)),
        rng.random(),
        senses=[str(sense) for sense in rng.choice([">=", "<="], m)],
        available=mask if masked else None,
    )
    folder = tmp_path_factory.getbasetemp()
    for suffix in SUFFIXES:
        save_model(model, folder / f"random{suffix}")
        assert_same(load_model(folder / f"random{suffix}"), model)


def test_names_that_are_not_different_need_npz(tmp_path: Path) -> None:
    model = small(state_names=["a", "a", "b"])
    save_model(model, tmp_path / "model.npz")
    assert_same(load_model(tmp_path / "model.npz"), model)
    with pytest.raises(
        InputError,
        match=r"state_names: a \.json file needs them all different; rename some, or save as \.npz",
    ):
        save_model(model, tmp_path / "model.json")


@cache
def results() -> dict[str, cmdpax.Result]:
    cliff, infeasible = (
        cmdpax.environments.cliff_world(),
        cmdpax.environments.cliff_world(threshold=0.1),
    )
    certified = cmdpax.solve(cliff)
    return {
        "certified": certified,
        "infeasible": cmdpax.solve(infeasible),
        "mixture": replace(
            certified, mixture={"reward": 0.1, "margins": [0.1 + 0.2], "policies": 7}
        ),
        "not finite": replace(
            certified,
            scaled_gap=np.inf,
            trace=[{"gap": np.inf, "reward": -np.inf, "steps": 3, "note": "é"}],
        ),
        "no constraints": cmdpax.solve(cmdpax.environments.garnet(states=5, constraints=0)),
    }


@pytest.mark.parametrize(
    "name", ["certified", "infeasible", "mixture", "not finite", "no constraints"]
)
def test_results_survive(name: str, tmp_path: Path) -> None:
    result = results()[name]
    save_result(result, tmp_path / "result.npz")
    loaded = load_result(tmp_path / "result.npz")
    for one, other in ((result, loaded), (result.certificate, loaded.certificate)):
        for field in fields(one):
            value, copy = getattr(one, field.name), getattr(other, field.name)
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(copy, value, strict=True)
            elif field.name != "certificate":
                assert copy == value, field.name
                assert isinstance(copy, type(value)) or isinstance(value, np.generic), field.name
    assert str(loaded) == str(result)


def test_a_loaded_result_still_proves_its_claim(tmp_path: Path) -> None:
    save_result(results()["certified"], tmp_path / "result.npz")
    cmdpax.check(cmdpax.environments.cliff_world(), load_result(tmp_path / "result.npz"))


def test_the_document_s_example_loads_and_solves(tmp_path: Path) -> None:
    text = re.search(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert text is not None
    (tmp_path / "machine.json").write_text(text[1])
    model = load_model(tmp_path / "machine.json")
    assert (model.states, model.actions, model.senses) == (2, 3, ("<=", ">="))
    np.testing.assert_array_equal(model.available, [[True, True, False], [False, False, True]])
    np.testing.assert_array_equal(model.thresholds, [-12.0, 5.0])
    result = cmdpax.solve(model)
    cmdpax.check(model, result)
    assert result.status == "certified"
    assert result.policy[0, 1] > 0.1  # both ways of working are used ...
    assert result.policy[0, 0] > 0.1
    assert result.margins[0] == pytest.approx(0, abs=1e-4)  # ... because the energy runs out
    save_model(model, tmp_path / "again.json")
    assert_same(load_model(tmp_path / "again.json"), model)


def test_the_document_s_arrays_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = re.search(r"```python\n(import json.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert code is not None
    monkeypatch.chdir(tmp_path)
    exec(code[1], {})
    model = load_model("two_states.npz")
    assert (model.states, model.constraint_names, model.senses) == (2, ("energy",), ("<=",))
    assert model.thresholds[0] == -12.0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_are_read_by_standard_tools(suffix: str, tmp_path: Path) -> None:
    model = small()
    save_model(model, tmp_path / f"model{suffix}")
    if suffix == ".json":
        data = json.loads((tmp_path / "model.json").read_text())
        assert data["constraints"][0] == {"name": "energy", "at_most": 4.0}
        assert data["transitions"][1]["costs"] == {
            "energy": 2.0,
            "output": -1.0,
        }  # the caller's own orientation
    else:
        with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
            np.testing.assert_array_equal(arrays["constraints"], model.constraints)
            assert json.loads(str(arrays["meta"]))["format"] == "cmdpax-model"


# ---- writing
# ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_fails_leaves_the_old_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"model{suffix}"
    save_model(small(), path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError, match=r"model\.\w+: it cannot be written \(.*No space left on device\)"
    ):
        save_model(small(discount=0.5), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # and no temporary file


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        for name in ("one", "two"):
            save_model(small(), tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_bad_places_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").write_text("")
    for place in ("folder.npz", "missing/model.npz", "file/model.npz", "null\0byte.npz"):
        with pytest.raises(InputError, match=r"it cannot be written \(.+\)"):
            save_model(small(), tmp_path / place)
    for save, thing in ((save_model, small()), (save_result, results()["certified"])):
        with pytest.raises(InputError, match=r"model\.csv: the name must end in \.npz"):
            save(thing, tmp_path / "model.csv")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"path: None is not the name of a file"):
        save_model(small(), None)  # type: ignore[arg-type]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=(
            r"1001 states x 4 actions x 126 entries are too many for \.json; save the model as"
            r" \.npz"
        ),
    ):
        save_model(
            cmdpax.environments.garnet(states=1001, branching=2, constraints=125),
            tmp_path / "model.json",
        )
    with pytest.raises(
        InputError, match=r"only finite numbers, text, lists and dictionaries can be saved"
    ):
        save_result(
            replace(results()["certified"], trace=[{"model": object()}]), tmp_path / "result.npz"
        )
    assert list(tmp_path.iterdir()) == []


# ---- bad files of either form
# -----------------------------------------------------------------------------------------
def refused(path: Path, sentence: str, load: Any = load_model) -> None:
    """Loading must fail with one sentence that starts with the file's name."""
    with pytest.raises(InputError, match=sentence) as caught:
        load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert len(message) < len(str(path)) + 300


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_cannot_be_read(suffix: str, tmp_path: Path) -> None:
    refused(tmp_path / f"missing{suffix}", r"there is no such file\.")
    refused(tmp_path / f"null\0{suffix}", r"there is no such file\.")
    (tmp_path / f"folder{suffix}").mkdir()
    refused(tmp_path / f"folder{suffix}", r"it is a folder; give the file itself\.")
    os.mkfifo(tmp_path / f"pipe{suffix}")
    refused(tmp_path / f"pipe{suffix}", r"it is not a regular file\.")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file" / f"model{suffix}", r"there is no such file\.")


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(small(), tmp_path / "model.npz")

    def forbidden(*arguments: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    refused(tmp_path / "model.npz", r"it cannot be read \(Permission denied\)\.")


def test_unknown_suffix(tmp_path: Path) -> None:
    for name in ("model.csv", "model", "model.npy"):
        refused(tmp_path / name, r"the name must end in \.npz or \.json\.")
    refused(tmp_path / "result.json", r"the name must end in \.npz\.", load_result)


# ---- bad .npz
# ---------------------------------------------------------------------------------------------------------
def members(model: CMDP, folder: Path) -> dict[str, bytes]:
    save_model(model, folder / "source.npz")
    with zipfile.ZipFile(folder / "source.npz") as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def npy(array: Any) -> bytes:
    buffer = BytesIO()
    np.save(buffer, np.asarray(array))
    return buffer.getvalue()


def zipped(path: Path, contents: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    return path


META = {"format": "cmdpax-model", "version": 1}
HUGE = (
    npy(np.zeros((3, 2)))
    .replace(b"(3, 2)", b"(300000000, 200000000)")
    .replace(b" " * 16 + b"\n", b"\n")
)
OBJECTS = npy(np.zeros(2)).replace(b"<f8", b"|O8")
BAD_ARRAYS: list[tuple[str, dict[str, bytes | None], str]] = [
    ("no meta", {"meta.npy": None}, r"it is not a cmdpax file; it has no array 'meta'\."),
    (
        "meta of numbers",
        {"meta.npy": npy([1, 2])},
        r"array 'meta' holds int64; it must hold text\.",
    ),
    (
        "meta not text",
        {"meta.npy": npy("ab").replace(b"b\0\0\0", b"b\0\0\xff")},
        r"it is not an \.npz archive, or a damaged one",
    ),
    (
        "meta not JSON",
        {"meta.npy": npy("{")},
        r"it is not valid JSON: Expecting property name .* \(line 1, column 2\)\.",
    ),
    (
        "meta NaN",
        {"meta.npy": npy('{"format": NaN}')},
        r"it holds NaN; every number must be finite\.",
    ),
    (
        "meta a list",
        {"meta.npy": npy("[1]")},
        r"it is not a cmdpax-model file; its 'format' is None\.",
    ),
    (
        "version",
        {"meta.npy": npy(json.dumps({**META, "version": 2}))},
        r"its version is 2; this cmdpax reads version 1\.",
    ),
    (
        "true version",
        {"meta.npy": npy(json.dumps({**META, "version": True}))},
        r"its version is True; this cmdpax reads version 1\.",
    ),
    (
        "meta key",
        {"meta.npy": npy(json.dumps({**META, "sense": []}))},
        r"meta: unknown key 'sense'; did you mean 'senses'\?",
    ),
    (
        "senses",
        {"meta.npy": npy(json.dumps({**META, "senses": [">="]}))},
        r"meta\.senses: 1 given for constraints \(2, 3, 2\)",
    ),
    (
        "sense",
        {"meta.npy": npy(json.dumps({**META, "senses": [">=", 3]}))},
        r"meta\.senses\[1\]: 3 is not text\.",
    ),
    (
        "wrong sense",
        {"meta.npy": npy(json.dumps({**META, "senses": [">=", "<"]}))},
        r"senses\[1\] is '<'; it must be '>=' or '<='",
    ),
    (
        "names",
        {"meta.npy": npy(json.dumps({**META, "state_names": "abc"}))},
        r"meta\.state_names: 'abc' is not a list\.",
    ),
    (
        "name count",
        {"meta.npy": npy(json.dumps({**META, "state_names": ["a"]}))},
        r"state_names: 1 names for 3; give one for each",
    ),
    (
        "grid",
        {"meta.npy": npy(json.dumps({**META, "grid": {"cells": []}}))},
        r"grid: 'moves' is missing\.",
    ),
    ("missing array", {"reward.npy": None}, r"arrays: 'reward' is missing\."),
    (
        "unknown array",
        {"rewards.npy": npy([1.0])},
        r"arrays: unknown key 'rewards'; did you mean 'reward'\?",
    ),
    ("text", {"reward.npy": npy(["a"])}, r"array 'reward' holds <U1; it must hold numbers\."),
    ("booleans", {"reward.npy": npy([True])}, r"array 'reward' holds bool; it must hold numbers\."),
    (
        "mask of numbers",
        {"available.npy": npy(np.ones((3, 2)))},
        r"array 'available' holds float64; it must hold booleans\.",
    ),
    (
        "complex",
        {"reward.npy": npy(np.ones((3, 2)) * 1j)},
        r"array 'reward' is not a plain array of numbers, booleans or text",
    ),
    (
        "objects",
        {"reward.npy": OBJECTS},
        r"array 'reward' is not a plain array of numbers, booleans or text",
    ),
    (
        "records",
        {"reward.npy": npy(np.zeros(2, dtype="f8,i4"))},
        r"array 'reward' is not a plain array",
    ),
    ("no header", {"reward.npy": b"numbers"}, r"array 'reward' is not a plain array"),
    ("empty", {"reward.npy": b""}, r"array 'reward' is not a plain array"),
    (
        "huge",
        {"reward.npy": HUGE},
        (
            r"'reward' declares 480000000000000000 bytes, shape \(300000000, 200000000\) of"
            r" float64, but holds \d+"
        ),
    ),
    (
        "too short",
        {"reward.npy": npy(np.zeros((3, 2)))[:-1]},
        r"array 'reward' declares 48 bytes, .* but holds 47\.",
    ),
    (
        "too long",
        {"reward.npy": npy(np.zeros((3, 2))) + b"0"},
        r"array 'reward' declares 48 bytes, .* but holds 49\.",
    ),
    (
        "shape",
        {"reward.npy": npy(np.zeros((2, 3)))},
        r"reward: shape \(2, 3\), expected \(3, 2\)\.",
    ),
    (
        "thresholds",
        {"thresholds.npy": npy(1.0)},
        r"meta\.senses: 2 given for constraints \(2, 3, 2\), thresholds \(\); give one for each\.",
    ),
    ("discount", {"discount.npy": npy([0.9])}, r"discount: shape \(1,\), expected one number\."),
    (
        "float successors",
        {"successors.npy": npy(np.zeros((3, 2, 3)))},
        r"transitions: successors must be integers, not float64\.",
    ),
    (
        "NaN",
        {"reward.npy": npy(np.full((3, 2), np.nan))},
        r"reward\[0, 0\] is nan; every entry must be a finite number\.",
    ),
]


@pytest.mark.parametrize(
    ("changes", "sentence"), [case[1:] for case in BAD_ARRAYS], ids=[case[0] for case in BAD_ARRAYS]
)
def test_bad_arrays(changes: dict[str, bytes | None], sentence: str, tmp_path: Path) -> None:
    contents = {
        name: data
        for name, data in {**members(small(), tmp_path), **changes}.items()
        if data is not None
    }
    refused(zipped(tmp_path / "model.npz", contents), sentence)


def test_bytes_of_booleans_are_true_unless_zero(tmp_path: Path) -> None:
    contents = members(small(), tmp_path)
    contents["available.npy"] = (
        contents["available.npy"].replace(b"\x01", b"\x07").replace(b"NUMPY\x07", b"NUMPY\x01")
    )
    assert_same(load_model(zipped(tmp_path / "model.npz", contents)), small())


def test_other_numbers_of_the_same_value_are_welcome(tmp_path: Path) -> None:
    contents = members(small(), tmp_path)
    model = small()
    contents["successors.npy"] = npy(model.successors.astype(">i8"))
    contents["probabilities.npy"] = npy(np.asfortranarray(model.probabilities))
    contents["initial.npy"] = npy(model.initial.astype(">f8"))
    assert_same(load_model(zipped(tmp_path / "model.npz", contents)), model)


def test_damaged_archives(tmp_path: Path) -> None:
    save_model(small(), tmp_path / "good.npz")
    good, path = (tmp_path / "good.npz").read_bytes(), tmp_path / "bad.npz"
    damage = r"it is not an \.npz archive, or a damaged one \(.+\); write or copy it again\."
    for data in (
        b"",
        b"PK",
        good[: len(good) // 2],
        good[:-1],
        b"{}",
        np.random.default_rng(0).bytes(300),
    ):
        path.write_bytes(data)
        refused(path, damage)
    body = good.index(np.float64(-1.5).tobytes())  # a threshold: the checksum must notice
    path.write_bytes(good[:body] + b"\x01" + good[body + 1 :])
    refused(path, r"\(Bad CRC-32 for file 'thresholds\.npy'\)")


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    """A few kilobytes can hold gigabytes of zeros; they are not even looked at."""
    bomb = {**members(small(), tmp_path), "reward.npy": npy(np.zeros(10_000_000))}
    path = zipped(tmp_path / "bomb.npz", bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    refused(path, r"array 'meta' is compressed; write the file with numpy\.savez\.")


def test_sizes_that_the_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    contents = members(small(), tmp_path)
    path = zipped(tmp_path / "liar.npz", contents)
    data = bytearray(path.read_bytes())
    entry = data.index(b"reward.npy", data.index(b"PK\x01\x02")) - 46
    data[entry + 20 : entry + 28] = (2**31).to_bytes(
        4, "little"
    ) * 2  # compressed and full size, in the directory
    path.write_bytes(data)
    refused(
        path, r"array 'reward' claims 2147483648 bytes, more than the file has or cmdpax reads\."
    )


def test_encrypted_archives_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "secret.npz", members(small(), tmp_path))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    while entry >= 0:
        data[entry + 8] |= 1
        entry = data.find(b"PK\x01\x02", entry + 4)
    path.write_bytes(data)
    refused(path, r"meta\.npy.* is encrypted, password required for extraction\)")


def test_a_result_is_not_a_model(tmp_path: Path) -> None:
    save_result(results()["certified"], tmp_path / "result.npz")
    refused(
        tmp_path / "result.npz", r"it is not a cmdpax-model file; its 'format' is 'cmdpax-result'\."
    )
    save_model(small(), tmp_path / "model.npz")
    refused(
        tmp_path / "model.npz",
        r"it is not a cmdpax-result file; its 'format' is 'cmdpax-model'\.",
        load_result,
    )


def result_members(name: str, folder: Path) -> tuple[dict[str, bytes], dict[str, Any]]:
    save_result(results()[name], folder / "source.npz")
    with zipfile.ZipFile(folder / "source.npz") as archive:
        contents = {info.filename: archive.read(info) for info in archive.infolist()}
    return contents, json.loads(str(np.load(BytesIO(contents["meta.npy"]))))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"status": "solved"},
            r"meta\.status: 'solved' is unknown; known: certified, infeasible, limit, marginal\.",
        ),
        ({"status": 3}, r"meta\.status: 3 is not text\."),
        ({"trace": {}}, r"meta\.trace: \{\} is not a list\."),
        ({"trace": [1]}, r"meta\.trace\[0\]: 1 is not a JSON object\."),
        ({"mixture": []}, r"meta\.mixture: \[\] is not a JSON object\."),
        ({"senses": []}, r"each constraint needs a name and a sense"),
        ({"methods": "x"}, r"meta: unknown key 'methods'; did you mean 'method'\?"),
    ],
)
def test_bad_meta_of_results(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    contents, meta = result_members("certified", tmp_path)
    contents["meta.npy"] = npy(json.dumps({**meta, **changes}))
    refused(zipped(tmp_path / "result.npz", contents), sentence, load_result)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("policy.npy", npy(np.ones(21)), r"the policy must be \[S, A\]"),
        ("margins.npy", npy(np.ones(2)), r"array 'margins' has shape \(2,\), expected \(1,\)\."),
        (
            "value_potentials.npy",
            npy(np.ones((1, 21))),
            r"array 'value_potentials' has shape \(1, 21\), expected \(2, 21\)\.",
        ),
        ("reward.npy", npy([1.0]), r"array 'reward' has shape \(1,\), expected \(\)\."),
        ("ray.npy", npy([1.0]), r"the arrays of a ray come together\."),
        ("eps.npy", None, r"arrays: 'eps' is missing\."),
    ],
)
def test_bad_arrays_of_results(
    name: str, data: bytes | None, sentence: str, tmp_path: Path
) -> None:
    contents = {**result_members("certified", tmp_path)[0], name: data}
    path = zipped(
        tmp_path / "result.npz",
        {key: value for key, value in contents.items() if value is not None},
    )
    refused(path, sentence, load_result)


# ---- bad .json
# --------------------------------------------------------------------------------------------------------
def written(folder: Path, *path: Any, value: Any = None, remove: bool = False) -> Path:
    """The small model as JSON with one place changed or removed."""
    save_model(small(), folder / "model.json")
    data = json.loads((folder / "model.json").read_text())
    if path:
        place = data
        for key in path[:-1]:
            place = place[key]
        if remove:
            del place[path[-1]]
        else:
            place[path[-1]] = value
    (folder / "model.json").write_text(json.dumps(data))
    return folder / "model.json"


BAD_PLACES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("format",), "other", r"it is not a cmdpax-model file; its 'format' is 'other'\."),
    (("version",), "1", r"its version is '1'; this cmdpax reads version 1\."),
    (("state",), [], r"the model: unknown key 'state'; did you mean 'states'\?"),
    (("discount",), "0.9", r"discount: '0\.9' is not a finite number\."),
    (("discount",), True, r"discount: True is not a finite number\."),
    (("discount",), 1, r"discount is 1; it must be at least 0 and below 1"),
    (("states",), {}, r"states: \{\} is not a list\."),
    (("states",), 0, r"states: 0 is not a list\."),
    (("states",), True, r"states: True is not a list\."),
    (
        ("states",),
        10**12,
        r"states: 1000000000000 of them but 5 transitions; some state's action set is empty\.",
    ),
    (("states",), 10**4000, r"states: 1000.* of them but 5 transitions"),
    (("states",), ["a", "a", "b"], r"states: 'a' is listed twice; names must differ\."),
    (("states",), ["a", "b", 3], r"states\[2\]: 3 is not text\."),
    (("states",), [], r"states: the list is empty; give at least one\."),
    (("actions",), [], r"actions: the list is empty; give at least one\."),
    (
        ("actions",),
        ["go", "stay", "\ud800"],
        r"action_names\[2\]: '\\ud800' is not valid text; it holds half of a surrogate pair\.",
    ),
    (
        ("actions",),
        10**12,
        (
            r"3 states x 1000000000000 actions x 3 entries are too many for \.json; save the model"
            r" as \.npz\."
        ),
    ),
    (("actions",), 3.0, r"actions: 3\.0 is not a list\."),
    (("initial",), "a", r"initial: 'a' is not a JSON object\."),
    (("initial",), [1.0], r"initial: shape \(1,\), expected \(3,\)\."),
    (("initial",), [1.0, None, 0.0], r"initial\[1\]: None is not a finite number\."),
    (("initial",), {"c": 1.0}, r"initial: 'c' is not known; known: a, b, päuse\."),
    (("initial", "a"), 0.5, r"initial: probabilities sum to 1\.2, not 1; normalise them\."),
    (("constraints",), {}, r"constraints: \{\} is not a list\."),
    (("constraints", 0), 3, r"constraints\[0\]: 3 is not a JSON object\."),
    (
        ("constraints", 0),
        {"name": "energy"},
        r"constraints\[0\]: give either 'at_most' or 'at_least'\.",
    ),
    (
        ("constraints", 0, "at_least"),
        1.0,
        r"constraints\[0\]: give either 'at_most' or 'at_least'\.",
    ),
    (
        ("constraints", 0, "at_mots"),
        1.0,
        r"constraints\[0\]: unknown key 'at_mots'; did you mean 'at_most'\?",
    ),
    (
        ("constraints", 0, "at_most"),
        None,
        r"constraints\[0\]\.at_most: None is not a finite number\.",
    ),
    (
        ("constraints", 0, "name"),
        "output",
        r"constraints: 'output' is listed twice; names must differ\.",
    ),
    (("constraints", 0, "name"), 1, r"constraints\[0\]: 1 is not text\."),
    (
        ("constraints", 0),
        {"at_most": 1.0},
        r"some have a name and some have none; name all of them, or none\.",
    ),
    (("transitions",), 3, r"transitions: 3 is not a list\."),
    (
        ("transitions",),
        [],
        r"states: 3 of them but 0 transitions; some state's action set is empty\.",
    ),
    (("transitions", 1), [], r"transitions\[1\]: \[\] is not a JSON object\."),
    (
        ("transitions", 1, "rewards"),
        1,
        r"transitions\[1\]: unknown key 'rewards'; did you mean 'reward'\?",
    ),
    (
        ("transitions", 1, "state"),
        "aa",
        r"transitions\[1\]\.state: 'aa' is not known; did you mean 'a'\?",
    ),
    (("transitions", 1, "state"), [], r"transitions\[1\]\.state: \[\] is not known"),
    (
        ("transitions", 1, "action"),
        "go",
        r"transitions\[1\]: state 'a', action 'go' is listed twice; keep one\.",
    ),
    (("transitions", 1, "to"), "b", r"transitions\[1\]\.to: 'b' is not a JSON object\."),
    (("transitions", 1, "to"), {"c": 1.0}, r"transitions\[1\]\.to: 'c' is not known"),
    (
        ("transitions", 1, "to"),
        {"b": "1"},
        r"transitions\[1\]\.to\.b: '1' is not a finite number\.",
    ),
    (
        ("transitions", 1, "to"),
        {},
        r"transitions: probabilities of state 0, action 1 sum to 0, not 1; normalise them\.",
    ),
    (
        ("transitions", 1, "to"),
        {"b": -1.0, "a": 2.0},
        r"probability of state 0, action 1, successor 1 is -1\.0; none may be negative\.",
    ),
    (
        ("transitions", 1, "reward"),
        [1.0],
        r"transitions\[1\]\.reward: \[1\.0\] is not a finite number\.",
    ),
    (
        ("transitions", 1, "reward"),
        10**400,
        r"transitions\[1\]\.reward: 1000.* is not a finite number\.",
    ),
    (
        ("transitions", 1, "costs"),
        {"enrgy": 1.0},
        r"transitions\[1\]\.costs: 'enrgy' is not known; did you mean 'energy'\?",
    ),
    (
        ("transitions", 1, "costs"),
        [1.0, 2.0],
        r"transitions\[1\]\.costs: \[1\.0, 2\.0\] is not a JSON object\.",
    ),
    (("transitions", 4, "state"), "b", r"transitions\[4\]: state 'b', action 'go' is listed twice"),
    (("grid",), [], r"grid: \[\] is not a JSON object\."),
    (("grid", "cell"), [], r"grid: unknown key 'cell'; did you mean 'cells'\?"),
    (("grid", "cells", 0), [1], r"grid\.cells\[0\]: \[1\] is not a pair \[x, y\]\."),
    (("grid", "cells", 0), 3, r"grid\.cells\[0\]: 3 is not a list\."),
    (("grid", "moves", 0), ["x", "y"], r"grid\.moves: 'x' is not a finite number\."),
    (("grid", "moves"), [], r"grid: it describes 3 cells and 0 moves; the model has 3 and 2\."),
    (("grid", "goals"), ["a"], r"grid\.goals: it must list indices of states\."),
    (("grid", "goals"), [7], r"grid: .*"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), BAD_PLACES)
def test_bad_places_in_json(
    place: tuple[Any, ...], value: Any, sentence: str, tmp_path: Path
) -> None:
    refused(written(tmp_path, *place, value=value), sentence)


@pytest.mark.parametrize("key", text.MODEL_KEYS)
def test_missing_keys_in_json(key: str, tmp_path: Path) -> None:
    path = written(tmp_path, key, remove=True)
    refused(
        path,
        {"format": "its 'format' is None", "version": "its version is None"}.get(
            key, rf"the model: '{key}' is missing\."
        ),
    )


@pytest.mark.parametrize("key", ["state", "action", "to"])
def test_missing_keys_of_transitions(key: str, tmp_path: Path) -> None:
    refused(
        written(tmp_path, "transitions", 2, key, remove=True),
        rf"transitions\[2\]: '{key}' is missing\.",
    )


def test_a_state_without_actions(tmp_path: Path) -> None:
    path = written(tmp_path, "transitions", 4, remove=True)
    refused(
        path, r"state 'päuse': the action set is empty; list a transition for each of its actions\."
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"it is not valid JSON: Expecting value \(line 1, column 1\)\."),
        (
            '{"format": "cmdpax-model",\n "version" 1}',
            r"it is not valid JSON: Expecting ':' delimiter \(line 2, column 12\)\.",
        ),
        ('{"discount": NaN}', r"it holds NaN; every number must be finite\."),
        ('{"discount": -Infinity}', r"it holds -Infinity; every number must be finite\."),
        ('{"format": 1, "format": 2}', r"key 'format' is given twice; keep one\."),
        ("[1, 2]", r"it is not a cmdpax-model file; its 'format' is None\."),
        ("[" * 100_000, r"it is JSON nested too deeply, or with a number of thousands of digits\."),
        ("1" * 10_000, r"it is JSON nested too deeply, or with a number of thousands of digits\."),
        (b"\xff\xfe\xfd\xfc\xfb", r"it is not valid JSON"),
        (b'{"format": "\xff"}', r"it is not valid JSON: it is not text in UTF-8\."),
    ],
    ids=[
        "empty",
        "typo",
        "NaN",
        "Infinity",
        "twice",
        "list",
        "deep",
        "digits",
        "bytes",
        "not UTF-8",
    ],
)
def test_text_that_is_not_json(text: str | bytes, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(path, sentence)


def test_numbers_beyond_floating_point(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"discount": 0.95', '"discount": 1e999'))
    refused(path, r"discount: inf is not a finite number\.")


def test_json_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.setattr(storage.text, "LARGEST_TEXT", 100)
    refused(path, r"it has more than 100 bytes; save a model of this size as \.npz\.")


def test_one_wide_row_does_not_blow_up_the_rest(tmp_path: Path) -> None:
    """1,000 x 400 pairs fit, but not with the 1,000 successors of a single pair."""
    rows = [{"state": s, "action": 0, "to": {"0": 1.0}} for s in range(1000)]
    rows[0]["to"] = {str(s): 0.001 for s in range(1000)}
    head = {
        "format": "cmdpax-model",
        "version": 1,
        "discount": 0.9,
        "initial": {"0": 1},
        "constraints": [],
    }
    (tmp_path / "wide.json").write_text(
        json.dumps({**head, "states": 1000, "actions": 400, "transitions": rows})
    )
    refused(
        tmp_path / "wide.json", r"1000 states x 400 actions x 1000 entries are too many for \.json"
    )


def test_byte_order_marks_are_no_problem(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert_same(load_model(path), small())


def is_mapped(array: Any) -> bool:
    """Whether the array, or one of those it is a view of, is a memory map."""
    return array is not None and (
        isinstance(array, np.memmap) or is_mapped(getattr(array, "base", None))
    )


def test_large_arrays_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory-mapped, not copied: the constructor takes canonical, read-only transitions as they
    are.
    """
    monkeypatch.setattr(storage, "MAPPED", 1000)
    model = garnet(states=50, branching=4)
    save_model(model, tmp_path / "large.npz")
    loaded = load_model(tmp_path / "large.npz")
    assert is_mapped(loaded.successors)
    assert is_mapped(loaded.probabilities)
    assert_same(loaded, model)
    assert solve(loaded).reward == pytest.approx(solve(model).reward, abs=1e-6)


def test_a_mapped_array_is_checked_against_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "MAPPED", 1000)
    path = tmp_path / "large.npz"
    save_model(garnet(states=50, branching=4), path)
    data = bytearray(path.read_bytes())
    place = data.index(b"probabilities.npy") + 500
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged"):
        load_model(path)
