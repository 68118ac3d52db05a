"""Files: what is saved is what is loaded, and every bad archive gets one sentence that names it."""

import json
import os
import re
import zipfile
from dataclasses import asdict, fields, replace
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cmdpax
from cmdpax import CMDP, InputError, Result, check, solve
from cmdpax.environments import cliff_world, garnet
from cmdpax.files import arrays as stored
from cmdpax.model.archive import load_model, load_result, save_model, save_result
from damage import fuzz, npy, npz_files, refused, unzipped, zipped
from models import assert_same, assert_valid, build, labelled

DOCUMENT = Path(__file__).parents[2] / "docs" / "model-format.md"
VERSION_1 = Path(__file__).parents[1] / "data" / "version-1"
SUFFIXES = (".npz", ".json")
FILES = 5_000  # damaged ones


def every_sense() -> dict[str, Any]:
    rows = labelled().constraints[[0, 1, 0, 1, 0]]
    return {
        "constraints": rows,
        "thresholds": [4.0, -1.5, 0.25, (1 / 3, 2.0), (7.0, 7.0)],
        "senses": ["<=", ">=", "==", "in", "in"],
        "constraint_names": list("abcde"),
        "minimise": True,
    }


# ---- round trips
@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", cmdpax.environments.finite)
def test_every_environment_survives(name: str, suffix: str, tmp_path: Path) -> None:
    model = cmdpax.environments.finite[name]()
    save_model(model, tmp_path / f"model{suffix}")
    assert_same(load_model(tmp_path / f"model{suffix}"), model)


BARE: dict[str, Any] = dict.fromkeys(
    ("senses", "state_names", "action_names", "constraint_names", "grid", "available")
)
CHANGES: dict[str, dict[str, Any]] = {
    "labelled": {},
    "bare": BARE,
    "no constraints": {**BARE, "constraints": [], "thresholds": []},
    "scattered": {"available": [[False, True], [True, False], [False, True]]},
    "an action that exists nowhere": {"available": [[True, False]] * 3},
    "every sense": every_sense(),
    "an equality": {"senses": ["==", "<="]},
    "minimised": {"minimise": True},
}


@pytest.mark.parametrize("suffix", [*SUFFIXES, ".NPZ", ".Json"])
@pytest.mark.parametrize("name", CHANGES)
def test_labels_masks_and_senses_survive(name: str, suffix: str, tmp_path: Path) -> None:
    model = labelled(**CHANGES[name])
    save_model(model, str(tmp_path / f"model{suffix}"))
    assert_same(load_model(str(tmp_path / f"model{suffix}")), model)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.integers(1, 4),
    st.integers(1, 6),
    st.lists(st.sampled_from(["<=", ">=", "==", "in"]), max_size=3),
    st.booleans(),
    st.booleans(),
)
def test_random_models_survive_both_forms(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    S: int,
    A: int,
    B: int,
    senses: list[str],
    masked: bool,
    minimise: bool,
) -> None:
    rng, m = np.random.default_rng(seed), len(senses)
    mask = rng.random((S, A)) < 0.5
    mask[np.arange(S), rng.integers(0, A, S)] = True
    numbers = rng.normal(size=(m, 2))
    model = CMDP(
        (rng.integers(0, S, (S, A, B)), rng.dirichlet(np.full(B, 0.3), (S, A))),
        rng.normal(size=(S, A)) * 10.0 ** rng.integers(-300, 99, (S, A)),
        rng.normal(size=(m, S, A)) * (rng.random((m, S, A)) < 0.7),
        [np.sort(row) if sense == "in" else row[0] for sense, row in zip(senses, numbers)],
        rng.dirichlet(np.ones(S)),
        rng.random(),
        senses=senses,
        minimise=minimise,
        available=mask if masked else None,
    )
    folder = tmp_path_factory.getbasetemp()
    for suffix in SUFFIXES:
        save_model(model, folder / f"random{suffix}")
        assert_same(load_model(folder / f"random{suffix}"), model)


