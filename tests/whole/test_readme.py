"""README and gallery are true: Python runs, commands print what they say, links lead somewhere."""

import re
from pathlib import Path

import pytest

import cmdpax
from cmdpax.cli.main import main
from cmdpax.paper.reproduce import FIGURES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_python_examples_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    model, method, simulator = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    names: dict = {}
    exec(model, names)
    assert names["result"].status == "certified"
    assert names["result"].reward == pytest.approx(8.57, abs=1e-6)
    assert cmdpax.check(names["model"], names["result"]).gap <= 1e-5
    assert names["cheaper"].reward < names["result"].reward
    assert len(names["curve"]) == 6  # and the model's own budget
    exec(method, names)
    assert names["ours"].rewards.shape == names["rival"].rewards.shape == (1001, 3)
    exec(simulator, names)
    assert len(names["run"].metrics) == 4 and names["action"].shape == (3,)


def test_the_printed_result_is_what_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["solve", "cliff-world"])
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"\$ cmdpax solve cliff-world\n(.*?)```", README, flags=re.S)[0].splitlines()
    assert len(printed) == len(shown)
    for ours, theirs in zip(printed, shown, strict=True):
        assert ours.split()[0] == theirs.split()[0]
    assert printed[0] == shown[0] and printed[2] == shown[2]
    assert printed[-2].split() == shown[-2].split()  # its widths are those of rounding errors


def test_every_figure_of_the_paper_has_its_command_and_its_picture():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    named = set(re.findall(r"`(\w+) --figure ([\w.-]+)`", gallery))
    ours = {  # beyond the paper
        *("certified", "sensitivity", "rate", "theory", "three-constraints"),
        *("features", "projection-errors", "random-4-80"),
        *("held-out", "two-limits", "paper-settings"),
    }
    assert named == {
        (what, figure)
        for what, figures in FIGURES.items()
        for figure in figures
        if figure not in ours
    }
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", gallery)
    assert len(pictures) == len(named)
    for picture in pictures:
        assert (ROOT / "docs" / picture).exists(), picture


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_it_is_short():
    lines = README.splitlines()
    assert len(lines) <= 130 and max(map(len, lines)) <= 105
