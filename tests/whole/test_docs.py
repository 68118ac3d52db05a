"""The documentation is true: what it shows is run, in the order of the page (`docs/pages.py`), and
prints what it says.
"""

import csv
import doctest
import json
import re
import subprocess
import sys
from pathlib import Path

import deep_page
import pages
import pytest

import cmdpax

DOCS = Path(__file__).parents[2] / "docs"
PAGES = sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))
SAME = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks_of(page: str) -> list[pages.Block]:
    return list(pages.blocks((DOCS / page).read_text()))


def follow(page: str, slow: bool) -> None:
    names: dict = {"__name__": "example"}
    pages.write_files((DOCS / page).read_text())
    for block in blocks_of(page):
        if not block.is_run(slow):
            continue
        printed = pages.run(block, names)
        if block.printed is not None:
            assert doctest.OutputChecker().check_output(block.printed, printed, SAME), (
                f"{block.code}\nprints\n{printed}\nnot\n{block.printed}"
            )


@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.is_run(slow=False) for block in blocks_of(page))]
)
def test_the_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(block.note == "slow" for block in blocks_of(page))]
)
def test_the_long_examples_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    follow(page, slow=True)


def test_a_tutorial_is_a_notebook_too():
    text = (DOCS / "tutorials" / "spreadsheet.md").read_text()
    made = json.loads(pages.notebook(text))
    code = [cell for cell in made["cells"] if cell["cell_type"] == "code"]
    assert code[0]["source"][0] == "%%writefile workshop.csv\n"
    assert "certified" in "".join(code[2]["outputs"][0]["text"])
    pictures = [out for cell in code for out in cell["outputs"] if "data" in out]
    assert len(pictures) == 2 and all(out["data"]["image/png"] for out in pictures)
    told = "".join("".join(cell["source"]) for cell in made["cells"])
    for heading in re.findall(r"^#+ .*", text, flags=re.M):
        assert heading in told


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


def test_every_public_name_is_in_the_reference():
    page = (DOCS / "api.md").read_text()
    missing = [name for name in cmdpax.__all__ if not re.search(rf"\b{name}\b", page)]
    assert not missing


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