@cache
def results() -> dict[str, Result]:
    certified = solve(cliff_world())
    ranged = build("random", 6, 2, 2, 0.9, 1, 2, offset=0.0)
    middle = ranged.thresholds
    ranged = ranged.replace(
        thresholds=[(middle[0] - 1, middle[0] + 1), (-np.inf, middle[1])], minimise=True
    )
    return {
        "certified": certified,
        "infeasible": solve(cliff_world(threshold=0.1)),
        "averaged": replace(
            certified, averaged={"reward": 0.1, "margins": [0.1 + 0.2], "policies": 7}
        ),
        "not finite": replace(
            certified,
            scaled_gap=np.inf,
            trace=[{"gap": np.inf, "reward": -np.inf, "steps": 3, "note": "é"}],
        ),
        "no constraints": solve(garnet(states=5, constraints=0)),
        "ranges, minimised": solve(ranged),
    }


NAMES = ["certified", "infeasible", "averaged", "not finite", "no constraints", "ranges, minimised"]


@pytest.mark.parametrize("name", NAMES)
def test_results_survive(name: str, tmp_path: Path) -> None:
    result = results()[name]
    save_result(result, tmp_path / "result.npz")
    loaded = load_result(tmp_path / "result.npz")
    for one, other in (
        (result, loaded),
        (result.certificate, loaded.certificate),
        (result.limits, loaded.limits),
    ):
        for field in fields(one):
            value, copy = getattr(one, field.name), getattr(other, field.name)
            if isinstance(value, np.ndarray):
                np.testing.assert_array_equal(copy, value, strict=True)
            elif field.name not in ("certificate", "limits", "fingerprint"):  # a digest, or a model
                assert copy == value, field.name
                assert isinstance(copy, type(value)) or isinstance(value, np.generic), field.name
    assert loaded.digest == result.digest
    assert str(loaded) == str(result) and loaded.summary() == result.summary()


def test_a_loaded_result_still_proves_its_claim(tmp_path: Path) -> None:
    save_result(results()["certified"], tmp_path / "result.npz")
    check(cliff_world(), load_result(tmp_path / "result.npz"))


# ---- version 1, written by 0.1
def old_model() -> CMDP:
    """The model of the files of version 1, as one says it today."""
    return labelled(
        transitions=[
            [[0.1, 0.2, 0.7], [0.0, 1.0, 0.0]],
            [[1 / 3, 1 / 3, 1 / 3], [1.0, 0.0, 0.0]],
            [[0.5, 0, 0.5], [0, 0, 1]],
        ],
        reward=[[1.0, 0.1], [2.0, 0.5], [0.0, 0.3]],
        constraints=[
            [[1.0, 2.0], [3.0, 0.1], [0.0, 0.0]],
            [[0.0, 1.0], [1 / 7, 0.0], [2.0, 0.0]],
        ],
        thresholds=[9.0, 6.5],
    )


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_models_of_version_1_are_read(suffix: str, tmp_path: Path) -> None:
    model = load_model(VERSION_1 / f"model{suffix}")
    assert_same(model, old_model())
    assert model.limits.texts == ("energy<=9", "output>=6.5")
    np.testing.assert_array_equal(model.constraints, old_model().constraints)
    save_model(model, tmp_path / f"again{suffix}")
    assert_same(load_model(tmp_path / f"again{suffix}"), model)


def test_a_certified_result_of_version_1_is_read_and_not_believed(tmp_path: Path) -> None:
    result = load_result(VERSION_1 / "averaged.npz")
    assert (result.status, result.method, result.eps) == ("certified", "opg-pd", 0.05)
    assert result.senses == ("<=", ">=") and not result.minimise
    np.testing.assert_array_equal(result.thresholds, [9.0, 6.5])
    np.testing.assert_allclose(result.values, [8.075440976933507, 19.902306648575284], rtol=1e-15)
    np.testing.assert_allclose(result.margins, [0.9245590230664922, 13.402306648575285])
    assert result.multipliers == pytest.approx([0.6702773797947603, 0.0])
    assert result.averaged is not None and result.averaged["policies"] == 12
    assert len(result.trace) == 13
    assert result.certificate.dual_bound == 9.572221175837687
    save_result(result, tmp_path / "again.npz")
    for one in (result, load_result(tmp_path / "again.npz")):
        with pytest.raises(cmdpax.CertificateError, match="no attained ranges"):
            check(old_model(), one)
    for other in (
        old_model().replace(thresholds=[9.5, 6.5]),
        old_model().replace(minimise=True),
        old_model().replace(senses=[">=", ">="]),
    ):
        with pytest.raises(cmdpax.CertificateError):
            check(other, result)
    np.testing.assert_array_equal(
        np.sign(result.certificate.value_potentials[1]),
        np.sign(solve(old_model()).certificate.value_potentials[1]),
    )


