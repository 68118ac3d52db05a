"""Published runs: small, complete, and never written to."""

import json
import shutil

import numpy as np
import pytest

import cmdpax
from calls import call
from cmdpax import InputError
from cmdpax.experiments.publishing import publish
from cmdpax.experiments.store import versions
from cmdpax.learning.run_folder import RunFolder
from cmdpax.learning.training import train
from short_run import SMALL


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(**SMALL, folder=folder)
    return folder


@pytest.fixture(scope="module")
def published(run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "Hopper-spma-alm-0"
    publish(run, folder, episodes=3)
    return folder


def contents(folder):
    """Names, times and bytes of all files."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def test_the_card_says_what_made_the_policy_and_what_it_does(run, published):
    card, config = RunFolder(published).card, RunFolder(run).config
    heads = {"environment": SMALL["environment"], "method": "spma-alm", "seed": 0}
    assert heads.items() <= card.items() and card["limits"] == ["cost<=25"]
    assert {**heads, "limits": card["limits"], **card["settings"]} == config
    assert (card["updates"], card["samples"], card["episodes"]) == (12, 1200, 3)
    assert card["measured with"] == versions() and card["trained with"] is None
    measured = cmdpax.evaluate(published, episodes=3)
    for kind, seen in measured.items():
        assert card[kind]["return"]["mean"] == seen.reward.mean
        assert card[kind]["cost"]["bound"] == seen.costs["cost"].bound
        assert card[kind]["verdict"] == seen.verdict.word


def test_it_is_small_and_has_the_policy_alone(run, published):
    ours, theirs = RunFolder(published).newest()[0], RunFolder(run).newest()[0]
    assert {name.partition("/")[0] for name in ours} == {"policy", "seen"}
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name])
    assert sum(len(data) for _, data in contents(published).values()) < 10_000


def test_everything_reads_it_and_nothing_is_written(published, tmp_path, capsys):
    before = contents(published)
    code, text, _ = call(capsys, "evaluate", str(published), "--episodes", "3")
    card = RunFolder(published).card
    assert code == 0 and f"published: {card['summary']}" in " ".join(text.split())
    assert (
        call(capsys, "film", str(published), "--steps", "2", "--out", f"{tmp_path}/a.gif")[0] == 0
    )
    assert call(capsys, "export", str(published), f"{tmp_path}/policy.npz")[0] == 0
    assert cmdpax.load_policy(published)(np.zeros(11)).shape == (3,)
    train(**SMALL | {"samples": 200}, folder=tmp_path / "next", start=published)
    with pytest.raises(InputError, match="is published; give it as the start of another run"):
        train(**SMALL, folder=published, resume=True)
    assert contents(published) == before


def test_a_record_of_the_run_stays_beside_it(run, tmp_path):
    record = tmp_path / "record"
    record.mkdir()
    for name in ("config.json", "metrics.jsonl"):
        shutil.copy(run / name, record)
    (record / "evaluation.json").write_text("{}")
    before = contents(record)
    publish(run, record, episodes=2)
    assert before.items() <= contents(record).items()
    with pytest.raises(InputError, match="is published already"):
        publish(run, record, episodes=2)


def test_what_was_killed_before_the_card_is_finished(run, tmp_path):
    folder = tmp_path / "published"
    card = publish(run, folder, episodes=2)
    (folder / "card.json").unlink()
    assert publish(run, folder, episodes=2) == card == RunFolder(folder).card


def test_a_folder_of_another_run_is_refused(run, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    config = json.loads((run / "config.json").read_text())
    (other / "config.json").write_text(json.dumps({**config, "seed": 5}))
    before = contents(other)
    for folder in (other, run):
        with pytest.raises(InputError, match="holds another run; give another folder"):
            publish(run, folder, episodes=2)
    assert contents(other) == before


def test_the_versions_of_a_run_in_a_store_are_on_the_card(run, tmp_path):
    stored = shutil.copytree(run, tmp_path / "stored")
    (stored / "result.json").write_text('{"versions": {"python": "3.99"}}')
    card = publish(stored, tmp_path / "published", episodes=2)
    assert card["trained with"] == {"python": "3.99"}


def test_the_command(run, tmp_path, capsys):
    code, text, _ = call(capsys, "publish", str(run), f"{tmp_path}/out", "--episodes", "2")
    assert code == 0 and "return" in text and "over 2 episodes from seed 12345" in text
    assert RunFolder(tmp_path / "out").card is not None
