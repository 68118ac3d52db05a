"""Models as people write them: every place that can be wrong gets one sentence that names it."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cmdpax import InputError
from cmdpax.environments import garnet
from cmdpax.files import reading
from cmdpax.model import archive, text
from cmdpax.model.archive import load_model, save_model
from damage import fuzz, json_files, measured, refused
from models import assert_same, assert_valid, labelled

FILES = 5_000  # damaged ones
HEAD = {
    "format": "cmdpax-model",
    "version": 2,
    "discount": 0.9,
    "initial": {"0": 1},
    "constraints": [],
}


def written(folder: Path, *path: Any, value: Any = None, remove: bool = False) -> Path:
    """The labelled model as JSON with one place changed or removed."""
    save_model(labelled(), folder / "model.json")
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


def test_each_sense_has_its_words(tmp_path: Path) -> None:
    rows = labelled().constraints[[0, 1, 0, 1]]
    model = labelled(
        constraints=rows,
        thresholds=[4.0, -1.5, 0.25, (0.5, 2.0)],
        senses=["<=", ">=", "==", "in"],
        constraint_names=["a", "b", "c", "d"],
        minimise=True,
    )
    save_model(model, tmp_path / "model.json")
    data = json.loads((tmp_path / "model.json").read_text())
    assert data["minimise"] is True and data["version"] == 2
    assert data["constraints"] == [
        {"name": "a", "at_most": 4.0},
        {"name": "b", "at_least": -1.5},
        {"name": "c", "equals": 0.25},
        {"name": "d", "at_least": 0.5, "at_most": 2.0},
    ]
    np.testing.assert_array_equal(load_model(tmp_path / "model.json").constraints, rows)


def test_unnamed_constraints_go_by_their_numbers(tmp_path: Path) -> None:
    row = {"state": 0, "action": 0, "to": {"0": 1}, "costs": {"1": 3.0}}
    limits = [{"at_most": 1}, {"at_least": 2}]
    data = {**HEAD, "constraints": limits, "states": 1, "actions": 1, "transitions": [row]}
    (tmp_path / "model.json").write_text(json.dumps(data))
    model = load_model(tmp_path / "model.json")
    assert model.limits.texts == ("c0<=1", "c1>=2")
    np.testing.assert_array_equal(model.constraints.ravel(), [0.0, 3.0])


def test_names_that_are_not_different_need_npz(tmp_path: Path) -> None:
    model = labelled(state_names=["a", "a", "b"])
    save_model(model, tmp_path / "model.npz")
    assert_same(load_model(tmp_path / "model.npz"), model)
    with pytest.raises(
        InputError,
        match=r"state_names: in \.json they must differ; rename some, or save as \.npz",
    ):
        save_model(model, tmp_path / "model.json")


def test_what_is_too_large_to_be_written(tmp_path: Path) -> None:
    model = garnet(states=1001, branching=2, constraints=125)
    with pytest.raises(
        InputError,
        match=r"1001 states x 4 actions x 126 entries are too many for \.json; save the model",
    ):
        save_model(model, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


LIMIT = r"constraints\[0\]: give 'at_most', 'at_least', both for a range, or 'equals'\."
NOT_FINITE = r"is not a finite number\."
BAD_PLACES: list[tuple[tuple[Any, ...], Any, str]] = [
    (("format",), "other", r"it is not a cmdpax-model file; its 'format' is 'other'\."),
    (("version",), "1", r"its version is '1'; this cmdpax reads versions 1 to 2\."),
    (("version",), 3, r"its version is 3; this cmdpax reads versions 1 to 2\."),
    (("state",), [], r"the model: unknown key 'state'; did you mean 'states'\?"),
    (("minimise",), "yes", r"minimise is 'yes'; it must be True or False\."),
    (("discount",), "0.9", rf"discount: '0\.9' {NOT_FINITE}"),
    (("discount",), True, rf"discount: True {NOT_FINITE}"),
    (("discount",), 2, r"discount is 2; it must be between 0 and 1"),
    (("states",), {}, r"states: \{\} is not a list\."),
    (("states",), 0, r"states: 0 is not a list\."),
    (("states",), True, r"states: True is not a list\."),
    (("states",), 10**12, r"states: 1000000000000 of them but 5 transitions; some state's action"),
    (("states",), 10**4000, r"states: 1000.* of them but 5 transitions"),
    (("states",), ["a", "a", "b"], r"states: 'a' is listed twice; names must differ\."),
    (("states",), ["a", "b", 3], r"states\[2\]: 3 is not text\."),
    (("states",), [], r"states: the list is empty; give at least one\."),
    (("actions",), [], r"actions: the list is empty; give at least one\."),
    (
        ("actions",),
        ["go", "stay", "\ud800"],
        r"action_names\[2\]: '\\ud800' is not valid text: half a surrogate pair\.",
    ),
    (
        ("actions",),
        10**12,
        r"3 states x 1000000000000 actions x 3 entries are too many for \.json; save the model as",
    ),
    (("actions",), 3.0, r"actions: 3\.0 is not a list\."),
    (("initial",), "a", r"initial: 'a' is not a JSON object\."),
    (("initial",), [1.0], r"initial: shape \(1,\), expected \(3,\)\."),
    (("initial",), [1.0, None, 0.0], rf"initial\[1\]: None {NOT_FINITE}"),
    (("initial",), {"c": 1.0}, r"initial: 'c' is not known; known: a, b, päuse\."),
    (("initial", "a"), 0.5, r"initial: probabilities sum to 1\.2, not 1; normalise them"),
    (("constraints",), {}, r"constraints: \{\} is not a list\."),
    (("constraints", 0), 3, r"constraints\[0\]: 3 is not a JSON object\."),
    (("constraints", 0), {"name": "energy"}, LIMIT),
    (("constraints", 0), {"name": "energy", "equals": 1.0, "at_most": 1.0}, LIMIT),
    (("constraints", 0), {"name": "energy", "equals": 1.0, "at_least": 1.0}, LIMIT),
    (("constraints", 0, "at_least"), 5.0, r"thresholds\[0\] is \(5, 4\); give \(low, high\), low"),
    (("constraints", 0, "at_mots"), 1.0, r"\[0\]: unknown key 'at_mots'; did you mean 'at_most'\?"),
    (("constraints", 0, "at_most"), None, rf"constraints\[0\]\.at_most: None {NOT_FINITE}"),
    (("constraints", 0, "name"), "output", r"constraints: 'output' is listed twice; names must"),
    (("constraints", 0, "name"), 1, r"constraints\[0\]: 1 is not text\."),
    (("constraints", 0), {"at_most": 1.0}, r"some have a name and some have none; name all or"),
    (("transitions",), 3, r"transitions: 3 is not a list\."),
    (("transitions",), [], r"states: 3 of them but 0 transitions; some state's action set is emp"),
    (("transitions", 1), [], r"transitions\[1\]: \[\] is not a JSON object\."),
    (("transitions", 1, "rewards"), 1, r"\[1\]: unknown key 'rewards'; did you mean 'reward'\?"),
    (("transitions", 1, "state"), "aa", r"\[1\]\.state: 'aa' is not known; did you mean 'a'\?"),
    (("transitions", 1, "state"), [], r"transitions\[1\]\.state: \[\] is not known"),
    (("transitions", 1, "action"), "go", r"\[1\]: state 'a', action 'go' is listed twice; keep"),
    (("transitions", 1, "to"), "b", r"transitions\[1\]\.to: 'b' is not a JSON object\."),
    (("transitions", 1, "to"), {"c": 1.0}, r"transitions\[1\]\.to: 'c' is not known"),
    (("transitions", 1, "to"), {"b": "1"}, rf"transitions\[1\]\.to\.b: '1' {NOT_FINITE}"),
    (("transitions", 1, "to"), {}, r"probabilities of state 0, action 1 sum to 0, not 1;"),
    (
        ("transitions", 1, "to"),
        {"b": -1.0, "a": 2.0},
        r"probability of state 0, action 1, successor 1 is -1\.0; none may be negative\.",
    ),
    (("transitions", 1, "reward"), [1.0], rf"transitions\[1\]\.reward: \[1\.0\] {NOT_FINITE}"),
    (("transitions", 1, "reward"), 10**400, rf"transitions\[1\]\.reward: 1000.* {NOT_FINITE}"),
    (
        ("transitions", 1, "costs"),
        {"enrgy": 1.0},
        r"transitions\[1\]\.costs: 'enrgy' is not known; did you mean 'energy'\?",
    ),
    (("transitions", 1, "costs"), [1.0, 2.0], r"\[1\]\.costs: \[1\.0, 2\.0\] is not a JSON obj"),
    (("transitions", 4, "state"), "b", r"transitions\[4\]: state 'b', action 'go' is listed twice"),
    (("grid",), [], r"grid: \[\] is not a JSON object\."),
    (("grid", "cell"), [], r"grid: unknown key 'cell'; did you mean 'cells'\?"),
    (("grid", "cells", 0), [1], r"grid\.cells\[0\]: \[1\] is not a pair \[x, y\]\."),
    (("grid", "cells", 0), 3, r"grid\.cells\[0\]: 3 is not a list\."),
    (("grid", "moves", 0), ["x", "y"], rf"grid\.moves: 'x' {NOT_FINITE}"),
    (("grid", "moves"), [], r"grid: it describes 3 cells and 0 moves; the model has 3 and 2\."),
    (("grid", "goals"), ["a"], r"grid\.goals: it must list indices of states\."),
    (("grid", "goals"), [7], r"grid: .*"),
]


@pytest.mark.parametrize(("place", "value", "sentence"), BAD_PLACES)
def test_bad_places(place: tuple[Any, ...], value: Any, sentence: str, tmp_path: Path) -> None:
    refused(written(tmp_path, *place, value=value), sentence, load_model)


@pytest.mark.parametrize("key", [*text.HEAD_KEYS, "transitions"])
def test_missing_keys(key: str, tmp_path: Path) -> None:
    own = {"format": "its 'format' is None", "version": "its version is None"}
    sentence = own.get(key, rf"the model: '{key}' is missing\.")
    refused(written(tmp_path, key, remove=True), sentence, load_model)


@pytest.mark.parametrize("key", ["state", "action", "to"])
def test_missing_keys_of_transitions(key: str, tmp_path: Path) -> None:
    path = written(tmp_path, "transitions", 2, key, remove=True)
    refused(path, rf"transitions\[2\]: '{key}' is missing\.", load_model)


def test_a_state_without_actions(tmp_path: Path) -> None:
    path = written(tmp_path, "transitions", 4, remove=True)
    sentence = r"state 'päuse': the action set is empty; list a transition for each of its actions"
    refused(path, sentence, load_model)


DEEP = r"it is nested too deeply, or holds a number of thousands of digits\."
NOT_JSON: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r"it is not valid JSON: Expecting value \(line 1, column 1\)\."),
    "typo": (
        '{"format": "cmdpax-model",\n "version" 1}',
        r"it is not valid JSON: Expecting ':' delimiter \(line 2, column 12\)\.",
    ),
    "NaN": ('{"discount": NaN}', r"it holds NaN; every number must be finite\."),
    "Infinity": ('{"discount": -Infinity}', r"it holds -Infinity; every number must be finite\."),
    "twice": ('{"format": 1, "format": 2}', r"key 'format' is given twice; keep one\."),
    "list": ("[1, 2]", r"it is not a cmdpax-model file; its 'format' is None\."),
    "deep": ("[" * 100_000, DEEP),
    "digits": ("1" * 10_000, DEEP),
    "bytes": (b"\xff\xfe\xfd\xfc\xfb", r"it is not valid JSON"),
    "not UTF-8": (b'{"format": "\xff"}', r"it is not valid JSON: it is not text in UTF-8\."),
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_text_that_is_not_json(name: str, tmp_path: Path) -> None:
    content, sentence = NOT_JSON[name]
    path = tmp_path / "model.json"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(path, sentence, load_model)


def test_numbers_beyond_floating_point(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_text(path.read_text().replace('"discount": 0.95', '"discount": 1e999'))
    refused(path, r"discount: inf is not a finite number\.", load_model)


def test_json_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path)
    monkeypatch.setattr(archive, "read_bytes", partial(reading.read_bytes, most=100))
    sentence = r"it has [\d,]+ bytes, more than the 100 that are read; give a smaller one\."
    refused(path, sentence, load_model)


def test_one_wide_row_does_not_blow_up_the_rest(tmp_path: Path) -> None:
    """1,000 x 400 pairs fit, but not with the 1,000 successors of a single pair."""
    rows: list[dict[str, Any]] = [{"state": s, "action": 0, "to": {"0": 1.0}} for s in range(1000)]
    rows[0]["to"] = {str(s): 0.001 for s in range(1000)}
    data = {**HEAD, "states": 1000, "actions": 400, "transitions": rows}
    (tmp_path / "wide.json").write_text(json.dumps(data))
    sentence = r"1000 states x 400 actions x 1000 entries are too many for \.json"
    refused(tmp_path / "wide.json", sentence, load_model)


def test_byte_order_marks_are_no_problem(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert_same(load_model(path), labelled())


def test_the_largest_counts_stay_small(tmp_path: Path) -> None:
    """A count is a few bytes in the file; what it makes us allocate is bounded."""
    row = {"state": 0, "action": 0, "to": {"0": 1}}
    data = {**HEAD, "states": 1, "actions": 500_000, "transitions": [row]}
    (tmp_path / "model.json").write_text(json.dumps(data))
    with measured():
        assert load_model(tmp_path / "model.json").actions == 500_000
    (tmp_path / "model.json").write_text(json.dumps({**data, "actions": 500_001}))
    with measured(), pytest.raises(InputError, match=r"too many for \.json"):
        load_model(tmp_path / "model.json")


def test_broken_models_are_refused_or_valid(tmp_path: Path) -> None:
    save_model(labelled(), tmp_path / "good.json")
    good, bad = (tmp_path / "good.json").read_bytes(), tmp_path / "bad.json"
    valid = fuzz(good, bad, json_files, load_model, FILES, assert_valid)
    assert 0.005 * FILES < valid < 0.5 * FILES  # most are broken, some only look so