def test_an_infeasible_result_of_version_1_is_read() -> None:
    result = load_result(VERSION_1 / "infeasible.npz")
    model = old_model().replace(thresholds=[9.0, 20.2])
    assert result.status == "infeasible" and model.matches(result.digest)
    np.testing.assert_array_equal(result.thresholds, [9.0, 20.2])
    assert result.certificate.ray == pytest.approx([0.0031787089551320365, 0.02023193656730197])
    assert result.certificate.ray_bound == -0.0030840089563511333
    with pytest.raises(cmdpax.CertificateError, match="another model"):
        check(old_model(), result)


def test_the_first_files_of_version_1_have_no_values(tmp_path: Path) -> None:
    contents = dict(unzipped((VERSION_1 / "averaged.npz").read_bytes()))
    path = zipped(tmp_path / "result.npz", {**contents, "values.npy": None})
    result = load_result(path)
    np.testing.assert_allclose(result.values, [8.075440976933507, 19.902306648575284])


# ---- the document
def test_the_document_s_example_loads_and_solves(tmp_path: Path) -> None:
    text = re.search(r"```json\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert text is not None
    (tmp_path / "machine.json").write_text(text[1])
    model = load_model(tmp_path / "machine.json")
    assert (model.states, model.actions, model.senses) == (2, 3, ("<=", ">="))
    np.testing.assert_array_equal(model.available, [[True, True, False], [False, False, True]])
    np.testing.assert_array_equal(model.thresholds, [12.0, 5.0])
    result = solve(model)
    check(model, result)
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
    assert (model.states, model.limits.texts) == (2, ("energy<=12",))
    np.testing.assert_array_equal(model.constraints[0], [1.0, 0.0, 3.0])
    assert model.first_choice.tolist() == [0, 2, 3]


def test_padded_rows_of_version_2_are_read(tmp_path: Path) -> None:
    model = labelled()
    fields = {name: getattr(model, name) for name in ("thresholds", "initial", "discount")}
    names = ("senses", "state_names", "action_names", "constraint_names")
    labels = {name: list(getattr(model, name)) for name in names}
    np.savez(
        tmp_path / "old.npz",
        successors=np.broadcast_to(np.arange(3), (3, 2, 3)),
        probabilities=model.transitions.tensor,
        reward=model.as_table(model.reward),
        constraints=model.as_table(model.constraints),
        available=model.available,
        meta=json.dumps(
            {"format": "cmdpax-model", "version": 2, **labels, "grid": asdict(model.grid)}
        ),
        **fields,
    )
    assert_same(load_model(tmp_path / "old.npz"), model)


def test_a_file_holds_what_exists(tmp_path: Path) -> None:
    """One state of 300 has 100 choices, another one 300 successors: padded, that is 108 MB."""
    rows = [[{0: 1.0}] for _ in range(300)]
    rows[0], rows[1] = [{1: 1.0}] * 100, [dict.fromkeys(range(300), 1 / 300)]
    model = CMDP(rows, np.arange(399.0), [], [], 0, 0.9)
    save_model(model, tmp_path / "model.npz")
    assert (tmp_path / "model.npz").stat().st_size < 25_000
    assert_same(load_model(tmp_path / "model.npz"), model)


def test_names_of_the_actions_of_each_state_survive(tmp_path: Path) -> None:
    model = labelled(action_names=[["go", "stay"], ["go", "leave"], ["rest"]], grid=None)
    save_model(model, tmp_path / "model.npz")
    assert_same(load_model(tmp_path / "model.npz"), model)
    with pytest.raises(InputError, match=r"action_names: those of each state do not fit \.json"):
        save_model(model, tmp_path / "model.json")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_are_read_by_standard_tools(suffix: str, tmp_path: Path) -> None:
    model = labelled()
    save_model(model, tmp_path / f"model{suffix}")
    if suffix == ".json":
        data = json.loads((tmp_path / "model.json").read_text())
        assert data["constraints"][0] == {"name": "energy", "at_most": 4.0}
        assert data["transitions"][1]["costs"] == {"energy": 2.0, "output": -1.0}
    else:
        with np.load(tmp_path / "model.npz", allow_pickle=False) as arrays:
            np.testing.assert_array_equal(arrays["constraints"], model.constraints)
            np.testing.assert_array_equal(arrays["thresholds"], [4.0, -1.5])
            meta = json.loads(str(arrays["meta"]))
            assert (meta["format"], meta["version"]) == ("cmdpax-model", 3)
            assert meta["senses"] == ["<=", ">="]


# ---- writing
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_write_that_fails_leaves_the_old_file(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"model{suffix}"
    save_model(labelled(), path)
    before = path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(
        InputError, match=r"model\.\w+: it cannot be written \(.*No space left on device\)"
    ):
        save_model(labelled(discount=0.5), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]  # and no temporary file


def test_the_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    for suffix in SUFFIXES:
        for name in ("one", "two"):
            save_model(labelled(), tmp_path / f"{name}{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_bad_places_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    (tmp_path / "file").write_text("")
    for place in ("folder.npz", "missing/model.npz", "file/model.npz", "null\0byte.npz"):
        with pytest.raises(InputError, match=r"it cannot be written \(.+\)"):
            save_model(labelled(), tmp_path / place)
    for save, thing in ((save_model, labelled()), (save_result, results()["certified"])):
        with pytest.raises(InputError, match=r"model\.csv: the name must end in \.npz"):
            save(thing, tmp_path / "model.csv")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"path: None is not the name of a file"):
        save_model(labelled(), None)  # type: ignore[arg-type]


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"only finite numbers, text, lists and dictionaries can be saved"
    ):
        save_result(
            replace(results()["certified"], trace=[{"model": object()}]), tmp_path / "result.npz"
        )
    assert list(tmp_path.iterdir()) == []


# ---- bad files
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_files_that_cannot_be_read(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"folder{suffix}").mkdir()
    os.mkfifo(tmp_path / f"pipe{suffix}")
    (tmp_path / "file").write_text("")
    for name, sentence in (
        ("missing", r"there is no such file\."),
        ("null\0", r"there is no such file\."),
        ("folder", r"it is a folder; give the file itself\."),
        ("pipe", r"it is not a regular file\."),
        ("file/model", r"there is no such file\."),
    ):
        refused(tmp_path / f"{name}{suffix}", sentence, load_model)


def test_files_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_model(labelled(), tmp_path / "model.npz")

    def forbidden(*arguments: Any, **options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("builtins.open", forbidden)
    refused(tmp_path / "model.npz", r"it cannot be read \(Permission denied\)\.", load_model)


def test_unknown_suffix(tmp_path: Path) -> None:
    for name in ("model.csv", "model", "model.npy"):
        refused(tmp_path / name, r"the name must end in \.npz or \.json\.", load_model)
    refused(tmp_path / "result.json", r"the name must end in \.npz\.", load_result)


def members(model: CMDP, folder: Path) -> dict[str, bytes | None]:
    save_model(model, folder / "source.npz")
    return dict(unzipped((folder / "source.npz").read_bytes()))


def meta(**changes: Any) -> dict[str, bytes | None]:
    return {"meta.npy": npy(json.dumps({"format": "cmdpax-model", "version": 3, **changes}))}


HUGE = (
    npy(np.zeros((3, 2)))
    .replace(b"(3, 2)", b"(300000000, 200000000)")
    .replace(b" " * 16 + b"\n", b"\n")
)
OBJECTS = npy(np.zeros(2)).replace(b"<f8", b"|O8")
NOT_TEXT = npy("ab").replace(b"b\0\0\0", b"b\0\0\xff")
NOT_PLAIN = r"array 'reward' is not a plain array"
READS = r"this cmdpax reads versions 1 to 3\."
BAD_ARRAYS: dict[str, tuple[dict[str, bytes | None], str]] = {
    "no meta": ({"meta.npy": None}, r"it is not a cmdpax file; it has no array 'meta'\."),
    "meta of numbers": ({"meta.npy": npy([1, 2])}, r"'meta' holds int64; it must hold text\."),
    "meta not text": ({"meta.npy": NOT_TEXT}, r"it is not an \.npz archive, or a damaged one"),
    "meta not JSON": (
        {"meta.npy": npy("{")},
        r"it is not valid JSON: Expecting property name .* \(line 1, column 2\)\.",
    ),
    "meta NaN": (
        {"meta.npy": npy('{"format": NaN}')},
        r"it holds NaN; every number must be finite",
    ),
    "meta a list": ({"meta.npy": npy("[1]")}, r"not a cmdpax-model file; its 'format' is None\."),
    "version": (meta(version=4), rf"its version is 4; {READS}"),
    "no version": (meta(version=0), rf"its version is 0; {READS}"),
    "true version": (meta(version=True), rf"its version is True; {READS}"),
    "meta key": (meta(sense=[]), r"meta: unknown key 'sense'; did you mean 'senses'\?"),
    "senses": (meta(senses=[">="]), r"meta\.senses: 1 given for constraints \(2, 5\)"),
    "sense": (meta(senses=[">=", 3]), r"meta\.senses\[1\]: 3 is not text\."),
    "wrong sense": (meta(senses=[">=", "<"]), r"senses\[1\] is '<'; it must be '>=', '<=', '=='"),
    "range without pairs": (meta(senses=[">=", "in"]), r"thresholds\[1\] is a number; a range"),
    "minimise": (meta(minimise=1), r"minimise is 1; it must be True or False\."),
    "names": (meta(state_names="abc"), r"meta\.state_names: 'abc' is not a list\."),
    "name count": (meta(state_names=["a"]), r"state_names: 1 names for 3; give one for each"),
    "grid": (meta(grid={"cells": []}), r"grid: 'moves' is missing\."),
    "missing array": ({"reward.npy": None}, r"arrays: 'reward' is missing\."),
    "unknown array": (
        {"rewards.npy": npy([1.0])},
        r"arrays: unknown key 'rewards'; did you mean 'reward'\?",
    ),
    "text": ({"reward.npy": npy(["a"])}, r"array 'reward' holds <U1; it must hold numbers\."),
    "booleans": ({"reward.npy": npy([True])}, r"array 'reward' holds bool; it must hold numbers\."),
    "mask of numbers": (
        {"available.npy": npy(np.ones((3, 2)))},
        r"array 'available' holds float64; it must hold booleans\.",
    ),
    "complex": ({"reward.npy": npy(np.ones((3, 2)) * 1j)}, rf"{NOT_PLAIN} of numbers, booleans or"),
    "objects": ({"reward.npy": OBJECTS}, NOT_PLAIN),
    "records": ({"reward.npy": npy(np.zeros(2, dtype="f8,i4"))}, NOT_PLAIN),
    "no header": ({"reward.npy": b"numbers"}, NOT_PLAIN),
    "empty": ({"reward.npy": b""}, NOT_PLAIN),
    "huge": (
        {"reward.npy": HUGE},
        r"'reward' declares 480000000000000000 bytes, shape \(300000000, 200000000\) of float64,"
        r" but holds \d+",
    ),
    "too short": (
        {"reward.npy": npy(np.zeros((3, 2)))[:-1]},
        r"array 'reward' declares 48 bytes, .* but holds 47\.",
    ),
    "too long": (
        {"reward.npy": npy(np.zeros((3, 2))) + b"0"},
        r"array 'reward' declares 48 bytes, .* but holds 49\.",
    ),
    "shape": ({"reward.npy": npy(np.zeros((2, 3)))}, r"reward: shape \(2, 3\), expected \(3, 2\)"),
    "thresholds": (
        {"thresholds.npy": npy(1.0)},
        r"meta\.senses: 2 given for constraints \(2, 5\), thresholds \(\); give one for each\.",
    ),
    "pairs of another sense": (
        {"thresholds.npy": npy([[0.0, 1.0], [0.0, np.inf]])},
        r"thresholds\[0\] is a pair; its sense is 'in', not '<='",
    ),
    "discount": (
        {"discount.npy": npy([0.9])},
        r"discount: an array of shape \(1,\), expected one number\.",
    ),
    "float successors": (
        {"successors.npy": npy(np.zeros(9))},
        r"transitions: successors must be integers, not float64\.",
    ),
    "NaN": ({"reward.npy": npy(np.full(5, np.nan))}, r"reward of state 0, action 0 is nan; every"),
    "rows of version 2": (meta(version=2), r"arrays: unknown key 'first_choice'"),
    "no pointers": ({"first_entry.npy": None}, r"arrays: 'first_entry' is missing\."),
    "too few entries": ({"successors.npy": npy([0, 1])}, r"must both be \[entries\]"),
    "pointers that end early": (
        {"first_entry.npy": npy([0, 1, 2, 3, 4, 5])},
        r"first_entry: it runs from 0 to 5; it must rise from 0 to \d+\.",
    ),
    "choices that fall": (
        {"first_choice.npy": npy([0, 4, 2, 5])},
        r"first_choice: it falls after entry 1; it must rise from 0 to 5\.",
    ),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_bad_arrays(name: str, tmp_path: Path) -> None:
    changes, sentence = BAD_ARRAYS[name]
    path = zipped(tmp_path / "model.npz", {**members(labelled(), tmp_path), **changes})
    refused(path, sentence, load_model)


def test_bytes_of_booleans_are_true_unless_zero(tmp_path: Path) -> None:
    model = labelled(available=[[False, True], [True, True], [True, False]])
    contents = members(model, tmp_path)
    mask = contents["available.npy"]
    assert mask is not None
    sevens = mask.replace(b"\x01", b"\x07").replace(b"NUMPY\x07", b"NUMPY\x01")
    path = zipped(tmp_path / "model.npz", {**contents, "available.npy": sevens})
    assert_same(load_model(path), model)


def test_other_numbers_of_the_same_value_are_welcome(tmp_path: Path) -> None:
    model = labelled()
    same = {
        "successors.npy": npy(model.transitions.successors.astype(">i8")),
        "first_entry.npy": npy(model.transitions.first_entry.astype("u2")),
        "reward.npy": npy(np.asfortranarray(model.as_table(model.reward))),
        "initial.npy": npy(model.initial.astype(">f8")),
    }
    path = zipped(tmp_path / "model.npz", {**members(model, tmp_path), **same})
    assert_same(load_model(path), model)


def test_damaged_archives(tmp_path: Path) -> None:
    save_model(labelled(), tmp_path / "good.npz")
    good, path = (tmp_path / "good.npz").read_bytes(), tmp_path / "bad.npz"
    noise = np.random.default_rng(0).bytes(300)
    for data in (b"", b"PK", good[: len(good) // 2], good[:-1], b"{}", noise):
        path.write_bytes(data)
        damage = r"it is not an \.npz archive, or a damaged one \(.+\); write or copy it again\."
        refused(path, damage, load_model)
    body = good.index(np.float64(-1.5).tobytes())  # a threshold: the checksum must notice
    path.write_bytes(good[:body] + b"\x01" + good[body + 1 :])
    refused(path, r"\(Bad CRC-32 for file 'thresholds\.npy'\)", load_model)


def test_compressed_archives_are_refused(tmp_path: Path) -> None:
    """A few kilobytes can hold gigabytes of zeros; they are not even looked at."""
    bomb = {**members(labelled(), tmp_path), "reward.npy": npy(np.zeros(10_000_000))}
    path = zipped(tmp_path / "bomb.npz", bomb, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 200_000
    refused(path, r"array 'meta' is compressed; write the file with numpy\.savez\.", load_model)


def test_sizes_that_the_file_cannot_hold_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "liar.npz", members(labelled(), tmp_path))
    data = bytearray(path.read_bytes())
    entry = data.index(b"reward.npy", data.index(b"PK\x01\x02")) - 46
    # compressed and full size, in the directory
    data[entry + 20 : entry + 28] = (2**31).to_bytes(4, "little") * 2
    path.write_bytes(data)
    sentence = r"'reward' claims 2147483648 bytes, more than the file has or cmdpax reads\."
    refused(path, sentence, load_model)


def test_encrypted_archives_are_refused(tmp_path: Path) -> None:
    path = zipped(tmp_path / "secret.npz", members(labelled(), tmp_path))
    data = bytearray(path.read_bytes())
    entry = data.index(b"PK\x01\x02")
    while entry >= 0:
        data[entry + 8] |= 1
        entry = data.find(b"PK\x01\x02", entry + 4)
    path.write_bytes(data)
    refused(path, r"meta\.npy.* is encrypted, password required for extraction\)", load_model)


def test_a_result_is_not_a_model(tmp_path: Path) -> None:
    save_result(results()["certified"], tmp_path / "result.npz")
    sentence = r"it is not a cmdpax-model file; its 'format' is 'cmdpax-result'\."
    refused(tmp_path / "result.npz", sentence, load_model)
    save_model(labelled(), tmp_path / "model.npz")
    sentence = r"it is not a cmdpax-result file; its 'format' is 'cmdpax-model'\."
    refused(tmp_path / "model.npz", sentence, load_result)


def result_members(folder: Path) -> tuple[dict[str, bytes | None], dict[str, Any]]:
    save_result(results()["certified"], folder / "source.npz")
    contents = unzipped((folder / "source.npz").read_bytes())
    return dict(contents), json.loads(str(np.load(BytesIO(contents["meta.npy"]))))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"status": "solved"},
            r"meta\.status: 'solved' is unknown; known: certified, infeasible, limit\.",
        ),
        ({"status": 3}, r"meta\.status: 3 is not text\."),
        ({"trace": {}}, r"meta\.trace: \{\} is not a list\."),
        ({"trace": [1]}, r"meta\.trace\[0\]: 1 is not a JSON object\."),
        ({"averaged": []}, r"meta\.averaged: \[\] is not a JSON object\."),
        ({"minimise": "no"}, r"meta\.minimise: 'no' is neither true nor false\."),
        ({"senses": []}, r"each constraint needs a name and a sense"),
        ({"senses": ["<"]}, r"senses\[0\] is '<'; it must be"),
        ({"methods": "x"}, r"meta: unknown key 'methods'; did you mean 'method'\?"),
        ({"version": 1}, r"meta: unknown key 'averaged'"),
        ({"version": 4}, r"its version is 4; this cmdpax reads versions 1 to 3\."),
    ],
)
def test_bad_meta_of_results(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    contents, meta = result_members(tmp_path)
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
        ("thresholds.npy", npy([[1.0]]), r"array 'thresholds' has shape \(1, 1\), expected \(1, 2"),
        ("ray.npy", npy([1.0]), r"the arrays of a ray come together\."),
        ("eps.npy", None, r"arrays: 'eps' is missing\."),
        ("values.npy", None, r"arrays: 'values' is missing\."),
    ],
)
def test_bad_arrays_of_results(
    name: str, data: bytes | None, sentence: str, tmp_path: Path
) -> None:
    path = zipped(tmp_path / "result.npz", {**result_members(tmp_path)[0], name: data})
    refused(path, sentence, load_result)


