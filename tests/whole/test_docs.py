"""The documentation is true: what it shows is run, in the order of the page (`docs/pages.py`), and
prints what it says.
"""

import csv
import doctest
import json
import re
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import deep_page
import pages
import pytest

import cmdpax
from cmdpax.experiments.results import write_lines
from cmdpax.learning.config import TrainConfig
from cmdpax.paper import deep_tables
from cmdpax.paper.deep_study import DeepStudy

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
    reference = (tmp_path / "api.html").read_text()
    modules = {"environments", "utilities", "methods"}  # and a mapping
    for name in set(cmdpax.__all__) - modules:
        assert f'id="cmdpax.{name}"' in reference, name


def test_the_page_of_the_deep_study_is_what_the_records_make():
    page = (DOCS / "reproduction-deep.md").read_text()
    assert deep_page.filled(page) == page
    assert page.count("<!-- records: ") == page.count("<!-- end -->") == 10


def test_the_page_says_by_itself_how_much_of_the_study_there_is(tmp_path):
    """Half-way, where new records have replaced some of the old ones, and others are not there."""
    for name in ("Hopper-cpo-0", "Hopper-cpo-1", "Ant-spma-alm-2"):
        shutil.copytree(DOCS.parent / "results" / "deep" / name, tmp_path / name)
    today = asdict(TrainConfig(method="cpo", seed=0, samples=10_000_000).resolved(1_000))
    config = tmp_path / "Hopper-cpo-0" / "config.json"
    config.write_text(json.dumps({"environment": "SafetyHopperVelocity-v1", **today}))
    deep_tables.write_tables(DeepStudy(tmp_path), tmp_path, DeepStudy(tmp_path / "none"))
    made = deep_page.blocks(tmp_path)
    assert "3 of 60 runs of 10e6 samples, 0 to 2 of 5 seeds in every cell" in made["summary"]
    assert "2 of the runs were made before them" in made["summary"]
    assert "SPMA-ALM not run, PPO-ALM not run; the paper's best" in made["summary"]
    assert "every mean of ten episodes in 2 of 12 cells" in made["summary"]
    assert "no seed has finished in every cell yet" in made["summary"]
    rows = [line.split(" | ")[:3] for line in made["cells"].splitlines()[2:]]
    seeds = {row[0].strip("| "): row[1] for row in rows}
    assert len(rows) == 12 and seeds.pop("Hopper, CPO *") == "2 of 5"
    assert seeds.pop("Ant, SPMA-ALM *") == "1 of 5"
    assert set(seeds.values()) == {"0 of 5"} and rows[1][2] == "not run"
    lost = {"task": "Hopper", "method": "cpo", "seed": 0, "failed": "not finite"}
    write_lines(tmp_path / "two-limits" / "failed.jsonl", {"kind": "header"}, [lost])
    assert deep_page.state(tmp_path, "two-limits") == "1 of 16 runs (1 of them failed)"
    nothing = tmp_path / "nothing"
    deep_tables.write_tables(DeepStudy(nothing), nothing, DeepStudy(nothing))
    assert deep_page.blocks(nothing)["summary"] == "- **What was run**: nothing yet."


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
