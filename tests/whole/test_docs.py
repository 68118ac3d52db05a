"""The documentation is true: what it shows is run, in the order of the page, and prints what it
says.

Blocks of Python and of shell commands are run in a fresh folder for each page; a block of text
after one is its output, in which `...` stands for anything. A comment before a block says
otherwise: `<!-- slow -->` leaves it to the slow tests, `<!-- not run:
why -->` to the reader, `<!-- file: name -->` makes it a file. Blocks of other languages are shown,
not run.
"""

import csv
import doctest
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import deep_page
import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
BLOCK = re.compile(
    r"(?:<!-- (?P<note>[^>]*)"
    r" -->\n)?```(?P<language>\w+)\n(?P<code>.*?)```(?:\n```text\n(?P<printed>.*?)```)?",
    flags=re.S,
)
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    note: str
    printed: str | None


def blocks(page: str) -> list[Block]:
    found = BLOCK.finditer((DOCS / page).read_text())
    return [Block(one["language"], one["code"], one["note"] or "", one["printed"]) for one in found]


def runnable(page: str, slow: bool) -> Iterator[Block]:
    for block in blocks(page):
        shown_only = block.note.startswith(("not run", "file")) or (
            block.note == "slow" and not slow
        )
        if block.language in ("python", "sh") and not shown_only:
            yield block


def shell(code: str) -> str:
    here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        env={**os.environ, "PATH": here},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def python(code: str, names: dict) -> str:
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(code, "example", "exec"), names)
    return printed.getvalue()


def follow(page: str, slow: bool) -> None:
    names: dict = {"__name__": "example"}
    for block in blocks(page):
        if block.note.startswith("file: "):
            Path(block.note.removeprefix("file: ")).write_text(block.code)
    for block in runnable(page, slow):
        printed = python(block.code, names) if block.language == "python" else shell(block.code)
        if block.printed is not None:
            assert doctest.OutputChecker().check_output(block.printed, printed, SAME), (
                f"{block.code}\nprints\n{printed}\nnot\n{block.printed}"
            )


@pytest.mark.parametrize("page", [page for page in PAGES if any(runnable(page, slow=False))])
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.note == "slow" for block in blocks(page))]
)
def test_the_long_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page, slow=True)


def capabilities() -> str:
    """Which methods take which criteria, as the page has it, from the table of methods."""
    from cmdpax import methods

    kinds = ("discounted", "total", "total with cycles", "average", "finite")
    groups: dict = {}
    for name, row in methods.items():
        groups.setdefault(tuple(kind in row.criteria for kind in kinds), []).append(f"`{name}`")
    rows = [
        [", ".join(names), *("yes" if one else "no" for one in taken)]
        for taken, names in sorted(groups.items(), key=lambda group: -sum(group[0]))
    ]
    head = ["methods", "discounted", "total, every policy ends", *kinds[2:4], "finite horizon"]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def test_the_table_of_criteria_is_that_of_the_methods():
    assert capabilities() in (DOCS / "criteria.md").read_text(), capabilities()


def test_every_page_is_in_the_contents():
    index = (DOCS / "index.md").read_text()
    listed = [
        line
        for contents in re.findall(r"```\{toctree\}\n(.*?)```", index, flags=re.S)
        for line in contents.splitlines()
    ]
    for page in PAGES:
        assert page == "index.md" or any(
            Path(page).with_suffix("").match(entry) for entry in listed if entry
        ), page


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", (DOCS / page).read_text()):
        assert ((DOCS / page).parent / target).exists(), target


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    pytest.importorskip("sphinx", reason="Sphinx is not installed (it is in the extra 'docs')")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "--fail-on-warning",
        "--quiet",
        str(DOCS),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "<math" in (tmp_path / "mathematics.html").read_text()


def test_the_page_of_the_deep_study_is_what_the_records_make():
    page = (DOCS / "reproduction-deep.md").read_text()
    assert deep_page.filled(page) == page
    assert page.count("<!-- records: ") == page.count("<!-- end -->") == 10


def test_the_tuning_budget_is_that_of_the_trials():
    with open(DOCS.parent / "results" / "deep-short" / "trials.csv", newline="") as file:
        trials = list(csv.DictReader(file))
    said = re.findall(
        r"(SPMA-ALM|PPO-ALM|PPO-Lag|CPO)\s+([\d.]+)e6\s+in\s+(\d+)",
        (DOCS / "tuning-notes.md").read_text(),
    )
    assert len(said) == 4
    for method, samples, count in said:
        own = [int(trial["samples"]) for trial in trials if trial["method"] == method.lower()]
        assert (f"{sum(own) / 1e6:.1f}", str(len(own))) == (samples, count)
