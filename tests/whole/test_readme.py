"""The README is true: its Python runs, its commands exist and exit as they say."""

import re
from pathlib import Path

import pytest

import cmdpax
from cmdpax.cli.main import main
from cmdpax.paper.reproduce import FIGURES

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_python_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.S)
    names: dict = {}
    exec(example, names)
    assert names["result"].status == "certified"
    assert names["result"].reward == pytest.approx(8.57, abs=1e-6)
    assert cmdpax.check(names["model"], names["result"]).gap <= 1e-5


def test_the_printed_result_is_what_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["solve", "cliff-world"])
    printed = capsys.readouterr().out.splitlines()
    shown = re.findall(r"\$ cmdpax solve cliff-world\n(.*?)```", README, flags=re.S)[0].splitlines()
    assert len(printed) == len(shown)
    for ours, theirs in zip(printed, shown, strict=True):
        assert ours.split()[0] == theirs.split()[0]
    assert printed[0] == shown[0] and printed[2] == shown[2]


def test_every_figure_of_the_paper_has_its_command_and_its_picture():
    named = set(re.findall(r"`(\w+) --figure ([\w.-]+)`", README))
    ours = {"certified", "sensitivity", "rate", "features", "projection-errors"}  # beyond the paper
    assert named == {
        (what, figure)
        for what, figures in FIGURES.items()
        for figure in figures
        if figure not in ours
    }
    for picture in re.findall(r'src="([^"]+)"', README):
        assert (Path(__file__).parents[2] / picture).exists(), picture


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (Path(__file__).parents[2] / target).exists(), target
