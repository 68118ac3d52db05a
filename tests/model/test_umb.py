"""UMB files, written, read and damaged."""

import gzip
import io
import json
import sys
import tarfile
from fractions import Fraction

import numpy as np
import pytest

from cmdpax import CMDP, InputError, save_model
from cmdpax.model import umb as umb_files
from models import build


@pytest.fixture
def umb(tmp_path):
    """Two rooms and a door: `stay` or `go`, which fails with chance 1/4, then the door."""
    ats = pytest.importorskip("umbi.ats", reason="umbi is not installed (extra 'umb')")
    model = ats.ExplicitAts()
    model.time, model.num_players = ats.TimeType.DISCRETE, 1
    model.choice_action_to_name = ["stay", "go"]
    model.num_choice_actions = 2
    for _ in range(3):
        model.add_state()
    model.set_initial_states([0])
    rooms = [(0, 0, {0: 4}), (0, 1, {1: 3, 0: 1}), (1, 1, {2: 3, 1: 1}), (1, 1, {2: 4})]
    for s, a, chances in (*rooms, (2, 0, {2: 4})):
        choice = model.add_state_choice(state=s)
        choice.action = a
        for to, weight in chances.items():
            choice.add_branch(target=to, prob=Fraction(weight, 4))
    model.add_ap_annotation(name="door").set_state_values([False, False, True])
    pay = model.add_reward_annotation(name="pay")
    pay.set_state_values([1.0, 2.0, 0.0])
    pay.set_choice_values([0.5, 0.0, 0.0, 7.0, 0.0])
    model.add_reward_annotation(name="noise").set_branch_values([0.0, 8.0, 4.0, 8.0, 0.0, 2.0, 0.0])
    model.validate()
    ats.write(model, tmp_path / "rooms.umb")
    return tmp_path / "rooms.umb"


def test_a_umb_file_is_the_model_that_it_says(umb):
    model = CMDP.from_umb(umb, discount=0.9, limits=["noise<=10"], goal="door", minimise=True)
    assert (model.states, model.choices, model.minimise) == (3, 5, True)
    np.testing.assert_allclose(model.reward, [1.5, 1.0, 2.0, 9.0, 0.0])
    np.testing.assert_allclose(model.constraints, [[0.0, 7.0, 6.0, 2.0, 0.0]])
    assert model.transitions.tensor[0, 1].tolist() == [0.25, 0.75, 0.0]
    assert model.action_names == (("stay", "go"), ("go", "go#2"), ("stay",))
    assert model.limits.texts == ("noise<=10",) and model.initial.tolist() == [1.0, 0.0, 0.0]
    other = CMDP.from_umb(umb, discount=0.9, reward="noise", initial=1)
    np.testing.assert_allclose(other.reward, [0.0, 7.0, 6.0, 2.0, 0.0])
    assert other.initial.tolist() == [0.0, 1.0, 0.0]


def test_what_a_umb_file_does_not_have_is_named(umb):
    with pytest.raises(InputError, match=r"rooms\.umb: reward 'pai' is not known; did you"):
        CMDP.from_umb(umb, discount=0.9, reward="pai")
    with pytest.raises(InputError, match=r"goal: label 'dor' is not known; did you mean 'door'"):
        CMDP.from_umb(umb, discount=0.9, goal=["dor"])
    with pytest.raises(InputError, match="discount: nothing says it"):
        CMDP.from_umb(umb)


def test_a_model_is_written_as_umb_and_storm_reads_it(tmp_path):
    pytest.importorskip("umbi")
    mask = np.ones((3, 3), dtype=bool)
    mask[1, 2] = False
    names = {"action_names": ["a", "b", "c"], "constraint_names": ["cost"]}
    model = build("random", 3, 3, 3, 0.9, 0, start="first").replace(available=mask, **names)
    save_model(model, tmp_path / "m.umb")
    back = CMDP.from_umb(tmp_path / "m.umb", discount=0.9, limits=["cost<=4"])
    assert back.action_names[1] == ("a", "b")
    assert back.choices == model.choices == 8
    np.testing.assert_array_equal(back.reward, model.reward)
    np.testing.assert_array_equal(back.constraints, model.constraints)
    np.testing.assert_array_equal(back.transitions.probabilities, model.transitions.probabilities)
    with pytest.raises(InputError, match="UMB knows first states that are equally likely alone"):
        save_model(model.replace(initial=[0.25, 0.75, 0.0]), tmp_path / "m.umb")
    stormpy = pytest.importorskip("stormpy")
    storm = stormpy.build_model_from_umb(str(tmp_path / "m.umb"))
    assert (storm.nr_states, storm.nr_choices) == (3, 8)
    assert set(storm.reward_models) == {"reward", "cost"}


def members(path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        return {one.name: archive.extractfile(one).read() for one in archive if one.isfile()}


def write(path, parts, packed=gzip.compress):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    path.write_bytes(packed(buffer.getvalue()))


def test_a_umb_file_need_not_be_packed(umb):
    expected = CMDP.from_umb(umb, discount=0.9).digest
    write(umb, members(umb), packed=bytes)
    assert CMDP.from_umb(umb, discount=0.9).digest == expected


def test_damaged_umb_files_are_one_sentence(umb):
    """Whatever is cut out, cut short or overwritten: a model, or an InputError with the name."""
    parts, rng = members(umb), np.random.default_rng(0)
    sentences = []
    for name, content in parts.items():
        for bad in (None, b"", content[:-1], content + b"\0", rng.bytes(len(content))):
            broken = {key: value for key, value in parts.items() if key != name}
            write(umb, broken if bad is None else {**broken, name: bad})
            try:
                CMDP.from_umb(umb, discount=0.9, limits=["noise<=10"])
            except InputError as error:
                sentences.append(str(error))
    assert len(sentences) > len(parts) and not any("\n" in sentence for sentence in sentences)
    umb.write_bytes(b"\x1f\x8bnothing")
    with pytest.raises(InputError, match=r"rooms\.umb: it is not a UMB file, or a damaged one"):
        CMDP.from_umb(umb, discount=0.9)


def test_a_umb_file_allocates_nothing_that_it_does_not_hold(umb, monkeypatch):
    parts = members(umb)
    index = json.loads(parts["index.json"])
    index["transition-system"]["#states"] = 10**15
    write(umb, {**parts, "index.json": json.dumps(index).encode()})
    with pytest.raises(InputError, match="it claims 1000000000000000 states, more than"):
        CMDP.from_umb(umb, discount=0.9)
    write(umb, {**parts, "zeros": bytes(10**6)})
    monkeypatch.setattr(umb_files, "LARGEST_UMB", 10**5)
    with pytest.raises(InputError, match="it unpacks to more than 100,000 bytes"):
        CMDP.from_umb(umb, discount=0.9)


def test_without_umbi_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "umbi", None)
    monkeypatch.setitem(sys.modules, "umbi.umb", None)
    with pytest.raises(InputError, match=r"needs the package 'umbi.*'; install cmdpax\[umb\]"):
        CMDP.from_umb("rooms.umb", discount=0.9)
