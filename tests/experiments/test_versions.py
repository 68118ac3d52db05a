"""What made a result: the code as it is, the packages that are there, and differences in words."""

from importlib.metadata import version
from pathlib import Path

import cmdpax
from cmdpax.experiments import versions as module
from cmdpax.experiments.versions import difference, installed, versions


def test_only_packages_that_are_there_have_versions():
    assert installed(["numpy", "no-such-package"]) == {"numpy": version("numpy")}


def test_the_code_is_known_by_its_source(tmp_path, monkeypatch):
    """A digest that sees every file, its name and its content, and nothing else."""
    seen = []
    for name, text in (
        ("a.py", "1"),
        ("a.py", "2"),
        ("b.py", "2"),
        ("c/d.py", "2"),
        ("note.txt", "3"),
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        monkeypatch.setattr(cmdpax, "__file__", str(tmp_path / "__init__.py"))
        seen.append(module._digest())
    assert len(set(seen)) == 4 and seen[-1] == seen[-2]
    monkeypatch.undo()
    assert versions()["code"] == module._digest() not in seen and Path(cmdpax.__file__).exists()


def test_differences_in_words():
    assert difference({"a": "1", "b": "1"}, {"a": "1", "b": "2"}) == "b 1 -> 2"
    assert difference({"a": "1"}, {"b": "2"}) == "a 1 -> none, b none -> 2"
    assert difference(versions(), versions()) == ""