# ---- 10,000 broken files: each loads as something valid or is refused
def test_broken_models_are_refused_or_valid(tmp_path: Path) -> None:
    save_model(labelled(), tmp_path / "good.npz")
    good, bad = (tmp_path / "good.npz").read_bytes(), tmp_path / "bad.npz"
    valid = fuzz(good, bad, npz_files, load_model, FILES, assert_valid)
    assert 0.005 * FILES < valid < 0.5 * FILES  # most are broken, some only look so


@pytest.mark.parametrize("name", ["certified", "ranges, minimised"])
def test_broken_results_are_refused_or_valid(name: str, tmp_path: Path) -> None:
    save_result(results()[name], tmp_path / "good.npz")
    good, bad = (tmp_path / "good.npz").read_bytes(), tmp_path / "bad.npz"
    assert 0 < fuzz(good, bad, npz_files, load_result, FILES // 5) < FILES // 10


# ---- large files
def is_mapped(array: Any) -> bool:
    """Whether the array, or one of those it is a view of, is a memory map."""
    return array is not None and (
        isinstance(array, np.memmap) or is_mapped(getattr(array, "base", None))
    )


def test_large_arrays_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory-mapped, not copied: the constructor takes canonical, read-only transitions as they
    are.
    """
    monkeypatch.setattr(stored, "MAPPED", 1000)
    model = garnet(states=50, branching=4)
    save_model(model, tmp_path / "large.npz")
    loaded = load_model(tmp_path / "large.npz")
    assert is_mapped(loaded.transitions.successors)
    assert is_mapped(loaded.transitions.probabilities)
    assert_same(loaded, model)
    assert solve(loaded).reward == pytest.approx(solve(model).reward, abs=1e-6)


def test_a_mapped_array_is_checked_against_its_checksum(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "MAPPED", 1000)
    path = tmp_path / "large.npz"
    save_model(garnet(states=50, branching=4), path)
    data = bytearray(path.read_bytes())
    place = data.index(b"probabilities.npy") + 500
    data[place] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(InputError, match="damaged"):
        load_model(path)


@pytest.mark.parametrize("suffix", [".npz", ".json"])
def test_notes_are_kept(tmp_path, suffix):
    notes = ["it was read from a table.", "2 deadlocks stay."]
    model = labelled(notes=notes)
    save_model(model, tmp_path / f"model{suffix}")
    loaded = load_model(tmp_path / f"model{suffix}")
    assert loaded.notes == tuple(notes) and loaded.digest == labelled().digest
    assert "note        2 deadlocks stay." in str(loaded)
    assert loaded.replace(discount=0.5).notes == tuple(notes)
